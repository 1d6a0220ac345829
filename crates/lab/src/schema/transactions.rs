//! The columns of the files under `transactions/`: a row for each transaction that ended within the run.

use std::fs::File;
use std::path::{Path, PathBuf};

use glidepath_model::Span;
use glidepath_point::SimulatedRun;
use glidepath_workload::{End, Kind, Record};
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use parquet::file::metadata::KeyValue;

use crate::experiment::Experiment;
use crate::schema::columns::Columns;
use crate::schema::{Provenance, SchemaError, origin_of};

/// The folder's name in a run's folder.
pub const TRANSACTIONS: &str = "transactions";

/// Where the transactions of each run are kept, a file each.
pub struct TransactionFolder<'a> {
    path: PathBuf,
    experiment: &'a Experiment,
    metadata: Vec<KeyValue>,
}

impl<'a> TransactionFolder<'a> {
    /// Creates the folder in a run's folder if it is missing.
    ///
    /// # Errors
    /// A system error.
    pub fn create(run: &Path, experiment: &'a Experiment, provenance: &Provenance) -> Result<Self, SchemaError> {
        let path = run.join(TRANSACTIONS);
        std::fs::create_dir_all(&path).map_err(|cause| SchemaError::Io { path: path.clone(), cause })?;
        Ok(Self { path, experiment, metadata: origin_of(experiment, provenance) })
    }

    fn file(&self, index: usize, seed: u64) -> PathBuf {
        self.path.join(format!("{index:04}-{seed}.parquet"))
    }

    /// Whether the file of this run exists and has this configuration.
    #[must_use]
    pub fn has(&self, index: usize, seed: u64, key: &str) -> bool {
        let Ok(file) = File::open(self.file(index, seed)) else { return false };
        let Ok(found) = ArrowReaderMetadata::load(&file, ArrowReaderOptions::default()) else { return false };
        let pairs = found.metadata().file_metadata().key_value_metadata();
        pairs
            .is_some_and(|pairs| pairs.iter().any(|pair| pair.key == "point_key" && pair.value.as_deref() == Some(key)))
    }

    /// Writes the file of a run atomically.
    ///
    /// # Errors
    /// It could not be written.
    pub fn write(&self, index: usize, seed: u64, key: &str, outcome: &SimulatedRun) -> Result<(), SchemaError> {
        let mut metadata = self.metadata.clone();
        let mut add = |name: &str, value: String| metadata.push(KeyValue::new(name.to_owned(), value));
        add("point_key", key.to_owned());
        add("point_index", index.to_string());
        add("seed", seed.to_string());
        for (name, value) in &self.experiment.points[index].coordinates {
            add(name, value.clone());
        }
        columns(&outcome.records).write(&self.file(index, seed), metadata)
    }
}

fn columns(records: &[Record]) -> Columns {
    let mut columns = Columns::default();
    columns.count("index", 0..records.len() as u64);
    columns.text("kind", records.iter().map(|record| kind_name(record.kind).to_owned()));
    columns.count("table", records.iter().map(|record| record.table.0.into()));
    columns.number("arrived_s", records.iter().map(|record| record.arrived.as_secs_f64()));
    columns.number("work_done_s", records.iter().map(|record| record.work_done.as_secs_f64()));
    columns.number("ended_s", records.iter().map(|record| record.ended.as_secs_f64()));
    columns.text("end", records.iter().map(|record| end_name(record.end).to_owned()));
    columns.count("retries", records.iter().map(|record| record.retries.into()));
    columns.count("attempts", records.iter().map(|record| record.attempts.into()));
    columns.count("refused", records.iter().map(|record| record.refused.into()));
    columns.count("catalog_conflicts", records.iter().map(|record| record.catalog_conflicts.into()));
    columns.count("table_conflicts", records.iter().map(|record| record.table_conflicts.into()));
    columns.count("unseen_conflicts", records.iter().map(|record| record.unseen_conflicts.into()));
    columns.count("append_conflicts", records.iter().map(|record| record.append_conflicts.into()));
    columns.count("history_reads", records.iter().map(|record| record.history_reads));
    let mut spent = |name: &str, part: fn(&Record) -> Span| {
        columns.number(name, records.iter().map(|record| part(record).as_secs_f64()));
    };
    spent("spent_catalog_reads_s", |record| record.spent.catalog_reads);
    spent("spent_prepare_s", |record| record.spent.prepare);
    spent("spent_conflict_reads_s", |record| record.spent.conflict_reads);
    spent("spent_install_s", |record| record.spent.install);
    spent("spent_backoff_s", |record| record.spent.backoff);
    columns
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::FastAppend => "fast-append",
        Kind::ValidatedOverwrite => "validated-overwrite",
    }
}

fn end_name(end: End) -> &'static str {
    match end {
        End::Committed => "committed",
        End::OutOfRetries => "out-of-retries",
        End::ValidationFailed => "validation-failed",
        End::Failed => "failed",
        End::Unknown => "unknown",
    }
}
