//! A view of the simulated world that records every request, and can refuse puts.

use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

use glidepath_env::{
    Appended, Body, Capabilities, DeleteError, Denial, Env, Guard, Key, ListPage, Metadata, Object, ObjectStore,
    Payload, Purpose, PutError, ReadError, Tag,
};
use glidepath_model::Instant;
use glidepath_sim::{SimEnv, SimStore};

/// The requests made, such as `append log`: the operation and the kind of object.
type Requests = Rc<RefCell<Vec<String>>>;

#[derive(Clone)]
pub(super) struct CountingEnv(pub(super) SimEnv);

#[derive(Clone)]
pub(super) struct CountingStore {
    inner: SimStore,
    requests: Requests,
    no_puts: Rc<Cell<bool>>,
}

impl CountingStore {
    pub(super) fn new(inner: SimStore) -> Self {
        Self { inner, requests: Requests::default(), no_puts: Rc::default() }
    }

    /// Sets whether puts are refused from now on; appends are not.
    pub(super) fn refuse_puts(&self, refuse: bool) {
        self.no_puts.set(refuse);
    }

    /// The requests made since the last call.
    pub(super) fn taken(&self) -> Vec<String> {
        self.requests.take()
    }

    fn note(&self, operation: &str, key: &Key) {
        let kind = key.as_str().split('/').nth(1).unwrap_or_default();
        self.requests.borrow_mut().push(format!("{operation} {kind}"));
    }
}

impl Env for CountingEnv {
    type Objects = CountingStore;

    fn now(&self) -> Instant {
        self.0.now()
    }

    fn unix_ms(&self) -> u64 {
        self.0.unix_ms()
    }

    async fn sleep_until(&self, at: Instant) {
        self.0.sleep_until(at).await;
    }

    fn draw(&self, purpose: Purpose) -> u64 {
        self.0.draw(purpose)
    }
}

impl ObjectStore for CountingStore {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    async fn get(&self, key: &Key) -> Result<Object, ReadError> {
        self.note("get", key);
        self.inner.get(key).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Object, ReadError> {
        self.note("get", key);
        self.inner.get_range(key, range).await
    }

    async fn head(&self, key: &Key) -> Result<Metadata, ReadError> {
        self.note("head", key);
        self.inner.head(key).await
    }

    async fn put(&self, key: &Key, body: impl Body, guard: Guard) -> Result<Tag, PutError> {
        self.note("put", key);
        if self.no_puts.get() {
            return Err(PutError::Refused(Denial::words("403 Forbidden")));
        }
        self.inner.put(key, body, guard).await
    }

    async fn append(&self, key: &Key, payload: Payload, offset: u64) -> Result<Appended, PutError> {
        self.note("append", key);
        self.inner.append(key, payload, offset).await
    }

    async fn list(&self, prefix: &Key, after: Option<&Key>, limit: usize) -> Result<ListPage, ReadError> {
        self.note("list", prefix);
        self.inner.list(prefix, after, limit).await
    }

    async fn delete(&self, key: &Key) -> Result<(), DeleteError> {
        self.note("delete", key);
        self.inner.delete(key).await
    }
}
