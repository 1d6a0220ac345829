//! Commits are records appended to a log at the offset last seen; the catalog is the fold of the log.
//!
//! The log is a sequence of segments, each one object. The last record of a segment *closes* it: later records in it do
//! not count, and the log continues in the next segment. A *checkpoint* is the catalog at the beginning of a segment.
//!
//! Steps of a commit (comments cite these numbers; faults and invariants are in `docs/protocols/append-log.md`):
//!
//! 1. Start at the newest known position. If the changes do not fit the catalog there, it is a conflict.
//! 2. Make a record: a fresh commit id, and the changes with what they expect. If the segment has reached a limit, the
//!    record closes it; before that, make sure that the segment's own checkpoint exists.
//! 3. Append it at the known end. If it takes effect: committed, because everything before it is known.
//! 4. If the record closed the segment: write the next checkpoint, if absent, and the hint. Both may fail.
//! 5. Lost: other records came first. Read them. If the changes still fit, continue at 2 with the same id, a limited
//!    number of times; otherwise it is a conflict.
//! 6. Certainly refused: nothing happened.
//! 7. Anything else: read back. Our record is there: the fold tells whether it took effect. Another record is there:
//!    ours can no longer take effect; continue as in 5. Nothing is there: append the same bytes at the same offset.
//! 8. What cannot be settled stays unknown.

mod actions;
mod audit;
mod checkpoint;
mod design;
mod group;
mod reading;
mod record;
mod state;
mod upkeep;
mod vacuum;

use std::borrow::Cow;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use glidepath_env::ReadError;
use glidepath_env::{Cause, Denial, Env, Guard, ObjectStore, Payload, Purpose, PutError};
use glidepath_model::{AtHand, ByteSize, Changes, CommitId, Entry, Name, Root, TableId, TableState, Version};

use crate::catalog::{Catalog, LoadError, Outcome, TableStates};
use crate::mutant::{self, Mutant};
use crate::settling::{self, Doubt};
pub use audit::{Placed, every_place_written};
use checkpoint::Keys;
pub use design::Log;
use reading::Step;
pub use record::{DecodeError, HEADER as EMPTIED_BYTES};
use record::{HEADER, Intent, Record};
use state::{Segment, State};
pub use vacuum::{VacuumError, Vacuumed};

/// No segment gets more records or bytes than these before it is closed, whatever the limits say. S3 Express accepts
/// 10,000 appends to an object, Azure 50,000.
const HARD_RECORDS: u64 = 9_000;
const HARD_BYTES: u64 = 64 << 20;

/// The largest append that every provider accepts: Azure's limit before version 2022-11-02 of its protocol.
const MOST_APPEND_BYTES: usize = 4 << 20;

/// A record must fit into any append: the first one of a segment also contains the header.
const MOST_RECORD_BYTES: usize = MOST_APPEND_BYTES - HEADER;

const ELSEWHERE: &str = "the store reports an end of the log that does not follow this commit";

/// Why a catalog is not created.
pub(crate) const CANNOT_APPEND: &str = "this store cannot append to objects, which an append log needs: use another protocol \
                                        here, or S3 Express, Azure or a local disk";

/// When a segment is closed, and how often an attempt tries to append. Writers of one log may use different limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The record with this number closes a segment; at most 9,000.
    pub records: u64,
    /// The first record after this many bytes also closes it; at most 64 MiB.
    pub size: ByteSize,
    /// How many times one attempt tries to append, each time after the records that others have appended.
    pub tries: u32,
}

impl Default for Limits {
    /// Assumed: 1 MiB is read in tens of milliseconds, so opening takes about three round trips, and three requests
    /// more per 2,000 commits do not matter. Four tries: after more losses it is better to wait, which is up to the
    /// caller.
    fn default() -> Self {
        Self { records: 2_000, size: ByteSize::from_bytes(1 << 20), tries: 4 }
    }
}

