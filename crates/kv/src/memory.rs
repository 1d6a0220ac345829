//! A store in the memory of one process: for tests.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use glidepath_env::{
    Cell, Columns, ConditionError, Denial, KvCapabilities, KvReadError, KvStore, Rank, ReadLevel, Rows, Slice, Table,
    WriteError, check_columns,
};

type Row = BTreeMap<Bytes, Bytes>;
type Content = BTreeMap<Table, BTreeMap<Bytes, Row>>;

/// Cells in memory. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Mutex<Content>>);

impl Memory {
    fn content(&self) -> MutexGuard<'_, Content> {
        // Each change is one insertion, so a panic elsewhere leaves none half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(&self, table: &Table, of: impl FnOnce(&BTreeMap<Bytes, Row>) -> T) -> Result<T, KvReadError> {
        self.content().get(table).map(of).ok_or_else(|| KvReadError::NoTable(table.clone()))
    }

    /// Changes a row by `change`, which says what was there if it does not.
    fn write(
        &self,
        table: &Table,
        row: &Bytes,
        change: impl FnOnce(&mut Row) -> Result<(), Vec<(Bytes, Bytes)>>,
    ) -> Result<(), ConditionError> {
        let mut content = self.content();
        let Some(rows) = content.get_mut(table) else {
            return Err(ConditionError::Refused(Denial::words(format!("there is no table {table}"))));
        };
        let mut there = rows.remove(row).unwrap_or_default();
        let changed = change(&mut there);
        if !there.is_empty() {
            rows.insert(row.clone(), there);
        }
        changed.map_err(|found| ConditionError::Lost { found })
    }
}

impl KvStore for Memory {
    fn capabilities(&self) -> KvCapabilities {
        KvCapabilities {
            delivers_once: true,
            plain_reads_are_linearizable: true,
            final_writes: false,
            most_columns: usize::MAX,
            gathers: true,
        }
    }

    async fn create_table(&self, table: &Table) -> Result<(), WriteError> {
        self.content().entry(table.clone()).or_default();
        Ok(())
    }

    async fn get(&self, table: &Table, cells: &[Cell], _: ReadLevel) -> Result<Vec<Option<Bytes>>, KvReadError> {
        self.read(table, |rows| cells.iter().map(|cell| rows.get(&cell.row)?.get(&cell.column).cloned()).collect())
    }

    async fn scan(
        &self,
        table: &Table,
        row: &Bytes,
        columns: &Columns,
        limit: usize,
        _: ReadLevel,
    ) -> Result<Slice, KvReadError> {
        let Columns { from, before } = columns;
        let behind = |column: &Bytes| before.as_ref().is_some_and(|before| column >= before);
        let from = from.as_ref().map_or(Bound::Unbounded, Bound::Included);
        self.read(table, |rows| {
            let cells = rows.get(row).into_iter().flat_map(|row| row.range::<Bytes, _>((from, Bound::Unbounded)));
            let mut cells =
                cells.take_while(|(column, _)| !behind(column)).map(|(column, value)| (column.clone(), value.clone()));
            let taken = cells.by_ref().take(limit).collect();
            Slice { cells: taken, more: cells.next().is_some() }
        })
    }

    async fn rows(&self, table: &Table, after: Option<&Bytes>, limit: usize) -> Result<Rows, KvReadError> {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.read(table, |rows| {
            let mut rows = rows.range::<Bytes, _>((after, Bound::Unbounded)).map(|(row, _)| row.clone());
            let taken = rows.by_ref().take(limit).collect();
            Rows { rows: taken, more: rows.next().is_some() }
        })
    }

    async fn put_unless_exists(
        &self,
        table: &Table,
        row: &Bytes,
        columns: &[(Bytes, Bytes)],
    ) -> Result<(), ConditionError> {
        check_columns(columns, usize::MAX).map_err(ConditionError::Refused)?;
        self.write(table, row, |there| {
            let found = |(column, _): &(Bytes, Bytes)| Some((column.clone(), there.get(column)?.clone()));
            let found: Vec<_> = columns.iter().filter_map(found).collect();
            if !found.is_empty() {
                return Err(found);
            }
            there.extend(columns.iter().cloned());
            Ok(())
        })
    }

    async fn compare_and_set(
        &self,
        table: &Table,
        Cell { row, column }: &Cell,
        expected: Option<&Bytes>,
        new: &Bytes,
    ) -> Result<(), ConditionError> {
        self.write(table, row, |there| {
            let found = there.get(column);
            if found != expected {
                return Err(found.map(|value| (column.clone(), value.clone())).into_iter().collect());
            }
            there.insert(column.clone(), new.clone());
            Ok(())
        })
    }

    async fn put_final(&self, _: &Table, _: &Cell, _: &Bytes, _: Rank) -> Result<(), WriteError> {
        Err(WriteError::Refused(Denial::words("this store has no final writes")))
    }
}
