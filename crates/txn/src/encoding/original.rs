//! How does the first transactions table (`_transactions` of Palantir AtlasDB) keep outcomes?
//!
//! Row: VAR_LONG of the start timestamp. Column: always `t`. Value: VAR_LONG of the commit timestamp, or of -1 for an
//! aborted transaction. Architecture decision record 16 of AtlasDB describes it under *Physical Representation*, and
//! says why [`Tickets`](super::Tickets) replaced it: in a store that keeps rows in order, transactions that run at the
//! same time write to neighbouring rows, thus to one node; and a value repeats most of its row.

use bytes::Bytes;

use super::var_long::{decode_signed, decode_unsigned, encode_bits, encode_signed};
use super::{CellError, EncodeError, Outcome, ValueError};
use glidepath_env::Cell;

use crate::Timestamp;

/// The only column: the letter `t`.
pub(super) const COLUMN: [u8; 1] = *b"t";

/// The number that stands for an aborted transaction.
const ABORTED: i64 = -1;

/// A row for each transaction. The byte order of the rows is the order of the start timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Original;

impl Original {
    /// Where the outcome of the transaction that started then is kept.
    #[must_use]
    pub fn cell(self, start: Timestamp) -> Cell {
        Cell { row: encode_bits(start.get()), column: Bytes::from_static(&COLUMN) }
    }

    /// The start timestamp of the transaction whose cell this is.
    ///
    /// # Errors
    /// It is the cell of no start timestamp.
    pub fn decode_cell(self, cell: &Cell) -> Result<Timestamp, CellError> {
        if *cell.column != COLUMN {
            return Err(CellError::ColumnName { found: cell.column.clone() });
        }
        let number = decode_unsigned(&cell.row).map_err(CellError::Row)?;
        Timestamp::new(number).map_err(|_| CellError::NotATimestamp { found: number.into() })
    }

    /// The value of an outcome.
    ///
    /// # Errors
    /// The commit is before the start.
    pub fn encode_value(self, start: Timestamp, outcome: Outcome) -> Result<Bytes, EncodeError> {
        let commit = outcome.commit_not_before(start)?;
        Ok(commit.map_or_else(|| encode_signed(ABORTED), |commit| encode_bits(commit.get())))
    }

    /// How the transaction that started then ended.
    ///
    /// # Errors
    /// No outcome of that transaction has this value.
    pub fn decode_value(self, start: Timestamp, value: &[u8]) -> Result<Outcome, ValueError> {
        let number = decode_signed(value)?;
        if number == ABORTED {
            return Ok(Outcome::Aborted);
        }
        let commit = u64::try_from(number).ok().and_then(|number| Timestamp::new(number).ok());
        match commit {
            None => Err(ValueError::NotATimestamp { found: number }),
            Some(commit) if commit < start => Err(ValueError::CommitBeforeStart { start, commit }),
            Some(commit) => Ok(Outcome::Committed(commit)),
        }
    }
}