/// What all handles of a process to one log share.
pub struct SharedState {
    keys: Keys,
    limits: Limits,
    /// The newest state that this process has read or written.
    newest: Mutex<Option<Snapshot>>,
    /// The versions on the way from a checkpoint to the old version that was asked for last: who goes back version by
    /// version asks for them next.
    way: Mutex<Vec<Snapshot>>,
}

impl SharedState {
    /// The log whose objects have keys that begin with `prefix` and a slash.
    #[must_use]
    pub fn new(prefix: &str, limits: Limits) -> Self {
        let records = limits.records.clamp(1, HARD_RECORDS);
        let size = limits.size.min(ByteSize::from_bytes(HARD_BYTES));
        let limits = Limits { records, size, tries: limits.tries.max(1) };
        Self { keys: Keys::new(prefix), limits, newest: Mutex::new(None), way: Mutex::default() }
    }
}

/// A catalog in a log.
#[derive(Clone)]
pub struct AppendLog<E: Env> {
    env: E,
    store: E::Objects,
    shared_state: Arc<SharedState>,
}

/// The catalog at one position in the log.
#[derive(Clone, Debug)]
pub struct Snapshot(Arc<State>);

impl Snapshot {
    /// The commit that made this version.
    #[must_use]
    pub fn commit(&self) -> CommitId {
        self.0.commit
    }

    /// The state of a table; `None` if there is no such table.
    #[must_use]
    pub fn table(&self, id: TableId) -> Option<&TableState> {
        self.0.table(id)
    }

    /// Its position in the order of commits.
    #[must_use]
    pub fn version(&self) -> Version {
        self.0.version
    }

    /// The whole catalog. Copies its numbered tables.
    #[must_use]
    pub fn root(&self) -> Root {
        self.0.root().unwrap_or_else(Root::empty)
    }
}

/// How one append at one offset ended.
enum Landing {
    /// Our record is there: the store acknowledged it.
    Taken,
    /// It is there: the log shows it, and whether it took effect.
    Found(Snapshot, bool),
    /// It is not there and can never be.
    Passed(Snapshot),
    /// The attempt ends here.
    Ended(Outcome<Snapshot>),
}

impl<E: Env> AppendLog<E> {
    /// A handle to this log. Makes no request.
    #[must_use]
    pub fn new(env: E, store: E::Objects, shared_state: Arc<SharedState>) -> Self {
        Self { env, store, shared_state }
    }

    /// Creates the catalog with these tables, as checkpoint 0, if there is none yet; otherwise `Conflict`.
    pub async fn create(&self, tables: Vec<(TableId, TableState)>) -> Outcome<Snapshot> {
        if let Err(cause) = self.can_write() {
            return Outcome::refused(cause);
        }
        let commit = CommitId(self.env.draw(Purpose::Names));
        let Some(root) = Root::from_parts(Version(0), commit, tables) else {
            return Outcome::refused(Cause::words("tables must have rising ids and at least one partition each"));
        };
        let first = State::first(0, Arc::new(root), false);
        // Every version of the software must be able to decode it.
        if let Err(cause) = checkpoint::decode(0, &checkpoint::encode(0, &first.segment.start)) {
            return Outcome::refused(cause);
        }
        match self.put_checkpoint(&first.segment).await {
            Ok(()) => self.created(first).await,
            Err(PutError::Lost) if self.delivers_once() => Outcome::Conflict(None),
            Err(PutError::Refused(denial)) if denial.certain => Outcome::Refused(denial),
            Err(error) => self.settle_creation(first, error).await,
        }
    }

    fn delivers_once(&self) -> bool {
        self.store.capabilities().delivers_once
    }

