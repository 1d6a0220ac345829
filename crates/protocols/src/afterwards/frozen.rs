//! A store after the end of a run: the protocols' own code can read it, and nothing can change it.

use std::collections::BTreeMap;
use std::future::Future;
use std::ops::{Bound, Range};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use glidepath_env::{
    Appended, Body, Capabilities, DeleteError, Denial, Env, Guard, Key, ListPage, Listed, Metadata, Object,
    ObjectStore, Payload, Purpose, PutError, ReadError, Tag,
};
use glidepath_model::Instant;

/// A store with these objects that never changes, and the environment of its readers.
#[derive(Clone)]
pub struct Frozen(Rc<BTreeMap<Key, Payload>>);

impl Frozen {
    /// A store with these objects.
    #[must_use]
    pub fn of(objects: BTreeMap<Key, Payload>) -> Self {
        Self(Rc::new(objects))
    }
}

/// Runs a future that only reads a [`Frozen`] store to its end.
///
/// # Panics
/// If the future waits for anything else.
pub fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("a frozen store answers at once, so reading it never waits"),
    }
}

impl Env for Frozen {
    type Objects = Self;

    fn now(&self) -> Instant {
        Instant::ZERO
    }

    fn unix_ms(&self) -> u64 {
        0
    }

    async fn sleep_until(&self, _: Instant) {}

    fn draw(&self, _: Purpose) -> u64 {
        0
    }
}

fn whole(payload: &Payload) -> Object {
    Object { payload: payload.clone(), tag: Tag::number(0) }
}

fn refused() -> Denial {
    Denial::words("this store is read-only")
}

impl ObjectStore for Frozen {
    fn capabilities(&self) -> Capabilities {
        Capabilities { put_if_absent: true, put_if_match: true, append: true, delivers_once: true }
    }

    async fn get(&self, key: &Key) -> Result<Object, ReadError> {
        self.0.get(key).map(whole).ok_or(ReadError::NotFound)
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Object, ReadError> {
        let payload = self.0.get(key).ok_or(ReadError::NotFound)?;
        let length = payload.bytes.len();
        let end = usize::try_from(range.end).unwrap_or(usize::MAX).min(length);
        let start = usize::try_from(range.start).unwrap_or(usize::MAX).min(end);
        Ok(whole(&payload.bytes.slice(start..end).into()))
    }

    async fn head(&self, key: &Key) -> Result<Metadata, ReadError> {
        let payload = self.0.get(key).ok_or(ReadError::NotFound)?;
        Ok(Metadata { size: payload.size(), tag: Tag::number(0), written_ms: None })
    }

    async fn put(&self, _: &Key, _: impl Body, _: Guard) -> Result<Tag, PutError> {
        Err(PutError::Refused(refused()))
    }

    async fn append(&self, _: &Key, _: Payload, _: u64) -> Result<Appended, PutError> {
        Err(PutError::Refused(refused()))
    }

    async fn list(&self, prefix: &Key, after: Option<&Key>, limit: usize) -> Result<ListPage, ReadError> {
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after.clone()),
            _ => Bound::Included(prefix.clone()),
        };
        let mut matching =
            self.0.range((from, Bound::Unbounded)).take_while(|(key, _)| key.as_str().starts_with(prefix.as_str()));
        let listed = |(key, payload): (&Key, &Payload)| Listed { key: key.clone(), size: payload.size() };
        let objects = matching.by_ref().take(limit).map(listed).collect();
        Ok(ListPage { objects, more: matching.next().is_some() })
    }

    async fn delete(&self, _: &Key) -> Result<(), DeleteError> {
        Err(DeleteError::Refused(refused().cause))
    }
}
