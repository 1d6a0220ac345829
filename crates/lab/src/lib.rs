//! What does an experiment say? From a TOML file to plans, parallel runs, results, pictures and reports.

mod config;
mod simulate;
pub use config::{CatalogConfig, Config, MODEL_VERSION, Point, Protocol};
pub use simulate::{Outcome, simulate};
