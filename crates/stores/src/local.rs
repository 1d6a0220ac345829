//! How is a store kept on local disk, so that any number of threads and processes may write to it at once and a crash at
//! any point leaves each object as it was or as it was to be?
//!
//! Every write holds the lock of its key while it looks at the guard and takes effect. A put takes effect by the rename
//! of a whole, durable file; an append by the switch of a slot in the object's file (see `file`). Readers take no lock.
//! The page on this store in the documentation goes through every point at which a crash may come.
//!
//! File operations run on tokio's pool for blocking work, so the store needs a tokio runtime. An operation that has begun
//! there runs to its end also when its future is dropped.

mod act;
mod file;
mod folders;
mod list;
mod names;

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use glidepath_env::{
    Appended, Body, Capabilities, Cause, DeleteError, Denial, Guard, Key, Metadata, Object, ObjectStore, Page, Payload,
    PutError, ReadError, Tag,
};
use tokio::task::{JoinError, spawn_blocking};
use url::Url;

use crate::open::OpenError;
use folders::Folders;

/// A store on local disk. Clones share what is open.
#[derive(Clone, Debug)]
pub struct LocalStore(Arc<Folders>);

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process, and the loss of power.
    Fsync,
    /// The end of the process only. For tests.
    None,
}

impl LocalStore {
    /// Opens the store in a directory, which is made where there is none, and removes what processes that died left
    /// unfinished in it.
    ///
    /// # Errors
    /// What the file system says, for instance that the directory may not be written to.
    pub fn new(directory: impl Into<PathBuf>, durability: Durability) -> std::io::Result<Self> {
        let folders = Folders::open(&directory.into(), durability == Durability::Fsync)?;
        Ok(Self(Arc::new(folders)))
    }

    pub(crate) fn open(url: &Url) -> Result<Self, OpenError> {
        let wrong = |why: &str| OpenError::Url { url: url.to_string(), why: why.to_owned() };
        let directory = url.to_file_path();
        let directory =
            directory.map_err(|()| wrong("a directory is written with three slashes, file:///directory"))?;
        let mut durability = Durability::Fsync;
        for (name, value) in url.query_pairs() {
            durability = match (&*name, &*value) {
                ("durability", "fsync") => Durability::Fsync,
                ("durability", "none") => Durability::None,
                _ => return Err(wrong("the only parameter is durability=fsync (the default) or durability=none")),
            };
        }
        Self::new(&directory, durability).map_err(|error| {
            let why = format!("the directory cannot be used as a store: {error}");
            OpenError::Unusable { url: url.to_string(), why }
        })
    }

    async fn act<T: Send + 'static>(&self, act: impl FnOnce(&Folders) -> T + Send + 'static) -> Result<T, JoinError> {
        let folders = Arc::clone(&self.0);
        spawn_blocking(move || act(&folders)).await
    }
}

impl ObjectStore for LocalStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { put_if_absent: true, put_if_match: true, append: true, delivers_once: true }
    }

    async fn get(&self, key: &Key) -> Result<Object, ReadError> {
        self.get_range(key, 0..u64::MAX).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Object, ReadError> {
        let key = key.clone();
        self.act(move |folders| act::get(folders, &key, range)).await.map_err(not_read)?
    }

    async fn head(&self, key: &Key) -> Result<Metadata, ReadError> {
        let key = key.clone();
        self.act(move |folders| act::head(folders, &key)).await.map_err(not_read)?
    }

    async fn put(&self, key: &Key, body: impl Body, guard: Guard) -> Result<Tag, PutError> {
        let (key, payload) = (key.clone(), body.into_payload());
        self.act(move |folders| act::put(folders, &key, &payload, &guard)).await.map_err(not_written)?
    }

    async fn append(&self, key: &Key, payload: Payload, offset: u64) -> Result<Appended, PutError> {
        let key = key.clone();
        self.act(move |folders| act::append(folders, &key, &payload, offset)).await.map_err(not_written)?
    }

    async fn list(&self, prefix: &Key, after: Option<&Key>, limit: usize) -> Result<Page, ReadError> {
        let (prefix, after) = (prefix.clone(), after.cloned());
        self.act(move |folders| list::list(folders, &prefix, after.as_ref(), limit)).await.map_err(not_read)?
    }

    async fn delete(&self, key: &Key) -> Result<(), DeleteError> {
        let key = key.clone();
        self.act(move |folders| act::delete(folders, &key)).await.map_err(|error| match error.is_cancelled() {
            true => DeleteError::Refused(Cause::from_error(error)),
            false => DeleteError::Unknown(Cause::from_error(error)),
        })?
    }
}

fn not_read(error: JoinError) -> ReadError {
    ReadError::Failed(Cause::from_error(error))
}

/// Work on the pool cannot be cancelled once it has begun.
fn not_written(error: JoinError) -> PutError {
    match error.is_cancelled() {
        true => PutError::Refused(Denial::certain(Cause::from_error(error)).passing()),
        false => PutError::Unknown(Cause::from_error(error)),
    }
}
