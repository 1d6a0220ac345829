//! What is the highest commit rate that this catalog sustains, what binds there, and which one change would raise it
//! most?
//!
//! The *knee* is the highest load at which enough transactions succeed (95 %, of validated overwrites where there are
//! any). [`find`] bisects for it; [`answer`] also explains it. Nothing is estimated from formulas but the first guess:
//! what binds is what raises the knee when it costs nothing, and what a change buys is the knee with that change, each
//! found by simulating.
//!
//! An answer depends on the question and on the work allowed for it, counted in simulated events. It does not depend on
//! the machine, its load or the number of threads.
//!
//! Start reading at `search` (the bisection), then `plan` (how many runs a load needs), `hunt` (one search) and `queue`
//! (many at once); `crossing` says where the knee lies between two loads and how sure that is, `found` is what a knee consists of, `bottleneck` and `change` are what is varied.

mod bottleneck;
mod change;
mod crossing;
mod found;
mod hunt;
mod plan;
mod queue;
mod search;
#[cfg(test)]
mod tests;

use std::num::NonZeroUsize;

use glidepath_model::Span;
use glidepath_sim::Profile;
use glidepath_workload::SpecError;
use serde::Serialize;

pub use bottleneck::{Bottleneck, Measured, Relief, Resource};
pub use found::{Bound, KindAtKnee, Knee};

use crate::config::{Point, burst_misfit};
use hunt::{Found, Hunt, Round, Task};

/// How to look for a knee.
#[derive(Clone, Debug)]
pub struct KneeOptions {
    /// The deciding success at which a load holds: more than 0, at most 1.
    pub threshold: f64,
    /// How far the lowest load that fails may lie above the highest that holds, as a share of it: 0.001 to 1.
    pub tolerance: f64,
    /// If given, the success that decides is that of the worst stretch of this length in the cycle from burst to burst,
    /// over all bursts; else that of all who arrived in the window.
    pub worst: Option<Span>,
    /// If given, loads are judged by one run of the configured length for each. If not, by as many as it takes, with the
    /// seeds from `first_seed` on.
    pub seeds: Option<Vec<u64>>,
    /// The first of the seeds that are used where none are given.
    pub first_seed: u64,
    /// Runs made at the same time. The answer does not depend on it.
    pub threads: NonZeroUsize,
    /// The work allowed, in simulated events; a processor does one or two million a second. With less, fewer transactions
    /// judge each load. (What the first search needs to find any load that holds is not limited by it.)
    pub events: u64,
}

impl Default for KneeOptions {
    fn default() -> Self {
        Self {
            threshold: 0.95,
            tolerance: 0.02,
            worst: None,
            seeds: None,
            first_seed: 1,
            threads: NonZeroUsize::MIN,
            events: 20_000_000,
        }
    }
}

/// Why there is no knee.
#[derive(Debug, thiserror::Error)]
pub enum KneeError {
    /// A number out of its range.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// There is no transaction to judge by.
    #[error(
        "no {kind} ended within a run of {duration}: a longer duration, or a shorter transaction.runtime, would do"
    )]
    NothingEnds {
        /// Which transactions decide.
        kind: &'static str,
        /// How long the runs were.
        duration: Span,
    },
    /// No load was tried.
    #[error("no load could be tried")]
    NothingTried,
}

/// How far the work is, for those who wait.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Progress {
    /// Searches that have ended.
    pub searches_done: usize,
    /// Searches of this stage.
    pub searches: usize,
    /// Virtual time simulated in this stage.
    pub simulated_s: f64,
    /// Events simulated in this stage.
    pub events: u64,
}

/// A store that the tables could be kept in.
#[derive(Clone, Debug, PartialEq)]
pub struct Provider {
    /// As `provider` in a configuration names it.
    pub name: String,
    /// What it costs.
    pub profile: Profile,
}

/// All that can be said about a knee.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The knee itself.
    #[serde(flatten)]
    pub knee: Knee,
    /// What binds there; absent if there is no knee to explain.
    pub bottleneck: Option<Bottleneck>,
    /// Changes, those that help most first. Empty if none was asked for.
    pub what_ifs: Vec<WhatIf>,
}

