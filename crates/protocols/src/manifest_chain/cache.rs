//! Which pages does this process have at hand?

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use glidepath_model::Version;

use super::page::{Home, Page, PageRef};
use super::tree::{Missing, Pages};
use crate::wire::DecodeError;

/// Objects of versions whose pages have not all been decoded.
const RECENT: usize = 32;

/// Pages that were read or written lately. What is in it never changes, so it is never wrong.
///
/// Two generations: what is used goes into the young one; when that is full it becomes the old one, and the old one is
/// forgotten. Maps are only looked up in, never walked, so that their order does not matter.
pub(crate) struct Cache {
    inner: Mutex<Inner>,
    /// Bytes of pages in one generation.
    room: usize,
}

#[derive(Default)]
struct Inner {
    young: HashMap<PageRef, Arc<Page>>,
    old: HashMap<PageRef, Arc<Page>>,
    filled: usize,
    recent: BTreeMap<u64, Bytes>,
}

impl Cache {
    /// Keeps up to twice so many bytes of pages.
    pub(crate) fn new(room: usize) -> Self {
        Self { inner: Mutex::default(), room }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Entries go in whole, so a panic elsewhere cannot have left one half-written.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn get(&self, at: PageRef) -> Result<Option<Arc<Page>>, DecodeError> {
        let bytes = {
            let mut inner = self.inner();
            if let Some(page) = inner.young.get(&at) {
                return Ok(Some(Arc::clone(page)));
            }
            if let Some(page) = inner.old.remove(&at) {
                inner.keep(at, &page, self.room);
                return Ok(Some(page));
            }
            inner.in_recent(at)
        };
        // Without the lock: others look up theirs meanwhile. Two who decode the same page keep equal ones.
        let Some(bytes) = bytes else { return Ok(None) };
        let page = Page::decode(&bytes)?;
        self.keep(at, &page);
        Ok(Some(page))
    }

    pub(crate) fn keep(&self, at: PageRef, page: &Arc<Page>) {
        self.inner().keep(at, page, self.room);
    }

    /// Keeps the object of a version: its pages are likely to be asked for.
    pub(crate) fn keep_object(&self, version: Version, object: Bytes) {
        let mut inner = self.inner();
        inner.recent.insert(version.0, object);
        if inner.recent.len() > RECENT {
            inner.recent.pop_first();
        }
    }
}

impl Inner {
    fn keep(&mut self, at: PageRef, page: &Arc<Page>, room: usize) {
        if self.young.insert(at, Arc::clone(page)).is_none() {
            self.filled += page.content_bytes().max(at.length as usize);
        }
        if self.filled > room {
            self.old = std::mem::take(&mut self.young);
            self.filled = 0;
        }
    }

    fn in_recent(&self, at: PageRef) -> Option<Bytes> {
        let Home::Version(version) = at.home else { return None };
        let object = self.recent.get(&version)?;
        let (from, length) = (at.offset as usize, at.length as usize);
        (from + length <= object.len()).then(|| object.slice(from..from + length))
    }
}

/// The pages of one operation: those of the process, and those fetched for it, which stay until it is done.
pub(crate) struct AtHand<'a> {
    cache: &'a Cache,
    fetched: BTreeMap<PageRef, Arc<Page>>,
}

impl<'a> AtHand<'a> {
    pub(crate) fn new(cache: &'a Cache) -> Self {
        Self { cache, fetched: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, at: PageRef, page: Arc<Page>) {
        self.cache.keep(at, &page);
        self.fetched.insert(at, page);
    }
}

impl Pages for AtHand<'_> {
    fn page(&self, at: PageRef) -> Result<Arc<Page>, Missing> {
        if let Some(page) = self.fetched.get(&at) {
            return Ok(Arc::clone(page));
        }
        // What is damaged at hand is fetched, and then found to be damaged in the store too.
        self.cache.get(at).ok().flatten().ok_or_else(|| Missing(vec![at]))
    }
}
