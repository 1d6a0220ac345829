//! How long do commits take at the load that was found?
//!
//! Loads are judged by runs that end with their duration, for two reasons. The work goes into many transactions rather than into
//! the wait for the last few. And the two figures that are compared belong together: a run starts empty, so commits arrive at the
//! catalog less often than transactions arrive by the share that works longer than the run has lasted; the commits of the
//! window that are left out at the end are, on average, as many. What is counted is the rate at which commits really landed
//! in the window. (Runs that went on would count more commits than their success was judged under.)
//!
//! Latencies cannot be had so: those that work longest have the most history to read. They are taken from runs of their own, at
//! that load, which go on as `run_on` says.

use std::num::NonZeroUsize;

use glidepath_model::Span;
use glidepath_sim::Mode;

use super::KneeOptions;
use super::hunt::{Found, as_one};
use crate::config::Point;
use crate::metrics::Metrics;
use crate::simulate::{Outcome, simulate};

/// The share of the work that may go into it.
const SHARE: f64 = 0.1;

/// More runs than this are not needed.
const MOST_RUNS: u64 = 8;

/// What was simulated for it.
pub(super) struct Portrait {
    /// The numbers of all its runs as one.
    pub(super) metrics: Metrics,
    /// Events, beyond those of the search.
    pub(super) events: u64,
    /// Virtual time, beyond that of the search.
    pub(super) seconds: f64,
}

/// Of the load that was found for this point.
pub(super) fn portrait(point: &Point, found: &Found, options: &KneeOptions) -> Portrait {
    let judged = || Portrait { metrics: Metrics::of(&found.point, &found.outcome), events: 0, seconds: 0.0 };
    if point.config.run_on == Span::ZERO {
        return judged();
    }
    let (config, runs) = plan(point, found, options);
    let Ok(point) = Point::new(config, point.profile.clone()) else { return judged() };
    let seeds: Vec<u64> = match &options.seeds {
        Some(seeds) => seeds.clone(),
        None => (options.first_seed..).take(runs as usize).collect(),
    };
    let outcomes = simulate_all(&point, &seeds, options.threads);
    let seconds = outcomes.iter().map(|outcome| outcome.ended.as_secs_f64()).sum();
    let outcome = as_one(outcomes.into_iter());
    Portrait { metrics: Metrics::of(&point, &outcome), events: outcome.counts.events, seconds }
}

/// Runs of the configured length, or, where that would be too much work, of a shorter one; and how many.
fn plan(point: &Point, found: &Found, options: &KneeOptions) -> (crate::config::Config, u64) {
    let (given, run_on) = (options.seeds.is_some(), point.config.run_on);
    let judged = &found.point.config;
    let mut config = judged.clone();
    config.run_on = run_on;
    let judged_s = judged.duration.as_secs_f64() * found.seeds.len() as f64;
    let events_per_s = found.outcome.counts.events as f64 / judged_s;
    let affordable_s = SHARE * options.events as f64 / events_per_s.max(f64::MIN_POSITIVE);
    if config.arrivals.burst.is_none() && !given {
        let whole_s = (point.config.duration + run_on).as_secs_f64();
        let share = (affordable_s / whole_s).min(1.0);
        let scaled = |span: Span| Span::from_secs_f64((span.as_secs_f64() * share).ceil());
        config.duration = scaled(point.config.duration).max(judged.duration.min(point.config.duration));
        config.run_on = scaled(run_on);
    }
    let runs = affordable_s / (config.duration + config.run_on).as_secs_f64();
    (config, (runs as u64).clamp(1, MOST_RUNS))
}

/// In the order of the seeds, however many threads there are.
fn simulate_all(point: &Point, seeds: &[u64], threads: NonZeroUsize) -> Vec<Outcome> {
    let each = seeds.len().div_ceil(threads.get()).max(1);
    let of = |seeds: &[u64]| -> Vec<Outcome> {
        seeds.iter().map(|seed| simulate(point, *seed, Mode::LocalClocks)).collect()
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = seeds.chunks(each).map(|seeds| scope.spawn(move || of(seeds))).collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap_or_else(|_| panic!("a run failed"))).collect()
    })
}
