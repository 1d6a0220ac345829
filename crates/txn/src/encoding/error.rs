//! Why was a cell or a value refused?

use std::fmt;

use bytes::Bytes;

use super::original::COLUMN;
use super::tickets::ROW_LENGTH;
use super::var_long::VarLongError;
use crate::Timestamp;

/// An entry that must not be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    /// The transaction would have committed before it started.
    #[error("commit timestamp {commit} is before start timestamp {start}; it must be {start} or later")]
    CommitBeforeStart {
        /// The start timestamp.
        start: Timestamp,
        /// The commit timestamp.
        commit: Timestamp,
    },
    /// A staged entry, in an encoding that has no stages.
    #[error(
        "this encoding has one phase and cannot hold a staged entry; write the committed one, or use the staged encoding"
    )]
    OnePhase,
}

/// A cell that belongs to no start timestamp.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CellError {
    /// Original: the row is not a number.
    #[error("the row is not a start timestamp: {0}")]
    Row(VarLongError),
    /// Original: the column is another one.
    #[error("the column is {}; it can only be {}", Excerpt(found), Excerpt(&COLUMN))]
    ColumnName {
        /// The column.
        found: Bytes,
    },
    /// Tickets: the row has the wrong length.
    #[error("the row has {found} bytes; it must have {ROW_LENGTH}")]
    RowLength {
        /// Its length.
        found: usize,
    },
    /// Tickets: the column is not a number.
    #[error("the column is not a number: {0}")]
    Column(VarLongError),
    /// Tickets: no row has so many columns.
    #[error(
        "the column is number {found}; a row has numbers 0 to {last}, unless the table was created with another partitioning"
    )]
    ColumnBeyond {
        /// The number of the column.
        found: u64,
        /// The number of the last column of a row.
        last: u64,
    },
    /// Row and column stand for a number that is not a timestamp.
    #[error("the cell is that of {found}; start timestamps are from {} to {}", Timestamp::FIRST, Timestamp::LAST)]
    NotATimestamp {
        /// The number.
        found: u128,
    },
}

/// A value that no entry of this transaction has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// It is not a number.
    #[error("the value is not a number: {0}")]
    Number(#[from] VarLongError),
    /// Original: the number means nothing.
    #[error(
        "the value is {found}; it must be -1 (aborted), or a commit timestamp from {} to {}",
        Timestamp::FIRST,
        Timestamp::LAST
    )]
    NotATimestamp {
        /// The number.
        found: i64,
    },
    /// Original: the transaction would have committed before it started.
    #[error(
        "the value is commit timestamp {commit}; the transaction started at {start} and cannot have committed before"
    )]
    CommitBeforeStart {
        /// The start timestamp.
        start: Timestamp,
        /// The commit timestamp.
        commit: Timestamp,
    },
    /// Tickets and staged: the commit timestamp would be too great.
    #[error("the value says that the commit was {delta} after start timestamp {start}; it can be at most {} after", Timestamp::LAST.get() - start.get())]
    CommitBeyondLast {
        /// The start timestamp.
        start: Timestamp,
        /// The difference to the commit timestamp.
        delta: u64,
    },
    /// Staged: there are no bytes.
    #[error("the value is empty; the last byte of a staged value must be 00 (staged) or 01 (committed)")]
    NoStage,
    /// Staged: the last byte is no stage.
    #[error("the last byte of the value is {found:02x}; it must be 00 (staged) or 01 (committed)")]
    UnknownStage {
        /// The last byte.
        found: u8,
    },
}

/// The first bytes of what may be long, in hexadecimal digits.
struct Excerpt<'a>(&'a [u8]);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 16;
        if self.0.is_empty() {
            return f.write_str("empty");
        }
        self.0.iter().take(SHOWN).try_for_each(|byte| write!(f, "{byte:02x}"))?;
        if self.0.len() > SHOWN { write!(f, "... ({} bytes)", self.0.len()) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_columns_are_cut_in_messages() {
        let words = |found: &'static [u8]| CellError::ColumnName { found: Bytes::from_static(found) }.to_string();
        assert_eq!(words(b""), "the column is empty; it can only be 74");
        assert_eq!(words(b"tt"), "the column is 7474; it can only be 74");
        let long = "the column is 00000000000000000000000000000000... (17 bytes); it can only be 74";
        assert_eq!(words(&[0; 17]), long);
    }
}
