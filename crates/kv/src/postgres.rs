//! How are cells kept in PostgreSQL? In one table of the server for each table, one row of it for each cell.
//!
//! `statements` says what is sent, `connections` how, and `outcome` what a failure proves. A server does each request
//! at most once, and no request is repeated here; so a write that is lost was beaten by another writer.
//!
//! It refuses to talk to a standby, whose reads may be behind, and offers no TLS: it is for a server on the same
//! machine or in the same network. What is durable is the server's to say: it is where `fsync` and `synchronous_commit`
//! are on, as they are unless somebody changed them.

mod connections;
mod outcome;
mod statements;

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use glidepath_env::{
    Cause, Cell, Columns, ConditionError, Denial, KvCapabilities, KvReadError, KvStore, Rank, ReadLevel, Rows, Slice,
    Table, WriteError, check_columns,
};
use tokio_postgres::Config;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};

use connections::Connections;

/// Columns of one put, at most.
const MOST_COLUMNS: usize = 10_000;

/// Bytes of the names and values of one put, at most.
const MOST_BYTES: usize = 64 << 20;

/// How a [`Postgres`] talks to its server.
#[derive(Clone, Debug)]
pub struct PostgresOptions {
    /// Connections, at most; one at least.
    pub connections: usize,
    /// How long connecting, preparing a statement, and the statement may take, each. A write that takes longer is
    /// unknown to its writer.
    pub timeout: Duration,
}

impl Default for PostgresOptions {
    fn default() -> Self {
        Self { connections: 16, timeout: Duration::from_secs(10) }
    }
}

/// Why an address of a server is none.
#[derive(Debug, thiserror::Error)]
pub enum AddressError {
    /// The address is not of the form that PostgreSQL's own programs take.
    #[error("not a server's address, which is like postgres://user@host:port/database?schema=name: {0}")]
    Form(String),
    /// The schema has another name than a table may have.
    #[error("{0:?} is no name of a schema: it is of letters, digits and `_`, {most} at most, first a letter or `_`", most = Table::LONGEST)]
    Schema(String),
    /// The address names no server.
    #[error("it names no server, which is needed: postgres://user@host:port/database")]
    NoHost,
    /// It asks for a connection with TLS.
    #[error(
        "sslmode=require: this program connects to PostgreSQL without TLS only; leave it out, for a server on this machine or in this network"
    )]
    Tls,
    /// A parameter is there more than once.
    #[error("the parameter {0:?} is given twice; give each once")]
    Twice(String),
}

/// Cells in a PostgreSQL server. Clones share its connections. Its futures need a tokio runtime with `net` and `time`.
#[derive(Clone)]
pub struct Postgres(Arc<Inner>);

struct Inner {
    connections: Connections,
    schema: Table,
}

impl Postgres {
    /// The server at `postgres://user:password@host:port/database`; `?schema=name` is where its tables are, else `public`. Makes no
    /// request.
    ///
    /// # Errors
    /// Where it is no such address.
    pub fn open(url: &str, options: &PostgresOptions) -> Result<Self, AddressError> {
        let (url, schema) = split(url)?;
        let schema = Table::new(&schema).ok_or(AddressError::Schema(schema))?;
        let form = |error: tokio_postgres::Error| AddressError::Form(Cause::from_error(error).to_string());
        let mut config: Config = url.parse().map_err(form)?;
        let unnamed = |host: &Host| matches!(host, Host::Tcp(name) if name.is_empty());
        let is_none = config.get_hosts().is_empty() && config.get_hostaddrs().is_empty();
        if is_none || config.get_hosts().iter().any(unnamed) {
            return Err(AddressError::NoHost);
        }
        if config.get_ssl_mode() == SslMode::Require {
            return Err(AddressError::Tls);
        }
        config.target_session_attrs(TargetSessionAttrs::ReadWrite).application_name("glidepath");
        config.connect_timeout(options.timeout);
        let server = format!("PostgreSQL at {}", places(&config));
        let connections = Connections::new(config, server, options.connections, options.timeout);
        Ok(Self(Arc::new(Inner { connections, schema })))
    }

    /// Connects to the server, as the first request would.
    ///
    /// # Errors
    /// Where the server does not answer, or lets nobody in.
    pub async fn connect(&self) -> Result<(), Cause> {
        self.0.connections.connect().await.map_err(Cause::from_error)
    }

    fn name(&self, table: &Table) -> String {
        statements::quoted(&self.0.schema, table)
    }

    /// What a table takes on the server's disk with its indices, in bytes. For benchmarks.
    ///
    /// # Errors
    /// Where the server does not answer, or there is no such table.
    pub async fn disk_bytes(&self, table: &Table) -> Result<u64, KvReadError> {
        let sql = format!("SELECT pg_total_relation_size('{}'::regclass)", self.name(table));
        let rows = self.0.connections.query(&sql, &[]).await.map_err(|failure| failure.of_read(table))?;
        let size: Option<i64> = rows.first().map(|row| row.get(0));
        Ok(size.and_then(|size| u64::try_from(size).ok()).unwrap_or(0))
    }

