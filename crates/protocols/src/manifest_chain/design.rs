//! The registry's interface to this protocol.

use std::sync::Arc;

use glidepath_env::Env;
use glidepath_model::{Changes, Edit, Version};

use super::{Layout, ManifestChain, SharedState, Sizes, Snapshot, upkeep};
use crate::afterwards::{Frozen, Made, Write, at_once, first_written};
use crate::catalog::{Catalog, LoadError, Outcome};
use crate::mutant;
use crate::registry::{Creation, Design, Settings};
use crate::upkeep::{Changed, Facts, Keep, Removed, Report, VacuumError};

/// The protocol: a chain of versions.
pub enum Chain {}

/// Bytes of pages kept in memory.
const CACHED_BYTES: usize = 64 << 20;

impl Design for Chain {
    const NAME: &'static str = "manifest-chain";
    const TRACES: &'static [&'static str] = &["versions/", "packs/", "hint"];
    const TELLS_OWN_VERSION: bool = true;
    const KEEPS_TIMES: bool = true;
    const KEEPS_OLD: bool = true;
    const LAYOUTS: &'static [Layout] = &[Layout::Paged, Layout::Whole];

    type Snapshot = Snapshot;
    type SharedState = SharedState;
    type Catalog<E: Env> = ManifestChain<E>;

    fn shared_state(prefix: &str, settings: &Settings) -> SharedState {
        let shared_state = SharedState::new(prefix, CACHED_BYTES);
        match settings.test_limits {
            None => shared_state,
            // Trees of several levels; every second process puts all its pages into packs.
            Some(number) => tiny(shared_state.pages_of(256 << (number % 3)), number.is_multiple_of(2)),
        }
    }

    fn open<E: Env>(env: E, store: E::Objects, shared_state: Arc<SharedState>) -> ManifestChain<E> {
        ManifestChain::new(env, store, shared_state)
    }

    async fn create<E: Env>(catalog: &ManifestChain<E>, creation: Creation) -> Outcome<Snapshot> {
        let created = catalog.create(creation.layout, creation.indexed).await;
        let empty = match created {
            Outcome::Committed(empty) if !creation.tables.is_empty() => empty,
            other => return other,
        };
        let mut changes = Changes::default();
        for (id, state) in creation.tables {
            changes.set(id, Edit::Create(state));
        }
        catalog.commit(&empty, &changes).await
    }

    fn facts(at: &Snapshot) -> Facts {
        upkeep::facts(at)
    }

    async fn oldest<E: Env>(_: &ManifestChain<E>, newest: &Snapshot) -> Result<Version, LoadError> {
        Ok(newest.oldest_kept())
    }

    fn version_at<E: Env>(
        catalog: &ManifestChain<E>,
        version: Version,
    ) -> impl Future<Output = Result<Option<Snapshot>, LoadError>> {
        catalog.version_at(mutant::version_read(version))
    }

    fn changed<E: Env>(
        catalog: &ManifestChain<E>,
        before: Option<&Snapshot>,
        now: &Snapshot,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Changed>, LoadError>> {
        catalog.changed(before, now, limit)
    }

    fn vacuum<E: Env>(catalog: &ManifestChain<E>, keep: Keep) -> impl Future<Output = Result<Removed, VacuumError>> {
        upkeep::vacuum(catalog, keep)
    }

    async fn fsck<E: Env>(catalog: &ManifestChain<E>, mend: bool) -> Result<Report, LoadError> {
        upkeep::fsck(catalog, mend).await.map(mutant::report)
    }

    /// Versions are never overwritten.
    fn versions(shared_state: SharedState, writes: &[Write]) -> Result<Vec<Made>, String> {
        let world = Frozen::of(first_written(writes));
        let chain = ManifestChain::new(world.clone(), world, Arc::new(shared_state));
        let broken = |error: LoadError| error.to_string();
        let (mut before, mut versions) = (None, Vec::new());
        for at in at_once(chain.every_version()).map_err(broken)? {
            let changed = at_once(chain.changed(before.as_ref(), &at, usize::MAX)).map_err(broken)?;
            let key = chain.shared_state.keys.version(at.version());
            let write = writes.iter().position(|write| write.key == key).unwrap_or(0);
            let changed = changed.into_iter().map(|changed| (changed.name, changed.now)).collect();
            versions.push(Made { version: at.version(), write, commit: None, changed });
            before = Some(at);
        }
        Ok(versions)
    }
}

/// Blocks of a few rows.
fn tiny(shared_state: SharedState, large_parts: bool) -> SharedState {
    match large_parts {
        true => shared_state.whole_sized(Sizes { block_bytes: 8 << 10, ..Sizes::default() }),
        false => shared_state.inline_up_to(0).whole_sized(Sizes { block_bytes: 4 << 10, part_bytes: 1 }),
    }
}
