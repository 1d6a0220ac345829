//! What do the REST protocols of catalogs mean? Generic over the catalog and the store, so the same code runs live and
//! simulated.
//!
//! A table of Iceberg is an entry of the catalog whose metadata pointer is the location of its metadata file. A commit
//! writes a new file and moves the pointer by compare-and-set; `docs/protocols/server.md` has the steps and the faults.
//! Whatever a service keeps in memory may be lost at any moment, and any number of them may share a catalog.
//!
//! Start with [`Service`], then `commit` (tables) and [`ServiceError`], which says what each failure proves.

mod bodies;
mod browse;
mod claims;
mod cleaning;
mod commit;
mod counts;
mod error;
mod gunzip;
mod keys;
mod lance;
mod leaving;
mod locations;
pub mod mutant;
mod names;
mod namespaces;
mod placing;
mod pointer;
mod purge;
mod reading;
mod registering;
mod sound;
mod table_queues;
mod tables;
#[cfg(test)]
mod tests;
mod transaction;
mod views;
mod warehouse;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use glidepath_env::Env;
use glidepath_model::Span;
use glidepath_protocols::group::{Committer, Grouped, Loads};
use glidepath_protocols::table_turn::{self, Readers, TOGETHER};
use glidepath_table::Files;
use glidepath_table::rebase::Lists;

pub use bodies::{Body, Loaded};
pub use browse::{Child, ChildKind, Filter, Level};
pub use commit::TableCommit;
pub use counts::{ConflictOn, Counts};
pub use error::{Kind, Proof, ServiceError};
pub use keys::{Idempotency, LIFETIME_MS, Operation};
pub use lance::{LanceTable, LanceVersion, MANAGED_VERSIONING, NewLanceTable, NewLanceVersion, VersionPage};
pub use names::{Identifier, RESERVED, SEPARATOR};
pub use namespaces::{Listing, Namespace, NamespaceChange, NamespaceChanged, Page};
pub use purge::Purged;
pub use registering::Registration;
pub use table_queues::Waiting;
pub use tables::NewTable;
pub use views::{NewView, ViewCommit};
pub use warehouse::Warehouse;

/// Manifests in the manifest lists that are kept in memory.
const MOST_MANIFESTS: usize = 200_000;

/// How long others wait for an overwrite that lost: longer than a client needs to wait, to load the table and to
/// validate.
pub const PRIORITY: Span = table_turn::HOLD;

/// Requests for files of one commit that run at once.
const AT_ONCE: usize = 16;

/// The settings of a service.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The location under which new tables get their folders, such as `s3://bucket/lake/tables`.
    pub warehouse: String,
    /// Whether appends are rebased though neither table nor commit asks for it, where the isolation levels allow it.
    pub rebase: bool,
    /// Attempts of a commit that other servers overtake, before it is answered "busy".
    pub attempts: u32,
    /// How long the commits of others to a branch wait at most for the next try of an overwrite that lost, or twice as
    /// long for one over several tables; zero: not at all.
    pub priority: Span,
    /// Bytes of metadata kept in memory.
    pub cache_bytes: u64,
    /// Whether locations that clients give must be in the folder of their own namespace, not anywhere in the warehouse:
    /// then who may write one namespace cannot reach the files of another.
    pub own_folders: bool,
}

impl Settings {
    /// The usual settings for a warehouse.
    #[must_use]
    pub fn of(warehouse: &str) -> Self {
        Self {
            warehouse: warehouse.to_owned(),
            rebase: false,
            attempts: table_turn::ATTEMPTS,
            priority: PRIORITY,
            cache_bytes: 256 << 20,
            own_folders: false,
        }
    }
}

/// A catalog service. Clones share everything.
pub struct Service<E: Env, C: Grouped, F: Files> {
    inner: Arc<Inner<E, C, F>>,
}

impl<E: Env, C: Grouped, F: Files> Clone for Service<E, C, F> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

pub(crate) struct Inner<E: Env, C: Grouped, F: Files> {
    pub(crate) env: E,
    pub(crate) committer: Committer<E, C>,
    pub(crate) loads: Loads<C>,
    pub(crate) files: F,
    pub(crate) settings: Settings,
    pub(crate) bodies: bodies::Bodies,
    pub(crate) table_queues: table_queues::TableQueues,
    pub(crate) lists: Lists,
    /// Commits over several tables that read their files before it is their turn. Nobody waits for them.
    pub(crate) readers: Readers,
    /// Bytes that were read for commits that wait.
    pub(crate) kept_ahead: Arc<AtomicUsize>,
    pub(crate) counts: Arc<Counts>,
}

impl<E: Env, C: Grouped, F: Files> Service<E, C, F> {
    /// A service on a catalog and the files of its tables. `loads` shares requests of readers if a task serves it.
    pub fn new(env: E, committer: Committer<E, C>, loads: Loads<C>, files: F, settings: Settings) -> Self {
        let settings = Settings { attempts: settings.attempts.max(1), ..settings };
        let bodies = bodies::Bodies::new(settings.cache_bytes);
        let inner = Inner {
            env,
            committer,
            loads,
            files,
            settings,
            bodies,
            table_queues: table_queues::TableQueues::default(),
            lists: Lists::new(MOST_MANIFESTS),
            readers: Readers::new(TOGETHER),
            kept_ahead: Arc::default(),
            counts: Arc::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// What happened since the start.
    #[must_use]
    pub fn counts(&self) -> Arc<Counts> {
        Arc::clone(&self.inner.counts)
    }

    /// Tables with commits that are not answered yet, those with the most first.
    #[must_use]
    pub fn waiting(&self) -> Vec<Waiting> {
        self.inner.table_queues.waiting()
    }
}
