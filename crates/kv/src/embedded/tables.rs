//! Which tables are there? Each is a keyspace of the library, so that a scan of one meets no cell of another.

use std::collections::HashMap;
use std::sync::{PoisonError, RwLock};

use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry, RestartIntervalPolicy,
};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions};
use glidepath_env::{Cause, Denial, Table, WriteError};

use super::folder::Folder;
use super::writer::{Broken, cause, no_more_writes};

/// The open folder with its tables.
pub(super) struct Tables {
    known: RwLock<HashMap<Table, Keyspace>>,
    memtable_bytes: u64,
    /// Behind the tables, which go first.
    folder: Folder,
}

impl Tables {
    pub(super) fn new(folder: Folder, memtable_bytes: u64) -> fjall::Result<Self> {
        let mut known = HashMap::new();
        for name in folder.database.list_keyspace_names() {
            if let Some(table) = Table::new(&name) {
                known.insert(table, folder.database.keyspace(&name, KeyspaceCreateOptions::default)?);
            }
        }
        Ok(Self { known: RwLock::new(known), memtable_bytes, folder })
    }

    pub(super) fn database(&self) -> &Database {
        &self.folder.database
    }

    pub(super) fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(super) fn get(&self, table: &Table) -> Option<Keyspace> {
        // Each change is one insertion, so a panic elsewhere leaves none half done.
        self.known.read().unwrap_or_else(PoisonError::into_inner).get(table).cloned()
    }

    /// Makes a table durable, then known. Only the writer thread does: the library must not make one while it commits,
    /// or scans could see half of what it commits.
    pub(super) fn create(&self, table: &Table, broken: &Broken) -> Result<(), WriteError> {
        if self.get(table).is_some() {
            return Ok(());
        }
        let options = || layout().max_memtable_size(self.memtable_bytes);
        let made = self.database().keyspace(table.as_str(), options);
        let failed = |why: Cause| {
            let folder = self.folder.path.display();
            let words = format!("making it in {folder}: {why}; see that the disk works and has room, then try again");
            may_be_there(words)
        };
        let made = made.map_err(|error| failed(cause(error)))?;
        if let Err(error) = self.folder.sync_names() {
            // A second try would find the table, and no second sync could tell that its folder's name is durable.
            let why = broken.get_or_init(|| format!("syncing the name of the folder of table {table} failed: {error}"));
            return Err(may_be_there(no_more_writes(&self.folder.path, why)));
        }
        self.folder.list_tables().map_err(|error| failed(Cause::from_error(error)))?;
        self.known.write().unwrap_or_else(PoisonError::into_inner).insert(table.clone(), made);
        Ok(())
    }
}

/// A refusal after which the table may be there all the same, and nothing but the disk can change that.
fn may_be_there(words: String) -> WriteError {
    WriteError::Refused(Denial { certain: false, ..Denial::words(words) })
}

/// Entries are small and their keys alike: a larger block and more entries between two whole keys make better use of
/// both. (Measured by the example `embedded_speed`.)
fn layout() -> KeyspaceCreateOptions {
    KeyspaceCreateOptions::default()
        .data_block_size_policy(BlockSizePolicy::all(16 << 10))
        .data_block_restart_interval_policy(RestartIntervalPolicy::all(32))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::Lz4))
        .filter_policy(FilterPolicy::all(FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(8.0))))
}
