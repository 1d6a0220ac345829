//! How often does the interval of a knee contain the true knee? Searches each knee over disjoint sets of seeds, and
//! once with so much work that its own error is small. Prints a table for `docs/model.md`.
//!
//! ```sh
//! cargo run --release -p glidepath-lab --example knee_coverage [SETS [MILLIONS OF EVENTS FOR THE TRUE KNEE]]
//! ```

use std::error::Error;
use std::num::NonZeroUsize;

use glidepath_lab::experiment::{Experiment, Overrides, Setting};
use glidepath_lab::knee::{Knee, KneeOptions, find};

const CASES: [(&str, &str); 6] = [
    ("s3-standard", "1.0"),
    ("s3-standard", "0.9"),
    ("azure-standard-2025-06", "1.0"),
    ("azure-standard-2025-06", "0.9"),
    ("gcs-2025-06", "1.0"),
    ("gcs-2025-06", "0.9"),
];

/// The work of ten seconds on two processors; a search stops earlier if its interval is narrow enough.
const EVENTS: u64 = 30_000_000;

/// More seeds than any search uses.
const SEEDS_OF_A_SET: u64 = 100_000;

fn main() -> Result<(), Box<dyn Error>> {
    let argument = |n: usize, usual: u64| std::env::args().nth(n).map_or(Ok(usual), |text| text.parse());
    let (sets, millions) = (argument(1, 40)?, argument(2, 400)?);
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    println!(
        "| store, 10 tables | fast appends | true knee | held by | mean of the knees | deviation | mean standard error \
         |"
    );
    println!("|---|--:|--:|--:|--:|--:|--:|");
    for (provider, share) in CASES {
        let settings =
            [format!("provider={provider}"), format!("transaction.fast_append={share}"), "tables.count=10".to_owned()];
        let settings = settings.iter().map(|setting| Setting::parse(setting)).collect::<Result<_, _>>()?;
        let experiment = Experiment::of_preset("iceberg", &Overrides { settings, ..Overrides::default() })?;
        let point = &experiment.points.first().ok_or("a preset without a point")?.point;
        let by = |first_seed: u64, options: KneeOptions| {
            find(point, &KneeOptions { first_seed, threads, ..options }, &|_| ())
        };
        let exact =
            KneeOptions { events: millions * 1_000_000, tolerance: 0.005, within: 0.003, ..KneeOptions::default() };
        let truth = by(1 << 40, exact)?.knee_commits_per_s;
        let usual = || KneeOptions { events: EVENTS, ..KneeOptions::default() };
        let knees = (1..=sets).map(|set| by(set * SEEDS_OF_A_SET, usual())).collect::<Result<Vec<Knee>, _>>()?;
        let holds =
            |knee: &&Knee| knee.knee_interval_commits_per_s.is_some_and(|[low, high]| (low..=high).contains(&truth));
        let held = knees.iter().filter(holds).count();
        let mean = |of: &dyn Fn(&Knee) -> f64| knees.iter().map(of).sum::<f64>() / knees.len() as f64;
        let average = mean(&|knee| knee.knee_commits_per_s);
        let deviation = mean(&|knee| (knee.knee_commits_per_s - average).powi(2)).sqrt();
        let error = mean(&|knee| knee.knee_relative_error.unwrap_or(f64::NAN));
        println!(
            "| {provider} | {share} | {truth:.3} | {held} of {sets} | {:+.1} % | {:.1} % | {:.1} % |",
            100.0 * (average / truth - 1.0),
            100.0 * deviation / average,
            100.0 * error
        );
    }
    Ok(())
}
