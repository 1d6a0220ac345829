//! What does a table take on the disk of a node?

use std::time::Duration;

use glidepath_env::{Cause, KvReadError, Table};

use super::Cassandra;
use super::outcome::cause;
use super::statements::quoted;

/// How long a node may keep what was written in memory, in milliseconds, once it is asked to write it to its disk.
const FLUSH_MS: u32 = 1000;

/// The time between two looks.
const BETWEEN: Duration = Duration::from_secs(5);

/// The most looks: a node may be merging files for minutes.
const LOOKS: usize = 120;

impl Cassandra {
    /// What the files of a table take on the disk of the node that answers, in bytes; the node counts whole MiB. Makes
    /// the node write to its disk what it has in memory, and waits until the size stays the same: five seconds to ten
    /// minutes. From then on the node writes this table to its disk every second, so this is for benchmarks.
    ///
    /// # Errors
    /// Where the node does not answer, or has no table `system_views.disk_usage` (Cassandra before 4.0).
    pub async fn disk_bytes(&self, table: &Table) -> Result<u64, KvReadError> {
        let what = self.what("asking for the size of", table);
        let name = quoted(&self.0.keyspace, table);
        let flush = format!("ALTER TABLE {name} WITH memtable_flush_period_in_ms = {FLUSH_MS}");
        let failed = |error: &dyn std::fmt::Display| KvReadError::Failed(Cause::words(format!("{what}: {error}")));
        let altered = self.0.session.query_unpaged(flush, ()).await;
        altered.map_err(|error| KvReadError::Failed(cause(&what, &error)))?;
        let ask = "SELECT mebibytes FROM system_views.disk_usage WHERE keyspace_name = ? AND table_name = ?";
        let mut before = None;
        for _ in 0..LOOKS {
            tokio::time::sleep(BETWEEN).await;
            let answer = self.0.session.query_unpaged(ask, (&self.0.keyspace, table.to_string())).await;
            let answer = answer.map_err(|error| KvReadError::Failed(cause(&what, &error)))?;
            let rows = answer.into_rows_result().map_err(|error| failed(&error))?;
            let found = rows.maybe_first_row::<(i64,)>().map_err(|error| failed(&error))?;
            let size = found.map(|(mebibytes,)| u64::try_from(mebibytes).unwrap_or(0));
            if size.is_some_and(|size| size > 0) && size == before {
                return Ok(size.unwrap_or(0) << 20);
            }
            before = size;
        }
        Err(failed(&"the size of its files did not stay the same for five seconds; ask again when the node is idle"))
    }
}
