//! A store that answers later than it could, for experiments: what would this be on storage that is far away?

use std::ops::Range;
use std::pin::Pin;

use glidepath_env::{
    Appended, Capabilities, DeleteError, Env as _, Guard, Key, ListPage, Metadata, Object, ObjectStore, Payload,
    PutError, ReadError, Tag,
};
use glidepath_model::Span;

use crate::live::LiveEnv;
use crate::store::Store;

/// A request under way. Boxed, because a store cannot contain itself otherwise.
type Asked<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Another store, and what is added to the time of each request, before it is sent.
#[derive(Clone, Debug)]
pub struct SlowStore {
    store: Box<Store>,
    added: Span,
}

impl SlowStore {
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn new(store: Store, added: Span) -> Self {
        Self { store: Box::new(store), added }
    }

    async fn wait(&self) {
        let env = LiveEnv::new();
        env.sleep_until(env.now() + self.added).await;
    }

    pub(crate) fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    pub(crate) fn can_name(&self, key: &Key) -> bool {
        self.store.can_name(key)
    }

    pub(crate) fn get<'a>(&'a self, key: &'a Key) -> Asked<'a, Result<Object, ReadError>> {
        Box::pin(async move {
            self.wait().await;
            self.store.get(key).await
        })
    }

    pub(crate) fn get_range<'a>(&'a self, key: &'a Key, range: Range<u64>) -> Asked<'a, Result<Object, ReadError>> {
        Box::pin(async move {
            self.wait().await;
            self.store.get_range(key, range).await
        })
    }

    pub(crate) fn head<'a>(&'a self, key: &'a Key) -> Asked<'a, Result<Metadata, ReadError>> {
        Box::pin(async move {
            self.wait().await;
            self.store.head(key).await
        })
    }

    pub(crate) fn put<'a>(&'a self, key: &'a Key, payload: Payload, guard: Guard) -> Asked<'a, Result<Tag, PutError>> {
        Box::pin(async move {
            self.wait().await;
            self.store.put(key, payload, guard).await
        })
    }

    pub(crate) fn append<'a>(
        &'a self,
        key: &'a Key,
        payload: Payload,
        offset: u64,
    ) -> Asked<'a, Result<Appended, PutError>> {
        Box::pin(async move {
            self.wait().await;
            self.store.append(key, payload, offset).await
        })
    }

    pub(crate) fn list<'a>(
        &'a self,
        prefix: &'a Key,
        after: Option<&'a Key>,
        limit: usize,
    ) -> Asked<'a, Result<ListPage, ReadError>> {
        Box::pin(async move {
            self.wait().await;
            self.store.list(prefix, after, limit).await
        })
    }

    pub(crate) fn list_folder<'a>(
        &'a self,
        folder: &'a Key,
        after: Option<&'a Key>,
        limit: usize,
    ) -> Asked<'a, Result<ListPage, ReadError>> {
        Box::pin(async move {
            self.wait().await;
            self.store.list_folder(folder, after, limit).await
        })
    }

    pub(crate) fn delete<'a>(&'a self, key: &'a Key) -> Asked<'a, Result<(), DeleteError>> {
        Box::pin(async move {
            self.wait().await;
            self.store.delete(key).await
        })
    }
}
