//! Who gives out timestamps, so that none is ever given out twice?
//!
//! One cell of a key-value store holds the *bound*: every number below it may have been given out. An [`Allocator`]
//! owns the numbers of the allotment by which it moved the bound, and gives them out from memory.
//!
//! 1. Read the cell, by a linearizable read. An absent cell is a bound of 1.
//! 2. Replace it by compare-and-set: the bound becomes larger by an allotment, and the owner this allocator. Each value
//!    names its owner and the number of its move, so that no two values are equal.
//! 3. Only when that is certain to have happened give out the numbers between the old bound and the new one, in order.
//! 4. Where the numbers do not suffice, move the bound again, from the value that this allocator wrote last. If another
//!    value is there, another allocator has taken over. This one stops for good: [`TakeError::Fenced`].
//!
//! **What became of a move that is unknown** is settled by the same compare-and-set again: it is then lost to the new
//! value (the move happened) or to one of another owner (fenced). No lock is held meanwhile. Tasks that find the
//! allotment used up at the same time all move the bound; one of them succeeds, and the others find its value, which
//! says whose it is and from where on. So a task that goes away in step 2, or is never polled again, stops nobody: the
//! next one finds what it did.
//!
//! **Two allocators at a time** never give out the same number. But the earlier one may still give out the rest of its
//! allotment while the later one gives out higher numbers: then a timestamp can be lower than one that was given out
//! before. Where that must not be, because several processes have allocators on one store, choose [`Sharing::Shared`]:
//! the allocator then reads the cell after it took numbers, and gives them out only if it is still the owner.

mod bound;
mod residues;

use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use glidepath_env::{Cause, Cell, ConditionError, Env, KvReadError, KvStore, Purpose, ReadLevel, Table};

use crate::Timestamp;
use crate::mutant::{self, Mutant};
use bound::Bound;
use glidepath_env::settling::{self, ROUNDS};

pub use residues::{Lease, Residue, Residues};

/// Why no timestamp was given out.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TakeError {
    /// Another allocator has moved the bound. This one will never give out a timestamp again.
    #[error(
        "another allocator of timestamps has taken over table {table} (its bound is {bound}); open a new one, if this process is to go on"
    )]
    Fenced {
        /// Where the bound is kept.
        table: Table,
        /// The bound that the other one wrote.
        bound: u64,
    },
    /// So many timestamps are not left: [`Timestamp::LAST`] would be exceeded.
    #[error("{wanted} timestamps were asked for, and {left} are left")]
    Exhausted {
        /// How many numbers were needed.
        wanted: u64,
        /// How many there are.
        left: u64,
    },
    /// What is in the cell was not written by this program, or by a later version of it.
    #[error("the bound of timestamps in table {table} cannot be read: {found}")]
    Unreadable {
        /// Where the bound is kept.
        table: Table,
        /// What is wrong.
        found: String,
    },
    /// The store does not answer, or refuses. Numbers may have been lost; none was given out.
    #[error("the store of timestamps failed: {0}")]
    Store(Cause),
}

/// Whether other processes may have allocators on the same cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// None, for instance because this process alone can open the store. Timestamps are given out without a request to
    /// the store while the allotment lasts.
    Alone,
    /// There may be others. Each call makes a linearizable read, after which it is certain that no other allocator gave
    /// out a higher timestamp before the call began.
    Shared,
}

/// How an allocator works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AllocatorOptions {
    /// Numbers by which the bound is moved; at least 1. A process that ends wastes at most so many. AtlasDB's is
    /// 1,000,000.
    pub allotment: u64,
    /// Whether there may be other allocators.
    pub sharing: Sharing,
}

impl Default for AllocatorOptions {
    fn default() -> Self {
        Self { allotment: 1_000_000, sharing: Sharing::Alone }
    }
}

/// Gives out timestamps. Each is greater than all that this allocator gave out before, and was never given out by
/// another.
///
/// This is a handle. Share it by reference among tasks and threads, or make [others](Self::with).
#[derive(Clone)]
pub struct Allocator<E, K> {
    env: E,
    store: K,
    shared: Arc<Shared>,
}

