//! The registry's interface to this protocol.

use std::sync::Arc;

use glidepath_env::Env;
use glidepath_model::{Root, Version};

use super::audit::every_place_written;
use super::{AppendLog, Limits, SharedState, Snapshot};
use crate::afterwards::{Made, Write, changed};
use crate::catalog::{LoadError, Outcome};
use crate::mutant::{self, Mutant};
use crate::registry::{Creation, Design, Settings};
use crate::upkeep::{Changed, Facts, Keep, Removed, Report, VacuumError, changed as changed_names};

/// The protocol: records in a log.
pub enum Log {}

impl Design for Log {
    const NAME: &'static str = "append-log";
    const TRACES: &'static [&'static str] = &["log/checkpoint/", "log/log/", "log/head"];
    const APPENDS: bool = true;
    const KEEPS_OLD: bool = true;
    const VERSION_PER_REQUEST: bool = true;

    type Snapshot = Snapshot;
    type SharedState = SharedState;
    type Catalog<E: Env> = AppendLog<E>;

    fn shared_state(prefix: &str, settings: &Settings) -> SharedState {
        let usual = Limits::default();
        let records = settings.test_limits.map_or(usual.records, |number| 3 + u64::from(number % 4));
        SharedState::new(&format!("{prefix}log"), Limits { records, ..usual })
    }

    fn open<E: Env>(env: E, store: E::Objects, shared_state: Arc<SharedState>) -> AppendLog<E> {
        AppendLog::new(env, store, shared_state)
    }

    fn create<E: Env>(catalog: &AppendLog<E>, creation: Creation) -> impl Future<Output = Outcome<Snapshot>> {
        catalog.create(creation.tables)
    }

    fn facts(at: &Snapshot) -> Facts {
        Facts::of(at.commit())
    }

    fn oldest<E: Env>(catalog: &AppendLog<E>, _: &Snapshot) -> impl Future<Output = Result<Version, LoadError>> {
        catalog.oldest_kept()
    }

    fn version_at<E: Env>(
        catalog: &AppendLog<E>,
        version: Version,
    ) -> impl Future<Output = Result<Option<Snapshot>, LoadError>> {
        catalog.version_at(mutant::version_read(version))
    }

    async fn changed<E: Env>(
        _: &AppendLog<E>,
        before: Option<&Snapshot>,
        now: &Snapshot,
        limit: usize,
    ) -> Result<Vec<Changed>, LoadError> {
        let mut changed = changed_names(before.map(Snapshot::root).as_ref(), &now.root(), limit);
        changed.retain(|changed| changed.now.is_some() || !mutant::is(Mutant::RemovalsUntold));
        Ok(changed)
    }

    fn vacuum<E: Env>(catalog: &AppendLog<E>, keep: Keep) -> impl Future<Output = Result<Removed, VacuumError>> {
        catalog.vacuum_versions(keep)
    }

    async fn fsck<E: Env>(catalog: &AppendLog<E>, mend: bool) -> Result<Report, LoadError> {
        catalog.fsck(mend).await.map(mutant::report)
    }

    fn versions(shared_state: SharedState, writes: &[Write]) -> Result<Vec<Made>, String> {
        let (mut before, mut versions) = (Root::empty(), Vec::new());
        for (placed, write) in every_place_written(shared_state, writes)? {
            let now = placed.version.root();
            versions.push(Made {
                version: placed.version.version(),
                write,
                commit: None,
                changed: changed(&before, &now),
            });
            before = now;
        }
        Ok(versions)
    }
}
