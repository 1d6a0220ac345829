//! What the registry needs of this protocol.

use std::sync::Arc;

use glidepath_env::{Cause, Env};
use glidepath_model::{CommitId, Root};

use super::audit::every_place_written;
use super::{AppendLog, Limits, Place, Snapshot};
use crate::afterwards::{Made, Write, changed};
use crate::catalog::Outcome;
use crate::registry::{Creation, Design, Settings};

/// The protocol: records in a log.
pub enum Log {}

/// Segments that stay at least, whoever cleans up.
const KEPT: u64 = 2;

impl Design for Log {
    const NAME: &'static str = "append-log";
    const APPENDS: bool = true;
    const VERSION_PER_REQUEST: bool = true;

    type Snapshot = Snapshot;
    type Place = Place;
    type Catalog<E: Env> = AppendLog<E>;

    fn place(prefix: &str, settings: &Settings) -> Place {
        let usual = Limits::default();
        let records = settings.tiny.map_or(usual.records, |number| 3 + u64::from(number % 4));
        Place::new(&format!("{prefix}log"), Limits { records, ..usual })
    }

    fn open<E: Env>(env: E, store: E::Objects, place: Arc<Place>) -> AppendLog<E> {
        AppendLog::new(env, store, place)
    }

    fn create<E: Env>(catalog: &AppendLog<E>, creation: Creation) -> impl Future<Output = Outcome<Snapshot>> {
        catalog.create(creation.tables)
    }

    fn commit_of(at: &Snapshot) -> CommitId {
        at.commit()
    }

    async fn clean<E: Env>(catalog: &AppendLog<E>) -> Result<(), Cause> {
        catalog.vacuum(KEPT).await.map(drop).map_err(Cause::from_error)
    }

    fn versions(place: Place, writes: &[Write]) -> Result<Vec<Made>, String> {
        let (mut before, mut versions) = (Root::empty(), Vec::new());
        for (placed, write) in every_place_written(place, writes)? {
            let now = placed.version.root();
            versions.push(Made { version: placed.version.version(), write, changed: changed(&before, &now) });
            before = now;
        }
        Ok(versions)
    }
}
