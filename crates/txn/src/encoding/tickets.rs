//! How are outcomes spread over rows that grow no further than a store can bear, and yet can be scanned by start
//! timestamp?
//!
//! The tickets encoding (`_transactions2` of Palantir AtlasDB, architecture decision record 16). Start timestamps are
//! divided into *partitions* of [`quantum`](Partitioning::quantum) numbers, and each partition has the same number of
//! [`rows`](Partitioning::rows). With `/` and `%` of whole numbers, a start timestamp s has
//!
//! - row number (s / quantum) × rows + (s % quantum) % rows, and
//! - column number (s % quantum) / rows.
//!
//! So timestamps that follow each other go to the rows of a partition in turn. What is written:
//!
//! - Row: the row number with its 64 bits in reverse order, in 8 bytes, big-endian: neighbouring rows are far apart in
//!   byte order, and a store that keeps rows in order has them on different nodes.
//! - Column: VAR_LONG of the column number, so columns are in order within a row.
//! - Value: VAR_LONG of the commit timestamp minus the start timestamp; no bytes for an aborted transaction.
//!
//! No calculation here can overflow: a row number and a column number are at most the start timestamp, which is below
//! 2^63, and so is the quantum; a sum of two such numbers is below 2^64.
//!
//! Start with [`Tickets`].

use std::iter::FusedIterator;
use std::ops::{Range, RangeInclusive};

use bytes::Bytes;

use super::var_long::{decode_unsigned, encode_bits};
use super::{CellError, EncodeError, Outcome, ValueError};
use glidepath_env::Cell;

use crate::Timestamp;

/// The bytes of a row.
pub(super) const ROW_LENGTH: usize = 8;

/// How start timestamps are divided. Set where a table is created, and never changed: with another partitioning the
/// cells mean other timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partitioning {
    /// Start timestamps per partition: at least 1, at most [`Timestamp::LAST`], and a multiple of `rows`.
    pub quantum: u64,
    /// Rows per partition: at least 1. Each holds `quantum / rows` outcomes at most.
    pub rows: u64,
}

impl Default for Partitioning {
    /// The choice of AtlasDB's architecture decision record 16, for Cassandra: a row holds at most 1,562,500 outcomes
    /// of at most 21 bytes each, a third of the 100 MB that it takes as the limit for a row; and 16 rows are written to
    /// at a time.
    fn default() -> Self {
        Self { quantum: 25_000_000, rows: 16 }
    }
}

impl Partitioning {
    /// # Errors
    /// The first limit that does not hold.
    fn validate(self) -> Result<(), PartitioningError> {
        let Self { quantum, rows } = self;
        match () {
            () if quantum == 0 => Err(PartitioningError::NoQuantum),
            () if rows == 0 => Err(PartitioningError::NoRows),
            () if quantum > Timestamp::LAST.get() => Err(PartitioningError::QuantumBeyond { quantum }),
            () if rows > quantum => Err(PartitioningError::MoreRows { quantum, rows }),
            () if quantum % rows != 0 => Err(PartitioningError::Uneven { quantum, rows }),
            () => Ok(()),
        }
    }
}

/// A partitioning that no table can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartitioningError {
    /// Partitions hold nothing.
    #[error("quantum is 0; give how many start timestamps a partition holds, from 1 to {}", Timestamp::LAST)]
    NoQuantum,
    /// Partitions have no rows.
    #[error("rows is 0; give how many rows a partition has, at least 1")]
    NoRows,
    /// There are not so many timestamps.
    #[error("quantum is {quantum}; it can be at most {}, the greatest timestamp", Timestamp::LAST)]
    QuantumBeyond {
        /// The quantum.
        quantum: u64,
    },
    /// Some rows would stay empty.
    #[error("rows is {rows}, more than the quantum of {quantum}; give fewer rows or a greater quantum")]
    MoreRows {
        /// The quantum.
        quantum: u64,
        /// The rows.
        rows: u64,
    },
    /// Some rows would hold more than others.
    #[error(
        "rows is {rows}, which does not divide the quantum of {quantum}; {} is the next lower quantum that it divides",
        quantum - quantum % rows
    )]
    Uneven {
        /// The quantum.
        quantum: u64,
        /// The rows.
        rows: u64,
    },
}

/// A row for many transactions: start timestamps that follow each other are in different rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Tickets {
    partitioning: Partitioning,
}

impl Tickets {
    /// The encoding of a table that is created with this partitioning.
    ///
    /// # Errors
    /// The partitioning is outside the limits that [`Partitioning`] states.
    pub fn new(partitioning: Partitioning) -> Result<Self, PartitioningError> {
        partitioning.validate().map(|()| Self { partitioning })
    }

    /// How start timestamps are divided.
    #[must_use]
    pub fn partitioning(self) -> Partitioning {
        self.partitioning
    }

