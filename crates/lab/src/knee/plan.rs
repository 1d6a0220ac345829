//! How many runs, of which length, decide whether a load holds?
//!
//! A load is judged by as many runs (one per seed) as are needed until a given number of *deciding* transactions
//! (validated overwrites if there are any, otherwise all) has ended. At high loads one run has more than enough and is
//! made shorter. But it must be so long that most long transactions have ended their work when its window begins, and,
//! once that is known, long compared with the time until a decision (`trial`).

use glidepath_model::Span;
use glidepath_point::Point;
use glidepath_workload::{Choice, Distribution, Shape, Step, TableMetadata};

/// The runs that judge one load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    /// The virtual time of each.
    pub(super) duration: Span,
    /// The number of runs.
    pub(super) runs: u64,
}

/// The most runs per load.
const MOST_RUNS: u64 = 256;

/// The most arrivals in half of a [fair](fair) run: each takes a few hundred bytes of memory.
const MOST_ARRIVALS: f64 = 300_000.0;

/// With more arrivals than this in a fair run, one run judges a load, and may be as short as half a fair run.
const LARGE: f64 = 60_000.0;

/// The most arrivals in a fair run at the first load. Loads that hold are cheap, so beginning too low costs little, and
/// beginning too high costs much.
const ARRIVALS_AT_FIRST: f64 = 20_000.0;

/// The fewest arrivals in a run.
const FEWEST_ARRIVALS: f64 = 8.0;

/// The shortest run, so that the start of the engine and of the first transactions does not matter.
const SHORTEST: Span = Span::from_secs(600);

/// The 90th percentile of the standard normal distribution.
const NINTH_DECILE_Z: f64 = 1.281_551_565_5;

impl Plan {
    /// Runs with at least this number of deciding transactions at this load, within [`MOST_RUNS`]: of at most the
    /// configured length, unless a [fair](fair) run or `least` is longer. With bursts, the window of each run holds a
    /// whole number of them, and several, even if that makes it longer.
    pub(super) fn new(point: &Point, load: f64, deciding: f64, fewest_runs: u64, least: Span) -> Self {
        let fair = fair(point);
        let arrivals_per_second = load * offered_per_load(point);
        let large = arrivals_per_second * fair.as_secs_f64() > LARGE;
        let (fewest_runs, fair) = if large {
            let enough = Span::from_secs((LARGE / arrivals_per_second).ceil() as u64);
            (1, enough.max(fair.half()))
        } else {
            (fewest_runs, fair)
        };
        let shortest = fair.max(least);
        let longest = point.config.duration.max(shortest);
        // The window is half of a run.
        let seconds = deciding / (arrivals_per_second * deciding_share(point) / 2.0);
        let runs = (seconds / longest.as_secs_f64()).ceil().clamp(fewest_runs as f64, MOST_RUNS as f64);
        let needed = Span::from_secs((seconds / runs).ceil() as u64);
        Self { duration: whole(point, needed.max(shortest).min(longest)), runs: runs as u64 }
    }
}

/// The fewest bursts in a window. (The first burst comes one interval after the start, which is before the window.)
const FEWEST_BURSTS: u64 = 3;

/// The shortest run of at least this length whose window (half of it) holds a whole number of bursts.
fn whole(point: &Point, duration: Span) -> Span {
    let Some(burst) = point.config.arrivals.burst else { return duration };
    let two = 2 * burst.every.as_nanos().max(1);
    let count = duration.as_nanos().div_ceil(two).max(FEWEST_BURSTS);
    Span::from_nanos(count.saturating_mul(two))
}

/// The longest run is the longest of these: the configured length, this multiple of a fair run, and half a day.
const MOST_FAIR: u64 = 8;

/// Half a day.
const LONG: Span = Span::from_secs(12 * 3600);

/// The longest run that may judge a load at which transactions take long to end.
pub(super) fn longest(point: &Point) -> Span {
    let fair = Span::from_nanos(fair(point).as_nanos().saturating_mul(MOST_FAIR));
    point.config.duration.max(fair).max(LONG)
}

/// The lowest and the highest load to try: transactions per `arrivals.scale`.
pub(super) fn limits(point: &Point) -> (f64, f64) {
    let seconds = whole(point, point.config.duration.max(fair(point))).as_secs_f64();
    let lowest = FEWEST_ARRIVALS / seconds;
    let most = MOST_ARRIVALS / whole(point, fair(point).half()).as_secs_f64() / offered_per_load(point);
    let floor = point.config.arrivals.floor.as_secs_f64();
    (lowest, if floor > 0.0 { most.min(1.0 / floor) } else { most })
}

/// What keeps a search from trying higher loads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ceiling {
    /// Arrivals are at least this far apart: `arrivals.floor`.
    Floor(Span),
    /// So many arrivals in a run: memory for more is not taken. The shorter the work of transactions, the shorter a run
    /// may be, and the higher the load.
    Arrivals {
        /// Their number.
        most: f64,
        /// The shortest run that is allowed at high loads.
        run: Span,
    },
}