/// What all handles of a process to one allocator share.
#[derive(Debug)]
pub struct Shared {
    table: Table,
    options: AllocatorOptions,
    /// 128 random bits: whose value it is.
    owner: u128,
    numbers: Mutex<Numbers>,
}

/// The numbers that may be given out without a move, and the move that they are from.
#[derive(Debug)]
struct Numbers {
    next: u64,
    /// Behind the last one.
    end: u64,
    /// The cell, unless somebody else has moved the bound. Changed only from one value to the next that the cell had.
    stored: Option<Bytes>,
    /// How many moves this allocator has sent.
    moves: u64,
    stopped: Option<TakeError>,
}

/// Numbers that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    first: u64,
    count: u64,
}

impl Run {
    /// How many there are; at least 1.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The first and the last of them.
    #[must_use]
    pub fn range(&self) -> RangeInclusive<u64> {
        self.first..=self.first + (self.count - 1)
    }

    /// All of them, the lowest first.
    pub fn iter(&self) -> impl Iterator<Item = Timestamp> + use<> {
        self.range().filter_map(|number| Timestamp::new(number).ok())
    }
}

impl<E: Env, K: KvStore> Allocator<E, K> {
    /// Takes over the bound in this table, which is made if it does not exist; an allocator that had it before is
    /// fenced.
    ///
    /// # Errors
    /// As [`Self::take`].
    pub async fn open(env: E, store: K, table: Table, options: AllocatorOptions) -> Result<Self, TakeError> {
        crate::table::make(&env, &store, &table).await.map_err(TakeError::Store)?;
        let half = || u128::from(env.draw(Purpose::Names));
        let owner = half() << 64 | half();
        let options = AllocatorOptions { allotment: options.allotment.clamp(1, Timestamp::LAST.get()), ..options };
        let numbers = Mutex::new(Numbers { next: 1, end: 1, stored: None, moves: 0, stopped: None });
        let allocator = Self { env, store, shared: Arc::new(Shared { table, options, owner, numbers }) };
        allocator.take_over().await?;
        Ok(allocator)
    }

    /// A handle to the same allocator, for a task with this view of the world.
    #[must_use]
    pub fn with(env: E, store: K, shared: Arc<Shared>) -> Self {
        Self { env, store, shared }
    }

    /// What its handles share.
    #[must_use]
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// So many timestamps, which follow each other.
    ///
    /// # Errors
    /// [`TakeError`]. After one that is [`TakeError::Store`] another call may succeed.
    ///
    /// # Panics
    /// Where `count` is 0.
    pub async fn take(&self, count: u64) -> Result<Run, TakeError> {
        self.take_from(count, 1, 0).await
    }

    /// `count` timestamps whose remainder by `modulus` is `remainder`, lowest first. They use up `modulus` times as
    /// many numbers.
    ///
    /// # Errors
    /// As [`Self::take`].
    ///
    /// # Panics
    /// Where `count` is 0, or `remainder` is not below `modulus`.
    pub async fn take_residue(
        &self,
        count: u64,
        Residue { modulus, remainder }: Residue,
    ) -> Result<impl Iterator<Item = Timestamp> + use<E, K>, TakeError> {
        assert!(remainder < modulus, "a remainder by {modulus} is below it, and {remainder} is not");
        let run = self.take_from(count.saturating_mul(modulus), modulus, remainder).await?;
        Ok(run.range().step_by(modulus as usize).filter_map(|number| Timestamp::new(number).ok()))
    }

    /// No number up to `to` will be given out, by anybody: what was restored from a backup may have used them.
    ///
    /// # Errors
    /// As [`Self::take`]. Then numbers up to `to` may still be given out.
    pub async fn fast_forward(&self, to: Timestamp) -> Result<(), TakeError> {
        loop {
            {
                let mut numbers = self.numbers()?;
                numbers.next = numbers.next.max(numbers.end.min(to.get() + 1));
                if numbers.next > to.get() {
                    return Ok(());
                }
            }
            self.extend(to.get() + 1, 0).await?;
        }
    }

