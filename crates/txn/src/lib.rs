//! When did a transaction end, and how? Timestamps and the table of transactions, in any store with rows and columns.
//!
//! A transactions table maps the start timestamp of a transaction to its outcome: committed at a timestamp, or aborted.
//! A transaction whose outcome is not decided yet has no cell. This crate says which cell that is and what the value
//! holds ([`encoding`]), and in which batches to ask for many cells ([`division`]); these parts are pure.
//! [`timestamps`] gives out the timestamps, and [`table`] ends transactions and tells how they ended; [`writer`] does
//! it for many tasks at once.
//!
//! Start with [`Encoding`]; then [`Tickets`], which spreads start timestamps that follow each other over several rows;
//! then [`Planner`]. The designs are those of Palantir AtlasDB, as its architecture decision records 16 and 17 describe
//! them.
//!
//! ```
//! use glidepath_txn::{Encoding, Entry, Outcome, Partitioning, Stage, Tickets, Timestamp};
//!
//! let encoding = Encoding::Tickets(Tickets::new(Partitioning::default())?);
//! let (start, commit) = (Timestamp::new(20)?, Timestamp::new(33)?);
//! let entry = Entry { outcome: Outcome::Committed(commit), stage: Stage::Committed };
//!
//! let (cell, value) = (encoding.cell(start), encoding.encode_value(start, entry)?);
//! assert_eq!((&cell.row[..], &cell.column[..]), (&[0x20, 0, 0, 0, 0, 0, 0, 0][..], &[0x01][..]));
//! assert_eq!(&value[..], &[0x0d]);
//!
//! assert_eq!(encoding.decode_cell(&cell)?, start);
//! assert_eq!(encoding.decode_value(start, &value)?, entry);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod division;
pub mod encoding;
pub mod mutant;
pub mod names;
pub mod restore;
pub mod service;
pub mod table;
mod timestamp;
pub mod timestamps;
pub mod writer;

#[cfg(test)]
mod testing;

pub use division::{Axis, Batch, Division, Limits, LimitsError, Planner, RowCells};
pub use encoding::{
    CellError, EncodeError, Encoding, Entry, Original, Outcome, Partitioning, PartitioningError, RowColumns,
    RowsCovering, Stage, Staged, Tickets, ValueError,
};
pub use timestamp::{Timestamp, TimestampError};
