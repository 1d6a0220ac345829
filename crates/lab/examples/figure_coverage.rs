//! How often do the intervals of success, throughput and P99 latency contain the value of a long run? Simulates each
//! store for many single hours and for many runs of eight hours, with disjoint seeds. Prints a table for
//! `docs/model.md`. (Knees: see `knee_coverage`.)
//!
//! ```sh
//! cargo run --release -p glidepath-lab --example figure_coverage [HOURS]
//! ```

use std::error::Error;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;

use glidepath_lab::experiment::{Experiment, Overrides, Setting};
use glidepath_lab::runner::{Ended, Running, run};
use glidepath_lab::{GroupSummary, Interval, Metrics, PointSummary};

/// Loads at which success is a little above 95 %.
const CASES: [(&str, &str); 3] =
    [("s3-standard", "200ms"), ("azure-standard-2025-06", "222ms"), ("gcs-2025-06", "1280ms")];

/// Of eight hours each.
const LONG_RUNS: u64 = 20;

/// Seeds of no single hour.
const FIRST_OF_THE_LONG: u64 = 1 << 40;

type Figure = (&'static str, fn(&GroupSummary) -> Option<(f64, Option<Interval>)>);

const FIGURES: [Figure; 3] = [
    ("success", |group| Some((group.success?.mean, group.success_interval))),
    ("commits/s", |group| Some((group.throughput_per_s.mean, group.throughput_interval_per_s))),
    ("P99 (s)", |group| Some((group.latency_p99_s?.mean, group.latency_p99_interval_s))),
];

fn main() -> Result<(), Box<dyn Error>> {
    let hours: u64 = std::env::args().nth(1).map_or(Ok(40), |hours| hours.parse())?;
    println!("| store, time between arrivals | transactions | figure | eight hours | mean of the hours | held by |");
    println!("|---|---|---|--:|--:|--:|");
    for (provider, between) in CASES {
        let all = runs(provider, between, "1h", (1..=hours).collect())?;
        let hours: Vec<PointSummary> =
            all.iter().map(|one| PointSummary::of(Vec::new(), std::slice::from_ref(one))).collect();
        let long = FIRST_OF_THE_LONG..FIRST_OF_THE_LONG + LONG_RUNS;
        let long = PointSummary::of(Vec::new(), &runs(provider, between, "8h", long.collect())?);
        type Kind = (&'static str, fn(&PointSummary) -> Option<&GroupSummary>);
        let kinds: [Kind; 2] =
            [("all", |point| Some(&point.all)), ("validated overwrites", |point| point.validated_overwrite.as_ref())];
        for ((kind, of), (name, figure)) in
            kinds.iter().flat_map(|kind| FIGURES.iter().map(move |figure| (kind, figure)))
        {
            let truth = of(&long).and_then(figure).ok_or("nothing commits in eight hours")?.0;
            let found: Vec<_> = hours.iter().filter_map(|hour| of(hour).and_then(figure)).collect();
            let intervals: Vec<Interval> = found.iter().filter_map(|(_, interval)| *interval).collect();
            let held = intervals.iter().filter(|[low, high]| (low..=high).contains(&&truth)).count();
            let mean = found.iter().map(|(value, _)| value).sum::<f64>() / found.len() as f64;
            println!(
                "| {provider}, {between} | {kind} | {name} | {truth:.4} | {mean:.4} | {held} of {} |",
                intervals.len()
            );
        }
    }
    Ok(())
}

/// One for each seed.
fn runs(provider: &str, between: &str, duration: &str, seeds: Vec<u64>) -> Result<Vec<Metrics>, Box<dyn Error>> {
    let settings = [
        format!("provider={provider}"),
        format!("arrivals.scale={between}"),
        format!("duration={duration}"),
        "tables.count=10".to_owned(),
        "transaction.fast_append=0.9".to_owned(),
    ];
    let settings = settings.iter().map(|setting| Setting::parse(setting)).collect::<Result<_, _>>()?;
    let mut experiment = Experiment::of_preset("iceberg", &Overrides { settings, ..Overrides::default() })?;
    experiment.seeds = seeds;
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let running = Running { threads, stop: &AtomicBool::new(false), progress: &mut |_| () };
    match run(&experiment, None, running)? {
        Ended::Complete(results) => Ok(results.points().flatten().cloned().collect()),
        Ended::Stopped(_) => Err("it was stopped".into()),
    }
}
