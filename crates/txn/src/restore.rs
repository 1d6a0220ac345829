//! How is a service taken back to a timestamp? What committed after it becomes aborted, and what had not ended is
//! aborted.
//!
//! A backup of the data of transactions is what the store had at some moment, and a timestamp that was given out before
//! that moment, the *backup timestamp*: data of transactions that committed up to it is in the backup. To restore: put
//! the data back, and then the service, with [`restore`]:
//!
//! 1. Take a timestamp: the *last*. Transactions that start after it are not touched.
//! 2. Go through all start timestamps from the *oldest* one that may end after the backup timestamp was asked for, or
//!    from the one behind the backup timestamp if that is lower, up to the last. (A start timestamp that is below the
//!    backup timestamp may be given out after it, if both were asked for at the same time.) One that committed after
//!    the backup timestamp is rewritten to aborted, by compare-and-set of the very value that was seen, or, where the
//!    store has final values, by one of a higher rank.
//! 3. One that has no cell gets one: aborted. So a transaction that began before the last timestamp cannot commit any
//!    more.
//! 4. Go through them once more: nothing is left to do, or go on with 2.
//!
//! Readers keep ends in memory ([`Options::cached`](crate::table::Options::cached)): every process must open the
//! service again after a restore, and forget what it read before. Until the restore has ended a reader may see some
//! transactions committed and others aborted.
//!
//! A restore that is broken off is repeated from the beginning, with the same backup timestamp.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use glidepath_env::{Env, KvStore};

use crate::mutant::{self, Mutant};
use crate::service::{Service, ServiceError};
use crate::table::{DecideError, GetError, Transactions};
use crate::timestamps::{Allocator, TakeError};
use crate::{Outcome, Timestamp};

/// Start timestamps that are looked at together.
const PAGE: u64 = 4096;

/// Why a restore did not end. It may be repeated.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RestoreError {
    /// The last timestamp was not given out.
    #[error(transparent)]
    Take(#[from] TakeError),
    /// A table was not found.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// Transactions could not be read.
    #[error(transparent)]
    Get(#[from] GetError),
    /// A transaction could not be rewritten.
    #[error("transaction {start} could not be aborted: {cause}")]
    Decide {
        /// The transaction.
        start: Timestamp,
        /// Why.
        cause: DecideError,
    },
}

/// What a restore did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    /// Transactions that had committed after the backup timestamp.
    pub undone: u64,
    /// Start timestamps without an end, which have one now.
    pub fenced: u64,
    /// No transaction that began up to this start timestamp can commit any more.
    pub last: Option<Timestamp>,
}

/// Takes a service back to `backup`: steps 1 to 4. Each transaction with a start timestamp below `oldest` had ended
/// when the backup timestamp was asked for, or never began. No program uses the service meanwhile, and one restore is
/// made at a time.
///
/// # Errors
/// [`RestoreError`]. Some transactions may have been rewritten.
pub async fn restore<E: Env + Clone, K: KvStore + Clone>(
    service: &Service<E, K>,
    allocator: &Allocator<E, K>,
    oldest: Timestamp,
    backup: Timestamp,
    progress: &dyn Fn(Timestamp),
) -> Result<Restored, RestoreError> {
    let last = allocator.take(1).await?.iter().next();
    let mut done = Restored { last, ..Restored::default() };
    let Some(last) = last else { return Ok(done) };
    // The map reaches to the last timestamp, so that nothing below it is left out.
    service.table_of(last).await?;
    // Whatever was in progress: all that started after the backup ended after it.
    let oldest = Timestamp::new(backup.get() + 1).map_or(oldest, |behind| oldest.min(behind));
    let last = if mutant::is(Mutant::BackupIsLast) { backup } else { last };
    loop {
        let before = (done.undone, done.fenced);
        for (table, range) in service.tables_of(oldest..=last).await? {
            let mut from = range.start().get();
            while from <= range.end().get() {
                let to = range.end().get().min(from.saturating_add(PAGE - 1));
                let (Ok(first), Ok(end)) = (Timestamp::new(from), Timestamp::new(to)) else { break };
                page(&table, first..=end, backup, &mut done).await?;
                progress(end);
                from = to + 1;
            }
        }
        if before == (done.undone, done.fenced) {
            return Ok(done);
        }
    }
}

/// Steps 2 and 3, of some start timestamps.
async fn page<E: Env, K: KvStore>(
    table: &Transactions<E, K>,
    range: RangeInclusive<Timestamp>,
    backup: Timestamp,
    done: &mut Restored,
) -> Result<(), RestoreError> {
    let numbers = range.start().get()..=range.end().get();
    let mut open: BTreeSet<Timestamp> = numbers.filter_map(|number| Timestamp::new(number).ok()).collect();
    let mut undo = Vec::new();
    let starts: Vec<_> = open.iter().copied().collect();
    for (start, outcome) in table.read_anew(&starts).await? {
        open.remove(&start);
        if matches!(outcome, Outcome::Committed(commit) if commit > backup) {
            undo.push((start, outcome));
        }
    }
    for (start, outcome) in undo {
        table.undo(start, outcome).await.map_err(|cause| RestoreError::Decide { start, cause })?;
        done.undone += 1;
    }
    if mutant::is(Mutant::OpenSpared) {
        return Ok(());
    }
    let open: Vec<_> = open.into_iter().map(|start| (start, Outcome::Aborted)).collect();
    for ((start, _), decided) in open.iter().zip(table.decide_many(&open).await) {
        match decided.map_err(|cause| RestoreError::Decide { start: *start, cause })? {
            Outcome::Aborted => done.fenced += 1,
            // It committed meanwhile.
            Outcome::Committed(commit) if commit <= backup => {}
            outcome => {
                table.undo(*start, outcome).await.map_err(|cause| RestoreError::Decide { start: *start, cause })?;
                done.undone += 1;
            }
        }
    }
    Ok(())
}
