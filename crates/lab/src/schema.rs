//! What is in the Parquet files? The one place that names their columns.
//!
//! `results.parquet` has a row for each point and seed (`results.rs` names its columns), `knees.parquet` one for each
//! point whose knee was searched (`knees.rs`), a file under `transactions/` one for each transaction of one run
//! (`transactions.rs`). Units are in the names: `_s` seconds, `_ms` milliseconds, `_bytes`, `_ratio` between 0 and 1.
//! Values that do not apply are null. The key-value metadata of each file holds `experiment`, `configuration_hash`,
//! `model_version` and `git_revision`. Equal results give equal bytes.

mod columns;
mod knees;
mod results;
mod transactions;

use std::path::PathBuf;

use glidepath_point::MODEL_VERSION;
use parquet::file::metadata::KeyValue;

use crate::experiment::Experiment;

pub use knees::{KNEES, write_knees};
pub use results::{RESULTS, write_results};
pub use transactions::{TRANSACTIONS, TransactionFolder};

/// The origin of results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Provenance {
    /// The revision of the program that made them, or "unknown".
    pub git_revision: String,
}

/// Why a file was not written.
#[derive(Debug, thiserror::Error)]
pub enum SchemaError {
    /// A system error.
    #[error("{path}: cannot write this file: {cause}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        cause: std::io::Error,
    },
    /// An error of the Parquet library.
    #[error("{path}: cannot write this file: {cause}")]
    Parquet {
        /// Which file.
        path: PathBuf,
        /// What it said.
        cause: parquet::errors::ParquetError,
    },
}

/// The metadata that every file has.
fn origin_of(experiment: &Experiment, provenance: &Provenance) -> Vec<KeyValue> {
    let pair = |key: &str, value: String| KeyValue::new(key.to_owned(), value);
    vec![
        pair("experiment", experiment.name.clone()),
        pair("configuration_hash", experiment.hash()),
        pair("model_version", MODEL_VERSION.to_string()),
        pair("git_revision", provenance.git_revision.clone()),
    ]
}
