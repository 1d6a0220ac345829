//! The files of the server's warehouse. To make them takes processor time.

use std::cell::Cell;
use std::rc::Rc;

use bytes::Bytes;
use glidepath_env::Env;
use glidepath_model::Instant;
use glidepath_service::Warehouse;
use glidepath_sim::SimEnv;
use glidepath_table::{FileError, Files};

use super::Costs;
use crate::counted::CountedWorld;
use crate::machine::Processors;

/// A warehouse whose files take time to make.
#[derive(Clone)]
pub(super) struct Made {
    pub(super) env: SimEnv,
    pub(super) files: Warehouse<CountedWorld<SimEnv>>,
    pub(super) processors: Processors,
    pub(super) costs: Costs,
    /// When the thread that makes manifest lists is free. There is one for each table with appends, and there is one
    /// such table.
    pub(super) lists: Rc<Cell<Instant>>,
}

impl Made {
    async fn make(&self, location: &str, bytes: usize) {
        let now = self.env.now();
        let done = if location.ends_with(".avro") {
            let time = self.costs.write + Costs::of_bytes(self.costs.list_kib, bytes);
            let done = self.processors.take(now.max(self.lists.get()), time) + time;
            self.lists.set(done);
            done
        } else {
            let time = self.costs.write + Costs::of_bytes(self.costs.metadata_kib, bytes);
            self.processors.take(now, time) + time
        };
        self.env.sleep_until(done).await;
    }
}

impl Files for Made {
    async fn read_up_to(&self, location: &str, most: u64) -> Result<Bytes, FileError> {
        self.files.read_up_to(location, most).await
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
