//! Do commits conflict as often as queueing theory says? Settings with constant latencies, for which closed forms
//! exist.
//!
//! The basis of all of them: an attempt wins unless another commit takes effect between the effect of its last read of
//! the catalog and the effect of its put (`docs/protocols/catalog-file.md`, steps 3 and 4). Let a request to the
//! catalog take L, and preparing P. A request takes effect half-way (or at its end). So from the effect of the read
//! there are L / 2 (or 0) to its answer, then P, then L / 2 (or L) until the put takes effect: the *vulnerable time* is
//! tau = L + P in both cases. If the first attempt is against the start snapshot, the runtime R is added: tau = L + R +
//! P. With constant latencies tau is the same for all attempts. So two commits are at least tau apart, and a put wins
//! exactly if there was no commit within the tau before it.
//!
//! Seeds are fixed, and the tolerance is four standard errors: a random excess happens once in 16,000. Each test must
//! also reject the most similar other law.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use glidepath_lab::experiment::{Experiment, Overrides, Setting};
use glidepath_model::{Instant, Span};
use glidepath_point::{Point, SimulatedRun, simulate};
use glidepath_sim::{Mode, Profile};
use glidepath_workload::{End, Record};

/// The tolerance in standard errors.
const TOLERANCE: f64 = 4.0;

/// The time of a request to the catalog, and of the one request of preparing.
const CATALOG: Span = Span::from_millis(60);
const PREPARE: Span = Span::from_millis(40);

struct Scene {
    /// Arrivals per second.
    rate: f64,
    duration_s: f64,
    runtime: Span,
    /// Whether the first attempt is against the newest snapshot.
    refresh_first: bool,
    effect: &'static str,
    tables: u32,
    retries: u32,
}

const SCENE: Scene = Scene {
    rate: 1.0,
    duration_s: 1.0,
    runtime: Span::from_secs(1),
    refresh_first: true,
    effect: "half",
    tables: 1,
    retries: u32::MAX,
};

impl Scene {
    fn point(&self) -> Point {
        let settings = [
            format!("duration={:.0}ms", 1e3 * self.duration_s),
            "run_on=0s".to_owned(),
            format!("arrivals={{kind=\"exponential\",scale=\"{:.0}ns\"}}", 1e9 / self.rate),
            format!("catalog.latency={CATALOG}"),
            format!("catalog.effect={}", self.effect),
            format!("transaction.runtime={{kind=\"fixed\",scale=\"{}\"}}", self.runtime),
            format!("tables.count={}", self.tables),
            format!("commit.refresh_first={}", self.refresh_first),
            "commit.once=[]".to_owned(),
            "commit.prepare=[\"write-table-metadata\"]".to_owned(),
            "commit.refresh=[]".to_owned(),
            format!("retry={{retries={},time_limit=\"none\",catalog=\"immediate\",table=\"immediate\"}}", self.retries),
        ];
        let settings = settings.iter().map(|setting| Setting::parse(setting).unwrap()).collect();
        let overrides = Overrides { settings, ..Overrides::default() };
        let mut point = Experiment::of_preset("iceberg", &overrides).unwrap().points.remove(0).point;
        point.profile = Profile::constant(PREPARE);
        point
    }

    fn run(&self, seed: u64) -> SimulatedRun {
        simulate(&self.point(), seed, Mode::LocalClocks)
    }

    /// The vulnerable time, in seconds.
    fn tau(&self) -> f64 {
        let runtime = if self.refresh_first { Span::ZERO } else { self.runtime };
        (CATALOG + runtime + PREPARE).as_secs_f64()
    }
}

fn committed(outcome: &SimulatedRun) -> impl Iterator<Item = &Record> {
    outcome.records.iter().filter(|record| record.end == End::Committed)
}

/// Without retries: a counter with dead time. A put that loses changes nothing, so it does not prolong the dead time:
/// the *non-paralyzable* counter, whose rate is lambda / (1 + lambda tau) (Knoll, "Radiation Detection and
/// Measurement", chapter 4, VII). The times between commits are tau and an exponential wait, with mean tau + 1 / lambda
/// and deviation 1 / lambda; so the number in a long time T is normal with mean T / mean and variance T deviation^2 /
/// mean^3 (the central limit theorem of renewal theory, Cox, "Renewal Theory", 1962, 3.3). The other law, of the
/// *paralyzable* counter, is lambda exp(-lambda tau).
#[test]
fn commits_without_retries_are_counted_as_by_a_counter_with_dead_time() {
    let scenes = [
        Scene { retries: 0, ..SCENE },
        Scene { retries: 0, effect: "end", ..SCENE },
        Scene { retries: 0, refresh_first: false, runtime: Span::from_millis(100), ..SCENE },
    ];
    for scene in scenes {
        for load in [0.1, 0.5, 1.0, 3.0] {
            let tau = scene.tau();
            let rate = load / tau;
            let (mean, deviation) = (tau + 1.0 / rate, 1.0 / rate);
            let scene = Scene { rate, duration_s: 20_000.0 * mean, ..scene };
            let commits = committed(&scene.run(1)).count() as f64;
            // At the edges, before the first put and after the last, less than a second of many hours is lost.
            let time = scene.duration_s - scene.runtime.as_secs_f64();
            let error = (time * deviation * deviation / mean.powi(3)).sqrt();
            let z = (commits - time / mean) / error;
            assert!(z.abs() < TOLERANCE, "load {load}, effect {}: {commits} commits, z = {z:.1}", scene.effect);
            let paralyzable = (commits - time * rate * (-load).exp()) / error;
            assert!(load < 0.5 || paralyzable > 3.0 * TOLERANCE, "load {load}: cannot tell the two laws apart");
        }
    }
}

