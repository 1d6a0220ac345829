//! What does a key-value store offer, and which outcomes does each operation have?
//!
//! It offers tables of rows. A row has columns in byte order, and a column of a row, a *cell*, has a value. Conditional
//! writes are of one row, because that is what stores can do at once: a row is a partition in Cassandra, and a key
//! range elsewhere.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use bytes::Bytes;

use crate::{Cause, Denial};

/// Tables of rows of columns, with conditional writes within a row.
///
/// Every operation is one request. No implementation may repeat a conditional write by itself: the repeat would meet
/// the first attempt's effect and report [`ConditionError::Lost`] for a write that happened.
///
/// Dropping a future after it was first polled leaves the request's outcome unknown: the store owns a request once
/// sent.
pub trait KvStore {
    /// What this store can do. Fixed for its life.
    fn capabilities(&self) -> KvCapabilities;

    /// Makes the table if it does not exist yet. May be repeated, by anybody, at any time.
    fn create_table(&self, table: &Table) -> impl Future<Output = Result<(), WriteError>>;

    /// The values of these cells, in the order of `cells`; `None` where there is no such cell. Each value is from some
    /// moment between call and answer, not all from the same.
    fn get(
        &self,
        table: &Table,
        cells: &[Cell],
        level: ReadLevel,
    ) -> impl Future<Output = Result<Vec<Option<Bytes>>, KvReadError>>;

    /// The cells of one row whose columns are in `columns`, in the byte order of their columns; at most `limit` of
    /// them.
    fn scan(
        &self,
        table: &Table,
        row: &Bytes,
        columns: &Columns,
        limit: usize,
        level: ReadLevel,
    ) -> impl Future<Output = Result<Slice, KvReadError>>;

    /// The rows of a table that have a cell, in an order of the store's own, each once; at most `limit` of them, behind
    /// `after` where given. A row that was made or changed during the scan may be left out.
    fn rows(
        &self,
        table: &Table,
        after: Option<&Bytes>,
        limit: usize,
    ) -> impl Future<Output = Result<Rows, KvReadError>>;

    /// Writes all of these columns of one row if the row has none of them: all or nothing. The columns differ, and
    /// there is one at least (else [`ConditionError::Refused`]).
    fn put_unless_exists(
        &self,
        table: &Table,
        row: &Bytes,
        columns: &[(Bytes, Bytes)],
    ) -> impl Future<Output = Result<(), ConditionError>>;

    /// Gives the cell the value `new` if it has the value `expected`; `None`: if there is no such cell.
    fn compare_and_set(
        &self,
        table: &Table,
        cell: &Cell,
        expected: Option<&Bytes>,
        new: &Bytes,
    ) -> impl Future<Output = Result<(), ConditionError>>;

    /// Gives the cell a value that stays: no conditional write of it, earlier or later, changes what reads show. Of
    /// several final values that of the highest rank stays; two of one rank must be equal. [`WriteError::Refused`]
    /// where [`KvCapabilities::final_writes`] is false.
    fn put_final(
        &self,
        table: &Table,
        cell: &Cell,
        value: &Bytes,
        rank: Rank,
    ) -> impl Future<Output = Result<(), WriteError>>;
}

/// Which of several final values of a cell stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rank {
    /// What a writer makes final after its conditional write.
    Written,
    /// What replaces that, when a backup is restored.
    Restored,
}

/// What a key-value store can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvCapabilities {
    /// Every request reaches the store at most once: so [`ConditionError::Lost`] says that another writer was first.
    /// False wherever a driver or a proxy may repeat a request.
    pub delivers_once: bool,
    /// A [`ReadLevel::Plain`] read is as good as a linearizable one. False where a conditional write that has failed in
    /// part may show in one plain read and not in the next.
    pub plain_reads_are_linearizable: bool,
    /// Offers [`KvStore::put_final`]. Needed only where plain reads are not linearizable.
    pub final_writes: bool,
    /// The most columns that one [`KvStore::put_unless_exists`] may write.
    pub most_columns: usize,
    /// Writes that are under way at the same time share a sync, whatever their rows, and none costs a request on the
    /// way: so a caller gains nothing by putting them together.
    pub gathers: bool,
}

