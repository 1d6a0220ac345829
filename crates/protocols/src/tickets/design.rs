//! The registry's interface to this protocol.

use std::sync::Arc;

use glidepath_env::Env;

use super::{SharedState, Snapshot, Tickets, audit};
use crate::afterwards::{Made, Write};
use crate::catalog::{LoadError, Outcome};
use crate::mutant;
use crate::registry::{Creation, Design, Settings};
use crate::upkeep::{Facts, Keep, Removed, Report, VacuumError};

/// The protocol: a register per name, no common root.
pub enum PerName {}

impl Design for PerName {
    const NAME: &'static str = "tickets";
    const TRACES: &'static [&'static str] = &["tickets/"];
    const TELLS_OWN_VERSION: bool = true;
    const VERSIONED: bool = false;

    type Snapshot = Snapshot;
    type SharedState = SharedState;
    type Catalog<E: Env> = Tickets<E>;

    fn shared_state(prefix: &str, settings: &Settings) -> SharedState {
        let shared_state = SharedState::new(prefix);
        match settings.test_limits {
            None => shared_state,
            // For a few names at the least; at the most, for more than the slots of most runs have together.
            Some(number) => {
                shared_state.with_roster_bytes(32 << (2 * (number % 4))).with_least_trimmed(1 << (number % 4))
            }
        }
    }

    fn open<E: Env>(env: E, store: E::Objects, shared_state: Arc<SharedState>) -> Tickets<E> {
        Tickets::new(env, store, shared_state)
    }

    fn create<E: Env>(catalog: &Tickets<E>, creation: Creation) -> impl Future<Output = Outcome<Snapshot>> {
        catalog.create(creation.tables)
    }

    fn facts(at: &Snapshot) -> Facts {
        Facts::of(at.commit)
    }

    fn vacuum<E: Env>(catalog: &Tickets<E>, _: Keep) -> impl Future<Output = Result<Removed, VacuumError>> {
        catalog.cleaned()
    }

    async fn fsck<E: Env>(catalog: &Tickets<E>, _: bool) -> Result<Report, LoadError> {
        catalog.checked().await.map(mutant::report)
    }

    /// Each commit point is a version: a slot without an intent, or a record `committed`.
    fn versions(shared_state: SharedState, writes: &[Write]) -> Result<Vec<Made>, String> {
        audit::versions(&shared_state, writes)
    }
}
