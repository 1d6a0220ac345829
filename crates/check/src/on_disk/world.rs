//! The environment of a process whose catalog is in files on a simulated disk.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use glidepath_env::{
    Appended, Body, Capabilities, DeleteError, Env, Guard, Key, ListPage, Metadata, Object, ObjectStore, Payload,
    Purpose, PutError, ReadError, Tag,
};
use glidepath_files::FileStore;
use glidepath_model::{Instant, Span};
use glidepath_sim::{SimEnv, SimFiles};

use crate::run::World;

/// A process. Its clock and the time of day continue from those before the power cut.
#[derive(Clone)]
pub(super) struct DiskEnv {
    pub(super) sim: SimEnv,
    /// When the machine started.
    pub(super) began: Span,
    /// The latest moment at which any process looked at its clock.
    pub(super) latest: Rc<Cell<Span>>,
}

impl Env for DiskEnv {
    type Objects = DiskStore;

    fn now(&self) -> Instant {
        let now = self.sim.now() + self.began;
        self.latest.set(self.latest.get().max(now.since(Instant::ZERO)));
        now
    }

    fn unix_ms(&self) -> u64 {
        self.sim.unix_ms() + self.began.as_nanos() / 1_000_000
    }

    async fn sleep_until(&self, at: Instant) {
        self.sim.sleep_until(Instant::from_nanos(at.as_nanos().saturating_sub(self.began.as_nanos()))).await;
    }

    fn draw(&self, purpose: Purpose) -> u64 {
        self.sim.draw(purpose)
    }
}

impl World for DiskEnv {
    fn world_now(&self) -> Instant {
        self.now()
    }
}

/// One process's handle on a store.
#[derive(Clone)]
pub(super) struct DiskStore(pub(super) Rc<FileStore<SimFiles>>);

impl ObjectStore for DiskStore {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities()
    }

    async fn get(&self, key: &Key) -> Result<Object, ReadError> {
        self.0.get(key).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Object, ReadError> {
        self.0.get_range(key, range).await
    }

    async fn head(&self, key: &Key) -> Result<Metadata, ReadError> {
        self.0.head(key).await
    }

    async fn put(&self, key: &Key, body: impl Body, guard: Guard) -> Result<Tag, PutError> {
        self.0.put(key, body, guard).await
    }

    async fn append(&self, key: &Key, payload: Payload, offset: u64) -> Result<Appended, PutError> {
        self.0.append(key, payload, offset).await
    }

    async fn list(&self, prefix: &Key, after: Option<&Key>, limit: usize) -> Result<ListPage, ReadError> {
        self.0.list(prefix, after, limit).await
    }

    async fn delete(&self, key: &Key) -> Result<(), DeleteError> {
        self.0.delete(key).await
    }
}