    /// Steps 7 and 8 for a creation: the first checkpoint is never removed, so it shows whose creation took effect.
    async fn settle_creation(&self, first: State, error: PutError) -> Outcome<Snapshot> {
        let mut doubt = Doubt::default();
        if let Some(denial) = doubt.record(error, self.delivers_once()) {
            return Outcome::Refused(denial);
        }
        for round in 0..settling::ROUNDS {
            settling::wait(&self.env, round).await;
            match self.read_checkpoint(0).await {
                Ok(Some(found)) if found.0.commit == first.commit => return self.created(first).await,
                Ok(Some(_)) => return Outcome::Conflict(None),
                Ok(None) if doubt.hopeless() => break,
                Ok(None) => match self.put_checkpoint(&first.segment).await {
                    Ok(()) => return self.created(first).await,
                    Err(error) => drop(doubt.record(error, self.delivers_once())),
                },
                Err(LoadError::Failed(cause)) => doubt.note(cause),
                Err(error) => return Outcome::Unknown(Cause::from_error(error)),
            }
        }
        Outcome::Unknown(doubt.cause())
    }

    async fn created(&self, first: State) -> Outcome<Snapshot> {
        first.segment.anchored.store(true, Ordering::Relaxed);
        self.put_hint(0).await;
        Outcome::Committed(self.keep(Snapshot(Arc::new(first))))
    }

    /// Refuses stores that lack an operation that a later step needs.
    fn can_write(&self) -> Result<(), Cause> {
        let able = self.store.capabilities();
        if !able.append {
            return Err(Cause::words(CANNOT_APPEND));
        }
        if !able.put_if_absent {
            return Err(Cause::words("this store has no put-if-absent, which an append log needs for its checkpoints"));
        }
        Ok(())
    }

    /// Steps 3 and 5 to 8: appends a record where `at` ends, and finds out whether it took effect.
    async fn append(&self, at: &Snapshot, commit: CommitId, payload: Bytes) -> Landing {
        let end = at.0.end + payload.len() as u64;
        let key = self.shared_state.keys.segment(at.0.segment.number);
        let mut doubt = Doubt::default();
        match self.store.append(&key, payload.clone().into(), at.0.end).await {
            Ok(appended) if appended.end == end => return Landing::Taken,
            Ok(_) => doubt.note(Cause::words(ELSEWHERE)),
            Err(PutError::Lost) => match self.step(at, Some(commit)).await {
                Ok(Step::Moved(now, Some(effective))) => return Landing::Found(now, effective),
                Ok(Step::Moved(now, None)) => return Landing::Passed(now),
                Ok(Step::Still) => return Landing::Passed(at.clone()),
                // A segment is emptied long after it was closed, so other records came first. (Or an earlier delivery
                // of this append did.)
                Ok(Step::Emptied) if self.delivers_once() => return Landing::Ended(Outcome::Conflict(None)),
                Ok(Step::Emptied) => return Landing::Ended(emptied()),
                // Lost for good, but perhaps to an earlier delivery of this same append.
                Err(error) => doubt.note(Cause::from_error(error)),
            },
            Err(PutError::Unknown(_)) if mutant::is(Mutant::UnknownIsLost) => {
                return Landing::Ended(Outcome::Conflict(None));
            }
            Err(error) => {
                if let Some(denial) = doubt.record(error, self.delivers_once()) {
                    return Landing::Ended(Outcome::Refused(denial));
                }
            }
        }
        self.settle(at, commit, payload, doubt).await
    }

    /// Steps 7 and 8.
    async fn settle(&self, at: &Snapshot, commit: CommitId, payload: Bytes, mut doubt: Doubt) -> Landing {
        let key = self.shared_state.keys.segment(at.0.segment.number);
        for round in 0..settling::ROUNDS {
            settling::wait(&self.env, round).await;
            let read = match mutant::is(Mutant::OffsetReused) {
                true => Ok(Step::Still),
                false => self.step(at, Some(commit)).await,
            };
            match read {
                Ok(Step::Moved(now, Some(effective))) => return Landing::Found(now, effective),
                // Another record is at this offset, and an append takes effect at its offset or not at all.
                Ok(Step::Moved(now, None)) => return Landing::Passed(now),
                Ok(Step::Emptied) => return Landing::Ended(emptied()),
                Err(LoadError::Failed(cause)) => doubt.note(cause),
                Err(error) => return Landing::Ended(Outcome::Unknown(Cause::from_error(error))),
                Ok(Step::Still) if doubt.hopeless() => break,
                // Nothing is at this offset. At most one of the two appends can take effect there, and both are ours.
                Ok(Step::Still) => match self.store.append(&key, payload.clone().into(), at.0.end).await {
                    Ok(appended) if appended.end == at.0.end + payload.len() as u64 => return Landing::Taken,
                    Ok(_) => doubt.note(Cause::words(ELSEWHERE)),
                    Err(PutError::Lost) if mutant::is(Mutant::OffsetReused) => {
                        return Landing::Ended(Outcome::Conflict(None));
                    }
                    // A denial says nothing about earlier appends.
                    Err(error) => drop(doubt.record(error, self.delivers_once())),
                },
            }
        }
        Landing::Ended(Outcome::Unknown(doubt.cause()))
    }

