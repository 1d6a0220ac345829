//! How often does the interval of a knee, including the measurement's uncertainty, contain the true knee? Measures a
//! simulated store repeatedly with different random numbers, and searches the knee on each profile. Prints a line of a
//! table for `docs/measure.md`.
//!
//! ```sh
//! cargo run --release -p glidepath-cli --example measured_coverage PROFILE [MEASUREMENTS]
//! ```

#![expect(clippy::cast_precision_loss, reason = "counts are small")]

#[path = "../tests/common/remeasure.rs"]
mod remeasure;

use std::error::Error;

use glidepath_lab::knee::{KneeOptions, find};
use glidepath_lab::library::profile;
use glidepath_measure::{Operation, Plan};
use remeasure::{Remeasured, options, point};

/// The budget of a knee, and that of the searches on alternatives.
const EVENTS: u64 = 5_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().ok_or("the name of a profile is needed")?;
    let count: u64 = arguments.next().map_or(Ok(20), |count| count.parse())?;
    let store = profile(&name)?;
    let exact = KneeOptions { tolerance: 0.01, first_seed: 1 << 40, ..options(20 * EVENTS) };
    let truth = find(&point(&store), &exact, &|_| ())?.knee_commits_per_s;
    let plan = Plan { operations: vec![Operation::Cas], ..Plan::full() };
    let (mut held, mut logarithms, mut errors, mut widths) = ([0; 3], Vec::new(), 0.0, 0.0);
    for seed in 1..=count {
        let options = KneeOptions { first_seed: seed << 32, ..options(EVENTS) };
        let (knee, sure) = Remeasured::new(&store, plan.clone(), seed).knee(&options);
        let [low, high] = sure.interval_commits_per_s;
        // The random error alone, without the bounds of the effect time: the whole interval extends beyond the bounds
        // by the same factor.
        let commits = knee.knee_commits_per_s;
        let [earliest, latest] = sure.effect_time_commits_per_s.unwrap_or([commits; 2]);
        let chance = [commits * low / earliest, commits * high / latest];
        let simulation = knee.knee_interval_commits_per_s.unwrap_or_default();
        for (count, [low, high]) in held.iter_mut().zip([[low, high], chance, simulation]) {
            *count += u64::from((low..=high).contains(&truth));
        }
        logarithms.push((knee.knee_commits_per_s / truth).ln());
        errors += sure.sampling_relative_error / count as f64;
        widths += (high / low - 1.0) / count as f64;
        eprintln!(
            "{seed}: {:.3}, {low:.3} to {high:.3}, for {truth:.3}; {:?} {:?}",
            knee.knee_commits_per_s, sure.made_of, sure.effect_time_commits_per_s
        );
    }
    let mean = logarithms.iter().sum::<f64>() / count as f64;
    let squares: f64 = logarithms.iter().map(|one| (one - mean).powi(2)).sum();
    println!(
        "| {name} | {truth:.2} | {} of {count} | {} of {count} | {} of {count} | {:+.1} % | {:.1} % | {:.1} % | {:.0} \
         % |",
        held[0],
        held[1],
        held[2],
        100.0 * mean,
        100.0 * (squares / (count - 1) as f64).sqrt(),
        100.0 * errors,
        100.0 * widths
    );
    Ok(())
}
