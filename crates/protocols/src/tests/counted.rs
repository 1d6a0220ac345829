//! A store in memory that answers at once and counts its requests, and the world of one process around it.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use glidepath_env::{
    Appended, Body, Capabilities, Cause, DeleteError, Env, Guard, Key, ListPage, Listed, Metadata, Object, ObjectStore,
    Payload, Purpose, PutError, ReadError, Tag,
};
use glidepath_model::{ByteSize, Instant, Span};

use crate::Catalog;
use crate::manifest_chain::{ManifestChain, SharedState};

/// The requests made to a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) gets: u64,
    pub(crate) puts: u64,
    pub(crate) appends: u64,
    pub(crate) lists: u64,
    pub(crate) deletes: u64,
    pub(crate) read_bytes: u64,
    pub(crate) written_bytes: u64,
    /// The most bytes of packs that the client held at one time: read and not freed, or being put.
    pub(crate) most_bytes: u64,
    /// How often the client let other tasks run.
    pub(crate) stepped_aside: u64,
}

/// Decides the outcome of a put.
type Fate = Box<dyn FnMut(&Key) -> Option<PutError>>;
type Once = Box<dyn FnOnce()>;
type Each = Box<dyn FnMut()>;

#[derive(Clone, Default)]
pub(crate) struct World {
    objects: Rc<RefCell<BTreeMap<Key, (Bytes, u64)>>>,
    /// When each object was written, by the store's clock.
    written_ms: Rc<RefCell<BTreeMap<Key, u64>>>,
    /// The errors of the process's time of day and of the store's clock.
    wrong_ms: Rc<Cell<[i64; 2]>>,
    counts: Rc<Cell<Counts>>,
    fate: Rc<RefCell<Option<Fate>>>,
    /// The same after it has taken effect: the answer that its sender gets.
    heard: Rc<RefCell<Option<Fate>>>,
    /// Puts by key, whatever their outcome.
    puts: Rc<RefCell<BTreeMap<Key, u64>>>,
    unread: Rc<RefCell<Option<Key>>>,
    /// How many reads there are before the one that fails.
    failing: Rc<Cell<Option<u64>>>,
    /// What happens between each read and its answer.
    read: Rc<RefCell<Option<Each>>>,
    /// What happens between the next listing and its answer.
    listed: Rc<RefCell<Option<Once>>>,
    /// What happens between the sending of the next put and its effect.
    sent: Rc<RefCell<Option<Once>>>,
    /// Bytes of packs that were read and are still held.
    held: Arc<AtomicU64>,
    now: Rc<Cell<Instant>>,
    drawn: Rc<Cell<u64>>,
}

/// Bytes that report when they are freed.
struct Told(Bytes, Arc<AtomicU64>);

impl AsRef<[u8]> for Told {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        self.1.fetch_sub(self.0.len() as u64, Ordering::Relaxed);
    }
}

/// The result of a future that never waits.
pub(crate) fn at_once<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("it waits"),
    }
}

impl World {
    pub(crate) fn chain(&self, shared_state: SharedState) -> ManifestChain<Self> {
        ManifestChain::new(self.clone(), self.clone(), Arc::new(shared_state))
    }

    /// The counts since the last call.
    pub(crate) fn counted(&self) -> Counts {
        self.counts.take()
    }

    pub(crate) fn when_put(&self, fate: impl FnMut(&Key) -> Option<PutError> + 'static) {
        *self.fate.borrow_mut() = Some(Box::new(fate));
    }

    pub(crate) fn when_put_lands(&self, heard: impl FnMut(&Key) -> Option<PutError> + 'static) {
        *self.heard.borrow_mut() = Some(Box::new(heard));
    }

    pub(crate) fn when_read(&self, happens: impl FnMut() + 'static) {
        *self.read.borrow_mut() = Some(Box::new(happens));
    }

    pub(crate) fn when_listed(&self, happens: impl FnOnce() + 'static) {
        *self.listed.borrow_mut() = Some(Box::new(happens));
    }

    pub(crate) fn when_sent(&self, happens: impl FnOnce() + 'static) {
        *self.sent.borrow_mut() = Some(Box::new(happens));
    }

    pub(crate) fn puts_of(&self, key: &str) -> u64 {
        self.puts.borrow().get(&Key::new(key)).copied().unwrap_or_default()
    }

    pub(crate) fn all_well(&self) {
        *self.heard.borrow_mut() = None;
        *self.fate.borrow_mut() = None;
        *self.unread.borrow_mut() = None;
        *self.read.borrow_mut() = None;
    }

    /// From now on this object cannot be read.
    pub(crate) fn hide(&self, key: &str) {
        *self.unread.borrow_mut() = Some(Key::new(key));
    }

