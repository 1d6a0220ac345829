//! Do the published figures come out? Every figure of the published simulations beside ours: a page that sums up, and one of tables.
//!
//! The figures are data (`experiments/published/*.toml`), each with its source, its metric and its tolerance. Start with
//! [`Figure`], then [`judge`], then [`page::write`].

mod figure;
mod measure;
pub mod page;
mod pictures;
mod tables;
pub mod versioned_manifest;

use std::collections::BTreeMap;

pub use figure::{Figure, FigureError, Tolerance, figures};

use measure::Reproduced;

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
    /// How near the two are.
    pub verdict: Verdict,
    /// Ours of what the figure seems to be of instead ([`Figure::perhaps`]), and whether it is within the tolerance then.
    pub perhaps: Option<(f64, bool)>,
}

/// How near ours is to a published figure.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Within the figure's tolerance.
    Within,
    /// Within the tolerance of another value that has the same digits as printed, not of the printed one.
    WithinAsPrinted,
    /// Of a knee: ours lies at another load, but at every load on which the two differ our success is so near the threshold
    /// that noise decides. Ours is then given as it is at the published load, and is within tolerance there.
    OnTheEdge {
        /// The differing load whose success is farthest from the threshold.
        load: String,
        /// Our success there.
        success_percent: f64,
    },
    /// Not within it.
    Outside,
    /// Nothing of ours to compare: no commit, no knee, a point not run.
    Nothing,
}

/// Compares one of the published figures with ours.
#[must_use]
pub fn judge(figure: &Figure, figures: &[Figure], runs: &Runs) -> Judgement {
    let Reproduced { value: ours, load, edge } = measure::measure(figure, figures, runs);
    let strictly = ours.is_some_and(|ours| figure.accepts(ours, load.as_deref()));
    let as_printed = strictly || ours.is_some_and(|ours| figure.accepts_as_printed(ours));
    let verdict = match (ours, edge) {
        (None, _) => Verdict::Nothing,
        (Some(_), Some((load, success_percent))) if as_printed => Verdict::OnTheEdge { load, success_percent },
        (Some(_), None) if strictly => Verdict::Within,
        (Some(_), None) if as_printed => Verdict::WithinAsPrinted,
        (Some(_), _) => Verdict::Outside,
    };
    let perhaps = figure.perhaps.clone().and_then(|metric| {
        let figure = Figure { metric, ..figure.clone() };
        let ours = measure::measure(&figure, figures, runs).value?;
        Some((ours, figure.accepts(ours, None)))
    });
    Judgement { ours, load, verdict, perhaps }
}
