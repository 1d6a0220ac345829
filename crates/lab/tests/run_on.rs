//! Does a run with `run_on` count all transactions of its window, and change nothing else? And do intervals contain the
//! value of a long run?

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use glidepath_lab::experiment::{Experiment, Overrides, Setting};
use glidepath_lab::{GroupSummary, Metrics, PointSummary};
use glidepath_model::{Instant, Span};
use glidepath_point::{Point, SimulatedRun, simulate};
use glidepath_sim::Mode;

fn point(settings: &[&str]) -> Point {
    let settings = settings.iter().map(|setting| Setting::parse(setting).unwrap()).collect();
    let overrides = Overrides { settings, ..Overrides::default() };
    Experiment::of_preset("iceberg", &overrides).unwrap().points.remove(0).point
}

/// Ten minutes of transactions that work for seconds, a few of them for minutes.
const SHORT: [&str; 6] = [
    "provider=s3-express",
    "arrivals.scale=100ms",
    "tables.count=5",
    "transaction.fast_append=0.5",
    "duration=10min",
    "transaction.runtime={kind=\"lognormal-mean\",scale=\"10s\",sigma=1.5}",
];

fn short(run_on: &str, mode: Mode) -> SimulatedRun {
    simulate(&point(&[&SHORT[..], &[run_on]].concat()), 7, mode)
}

#[test]
fn a_run_goes_on_until_all_of_its_window_have_ended_and_no_longer() {
    let end = Instant::ZERO + Span::from_secs(600);
    let outcome = short("run_on=2h", Mode::LocalClocks);
    let metrics = Metrics::of(&point(&SHORT), &outcome);
    assert_eq!(metrics.all.not_ended(), Some(0.0));
    let window = Instant::ZERO + Span::from_secs(150)..Instant::ZERO + Span::from_secs(450);
    let of_window = outcome.records.iter().filter(|record| window.contains(&record.arrived));
    let last = of_window.map(|record| record.ended).max().unwrap();
    assert!(last > end && outcome.ended == last, "{last:?} {:?}", outcome.ended);
    assert!(outcome.arrivals.iter().all(|(at, _)| *at <= end), "later arrivals are not counted");
    assert!(outcome.records.iter().all(|record| record.arrived <= end && record.ended <= last));
    assert_eq!(outcome.records, short("run_on=2h", Mode::EveryOperation).records);
}

#[test]
fn until_its_duration_a_run_is_the_same_however_long_it_goes_on() {
    let end = Instant::ZERO + Span::from_secs(600);
    let published = short("run_on=0s", Mode::LocalClocks);
    assert_eq!(published.ended, end);
    for run_on in ["run_on=20s", "run_on=2h"] {
        let mut longer = short(run_on, Mode::LocalClocks);
        longer.records.retain(|record| record.ended <= end);
        assert_eq!(longer.records, published.records);
        assert_eq!(longer.arrivals, published.arrivals);
    }
}

#[test]
fn what_reaches_the_limit_has_not_ended() {
    let outcome = short("run_on=20s", Mode::LocalClocks);
    assert_eq!(outcome.ended, Instant::ZERO + Span::from_secs(620));
    let not_ended = Metrics::of(&point(&SHORT), &outcome).all.not_ended().unwrap();
    assert!(not_ended > 0.0 && not_ended < 0.02, "{not_ended}");
}

fn summary(point: &Point, seeds: std::ops::Range<u64>) -> PointSummary {
    let runs: Vec<Metrics> = seeds.map(|seed| Metrics::of(point, &simulate(point, seed, Mode::LocalClocks))).collect();
    PointSummary::of(Vec::new(), &runs)
}

/// Transactions that work longest have the most history to read. Without them an hour gives 5.7 s; eight hours give 9.
#[test]
fn the_tail_of_an_hour_is_that_of_eight() {
    let of = |settings: &[&str], seeds| {
        let usual = ["provider=s3-standard", "arrivals.scale=200ms", "tables.count=10", "transaction.fast_append=0.9"];
        summary(&point(&[&usual[..], settings].concat()), seeds).validated_overwrite.unwrap()
    };
    let hour = of(&[], 1..6);
    let published = of(&["run_on=0s"], 1..6);
    let eight = of(&["duration=8h"], 100..103);
    let p99 = |group: &GroupSummary| (group.latency_p99_s.unwrap().mean, group.latency_p99_interval_s.unwrap());
    let ((hour, near), (cut, far), (eight, long)) = (p99(&hour), p99(&published), p99(&eight));
    println!(
        "P99: an hour {hour:.2} s {near:.2?}, published {cut:.2} s {far:.2?}, eight hours {eight:.2} s {long:.2?}"
    );
    assert!(near[0] <= long[1] && long[0] <= near[1], "{near:?} {long:?}");
    assert!(far[1] < long[0], "{far:?} {long:?}");
}

/// Figures of ten minutes, forty times, compared with those of forty hours. (The example `figure_coverage` does it for
/// three stores.)
#[test]
fn intervals_hold_what_a_long_run_says() {
    let one = point(&[&SHORT[..], &["arrivals.scale=70ms"]].concat());
    let long = point(&[&SHORT[..], &["arrivals.scale=70ms", "duration=5h"]].concat());
    let truth = summary(&long, 1000..1004).all;
    let sets: Vec<GroupSummary> = (1..41).map(|seed| summary(&one, seed..seed + 1).all).collect();
    let held = |name: &str, value: f64, of: &dyn Fn(&GroupSummary) -> Option<[f64; 2]>| {
        let held = sets.iter().filter(|set| of(set).is_some_and(|[low, high]| (low..=high).contains(&value))).count();
        println!("{name}: {held} of 40 hold {value:.4}");
        assert!(held >= 34, "{name}: {held} of 40 hold {value}");
    };
    held("success", truth.success.unwrap().mean, &|set| set.success_interval);
    held("throughput", truth.throughput_per_s.mean, &|set| set.throughput_interval_per_s);
    held("P99", truth.latency_p99_s.unwrap().mean, &|set| set.latency_p99_interval_s);
}
