//! What is the highest commit rate that this catalog sustains, what limits it, and which one change would raise it
//! most?
//!
//! The *knee* is the highest load at which enough transactions succeed (95 %, of validated overwrites where there are
//! any). [`find`] searches it by bisection; [`answer`] also explains it. Formulas give only the first guess. What
//! limits the knee, and what a change gains, is found by simulation: the knee without the cost of a resource, or with
//! the change.
//!
//! An answer depends on the question and on the work allowed for it, counted in simulated events. It does not depend on
//! the machine, its load or the number of threads.
//!
//! Start reading at `search` (the bisection), then `plan` (how many runs a load needs), `trial` (one load), `counts`
//! (what a run says of it), `hunt` (one search) and `queue` (many at once); `crossing` estimates the knee between two
//! loads and its error, `narrowing` decides when that error is small enough, `portrait` measures the latencies at the
//! knee, `found` has the result, `bottleneck`, `change` and `sensitivity` vary the point, `factor` compares two knees,
//! `measured` adds the uncertainty of a measured profile, and `enough` says which budget would have sufficed.

mod bottleneck;
#[cfg(test)]
mod budget_tests;
mod change;
mod counts;
mod crossing;
mod enough;
mod factor;
mod fit;
mod found;
mod hunt;
mod measured;
mod narrowing;
mod outcome;
mod plan;
mod portrait;
mod queue;
mod search;
mod sensitivity;
#[cfg(test)]
mod tests;
mod trial;
mod unseen;
mod variants;

use std::num::NonZeroUsize;

use glidepath_model::Span;
use glidepath_point::{Point, burst_misfit};
use glidepath_sim::Profile;
use glidepath_workload::SpecError;
use serde::Serialize;

pub use bottleneck::{Bottleneck, Measured, Relief, Resource};
pub use enough::enough_for_measurement;
pub use factor::Factor;
pub use found::{Bound, KindAtKnee, Knee, Reason, SearchEnd};
pub use measured::{MeasuredKnee, VarianceShares, with_measurement};
pub use plan::{Ceiling, ceiling};
pub use sensitivity::{Assumption, Varied};

use factor::fell_short;
use hunt::{Hunt, Round, Task};
use outcome::KneeSearch;
use queue::Meter;
use variants::{Search, Variant};

/// The options of a search for a knee.
#[derive(Clone, Debug)]
pub struct KneeOptions {
    /// The deciding success at which a load holds: more than 0, less than 1.
    pub threshold: f64,
    /// The distance between the highest load that holds and the lowest that fails at which the bisection ends, as a
    /// share of the former: 0.001 to 1.
    pub tolerance: f64,
    /// The search ends when half of the knee's 95 % interval is at most this share of the knee: 0.001 to 1.
    pub within: f64,
    /// If given, the worst stretch of this length in the cycle from burst to burst, over all bursts, decides; otherwise
    /// all transactions of the window.
    pub worst: Option<Span>,
    /// If given, a commit counts as failed unless it lands within this time from the end of the transaction's work. So
    /// there is a knee also where nothing fails and what arrives too fast waits longer and longer.
    pub commit_within: Option<Span>,
    /// If given, each load is judged by one run per seed, of the configured length. If not, by as many runs as
    /// necessary, with the seeds from `first_seed` on.
    pub seeds: Option<Vec<u64>>,
    /// Whether to search also how much each assumption matters.
    pub sensitivity: bool,
    /// Whether the what-ifs have the other protocols, and each protocol with each provider.
    pub protocols: bool,
    /// The first of the seeds, if none are given.
    pub first_seed: u64,
    /// The number of concurrent runs. The answer does not depend on it.
    pub threads: NonZeroUsize,
    /// The work allowed, in simulated events, for all searches of an answer; a processor does one or two million a
    /// second. It is exceeded by at most a few thousand events per run, until the runs notice the stop.
    pub events: u64,
}

impl Default for KneeOptions {
    fn default() -> Self {
        Self {
            threshold: 0.95,
            tolerance: 0.02,
            within: 0.03,
            worst: None,
            commit_within: None,
            seeds: None,
            sensitivity: false,
            protocols: false,
            first_seed: 1,
            threads: NonZeroUsize::MIN,
            events: 30_000_000,
        }
    }
}

