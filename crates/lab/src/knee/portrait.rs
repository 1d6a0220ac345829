//! Which latencies do commits have at the load that was found?
//!
//! Loads are judged by the transactions whose work ended in the window, and by the commits that landed in it, so that
//! success and rate are consistent for transactions of any length. (A run starts empty: fewer commits land than
//! transactions arrive, by the share that works longer than the run so far.)
//!
//! Latencies would be biased, because the transactions that work longest have the most history to read. They come from
//! separate runs at that load, which continue as `run_on` says.

use glidepath_model::Span;
use glidepath_point::{Config, Point, SimulatedRun, Underway, simulate_while};
use glidepath_run::parallel;
use glidepath_sim::Mode;

use super::KneeOptions;
use super::outcome::KneeSearch;
use super::queue::Meter;
use super::trial::as_one;
use crate::metrics::Metrics;

/// The share of the budget for it.
const SHARE: f64 = 0.1;

/// The most runs.
const MOST_RUNS: u64 = 8;

/// Its results and its work.
pub(super) struct Portrait {
    /// The numbers of all its runs together.
    pub(super) metrics: Metrics,
    /// Events, beyond those of the search.
    pub(super) events: u64,
    /// Virtual time, beyond that of the search.
    pub(super) seconds: f64,
}

/// The share of the budget that a search must leave for it.
pub(super) fn share(point: &Point) -> f64 {
    if point.config.run_on == Span::ZERO { 0.0 } else { SHARE }
}

/// The portrait of the load that was found for this point. If the budget does not suffice, the runs that judged the
/// load are used: then latencies of transactions that had not ended are missing.
pub(super) fn portrait(point: &Point, found: &KneeSearch, options: &KneeOptions, meter: &Meter<'_>) -> Portrait {
    let judged = |events| Portrait { metrics: Metrics::judged(&found.point, &found.outcome.0), events, seconds: 0.0 };
    if share(point) == 0.0 || found.outcome.1 == 0 {
        return judged(0);
    }
    let (config, runs) = plan(point, found, options);
    let Ok(point) = point.with(config) else { return judged(0) };
    let seeds: Vec<u64> = match &options.seeds {
        Some(seeds) => seeds.clone(),
        None => (options.first_seed..).take(runs as usize).collect(),
    };
    let left = options.events.saturating_sub(found.work.events).min((2.0 * SHARE * options.events as f64) as u64);
    let runs = simulate_all(&point, &seeds, options, left / seeds.len().max(1) as u64, meter);
    let events = runs.iter().map(|(outcome, _)| outcome.counts.events).sum();
    if runs.iter().any(|(_, whole)| !whole) {
        return judged(events);
    }
    let seconds = runs.iter().map(|(outcome, _)| outcome.ended.as_secs_f64()).sum();
    let outcome = as_one(runs.into_iter().map(|(outcome, _)| outcome));
    Portrait { metrics: Metrics::of(&point, &outcome), events, seconds }
}

/// The length and number of runs: the configured length, or a shorter one if that is too much work.
fn plan(point: &Point, found: &KneeSearch, options: &KneeOptions) -> (Config, u64) {
    let (given, run_on) = (options.seeds.is_some(), point.config.run_on);
    let judged = &found.point.config;
    let mut config = judged.clone();
    config.run_on = run_on;
    let (outcome, kept) = &found.outcome;
    let events_per_s = outcome.counts.events as f64 / (judged.duration.as_secs_f64() * *kept as f64);
    let affordable_s = SHARE * options.events as f64 / events_per_s.max(f64::MIN_POSITIVE);
    if config.arrivals.burst.is_none() && !given {
        let longest = point.config.duration.max(judged.duration);
        let whole_s = (longest + run_on).as_secs_f64();
        let share = (affordable_s / whole_s).min(1.0);
        let scaled = |span: Span| Span::from_secs_f64((span.as_secs_f64() * share).ceil());
        config.duration = scaled(longest).max(judged.duration.min(longest));
        config.run_on = scaled(run_on);
    }
    let runs = affordable_s / (config.duration + config.run_on).as_secs_f64();
    (config, (runs as u64).clamp(1, MOST_RUNS))
}

/// The runs in the order of the seeds, for any number of threads; each complete, or stopped after a number of events.
fn simulate_all(
    point: &Point,
    seeds: &[u64],
    options: &KneeOptions,
    most_events: u64,
    meter: &Meter<'_>,
) -> Vec<(SimulatedRun, bool)> {
    let run = |seed: &u64| {
        let (mut told, mut whole) = (0, true);
        let outcome = simulate_while(point, *seed, Mode::LocalClocks, &mut |underway: Underway| {
            whole = underway.events <= most_events;
            if underway.events - told >= super::queue::EVENTS_BETWEEN_CALLS {
                meter.add(underway.events - told);
                told = underway.events;
            }
            whole
        });
        meter.add(outcome.counts.events - told);
        (outcome, whole)
    };
    parallel::map_all(seeds, options.threads, run)
}
