//! A store that counts requests and bytes, and delays requests if configured.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use glidepath_env::{
    Appended, Body, Capabilities, DeleteError, Env, Guard, Key, ListPage, Metadata, Object, ObjectStore, Payload,
    Purpose, PutError, ReadError, Tag,
};
use glidepath_model::{Instant, Span};

use crate::cell::CellSamples;
use crate::machine::Processors;

/// The counts.
#[derive(Debug, Default)]
pub struct Counters {
    /// Requests.
    pub requests: AtomicU64,
    /// Bytes sent in them.
    pub sent_bytes: AtomicU64,
    /// Bytes that came back.
    pub received_bytes: AtomicU64,
}

impl Counters {
    /// Writes the counts into an outcome.
    pub(crate) fn add_to(&self, outcome: &mut CellSamples) {
        outcome.requests += self.requests.load(Ordering::Relaxed);
        outcome.sent_bytes += self.sent_bytes.load(Ordering::Relaxed);
        outcome.received_bytes += self.received_bytes.load(Ordering::Relaxed);
    }
}

/// An environment with a counted store.
#[derive(Clone)]
pub struct CountedWorld<E: Env> {
    env: E,
    store: E::Objects,
    counters: Arc<Counters>,
    added: Span,
    /// The simulated processors, if any.
    processors: Option<Processors>,
}

impl<E: Env + Clone> CountedWorld<E> {
    /// Counts requests and bytes of this store, and delays each request.
    pub fn new(env: E, store: E::Objects, added: Span) -> Self {
        Self { env, store, counters: Arc::default(), added, processors: None }
    }

    /// Makes clients wait for these processors.
    pub(crate) fn on(self, processors: Processors) -> Self {
        Self { processors: Some(processors), ..self }
    }

    /// Another process of the environment, with the same counters and processors.
    pub fn beside(&self, env: E, store: E::Objects) -> Self {
        let (counters, processors) = (Arc::clone(&self.counters), self.processors.clone());
        Self { env, store, counters, added: self.added, processors }
    }

    /// Spends the processor time of an operation, if it is simulated.
    pub(crate) async fn compute(&self) {
        if let Some(processors) = &self.processors {
            processors.operation(&self.env).await;
        }
    }

    /// The counts so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The counts, to be read later.
    #[cfg(feature = "serve")]
    pub(crate) fn counters_shared(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    async fn request(&self, sent: u64) {
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        self.counters.sent_bytes.fetch_add(sent, Ordering::Relaxed);
        if let Some(processors) = &self.processors {
            processors.request(&self.env).await;
        }
        if self.added > Span::ZERO {
            self.env.sleep_until(self.env.now() + self.added).await;
        }
    }

    fn received(&self, object: &Object) {
        self.counters.received_bytes.fetch_add(object.payload.size().as_bytes(), Ordering::Relaxed);
    }
}

impl<E: Env + Clone> Env for CountedWorld<E>
where
    E::Objects: Clone,
{
    type Objects = Self;

    fn now(&self) -> Instant {
        self.env.now()
    }

    fn unix_ms(&self) -> u64 {
        self.env.unix_ms()
    }

    fn sleep_until(&self, at: Instant) -> impl Future<Output = ()> {
        self.env.sleep_until(at)
    }

    fn step_aside(&self) -> impl Future<Output = ()> {
        self.env.step_aside()
    }

    fn draw(&self, purpose: Purpose) -> u64 {
        self.env.draw(purpose)
    }
}

impl<E: Env + Clone> ObjectStore for CountedWorld<E> {
    fn capabilities(&self) -> Capabilities {
        self.store.capabilities()
    }

    async fn get(&self, key: &Key) -> Result<Object, ReadError> {
        self.request(0).await;
        self.store.get(key).await.inspect(|object| self.received(object))
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Object, ReadError> {
        self.request(0).await;
        self.store.get_range(key, range).await.inspect(|object| self.received(object))
    }

    async fn head(&self, key: &Key) -> Result<Metadata, ReadError> {
        self.request(0).await;
        self.store.head(key).await
    }

    async fn put(&self, key: &Key, body: impl Body, guard: Guard) -> Result<Tag, PutError> {
        let payload = body.into_payload();
        self.request(payload.size().as_bytes()).await;
        self.store.put(key, payload, guard).await
    }

    async fn append(&self, key: &Key, payload: Payload, offset: u64) -> Result<Appended, PutError> {
        self.request(payload.size().as_bytes()).await;
        self.store.append(key, payload, offset).await
    }

    async fn list(&self, prefix: &Key, after: Option<&Key>, limit: usize) -> Result<ListPage, ReadError> {
        self.request(0).await;
        self.store.list(prefix, after, limit).await
    }

    async fn list_folder(&self, folder: &Key, after: Option<&Key>, limit: usize) -> Result<ListPage, ReadError> {
        self.request(0).await;
        self.store.list_folder(folder, after, limit).await
    }

    async fn delete(&self, key: &Key) -> Result<(), DeleteError> {
        self.request(0).await;
        self.store.delete(key).await
    }
}
