//! The files of the server's warehouse. To make them takes processor time.

use bytes::Bytes;
use glidepath_service::Warehouse;
use glidepath_sim::SimEnv;
use glidepath_table::{FileError, Files};

use super::Costs;
use super::thread::Thread;
use crate::counted::CountedWorld;
use crate::machine::Processors;

/// How the names of manifest lists and manifests end.
const LIST: &str = ".avro";

/// A warehouse whose files take time to make, and lists to read.
#[derive(Clone)]
pub(super) struct Made {
    pub(super) env: SimEnv,
    pub(super) files: Warehouse<CountedWorld<SimEnv>>,
    pub(super) processors: Processors,
    pub(super) costs: Costs,
    /// The thread that makes manifest lists. There is one for each table with appends, and there is one such table.
    pub(super) lists: Thread,
}

impl Made {
    async fn make(&self, location: &str, bytes: usize) {
        if location.ends_with(LIST) {
            let time = self.costs.write + Costs::of_bytes(self.costs.list_kib, bytes);
            self.lists.spend(&self.env, time).await;
        } else {
            let time = self.costs.write + Costs::of_bytes(self.costs.metadata_kib, bytes);
            self.processors.spend(&self.env, time).await;
        }
    }
}

impl Files for Made {
    async fn read_up_to(&self, location: &str, most: u64) -> Result<Bytes, FileError> {
        let read = self.files.read_up_to(location, most).await?;
        if location.ends_with(LIST) {
            self.processors.spend(&self.env, Costs::of_bytes(self.costs.list_read_kib, read.len())).await;
        }
        Ok(read)
    }

    async fn write(&self, location: &str, bytes: Bytes) -> Result<(), FileError> {
        self.make(location, bytes.len()).await;
        self.files.write(location, bytes).await
    }

    async fn delete(&self, location: &str) -> Result<(), FileError> {
        self.files.delete(location).await
    }

    async fn list(&self, folder: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>, FileError> {
        self.files.list(folder, after, limit).await
    }
}
