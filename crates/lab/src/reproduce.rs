//! Are the published figures reproduced? A page with the summary and one with tables put every figure of the published
//! simulations beside ours.
//!
//! The figures are data (`experiments/published/*.toml`), each with its source, its metric and its tolerance. Start
//! with [`Figure`], then [`judge`], then [`page::write`].

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

/// The results of the experiments, by name.
pub type Runs = BTreeMap<String, (Experiment, RunSummary)>;

/// The judgement of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Our value, in the metric's unit; absent if there is nothing to compare (no commit, no knee, a point not run).
    pub ours: Option<f64>,
    /// For knees: the grid load of ours.
    pub load: Option<String>,
    /// The verdict.
    pub verdict: Verdict,
    /// Our value of the metric that the figure seems to show instead ([`Figure::perhaps`]), and whether it is within
    /// the tolerance.
    pub perhaps: Option<(f64, bool)>,
}

/// How close our value is to a published figure.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// Within the figure's tolerance.
    Within,
    /// Within the tolerance of another value that has the same digits as printed, not of the printed one.
    WithinAsPrinted,
    /// For a knee: ours is at another load, but at every load between the two our success is so near the threshold that
    /// noise decides. The value given is then that at the published load, which is within tolerance.
    OnTheEdge {
        /// The differing load whose success is farthest from the threshold.
        load: String,
        /// Our success there.
        success_percent: f64,
    },
    /// Not within it.
    Outside,
    /// Nothing to compare: no commit, no knee, a point not run.
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
