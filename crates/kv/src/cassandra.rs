//! How are rows of columns kept in Apache Cassandra? A row is a partition, a cell is a row of CQL, and conditional
//! writes are lightweight transactions. Start with [`Cassandra::open`].
//!
//! What it relies on:
//! - Everything that is conditional, and every linearizable read, is of serial consistency SERIAL, over all data
//!   centres. No cell may also be written by programs that use LOCAL_SERIAL or no condition; final values are the one
//!   exception.
//! - Writes are committed at QUORUM and plain reads are of QUORUM: so a plain read shows what was acknowledged.
//! - The driver sends every request once: it repeats nothing, and nothing in advance. What each of its errors proves is
//!   in `outcome`.
//! - The server takes a put of [`Options::most_put_bytes`]. Its limits are `max_mutation_size` (16 MiB by default) and
//!   `native_transport_max_message_size` (at most a fortieth of its heap by default); larger puts are refused before
//!   they are sent, because a replica may refuse them only after another has accepted them. `batch_size_fail_threshold`
//!   does not count: the server applies it to batches without conditions.
//!
//! Set `paxos_variant: v2` on the servers. `v1`, the default, is correct and slow where writers meet: of 16 in one row,
//! one put in a hundred took 225 ms, and 16 ms with `v2` (Cassandra 5.0.9, one node on loopback).

mod answers;
mod open;
mod outcome;
mod reads;
mod size;
mod statements;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use glidepath_env::{
    Cell, Columns, ConditionError, Denial, KvCapabilities, KvReadError, KvStore, Rank, ReadLevel, Rows, Slice, Table,
    WriteError, check_columns,
};
use scylla::client::session::Session;
use scylla::errors::{ExecutionError, PrepareError};
use scylla::response::query_result::QueryResult;
use scylla::statement::batch::{Batch, BatchStatement, BatchType};
use scylla::statement::prepared::PreparedStatement;

use answers::Verdict;
use outcome::{Meaning, cause};
use statements::Statements;

pub use open::{Credentials, OpenError, Options};

/// The most columns of one put: so many small ones are one partition's work for some milliseconds.
const MOST_COLUMNS: usize = 1000;

/// The longest name of a row or a column: CQL keeps its length in two bytes.
const LONGEST_NAME: usize = 65_535;

/// What a column costs beside its bytes and its value's, at most: lengths, a time of writing, the name of the
/// statement.
const BYTES_PER_COLUMN: usize = 64;

/// The time of writing of the lowest final value. No clock of a server comes near it.
const FINAL_FROM: i64 = i64::MAX - 10;

/// A keyspace of a cluster of Apache Cassandra. Clones share its connections.
#[derive(Clone)]
pub struct Cassandra(Arc<Inner>);

struct Inner {
    session: Session,
    keyspace: String,
    most_put_bytes: usize,
    table_exists: PreparedStatement,
    /// Of each table that was used.
    statements: Mutex<BTreeMap<Table, Arc<Statements>>>,
}

impl fmt::Debug for Cassandra {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cassandra").field("keyspace", &self.0.keyspace).finish_non_exhaustive()
    }
}

impl Cassandra {
    /// What is tried where: the beginning of a message.
    fn what(&self, what: &str, table: &Table) -> String {
        format!("{what} {}.{table}", self.0.keyspace)
    }

    async fn statements(&self, table: &Table) -> Result<Arc<Statements>, PrepareError> {
        let known = || self.0.statements.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(statements) = known().get(table) {
            return Ok(statements.clone());
        }
        let statements = Arc::new(Statements::prepare(&self.0.session, &self.0.keyspace, table).await?);
        known().insert(table.clone(), statements.clone());
        Ok(statements)
    }

    /// The statements for a write, or the refusal: nothing was sent.
    async fn statements_for_write(&self, what: &str, table: &Table) -> Result<Arc<Statements>, Denial> {
        let statements = self.statements(table).await;
        statements.map_err(|error| {
            let denial = Denial::certain(cause(&format!("{what}: preparing the statements"), &error));
            if outcome::of_prepare(&error) == Meaning::Busy { denial.passing() } else { denial }
        })
    }

    /// Whether a write may be sent at all.
    fn check(&self, what: &str, row: &Bytes, columns: &[(Bytes, Bytes)]) -> Result<(), Denial> {
        let names = columns.iter().map(|(column, _)| ("column", column));
        for (kind, name) in std::iter::once(("row", row)).chain(names) {
            let length = name.len();
            if !(1..=LONGEST_NAME).contains(&length) {
                let words = format!("{what}: the name of a {kind} has {length} bytes; 1 to {LONGEST_NAME} are allowed");
                return Err(Denial::words(words));
            }
        }
        let of_column = |(column, value): &(Bytes, Bytes)| column.len() + value.len() + row.len() + BYTES_PER_COLUMN;
        let bytes: usize = columns.iter().map(of_column).sum();
        let most = self.0.most_put_bytes;
        if bytes <= most {
            return Ok(());
        }
        let words = format!(
            "{what}: the put has {bytes} bytes, and {most} are allowed; put fewer columns at once, or raise `most_put_bytes` \
             if every server's max_mutation_size and native_transport_max_message_size allow more"
        );
        Err(Denial::words(words))
    }

