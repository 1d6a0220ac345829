//! How are cells kept on this machine's disk? In one folder, by one process, durably.
//!
//! A write is acknowledged when it is synced, and shows in reads from just before that on. `writer` says how, `folder`
//! what is on disk, `keys` how a cell's name becomes a key.
//!
//! It refuses to share its folder with a second process: the library keeps what it knows in memory. Reads wait for the
//! disk on the thread that polls them; writes wait for the writer thread, on no runtime in particular.

mod folder;
mod keys;
mod read;
mod renew;
#[cfg(test)]
mod renew_tests;
mod tables;
mod writer;
#[cfg(test)]
mod writer_tests;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use fjall::{Keyspace, PersistMode, Slice};
use glidepath_env::{
    Cause, Cell, Columns, ConditionError, Denial, KvCapabilities, KvReadError, KvStore, Rank, ReadLevel, Rows,
    Slice as RowSlice, Table, WriteError, check_columns,
};
use tokio::sync::{mpsc, oneshot};

use folder::Folder;
pub use folder::{OpenError, is_folder_of_cells};
use tables::Tables;
use writer::{Broken, Commit, Outcome, Request, Write, Writer};

/// Columns of one put, at most.
const MOST_COLUMNS: usize = 65_536;

/// Bytes of one put, at most.
const MOST_BYTES: usize = 64 << 20;

/// How an [`Embedded`] uses the machine.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// Memory for parts of files that are read often.
    pub cache_bytes: u64,
    /// Memory of each table for entries that are in the journal only.
    pub memtable_bytes: u64,
    /// Requests that may wait for the writer thread; the next ones wait to get there. One at least.
    pub most_waiting: usize,
}

impl Default for EmbeddedOptions {
    fn default() -> Self {
        Self { cache_bytes: 64 << 20, memtable_bytes: 64 << 20, most_waiting: 1024 }
    }
}

/// Cells in a folder. Clones share it, and dropping the last one waits for the writes that were sent, then closes the
/// folder.
#[derive(Clone)]
pub struct Embedded(Arc<Open>);

struct Open {
    tables: Arc<Tables>,
    broken: Broken,
    /// `None` only while it is dropped.
    requests: Option<mpsc::Sender<Request>>,
    thread: Option<JoinHandle<()>>,
}

impl Embedded {
    /// Opens the folder, and makes it where there is none.
    ///
    /// # Errors
    /// Where it is open elsewhere, holds something else, or the file system fails.
    pub fn open(folder: &Path, options: &EmbeddedOptions) -> Result<Self, OpenError> {
        // Step 4 of `writer`: the library syncs before it makes the cells visible.
        let commit = |batch: fjall::OwnedWriteBatch| batch.durability(Some(PersistMode::SyncAll)).commit();
        Self::open_with(folder, options, Box::new(commit))
    }

    /// Why it takes no more writes until it is opened again: a write or a sync failed.
    #[must_use]
    pub fn stopped(&self) -> Option<String> {
        let why = self.0.broken.get()?;
        Some(writer::no_more_writes(&self.0.tables.folder().path, why))
    }

    fn open_with(folder: &Path, options: &EmbeddedOptions, commit: Commit) -> Result<Self, OpenError> {
        let folder = Folder::open(folder, options)?;
        let path = folder.path.clone();
        let open = || Tables::new(folder, options.memtable_bytes);
        let tables = folder::of_library(&path, "opening the tables", open)?;
        let (tables, broken) = (Arc::new(tables), Arc::new(OnceLock::new()));
        let (sender, requests) = mpsc::channel(options.most_waiting.max(1));
        let writer = Writer { tables: Arc::clone(&tables), broken: Arc::clone(&broken), commit };
        let thread = thread::Builder::new().name("glidepath-cells".to_owned()).spawn(move || writer.run(requests));
        let step = "starting the writer thread";
        let thread = thread.map_err(|error| OpenError::Files { folder: path, step, error })?;
        Ok(Self(Arc::new(Open { tables, broken, requests: Some(sender), thread: Some(thread) })))
    }

    /// Sends a request to the writer thread and waits for its answer. `None`: the thread ended, or panicked, on the
    /// way.
    async fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<Option<T>, Denial> {
        let no_more = |why: &str| Denial::words(writer::no_more_writes(&self.0.tables.folder().path, why));
        if let Some(why) = self.0.broken.get() {
            return Err(no_more(why));
        }
        let (reply, answer) = oneshot::channel();
        let gone = || no_more("its writer thread has ended");
        let requests = self.0.requests.as_ref().ok_or_else(gone)?;
        requests.send(request(reply)).await.map_err(|_| gone())?;
        Ok(answer.await.ok())
    }

