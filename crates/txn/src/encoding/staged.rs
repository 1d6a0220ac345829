//! How is an entry written in two phases (`_transactions3` of Palantir AtlasDB, architecture decision record 17)?
//!
//! Cells are those of [`Tickets`]. A value is a tickets value and one byte more: 00 while it is staged, 01 when it is
//! committed. A store whose guarded write may have reached some replicas and not others writes the staged value under a
//! guard, and then the committed one without. A reader that meets a staged value has to confirm it by a guarded write
//! of its own. What is read as committed stays.
//!
//! A tickets value can look like a staged one: 01 is a commit one after the start there, and a committed abort here.

use bytes::{BufMut, Bytes, BytesMut};

use super::{CellError, EncodeError, Entry, Partitioning, PartitioningError, Stage, Tickets, ValueError};
use glidepath_env::Cell;

use crate::Timestamp;

const STAGED: u8 = 0;
const COMMITTED: u8 = 1;

/// The cells of tickets, with values that have a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Staged {
    tickets: Tickets,
}

impl Staged {
    /// The encoding of a table that is created with this partitioning.
    ///
    /// # Errors
    /// As [`Tickets::new`].
    pub fn new(partitioning: Partitioning) -> Result<Self, PartitioningError> {
        Tickets::new(partitioning).map(|tickets| Self { tickets })
    }

    /// Where cells are, and which of them cover a range of start timestamps.
    #[must_use]
    pub fn tickets(self) -> Tickets {
        self.tickets
    }

    /// Where the outcome of the transaction that started then is kept.
    #[must_use]
    pub fn cell(self, start: Timestamp) -> Cell {
        self.tickets.cell(start)
    }

    /// The start timestamp of the transaction whose cell this is.
    ///
    /// # Errors
    /// It is the cell of no start timestamp.
    pub fn decode_cell(self, cell: &Cell) -> Result<Timestamp, CellError> {
        self.tickets.decode_cell(cell)
    }

    /// The value of an entry.
    ///
    /// # Errors
    /// The commit is before the start.
    pub fn encode_value(self, start: Timestamp, entry: Entry) -> Result<Bytes, EncodeError> {
        let outcome = self.tickets.encode_value(start, entry.outcome)?;
        let mut value = BytesMut::with_capacity(outcome.len() + 1);
        value.extend_from_slice(&outcome);
        value.put_u8(match entry.stage {
            Stage::Staged => STAGED,
            Stage::Committed => COMMITTED,
        });
        Ok(value.freeze())
    }

    /// What a value says about the transaction that started then.
    ///
    /// # Errors
    /// No entry of that transaction has this value.
    pub fn decode_value(self, start: Timestamp, value: &[u8]) -> Result<Entry, ValueError> {
        let (&stage, outcome) = value.split_last().ok_or(ValueError::NoStage)?;
        let stage = match stage {
            STAGED => Stage::Staged,
            COMMITTED => Stage::Committed,
            found => return Err(ValueError::UnknownStage { found }),
        };
        Ok(Entry { outcome: self.tickets.decode_value(start, outcome)?, stage })
    }
}