/// What keeps a search at this point from trying higher loads.
#[must_use]
pub fn ceiling(point: &Point) -> Ceiling {
    let run = whole(point, fair(point).half());
    let most = MOST_ARRIVALS / run.as_secs_f64() / offered_per_load(point);
    match point.config.arrivals.floor {
        floor if floor > Span::ZERO && 1.0 / floor.as_secs_f64() < most => Ceiling::Floor(floor),
        _ => Ceiling::Arrivals { most: MOST_ARRIVALS, run },
    }
}

/// The default first load.
pub(super) fn first_load(point: &Point) -> f64 {
    let most = ARRIVALS_AT_FIRST / whole(point, fair(point)).as_secs_f64() / offered_per_load(point);
    first_guess(point).min(most)
}

/// A first guess of the knee: half of what the store could commit without conflicts, by the medians of its latencies. A
/// table takes one commit per preparation and install, the catalog one per read and install.
pub(super) fn first_guess(point: &Point) -> f64 {
    let config = &point.config;
    let (profile, tables) = (&point.profile, &config.tables);
    let put = |size: glidepath_model::ByteSize| {
        profile.put.median.as_secs_f64() + profile.put.per_mib.as_secs_f64() * size.as_mib_f64()
    };
    let get = profile.get.median.as_secs_f64();
    let step = |step: &Step| match step {
        Step::ReadTableMetadata | Step::WriteTableMetadata if tables.metadata == TableMetadata::Inlined => 0.0,
        Step::ReadTableMetadata | Step::ReadManifestList => get,
        Step::WriteTableMetadata => put(tables.metadata_size),
        Step::WriteManifestList => put(tables.manifest_list_size),
        Step::WriteManifestFile => put(tables.manifest_file_size),
    };
    let prepare: f64 = config.commit.prepare.iter().map(step).sum::<f64>() * f64::from(config.transaction.tables);
    let catalog = match (config.catalog.latency, point.store_of_catalog()) {
        (Some(latency), _) => 2.0 * latency.as_secs_f64(),
        (None, Some(store)) => store.get.median.as_secs_f64() + store.conditional_put.median.as_secs_f64(),
        (None, None) => 0.0,
    };
    let most_popular = match tables.choice {
        Choice::Uniform => 1.0 / f64::from(tables.count),
        Choice::Zipf(exponent) => 1.0 / (1..=tables.count).map(|rank| f64::from(rank).powf(-exponent)).sum::<f64>(),
    };
    let per_table = most_popular * f64::from(config.transaction.tables) * (prepare + catalog);
    0.5 / per_table.max(catalog).max(1e-6)
}

/// The share of deciding transactions.
pub(super) fn deciding_share(point: &Point) -> f64 {
    let overwrites = 1.0 - point.config.transaction.fast_append;
    if overwrites > 0.0 { overwrites } else { 1.0 }
}

/// The mean number of arrivals per `arrivals.scale`.
fn offered_per_load(point: &Point) -> f64 {
    let arrivals = &point.config.arrivals;
    let usual = match arrivals.kind {
        // The mean of a lognormal is its median times exp(sigma^2 / 2).
        Shape::Lognormal => (-arrivals.sigma * arrivals.sigma / 2.0).exp(),
        Shape::Fixed | Shape::Exponential | Shape::LognormalMean => 1.0,
    };
    let burst = arrivals.burst.map_or(1.0, |burst| {
        1.0 + (burst.factor - 1.0) * burst.lasts.as_secs_f64() / burst.every.as_secs_f64().max(1e-9)
    });
    usual * burst
}

/// The shortest run without a strong bias against long transactions: nine in ten of those that arrive first have ended
/// their work when the window begins, which is after a quarter of the run.
///
/// In a run shorter than the configured one, fewer long transactions are under way when the window begins, and fewer of
/// them end. Measured against runs of an hour, preset `iceberg`, `s3-express`, 10 tables, 90 % fast appends: the knee
/// in commits per second is 1.5 % lower with a fair run (26 min), 2.5 % lower with half of it (13 min), within an error
/// of about 1.5 %. Preset `published-2026-06`, `s3-express`, one table: 2.6 % lower with 30 min, 5 % with 20 min, 10 %
/// with 10 min; there a fair run is longer than the hour, and half of it is 41 min.
fn fair(point: &Point) -> Span {
    let transaction = &point.config.transaction;
    let deciles = transaction.kinds().map(|(kind, _)| ninth_decile(&transaction.runtime_of(kind)));
    let longest = deciles.max().unwrap_or(Span::ZERO);
    Span::from_secs_f64(4.0 * longest.as_secs_f64()).max(SHORTEST)
}

/// The time that nine in ten work at most.
fn ninth_decile(runtime: &Distribution) -> Span {
    let sigma = runtime.sigma;
    let factor = match runtime.kind {
        Shape::Fixed => 1.0,
        Shape::Exponential => std::f64::consts::LN_10,
        Shape::Lognormal => (NINTH_DECILE_Z * sigma).exp(),
        Shape::LognormalMean => (NINTH_DECILE_Z * sigma - sigma * sigma / 2.0).exp(),
    };
    Span::from_secs_f64(runtime.scale.as_secs_f64() * factor).max(runtime.floor)
}