    async fn write(&self, table: Keyspace, row: &Bytes, cells: Cells, expected: Option<&Bytes>) -> Outcome {
        let expected = expected.map(|value| Slice::from(&value[..]));
        let beginning = keys::beginning(row).len();
        let request = |reply| Request::Write(Write { table, beginning, cells, expected, reply });
        match self.ask(request).await {
            Ok(Some(outcome)) => outcome,
            Ok(None) => Err(ConditionError::Unknown(Cause::words(NO_ANSWER))),
            Err(denial) => Err(ConditionError::Refused(denial)),
        }
    }

    fn table(&self, table: &Table) -> Result<Keyspace, ConditionError> {
        let none = || ConditionError::Refused(Denial::words(format!("there is no table {table}: create it first")));
        self.0.tables.get(table).ok_or_else(none)
    }

    fn reader(&self, table: &Table) -> Result<read::Reader, KvReadError> {
        let keyspace = self.0.tables.get(table).ok_or_else(|| KvReadError::NoTable(table.clone()))?;
        Ok(read::Reader { table: keyspace, snapshot: self.0.tables.database().snapshot() })
    }
}

const NO_ANSWER: &str = "the writer thread panicked before it answered";

type Cells = Vec<(Slice, Slice)>;

/// The keys and values of new cells, in the order of the keys.
fn cells(row: &Bytes, columns: &[(Bytes, Bytes)]) -> Result<Cells, Denial> {
    let longest = columns.iter().map(|(column, _)| column.len()).max().unwrap_or_default();
    let (name, most) = (row.len() + longest, keys::LONGEST_KEY - 3);
    if row.is_empty() || name > most || columns.iter().any(|(column, _)| column.is_empty()) {
        return Err(Denial::words(format!(
            "a row of {} bytes and a column of up to {longest}: neither may be empty, and they are {most} bytes together at most",
            row.len()
        )));
    }
    let bytes = columns.iter().map(|(column, value)| name.max(column.len()) + value.len()).sum::<usize>();
    if bytes > MOST_BYTES {
        return Err(Denial::words(format!("{bytes} bytes: a put is of {MOST_BYTES} at most, keys included; put less")));
    }
    let mut row = keys::Row::new(row);
    let cell = |(column, value): &(Bytes, Bytes)| (row.key(column), Slice::from(&value[..]));
    let mut cells: Cells = columns.iter().map(cell).collect();
    cells.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    Ok(cells)
}

impl KvStore for Embedded {
    fn capabilities(&self) -> KvCapabilities {
        KvCapabilities {
            delivers_once: true,
            plain_reads_are_linearizable: true,
            final_writes: false,
            most_columns: MOST_COLUMNS,
            gathers: true,
        }
    }

    async fn create_table(&self, table: &Table) -> Result<(), WriteError> {
        if self.0.tables.get(table).is_some() {
            return Ok(());
        }
        let name = table.clone();
        match self.ask(|reply| Request::CreateTable { name, reply }).await {
            Ok(Some(outcome)) => outcome,
            Ok(None) => Err(WriteError::Unknown(Cause::words(NO_ANSWER))),
            Err(denial) => Err(WriteError::Refused(denial)),
        }
    }

    async fn get(&self, table: &Table, cells: &[Cell], _: ReadLevel) -> Result<Vec<Option<Bytes>>, KvReadError> {
        self.reader(table)?.get(cells)
    }

    async fn scan(
        &self,
        table: &Table,
        row: &Bytes,
        columns: &Columns,
        limit: usize,
        _: ReadLevel,
    ) -> Result<RowSlice, KvReadError> {
        self.reader(table)?.scan(row, columns, limit)
    }

    async fn rows(&self, table: &Table, after: Option<&Bytes>, limit: usize) -> Result<Rows, KvReadError> {
        self.reader(table)?.rows(after, limit)
    }

    async fn put_unless_exists(
        &self,
        table: &Table,
        row: &Bytes,
        columns: &[(Bytes, Bytes)],
    ) -> Result<(), ConditionError> {
        check_columns(columns, MOST_COLUMNS).map_err(ConditionError::Refused)?;
        let cells = cells(row, columns).map_err(ConditionError::Refused)?;
        self.write(self.table(table)?, row, cells, None).await
    }

    async fn compare_and_set(
        &self,
        table: &Table,
        cell: &Cell,
        expected: Option<&Bytes>,
        new: &Bytes,
    ) -> Result<(), ConditionError> {
        let column = [(cell.column.clone(), new.clone())];
        let cells = cells(&cell.row, &column).map_err(ConditionError::Refused)?;
        self.write(self.table(table)?, &cell.row, cells, expected).await
    }

    async fn put_final(&self, _: &Table, _: &Cell, _: &Bytes, _: Rank) -> Result<(), WriteError> {
        Err(WriteError::Refused(Denial::words("this store has no final writes: its reads need none")))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.requests = None;
        let Some(thread) = self.thread.take() else { return };
        // The thread itself may drop the last handle, when an answer wakes somebody; it cannot wait for itself.
        if thread.thread().id() != thread::current().id() {
            // It ends without a panic, whatever happens: it catches its own.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Embedded").field(&self.0.tables.folder().path).finish()
    }
}
