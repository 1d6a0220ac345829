//! Objects of `file:///directory`, through `glidepath_files` on the file system of this machine.
//!
//! File operations run on tokio's pool for blocking work, and writes wait for their turn with its timer, so the store
//! needs a tokio runtime with both. A write whose future was polled once runs to its end, also if that future is
//! dropped, or never polled again. Reads whose files the kernel has in memory are answered at once (see `cached.rs`).

#[cfg(target_os = "linux")]
mod cached;
mod footprint;
mod machine;

use std::future::Future;
use std::ops::Range;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub use glidepath_files::Durability;

use glidepath_env::{
    Appended, Body, Capabilities, Cause, DeleteError, Denial, Files, Guard, Key, ListPage, Metadata, Object,
    ObjectStore, Payload, PutError, ReadError, Tag,
};
use glidepath_files::{FileStore, LONGEST_WAIT};
use tokio::sync::{Mutex, Semaphore};
use tokio::task::{JoinError, spawn_blocking};
use url::Url;

use crate::open::OpenError;
pub use footprint::Footprint;
use machine::Machine;

/// A store on local disk. Clones share open files.
#[derive(Clone, Debug)]
pub struct LocalStore(Arc<Open>);

/// How many writes of a store are under way at once: a quarter of the threads that tokio has for work that may block.
/// The others wait in line.
const WRITES: usize = 128;

/// Removes unfinished files when it is dropped.
#[derive(Debug)]
struct Open {
    store: FileStore<Machine>,
    /// For each lock, whose turn it is among the writers of this store.
    turns: Vec<Arc<Mutex<()>>>,
    /// Permits for writes.
    writes: Arc<Semaphore>,
    #[cfg(target_os = "linux")]
    cached: FileStore<cached::Cached>,
}

impl Open {
    /// What a read returns, if that can be said without waiting for a disk.
    #[cfg(target_os = "linux")]
    fn read_at_once(&self, key: &Key, range: &Range<u64>) -> Option<Result<Object, ReadError>> {
        match found(&self.cached, at_once(self.cached.get_range(key, range.clone()))) {
            // Also what is wrong with the object, or with the folder, is found out by a read that may wait.
            Err(ReadError::Failed(_)) => None,
            read => Some(read),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn read_at_once(&self, _: &Key, _: &Range<u64>) -> Option<Result<Object, ReadError>> {
        None
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        at_once(self.store.close());
    }
}

impl LocalStore {
    /// Opens the store in a directory, which is created if it does not exist, and removes the unfinished files of
    /// processes that ended.
    ///
    /// # Errors
    /// An error of the file system, for example that the directory may not be written to.
    pub fn new(directory: impl Into<PathBuf>, durability: Durability) -> std::io::Result<Self> {
        let directory = directory.into();
        let store = at_once(FileStore::open(Machine, &directory, durability))?;
        Ok(Self(Arc::new(Open {
            #[cfg(target_os = "linux")]
            cached: store.reading_with(cached::Cached),
            turns: (0..=u8::MAX).map(|_| Arc::default()).collect(),
            writes: Arc::new(Semaphore::new(WRITES)),
            store,
        })))
    }

    pub(crate) fn open(url: &Url) -> Result<Self, OpenError> {
        let (directory, durability) = Self::named(url)?;
        Self::new(&directory, durability).map_err(|error| {
            let why = format!("the directory cannot be used as a store: {error}");
            OpenError::Unusable { url: url.to_string(), why }
        })
    }

    /// Whether there is a store in the directory, perhaps an empty one. Creates nothing.
    pub(crate) fn is_there(url: &Url) -> Result<bool, OpenError> {
        let (directory, _) = Self::named(url)?;
        directory.join("objects").try_exists().map_err(|error| {
            let why = format!("the directory {} cannot be read: {error}", directory.display());
            OpenError::Unusable { url: url.to_string(), why }
        })
    }

    /// What a URL says.
    pub(crate) fn named(url: &Url) -> Result<(PathBuf, Durability), OpenError> {
        let wrong = |why: &str| OpenError::Url { url: url.to_string(), why: why.to_owned() };
        let directory = url.to_file_path();
        let directory =
            directory.map_err(|()| wrong("a directory is written with three slashes, file:///directory"))?;
        if directory.as_os_str().as_encoded_bytes().contains(&0) {
            return Err(wrong("no name of a directory has the character %00"));
        }
        if directory.parent().is_none() {
            return Err(wrong("that is the root of all folders: name a folder in it, such as file:///tmp/lake"));
        }
        let mut durability = Durability::Fsync;
        for (name, value) in url.query_pairs() {
            durability = match (&*name, &*value) {
                ("durability", "fsync") => Durability::Fsync,
                ("durability", "none") => Durability::None,
                _ => return Err(wrong("the only parameter is durability=fsync (the default) or durability=none")),
            };
        }
        Ok((directory, durability))
    }

    /// A write under a key, on a thread of the pool. It may wait for others at the key's lock: for those of this store
    /// in line and without a thread, because threads are for reads too. One that has waited too long is refused. A task
    /// of its own waits and writes, because a caller that is never polled again would keep the turns of others.
    async fn write<T: Send + 'static>(
        &self,
        key: &Key,
        act: impl FnOnce(&FileStore<Machine>) -> T + Send + 'static,
    ) -> Result<T, NotWritten> {
        let (this, key) = (self.clone(), key.clone());
        let task = tokio::spawn(async move {
            let (turn, writes) = (&this.0.turns[usize::from(FileStore::<Machine>::lock_of(&key))], &this.0.writes);
            let wait = async { (Arc::clone(turn).lock_owned().await, Arc::clone(writes).acquire_owned().await) };
            let longest = Duration::from_nanos(LONGEST_WAIT.as_nanos());
            let Ok(both) = tokio::time::timeout(longest, wait).await else {
                return Err(NotWritten::Refused(this.0.store.held_too_long(&key)));
            };
            let done = this.act(move |store| {
                let _both = both;
                act(store)
            });
            done.await.map_err(NotWritten::of)
        });
        task.await.map_err(|error| NotWritten::Unknown(Cause::from_error(error)))?
    }

    /// Work on a thread of the pool.
    async fn act<T: Send + 'static>(
        &self,
        act: impl FnOnce(&FileStore<Machine>) -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        let open = Arc::clone(&self.0);
        spawn_blocking(move || act(&open.store)).await
    }
}

