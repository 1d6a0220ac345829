//! What is the ratio of two knees, if one of them, or both, may be lower bounds?
//!
//! A search may end before any load fails. Then the knee is higher than the result says. A ratio with such a knee in it
//! is a bound, or nothing at all: [`Factor::of`] is the only place that decides it.

use std::cmp::Ordering;

use serde::Serialize;

use super::found::Bound;
use super::outcome::KneeSearch;

/// The ratio of the knee with a change to the knee without it, as far as it is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(into = "Fields")]
pub enum Factor {
    /// Both knees were found.
    Found {
        /// Their ratio.
        value: f64,
        /// Its 95 % interval, from the errors of both knees as if independent, which they nearly are (example
        /// `knee_pairing`). Absent if unknown.
        interval: Option<[f64; 2]>,
    },
    /// The knee with the change is a lower bound: the ratio is this, or higher.
    AtLeast(f64),
    /// The knee without the change is a lower bound: the ratio is this, or lower.
    AtMost(f64),
    /// Both are lower bounds, so their ratio says nothing.
    Unknown,
}

/// A factor in JSON.
#[derive(Serialize)]
struct Fields {
    factor: Option<f64>,
    factor_interval: Option<[f64; 2]>,
    at_least: bool,
    at_most: bool,
}

impl From<Factor> for Fields {
    fn from(factor: Factor) -> Self {
        Self {
            factor: factor.value(),
            factor_interval: factor.interval(),
            at_least: matches!(factor, Factor::AtLeast(_)),
            at_most: matches!(factor, Factor::AtMost(_)),
        }
    }
}

impl Factor {
    pub(super) fn of(without: &KneeSearch, with: &KneeSearch) -> Self {
        let value = with.commits_per_s / without.commits_per_s;
        Self::by_bounds([without.bound, with.bound], value, || interval(without, with, value))
    }

    /// The factor from this ratio of the knees without and with the change.
    fn by_bounds([without, with]: [Bound; 2], value: f64, interval: impl FnOnce() -> Option<[f64; 2]>) -> Self {
        match (without.is_lower(), with.is_lower()) {
            (false, false) => Self::Found { value, interval: interval() },
            (false, true) => Self::AtLeast(value),
            (true, false) => Self::AtMost(value),
            (true, true) => Self::Unknown,
        }
    }

    /// The factor or its bound.
    #[must_use]
    pub fn value(self) -> Option<f64> {
        match self {
            Self::Found { value, .. } | Self::AtLeast(value) | Self::AtMost(value) => Some(value),
            Self::Unknown => None,
        }
    }

    /// The 95 % interval; absent if unknown.
    #[must_use]
    pub fn interval(self) -> Option<[f64; 2]> {
        match self {
            Self::Found { interval, .. } => interval,
            Self::AtLeast(_) | Self::AtMost(_) | Self::Unknown => None,
        }
    }

    /// The lower end of the interval, or the lower bound; absent if unknown.
    #[must_use]
    pub fn lowest(self) -> Option<f64> {
        match self {
            Self::Found { interval, .. } => interval.map(|[low, _]| low),
            Self::AtLeast(value) => Some(value),
            Self::AtMost(_) | Self::Unknown => None,
        }
    }

    /// The upper end of the interval, or the upper bound; absent if unknown.
    #[must_use]
    pub fn highest(self) -> Option<f64> {
        match self {
            Self::Found { interval, .. } => interval.map(|[_, high]| high),
            Self::AtMost(value) => Some(value),
            Self::AtLeast(_) | Self::Unknown => None,
        }
    }

    /// Whether the interval includes 1: the change may do nothing.
    #[must_use]
    pub fn no_difference_seen(self) -> bool {
        self.interval().is_some_and(|[low, high]| low <= 1.0 && high >= 1.0)
    }

    /// Whether the bounds allow a higher knee with the change as well as a lower one.
    #[must_use]
    pub fn leaves_direction_open(self) -> bool {
        match self {
            Self::Found { .. } => false,
            Self::AtLeast(value) => value <= 1.0,
            Self::AtMost(value) => value >= 1.0,
            Self::Unknown => true,
        }
    }

    /// The change up or down that is known, as a factor of at least 1.
    pub(super) fn change(self) -> f64 {
        self.value().filter(|_| !self.leaves_direction_open()).map_or(1.0, |value| value.max(1.0 / value))
    }

