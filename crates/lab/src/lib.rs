//! What are the results of an experiment? From a TOML file to plans, parallel runs, results, pictures and reports.

pub mod experiment;
mod interval;
pub mod knee;
pub mod knees;
pub mod library;
mod metrics;
pub mod pictures;
pub mod report;
pub mod reproduce;
pub mod runner;
pub mod schema;
pub mod setting;
pub mod summary;

pub use experiment::{Axis, Experiment, PlannedPoint};
pub use glidepath_protocols::registry::Protocol;
pub use interval::Interval;
pub use metrics::{Group, Latency, Metrics, RANKS, Rank, STRETCHES, SpentMeans};
pub use summary::{GroupSummary, PointSummary, RankSummary, RunSummary};
