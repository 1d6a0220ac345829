//! A subset of the published figures, on every change. `glidepath reproduce` checks all of them.

#![expect(clippy::unwrap_used, reason = "a test may fail so")]

use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;

use glidepath_lab::PlannedPoint;
use glidepath_lab::experiment::{Experiment, Overrides};
use glidepath_lab::reproduce::{Figure, Runs, Verdict, figures, judge};
use glidepath_lab::runner::{self, Ended, Running};
use glidepath_lab::summary::RunSummary;

/// Runs the selected points of an experiment with this number of seeds, and compares all figures that follow.
fn check(name: &str, seeds: usize, wanted: impl Fn(&PlannedPoint) -> bool, of: impl Fn(&Figure) -> bool) -> usize {
    let mut experiment = Experiment::load(name, &Overrides::default()).unwrap();
    experiment.points.retain(|point| wanted(point));
    experiment.seeds.truncate(seeds);
    let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let running = Running { threads, stop: &AtomicBool::new(false), progress: &mut |_| {} };
    let Ended::Complete(results) = runner::run(&experiment, None, running).unwrap() else {
        panic!("it was stopped");
    };
    let summary = RunSummary::of(&experiment, &results);
    let runs = Runs::from([(name.to_owned(), (experiment, summary))]);
    let figures = figures().unwrap();
    let of_this = figures.iter().filter(|figure| figure.experiment == name && of(figure));
    let judged: Vec<_> = of_this.map(|figure| (figure, judge(figure, &figures, &runs))).collect();
    let judged: Vec<_> = judged.into_iter().filter(|(_, judgement)| judgement.verdict != Verdict::Nothing).collect();
    for (Figure { id, published, .. }, judgement) in &judged {
        assert!(judgement.verdict == Verdict::Within, "{id}: {judgement:?}, published {published:?}");
    }
    judged.len()
}

fn has(point: &PlannedPoint, key: &str, values: &[&str]) -> bool {
    point.coordinates.iter().any(|(known, value)| known == key && values.contains(&value.as_str()))
}

/// Part 2's table 1a, the rows from 1 to 20 offered commits a second. (The others need all five seeds.)
#[test]
fn part_2_table_1a() {
    let loads = ["50ms", "100ms", "200ms", "300ms", "400ms", "500ms", "1000ms"];
    let metrics = ["success_percent", "p50_s", "p95_s", "mean_retries", "throughput_per_s"];
    let of = |figure: &Figure| figure.source == "part 2, table 1a" && metrics.contains(&figure.metric.as_str());
    let count = check("1a", 3, |point| has(point, "arrivals.scale", &loads), of);
    assert!(count >= 30, "{count} figures");
}

/// Part 3's knees of a single table, fast appends only, on all five stores.
#[test]
fn part_3_single_table_knees() {
    let wanted = |point: &PlannedPoint| {
        has(point, "tables.count", &["1"])
            && has(point, "transaction.fast_append", &["1.0"])
            && !has(point, "arrivals.scale", &["20ms"])
    };
    let of = |figure: &Figure| figure.source.contains("single-table") && figure.metric == "knee_throughput_per_s";
    let count = check("4c", 2, wanted, of);
    assert!(count >= 5, "{count} figures");
}

/// Part 3's success with the catalog as an object, 50 tables and 20 ms between arrivals, on all five stores: it depends
/// mostly on the time that conditional puts and reads take to the store
/// (docs/decisions/0007-way-of-a-conditional-put.md).
#[test]
fn part_3_success_where_the_catalog_binds() {
    let wanted = |point: &PlannedPoint| {
        has(point, "tables.count", &["50"])
            && has(point, "transaction.fast_append", &["1.0"])
            && has(point, "arrivals.scale", &["20ms"])
    };
    let of = |figure: &Figure| figure.metric == "run_fa_success_percent" && figure.published.is_some();
    let count = check("4c", 1, wanted, of);
    assert!(count >= 5, "{count} figures");
}

/// Part 3's heat map of success at a catalog latency of 10 ms, for one table and for many.
#[test]
fn part_3_success_by_table_count() {
    let wanted = |point: &PlannedPoint| {
        has(point, "catalog.latency", &["10ms"])
            && has(point, "tables.count", &["1", "50"])
            && has(point, "arrivals.scale", &["20ms"])
    };
    let of = |figure: &Figure| figure.metric == "run_fa_success_percent" && figure.published.is_some();
    let count = check("4a", 1, wanted, of);
    assert!(count >= 2, "{count} figures");
}
