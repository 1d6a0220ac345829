//! What does a simulated store hold, and what does each request do to it when it takes effect?

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::rc::Rc;

use bytes::Bytes;
use glidepath_env::{
    Appended, Body, Cell, Denial, Guard, Key, ListPage, Listed, Metadata, Object, Payload, PutError, ReadError, Table,
    Tag,
};
use glidepath_model::{ByteSize, Instant, Span};

use super::rows::Tables;
use super::{Service, StoreModel};
use crate::agenda::Order;
use crate::contention::{Contention, Entry, Hot, Ticket};
use crate::machine::EPOCH_MS;

pub(crate) struct StoreState {
    pub(crate) service: Rc<Service>,
    objects: BTreeMap<Key, Stored>,
    last_tag: u64,
    /// When the current request takes effect.
    now: Instant,
    /// Who sent it.
    sender: u32,
    writes: Option<Vec<Written>>,
    /// Objects that guarded writes contend for, if the profile has contention.
    hot: BTreeMap<Key, Hot>,
    tables: Box<Tables>,
}

/// A write or a delete that took effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// When, by the clock of the world.
    pub at: Instant,
    /// The process that sent it, counted from 1 in the order of arrival; 0 for objects from before the run.
    pub by: u32,
    /// Under which key.
    pub key: Key,
    /// The whole object after it; `None` if it was deleted.
    pub object: Option<Payload>,
}

struct Stored {
    payload: Payload,
    tag: u64,
    created: Instant,
    written: Instant,
}

impl StoreState {
    pub(crate) fn new(model: StoreModel) -> Self {
        let tables = Box::new(Tables::new(model.faults.delivers_once()));
        Self {
            service: Rc::new(Service::new(model)),
            objects: BTreeMap::new(),
            last_tag: 0,
            now: Instant::ZERO,
            sender: 0,
            writes: None,
            hot: BTreeMap::new(),
            tables,
        }
    }

    pub(crate) fn seed(&mut self, key: &Key, payload: Payload) -> Tag {
        self.write(key, payload)
    }

    /// Later calls take effect at this place in the order of events.
    pub(crate) fn at(&mut self, turn: Order) -> &mut Self {
        (self.now, self.sender) = (turn.at(), turn.process());
        self
    }

    pub(crate) fn seed_table(&mut self, table: Table) {
        self.tables.create(table);
    }

    pub(crate) fn seed_cell(&mut self, table: &Table, cell: Cell, value: Bytes) {
        self.tables.seed(table, cell, value);
    }

    pub(crate) fn peek(&self, key: &Key) -> Option<Payload> {
        self.objects.get(key).map(|stored| stored.payload.clone())
    }

    pub(crate) fn objects(&self) -> BTreeMap<Key, Payload> {
        self.objects.iter().map(|(key, stored)| (key.clone(), stored.payload.clone())).collect()
    }

    pub(crate) fn keep_writes(&mut self) {
        self.writes.get_or_insert_default();
        self.tables.keep_writes();
    }

    /// The tables, for a request that takes effect now.
    pub(crate) fn tables(&mut self) -> &mut Tables {
        self.tables.at(self.now, self.sender)
    }

    /// The tables, for those who only look.
    pub(crate) fn look_at_tables(&self) -> &Tables {
        &self.tables
    }

    pub(crate) fn writes(&self) -> &[Written] {
        self.writes.as_deref().unwrap_or_default()
    }

    pub(crate) fn delete(&mut self, key: &Key) {
        if self.objects.remove(key).is_some() {
            self.note(key, None);
        }
    }

    fn note(&mut self, key: &Key, object: Option<&Payload>) {
        let (at, by) = (self.now, self.sender);
        if let Some(writes) = &mut self.writes {
            writes.push(Written { at, by, key: key.clone(), object: object.cloned() });
        }
    }

    /// Tags never repeat, not even after a delete.
    fn write(&mut self, key: &Key, payload: Payload) -> Tag {
        self.last_tag += 1;
        self.note(key, Some(&payload));
        let tag = self.last_tag;
        match self.objects.get_mut(key) {
            Some(place) => *place = Stored { payload, tag, written: self.now, ..*place },
            None => {
                self.objects.insert(key.clone(), Stored { payload, tag, created: self.now, written: self.now });
            }
        }
        Tag::number(self.last_tag)
    }

    pub(crate) fn get(&self, key: &Key, range: Option<Range<u64>>) -> Result<Object, ReadError> {
        let stored = self.objects.get(key).ok_or(ReadError::NotFound)?;
        let payload = match range {
            None => stored.payload.clone(),
            Some(range) => cut(&stored.payload, range),
        };
        Ok(Object { payload, tag: Tag::number(stored.tag) })
    }