/// Runs a blocking future on the current thread.
fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("calls to the file system of this machine are done when they return"),
    }
}

impl ObjectStore for LocalStore {
    fn capabilities(&self) -> Capabilities {
        self.0.store.capabilities()
    }

    async fn get(&self, key: &Key) -> Result<Object, ReadError> {
        self.get_range(key, 0..u64::MAX).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Object, ReadError> {
        if let Some(read) = self.0.read_at_once(key, &range) {
            return read;
        }
        let key = key.clone();
        self.act(move |store| found(store, at_once(store.get_range(&key, range)))).await.map_err(not_read)?
    }

    async fn head(&self, key: &Key) -> Result<Metadata, ReadError> {
        let key = key.clone();
        self.act(move |store| found(store, at_once(store.head(&key)))).await.map_err(not_read)?
    }

    async fn put(&self, key: &Key, body: impl Body, guard: Guard) -> Result<Tag, PutError> {
        let (own, payload) = (key.clone(), body.into_payload());
        self.write(key, move |store| at_once(store.put(&own, payload, guard))).await?
    }

    async fn append(&self, key: &Key, payload: Payload, offset: u64) -> Result<Appended, PutError> {
        let own = key.clone();
        self.write(key, move |store| at_once(store.append(&own, payload, offset))).await?
    }

    async fn list(&self, prefix: &Key, after: Option<&Key>, limit: usize) -> Result<ListPage, ReadError> {
        let (prefix, after) = (prefix.clone(), after.cloned());
        let list = move |store: &FileStore<Machine>| found(store, at_once(store.list(&prefix, after.as_ref(), limit)));
        self.act(list).await.map_err(not_read)?
    }

    async fn delete(&self, key: &Key) -> Result<(), DeleteError> {
        let own = key.clone();
        self.write(key, move |store| at_once(store.delete(&own))).await?
    }
}

/// What a read found. It says something of the store only if its folder is in place.
fn found<F: Files, T>(store: &FileStore<F>, read: Result<T, ReadError>) -> Result<T, ReadError> {
    at_once(store.is_in_place()).map_err(|error| ReadError::Failed(Cause::from_error(error)))?;
    read
}

pub(crate) fn not_read(error: JoinError) -> ReadError {
    ReadError::Failed(Cause::from_error(error))
}

/// A write that has no result.
pub(crate) enum NotWritten {
    Refused(Denial),
    Unknown(Cause),
}

impl NotWritten {
    /// Work on the pool cannot be cancelled once it has begun.
    pub(crate) fn of(error: JoinError) -> Self {
        match error.is_cancelled() {
            true => Self::Refused(Denial::certain(Cause::from_error(error)).passing()),
            false => Self::Unknown(Cause::from_error(error)),
        }
    }
}

impl From<NotWritten> for PutError {
    fn from(not: NotWritten) -> Self {
        match not {
            NotWritten::Refused(denial) => Self::Refused(denial),
            NotWritten::Unknown(cause) => Self::Unknown(cause),
        }
    }
}

impl From<NotWritten> for DeleteError {
    fn from(not: NotWritten) -> Self {
        match not {
            NotWritten::Refused(denial) => Self::Refused(denial.cause),
            NotWritten::Unknown(cause) => Self::Unknown(cause),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    /// One that is stuck holds up those of its lock, but not for ever, and no others.
    #[tokio::test(start_paused = true)]
    async fn who_waits_too_long_in_line_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let store = LocalStore::new(directory.path(), Durability::None).unwrap();
        let (key, payload) = (Key::new("object"), || Payload::from(bytes::Bytes::from_static(b"content")));
        let lock = FileStore::<Machine>::lock_of(&key);
        let stuck = Arc::clone(&store.0.turns[usize::from(lock)]).lock_owned().await;
        let refused = store.put(&key, payload(), Guard::None).await.unwrap_err();
        let PutError::Refused(denial) = refused else { panic!("{refused}") };
        assert!(denial.certain && !denial.passing && denial.to_string().contains("locks/"), "{denial}");
        assert!(matches!(store.append(&key, payload(), 0).await, Err(PutError::Refused(_))));
        assert!(matches!(store.delete(&key).await, Err(DeleteError::Refused(_))));
        let other = (0..).map(|number| Key::new(&format!("object-{number}")));
        let other = other.into_iter().find(|other| FileStore::<Machine>::lock_of(other) != lock).unwrap();
        store.put(&other, payload(), Guard::None).await.unwrap();
        drop(stuck);
        store.put(&key, payload(), Guard::None).await.unwrap();
    }
}
