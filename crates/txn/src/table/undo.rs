//! How is a transaction that has committed made an aborted one? Only where a backup is restored.

use glidepath_env::{Cause, ConditionError, Env, KvStore, Rank, ReadLevel, WriteError};

use super::{DecideError, GetError, Transactions};
use crate::mutant::{self, Mutant};
use crate::{Entry, Outcome, Timestamp};
use glidepath_env::settling::{self, ROUNDS};

impl<E: Env, K: KvStore> Transactions<E, K> {
    /// How these transactions have ended, from the store, whatever is in the cache; by a linearizable read.
    pub(crate) async fn read_anew(&self, starts: &[Timestamp]) -> Result<Vec<(Timestamp, Outcome)>, GetError> {
        let read = self.read(starts, ReadLevel::Linearizable).await?;
        Ok(read.into_iter().map(|(start, entry)| (start, entry.outcome)).collect())
    }

    /// Rewrites a transaction that ended so to aborted, and waits until that is certain. It is taken out of the cache
    /// of this process.
    pub(crate) async fn undo(&self, start: Timestamp, outcome: Outcome) -> Result<(), DecideError> {
        let aborted = self.shared.encoding.encode_value(start, Entry::committed(Outcome::Aborted))?;
        let cell = self.shared.encoding.cell(start);
        let finally = self.store.capabilities().final_writes;
        let mut cause = Cause::words("the store was not asked");
        for round in 0..ROUNDS {
            let ended = self.read(&[start], ReadLevel::Linearizable).await?.pop().map(|(_, entry)| entry);
            self.shared.ends.forget(start);
            match ended {
                Some(Entry { outcome: Outcome::Aborted, .. }) => return Ok(()),
                Some(entry) if entry.outcome == outcome => {
                    let error = if finally {
                        // Whatever conditional writes follow, and whoever makes an earlier value final.
                        let rank = if mutant::is(Mutant::UndoOfNoRank) { Rank::Written } else { Rank::Restored };
                        match self.store.put_final(&self.shared.table, &cell, &aborted, rank).await {
                            Ok(()) => None,
                            Err(WriteError::Unknown(cause)) => Some(cause),
                            Err(WriteError::Refused(denial)) => Some(denial.cause),
                        }
                    } else {
                        let old = self.shared.encoding.encode_value(start, entry)?;
                        match self.store.compare_and_set(&self.shared.table, &cell, Some(&old), &aborted).await {
                            Ok(()) | Err(ConditionError::Lost { .. }) => None,
                            Err(ConditionError::Unknown(cause)) => Some(cause),
                            Err(ConditionError::Refused(denial)) => Some(denial.cause),
                        }
                    };
                    match error {
                        // What is there is read once more, so that it is certain.
                        None if round + 1 < ROUNDS => continue,
                        None => cause = Cause::words("it was written again, and not read since"),
                        Some(why) => cause = why,
                    }
                }
                other => {
                    let found = other.map_or("nothing".to_owned(), |entry| format!("{:?}", entry.outcome));
                    let words = format!("it ended {outcome:?} and is now {found}, which no writer of this table does");
                    return Err(DecideError::Unknown(Cause::words(words)));
                }
            }
            settling::wait_after(&self.env, round).await;
        }
        Err(DecideError::Unknown(cause))
    }
}
