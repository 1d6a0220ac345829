//! The pages that this process keeps in memory.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use glidepath_model::Version;

use super::page::{Home, Page, PageRef};
use super::tree::{Missing, Pages};
use crate::wire::DecodeError;

/// The maximum number of version objects kept whose pages have not all been decoded.
const RECENT: usize = 32;

/// Pages read or written recently. Pages never change, so they are never stale.
///
/// Two generations: pages that are used go into the young one. When that is full it becomes the old one, and the old
/// one is dropped. The maps are only looked up, never iterated, so their order does not matter.
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
    /// Keeps up to twice this many bytes of pages.
    pub(crate) fn new(room: usize) -> Self {
        Self { inner: Mutex::default(), room }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        // Entries are inserted as a whole, so a panic elsewhere cannot leave one half-written.
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
        // Without the lock, so that others can use the cache. Two that decode the same page store equal results.
        let Some(bytes) = bytes else { return Ok(None) };
        let page = Page::read(&bytes, at)?;
        self.keep(at, &page);
        Ok(Some(page))
    }

    pub(crate) fn keep(&self, at: PageRef, page: &Arc<Page>) {
        self.inner().keep(at, page, self.room);
    }

    /// Keeps the object of a version: its pages are likely to be needed.
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

/// The pages that one operation can use: those of the process, and those fetched for it, which stay until it ends.
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
        // A page that is damaged in the cache is fetched; if it is damaged in the store too, that is reported then.
        self.cache.get(at).ok().flatten().ok_or_else(|| Missing(vec![at]))
    }
}
