//! What does a client need of each protocol, and how is a catalog of it filled?

use std::future::Future;
use std::sync::Arc;

use glidepath_env::{Cause, Denial, Env};
use glidepath_protocols::group::{Grouped, Request};
use glidepath_protocols::{Catalog, LoadError, Outcome};

use crate::design::Design;

mod chain;
mod numbered;

pub(crate) use chain::Chain;
pub(crate) use numbered::{File, Log};

/// Names that one listing asks for at most.
pub(crate) const LISTED: usize = 1000;

/// Clients of one catalog, at most: each has numbers of its own.
pub const MOST_CLIENTS: u32 = 2048;

/// Pages that a process keeps at hand, in bytes.
const CACHE_BYTES: usize = 128 << 20;

/// A protocol under load. Entries are numbered; those of the beginning are below [`Cell::rows`](crate::Cell::rows).
pub(crate) trait Subject {
    /// What a process's handles share.
    type Place: Send + Sync + 'static;
    type Catalog<E: Env>: Grouped;

    /// The catalog below this prefix, which ends in `/`.
    fn place(prefix: &str) -> Self::Place;

    fn catalog<E: Env>(env: E, store: E::Objects, place: Arc<Self::Place>) -> Self::Catalog<E>;

    /// Fills an empty place. `progress` is told how many entries there are, and says whether to go on.
    fn fill<E: Env>(
        catalog: &Self::Catalog<E>,
        design: Design,
        rows: u64,
        progress: impl FnMut(u64) -> bool,
    ) -> impl Future<Output = Result<(), FillError>>;

    /// Creates an entry that no other pair of numbers creates, and that is not there at the beginning.
    fn create(rows: u64, writer: u32, number: u64) -> Request;

    /// Whether there is the entry of this number, looked up as a client does who wants to know all about it.
    fn describe<E: Env>(
        catalog: &Self::Catalog<E>,
        at: &Snapshot<Self, E>,
        number: u64,
    ) -> impl Future<Output = Result<bool, LoadError>>;

    /// How many of the first [`LISTED`] entries there are.
    fn list<E: Env>(
        catalog: &Self::Catalog<E>,
        at: &Snapshot<Self, E>,
        rows: u64,
    ) -> impl Future<Output = Result<u64, LoadError>>;
}

pub(crate) type Snapshot<S, E> = <<S as Subject>::Catalog<E> as Catalog>::Snapshot;

/// Why a catalog could not be filled.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FillError {
    /// There is one.
    #[error("there is a catalog already: give an empty place")]
    Taken,
    /// It could not be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The store did not take it.
    #[error("the catalog could not be filled: {0}")]
    Commit(Cause),
    /// Somebody said to stop.
    #[error("stopped before the catalog was filled")]
    Stopped,
}

/// What a creation must come to.
fn created<S>(outcome: Outcome<S>) -> Result<S, FillError> {
    match outcome {
        Outcome::Committed(head) => Ok(head),
        Outcome::Conflict(_) => Err(FillError::Taken),
        Outcome::Refused(Denial { cause, .. }) | Outcome::Unknown(cause) => Err(FillError::Commit(cause)),
    }
}