    /// Numbers, the first of which has this remainder.
    async fn take_from(&self, count: u64, modulus: u64, remainder: u64) -> Result<Run, TakeError> {
        assert!(count > 0, "no timestamp was asked for");
        loop {
            let taken = self.numbers()?.take(count, modulus, remainder);
            if let Some(run) = taken {
                if self.shared.options.sharing == Sharing::Shared && !mutant::is(Mutant::OwnerNotConfirmed) {
                    self.confirm().await?;
                }
                return Ok(run);
            }
            let least = count.saturating_add(modulus - 1);
            if mutant::is(Mutant::BoundMovedAfter) {
                self.numbers()?.end += least;
                continue;
            }
            self.extend(1, least).await.map_err(|error| match error {
                TakeError::Exhausted { left, .. } => {
                    let unused = self.numbers().map_or(0, |numbers| numbers.end.saturating_sub(numbers.next));
                    TakeError::Exhausted { wanted: count, left: left + unused }
                }
                other => other,
            })?;
        }
    }

    /// An error if this allocator is not the owner any more.
    async fn confirm(&self) -> Result<(), TakeError> {
        let found = self.read().await?;
        match self.decode(found.as_ref())? {
            Some(bound) if bound.owner == self.shared.owner => Ok(()),
            Some(bound) => Err(self.stop(bound.bound)),
            None => Err(self.unreadable("it was there, and is there no more")),
        }
    }

    fn decode(&self, stored: Option<&Bytes>) -> Result<Option<Bound>, TakeError> {
        stored.map(|stored| Bound::decode(stored)).transpose().map_err(|found| self.unreadable(found))
    }

    fn unreadable(&self, found: impl Into<String>) -> TakeError {
        TakeError::Unreadable { table: self.shared.table.clone(), found: found.into() }
    }

    fn numbers(&self) -> Result<MutexGuard<'_, Numbers>, TakeError> {
        // Each change of the numbers is one assignment, so a panic elsewhere leaves none half done.
        let numbers = self.shared.numbers.lock().unwrap_or_else(PoisonError::into_inner);
        match &numbers.stopped {
            Some(error) => Err(error.clone()),
            None => Ok(numbers),
        }
    }

    /// Stops for good.
    fn stop(&self, bound: u64) -> TakeError {
        let error = TakeError::Fenced { table: self.shared.table.clone(), bound };
        self.shared.numbers.lock().unwrap_or_else(PoisonError::into_inner).stopped = Some(error.clone());
        error
    }
}

/// Steps 1, 2 and 4.
impl<E: Env, K: KvStore> Allocator<E, K> {
    async fn take_over(&self) -> Result<(), TakeError> {
        for round in 0..ROUNDS {
            let stored = self.read().await?;
            let bound = self.decode(stored.as_ref())?.map_or(1, |bound| bound.bound);
            self.numbers()?.stored = stored;
            match self.extend(bound, 0).await {
                Err(TakeError::Fenced { .. }) => {
                    // Another allocator took over in between. This one has given out nothing yet, so it may try again.
                    self.shared.numbers.lock().unwrap_or_else(PoisonError::into_inner).stopped = None;
                    settling::wait_after(&self.env, round).await;
                }
                other => return other,
            }
        }
        Err(TakeError::Store(Cause::words("other allocators of timestamps took over each time this one tried to")))
    }

