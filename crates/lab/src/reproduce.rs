//! Do the published figures come out? Every figure of the published simulations beside ours, on one page.
//!
//! The figures are data (`experiments/published/*.toml`), each with its source, its metric and its tolerance. Start with
//! [`Figure`], then [`judge`], then [`page::write`].

mod figure;
mod measure;
pub mod page;
pub mod versioned_manifest;

use std::collections::BTreeMap;

pub use figure::{Figure, FigureError, Tolerance, figures};

use crate::experiment::Experiment;
use crate::summary::RunSummary;

/// The experiments that the published figures come from, in the order of the texts.
pub const EXPERIMENTS: [&str; 9] = ["1a", "1b", "2a", "2b", "4a", "4a-zipf", "4b", "4b-zipf", "4c"];

/// What came of the experiments, by name.
pub type Runs = BTreeMap<String, (Experiment, RunSummary)>;

/// What we say to a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Ours, in the metric's unit; absent where there is nothing to compare (no commit, no knee, a point not run).
    pub ours: Option<f64>,
    /// For knees: the grid load at which ours lies.
    pub load: Option<String>,
    /// Whether ours is within the figure's tolerance; `None` where it cannot be said.
    pub within: Option<bool>,
}

/// Compares a figure with ours.
#[must_use]
pub fn judge(figure: &Figure, runs: &Runs) -> Judgement {
    let found = measure::measure(figure, runs);
    let within = found.value.map(|ours| figure.accepts(ours, found.load.as_deref()));
    Judgement { ours: found.value, load: found.load, within }
}