/// What one change would make of the knee.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhatIf {
    /// The change, for people.
    pub change: String,
    /// The same as settings, each `field = value` as in an experiment file.
    pub settings: Vec<String>,
    /// The knee with it. It is searched with fewer transactions and to a coarser resolution than the knee itself.
    pub knee_commits_per_s: f64,
    /// As often as without it.
    pub factor: f64,
    /// Holds that factor with 95 % confidence: from the errors of both knees, taken as independent, which is too wide where
    /// the same luck moves both. Absent where that cannot be told.
    pub factor_interval: Option<[f64; 2]>,
    /// One standard error of the knee with it, as a share of it; absent where that cannot be told.
    pub knee_relative_error: Option<f64>,
    /// Whether the knee may be higher still: no load that was tried failed.
    pub at_least: bool,
    /// How far apart the loads are between which the knee with this change lies; absent if it is known from one side
    /// only.
    pub resolution: Option<f64>,
    /// The transactions that decided.
    pub deciding_transactions: u64,
}

/// The share of the work that should go into the knee itself; what is left is divided evenly among the variants.
const KNEE_SHARE: f64 = 0.35;

/// The share that it may take where even the shortest runs are long.
const KNEE_MOST: f64 = 0.7;

/// How near variants are searched.
const VARIANT_TOLERANCE: f64 = 0.05;

/// The knee of a point. Its `arrivals.scale` is ignored.
///
/// # Errors
/// An option out of its range; a point in which nothing ends.
pub fn find(point: &Point, options: &KneeOptions, watch: &(dyn Fn(Progress) + Sync)) -> Result<Knee, KneeError> {
    check(point, options)?;
    let found = hunt_knee(point, options, watch)?;
    Ok(Knee::of(&found, options))
}

/// The knee of a point, and what binds it; if there are `providers`, also what each change would buy, one of these
/// among them.
///
/// # Errors
/// As [`find`]. A variant that cannot be, or in which nothing ends, is left out.
pub fn answer(
    point: &Point,
    options: &KneeOptions,
    providers: Option<&[Provider]>,
    watch: &(dyn Fn(Progress) + Sync),
) -> Result<Answer, KneeError> {
    check(point, options)?;
    let found = hunt_knee(point, options, watch)?;
    let knee = Knee::of(&found, options);
    if knee.bound == Bound::NothingHolds {
        return Ok(Answer { knee, bottleneck: None, what_ifs: Vec::new() });
    }
    let reliefs = bottleneck::reliefs(point);
    let changes = providers.map_or_else(Vec::new, |providers| change::changes(point, providers));
    let points = reliefs.iter().map(|(_, point)| point).chain(changes.iter().map(|change| &change.point));
    let count = reliefs.len() + changes.len();
    let events = options.events.saturating_sub(found.work.events) / count.max(1) as u64;
    let guess = plan::first_guess(&found.point);
    let hunts = points.enumerate().map(|(n, point)| {
        let highest = if n < reliefs.len() { bottleneck::MOST * found.load } else { f64::INFINITY };
        let start = found.load * plan::first_guess(point) / guess;
        Hunt::new(point, variant_task(options, start, highest, events))
    });
    let mut results = queue::run_all(hunts.collect(), options.threads, watch);
    let what_ifs = results.split_off(reliefs.len());
    let reliefs = reliefs.into_iter().map(|(resource, _)| resource).zip(results);
    let bottleneck = Some(Bottleneck::of(&found, &knee, reliefs.collect()));
    let what_if = |(change, result): (change::Change, Result<Found, KneeError>)| {
        let with = result.ok()?;
        Some(WhatIf {
            change: change.words,
            settings: change.settings,
            knee_commits_per_s: with.commits_per_s,
            factor: with.commits_per_s / knee.knee_commits_per_s,
            factor_interval: factor_interval(&found, &with),
            knee_relative_error: with.crossing.and_then(|crossing| crossing.relative_error),
            at_least: with.bound.is_lower(),
            resolution: with.resolution,
            deciding_transactions: with.deciding,
        })
    };
    let mut what_ifs: Vec<WhatIf> = changes.into_iter().zip(what_ifs).filter_map(what_if).collect();
    what_ifs.sort_by(|a, b| b.factor.total_cmp(&a.factor));
    Ok(Answer { knee, bottleneck, what_ifs })
}

