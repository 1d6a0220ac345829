//! A process of a run, wherever its catalog is: its clock, its luck and its store.
//!
//! One type for all places, because a protocol is compiled once for each type of environment.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use glidepath_env::{
    Appended, Body, Capabilities, DeleteError, Env, Guard, Key, ListPage, Metadata, Object, ObjectStore, Payload,
    Purpose, PutError, ReadError, RowObjects, Tag,
};
use glidepath_files::FileStore;
use glidepath_model::{Instant, Span};
use glidepath_protocols::LoadError;
use glidepath_protocols::afterwards::Frozen;
use glidepath_protocols::registry::Design;
use glidepath_sim::{SimEnv, SimFiles, SimStore};

use crate::subject::STORE;

/// A process.
#[derive(Clone)]
pub(crate) struct Process {
    clock: Clock,
    store: Place,
}

#[derive(Clone)]
enum Clock {
    /// That of the simulation.
    Simulated(SimEnv),
    /// The same on a machine that started after the first one. It continues the clock and the time of day from before.
    Restarted(SimEnv, Restarted),
    /// After a run, time stands still.
    Stopped,
}

/// When a machine started, and what its processes saw.
#[derive(Clone)]
pub(crate) struct Restarted {
    /// When it started.
    pub(crate) began: Span,
    /// The latest moment at which any process looked at its clock.
    pub(crate) latest: Rc<Cell<Span>>,
}

/// Where the catalog is.
#[derive(Clone)]
pub(crate) enum Place {
    /// In an object store.
    Objects(SimStore),
    /// In the cells of a key-value store.
    Rows(Rc<RowObjects<SimStore>>),
    /// In the files of a disk.
    Files(Rc<FileStore<SimFiles>>),
    /// In objects that nothing changes any more.
    Frozen(Frozen),
}

/// Whether this answer about a catalog that is there and whole is wrong.
pub(crate) fn misleads(error: &LoadError) -> bool {
    match error {
        LoadError::NotFound | LoadError::Undecodable(_) => true,
        LoadError::Failed(_) => false,
    }
}

impl Process {
    /// A process whose catalog is in the object store of a simulation.
    pub(crate) fn new(sim: SimEnv) -> Self {
        let store = Place::Objects(sim.store(STORE));
        Self { clock: Clock::Simulated(sim), store }
    }

    /// A process whose catalog is in cells.
    pub(crate) fn on_rows(sim: SimEnv, rows: RowObjects<SimStore>) -> Self {
        Self { clock: Clock::Simulated(sim), store: Place::Rows(Rc::new(rows)) }
    }

    /// A process whose catalog is in files.
    pub(crate) fn on_disk(sim: SimEnv, restarted: Restarted, files: FileStore<SimFiles>) -> Self {
        Self { clock: Clock::Restarted(sim, restarted), store: Place::Files(Rc::new(files)) }
    }

    /// A new process after the end of a run, which can only read what is there.
    pub(crate) fn afterwards(objects: BTreeMap<Key, Payload>) -> Self {
        Self { clock: Clock::Stopped, store: Place::Frozen(Frozen::of(objects)) }
    }

    /// Its handle to the catalog.
    pub(crate) fn open<D: Design>(&self, shared_state: Arc<D::SharedState>) -> D::Catalog<Self> {
        D::open(self.clone(), self.store.clone(), shared_state)
    }

    /// Its store.
    #[cfg(feature = "serve")]
    pub(crate) fn store(&self) -> &Place {
        &self.store
    }

    /// Its number, counted from 1; 0 after a run.
    pub(crate) fn number(&self) -> u32 {
        match &self.clock {
            Clock::Simulated(sim) | Clock::Restarted(sim, _) => sim.process(),
            Clock::Stopped => 0,
        }
    }

    /// The time by the clock that has no faults.
    pub(crate) fn world_now(&self) -> Instant {
        match &self.clock {
            Clock::Simulated(sim) => sim.world_now(),
            Clock::Restarted(..) | Clock::Stopped => self.now(),
        }
    }
}

impl Env for Process {
    type Objects = Place;

    fn now(&self) -> Instant {
        match &self.clock {
            Clock::Simulated(sim) => sim.now(),
            Clock::Restarted(sim, Restarted { began, latest }) => {
                let now = sim.now() + *began;
                latest.set(latest.get().max(now.since(Instant::ZERO)));
                now
            }
            Clock::Stopped => Instant::ZERO,
        }
    }

    fn unix_ms(&self) -> u64 {
        match &self.clock {
            Clock::Simulated(sim) => sim.unix_ms(),
            Clock::Restarted(sim, restarted) => sim.unix_ms() + restarted.began.as_nanos() / 1_000_000,
            Clock::Stopped => 0,
        }
    }

    async fn sleep_until(&self, at: Instant) {
        match &self.clock {
            Clock::Simulated(sim) => sim.sleep_until(at).await,
            Clock::Restarted(sim, Restarted { began, .. }) => {
                sim.sleep_until(Instant::from_nanos(at.as_nanos().saturating_sub(began.as_nanos()))).await;
            }
            Clock::Stopped => {}
        }
    }

    fn draw(&self, purpose: Purpose) -> u64 {
        match &self.clock {
            Clock::Simulated(sim) | Clock::Restarted(sim, _) => sim.draw(purpose),
            Clock::Stopped => 0,
        }
    }
}

/// A request to whatever store it is. Those that most runs do not have are boxed, so that all futures stay small.
macro_rules! at {
    ($place:expr, $store:ident => $request:expr) => {
        match $place {
            Place::Objects($store) => $request.await,
            Place::Rows($store) => Box::pin($request).await,
            Place::Files($store) => Box::pin($request).await,
            Place::Frozen($store) => $request.await,
        }
    };
}

impl ObjectStore for Place {
    fn capabilities(&self) -> Capabilities {
        match self {
            Self::Objects(store) => store.capabilities(),
            Self::Rows(store) => store.capabilities(),
            Self::Files(store) => store.capabilities(),
            Self::Frozen(store) => store.capabilities(),
        }
    }

    async fn get(&self, key: &Key) -> Result<Object, ReadError> {
        at!(self, store => store.get(key))
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Object, ReadError> {
        at!(self, store => store.get_range(key, range))
    }

    async fn head(&self, key: &Key) -> Result<Metadata, ReadError> {
        at!(self, store => store.head(key))
    }

    async fn is_there(&self, key: &Key) -> Option<bool> {
        at!(self, store => store.is_there(key))
    }

    async fn put(&self, key: &Key, body: impl Body, guard: Guard) -> Result<Tag, PutError> {
        at!(self, store => store.put(key, body, guard))
    }

    async fn append(&self, key: &Key, payload: Payload, offset: u64) -> Result<Appended, PutError> {
        at!(self, store => store.append(key, payload, offset))
    }

    async fn list(&self, prefix: &Key, after: Option<&Key>, limit: usize) -> Result<ListPage, ReadError> {
        at!(self, store => store.list(prefix, after, limit))
    }

    async fn list_folder(&self, folder: &Key, after: Option<&Key>, limit: usize) -> Result<ListPage, ReadError> {
        at!(self, store => store.list_folder(folder, after, limit))
    }

    async fn delete(&self, key: &Key) -> Result<(), DeleteError> {
        at!(self, store => store.delete(key))
    }
}
