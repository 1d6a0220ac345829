//! Files of a warehouse: the object `a/b c` is the file `a/b c` of the directory, so that other programs read and write
//! the same files by their paths.
//!
//! A put writes an unfinished file next to its place (`names::unfinished`), makes it durable, and gives it its name
//! in one step: by a hard link if there must be no such file, otherwise by a rename. So no reader, and no crash, meets
//! half a file. A crash leaves an unfinished file behind, which no listing shows and no key names.
//!
//! Every path is followed folder by folder, through open folders, and no symbolic link below the directory is followed.
//! So no key and no link leads out of the directory, not even while other programs rename folders.
//!
//! Start with [`PlainStore`], then `act`.

mod act;
mod folder;
mod list;
mod names;
#[cfg(test)]
mod tests;
mod unfinished;

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use glidepath_env::{
    Appended, Body, Capabilities, Cause, DeleteError, Denial, Guard, Key, ListPage, Metadata, Object, ObjectStore,
    Payload, PutError, ReadError, Tag,
};
use tokio::task::{JoinError, spawn_blocking};
use url::Url;

use crate::local::{Durability, LocalStore, NotWritten, not_read};
use crate::open::OpenError;
use folder::Root;

/// A store whose objects are plain files. Clones share what they know of folders.
///
/// It needs a tokio runtime: file operations run on its pool for blocking work. An operation that has started there
/// runs to its end even if its future is dropped.
#[derive(Clone, Debug)]
pub struct PlainStore(Arc<Root>);

impl PlainStore {
    /// Opens the store in a directory, which is created if it does not exist.
    ///
    /// # Errors
    /// An error of the file system, for example that the directory may not be read.
    pub fn new(directory: impl AsRef<Path>, durability: Durability) -> std::io::Result<Self> {
        let root = Root::open(directory.as_ref(), durability)?;
        Ok(Self(Arc::new(root)))
    }

    pub(crate) fn open(url: &Url) -> Result<Self, OpenError> {
        let (directory, durability) = LocalStore::named(url)?;
        Self::new(&directory, durability).map_err(|error| {
            let why = format!("the directory {} cannot be used as a warehouse: {error}", directory.display());
            OpenError::Unusable { url: url.to_string(), why }
        })
    }

    async fn act<T: Send + 'static>(&self, act: impl FnOnce(&Root) -> T + Send + 'static) -> Result<T, JoinError> {
        let root = Arc::clone(&self.0);
        spawn_blocking(move || act(&root)).await
    }
}

impl ObjectStore for PlainStore {
    /// A write that reports a failure of a network file system is examined before it is called lost: see
    /// `unfinished.rs`.
    fn capabilities(&self) -> Capabilities {
        Capabilities { put_if_absent: true, put_if_match: false, append: false, delivers_once: true }
    }

    async fn get(&self, key: &Key) -> Result<Object, ReadError> {
        self.get_range(key, 0..u64::MAX).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Object, ReadError> {
        let key = key.clone();
        self.act(move |root| root.get(key.as_str(), range)).await.map_err(not_read)?
    }

    async fn head(&self, key: &Key) -> Result<Metadata, ReadError> {
        let key = key.clone();
        self.act(move |root| root.head(key.as_str())).await.map_err(not_read)?
    }

    fn can_name(&self, key: &Key) -> bool {
        self.0.can_name(key.as_str())
    }

    async fn is_there(&self, key: &Key) -> Option<bool> {
        if self.0.is_known(key.as_str()) {
            return Some(true);
        }
        let key = key.clone();
        self.act(move |root| root.is_there(key.as_str())).await.ok()?
    }

    async fn put(&self, key: &Key, body: impl Body, guard: Guard) -> Result<Tag, PutError> {
        let (key, payload) = (key.clone(), body.into_payload());
        self.act(move |root| root.put(key.as_str(), &payload, &guard)).await.map_err(NotWritten::of)?
    }

    async fn append(&self, key: &Key, _: Payload, _: u64) -> Result<Appended, PutError> {
        let why = format!("{key}: the files of a warehouse cannot be appended to; write another file");
        Err(PutError::Refused(Denial::certain(Cause::words(why))))
    }

    async fn list(&self, prefix: &Key, after: Option<&Key>, limit: usize) -> Result<ListPage, ReadError> {
        let (prefix, after) = (prefix.clone(), after.cloned());
        let list = move |root: &Root| root.list(prefix.as_str(), after.as_ref().map(Key::as_str), limit);
        self.act(list).await.map_err(not_read)?
    }

    async fn delete(&self, key: &Key) -> Result<(), DeleteError> {
        let key = key.clone();
        self.act(move |root| root.delete(key.as_str())).await.map_err(NotWritten::of)?
    }
}
