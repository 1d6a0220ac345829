//! A store in this process: objects in a map behind a mutex. For tests, and for catalogs that may end with the process.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use glidepath_env::{
    Appended, Body, Capabilities, DeleteError, Denial, Guard, Key, ListPage, Listed, Metadata, Object, ObjectStore,
    Payload, PutError, ReadError, Tag,
};
use glidepath_model::ByteSize;

use crate::live::unix_ms;

/// A store in this process. Clones share its objects; a store created by [`new`](Self::new) is empty.
#[derive(Clone, Debug, Default)]
pub struct MemoryStore(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<Key, Stored>,
    /// Incremented for all objects together and never reset, so that no tag is used twice, even after a delete.
    last_tag: u64,
}

#[derive(Debug)]
struct Stored {
    content: Content,
    tag: u64,
    written_ms: u64,
}

/// The written bytes, shared with the writer and the readers until the first append, which needs a copy.
#[derive(Debug)]
enum Content {
    Whole(Bytes),
    Growing(BytesMut),
}

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Never held across an await. A panic elsewhere cannot leave the map half-changed, because every change is one
    /// call.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ObjectStore for MemoryStore {
    fn capabilities(&self) -> Capabilities {
        Capabilities { put_if_absent: true, put_if_match: true, append: true, delivers_once: true }
    }

    async fn get(&self, key: &Key) -> Result<Object, ReadError> {
        self.get_range(key, 0..u64::MAX).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Object, ReadError> {
        let state = self.state();
        let stored = state.objects.get(key).ok_or(ReadError::NotFound)?;
        Ok(Object { payload: stored.content.cut(range).into(), tag: Tag::number(stored.tag) })
    }

    async fn head(&self, key: &Key) -> Result<Metadata, ReadError> {
        let state = self.state();
        let stored = state.objects.get(key).ok_or(ReadError::NotFound)?;
        let (tag, written_ms) = (Tag::number(stored.tag), Some(stored.written_ms));
        Ok(Metadata { size: stored.content.size(), tag, written_ms })
    }

    async fn put(&self, key: &Key, body: impl Body, guard: Guard) -> Result<Tag, PutError> {
        let mut state = self.state();
        let stored = state.objects.get(key);
        let held = match guard {
            Guard::None => true,
            Guard::Absent => stored.is_none(),
            Guard::Matches(tag) => stored.is_some_and(|stored| Tag::number(stored.tag) == tag),
        };
        if !held {
            return Err(PutError::Lost);
        }
        let tag = state.fresh_tag();
        let (content, written_ms) = (Content::Whole(flat(body.into_payload())?), unix_ms());
        state.objects.insert(key.clone(), Stored { content, tag, written_ms });
        Ok(Tag::number(tag))
    }

    async fn append(&self, key: &Key, payload: Payload, offset: u64) -> Result<Appended, PutError> {
        let mut state = self.state();
        if state.objects.get(key).map_or(0, |stored| stored.content.len()) != offset {
            return Err(PutError::Lost);
        }
        let payload = flat(payload)?;
        let tag = state.fresh_tag();
        let written_ms = unix_ms();
        let empty = || Stored { content: Content::Growing(BytesMut::new()), tag, written_ms };
        let stored = state.objects.entry(key.clone()).or_insert_with(empty);
        stored.content.grow(&payload);
        (stored.tag, stored.written_ms) = (tag, written_ms);
        Ok(Appended { tag: Tag::number(tag), end: stored.content.len() })
    }

    async fn list(&self, prefix: &Key, after: Option<&Key>, limit: usize) -> Result<ListPage, ReadError> {
        let state = self.state();
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let mut matching = state
            .objects
            .range::<Key, _>((from, Bound::Unbounded))
            .take_while(|(key, _)| key.as_str().starts_with(prefix.as_str()))
            .map(|(key, stored)| Listed { key: key.clone(), size: stored.content.size() });
        let objects = matching.by_ref().take(limit).collect();
        Ok(ListPage { objects, more: matching.next().is_some() })
    }

    async fn delete(&self, key: &Key) -> Result<(), DeleteError> {
        self.state().objects.remove(key);
        Ok(())
    }
}

impl State {
    fn fresh_tag(&mut self) -> u64 {
        self.last_tag += 1;
        self.last_tag
    }
}

impl Content {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Whole(bytes) => bytes,
            Self::Growing(bytes) => bytes,
        }
    }

    fn len(&self) -> u64 {
        self.bytes().len() as u64
    }

    fn size(&self) -> ByteSize {
        ByteSize::from_bytes(self.len())
    }

    fn cut(&self, range: Range<u64>) -> Bytes {
        let len = self.len();
        // Both are within the length.
        let end = range.end.min(len) as usize;
        let start = (range.start.min(len) as usize).min(end);
        match self {
            Self::Whole(bytes) => bytes.slice(start..end),
            Self::Growing(bytes) => Bytes::copy_from_slice(&bytes[start..end]),
        }
    }

    fn grow(&mut self, more: &[u8]) {
        if let Self::Whole(bytes) = self {
            *self = Self::Growing(BytesMut::from(&bytes[..]));
        }
        if let Self::Growing(bytes) = self {
            bytes.extend_from_slice(more);
        }
    }
}

/// The content, followed by the filler as zeros.
pub(crate) fn flat(payload: Payload) -> Result<Bytes, PutError> {
    let refused = || PutError::Refused(Denial::words("the object is larger than this machine's memory can address"));
    if payload.filler.as_bytes() == 0 {
        return Ok(payload.bytes);
    }
    let filler = usize::try_from(payload.filler.as_bytes()).map_err(|_| refused())?;
    let size = payload.bytes.len().checked_add(filler).ok_or_else(refused)?;
    let mut whole = Vec::new();
    whole.try_reserve_exact(size).map_err(|_| refused())?;
    whole.extend_from_slice(&payload.bytes);
    whole.resize(size, 0);
    Ok(whole.into())
}