    /// The order of rows, in which a search that stopped early does not stand among results: what is known, or at most
    /// that, the largest first; then lower bounds; the unknown last.
    pub(super) fn ranked(self, other: Self) -> Ordering {
        let is_open = |factor: Self| matches!(factor, Self::AtLeast(_) | Self::Unknown);
        is_open(self).cmp(&is_open(other)).then_with(|| self.descending(other))
    }

    /// The largest first, the unknown last.
    pub(super) fn descending(self, other: Self) -> Ordering {
        let [a, b] = [self, other].map(|factor| factor.value().unwrap_or(f64::NEG_INFINITY));
        b.total_cmp(&a)
    }
}

/// Whether the search with a change ended at a lower bound below the knee without it. That says nothing, and a larger
/// budget may say more, unless the knee without the change is the highest load that is ever tried.
pub(super) fn fell_short(without: &KneeSearch, with: &KneeSearch) -> bool {
    let is_below = with.bound.is_lower() && with.commits_per_s < without.commits_per_s;
    is_below && without.bound != Bound::AllHold
}

/// The 95 % interval of the ratio of two knees, from their relative errors and the larger of their t quantiles.
fn interval(without: &KneeSearch, with: &KneeSearch, factor: f64) -> Option<[f64; 2]> {
    let [a, b] = [without, with].map(|found| found.crossing.filter(|_| found.bound == Bound::Found));
    let (a, b) = (a?, b?);
    let reach = a.reach.max(b.reach) * a.relative_error?.hypot(b.relative_error?);
    // The logarithm of a ratio is closer to normal.
    Some([factor * (-reach).exp(), factor * reach.exp()])
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOWER: [Bound; 2] = [Bound::AllHold, Bound::Unfinished];

    fn of(without: Bound, with: Bound) -> Factor {
        Factor::by_bounds([without, with], 2.0, || Some([1.5, 2.5]))
    }

    #[test]
    fn a_ratio_of_bounds_is_a_bound_or_unknown() {
        let found = Factor::Found { value: 2.0, interval: Some([1.5, 2.5]) };
        assert_eq!(of(Bound::Found, Bound::Found), found);
        for lower in LOWER {
            assert_eq!(of(Bound::Found, lower), Factor::AtLeast(2.0));
            assert_eq!(of(lower, Bound::Found), Factor::AtMost(2.0));
            assert_eq!(of(lower, Bound::NothingHolds), Factor::AtMost(2.0));
            for other in LOWER {
                assert_eq!(of(lower, other), Factor::Unknown);
            }
        }
    }

    #[test]
    fn json_says_what_kind_of_factor_it_is() {
        let of = |factor: Factor| serde_json::to_value(factor).unwrap();
        let expected = |factor: Option<f64>, factor_interval: Option<[f64; 2]>, at_least: bool, at_most: bool| {
            serde_json::json!({
                "factor": factor, "factor_interval": factor_interval, "at_least": at_least, "at_most": at_most
            })
        };
        let interval = Some([1.5, 2.5]);
        assert_eq!(of(Factor::Found { value: 2.0, interval }), expected(Some(2.0), interval, false, false));
        assert_eq!(of(Factor::AtLeast(2.0)), expected(Some(2.0), None, true, false));
        assert_eq!(of(Factor::AtMost(0.5)), expected(Some(0.5), None, false, true));
        assert_eq!(of(Factor::Unknown), expected(None, None, false, false));
    }

    #[test]
    fn a_bound_on_the_other_side_of_one_says_nothing_of_the_direction() {
        let open = [Factor::AtLeast(0.8), Factor::AtMost(1.3), Factor::Unknown];
        assert!(open.iter().all(|factor| factor.leaves_direction_open() && factor.change() == 1.0));
        let known = [Factor::AtLeast(2.0), Factor::AtMost(0.5), Factor::Found { value: 0.5, interval: None }];
        assert!(known.iter().all(|factor| !factor.leaves_direction_open() && factor.change() == 2.0));
    }

    #[test]
    fn what_is_unknown_comes_last() {
        let mut factors = [Factor::Unknown, Factor::AtMost(0.1), Factor::AtLeast(3.0)];
        factors.sort_by(|a, b| a.descending(*b));
        assert_eq!(factors, [Factor::AtLeast(3.0), Factor::AtMost(0.1), Factor::Unknown]);
        factors.sort_by(|a, b| a.ranked(*b));
        assert_eq!(factors, [Factor::AtMost(0.1), Factor::AtLeast(3.0), Factor::Unknown]);
    }
}
