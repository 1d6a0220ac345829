//! Which statements does the store send? One CQL table per table, with one CQL row per cell.

use scylla::client::session::Session;
use scylla::errors::PrepareError;
use scylla::statement::Consistency;
use scylla::statement::prepared::PreparedStatement;
use uuid::Uuid;

use glidepath_env::{ReadLevel, Table};

/// The statements of one table, prepared.
pub(super) struct Statements {
    /// A cell, if it does not exist.
    pub(super) insert: PreparedStatement,
    /// Another value, if it has this one.
    pub(super) replace: PreparedStatement,
    /// A value with a time of writing of our own.
    pub(super) put: PreparedStatement,
    pub(super) get: AtLevels,
    /// From a column on.
    pub(super) scan: AtLevels,
    /// From a column on, before another.
    pub(super) scan_before: AtLevels,
    /// All rows.
    pub(super) rows: PreparedStatement,
    /// The rows from the place of this one on.
    pub(super) rows_from: PreparedStatement,
}

/// A read, prepared for both levels.
pub(super) struct AtLevels {
    linearizable: PreparedStatement,
    plain: PreparedStatement,
}

impl AtLevels {
    fn new(statement: PreparedStatement) -> Self {
        let mut linearizable = statement.clone();
        linearizable.set_consistency(Consistency::Serial);
        Self { linearizable, plain: statement }
    }

    pub(super) fn at(&self, level: ReadLevel) -> &PreparedStatement {
        match level {
            ReadLevel::Linearizable => &self.linearizable,
            ReadLevel::Plain => &self.plain,
        }
    }
}

impl Statements {
    /// Asks the server to prepare them. It refuses where the table does not exist.
    pub(super) async fn prepare(session: &Session, keyspace: &str, table: &Table) -> Result<Self, PrepareError> {
        let name = quoted(keyspace, table);
        let prepare = async |text: String| session.prepare(text).await;
        let insert = format!("INSERT INTO {name} (key, column1, value) VALUES (?, ?, ?)");
        let slice = format!("SELECT column1, value FROM {name} WHERE key = ? AND column1");
        let rows = format!("SELECT DISTINCT key, token(key) FROM {name}");
        Ok(Self {
            insert: prepare(format!("{insert} IF NOT EXISTS")).await?,
            replace: prepare(format!("UPDATE {name} SET value = ? WHERE key = ? AND column1 = ? IF value = ?")).await?,
            put: prepare(format!("{insert} USING TIMESTAMP ?")).await?,
            get: AtLevels::new(prepare(format!("{slice} IN ?")).await?),
            scan: AtLevels::new(prepare(format!("{slice} >= ? LIMIT ?")).await?),
            scan_before: AtLevels::new(prepare(format!("{slice} >= ? AND column1 < ? LIMIT ?")).await?),
            rows: prepare(format!("{rows} LIMIT ?")).await?,
            rows_from: prepare(format!("{rows} WHERE token(key) >= token(?) LIMIT ?")).await?,
        })
    }
}

/// The name as CQL takes it: without quotes it would be put into small letters.
pub(super) fn quoted(keyspace: &str, table: &Table) -> String {
    format!("\"{keyspace}\".\"{table}\"")
}

/// Makes a keyspace whose rows are kept so many times in each data centre.
pub(super) fn create_keyspace(keyspace: &str, copies: usize) -> String {
    let replication = format!("{{'class': 'NetworkTopologyStrategy', 'replication_factor': {copies}}}");
    format!("CREATE KEYSPACE IF NOT EXISTS \"{keyspace}\" WITH replication = {replication}")
}

/// Makes a table. Each option is the choice of the decision record on a transactions table with tickets; a bloom filter
/// and an index that find a row in one read of the disk, blocks as large as they compress well, tables of levels
/// because there are many reads, and repairs within reads because a plain read must show what was acknowledged.
///
/// The table's identity is a function of its name: of two that are made at the same time by different nodes both are
/// the same, where two random identities would be two tables.
pub(super) fn create_table(keyspace: &str, table: &Table) -> String {
    let name = quoted(keyspace, table);
    let id = Uuid::new_v5(&Uuid::NAMESPACE_OID, format!("{keyspace}.{table}").as_bytes());
    format!(
        "CREATE TABLE IF NOT EXISTS {name} (key blob, column1 blob, value blob, PRIMARY KEY (key, column1)) \
         WITH id = {id} \
         AND bloom_filter_fp_chance = 0.0001 AND min_index_interval = 1 AND max_index_interval = 1 \
         AND compression = {{'class': 'LZ4Compressor', 'chunk_length_in_kb': 64}} \
         AND compaction = {{'class': 'LeveledCompactionStrategy'}} \
         AND caching = {{'keys': 'ALL', 'rows_per_partition': 'NONE'}} \
         AND gc_grace_seconds = 3600 AND speculative_retry = 'NONE' AND read_repair = 'BLOCKING'"
    )
}

/// Whether a table exists; takes the names of the keyspace and of the table.
pub(super) const TABLE_EXISTS: &str =
    "SELECT table_name FROM system_schema.tables WHERE keyspace_name = ? AND table_name = ?";
