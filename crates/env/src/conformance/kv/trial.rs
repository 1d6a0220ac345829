//! What the points share: rows of their own, and messages about a store's mistakes.

use bytes::Bytes;

use super::super::trial::{Broken, done, holds};
use crate::{Cell, Columns, ConditionError, Denial, KvStore, ReadLevel, Slice, Table, WriteError};

/// One try of one point.
pub(super) struct KvTrial<'a, S> {
    handles: &'a [S],
    pub(super) table: Table,
    prefix: String,
}

impl<'a, S: KvStore> KvTrial<'a, S> {
    pub(super) fn new(handles: &'a [S], table: Table, point: &str) -> Self {
        Self { handles, table, prefix: format!("{point}/") }
    }

    /// The store, as one writer sees it.
    pub(super) fn store(&self) -> &'a S {
        &self.handles[0]
    }

    /// The store, as the n-th of many writers sees it.
    pub(super) fn handle(&self, writer: usize) -> &'a S {
        &self.handles[writer % self.handles.len()]
    }

    /// A row that only this point uses.
    pub(super) fn row(&self, name: &str) -> Bytes {
        format!("{}{name}", self.prefix).into()
    }

    pub(super) fn cell(&self, row: &str, column: &'static str) -> Cell {
        Cell { row: self.row(row), column: Bytes::from_static(column.as_bytes()) }
    }

    /// A store may be busy: a refusal that passes is tried again.
    pub(super) async fn create_table(&self) -> Result<(), Broken> {
        for _ in 0..10 {
            match self.store().create_table(&self.table).await {
                Err(WriteError::Refused(Denial { passing: true, .. })) => {}
                other => return done("making the table", other),
            }
        }
        Err(Broken("making the table was refused ten times".to_owned()))
    }

    /// Writes columns that are new.
    pub(super) async fn put(&self, row: &str, columns: &[(&'static str, &'static str)]) -> Result<(), Broken> {
        done("a put of new columns", self.try_put(row, columns).await)
    }

    pub(super) async fn try_put(
        &self,
        row: &str,
        columns: &[(&'static str, &'static str)],
    ) -> Result<(), ConditionError> {
        let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
        let columns: Vec<_> = columns.iter().map(|(column, value)| (bytes(column), bytes(value))).collect();
        self.store().put_unless_exists(&self.table, &self.row(row), &columns).await
    }

    pub(super) async fn get(&self, cells: &[Cell]) -> Result<Vec<Option<Bytes>>, Broken> {
        let level = ReadLevel::Linearizable;
        let found = done("a get", self.store().get(&self.table, cells, level).await)?;
        let (asked, answered) = (cells.len(), found.len());
        holds(asked == answered, || format!("a get of {asked} cells has {answered} answers"))?;
        Ok(found)
    }

    /// Broken unless these columns of the row have these values, or are absent.
    pub(super) async fn expect(&self, row: &str, columns: &[(&'static str, Option<&str>)]) -> Result<(), Broken> {
        let cells: Vec<_> = columns.iter().map(|(column, _)| self.cell(row, column)).collect();
        for ((column, wanted), found) in columns.iter().zip(self.get(&cells).await?) {
            holds(found.as_deref() == wanted.map(str::as_bytes), || {
                format!("column {column:?} is {found:?} where {wanted:?} was expected")
            })?;
        }
        Ok(())
    }

    pub(super) async fn scan(&self, row: &str, columns: &Columns, limit: usize) -> Result<Slice, Broken> {
        let row = self.row(row);
        let scanned = self.store().scan(&self.table, &row, columns, limit, ReadLevel::Linearizable).await;
        done("a scan", scanned)
    }
}

/// Broken unless the write was lost to exactly these columns.
pub(super) fn lost_to(what: &str, result: Result<(), ConditionError>, wanted: &[(&str, &str)]) -> Result<(), Broken> {
    let mut found = match result {
        Err(ConditionError::Lost { found }) => found,
        Ok(()) => return Err(Broken(format!("{what} was acknowledged"))),
        Err(error) => return Err(Broken(format!("{what} was not lost but: {error}"))),
    };
    found.sort();
    let same = found.len() == wanted.len()
        && found.iter().zip(wanted).all(|((column, value), (name, text))| {
            column.as_ref() == name.as_bytes() && value.as_ref() == text.as_bytes()
        });
    holds(same, || format!("{what} was told of {found:?} where {wanted:?} is there"))
}