    /// What a conditional write came to.
    fn verdict(&self, what: &str, result: Result<QueryResult, ExecutionError>) -> Result<Verdict, ConditionError> {
        match result {
            Ok(result) => answers::verdict(result).map_err(|words| unreadable(what, &words)),
            Err(error) => Err(outcome::conditional(what, &error)),
        }
    }
}

/// The server did something, and what it is cannot be told.
fn unreadable(what: &str, words: &str) -> ConditionError {
    ConditionError::Unknown(glidepath_env::Cause::words(format!("{what}: the answer cannot be read: {words}")))
}

/// The condition did not hold, so nothing was written; but what was there instead is no cell.
fn torn(what: &str, words: &str) -> ConditionError {
    ConditionError::Refused(Denial::words(format!("{what}: {words}")))
}

impl KvStore for Cassandra {
    fn capabilities(&self) -> KvCapabilities {
        KvCapabilities {
            // The driver repeats nothing; what stands between it and the servers is not known.
            delivers_once: false,
            // A quorum may or may not hold a replica that has accepted a write that was not committed.
            plain_reads_are_linearizable: false,
            final_writes: true,
            most_columns: MOST_COLUMNS,
            gathers: false,
        }
    }

    async fn create_table(&self, table: &Table) -> Result<(), WriteError> {
        let what = self.what("making the table", table);
        let made = self.0.session.query_unpaged(statements::create_table(&self.0.keyspace, table), ()).await;
        made.map_err(|error| outcome::plain(&what, &error))?;
        // Where somebody else has just made it, the driver does not wait until all nodes know it.
        let agreed = self.0.session.await_schema_agreement().await;
        agreed.map(drop).map_err(|error| WriteError::Unknown(cause(&what, &error)))
    }

    async fn get(&self, table: &Table, cells: &[Cell], level: ReadLevel) -> Result<Vec<Option<Bytes>>, KvReadError> {
        self.read_cells(table, cells, level).await
    }

    async fn scan(
        &self,
        table: &Table,
        row: &Bytes,
        columns: &Columns,
        limit: usize,
        level: ReadLevel,
    ) -> Result<Slice, KvReadError> {
        self.read_slice(table, row, columns, limit, level).await
    }

    async fn rows(&self, table: &Table, after: Option<&Bytes>, limit: usize) -> Result<Rows, KvReadError> {
        self.read_rows(table, after, limit).await
    }

    async fn put_unless_exists(
        &self,
        table: &Table,
        row: &Bytes,
        columns: &[(Bytes, Bytes)],
    ) -> Result<(), ConditionError> {
        let what = self.what("putting into", table);
        check_columns(columns, MOST_COLUMNS).map_err(ConditionError::Refused)?;
        self.check(&what, row, columns).map_err(ConditionError::Refused)?;
        let statements = self.statements_for_write(&what, table).await.map_err(ConditionError::Refused)?;
        let (session, insert) = (&self.0.session, &statements.insert);
        let result = if let [(column, value)] = columns {
            session.execute_unpaged(insert, (row, column, value)).await
        } else {
            let one = BatchStatement::PreparedStatement(insert.clone());
            let batch = Batch::new_with_statements(BatchType::Unlogged, vec![one; columns.len()]);
            let values: Vec<_> = columns.iter().map(|(column, value)| (row, column, value)).collect();
            session.batch(&batch, values).await
        };
        match self.verdict(&what, result)? {
            Verdict::Applied => Ok(()),
            Verdict::Lost(found) => {
                let found = answers::found_columns(found).map_err(|words| torn(&what, &words))?;
                Err(ConditionError::Lost { found })
            }
        }
    }

    async fn compare_and_set(
        &self,
        table: &Table,
        cell: &Cell,
        expected: Option<&Bytes>,
        new: &Bytes,
    ) -> Result<(), ConditionError> {
        let Cell { row, column } = cell;
        let Some(expected) = expected else {
            return self.put_unless_exists(table, row, &[(column.clone(), new.clone())]).await;
        };
        let what = self.what("replacing a value in", table);
        // Both values are sent.
        let sent = [(column.clone(), new.clone()), (column.clone(), expected.clone())];
        self.check(&what, row, &sent).map_err(ConditionError::Refused)?;
        let statements = self.statements_for_write(&what, table).await.map_err(ConditionError::Refused)?;
        let result = self.0.session.execute_unpaged(&statements.replace, (new, row, column, expected)).await;
        match self.verdict(&what, result)? {
            Verdict::Applied => Ok(()),
            Verdict::Lost(found) => {
                // The answer names the value alone.
                let named = found.into_iter().map(|(_, value)| (Some(column.clone()), value)).collect();
                let found = answers::found_columns(named).map_err(|words| torn(&what, &words))?;
                Err(ConditionError::Lost { found })
            }
        }
    }

    async fn put_final(&self, table: &Table, cell: &Cell, value: &Bytes, rank: Rank) -> Result<(), WriteError> {
        let Cell { row, column } = cell;
        let what = self.what("making a value final in", table);
        self.check(&what, row, &[(column.clone(), value.clone())]).map_err(WriteError::Refused)?;
        let statements = self.statements_for_write(&what, table).await.map_err(WriteError::Refused)?;
        let time = match rank {
            Rank::Written => FINAL_FROM,
            Rank::Restored => FINAL_FROM + 1,
        };
        let written = self.0.session.execute_unpaged(&statements.put, (row, column, value, time)).await;
        written.map(drop).map_err(|error| outcome::plain(&what, &error))
    }
}