/// Holds the ratio of two knees with 95 % confidence: by their relative errors, and the larger of their reaches.
fn factor_interval(without: &Found, with: &Found) -> Option<[f64; 2]> {
    let [a, b] = [without, with].map(|found| found.crossing.filter(|_| found.bound == Bound::Found));
    let (a, b) = (a?, b?);
    let reach = a.reach.max(b.reach) * a.relative_error?.hypot(b.relative_error?);
    let factor = with.commits_per_s / without.commits_per_s;
    // Of a ratio the logarithm is nearer to normal.
    Some([factor * (-reach).exp(), factor * reach.exp()])
}

fn hunt_knee(point: &Point, options: &KneeOptions, watch: &(dyn Fn(Progress) + Sync)) -> Result<Found, KneeError> {
    let task = Task {
        threshold: options.threshold,
        worst: options.worst,
        start: plan::first_load(point),
        highest: f64::INFINITY,
        rounds: [
            Round { deciding: 400.0, fewest_runs: 2, step: 2.0, tolerance: 0.15_f64.max(options.tolerance) },
            Round {
                deciding: 30_000.0,
                fewest_runs: 2,
                step: last_step(options.tolerance),
                tolerance: options.tolerance,
            },
        ],
        seeds: options.seeds.clone(),
        first_seed: options.first_seed,
        keep: true,
        events: (options.events as f64 * KNEE_SHARE) as u64,
        most_events: (options.events as f64 * KNEE_MOST) as u64,
    };
    let found = queue::run_all(vec![Hunt::new(point, task)], options.threads, watch).pop();
    found.unwrap_or(Err(KneeError::NothingTried))
}

/// A step that, once halved, is as fine as the tolerance asks.
fn last_step(tolerance: f64) -> f64 {
    (1.0 + tolerance) * (1.0 + tolerance)
}

/// Variants are searched more coarsely, from where the knee that is known suggests.
fn variant_task(options: &KneeOptions, start: f64, highest: f64, events: u64) -> Task {
    let tolerance = VARIANT_TOLERANCE.max(options.tolerance);
    Task {
        threshold: options.threshold,
        worst: options.worst,
        start,
        highest,
        rounds: [
            Round { deciding: 200.0, fewest_runs: 1, step: 1.5, tolerance: 0.25_f64.max(tolerance) },
            Round { deciding: 5_000.0, fewest_runs: 1, step: last_step(tolerance), tolerance },
        ],
        seeds: None,
        first_seed: options.first_seed,
        keep: false,
        events,
        most_events: events.saturating_mul(2),
    }
}

/// Whether this can be asked of this point.
pub(crate) fn check(point: &Point, options: &KneeOptions) -> Result<(), KneeError> {
    let check = |field, found: f64, good: bool, allowed: &str| {
        if good { Ok(()) } else { Err(SpecError { field, found: found.to_string(), allowed: allowed.to_owned() }) }
    };
    let KneeOptions { threshold, tolerance, .. } = *options;
    check("threshold", threshold, threshold > 0.0 && threshold <= 1.0, "more than 0, at most 1")?;
    check("tolerance", tolerance, (0.001..=1.0).contains(&tolerance), "0.001 to 1")?;
    let seeds = options.seeds.as_ref().map_or(1, Vec::len);
    check("seeds", seeds as f64, seeds > 0, "one seed or more")?;
    Ok(check_bursts(point, options)?)
}

fn check_bursts(point: &Point, options: &KneeOptions) -> Result<(), SpecError> {
    if let Some(worst) = options.worst {
        let every = point.config.arrivals.burst.map(|burst| burst.every);
        if !every.is_some_and(|every| worst.as_nanos() > 0 && worst <= every) {
            let allowed = "a time up to arrivals.burst.every, where arrivals come in bursts".to_owned();
            return Err(SpecError { field: "worst", found: worst.to_string(), allowed });
        }
    }
    match burst_misfit(&point.config).filter(|_| options.seeds.is_some()) {
        Some(allowed) => Err(SpecError { field: "duration", found: point.config.duration.to_string(), allowed }),
        None => Ok(()),
    }
}