/// How sure a read must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadLevel {
    /// It shows every write that was acknowledged before the read began, and what it shows every later linearizable
    /// read shows.
    Linearizable,
    /// It shows every write that was acknowledged before the read began. A write that is unknown to its writer may show
    /// in one read and not in the next, unless [`KvCapabilities::plain_reads_are_linearizable`].
    Plain,
}

/// The name of a table: letters, digits and `_`, at most 48 of them, first a letter or `_`. (What all stores take.)
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Table(Arc<str>);

impl Table {
    /// The longest name.
    pub const LONGEST: usize = 48;

    /// A table of this name; `None` if it is no name of a table.
    #[must_use]
    pub fn new(name: &str) -> Option<Self> {
        let first = name.bytes().next()?;
        let fits = name.len() <= Self::LONGEST && !first.is_ascii_digit();
        (fits && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')).then(|| Self(name.into()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The name of a cell in a table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Cell {
    /// Its row, not empty.
    pub row: Bytes,
    /// Its column in the row, not empty.
    pub column: Bytes,
}

/// Some columns of a row, in byte order.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Columns {
    /// From this one on; `None`: from the first.
    pub from: Option<Bytes>,
    /// Up to this one, without it; `None`: to the last.
    pub before: Option<Bytes>,
}

/// Part of a row.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Slice {
    /// Columns and values, in the byte order of the columns.
    pub cells: Vec<(Bytes, Bytes)>,
    /// Whether there may be more behind the last one.
    pub more: bool,
}

/// Some rows of a table.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Rows {
    /// Their names, in the store's own order.
    pub rows: Vec<Bytes>,
    /// Whether there may be more behind the last one.
    pub more: bool,
}

/// Why a read gave nothing. A read has no effect, so it may always be repeated.
#[derive(Clone, Debug, thiserror::Error)]
pub enum KvReadError {
    /// There is no such table.
    #[error("there is no table {0}: it was never made, or it is lost and must be put back from a backup")]
    NoTable(Table),
    /// Says nothing about the cells.
    #[error("the read failed: {0}")]
    Failed(Cause),
}

/// Why a write without a condition did not report success. It may be repeated.
#[derive(Clone, Debug, thiserror::Error)]
pub enum WriteError {
    /// It may have happened, or may yet happen.
    #[error("it is not known whether the write happened: {0}")]
    Unknown(Cause),
    /// Refused. The denial says what that proves.
    #[error("the store refused the write: {0}")]
    Refused(Denial),
}

/// Why a conditional write did not report success: three failures that need three different reactions.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ConditionError {
    /// The condition did not hold, and this delivery of the write has no effect. `found` is what was there instead:
    /// every column of the condition that exists, with its value. It may be what an earlier delivery of the same write
    /// left, unless [`KvCapabilities::delivers_once`].
    #[error("the condition did not hold: {} of its columns {} other values", found.len(), if found.len() == 1 { "has" } else { "have" })]
    Lost {
        /// Columns and values; none where a cell was expected to exist and does not.
        found: Vec<(Bytes, Bytes)>,
    },
    /// It may have been written, or may yet be. A linearizable read that shows the value settles it; one that does not
    /// show it does not. A conditional write of the same cells that succeeds or is lost does.
    #[error("it is not known whether the write happened: {0}")]
    Unknown(Cause),
    /// Refused. The denial says what that proves. The write may be sent again.
    #[error("the store refused the write: {0}")]
    Refused(Denial),
}

/// Whether these are columns for [`KvStore::put_unless_exists`] of a store that takes so many at most: what every store
/// checks before it sends anything.
///
/// # Errors
/// The refusal, certain.
pub fn check_columns(columns: &[(Bytes, Bytes)], most: usize) -> Result<(), Denial> {
    let count = columns.len();
    let different = columns.iter().map(|(column, _)| column).collect::<BTreeSet<_>>().len();
    if count > 0 && different == count && count <= most {
        return Ok(());
    }
    let found = format!("{count} columns, {different} of them different");
    Err(Denial::words(format!("{found}: a put is of 1 to {most} columns, each of them once")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_tables_are_those_that_every_store_takes() {
        for name in ["_transactions2", "t", "Cells", &"x".repeat(48)] {
            assert!(Table::new(name).is_some(), "{name}");
        }
        for name in ["", "2", "a-b", "a b", "ä", "x;drop", &"x".repeat(49)] {
            assert!(Table::new(name).is_none(), "{name}");
        }
    }
}
