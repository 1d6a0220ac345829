//! How much do transactions matter that work too long to be judged?
//!
//! A run begins empty, and a load is judged by the work that ended in its window. Work that takes longer than the time
//! from the start of the run to a moment of the window cannot end there, so the longest transactions are judged too
//! rarely. If they fail as often as others, that changes nothing. If they fail more often (they miss more commits, or
//! meet more real conflicts), success is overestimated.
//!
//! The error is estimated as the missing share, times the excess of failures among the longest judged transactions.
//! This is too low if failures grow further with the length of work, so the tolerance is small.

use glidepath_model::Span;
use glidepath_workload::{Distribution, Shape};
use statrs::function::erf::erfc;

/// The share of judged transactions that counts as the longest.
const LONGEST: f64 = 0.1;

/// The tolerated error, as a share of the failures that the threshold allows.
const TOLERATED: f64 = 0.02;

/// An excess of fewer standard errors may be random. (Then the bias is small compared with the error of the success
/// itself.)
const SIGNIFICANT: f64 = 2.0;

/// The points of the window at which the missing share is computed.
const MOMENTS: u32 = 16;

/// One deciding transaction.
#[derive(Clone, Copy, Debug)]
pub(super) struct Worked {
    /// From its arrival until the commit began.
    pub(super) work: Span,
    /// Its outcome.
    pub(super) committed: bool,
}

/// How much more often the longest of these fail, as a difference of shares; 0 if that may be random.
pub(super) fn excess(mut worked: Vec<Worked>) -> f64 {
    let failed = |some: &[Worked]| some.iter().filter(|one| !one.committed).count() as f64 / some.len().max(1) as f64;
    worked.sort_unstable_by_key(|one| (one.work, one.committed));
    let count = (LONGEST * worked.len() as f64) as usize;
    let (others, longest) = worked.split_at(worked.len() - count);
    if longest.is_empty() {
        return 0.0;
    }
    let (all, long) = (failed(&worked), failed(longest));
    let error = (all * (1.0 - all) * (1.0 / longest.len() as f64 + 1.0 / others.len().max(1) as f64)).sqrt();
    if long - all > SIGNIFICANT * error { long - all } else { 0.0 }
}

/// Whether runs of this length are too short for such an excess of failures.
pub(super) fn matters(work: &Distribution, duration: Span, excess: f64, threshold: f64) -> bool {
    excess * missing(work, duration) > TOLERATED * (1.0 - threshold)
}

/// The share of transactions that cannot end in the window of a run because their work takes too long: the mean over
/// the window.
fn missing(work: &Distribution, duration: Span) -> f64 {
    let seconds = duration.as_secs_f64();
    let at = |moment: u32| seconds * (0.25 + 0.5 * (f64::from(moment) + 0.5) / f64::from(MOMENTS));
    (0..MOMENTS).map(|moment| longer_than(work, at(moment))).sum::<f64>() / f64::from(MOMENTS)
}

/// The share of draws above this.
fn longer_than(work: &Distribution, seconds: f64) -> f64 {
    let scale = work.scale.as_secs_f64();
    if seconds < work.floor.as_secs_f64() {
        return 1.0;
    }
    let lognormal = |median: f64| match work.sigma > 0.0 && median > 0.0 {
        true => erfc((seconds / median).ln() / work.sigma / std::f64::consts::SQRT_2) / 2.0,
        false => f64::from(u8::from(median > seconds)),
    };
    match work.kind {
        Shape::Fixed => f64::from(u8::from(scale > seconds)),
        Shape::Exponential => {
            if scale > 0.0 {
                (-seconds / scale).exp()
            } else {
                0.0
            }
        }
        Shape::Lognormal => lognormal(scale),
        Shape::LognormalMean => lognormal(scale * (-work.sigma * work.sigma / 2.0).exp()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn work(kind: Shape, sigma: f64) -> Distribution {
        Distribution { kind, scale: Span::from_secs(180), sigma, floor: Span::ZERO }
    }

    /// Figures of the normal distribution, from tables.
    #[test]
    fn shares_of_long_work_are_those_of_the_distributions() {
        // ln(900 / 180) + 1.125 = 2.734 = 1.823 x 1.5; 1 - Φ(1.823) = 0.0342.
        assert!((longer_than(&work(Shape::LognormalMean, 1.5), 900.0) - 0.0342).abs() < 2e-4);
        assert!((longer_than(&work(Shape::Lognormal, 1.0), 180.0) - 0.5).abs() < 1e-9);
        assert!((longer_than(&work(Shape::Exponential, 0.0), 360.0) - (-2.0_f64).exp()).abs() < 1e-12);
        assert!(longer_than(&work(Shape::Fixed, 0.0), 179.0) > longer_than(&work(Shape::Fixed, 0.0), 181.0));
        let floor = Distribution { floor: Span::from_secs(1000), ..work(Shape::Lognormal, 1.0) };
        assert!(longer_than(&floor, 999.0) >= 1.0);
    }

    #[test]
    fn an_excess_is_that_of_the_longest_and_no_chance() {
        let worked = |long_fails: bool| {
            let one = |n: u64| Worked {
                work: Span::from_secs(n),
                committed: if n < 900 { !n.is_multiple_of(20) } else { !(long_fails && n.is_multiple_of(2)) },
            };
            (0..1000).map(one).collect::<Vec<_>>()
        };
        assert!((excess(worked(true)) - (0.5 - 0.095)).abs() < 0.01);
        assert!(excess(worked(false)).abs() < 1e-9 && excess(Vec::new()).abs() < 1e-9);
        let heavy = work(Shape::LognormalMean, 1.5);
        assert!(matters(&heavy, Span::from_secs(3600), 0.4, 0.95));
        assert!(!matters(&heavy, Span::from_secs(12 * 3600), 0.4, 0.95));
        assert!(!matters(&heavy, Span::from_secs(600), 0.0, 0.95));
    }
}