    /// Step 2: whether the next record closes the segment. A closed segment has its checkpoint, so a reader that begins
    /// at the newest checkpoint reads at most two segments.
    async fn closes(&self, at: &State) -> Result<bool, Cause> {
        let Limits { records, size, .. } = self.shared_state.limits;
        if at.records + 1 < records && at.end < size.as_bytes() {
            return Ok(false);
        }
        match self.anchor(&at.segment).await {
            Ok(()) => Ok(true),
            Err(_) if at.records < HARD_RECORDS && at.end < HARD_BYTES => Ok(false),
            Err(cause) => Err(Cause::words(format!("the log is full, and its checkpoint cannot be written: {cause}"))),
        }
    }

    /// Makes sure that a segment's checkpoint exists: the process that should have written it may have crashed.
    async fn anchor(&self, segment: &Segment) -> Result<(), Cause> {
        if segment.anchored.load(Ordering::Relaxed) || mutant::is(Mutant::NotAnchored) {
            return Ok(());
        }
        match self.store.head(&self.shared_state.keys.checkpoint(segment.number)).await {
            Ok(_) => {
                segment.anchored.store(true, Ordering::Relaxed);
                Ok(())
            }
            Err(ReadError::NotFound) => self.write_checkpoint(segment).await,
            Err(ReadError::Failed(cause)) => Err(cause),
        }
    }