/// Many transactions with unlimited, immediate retries: the catalog is never idle, and commits follow each other at
/// intervals of the vulnerable time. This is not the time from read to read, 2 L + P, because others read while an
/// answer is on its way. More exactly: after a commit, the next winner is the first client that reads after it, and N
/// clients with random phases read every (2 L + P) / N on average; while few of them have committed, these waits are
/// exponential.
#[test]
fn commits_with_endless_retries_come_one_vulnerable_time_after_each_other() {
    let scene = Scene { rate: 300.0, duration_s: 30.0, runtime: Span::ZERO, refresh_first: false, ..SCENE };
    let (tau, from) = (scene.tau(), 20.0);
    let cycle = (CATALOG + CATALOG + PREPARE).as_secs_f64();
    let outcome = scene.run(1);
    let mut ends: Vec<f64> =
        committed(&outcome).map(|record| record.ended.since(Instant::ZERO).as_secs_f64()).collect();
    ends.sort_by(f64::total_cmp);
    let before = |time: f64| ends.iter().take_while(|end| **end < time).count();
    let (mut waits, mut expected, mut variance, mut count) = (0.0, 0.0, 0.0, 0_u32);
    for pair in ends.windows(2).filter(|pair| pair[0] > from) {
        let wait = pair[1] - pair[0] - tau;
        assert!(wait > -1e-9, "two commits within the vulnerable time: {pair:?}");
        let arrived = outcome.arrivals.iter().filter(|(at, _)| at.since(Instant::ZERO).as_secs_f64() < pair[0]).count();
        let mean = cycle / (arrived - before(pair[0])) as f64;
        (waits, expected, variance, count) = (waits + wait, expected + mean, variance + mean * mean, count + 1);
    }
    let z = (waits - expected) / variance.sqrt();
    assert!(z.abs() < TOLERANCE, "waits of {waits} s, expected {expected} s: z = {z:.1}");
    // The waits are so short that the rate is one per vulnerable time to a thousandth, 60 % more than one per read and
    // install.
    let rate = f64::from(count) / (f64::from(count) * tau + waits);
    assert!((rate * tau - 1.0).abs() < 1e-3 && count > 90, "{rate} commits/s, {count} of them");
    assert!(rate * cycle > 1.5, "{rate} commits/s cannot be told from {}", 1.0 / cycle);
}

/// Mean and standard error of a figure over runs with different seeds.
fn over_seeds(seeds: u64, figure: impl Fn(u64) -> f64) -> (f64, f64) {
    let figures: Vec<f64> = (1..=seeds).map(figure).collect();
    let count = figures.len() as f64;
    let mean = figures.iter().sum::<f64>() / count;
    let squares: f64 = figures.iter().map(|figure| (figure - mean).powi(2)).sum();
    (mean, (squares / (count - 1.0) / count).sqrt())
}

/// Every transaction commits eventually, at lambda a second, and no vulnerable time contains two commits. So the
/// probability that it contains one is the mean number in it, lambda tau; and arrivals see time averages (Wolff,
/// "Poisson Arrivals See Time Averages", Operations Research 30, 1982), because the time of a first attempt does not
/// affect earlier commits of others. At low load that is 1 - exp(-lambda tau), as if commits were a Poisson process; at
/// a load of 0.2 it no longer is.
#[test]
fn first_attempts_meet_a_commit_as_often_as_one_is_in_their_vulnerable_time() {
    for (load, transactions) in [(0.02, 5000.0), (0.05, 3000.0), (0.2, 3000.0)] {
        let rate = load / SCENE.tau();
        let scene = Scene { rate, duration_s: transactions / rate, ..SCENE };
        let (share, error) = over_seeds(24, |seed| {
            let outcome = scene.run(seed);
            let conflicts = committed(&outcome).filter(|record| record.retries > 0).count();
            conflicts as f64 / committed(&outcome).count() as f64
        });
        let z = (share - load) / error;
        assert!(z.abs() < TOLERANCE, "load {load}: {share}, z = {z:.1}");
        let poisson = (share - (1.0 - (-load).exp())) / error;
        assert!(
            (poisson.abs() < TOLERANCE) == (load < 0.1),
            "load {load}: {share}, z = {poisson:.1} to the Poisson form"
        );
        let twice = (share - 2.0 * load) / error;
        assert!(twice < -3.0 * TOLERANCE, "load {load}: cannot tell twice the vulnerable time");
    }
}

/// With k tables and uniform choice, the conflicting commit is to the same table with probability 1 / k. (A second
/// commit before the client reads again increases this by a hundredth at this load: a sixth of a standard error.)
#[test]
fn one_conflict_in_so_many_as_there_are_tables_is_with_the_same_table() {
    let (load, tables) = (0.02, 4);
    let rate = load / SCENE.tau();
    let scene = Scene { rate, duration_s: 100_000.0 / rate, tables, ..SCENE };
    let outcome = scene.run(1);
    let sum = |of: fn(&Record) -> u32| committed(&outcome).map(|record| f64::from(of(record))).sum::<f64>();
    let (same, other) = (sum(|record| record.table_conflicts), sum(|record| record.catalog_conflicts));
    let (count, share) = (same + other, 1.0 / f64::from(tables));
    let z = (same / count - share) / (share * (1.0 - share) / count).sqrt();
    assert!(count > 1500.0 && z.abs() < TOLERANCE, "{same} of {count}: z = {z:.1}");
}