/// Why there is no knee.
#[derive(Debug, thiserror::Error)]
pub enum KneeError {
    /// A number out of its range.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// No transaction that decides ended.
    #[error("no {kind} ended within a run of {duration}: choose a longer duration, or a shorter transaction.runtime")]
    NothingEnds {
        /// Which transactions decide.
        kind: &'static str,
        /// How long the runs were.
        duration: Span,
    },
    /// At every load, transactions take longer to end than the longest runs.
    #[error(
        "at each load that was tried, transactions take so long to end that runs of {duration} do not show their \
         outcome: choose a longer duration, or fewer retries"
    )]
    TooShort {
        /// The longest runs.
        duration: Span,
    },
    /// The budget was spent before any load held.
    #[error(
        "the budget was spent before the search found a load that is sustained ({load_per_s:.3} per second is too \
         high, or takes too much work to judge): choose a larger budget, or a lower threshold"
    )]
    BudgetSpent {
        /// The lowest load that was tried, as transactions per `arrivals.scale`.
        load_per_s: f64,
    },
}

/// The progress of the work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Events simulated so far.
    pub events: u64,
    /// Events allowed. An answer may need fewer.
    pub budget: u64,
    /// Searches that have ended.
    pub searches_done: usize,
    /// Searches that have begun.
    pub searches: usize,
}

/// A store that the tables could move to.
#[derive(Clone, Debug, PartialEq)]
pub struct Provider {
    /// Its name, as in `provider` of a configuration.
    pub name: String,
    /// Its profile.
    pub profile: Profile,
}

/// A knee with its explanation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Answer {
    /// The knee itself.
    #[serde(flatten)]
    pub knee: Knee,
    /// What limits it; absent if there is no knee to explain.
    pub bottleneck: Option<Bottleneck>,
    /// What-ifs, the most effective first, those with an unknown factor last. Empty if not requested.
    pub what_ifs: Vec<WhatIf>,
    /// Changes whose effect the budget did not reveal.
    pub undecided: Vec<String>,
    /// Assumptions, the most important first, those without a visible effect last. Empty if not requested.
    pub sensitivity: Vec<Assumption>,
    /// If the budget left something open: one, in events, that probably suffices.
    #[serde(skip)]
    pub enough_events: Option<u64>,
}

/// The knee with a change.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct WhatIf {
    /// The change, for people.
    pub change: String,
    /// The same as settings, each `field = value` as in an experiment file.
    pub settings: Vec<String>,
    /// The knee with it. It is searched with fewer transactions and to a coarser resolution than the knee itself.
    pub knee_commits_per_s: f64,
    /// Whether that is a knee, or a limit of what was tried.
    pub bound: Bound,
    /// The ratio of the knee with it to the knee without it.
    #[serde(flatten)]
    pub factor: Factor,
    /// The relative standard error of the knee with it; absent if unknown.
    pub knee_relative_error: Option<f64>,
    /// The relative width of the bracket around the knee with this change; absent if it has one side only.
    pub resolution: Option<f64>,
    /// The transactions that decided.
    pub deciding_transactions: u64,
}

/// The share of the budget for the knee itself if changes or assumptions are searched too; they and the reliefs share
/// the rest evenly.
const KNEE_SHARE: f64 = 0.5;

/// The same if only the reliefs are searched.
const KNEE_SHARE_ALONE: f64 = 0.75;

/// The knee of a point. Its `arrivals.scale` is ignored.
///
/// # Errors
/// An option out of its range; a point in which no transaction ends; a budget too small for any load.
pub fn find(point: &Point, options: &KneeOptions, watch: &(dyn Fn(Progress) + Sync)) -> Result<Knee, KneeError> {
    check(point, options)?;
    let options = &weighed(point, options);
    let meter = &Meter::new(options.events, watch);
    let found = hunt_knee(point, options, 1.0, meter)?;
    Ok(Knee::of(&found, &portrait::portrait(point, &found, options, meter), options))
}

