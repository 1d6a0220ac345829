//! What are the knees of many variants of a point with a known knee?
//!
//! The reliefs, which say what limits the knee, come before the others and may use [`RELIEF_SHARE`] of the remaining
//! budget. Both groups are searched coarsely, starting near the known knee, in two waves. In the first, each point has
//! an equal part of [`FIRST_SHARE`] of the group's budget. The rest, including what easy points did not use, is divided
//! among those whose search has not ended: stores with high loads take most work. If it does not suffice for all of
//! them, the first ones get it.

use glidepath_point::Point;

use super::hunt::{Hunt, Round, Task};
use super::outcome::KneeSearch;
use super::queue::{Meter, run_all};
use super::{Bound, KneeError, KneeOptions, last_step};

/// The share of the remaining budget for the reliefs, if there are other variants.
const RELIEF_SHARE: f64 = 0.5;

/// The share of a group's budget for the first wave.
pub(super) const FIRST_SHARE: f64 = 0.6;

/// The least useful budget of a search. If equal parts would be smaller, the last points are not searched.
const LEAST: u64 = 20_000;

/// The least useful budget of a second search, as a multiple of that of the first.
const WORTH: u64 = 2;

/// The tolerance of variants.
const TOLERANCE: f64 = 0.04;

/// The width of variants' intervals, as a multiple of that of the knee.
const WITHIN: f64 = 1.5;

/// One of the points.
pub(super) struct Variant<'a> {
    pub(super) point: &'a Point,
    /// The load to begin with.
    pub(super) start: f64,
    /// No higher load is tried.
    pub(super) highest: f64,
}

/// What the searches of variants have in common.
pub(super) struct Search<'a> {
    pub(super) options: &'a KneeOptions,
    /// The events that one search probably takes.
    pub(super) of_one: u64,
    pub(super) meter: &'a Meter<'a>,
}

impl Search<'_> {
    /// The results of the reliefs and of the others, each in order, with about this number of events for all together.
    pub(super) fn all(&self, reliefs: &[Variant<'_>], others: &[Variant<'_>], events: u64) -> [Results; 2] {
        let spent_before = self.meter.spent();
        let share = if others.is_empty() { 1.0 } else { RELIEF_SHARE };
        let of_reliefs = self.group(reliefs, (events as f64 * share) as u64);
        let left = events.saturating_sub(self.meter.spent() - spent_before);
        [of_reliefs, self.group(others, left)]
    }

    fn group(&self, variants: &[Variant<'_>], events: u64) -> Results {
        let first = (events as f64 * FIRST_SHARE) as u64;
        let each = (first / variants.len().max(1) as u64).max(LEAST);
        let (searched, others) = variants.split_at(variants.len().min((first / each) as usize));
        let hunt = |place: usize, events: u64| {
            let Variant { point, start, highest } = searched[place];
            Hunt::new(point, task(self.options, start, highest, events))
        };
        let first = vec![each; searched.len()];
        let mut results = in_waves(&first, (events, self.of_one), &hunt, self.options, self.meter);
        results.extend(others.iter().map(|other| Err(KneeError::BudgetSpent { load_per_s: other.start })));
        results
    }
}

/// Of several searches, in order.
pub(super) type Results = Vec<Result<KneeSearch, KneeError>>;

/// The results of these searches, first with this number of events for each. The rest of `events` is divided among
/// those without both a load that holds and one that fails; if parts would be too small to be useful, among the first
/// of these, with about `of_one` for each.
pub(super) fn in_waves(
    first: &[u64],
    (events, of_one): (u64, u64),
    hunt: &dyn Fn(usize, u64) -> Hunt,
    options: &KneeOptions,
    meter: &Meter<'_>,
) -> Results {
    let spent_before = meter.spent();
    let hunts = first.iter().enumerate().map(|(place, each)| hunt(place, *each)).collect();
    let mut results = run_all(hunts, options.threads, meter);
    let is_open = |result: &Result<KneeSearch, KneeError>| match result {
        Ok(found) => found.bound == Bound::Unfinished,
        Err(error) => matches!(error, KneeError::BudgetSpent { .. }),
    };
    let mut open: Vec<usize> = (0..results.len()).filter(|place| is_open(&results[*place])).collect();
    let rest = events.saturating_sub(meter.spent() - spent_before);
    let mut each = rest / open.len().max(1) as u64;
    if open.iter().any(|place| each >= WORTH * first[*place]) {
        open.retain(|place| each >= WORTH * first[*place]);
    } else {
        let least = open.iter().map(|place| WORTH * first[*place]).max().unwrap_or(0);
        open.truncate((rest / least.max(of_one).max(1)).max(u64::from(rest >= least)) as usize);
        each = rest / open.len().max(1) as u64;
    }
    let hunts = open.iter().map(|place| hunt(*place, each)).collect();
    for (place, again) in open.into_iter().zip(run_all(hunts, options.threads, meter)) {
        results[place] = again;
    }
    results
}

/// One search.
pub(super) fn task(options: &KneeOptions, start: f64, highest: f64, events: u64) -> Task {
    let tolerance = TOLERANCE.max(options.tolerance);
    Task {
        threshold: options.threshold,
        worst: options.worst,
        commit_within: options.commit_within,
        start,
        highest,
        rounds: [
            Round { deciding: 200.0, fewest_runs: 1, step: 1.5, tolerance: 0.25_f64.max(tolerance) },
            Round { deciding: 5_000.0, fewest_runs: 1, step: last_step(tolerance), tolerance },
        ],
        within: (WITHIN * options.within).max(TOLERANCE),
        seeds: None,
        first_seed: options.first_seed,
        keep: false,
        events,
    }
}