    /// The end of a write that is lost: it has no effect, whatever comes now. Tells what is there instead, by `judge`;
    /// where that cannot be told, the write is refused, and may be sent again.
    async fn lost(
        &self,
        table: &Table,
        row: &Bytes,
        columns: &[&[u8]],
        is_answer: impl FnOnce(&[(Bytes, Bytes)]) -> bool,
    ) -> ConditionError {
        let again = |why: String| ConditionError::Refused(Denial::words(why).passing());
        let sql = statements::existing(&self.name(table));
        match self.0.connections.query(&sql, &[&&row[..], &columns]).await {
            Ok(rows) => {
                let found: Vec<_> = rows.iter().map(|row| (bytes(row.get(0)), bytes(row.get(1)))).collect();
                if is_answer(&found) {
                    return ConditionError::Lost { found };
                }
                again("the condition did not hold, and the cells changed before they could be read".to_owned())
            }
            Err(failure) => again(format!("the condition did not hold, and the cells could not be read: {failure}")),
        }
    }
}

/// The servers of an address, as HOST:PORT each.
fn places(config: &Config) -> String {
    let mut names: Vec<String> = Vec::new();
    for host in config.get_hosts() {
        names.push(match host {
            Host::Tcp(name) => name.clone(),
            #[cfg(unix)]
            Host::Unix(folder) => folder.display().to_string(),
        });
    }
    if names.is_empty() {
        names.extend(config.get_hostaddrs().iter().map(ToString::to_string));
    }
    // One port is for all hosts; without any, each has the usual one.
    let ports = config.get_ports();
    let port = |place: usize| ports.get(place).or_else(|| ports.first()).copied().unwrap_or(5432);
    let with_ports = names.iter().enumerate().map(|(place, name)| format!("{name}:{}", port(place)));
    with_ports.collect::<Vec<_>>().join(", ")
}

/// The address without its schema, and the schema.
fn split(url: &str) -> Result<(String, String), AddressError> {
    let mut schema = "public".to_owned();
    let Some((address, query)) = url.split_once('?') else { return Ok((url.to_owned(), schema)) };
    let (mut rest, mut names) = (Vec::new(), BTreeSet::new());
    for part in query.split('&') {
        let name = part.split('=').next().unwrap_or_default();
        if !names.insert(name) {
            return Err(AddressError::Twice(name.to_owned()));
        }
        match part.strip_prefix("schema=") {
            Some(name) => schema = name.to_owned(),
            None => rest.push(part),
        }
    }
    let address = if rest.is_empty() { address.to_owned() } else { format!("{address}?{}", rest.join("&")) };
    Ok((address, schema))
}

fn bytes(value: &[u8]) -> Bytes {
    Bytes::copy_from_slice(value)
}

