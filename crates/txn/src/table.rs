//! What became of a transaction? The table that says it, on any key-value store.
//!
//! A transaction that started at a timestamp has no cell while it is in progress. Its end is one conditional write of
//! that cell: *put unless exists*. So it ends once: committed at a timestamp, or aborted by anybody.
//!
//! **To decide** the end of transactions ([`Transactions::decide`]):
//!
//! 1. Put their cells unless they exist; those of one row in one request, rows at the same time.
//! 2. The put succeeded: they ended as they were to end. With the staged encoding, make the values final; should that
//!    fail, a reader does it.
//! 3. The put was lost to some cells: these transactions ended before, as their cells say. That may be an earlier
//!    delivery of this very put: an end that is equal is the one that was asked for. Put the others again.
//! 4. What became of the put is unknown: put again. Whatever it did, that is then found, or done.
//!
//! **To read** ([`Transactions::get`]): a cell that exists is the end of its transaction, for ever; so it is kept in a
//! cache. One that is absent says that the transaction was in progress at some moment of the read, and is never kept.
//! Where the plain reads of a store are not linearizable, cells are read by linearizable reads. With the staged
//! encoding they are read by plain ones: a final value needs no more, and a staged one is read again, by a linearizable
//! read, and made final.
//!
//! **To settle** a transaction that does not end ([`Transactions::settle`]): wait a while, then abort it by step 1.

mod ends;
mod format;
mod rows;
mod scan;
mod undo;

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use glidepath_env::{Cause, Cell, Denial, Env, KvReadError, KvStore, Rank, ReadLevel, Table, together};
use glidepath_model::Span;

use crate::mutant::{self, Mutant};
use crate::{Axis, Division, Encoding, Entry, Outcome, Planner, Stage, Timestamp};

use ends::Ends;
pub use format::{OpenError, parse_encoding};
pub(crate) use format::{claim, make};
pub use scan::Scan;

/// How a process works with a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// In which batches cells are loaded.
    pub division: Division,
    /// The limits of these batches. Which cells they keep together follows from the encoding.
    pub planner: Planner,
    /// Ends that are kept in memory. AtlasDB keeps 1,000,000.
    pub cached: usize,
    /// The most requests of one call at a time.
    pub parallel: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { division: Division::Selective, planner: Planner::default(), cached: 1_000_000, parallel: 16 }
    }
}

/// A transaction, as the table shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// It had not ended at some moment of the read. It may have now.
    InProgress,
    /// It ended so, for ever.
    Ended(Outcome),
}

/// Why a read gave nothing. It may be repeated.
#[derive(Clone, Debug, thiserror::Error)]
pub enum GetError {
    /// The store did not answer, or there is no table.
    #[error(transparent)]
    Store(#[from] KvReadError),
    /// No writer of this table wrote that.
    #[error(
        "table {table} has a value that this encoding never has, for the transaction that started at {start}: {found}"
    )]
    Damaged {
        /// The table.
        table: Table,
        /// The transaction.
        start: Timestamp,
        /// What is wrong.
        found: String,
    },
}

/// Why it is not certain that a transaction has ended.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DecideError {
    /// Nothing was sent: this end cannot be written.
    #[error("this end of a transaction cannot be written: {0}")]
    Impossible(#[from] crate::EncodeError),
    /// The transaction may have ended so, or may yet. To decide it again, in whatever way, settles it.
    #[error("it is not known how the transaction ended: {0}")]
    Unknown(Cause),
    /// Refused: nothing of this call has taken effect, or will.
    #[error("the store refused to end the transaction: {0}")]
    Refused(Denial),
    /// No writer of this table wrote what is there.
    #[error(transparent)]
    Read(#[from] GetError),
}

/// What all handles of a process to one table share: how it is written, and the ends that are known.
#[derive(Debug)]
pub struct Shared {
    table: Table,
    encoding: Encoding,
    options: Options,
    ends: Ends,
}

/// A handle to a table of transactions. Share it by reference among tasks and threads, or make [others](Self::with).
#[derive(Clone)]
pub struct Transactions<E, K> {
    env: E,
    store: K,
    shared: Arc<Shared>,
}

impl Shared {
    /// The table in the store.
    #[must_use]
    pub fn name(&self) -> &Table {
        &self.table
    }

    /// How its cells are written.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.encoding
    }
}

impl<E: Env, K: KvStore> Transactions<E, K> {
    fn new(env: E, store: K, table: Table, encoding: Encoding, options: Options) -> Self {
        let ends = Ends::new(options.cached);
        Self { env, store, shared: Arc::new(Shared { table, encoding, options, ends }) }
    }

    /// A handle to the same table, for a task with this view of the world.
    #[must_use]
    pub fn with(env: E, store: K, shared: Arc<Shared>) -> Self {
        Self { env, store, shared }
    }

