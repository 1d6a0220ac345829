//! How are cells read? Each row by a request of its own, because a linearizable read is of one row.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::PoisonError;

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use glidepath_env::{Cause, Cell, Columns, KvReadError, ReadLevel, Rows, Slice, Table};
use scylla::errors::{DbError, ExecutionError};
use scylla::response::query_result::QueryResult;
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;

use super::outcome::{answer_in, cause};
use super::statements::Statements;
use super::{Cassandra, answers};

/// The most requests of one read in flight at once: a node has some dozens of threads.
const REQUESTS_IN_FLIGHT: usize = 32;

/// The most columns that one request asks for by name.
const COLUMNS_PER_REQUEST: usize = 100;

/// The most cells or rows of one answer. A caller who wants more is told that there are more.
const MOST_PER_ANSWER: usize = 5000;

/// What to ask for: rows, and some columns of each.
fn requests(cells: &[Cell]) -> Vec<(Bytes, Vec<Bytes>)> {
    let mut rows: BTreeMap<&Bytes, BTreeSet<&Bytes>> = BTreeMap::new();
    for Cell { row, column } in cells {
        rows.entry(row).or_default().insert(column);
    }
    let mut requests = Vec::new();
    for (row, columns) in rows {
        let columns: Vec<Bytes> = columns.into_iter().cloned().collect();
        requests.extend(columns.chunks(COLUMNS_PER_REQUEST).map(|some| (row.clone(), some.to_vec())));
    }
    requests
}

impl Cassandra {
    pub(super) async fn read_cells(
        &self,
        table: &Table,
        cells: &[Cell],
        level: ReadLevel,
    ) -> Result<Vec<Option<Bytes>>, KvReadError> {
        let statements = self.statements_for_read(table).await?;
        let statement = statements.get.at(level);
        let asked = stream::iter(requests(cells)).map(|(row, columns)| self.read_some(table, statement, row, columns));
        let answers: Vec<(Bytes, Vec<(Bytes, Bytes)>)> =
            asked.buffer_unordered(REQUESTS_IN_FLIGHT).try_collect().await?;
        let mut found: BTreeMap<(Bytes, Bytes), Bytes> = BTreeMap::new();
        for (row, cells) in answers {
            found.extend(cells.into_iter().map(|(column, value)| ((row.clone(), column), value)));
        }
        Ok(cells.iter().map(|Cell { row, column }| found.get(&(row.clone(), column.clone())).cloned()).collect())
    }

    /// Some columns of a row. Its arguments are its own: a future that borrows from a stream's items is `Send` for no
    /// caller.
    async fn read_some(
        &self,
        table: &Table,
        statement: &PreparedStatement,
        row: Bytes,
        columns: Vec<Bytes>,
    ) -> Result<(Bytes, Vec<(Bytes, Bytes)>), KvReadError> {
        let found = self.read(table, statement, (&row, &columns)).await?;
        let cells = self.readable(table, answers::cells(found))?;
        Ok((row, cells))
    }

    pub(super) async fn read_slice(
        &self,
        table: &Table,
        row: &Bytes,
        Columns { from, before }: &Columns,
        limit: usize,
        level: ReadLevel,
    ) -> Result<Slice, KvReadError> {
        let statements = self.statements_for_read(table).await?;
        let limit = limit.min(MOST_PER_ANSWER);
        let one_more = count(limit + 1);
        // No name comes before the empty one.
        let from = from.clone().unwrap_or_default();
        let found = match before {
            Some(before) => self.read(table, statements.scan_before.at(level), (row, from, before, one_more)).await,
            None => self.read(table, statements.scan.at(level), (row, from, one_more)).await,
        };
        let mut cells = self.readable(table, answers::cells(found?))?;
        let more = cells.len() > limit;
        cells.truncate(limit);
        Ok(Slice { cells, more })
    }

    /// In the order of tokens, and of rows with one token in byte order: the order of the servers. A page begins with
    /// the token of the row behind which it is asked for, because another row may have the same.
    pub(super) async fn read_rows(
        &self,
        table: &Table,
        after: Option<&Bytes>,
        limit: usize,
    ) -> Result<Rows, KvReadError> {
        let statements = self.statements_for_read(table).await?;
        let limit = limit.min(MOST_PER_ANSWER);
        let Some(after) = after else {
            let found = self.read(table, &statements.rows, (count(limit + 1),)).await?;
            return Ok(page(self.readable(table, answers::rows(found))?, limit));
        };
        let mut asked = limit + 2;
        loop {
            let found = self.read(table, &statements.rows_from, (after, count(asked))).await?;
            let found = self.readable(table, answers::rows(found))?;
            let full = found.len() >= asked;
            let behind = behind(found, after);
            if behind.len() > limit || !full {
                return Ok(page(behind, limit));
            }
            // Rows with the token of `after` filled the answer.
            asked *= 2;
        }
    }