    pub(crate) fn head(&self, key: &Key) -> Result<Metadata, ReadError> {
        let stored = self.objects.get(key).ok_or(ReadError::NotFound)?;
        let written_ms = Some(EPOCH_MS + stored.written.as_nanos() / 1_000_000);
        Ok(Metadata { size: stored.payload.size(), tag: Tag::number(stored.tag), written_ms })
    }

    pub(crate) fn put(&mut self, key: &Key, body: impl Body, guard: &Guard) -> Result<Tag, PutError> {
        if self.holds(key, guard) { Ok(self.write(key, body.into_payload())) } else { Err(PutError::Lost) }
    }

    /// Whether a guard holds.
    #[inline]
    pub(crate) fn holds(&self, key: &Key, guard: &Guard) -> bool {
        match guard {
            Guard::None => true,
            Guard::Absent => !self.objects.contains_key(key),
            Guard::Matches(tag) => self.objects.get(key).is_some_and(|stored| Tag::number(stored.tag) == *tag),
        }
    }

    /// Whether an object has this length; that of an absent one is 0.
    pub(crate) fn ends_at(&self, key: &Key, offset: u64) -> bool {
        self.objects.get(key).map_or(0, |stored| stored.payload.size().as_bytes()) == offset
    }

    /// A guarded write arrives among others at the same object, and takes effect if possible. Returns its outcome and
    /// when it is answered.
    pub(crate) fn contend<T>(
        &mut self,
        key: &Key,
        contention: Option<&Contention>,
        (now, ticket): (Instant, &Ticket),
        holds: bool,
        effect: impl FnOnce(&mut Self) -> Result<T, PutError>,
    ) -> (Result<T, PutError>, Instant) {
        let Some(contention) = contention else { return (effect(self), now) };
        let mut hot = self.hot.remove(key).unwrap_or_default();
        let (entry, writers) = hot.arrive(now, contention);
        let outcome = match entry {
            // The guard is checked first: a lost write must be reported as lost.
            _ if !holds => Err(PutError::Lost),
            Entry::Free => effect(self),
            Entry::Held => Err(busy("409: another conditional write was in flight")),
            Entry::Capped => Err(busy("429: too many writes to this object")),
        };
        let at = hot.answer(now, writers, outcome.is_ok(), (contention, ticket));
        self.hot.insert(key.clone(), hot);
        (outcome, at)
    }

    pub(crate) fn append(&mut self, key: &Key, payload: &Payload, offset: u64) -> Result<Appended, PutError> {
        if !self.ends_at(key, offset) {
            return Err(PutError::Lost);
        }
        let before = self.objects.get(key).map(|stored| &stored.payload);
        // Filler stands for zeros: an append behind it turns it into real zeros, so that offsets stay right.
        let joined = match before {
            None => payload.clone(),
            Some(before) if payload.bytes.is_empty() => {
                Payload { bytes: before.bytes.clone(), filler: before.filler + payload.filler }
            }
            Some(before) => {
                let mut bytes = before.bytes.to_vec();
                bytes.resize(bytes.len() + before.filler.as_bytes() as usize, 0);
                bytes.extend_from_slice(&payload.bytes);
                Payload { bytes: bytes.into(), filler: payload.filler }
            }
        };
        let end = joined.size().as_bytes();
        Ok(Appended { tag: self.write(key, joined), end })
    }

    pub(crate) fn list(&self, prefix: &Key, after: Option<&Key>, limit: usize) -> ListPage {
        let from = match after {
            Some(after) if after >= prefix => Bound::Excluded(after.clone()),
            _ => Bound::Included(prefix.clone()),
        };
        let lag = self.service.model.faults.list_lag;
        let shown = |stored: &Stored| stored.created + lag <= self.now || lag == Span::ZERO;
        let mut matching = self
            .objects
            .range((from, Bound::Unbounded))
            .take_while(|(key, _)| key.as_str().starts_with(prefix.as_str()))
            .filter(|(_, stored)| shown(stored))
            .map(|(key, stored)| Listed { key: key.clone(), size: stored.payload.size() });
        let objects = matching.by_ref().take(limit).collect();
        ListPage { objects, more: matching.next().is_some() }
    }
}

/// Refused by the store, as measured; no proxy repeats requests unless a scenario says so.
fn busy(words: &str) -> PutError {
    PutError::Refused(Denial::words(words).passing())
}

fn cut(payload: &Payload, range: Range<u64>) -> Payload {
    let real = payload.bytes.len() as u64;
    let end = range.end.min(payload.size().as_bytes());
    let start = range.start.min(end);
    let bytes = payload.bytes.slice(start.min(real) as usize..end.min(real) as usize);
    let filler = ByteSize::from_bytes(end.max(real) - start.max(real));
    Payload { bytes, filler }
}