    /// The read after so many fails, and no other.
    pub(crate) fn fail_read(&self, after: u64) {
        self.failing.set(Some(after));
    }

    /// Whether that read has been made.
    pub(crate) fn has_failed(&self) -> bool {
        self.failing.get().is_none()
    }

    pub(crate) fn pass(&self, time: Span) {
        self.now.set(self.now.get() + time);
    }

    /// From now on the process's time of day and the store's clock are this many seconds ahead.
    pub(crate) fn clocks_are_wrong_by(&self, [process, store]: [i64; 2]) {
        self.wrong_ms.set([1000 * process, 1000 * store]);
    }

    /// What a clock shows. Times begin years after 1970, so that a clock may be behind.
    fn shown_ms(&self, wrong_ms: i64) -> u64 {
        (1_000_000_000_000 + self.now.get().since(Instant::ZERO).as_nanos() / 1_000_000).saturating_add_signed(wrong_ms)
    }

    pub(crate) fn keys(&self, prefix: &str) -> Vec<String> {
        let objects = self.objects.borrow();
        objects.keys().map(|key| key.as_str().to_owned()).filter(|key| key.starts_with(prefix)).collect()
    }

    pub(crate) fn bytes(&self, prefix: &str) -> u64 {
        let objects = self.objects.borrow();
        objects
            .iter()
            .filter(|(key, _)| key.as_str().starts_with(prefix))
            .map(|(_, (bytes, _))| bytes.len() as u64)
            .sum()
    }

    /// Changes an object without the clients' knowledge.
    pub(crate) fn tamper(&self, key: &str, with: impl FnOnce(&mut Vec<u8>)) {
        let mut objects = self.objects.borrow_mut();
        let object = objects.get_mut(&Key::new(key)).expect("an object of this key");
        let mut bytes = object.0.to_vec();
        with(&mut bytes);
        object.0 = bytes.into();
    }

    pub(crate) fn copy_of(&self, key: &str) -> Vec<u8> {
        self.objects.borrow()[&Key::new(key)].0.to_vec()
    }

    /// Puts what is under one key under another one, too.
    pub(crate) fn duplicate(&self, from: &str, to: &str) {
        let copy = self.objects.borrow()[&Key::new(from)].clone();
        self.objects.borrow_mut().insert(Key::new(to), copy);
    }

    pub(crate) fn remove(&self, key: &str) {
        self.objects.borrow_mut().remove(&Key::new(key));
    }

    /// Removes the objects that the newest version does not need, as vacuums eventually would.
    pub(crate) fn forget_older(&self, chain: &ManifestChain<Self>) {
        let head = at_once(chain.load()).expect("there is a newest version");
        let needed = at_once(chain.objects(&head)).expect("and it can be read");
        self.objects.borrow_mut().retain(|key, _| needed.contains(key) || key.as_str().contains("hint"));
    }

    fn count(&self, with: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        with(&mut counts);
        self.counts.set(counts);
    }

    fn holds(&self, more: u64) {
        let held = self.held.load(Ordering::Relaxed) + more;
        self.count(|counts| counts.most_bytes = counts.most_bytes.max(held));
    }

    fn read(&self, key: &Key, range: std::ops::Range<u64>) -> Result<Object, ReadError> {
        let failing = self.failing.get();
        self.failing.set(failing.and_then(|reads| reads.checked_sub(1)));
        if failing == Some(0) || self.unread.borrow().as_ref() == Some(key) {
            return Err(ReadError::Failed(Cause::words("on purpose")));
        }
        let (whole, generation) = self.objects.borrow().get(key).cloned().ok_or(ReadError::NotFound)?;
        let length = whole.len() as u64;
        let bytes = whole.slice(range.start.min(length) as usize..range.end.min(length) as usize);
        self.count(|counts| counts.read_bytes += bytes.len() as u64);
        let is_pack = key.as_str().contains("packs/");
        let bytes = if is_pack {
            self.held.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            self.holds(0);
            Bytes::from_owner(Told(bytes, Arc::clone(&self.held)))
        } else {
            bytes
        };
        Ok(Object { payload: Payload::from(bytes), tag: Tag::number(generation) })
    }
}

impl Env for World {
    type Objects = Self;

    fn now(&self) -> Instant {
        self.now.get()
    }

    fn unix_ms(&self) -> u64 {
        self.shown_ms(self.wrong_ms.get()[0])
    }

    async fn sleep_until(&self, at: Instant) {
        self.now.set(self.now.get().max(at));
    }

    async fn step_aside(&self) {
        self.count(|counts| counts.stepped_aside += 1);
    }

