//! In which cell is the outcome of a transaction, and which bytes say what it was?
//!
//! [`Encoding`] is the face of the three encodings of Palantir AtlasDB: [`Original`], [`Tickets`] and [`Staged`]. Each
//! gives every start timestamp a cell of its own, and can be read backwards: a cell gives the start timestamp, a value
//! the outcome. The numbers in them are written as [`var_long`] says.
//!
//! Decoders take any bytes, and refuse what no encoder wrote: what decodes encodes back to the same bytes. Bytes do not
//! say which encoding wrote them, and some are good in two encodings. So a table's encoding must be known before it is
//! read: it is chosen when the table is created, or by ranges of start timestamps.
//!
//! A value is found by the start timestamp of its transaction, so a transaction keeps the encoding that it started
//! under.

mod error;
mod original;
mod staged;
mod tickets;
pub mod var_long;

#[cfg(test)]
mod tests;

use bytes::Bytes;

pub use error::{CellError, EncodeError, ValueError};
pub use original::Original;
pub use staged::Staged;
pub use tickets::{Partitioning, PartitioningError, RowColumns, RowsCovering, Tickets};

use glidepath_env::Cell;

use crate::Timestamp;

/// How a transactions table is written. Fixed for the life of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// A row for each transaction.
    Original(Original),
    /// A row for many transactions, and neighbours in different rows.
    Tickets(Tickets),
    /// The cells of tickets, with values that are written in two phases.
    Staged(Staged),
}

impl Encoding {
    /// Where the outcome of the transaction that started then is kept. Different timestamps have different cells.
    #[must_use]
    pub fn cell(self, start: Timestamp) -> Cell {
        match self {
            Self::Original(original) => original.cell(start),
            Self::Tickets(tickets) => tickets.cell(start),
            Self::Staged(staged) => staged.cell(start),
        }
    }

    /// The start timestamp of the transaction whose cell this is.
    ///
    /// # Errors
    /// It is the cell of no start timestamp.
    pub fn decode_cell(self, cell: &Cell) -> Result<Timestamp, CellError> {
        match self {
            Self::Original(original) => original.decode_cell(cell),
            Self::Tickets(tickets) => tickets.decode_cell(cell),
            Self::Staged(staged) => staged.decode_cell(cell),
        }
    }

    /// The entry with which an outcome is decided: the one to write if the cell is absent. It is staged where there are
    /// two phases. Only then must a second, plain write follow, of [`Entry::committed`].
    #[must_use]
    pub fn deciding(self, outcome: Outcome) -> Entry {
        let stage = match self {
            Self::Original(_) | Self::Tickets(_) => Stage::Committed,
            Self::Staged(_) => Stage::Staged,
        };
        Entry { outcome, stage }
    }

    /// The value of an entry.
    ///
    /// # Errors
    /// The commit is before the start, or the entry is staged and this encoding has one phase.
    pub fn encode_value(self, start: Timestamp, entry: Entry) -> Result<Bytes, EncodeError> {
        match (self, entry.stage) {
            (Self::Staged(staged), _) => staged.encode_value(start, entry),
            (Self::Original(_) | Self::Tickets(_), Stage::Staged) => Err(EncodeError::OnePhase),
            (Self::Original(original), Stage::Committed) => original.encode_value(start, entry.outcome),
            (Self::Tickets(tickets), Stage::Committed) => tickets.encode_value(start, entry.outcome),
        }
    }

    /// What a value says about the transaction that started then.
    ///
    /// # Errors
    /// No entry of that transaction has this value.
    pub fn decode_value(self, start: Timestamp, value: &[u8]) -> Result<Entry, ValueError> {
        match self {
            Self::Original(original) => original.decode_value(start, value).map(Entry::committed),
            Self::Tickets(tickets) => tickets.decode_value(start, value).map(Entry::committed),
            Self::Staged(staged) => staged.decode_value(start, value),
        }
    }
}

/// How a transaction ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Its writes never count.
    Aborted,
    /// Its writes count from this timestamp on, which is the start timestamp or later.
    Committed(Timestamp),
}

impl Outcome {
    /// The commit timestamp, if any, provided that it is not before the start.
    fn commit_not_before(self, start: Timestamp) -> Result<Option<Timestamp>, EncodeError> {
        match self {
            Self::Aborted => Ok(None),
            Self::Committed(commit) if commit < start => Err(EncodeError::CommitBeforeStart { start, commit }),
            Self::Committed(commit) => Ok(Some(commit)),
        }
    }
}

/// What a cell of a transactions table holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// How the transaction ended.
    pub outcome: Outcome,
    /// Whether a reader may already rely on that.
    pub stage: Stage,
}

impl Entry {
    /// An entry that readers may rely on.
    #[must_use]
    pub fn committed(outcome: Outcome) -> Self {
        Self { outcome, stage: Stage::Committed }
    }
}

/// How far the two phases of writing an entry have come. It is about the entry, not about the transaction: an entry
/// that says *aborted* goes through both stages too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The guarded write was seen, perhaps on some replicas only: a reader must confirm it before it relies on it.
    Staged,
    /// The guarded write is known to have taken effect. The only stage of encodings with one phase.
    Committed,
}
