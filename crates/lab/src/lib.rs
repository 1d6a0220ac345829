//! What does an experiment say? From a TOML file to plans, parallel runs, results, pictures and reports.

mod config;
mod metrics;
mod simulate;

pub use config::{CatalogConfig, Config, MODEL_VERSION, Point, Protocol};
pub use metrics::{Group, Latency, Metrics, RANKS, Rank, STRETCHES, SpentMeans};
pub use simulate::{Outcome, simulate};
