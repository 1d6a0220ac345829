//! The registry's interface to this protocol.

use std::sync::Arc;

use glidepath_env::{Env, Key};
use glidepath_model::Root;

use super::{CatalogFile, File, SharedState, Snapshot};
use crate::afterwards::{Made, Write, changed};
use crate::catalog::{LoadError, Outcome};
use crate::mutant;
use crate::registry::{Creation, Design, Settings};
use crate::upkeep::{Facts, Report, look_at_newest};

/// The protocol: the whole catalog in one object.
pub enum OneFile {}

impl Design for OneFile {
    const NAME: &'static str = "catalog-file";
    const TRACES: &'static [&'static str] = &["catalog"];
    const HOLDS_METADATA: bool = true;
    const SHARES: bool = false;

    type Snapshot = Snapshot;
    type SharedState = SharedState;
    type Catalog<E: Env> = CatalogFile<E>;

    fn shared_state(prefix: &str, settings: &Settings) -> SharedState {
        SharedState::new(Key::new(&format!("{prefix}catalog")), settings.metadata_per_table)
    }

    fn open<E: Env>(env: E, store: E::Objects, shared_state: Arc<SharedState>) -> CatalogFile<E> {
        CatalogFile::new(env, store, shared_state)
    }

    fn create<E: Env>(catalog: &CatalogFile<E>, creation: Creation) -> impl Future<Output = Outcome<Snapshot>> {
        catalog.create(creation.tables)
    }

    fn facts(at: &Snapshot) -> Facts {
        Facts::of(at.root().commit)
    }

    async fn fsck<E: Env>(catalog: &CatalogFile<E>, _: bool) -> Result<Report, LoadError> {
        look_at_newest::<Self, E>(catalog, catalog.shared_state.key.clone()).await.map(mutant::report)
    }

    /// Each write of the object is a version.
    fn versions(shared_state: SharedState, writes: &[Write]) -> Result<Vec<Made>, String> {
        let (mut before, mut versions) = (Root::empty(), Vec::new());
        for (number, write) in writes.iter().enumerate().filter(|(_, write)| write.key == shared_state.key) {
            let object = write.object.as_ref().ok_or("the catalog was deleted")?;
            let file = File::decode(&object.bytes).map_err(|error| error.to_string())?;
            let now = file.root().clone();
            versions.push(Made { version: now.version, write: number, commit: None, changed: changed(&before, &now) });
            before = now;
        }
        Ok(versions)
    }
}