/// The knee of a point, and what limits it; with `providers`, also the what-ifs, including a move to each provider; if
/// requested, also how much each assumption matters.
///
/// # Errors
/// As [`find`]. Variants that are invalid, or in which no transaction ends or no load holds, are left out.
pub fn answer(
    point: &Point,
    options: &KneeOptions,
    providers: Option<&[Provider]>,
    watch: &(dyn Fn(Progress) + Sync),
) -> Result<Answer, KneeError> {
    check(point, options)?;
    let options = &weighed(point, options);
    let meter = &Meter::new(options.events, watch);
    let alone = providers.is_none() && !options.sensitivity;
    let found = hunt_knee(point, options, if alone { KNEE_SHARE_ALONE } else { KNEE_SHARE }, meter)?;
    let knee = Knee::of(&found, &portrait::portrait(point, &found, options, meter), options);
    if knee.bound == Bound::NothingHolds {
        return Ok(Answer {
            knee,
            bottleneck: None,
            what_ifs: Vec::new(),
            undecided: Vec::new(),
            sensitivity: Vec::new(),
            enough_events: None,
        });
    }
    let reliefs = bottleneck::reliefs(point);
    let changes = providers.map_or_else(Vec::new, |providers| change::changes(point, providers, options.protocols));
    let assumptions = if options.sensitivity { sensitivity::assumptions(point) } else { Vec::new() };
    let points = reliefs.iter().map(|(_, point)| point).chain(changes.iter().map(|change| &change.point));
    let points: Vec<&Point> = points.chain(assumptions.iter().flat_map(sensitivity::Variants::points)).collect();
    let guess = plan::first_guess(&found.point);
    let highest = |n: usize| if n < reliefs.len() { bottleneck::MOST * found.load } else { f64::INFINITY };
    let start = |point: &Point| found.load * plan::first_guess(point) / guess;
    let variants = points.iter().enumerate();
    let variants: Vec<Variant<'_>> =
        variants.map(|(n, &point)| Variant { point, start: start(point), highest: highest(n) }).collect();
    let left = options.events.saturating_sub(knee.events);
    let protocols = changes.iter().filter(|change| change.is_of_protocol(point)).count();
    let enough = enough::for_variants(point, &knee, variants.len(), protocols);
    let search = Search { options, of_one: enough::of_one(&knee) as u64, meter };
    let [of_reliefs, mut what_ifs] = search.all(&variants[..reliefs.len()], &variants[reliefs.len()..], left);
    let varied = what_ifs.split_off(changes.len());
    let reliefs = reliefs.into_iter().map(|(resource, _)| resource).zip(of_reliefs);
    let bottleneck = Some(Bottleneck::of(&found, reliefs.collect()));
    let (mut what_ifs, undecided) = decided(changes.into_iter().zip(what_ifs), &found);
    what_ifs.sort_by(|a, b| a.factor.ranked(b.factor));
    let sensitivity = sensitivity::ranked(assumptions, &found, varied);
    let mut answer = Answer { knee, bottleneck, what_ifs, undecided, sensitivity, enough_events: None };
    answer.enough_events = answer.leaves_open().then_some(enough);
    Ok(answer)
}

/// The knee with each change, and the changes without a result: their search ran out of budget, with no knee or with a
/// lower bound below the knee itself.
fn decided(
    changes: impl Iterator<Item = (change::Change, Result<KneeSearch, KneeError>)>,
    found: &KneeSearch,
) -> (Vec<WhatIf>, Vec<String>) {
    let (mut what_ifs, mut undecided) = (Vec::new(), Vec::new());
    for (change, with) in changes {
        let words = change.words.clone();
        match with {
            Ok(with) if fell_short(found, &with) => undecided.push(words),
            Ok(with) => what_ifs.extend(what_if(change, found, &with)),
            Err(KneeError::BudgetSpent { .. }) => undecided.push(words),
            Err(_) => {}
        }
    }
    (what_ifs, undecided)
}

/// `None` if no load holds with the change.
fn what_if(change: change::Change, without: &KneeSearch, with: &KneeSearch) -> Option<WhatIf> {
    (with.commits_per_s > 0.0).then(|| WhatIf {
        change: change.words,
        settings: change.settings,
        knee_commits_per_s: with.commits_per_s,
        bound: with.bound,
        factor: Factor::of(without, with),
        knee_relative_error: with.crossing.and_then(|crossing| crossing.relative_error),
        resolution: with.resolution,
        deciding_transactions: with.deciding,
    })
}

