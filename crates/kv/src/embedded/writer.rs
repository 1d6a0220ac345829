//! How do writes become durable? One thread takes all that wait, checks their conditions one after another, and writes
//! those that hold as one batch with one fsync. Only then does anybody see them, or hear of them.
//!
//! 1. A request waits in a bounded queue. From there on it is the thread's: dropping its future changes nothing.
//! 2. The thread takes what waits, and checks each condition against the cells, and against what it has accepted in the
//!    same batch.
//! 3. A write that is lost to cells that are durable is told so at once. One that was checked against an accepted write
//!    waits as that does: its answer says that those values are there.
//! 4. The library writes the batch to its journal, syncs that, and only then puts the cells where reads find them. So
//!    reads show nothing that a loss of power can take away, and never wait for a sync.
//! 5. Those who were answered often ask again at once, and some already wait. The thread waits for all of them, half
//!    the time of the last batch at most, so that one sync does for both. Meanwhile it yields its processor. If it does
//!    not get it back in time, others need it, and the thread does not wait so for a second.
//! 6. If a batch fails, all who wait for the batch get *unknown*: it may be in the journal, and the next opening may
//!    find it there. This store takes no more writes, because nobody can check a condition against cells that may or
//!    may not be there.

use std::collections::HashMap;
use std::error::Error;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use fjall::{Keyspace, OwnedWriteBatch as WriteBatch, PersistMode, Slice};
use glidepath_env::{Cause, ConditionError, Denial, WriteError};
use tokio::sync::{mpsc, oneshot};

use super::keys;
use super::tables::Tables;

/// Requests of one batch, at most. More only add to what each of them waits.
const MOST_REQUESTS: usize = 4096;

/// Bytes of one batch, about: no further request is taken once it has so many.
const MOST_BYTES: usize = 16 << 20;

/// How long the thread waits for those whom it has just answered, at most; and which part of the time that the last
/// batch took.
const LONGEST_WAIT: Duration = Duration::from_micros(200);
const PART_OF_BATCH: u32 = 2;

/// How long it does not wait after it has lost its processor in doing so.
const CROWDED: Duration = Duration::from_secs(1);

/// So many columns are looked up by one scan, which is cheaper where they are new, the usual case.
const SCANNED_FROM: usize = 8;

/// Full memtables and new files of a table with which no batch is written yet. The library makes a commit wait where
/// they are 4 and 30, for ever if what it waits for has failed; a commit adds two at most.
const MOST_FULL_MEMTABLES: usize = 2;
const MOST_NEW_FILES: usize = 24;

/// What the thread is asked for.
pub(super) enum Request {
    Write(Write),
    CreateTable { name: glidepath_env::Table, reply: oneshot::Sender<Result<(), WriteError>> },
}

/// A conditional write of cells of one row.
pub(super) struct Write {
    pub(super) table: Keyspace,
    /// How many bytes of each key are not its column.
    pub(super) beginning: usize,
    /// Keys in their order, and new values; one at least.
    pub(super) cells: Vec<(Slice, Slice)>,
    /// What each of the cells must have now; `None`: nothing.
    pub(super) expected: Option<Slice>,
    pub(super) reply: oneshot::Sender<Outcome>,
}

pub(super) type Outcome = Result<(), ConditionError>;

/// Why no more writes are taken; empty while they are.
pub(super) type Broken = Arc<OnceLock<String>>;

/// Writes a batch so that it is durable when it returns, and visible only then.
pub(super) type Commit = Box<dyn FnMut(WriteBatch) -> fjall::Result<()> + Send>;

/// The thread's own.
pub(super) struct Writer {
    pub(super) tables: Arc<Tables>,
    pub(super) broken: Broken,
    pub(super) commit: Commit,
}

/// What the writes of a batch that is not durable yet have put where.
type Accepted = HashMap<(u64, Slice), Slice>;

/// A batch that was answered.
struct Answered {
    at: Instant,
    took: Duration,
    /// The requests that may come soon.
    expected: usize,
}

/// What a condition found.
struct Found {
    holds: bool,
    /// The cells that exist: columns and values.
    cells: Vec<(Slice, Slice)>,
    /// Whether one of them is of the batch itself.
    in_flight: bool,
}

impl Writer {
    /// Until the last handle is gone and everything that waited is done.
    pub(super) fn run(mut self, mut requests: mpsc::Receiver<Request>) {
        // After a panic those of its batch have lost their senders, and so get *unknown*. The thread goes on, to refuse
        // the rest: a request that nobody takes would wait for ever.
        while catch_unwind(AssertUnwindSafe(|| self.serve(&mut requests))).is_err() {
            self.broken.get_or_init(|| "the writer thread panicked".to_owned());
        }
    }

