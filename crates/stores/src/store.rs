//! One type for all live stores, so that each protocol is compiled only once for live use.

use std::ops::Range;

use glidepath_env::{
    Appended, Body, Capabilities, DeleteError, Guard, Key, ListPage, Metadata, Object, ObjectStore, Payload, PutError,
    ReadError, Tag,
};
use glidepath_model::Span;

use crate::cloud::CloudStore;
use crate::local::LocalStore;
use crate::memory::MemoryStore;
use crate::plain::PlainStore;
use crate::rows::RowStore;
use crate::slow::SlowStore;

/// A live store. Clones share connections, counters and limits.
#[derive(Clone, Debug)]
pub enum Store {
    /// In this process.
    Memory(MemoryStore),
    /// On local disk.
    Local(LocalStore),
    /// Plain files on local disk.
    Plain(PlainStore),
    /// In a cloud.
    Cloud(CloudStore),
    /// In a key-value store.
    Rows(RowStore),
    /// One of these, with time added to each request.
    Slow(SlowStore),
}

/// The same call on each kind of store.
macro_rules! each {
    ($self:ident, $store:ident => $call:expr) => {
        match $self {
            Store::Memory($store) => $call,
            Store::Local($store) => $call,
            Store::Plain($store) => $call,
            Store::Cloud($store) => $call,
            Store::Rows($store) => $call,
            Store::Slow($store) => $call,
        }
    };
}

impl Store {
    /// The same store, with this time added to each request before it is sent; for experiments.
    #[must_use]
    pub fn slower_by(self, added: Span) -> Self {
        if added == Span::ZERO { self } else { Self::Slow(SlowStore::new(self, added)) }
    }

    /// Why it takes no more writes until it is opened again, if so.
    #[must_use]
    pub fn stopped(&self) -> Option<String> {
        match self {
            Self::Rows(store) => store.stopped(),
            Self::Slow(slow) => slow.store().stopped(),
            Self::Memory(_) | Self::Local(_) | Self::Plain(_) | Self::Cloud(_) => None,
        }
    }
}

impl ObjectStore for Store {
    fn capabilities(&self) -> Capabilities {
        each!(self, store => store.capabilities())
    }

    async fn get(&self, key: &Key) -> Result<Object, ReadError> {
        each!(self, store => store.get(key).await)
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Object, ReadError> {
        each!(self, store => store.get_range(key, range).await)
    }

    async fn head(&self, key: &Key) -> Result<Metadata, ReadError> {
        each!(self, store => store.head(key).await)
    }

    fn can_name(&self, key: &Key) -> bool {
        each!(self, store => store.can_name(key))
    }

    async fn is_there(&self, key: &Key) -> Option<bool> {
        match self {
            Self::Plain(store) => store.is_there(key).await,
            _ => None,
        }
    }

    async fn put(&self, key: &Key, body: impl Body, guard: Guard) -> Result<Tag, PutError> {
        // Turned into a payload first: a protocol's body may borrow, but the future of a live store must be `Send`.
        let payload = body.into_payload();
        each!(self, store => store.put(key, payload, guard).await)
    }

    async fn append(&self, key: &Key, payload: Payload, offset: u64) -> Result<Appended, PutError> {
        each!(self, store => store.append(key, payload, offset).await)
    }

    async fn list(&self, prefix: &Key, after: Option<&Key>, limit: usize) -> Result<ListPage, ReadError> {
        each!(self, store => store.list(prefix, after, limit).await)
    }

    async fn list_folder(&self, folder: &Key, after: Option<&Key>, limit: usize) -> Result<ListPage, ReadError> {
        each!(self, store => store.list_folder(folder, after, limit).await)
    }

    async fn delete(&self, key: &Key) -> Result<(), DeleteError> {
        each!(self, store => store.delete(key).await)
    }
}
