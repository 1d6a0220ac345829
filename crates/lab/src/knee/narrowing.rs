//! How many more runs make the interval of a knee narrow enough?
//!
//! This is sequential estimation with a relative precision (Law, "Simulation Modeling and Analysis", 2015, 9.4.1; Chow
//! and Robbins, "On the asymptotic theory of fixed-width sequential confidence intervals for the mean", 1965). If the
//! interval is checked often, it is sooner or later narrow by chance, with a centre that is no better than before. So
//! it is checked rarely: each check has 1.3 to 3 times the runs of the one before, and at least [`FEWEST_CLUSTERS`].

use super::crossing::Crossing;

/// The most runs per load.
pub(super) const MOST_RUNS: u64 = 4096;

/// Loads further outside the bracket than this get no more runs.
pub(super) const NEXT_TO: f64 = 1.06;

/// The fewest clusters of an interval that counts as narrow.
const FEWEST_CLUSTERS: usize = 16;

/// The fewest expected failures (or successes) at the knee: the width depends on their number, which is random while
/// they are few.
const FEWEST_EXPECTED: f64 = 100.0;

/// The work for a check, as a multiple of that for the one before: the least that is useful, and the most that the
/// interval so far justifies.
const GROWTH: (f64, f64) = (1.3, 3.0);

/// The least growth that makes a last check useful.
const LAST_GROWTH: f64 = 1.15;

impl Crossing {
    /// The half width of the 95 % interval, as a share of the knee; `None` if unknown.
    pub(super) fn half_width(&self) -> Option<f64> {
        Some(self.reach * self.relative_error?)
    }

    /// Whether the interval is this narrow, and is based on enough clusters and failures.
    pub(super) fn is_within(&self, within: f64) -> bool {
        let enough = self.clusters >= FEWEST_CLUSTERS && self.expected >= FEWEST_EXPECTED;
        enough && self.half_width().is_some_and(|half| half <= within)
    }
}

/// The runs of each load for the next check, if `runs` led to an interval with this half width and the budget allows
/// this growth; `None` if a check is not useful.
pub(super) fn next_runs(runs: u64, half_width: Option<f64>, within: f64, affordable: f64) -> Option<u64> {
    // Widths shrink with the square root of the runs. (An interval that is narrow, but based on too few failures, gets
    // the least.)
    let growth = half_width.map_or(GROWTH.0, |half| (half / within).powi(2)).clamp(GROWTH.0, GROWTH.1);
    let wanted = (runs as f64 * growth).ceil().min(MOST_RUNS as f64);
    let next = wanted.min((runs as f64 + affordable).floor());
    (next > runs as f64 && next >= runs as f64 * LAST_GROWTH).then_some(next as u64)
}

/// The approximate factor of runs that narrows an interval from this half width to that.
pub(super) fn times_the_work(half_width: f64, within: f64) -> f64 {
    (half_width / within).powi(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_look_is_worth_it_and_affordable() {
        assert_eq!(next_runs(10, Some(0.04), 0.03, 1e9), Some(18));
        assert_eq!(next_runs(10, Some(0.0301), 0.03, 1e9), Some(13), "the least");
        assert_eq!(next_runs(10, Some(1.0), 0.03, 1e9), Some(30), "the most");
        assert_eq!(next_runs(10, None, 0.03, 1e9), Some(13), "few clusters");
        assert_eq!(next_runs(10, Some(1.0), 0.03, 5.7), Some(15));
        assert_eq!(next_runs(10, Some(1.0), 0.03, 1.9), None, "one more run is not useful");
        assert_eq!(next_runs(1, Some(1.0), 0.03, 0.9), None);
        assert_eq!(next_runs(MOST_RUNS, Some(1.0), 0.03, 1e9), None);
    }

    #[test]
    fn few_clusters_are_not_believed() {
        let some = Crossing {
            load: 1.0,
            commits_per_s: 1.0,
            relative_error: Some(0.01),
            reach: 2.0,
            clusters: 16,
            expected: 100.0,
        };
        assert!(some.is_within(0.02) && !some.is_within(0.0199));
        assert!(!Crossing { clusters: 15, ..some }.is_within(0.02));
        assert!(!Crossing { expected: 99.0, ..some }.is_within(0.02), "few failures are not enough either");
    }
}
