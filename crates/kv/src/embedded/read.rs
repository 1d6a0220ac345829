//! How are cells read? From one snapshot of what is durable, so that two reads never show a cell come and go.

use std::ops::Bound;

use bytes::Bytes;
use fjall::{Keyspace, Readable, Snapshot};
use glidepath_env::{Cause, Cell, Columns, KvReadError, Rows, Slice};

use super::keys;
use super::writer::cause;

/// One read of one table.
pub(super) struct Reader {
    pub(super) table: Keyspace,
    pub(super) snapshot: Snapshot,
}

fn failed(error: fjall::Error) -> KvReadError {
    KvReadError::Failed(cause(error))
}

impl Reader {
    pub(super) fn get(&self, cells: &[Cell]) -> Result<Vec<Option<Bytes>>, KvReadError> {
        let get = |cell: &Cell| {
            let key = keys::Row::new(&cell.row).key(&cell.column);
            // The library takes no longer key, so there is none.
            if key.len() > keys::LONGEST_KEY {
                return Ok(None);
            }
            let value = self.snapshot.get(&self.table, &key).map_err(failed)?;
            Ok(value.as_deref().map(keys::bytes))
        };
        cells.iter().map(get).collect()
    }

    pub(super) fn scan(&self, row: &Bytes, columns: &Columns, limit: usize) -> Result<Slice, KvReadError> {
        let beginning = keys::beginning(row);
        let bound = |column: &Bytes| [&beginning[..], column].concat();
        let from = columns.from.as_ref().map_or_else(|| beginning.clone(), bound);
        let before = match &columns.before {
            None => keys::behind(&beginning),
            // An empty range is none for the library.
            Some(before) if columns.from.as_ref().is_some_and(|from| from >= before) => return Ok(Slice::default()),
            Some(before) if before.is_empty() => return Ok(Slice::default()),
            Some(before) => Bound::Excluded(bound(before)),
        };
        let mut slice = Slice::default();
        for guard in self.snapshot.range(&self.table, (Bound::Included(from), before)) {
            if slice.cells.len() == limit {
                slice.more = true;
                break;
            }
            let (key, value) = guard.into_inner().map_err(failed)?;
            slice.cells.push((keys::bytes(&key[beginning.len()..]), keys::bytes(&value)));
        }
        Ok(slice)
    }

    /// Goes from each row to the first key behind it, so that the length of rows does not count.
    pub(super) fn rows(&self, after: Option<&Bytes>, limit: usize) -> Result<Rows, KvReadError> {
        let mut rows = Rows::default();
        let mut from = after.map_or(Bound::Unbounded, |row| behind(row));
        loop {
            let Some(guard) = self.snapshot.range(&self.table, (from, Bound::<Vec<u8>>::Unbounded)).next() else {
                return Ok(rows);
            };
            let key = guard.key().map_err(failed)?;
            if rows.rows.len() == limit {
                rows.more = true;
                return Ok(rows);
            }
            let foreign = || KvReadError::Failed(Cause::words(format!("the key {key:?} is not of a cell")));
            let row = keys::row_of(&key).ok_or_else(foreign)?;
            rows.rows.push(Bytes::copy_from_slice(row));
            from = behind(row);
        }
    }
}

/// From the first key behind a row on.
fn behind(row: &[u8]) -> Bound<Vec<u8>> {
    match keys::behind(&keys::beginning(row)) {
        Bound::Excluded(key) => Bound::Included(key),
        bound => bound,
    }
}