    fn serve(&mut self, requests: &mut mpsc::Receiver<Request>) {
        let mut taken = Vec::new();
        let (mut last, mut crowded): (Option<Answered>, Option<Instant>) = (None, None);
        while let Some(request) = requests.blocking_recv() {
            if let Some(last) = &last
                && crowded.is_none_or(|since| since.elapsed() > CROWDED)
            {
                let lost = last.wait_for_them(|| 1 + requests.len());
                crowded = lost.then(now);
            }
            let mut bytes = request.bytes();
            taken.push(request);
            while taken.len() < MOST_REQUESTS && bytes < MOST_BYTES {
                let Ok(request) = requests.try_recv() else { break };
                bytes += request.bytes();
                taken.push(request);
            }
            let begun = now();
            let expected = self.batch(&mut taken, requests);
            let at = now();
            last = Some(Answered { at, took: at - begun, expected });
        }
    }

    /// How many requests may come soon: as [`finish`](Self::finish), of what was written last.
    fn batch(&mut self, taken: &mut Vec<Request>, next: &mpsc::Receiver<Request>) -> usize {
        let mut batch = self.tables.database().batch();
        let mut accepted = Accepted::new();
        let mut waiting = Vec::with_capacity(taken.len());
        let mut left = taken.len();
        for request in taken.drain(..) {
            left -= 1;
            if let Some(why) = self.broken.get() {
                request.refuse(&self.no_more_writes(why));
                continue;
            }
            let write = match request {
                Request::Write(write) => write,
                Request::CreateTable { name, reply } => {
                    answer(reply, self.tables.create(&name, &self.broken));
                    continue;
                }
            };
            if let Err(error) = self.wait_for_room(&write.table) {
                let why = self.broken.get_or_init(|| format!("writing in the background failed: {}", cause(error)));
                Request::Write(write).refuse(&self.no_more_writes(why));
                continue;
            }
            match check(&write, &accepted) {
                Err(error) => {
                    let denial = Denial::certain(cause(error));
                    answer(write.reply, Err(ConditionError::Refused(denial)));
                }
                Ok(found) if found.holds => {
                    if found.in_flight {
                        // It replaces what the batch writes. A batch has each cell once, because the library would take
                        // the first value away before it puts the second one there.
                        let before = std::mem::replace(&mut batch, self.tables.database().batch());
                        self.finish(before, std::mem::take(&mut waiting), next);
                        accepted.clear();
                        if let Some(why) = self.broken.get() {
                            Request::Write(write).refuse(&self.no_more_writes(why));
                            continue;
                        }
                    }
                    // Nobody is checked against the last one.
                    accept(&mut batch, (left > 0).then_some(&mut accepted), &write);
                    waiting.push((write.reply, Ok(())));
                }
                Ok(found) => {
                    let column = |key: &Slice| keys::bytes(&key[write.beginning..]);
                    let columns = found.cells.iter().map(|(key, value)| (column(key), keys::bytes(value)));
                    let lost = Err(ConditionError::Lost { found: columns.collect() });
                    if found.in_flight {
                        waiting.push((write.reply, lost));
                    } else {
                        answer(write.reply, lost);
                    }
                }
            }
        }
        self.finish(batch, waiting, next)
    }