    fn draw(&self, _: Purpose) -> u64 {
        self.drawn.set(self.drawn.get() + 1);
        self.drawn.get()
    }
}

impl ObjectStore for World {
    fn capabilities(&self) -> Capabilities {
        Capabilities { put_if_absent: true, put_if_match: true, append: true, delivers_once: true }
    }

    async fn get(&self, key: &Key) -> Result<Object, ReadError> {
        self.count(|counts| counts.gets += 1);
        let answer = self.read(key, 0..u64::MAX);
        // Reads of what happens then are not followed by it again.
        let happens = self.read.borrow_mut().take();
        if let Some(mut happens) = happens {
            happens();
            *self.read.borrow_mut() = Some(happens);
        }
        answer
    }

    async fn get_range(&self, key: &Key, range: std::ops::Range<u64>) -> Result<Object, ReadError> {
        self.count(|counts| counts.gets += 1);
        self.read(key, range)
    }

    async fn head(&self, key: &Key) -> Result<Metadata, ReadError> {
        self.count(|counts| counts.gets += 1);
        let objects = self.objects.borrow();
        let (bytes, generation) = objects.get(key).ok_or(ReadError::NotFound)?;
        let written_ms = self.written_ms.borrow().get(key).copied();
        Ok(Metadata { size: ByteSize::from_bytes(bytes.len() as u64), tag: Tag::number(*generation), written_ms })
    }

    async fn put(&self, key: &Key, body: impl Body, guard: Guard) -> Result<Tag, PutError> {
        let happens = self.sent.borrow_mut().take();
        if let Some(happens) = happens {
            happens();
        }
        let bytes = body.into_payload().bytes;
        if key.as_str().contains("packs/") {
            self.holds(bytes.len() as u64);
        }
        self.count(|counts| {
            counts.puts += 1;
            counts.written_bytes += bytes.len() as u64;
        });
        *self.puts.borrow_mut().entry(key.clone()).or_default() += 1;
        let fate = self.fate.borrow_mut().as_mut().and_then(|fate| fate(key));
        let heard = self.heard.borrow_mut().as_mut().and_then(|heard| heard(key));
        let mut objects = self.objects.borrow_mut();
        let tag = objects.get(key).map(|(_, generation)| Tag::number(*generation));
        let holds = match &guard {
            Guard::None => true,
            Guard::Absent => tag.is_none(),
            Guard::Matches(wanted) => tag.as_ref() == Some(wanted),
        };
        if !holds {
            return Err(PutError::Lost);
        }
        if let Some(fate @ PutError::Refused(_)) = fate {
            return Err(fate);
        }
        let generation = objects.get(key).map_or(0, |(_, generation)| generation + 1);
        objects.insert(key.clone(), (bytes, generation));
        self.written_ms.borrow_mut().insert(key.clone(), self.shown_ms(self.wrong_ms.get()[1]));
        fate.or(heard).map_or(Ok(Tag::number(generation)), Err)
    }

    async fn append(&self, key: &Key, payload: Payload, offset: u64) -> Result<Appended, PutError> {
        self.count(|counts| counts.appends += 1);
        let mut objects = self.objects.borrow_mut();
        let (before, generation) = objects.get(key).cloned().unwrap_or_default();
        if before.len() as u64 != offset {
            return Err(PutError::Lost);
        }
        let after = [&before[..], &payload.bytes].concat();
        let end = after.len() as u64;
        objects.insert(key.clone(), (after.into(), generation + 1));
        Ok(Appended { tag: Tag::number(generation + 1), end })
    }

    async fn list(&self, prefix: &Key, after: Option<&Key>, limit: usize) -> Result<ListPage, ReadError> {
        self.count(|counts| counts.lists += 1);
        let objects = self.objects.borrow();
        let wanted = |key: &Key| key.as_str().starts_with(prefix.as_str()) && after.is_none_or(|after| key > after);
        let mut found: Vec<Listed> = objects
            .iter()
            .filter(|(key, _)| wanted(key))
            .take(limit + 1)
            .map(|(key, (bytes, _))| Listed { key: key.clone(), size: ByteSize::from_bytes(bytes.len() as u64) })
            .collect();
        drop(objects);
        let more = found.len() > limit;
        found.truncate(limit);
        let happens = self.listed.borrow_mut().take();
        if let Some(happens) = happens {
            happens();
        }
        Ok(ListPage { objects: found, more })
    }

    async fn delete(&self, key: &Key) -> Result<(), DeleteError> {
        self.count(|counts| counts.deletes += 1);
        self.objects.borrow_mut().remove(key);
        Ok(())
    }
}