    /// Step 4. All processes write the same bytes.
    async fn write_checkpoint(&self, segment: &Segment) -> Result<(), Cause> {
        match self.put_checkpoint(segment).await {
            Ok(()) => self.put_hint(segment.number).await,
            Err(PutError::Lost) => {}
            Err(PutError::Refused(Denial { cause, .. }) | PutError::Unknown(cause)) => return Err(cause),
        }
        segment.anchored.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn put_checkpoint(&self, segment: &Segment) -> Result<(), PutError> {
        let payload = Payload::from(checkpoint::encode(segment.number, &segment.start));
        self.store.put(&self.shared_state.keys.checkpoint(segment.number), payload, Guard::Absent).await.map(drop)
    }

    /// This may fail, take effect late, or move the hint back: readers continue from wherever the hint leads.
    async fn put_hint(&self, number: u64) {
        let payload = Payload::from(checkpoint::encode_hint(number));
        drop(self.store.put(&self.shared_state.keys.hint(), payload, Guard::None).await);
    }

    /// Keeps a snapshot for the process, if it is the newest.
    fn keep(&self, snapshot: Snapshot) -> Snapshot {
        let mut newest = self.shared_state.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if newest.as_ref().is_none_or(|newest| newest.0.place() < snapshot.0.place()) {
            *newest = Some(snapshot.clone());
        }
        snapshot
    }

    fn newest(&self) -> Option<Snapshot> {
        // The value is replaced as a whole, so a panic elsewhere cannot leave it half-written.
        self.shared_state.newest.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Steps 2 to 8, repeated while other commits come first.
    async fn try_commit(&self, mut at: Snapshot, changes: &Changes) -> Outcome<Snapshot> {
        let commit = CommitId(self.env.draw(Purpose::Names));
        for _ in 0..self.shared_state.limits.tries {
            let mut next = State::clone(&at.0);
            if !next.apply(changes, commit) && !mutant::is(Mutant::NotRefitted) {
                return Outcome::Conflict(Some(at));
            }
            let closes = match self.closes(&at.0).await {
                Ok(closes) => closes,
                Err(cause) => return Outcome::refused(cause),
            };
            let record = Record { commit, closes, intent: Some(Intent::Changes(changes.clone())) };
            let payload = match at.0.countable(changes).and_then(|()| checked(&record)) {
                Ok(encoded) => Bytes::from(at.0.with_header(encoded)),
                Err(cause) => return Outcome::refused(cause),
            };
            let now = match self.append(&at, commit, payload.clone()).await {
                Landing::Ended(outcome) => return outcome,
                Landing::Passed(now) => {
                    at = now;
                    continue;
                }
                Landing::Found(now, false) => return Outcome::Conflict(Some(now)),
                Landing::Found(now, true) => now,
                Landing::Taken => match landed(next, &payload, closes) {
                    Ok(state) => self.keep(Snapshot(Arc::new(state))),
                    Err(error) => return Outcome::Unknown(Cause::from_error(error)),
                },
            };
            // Step 4. The outcome does not depend on it.
            if closes && now.0.segment.number == at.0.segment.number + 1 {
                drop(self.write_checkpoint(&now.0.segment).await);
            }
            return Outcome::Committed(now);
        }
        Outcome::Conflict(Some(at))
    }
}

/// The outcome of a commit whose evidence was vacuumed.
fn emptied() -> Outcome<Snapshot> {
    Outcome::Unknown(Cause::words("the log was vacuumed beyond this commit before its outcome could be settled"))
}

/// The bytes of a record, after checking that they can be decoded.
fn checked(record: &Record) -> Result<Vec<u8>, Cause> {
    let encoded = record.encode();
    if encoded.len() > MOST_RECORD_BYTES {
        let size = encoded.len();
        return Err(Cause::words(format!("the changes take {size} bytes; a record holds at most {MOST_RECORD_BYTES}")));
    }
    match Record::decode(&encoded) {
        Ok((read, [])) if read == *record => Ok(encoded),
        Ok(_) => Err(Cause::words("the changes break the catalog's rules")),
        Err(error) => Err(Cause::from_error(error)),
    }
}

/// The state after a record that was just appended.
fn landed(mut next: State, payload: &[u8], closes: bool) -> Result<State, DecodeError> {
    if closes {
        return next.next_segment();
    }
    next.records += 1;
    next.reach(payload);
    Ok(next)
}

impl<E: Env> Catalog for AppendLog<E> {
    type Snapshot = Snapshot;

    async fn load(&self) -> Result<Snapshot, LoadError> {
        self.catch_up().await
    }

    fn version(&self, at: &Snapshot) -> Option<Version> {
        Some(at.0.version)
    }

    async fn tables<'a>(&self, at: &'a Snapshot, ids: &[TableId]) -> Result<TableStates<'a>, LoadError> {
        Ok(ids.iter().map(|id| at.0.table(*id).map(Cow::Borrowed)).collect())
    }

    async fn entry(&self, at: &Snapshot, name: &Name) -> Result<Option<Entry>, LoadError> {
        Ok(at.0.entry(name))
    }

    async fn children(
        &self,
        at: &Snapshot,
        namespace: Option<&Name>,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, LoadError> {
        Ok(at.0.children(namespace, after, limit))
    }

    async fn commit(&self, base: &Snapshot, changes: &Changes) -> Outcome<Snapshot> {
        if let Err(cause) = self.can_write() {
            return Outcome::refused(cause);
        }
        // Step 1. Another handle of this process may know a newer state than the base.
        let further = |other: &Snapshot| other.0.place() > base.0.place();
        let at = self.newest().filter(further).unwrap_or_else(|| base.clone());
        match self.try_commit(at, changes).await {
            Outcome::Conflict(at) => Outcome::Conflict(at.filter(further)),
            outcome => outcome,
        }
    }
}

#[cfg(test)]
mod tests;