/// An event takes longer the more tables there are, because the catalog is copied: beyond the first hundred, this many
/// further tables take as long as one event of a small catalog (measured: 2.6 times at 1,000 tables, 13 times at
/// 10,000).
const TABLES_OF_AN_EVENT: f64 = 800.0;

/// The budget in events of this point; budgets are in events of a small catalog.
fn weighed(point: &Point, options: &KneeOptions) -> KneeOptions {
    let weight = weight(point);
    let events = if weight > 1.0 { (options.events as f64 / weight) as u64 } else { options.events };
    KneeOptions { events, ..options.clone() }
}

/// How many events of a small catalog an event of this point takes as long as.
fn weight(point: &Point) -> f64 {
    1.0 + f64::from(point.config.tables.count.saturating_sub(100)) / TABLES_OF_AN_EVENT
}

/// The search itself, with this share of the budget, part of which is for the [`portrait`].
fn hunt_knee(point: &Point, options: &KneeOptions, share: f64, meter: &Meter<'_>) -> Result<KneeSearch, KneeError> {
    let events = (options.events as f64 * (share - portrait::share(point))) as u64;
    let start = plan::first_load(point);
    let tolerance = options.tolerance.min(options.within);
    let task = Task {
        threshold: options.threshold,
        worst: options.worst,
        commit_within: options.commit_within,
        start,
        highest: f64::INFINITY,
        rounds: [
            Round { deciding: 400.0, fewest_runs: 2, step: 2.0, tolerance: 0.15_f64.max(tolerance) },
            Round { deciding: 30_000.0, fewest_runs: 2, step: last_step(tolerance), tolerance },
        ],
        within: options.within,
        seeds: options.seeds.clone(),
        first_seed: options.first_seed,
        keep: true,
        events,
    };
    let found = queue::run_all(vec![Hunt::new(point, task)], options.threads, meter).pop();
    found.unwrap_or(Err(KneeError::BudgetSpent { load_per_s: start }))
}

/// A first step that halves to the tolerance.
fn last_step(tolerance: f64) -> f64 {
    (1.0 + tolerance) * (1.0 + tolerance)
}

/// Checks the options for this point. Messages name them as on the command line.
pub(crate) fn check(point: &Point, options: &KneeOptions) -> Result<(), KneeError> {
    let check = |field, found: f64, good: bool, allowed: &str| {
        if good { Ok(()) } else { Err(SpecError { field, found: found.to_string(), allowed: allowed.to_owned() }) }
    };
    let KneeOptions { threshold, tolerance, within, .. } = *options;
    check("--threshold", threshold, threshold > 0.0 && threshold < 1.0, "0 < share < 1, such as 0.95")?;
    check("--tolerance", tolerance, (0.001..=1.0).contains(&tolerance), "0.001 to 1")?;
    check("--within", within, (0.001..=1.0).contains(&within), "0.001 to 1")?;
    let most = options.commit_within.map_or(1.0, Span::as_secs_f64);
    check("--commit-within", most, most > 0.0, "a time above zero, such as 10s")?;
    let seeds = options.seeds.as_ref().map_or(1, Vec::len);
    check("--seeds", seeds as f64, seeds > 0, "one seed or more")?;
    Ok(check_bursts(point, options)?)
}

/// The most stretches of a cycle that are compared: of more, each has too few transactions.
const MOST_STRETCHES: u64 = 60;

fn check_bursts(point: &Point, options: &KneeOptions) -> Result<(), SpecError> {
    if let Some(worst) = options.worst {
        let every = point.config.arrivals.burst.map(|burst| burst.every);
        let fits = |every: Span| worst <= every && worst.as_nanos().saturating_mul(MOST_STRETCHES) >= every.as_nanos();
        if !every.is_some_and(fits) {
            let allowed = match every {
                None => "no such option for a load without bursts (arrivals.burst)".to_owned(),
                Some(every) => {
                    format!("a time from a {MOST_STRETCHES}th of arrivals.burst.every ({every}) up to all of it")
                }
            };
            return Err(SpecError { field: "--worst", found: worst.to_string(), allowed });
        }
    }
    match burst_misfit(&point.config).filter(|_| options.seeds.is_some()) {
        Some(allowed) => Err(SpecError { field: "duration", found: point.config.duration.to_string(), allowed }),
        None => Ok(()),
    }
}