    /// Moves the bound, so that numbers behind it, none below `lowest`, are this allocator's: `least` of them and an
    /// allotment. Or finds that another task of this process has moved it.
    async fn extend(&self, lowest: u64, least: u64) -> Result<(), TakeError> {
        let (expected, to) = {
            let mut numbers = self.numbers()?;
            let from = numbers.end.max(lowest);
            let left = (Timestamp::LAST.get() + 1).saturating_sub(from);
            // Numbers that are left follow those that were not given out yet, if nobody else moves the bound.
            let unused = if lowest <= numbers.end { numbers.end.saturating_sub(numbers.next) } else { 0 };
            let least = least.saturating_sub(unused);
            if least > left {
                return Err(TakeError::Exhausted { wanted: least, left });
            }
            numbers.moves += 1;
            let bound = from + least.max(self.shared.options.allotment).min(left);
            (numbers.stored.clone(), Bound { from, bound, owner: self.shared.owner, moves: numbers.moves })
        };
        let (new, cell) = (to.encode(), cell());
        let mut cause = Cause::words("the store was not asked");
        for round in 0..ROUNDS {
            match self.store.compare_and_set(&self.shared.table, &cell, expected.as_ref(), &new).await {
                Ok(()) => return self.moved(to, new),
                Err(ConditionError::Lost { found }) => {
                    let found = found.into_iter().next().map(|(_, value)| value);
                    return match (self.decode(found.as_ref())?, found) {
                        (Some(bound), Some(found)) if bound.owner == self.shared.owner => self.moved(bound, found),
                        (Some(other), _) => Err(self.stop(other.bound)),
                        _ => Err(self.unreadable("it was there, and is there no more")),
                    };
                }
                Err(ConditionError::Unknown(_)) if mutant::is(Mutant::MoveTakenForDone) => return self.moved(to, new),
                // The same again settles it, whatever became of the first.
                Err(ConditionError::Unknown(why)) => cause = why,
                Err(ConditionError::Refused(denial)) if denial.certain && !denial.passing => {
                    return Err(TakeError::Store(denial.cause));
                }
                Err(ConditionError::Refused(denial)) => cause = denial.cause,
            }
            settling::wait_after(&self.env, round).await;
        }
        Err(TakeError::Store(cause))
    }

    /// The cell has this value of this allocator: its numbers may be given out, unless a task has said so before.
    fn moved(&self, to: Bound, stored: Bytes) -> Result<(), TakeError> {
        let mut numbers = self.numbers()?;
        let known = self.decode(numbers.stored.as_ref())?.map_or(0, |bound| bound.bound);
        // At the end of all timestamps the bound stays as it is.
        if to.bound > known || to.bound > numbers.end {
            if numbers.end != to.from {
                numbers.next = to.from;
            }
            (numbers.end, numbers.stored) = (to.bound, Some(stored));
        }
        Ok(())
    }

    async fn read(&self) -> Result<Option<Bytes>, TakeError> {
        match read(&self.env, &self.store, &self.shared.table).await? {
            Some(stored) => Ok(stored),
            None => {
                let words = glidepath_env::KvReadError::NoTable(self.shared.table.clone()).to_string();
                Err(TakeError::Store(Cause::words(words)))
            }
        }
    }
}

/// The bound in this table: every timestamp that was given out is below it. 1 where none was. No allocator is fenced by
/// that.
///
/// # Errors
/// [`TakeError`]
pub async fn bound<E: Env, K: KvStore>(env: &E, store: &K, table: &Table) -> Result<u64, TakeError> {
    let Some(stored) = read(env, store, table).await?.flatten() else { return Ok(1) };
    let bound = Bound::decode(&stored);
    bound.map(|bound| bound.bound).map_err(|found| TakeError::Unreadable { table: table.clone(), found })
}

/// What is in the cell, by a linearizable read; the outer `None`: there is no table.
async fn read<E: Env, K: KvStore>(env: &E, store: &K, table: &Table) -> Result<Option<Option<Bytes>>, TakeError> {
    let cells = [cell()];
    let mut cause = Cause::words("the store was not asked");
    for round in 0..ROUNDS {
        match store.get(table, &cells, ReadLevel::Linearizable).await {
            Ok(mut values) => return Ok(Some(values.pop().flatten())),
            Err(KvReadError::NoTable(_)) => return Ok(None),
            Err(KvReadError::Failed(why)) => cause = why,
        }
        settling::wait_after(env, round).await;
    }
    Err(TakeError::Store(cause))
}

impl Numbers {
    /// The first number with this remainder.
    fn first(&self, modulus: u64, remainder: u64) -> u64 {
        let behind = self.next % modulus;
        self.next + (remainder + modulus - behind) % modulus
    }

    fn fits(&self, count: u64, modulus: u64, remainder: u64) -> bool {
        self.first(modulus, remainder).checked_add(count).is_some_and(|end| end <= self.end)
    }

    fn take(&mut self, count: u64, modulus: u64, remainder: u64) -> Option<Run> {
        if !self.fits(count, modulus, remainder) {
            return None;
        }
        let first = self.first(modulus, remainder);
        self.next = first + count;
        Some(Run { first, count })
    }
}

fn cell() -> Cell {
    Cell { row: Bytes::from_static(b"timestamps"), column: Bytes::from_static(b"bound") }
}
