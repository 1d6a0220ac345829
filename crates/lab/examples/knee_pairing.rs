//! Would paired differences make the intervals of what-ifs narrower? Searches a knee and the knees with some changes
//! over disjoint sets of seeds, with the same seeds for all, and prints how the knees correlate. With correlation r,
//! the ratio of two knees has sqrt(1 - r) times the error of independent ones. For `docs/model.md`.
//!
//! ```sh
//! cargo run --release -p glidepath-lab --example knee_pairing [SETS]
//! ```

use std::error::Error;
use std::num::NonZeroUsize;

use glidepath_lab::experiment::{Experiment, Overrides, Setting};
use glidepath_lab::knee::{KneeOptions, find};

/// The first is that without a change.
const CHANGES: [&str; 4] = ["tables.count=10", "retry.retries=10", "catalog.latency=1ms", "tables.count=20"];

/// About the budget of a what-if by default, and twice that.
const EVENTS: u64 = 1_500_000;

/// More seeds than any search uses.
const SEEDS_OF_A_SET: u64 = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let sets: u64 = std::env::args().nth(1).map_or(Ok(40), |sets| sets.parse())?;
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let mut logarithms = Vec::new();
    for change in CHANGES {
        let settings = ["tables.count=10", change].map(Setting::parse).into_iter().collect::<Result<_, _>>()?;
        let experiment = Experiment::of_preset("iceberg", &Overrides { settings, ..Overrides::default() })?;
        let point = &experiment.points.first().ok_or("a preset without a point")?.point;
        let knee = |set: u64| {
            let first_seed = set * SEEDS_OF_A_SET;
            // Never reached, so that all searches do the same work.
            let options = KneeOptions { first_seed, events: EVENTS, within: 0.005, threads, ..KneeOptions::default() };
            find(point, &options, &|_| ()).map(|knee| knee.knee_commits_per_s.ln())
        };
        logarithms.push((1..=sets).map(knee).collect::<Result<Vec<f64>, _>>()?);
    }
    println!("| change | deviation of the knee | correlation with the knee without it |\n|---|--:|--:|");
    let base = &logarithms[0];
    for (change, values) in CHANGES.iter().zip(&logarithms).skip(1) {
        let correlation = covariance(base, values) / (covariance(base, base) * covariance(values, values)).sqrt();
        println!("| {change} | {:.1} % | {correlation:+.2} |", 100.0 * covariance(values, values).sqrt());
    }
    Ok(())
}

fn covariance(a: &[f64], b: &[f64]) -> f64 {
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let (of_a, of_b) = (mean(a), mean(b));
    a.iter().zip(b).map(|(a, b)| (a - of_a) * (b - of_b)).sum::<f64>() / (a.len() as f64 - 1.0)
}