/// As many as the server can count to.
fn count(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

impl KvStore for Postgres {
    fn capabilities(&self) -> KvCapabilities {
        KvCapabilities {
            delivers_once: true,
            plain_reads_are_linearizable: true,
            final_writes: false,
            most_columns: MOST_COLUMNS,
            gathers: false,
        }
    }

    async fn create_table(&self, table: &Table) -> Result<(), WriteError> {
        let sql = statements::create_table(&self.0.schema, table);
        self.0.connections.batch(&sql).await.map_err(outcome::Failure::of_write)
    }

    async fn get(&self, table: &Table, cells: &[Cell], _: ReadLevel) -> Result<Vec<Option<Bytes>>, KvReadError> {
        let rows: Vec<_> = cells.iter().map(|cell| &cell.row[..]).collect();
        let columns: Vec<_> = cells.iter().map(|cell| &cell.column[..]).collect();
        let found = self.0.connections.query(&statements::get(&self.name(table)), &[&rows, &columns]).await;
        let found = found.map_err(|failure| failure.of_read(table))?;
        Ok(found.iter().map(|row| row.get::<_, Option<&[u8]>>(0).map(bytes)).collect())
    }

    async fn scan(
        &self,
        table: &Table,
        row: &Bytes,
        columns: &Columns,
        limit: usize,
        _: ReadLevel,
    ) -> Result<Slice, KvReadError> {
        let sql = statements::scan(&self.name(table), columns.before.is_some());
        let from = columns.from.as_deref().unwrap_or_default();
        let (row, before, more) = (&row[..], columns.before.as_deref(), count(limit.saturating_add(1)));
        let found = match &before {
            None => self.0.connections.query(&sql, &[&row, &from, &more]).await,
            Some(before) => self.0.connections.query(&sql, &[&row, &from, &more, before]).await,
        };
        let found = found.map_err(|failure| failure.of_read(table))?;
        let cells = found.iter().take(limit).map(|row| (bytes(row.get(0)), bytes(row.get(1)))).collect();
        Ok(Slice { cells, more: found.len() > limit })
    }

    async fn rows(&self, table: &Table, after: Option<&Bytes>, limit: usize) -> Result<Rows, KvReadError> {
        // Every row is behind the empty one.
        let after = after.map(|row| &row[..]).unwrap_or_default();
        let sql = statements::rows(&self.name(table));
        let found = self.0.connections.query(&sql, &[&after, &count(limit.saturating_add(1))]).await;
        let found = found.map_err(|failure| failure.of_read(table))?;
        let rows = found.iter().take(limit).map(|row| bytes(row.get(0))).collect();
        Ok(Rows { rows, more: found.len() > limit })
    }

    async fn put_unless_exists(
        &self,
        table: &Table,
        row: &Bytes,
        columns: &[(Bytes, Bytes)],
    ) -> Result<(), ConditionError> {
        check_columns(columns, MOST_COLUMNS).map_err(ConditionError::Refused)?;
        check_names(row, columns).map_err(ConditionError::Refused)?;
        let mut columns: Vec<_> = columns.iter().map(|(column, value)| (&column[..], &value[..])).collect();
        columns.sort_unstable();
        let (names, values): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
        let (name, key) = (self.name(table), &row[..]);
        let put = match (&names[..], &values[..]) {
            ([column], [value]) => {
                self.0.connections.execute(&statements::put_one(&name), &[&key, column, value]).await
            }
            _ => self.0.connections.execute(&statements::put_many(&name), &[&key, &names, &values]).await,
        };
        match put {
            Ok(0) => Err(self.lost(table, row, &names, |found| !found.is_empty()).await),
            Err(failure) if failure.is_conflict() => {
                Err(self.lost(table, row, &names, |found| !found.is_empty()).await)
            }
            Ok(_) => Ok(()),
            Err(failure) => Err(failure.of_condition(table)),
        }
    }

    async fn compare_and_set(
        &self,
        table: &Table,
        Cell { row, column }: &Cell,
        expected: Option<&Bytes>,
        new: &Bytes,
    ) -> Result<(), ConditionError> {
        check_names(row, &[(column.clone(), new.clone())]).map_err(ConditionError::Refused)?;
        let (name, key, cell, new) = (self.name(table), &row[..], &column[..], &new[..]);
        let set = match expected.map(|expected| &expected[..]) {
            None => self.0.connections.execute(&statements::put_one(&name), &[&key, &cell, &new]).await,
            Some(expected) => {
                self.0.connections.execute(&statements::set(&name), &[&key, &cell, &expected, &new]).await
            }
        };
        match set {
            // What is there by now may be what was expected.
            Ok(0) => {
                Err(self.lost(table, row, &[cell], |found| found.first().map(|(_, value)| value) != expected).await)
            }
            Ok(_) => Ok(()),
            Err(failure) => Err(failure.of_condition(table)),
        }
    }

    async fn put_final(&self, _: &Table, _: &Cell, _: &Bytes, _: Rank) -> Result<(), WriteError> {
        Err(WriteError::Refused(Denial::words("this store has no final writes: its reads need none")))
    }
}

/// The server takes names of 1,000 bytes each, and not of much more: an entry of an index is a third of a page at most.
fn check_names(row: &[u8], columns: &[(Bytes, Bytes)]) -> Result<(), Denial> {
    const MOST: usize = 2_600;
    let longest = columns.iter().map(|(column, _)| column.len()).max().unwrap_or_default();
    if row.is_empty() || columns.iter().any(|(column, _)| column.is_empty()) || row.len() + longest > MOST {
        return Err(Denial::words(format!(
            "a row of {} bytes and a column of up to {longest}: neither may be empty, and they are {MOST} bytes together at most",
            row.len()
        )));
    }
    let bytes = columns.iter().map(|(column, value)| column.len() + value.len()).sum::<usize>();
    if bytes > MOST_BYTES {
        return Err(Denial::words(format!("{bytes} bytes: a put is of {MOST_BYTES} at most; put less")));
    }
    Ok(())
}

impl fmt::Debug for Postgres {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Postgres").field("server", &self.0.connections.server).field("schema", &self.0.schema).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_name_a_schema_and_shows_no_password() {
        let open = |url: &str| Postgres::open(url, &PostgresOptions::default());
        let store = open("postgres://me:secret@127.0.0.1:54/db?schema=mine&sslmode=disable").unwrap();
        let shown = format!("{store:?}");
        assert!(shown.contains("127.0.0.1") && shown.contains("mine") && !shown.contains("secret"), "{shown}");
        assert_eq!(open("postgres://me@localhost/db").unwrap().0.schema.as_str(), "public");
        assert!(matches!(open("postgres://me@localhost/db?schema=a\"b"), Err(AddressError::Schema(_))));
        assert!(matches!(open("mysql://me@localhost/db"), Err(AddressError::Form(_))));
        assert!(matches!(open("postgres://me@localhost/db?sslmode=require"), Err(AddressError::Tls)));
        for url in ["postgres://", "postgres:///db", "postgres://me:hush@/db?schema=mine", "postgres:///db?host="] {
            assert!(matches!(open(url), Err(AddressError::NoHost)), "{url}");
        }
        assert!(open("postgres:///db?host=/run/postgresql&user=me").is_ok());
        for (query, twice) in [("schema=a&schema=b", "schema"), ("user=a&sslmode=disable&user=b", "user")] {
            let refused = open(&format!("postgres://localhost/db?{query}"));
            assert!(matches!(refused, Err(AddressError::Twice(name)) if name == twice), "{query}");
        }
    }
}