    async fn read(
        &self,
        table: &Table,
        statement: &PreparedStatement,
        values: impl SerializeRow,
    ) -> Result<QueryResult, KvReadError> {
        match self.0.session.execute_unpaged(statement, values).await {
            Ok(result) => Ok(result),
            Err(error) => Err(self.read_error(table, &error).await),
        }
    }

    fn readable<T>(&self, table: &Table, answer: Result<T, answers::Unreadable>) -> Result<T, KvReadError> {
        let what = self.what("reading", table);
        answer.map_err(|words| KvReadError::Failed(Cause::words(format!("{what}: the answer cannot be read: {words}"))))
    }

    async fn statements_for_read(&self, table: &Table) -> Result<std::sync::Arc<Statements>, KvReadError> {
        match self.statements(table).await {
            Ok(statements) => Ok(statements),
            Err(error) => Err(self.read_error(table, &error).await),
        }
    }

    async fn read_error(&self, table: &Table, error: &(dyn Error + Send + Sync + 'static)) -> KvReadError {
        let invalid = matches!(answer_in(error), Some(DbError::Invalid | DbError::Unprepared { .. }));
        if invalid && matches!(self.exists(table).await, Ok(false)) {
            // It may be made again, with other statements.
            self.0.statements.lock().unwrap_or_else(PoisonError::into_inner).remove(table);
            return KvReadError::NoTable(table.clone());
        }
        KvReadError::Failed(cause(&self.what("reading", table), error))
    }

    /// Whether there is such a table. The words of an error would tell too, but they differ from version to version.
    async fn exists(&self, table: &Table) -> Result<bool, ExecutionError> {
        let names = (self.0.keyspace.as_str(), table.as_str());
        let found = self.0.session.execute_unpaged(&self.0.table_exists, names).await?;
        Ok(found.into_rows_result().is_ok_and(|rows| rows.rows_num() > 0))
    }
}

/// A limit as CQL takes it.
fn count(limit: usize) -> i32 {
    i32::try_from(limit).unwrap_or(i32::MAX)
}

/// The rows behind this one, of an answer that begins with its token.
fn behind(rows: Vec<(Bytes, i64)>, after: &Bytes) -> Vec<(Bytes, i64)> {
    let Some((_, first)) = rows.first() else { return rows };
    let first = *first;
    let same_token = rows.iter().take_while(|(_, token)| *token == first);
    // Where the row is there, its token is the first one.
    let skipped = same_token.clone().position(|(row, _)| row == after).map_or(0, |place| place + 1);
    rows.into_iter().skip(skipped).collect()
}

fn page(rows: Vec<(Bytes, i64)>, limit: usize) -> Rows {
    let more = rows.len() > limit;
    Rows { rows: rows.into_iter().take(limit).map(|(row, _)| row).collect(), more }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(of: &[(&'static str, i64)]) -> Vec<(Bytes, i64)> {
        of.iter().map(|(row, token)| (Bytes::from_static(row.as_bytes()), *token)).collect()
    }

    #[test]
    fn a_page_begins_behind_its_row_also_where_rows_have_one_token() {
        let all = rows(&[("a", 5), ("c", 5), ("b", 6), ("a2", 7)]);
        let rest = |after: &'static str| behind(all.clone(), &Bytes::from_static(after.as_bytes()));
        assert_eq!(rest("a"), all[1..]);
        assert_eq!(rest("c"), all[2..]);
        assert_eq!(rest("gone"), all[..]);
        assert_eq!(behind(Vec::new(), &Bytes::from_static(b"a")), []);
    }

    #[test]
    fn a_page_says_that_there_is_more() {
        let all = rows(&[("a", 5), ("b", 6)]);
        assert_eq!((page(all.clone(), 1).rows.len(), page(all.clone(), 1).more), (1, true));
        assert_eq!((page(all.clone(), 2).rows.len(), page(all, 2).more), (2, false));
    }
}