    /// The number of the row in which the outcome of the transaction that started then is kept.
    #[must_use]
    pub fn row_number(self, start: Timestamp) -> u64 {
        let Partitioning { quantum, rows } = self.partitioning;
        start.get() / quantum * rows + start.get() % quantum % rows
    }

    /// The number of its column within the row; below `quantum / rows`.
    #[must_use]
    pub fn column_number(self, start: Timestamp) -> u64 {
        let Partitioning { quantum, rows } = self.partitioning;
        start.get() % quantum / rows
    }

    /// Where the outcome of the transaction that started then is kept.
    #[must_use]
    pub fn cell(self, start: Timestamp) -> Cell {
        Cell { row: encode_row(self.row_number(start)), column: encode_bits(self.column_number(start)) }
    }

    /// The start timestamp of the transaction whose cell this is.
    ///
    /// # Errors
    /// It is the cell of no start timestamp.
    pub fn decode_cell(self, cell: &Cell) -> Result<Timestamp, CellError> {
        let Partitioning { quantum, rows } = self.partitioning;
        let row = <[u8; ROW_LENGTH]>::try_from(&cell.row[..]);
        let row = row.map_err(|_| CellError::RowLength { found: cell.row.len() })?;
        let row = u64::from_be_bytes(row).reverse_bits();
        let column = decode_unsigned(&cell.column).map_err(CellError::Column)?;
        let last = quantum / rows - 1;
        if column > last {
            return Err(CellError::ColumnBeyond { found: column, last });
        }
        // A row that no timestamp has may stand for a number of more than 64 bits.
        let number = u128::from(row / rows) * u128::from(quantum) + u128::from(column * rows + row % rows);
        let timestamp = u64::try_from(number).ok().and_then(|number| Timestamp::new(number).ok());
        timestamp.ok_or(CellError::NotATimestamp { found: number })
    }

    /// The value of an outcome.
    ///
    /// # Errors
    /// The commit is before the start.
    pub fn encode_value(self, start: Timestamp, outcome: Outcome) -> Result<Bytes, EncodeError> {
        let commit = outcome.commit_not_before(start)?;
        Ok(commit.map_or_else(Bytes::new, |commit| encode_bits(commit.get() - start.get())))
    }

    /// How the transaction that started then ended.
    ///
    /// # Errors
    /// No outcome of that transaction has this value.
    pub fn decode_value(self, start: Timestamp, value: &[u8]) -> Result<Outcome, ValueError> {
        if value.is_empty() {
            return Ok(Outcome::Aborted);
        }
        let delta = decode_unsigned(value)?;
        let commit = Timestamp::new(start.get() + delta);
        commit.map(Outcome::Committed).map_err(|_| ValueError::CommitBeyondLast { start, delta })
    }

    /// The parts of rows in which the outcomes of all transactions are kept that started in `range`, by ascending row
    /// number; none if the range is empty. They are made one at a time.
    ///
    /// They are all rows of each partition that the range touches; a short range has nothing in some of them. They
    /// cover up to `rows - 1` timestamps more on either side of the range. So decode the cells that a scan finds, and
    /// leave out those that are not in the range.
    #[must_use]
    pub fn rows_covering(self, range: RangeInclusive<Timestamp>) -> RowsCovering {
        let Partitioning { quantum, rows } = self.partitioning;
        let (from, to) = (range.start().get(), range.end().get());
        let (next, end) = if from <= to { (from / quantum * rows, (to / quantum + 1) * rows) } else { (0, 0) };
        RowsCovering { partitioning: self.partitioning, from, to, next, end }
    }
}

fn encode_row(number: u64) -> Bytes {
    Bytes::copy_from_slice(&number.reverse_bits().to_be_bytes())
}

/// A row, and which of its columns to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowColumns {
    /// The row.
    pub row: Bytes,
    /// From the first column to before the end, in byte order. Never empty.
    pub columns: Range<Bytes>,
}

/// What [`Tickets::rows_covering`] gives.
#[derive(Clone, Debug)]
pub struct RowsCovering {
    partitioning: Partitioning,
    from: u64,
    to: u64,
    /// The number of the next row.
    next: u64,
    /// The number after that of the last row.
    end: u64,
}

impl Iterator for RowsCovering {
    type Item = RowColumns;

    fn next(&mut self) -> Option<RowColumns> {
        let Partitioning { quantum, rows } = self.partitioning;
        let number = self.next;
        if number == self.end {
            return None;
        }
        self.next += 1;
        let least = number / rows * quantum;
        let first = (self.from.max(least) - least) / rows;
        let last = (self.to - least).min(quantum - 1) / rows;
        Some(RowColumns { row: encode_row(number), columns: encode_bits(first)..encode_bits(last + 1) })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = usize::try_from(self.end - self.next);
        (left.unwrap_or(usize::MAX), left.ok())
    }
}

impl FusedIterator for RowsCovering {}