    /// What its handles share.
    #[must_use]
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// How its cells are written.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.shared.encoding
    }

    /// The table in the store.
    #[must_use]
    pub fn name(&self) -> &Table {
        &self.shared.table
    }

    /// The most transactions of one row that one request of the store ends.
    pub(crate) fn most_columns(&self) -> usize {
        self.store.capabilities().most_columns.max(1)
    }

    /// Whether the store puts together what tasks ask for at the same time.
    pub(crate) fn gathers(&self) -> bool {
        self.store.capabilities().gathers
    }

    /// What became of one transaction.
    ///
    /// # Errors
    /// [`GetError`]
    pub async fn get(&self, start: Timestamp) -> Result<Status, GetError> {
        if let Some(outcome) = self.shared.ends.get(start) {
            return Ok(Status::Ended(outcome));
        }
        let found = self.load(vec![start]).await?;
        Ok(found.first().map_or(Status::InProgress, |(_, outcome)| Status::Ended(*outcome)))
    }

    /// What became of these transactions, in their order.
    ///
    /// # Errors
    /// [`GetError`]: of none then.
    pub async fn get_many(&self, starts: &[Timestamp]) -> Result<Vec<Status>, GetError> {
        let mut ended = BTreeMap::new();
        let mut missing = Vec::new();
        for start in starts {
            match self.shared.ends.get(*start) {
                Some(outcome) => _ = ended.insert(*start, outcome),
                None => missing.push(*start),
            }
        }
        missing.sort_unstable();
        missing.dedup();
        ended.extend(self.load(missing).await?);
        let status = |start| ended.get(start).map_or(Status::InProgress, |outcome| Status::Ended(*outcome));
        Ok(starts.iter().map(status).collect())
    }

    /// Ends a transaction, unless it has ended: steps 1 to 4. Answers how it has ended then, which may be otherwise.
    ///
    /// # Errors
    /// [`DecideError`]
    pub async fn decide(&self, start: Timestamp, outcome: Outcome) -> Result<Outcome, DecideError> {
        let mut decided = self.decide_many(&[(start, outcome)]).await;
        decided.pop().unwrap_or_else(|| Err(DecideError::Unknown(Cause::words("there was no answer"))))
    }

    /// Aborts a transaction, unless it has ended. Answers how it has ended then.
    ///
    /// # Errors
    /// [`DecideError`]
    pub async fn abort(&self, start: Timestamp) -> Result<Outcome, DecideError> {
        self.decide(start, Outcome::Aborted).await
    }

    /// How a transaction has ended. One that is in progress may end within `grace`, by the clock of this process, and
    /// is aborted then.
    ///
    /// # Errors
    /// [`DecideError`]
    pub async fn settle(&self, start: Timestamp, grace: Span) -> Result<Outcome, DecideError> {
        if let Status::Ended(outcome) = self.get(start).await? {
            return Ok(outcome);
        }
        self.env.sleep_until(self.env.now() + grace).await;
        if mutant::is(Mutant::AbsenceTrusted) {
            return Ok(Outcome::Aborted);
        }
        self.abort(start).await
    }

    /// The ends of these transactions, as far as they have ended, read from the store.
    async fn load(&self, starts: Vec<Timestamp>) -> Result<Vec<(Timestamp, Outcome)>, GetError> {
        let is_staged = matches!(self.shared.encoding, Encoding::Staged(_));
        let is_sure = self.store.capabilities().plain_reads_are_linearizable;
        let level = if is_sure || is_staged { ReadLevel::Plain } else { ReadLevel::Linearizable };
        let found = self.read(&starts, level).await?;
        let (mut ended, staged): (Vec<_>, Vec<_>) = found
            .into_iter()
            .partition(|(_, entry)| entry.stage == Stage::Committed || mutant::is(Mutant::StagedTrusted));
        if !staged.is_empty() {
            let doubtful: Vec<_> = staged.into_iter().map(|(start, _)| start).collect();
            let confirmed = self.read(&doubtful, ReadLevel::Linearizable).await?;
            self.make_final(&confirmed).await;
            ended.extend(confirmed);
        }
        let ended: Vec<_> = ended.into_iter().map(|(start, entry)| (start, entry.outcome)).collect();
        self.shared.ends.keep(&ended);
        Ok(ended)
    }

    /// The entries of those that have one.
    async fn read(&self, starts: &[Timestamp], level: ReadLevel) -> Result<Vec<(Timestamp, Entry)>, GetError> {
        let cells = starts.iter().map(|start| self.shared.encoding.cell(*start)).collect();
        // The original encoding has one column, and a row for each transaction: rows would make many small batches.
        let axis = match self.shared.encoding {
            Encoding::Original(_) => Axis::Column,
            Encoding::Tickets(_) | Encoding::Staged(_) => Axis::Row,
        };
        let batches = self.shared.options.planner.along(axis).plan(self.shared.options.division, cells);
        let load = |batch: crate::Batch| async move {
            let values = self.store.get(&self.shared.table, batch.cells(), level).await?;
            let there = batch.cells().iter().zip(values).filter_map(|(cell, value)| Some((cell, value?)));
            there.map(|(cell, value)| self.decode(cell, &value)).collect::<Result<Vec<_>, GetError>>()
        };
        let loaded = together(self.shared.options.parallel, batches.into_iter().map(load)).await;
        let loaded = loaded.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(loaded.into_iter().flatten().collect())
    }

    fn decode(&self, cell: &Cell, value: &Bytes) -> Result<(Timestamp, Entry), GetError> {
        let table = || self.shared.table.clone();
        let start = self.shared.encoding.decode_cell(cell).map_err(|error| GetError::Damaged {
            table: table(),
            start: Timestamp::FIRST,
            found: format!("a cell that is that of no transaction: {error}"),
        })?;
        let entry = self.shared.encoding.decode_value(start, value);
        let entry = entry.map_err(|error| GetError::Damaged { table: table(), start, found: error.to_string() })?;
        Ok((start, entry))
    }

    /// The second phase of the staged encoding. Where it fails, readers do it.
    async fn make_final(&self, entries: &[(Timestamp, Entry)]) {
        let staged = entries.iter().filter(|(_, entry)| entry.stage == Stage::Staged);
        let write = |(start, entry): &(Timestamp, Entry)| {
            let (start, outcome) = (*start, entry.outcome);
            async move {
                if let Ok(value) = self.shared.encoding.encode_value(start, Entry::committed(outcome)) {
                    let cell = self.shared.encoding.cell(start);
                    let _ = self.store.put_final(&self.shared.table, &cell, &value, Rank::Written).await;
                }
            }
        };
        together(self.shared.options.parallel, staged.map(write)).await;
    }
}