    /// Waits until the library has written enough of the table in the background.
    #[expect(clippy::disallowed_methods, reason = "live code, and the library has nothing to wait for but time")]
    fn wait_for_room(&self, table: &Keyspace) -> fjall::Result<()> {
        while table.sealed_memtable_count() >= MOST_FULL_MEMTABLES || table.l0_table_count() >= MOST_NEW_FILES {
            // Fails where something in the background has failed.
            self.tables.database().persist(PersistMode::Buffer)?;
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn no_more_writes(&self, why: &str) -> String {
        no_more_writes(&self.tables.folder().path, why)
    }

    /// How many requests may come soon: as many as are answered, and those that came before the answers.
    fn finish(
        &mut self,
        batch: WriteBatch,
        waiting: Vec<(oneshot::Sender<Outcome>, Outcome)>,
        next: &mpsc::Receiver<Request>,
    ) -> usize {
        if waiting.is_empty() {
            return 0;
        }
        let durable = (self.commit)(batch);
        let expected = waiting.len() + next.len();
        match durable {
            Ok(()) => {
                for (reply, outcome) in waiting {
                    answer(reply, outcome);
                }
            }
            Err(error) => {
                let why = self.broken.get_or_init(|| format!("writing or syncing a batch failed: {}", cause(error)));
                let cause = Cause::words(self.no_more_writes(why));
                for (reply, _) in waiting {
                    answer(reply, Err(ConditionError::Unknown(cause.clone())));
                }
            }
        }
        expected
    }
}

impl Answered {
    /// Step 5. Whether the thread was without a processor for longer than it may wait.
    fn wait_for_them(&self, waiting: impl Fn() -> usize) -> bool {
        let longest = LONGEST_WAIT.min(self.took / PART_OF_BATCH);
        while waiting() < self.expected && self.at.elapsed() < longest {
            let yielded = now();
            thread::yield_now();
            if yielded.elapsed() > LONGEST_WAIT {
                return true;
            }
        }
        false
    }
}

#[expect(clippy::disallowed_methods, reason = "live code: how long a disk takes")]
fn now() -> Instant {
    Instant::now()
}

impl Request {
    /// About how much memory it takes.
    fn bytes(&self) -> usize {
        match self {
            Self::Write(write) => write.cells.iter().map(|(key, value)| key.len() + value.len() + 32).sum(),
            Self::CreateTable { .. } => 0,
        }
    }

    fn refuse(self, why: &str) {
        let denial = Denial::words(why);
        match self {
            Self::Write(Write { reply, .. }) => answer(reply, Err(ConditionError::Refused(denial))),
            Self::CreateTable { reply, .. } => answer(reply, Err(WriteError::Refused(denial))),
        }
    }
}

/// What somebody is told who writes to a store that takes no more.
pub(super) fn no_more_writes(folder: &Path, why: &str) -> String {
    let folder = folder.display();
    format!(
        "the store in {folder} takes no more writes, because {why}; see that the disk works and has room, then open it again"
    )
}

/// Why the library failed, for people: what the file system said, where it was that.
pub(super) fn cause(error: fjall::Error) -> Cause {
    match error {
        fjall::Error::Io(error) => Cause::from_error(error),
        fjall::Error::Poisoned => Cause::words("an earlier write of the library failed"),
        error => of_files(&error).map_or_else(|| Cause::from_error(error), Cause::words),
    }
}

/// What the file system said, if that is behind an error of the library.
fn of_files(error: &fjall::Error) -> Option<String> {
    let mut next = error.source();
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return Some(error.to_string());
        }
        next = error.source();
    }
    None
}

/// Nobody may be there any more to hear it. Whatever waking them does must not hurt the others.
fn answer<T>(reply: oneshot::Sender<T>, outcome: T) {
    let _ = catch_unwind(AssertUnwindSafe(|| reply.send(outcome)));
}

fn accept(batch: &mut WriteBatch, accepted: Option<&mut Accepted>, write: &Write) {
    for (key, value) in &write.cells {
        batch.insert(&write.table, key.clone(), value.clone());
    }
    if let Some(accepted) = accepted {
        let table = write.table.id();
        accepted.extend(write.cells.iter().map(|(key, value)| ((table, key.clone()), value.clone())));
    }
}

/// Whether the condition of a write holds, given what was accepted before it.
fn check(write: &Write, accepted: &Accepted) -> fjall::Result<Found> {
    let mut found = Found { holds: true, cells: Vec::new(), in_flight: false };
    let durable = durable_cells(write)?;
    let table = write.table.id();
    for ((key, _), durable) in write.cells.iter().zip(durable) {
        let in_flight = if accepted.is_empty() { None } else { accepted.get(&(table, key.clone())) };
        found.in_flight |= in_flight.is_some();
        let value = in_flight.cloned().or(durable);
        found.holds &= value == write.expected;
        found.cells.extend(value.map(|value| (key.clone(), value)));
    }
    Ok(found)
}

/// What the cells of a write have now, without what the batch adds.
fn durable_cells(write: &Write) -> fjall::Result<Vec<Option<Slice>>> {
    let cells = &write.cells;
    let (Some((first, _)), Some((last, _))) = (cells.first(), cells.last()) else { return Ok(Vec::new()) };
    if cells.len() >= SCANNED_FROM && write.table.range(first.clone()..=last.clone()).next().is_none() {
        return Ok(vec![None; cells.len()]);
    }
    cells.iter().map(|(key, _)| write.table.get(key)).collect()
}
