//! How is a distribution drawn from in a few nanoseconds? From a table of its quantiles.
//!
//! A draw is one random number, one look-up and one interpolation. Only the two tails, where interpolation would be
//! coarse, are computed exactly.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use glidepath_env::unit_interval;

use crate::distribution::Distribution;
use crate::sum::{Single, Sum};

/// The number of bins, of equal probability. Within a bin the density is assumed constant: in the middle the error is a
/// few parts in a million, and the table of 8 KiB fits the nearest cache.
const BINS: usize = 1 << 10;

/// Bins at either end that are computed exactly: together 0.4 % of the draws.
const TAIL: usize = 2;

/// What a table is a distribution of.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Quantity {
    /// exp(sigma x Z), Z standard normal.
    Lognormal { sigma: f64 },
    /// A latency in nanoseconds.
    Given(Distribution),
    /// How long these take, one after another, in nanoseconds.
    Step(Vec<Single>),
    /// How long a block of these take, one after another, in nanoseconds.
    Block(Single),
}

/// The quantiles of a distribution, ready for drawing.
#[derive(Clone, Debug)]
pub(crate) struct QuantileTable {
    /// At the edges of the bins.
    edges: Rc<[f64; BINS + 1]>,
    shape: Shape,
}

/// Where the exact quantiles come from.
#[derive(Clone, Debug)]
enum Shape {
    Lognormal { sigma: f64 },
    Given(Rc<Distribution>),
    Sum(Rc<Sum>),
}

/// A measured profile has 12 to 24 distributions, and the search for a knee alternates between a profile and all its
/// alternatives. A table is 8 KiB.
const MOST_RECENT: usize = 512;

thread_local! {
    /// The tables built last on this thread. A knee or the fit of a hold simulates one store hundreds of times, and
    /// building a table of a mixture or a sum takes as long as a short simulation.
    static RECENT: RefCell<VecDeque<(Quantity, QuantileTable)>> = const { RefCell::new(VecDeque::new()) };
}

impl QuantileTable {
    pub(crate) fn of(quantity: Quantity) -> Self {
        RECENT.with_borrow_mut(|recent| {
            if let Some((_, table)) = recent.iter().find(|(known, _)| *known == quantity) {
                return table.clone();
            }
            let table = Self::new(Shape::of(&quantity));
            if recent.len() == MOST_RECENT {
                recent.pop_front();
            }
            recent.push_back((quantity, table.clone()));
            table
        })
    }

    fn new(shape: Shape) -> Self {
        let edges = std::array::from_fn(|edge| shape.quantile(edge as f64 / BINS as f64));
        Self { edges: Rc::new(edges), shape }
    }

    /// The value at the place that these bits choose.
    #[inline]
    pub(crate) fn value(&self, bits: u64) -> f64 {
        // The top bits choose the bin, the others the place in it.
        let bin = (bits >> (64 - BINS.trailing_zeros())) as usize;
        if (TAIL..BINS - TAIL).contains(&bin) {
            let place = unit_interval(bits << BINS.trailing_zeros());
            return self.edges[bin] + (self.edges[bin + 1] - self.edges[bin]) * place;
        }
        self.exact_value(bits)
    }

    /// The quantile of this share.
    pub(crate) fn exact(&self, share: f64) -> f64 {
        self.shape.quantile(share)
    }

    #[cold]
    fn exact_value(&self, bits: u64) -> f64 {
        // Never 0 or 1, whose quantiles are infinite.
        self.shape.quantile(unit_interval(bits) + 0.5_f64.powi(54))
    }
}

impl Shape {
    fn of(quantity: &Quantity) -> Self {
        match quantity {
            Quantity::Lognormal { sigma } => Self::Lognormal { sigma: *sigma },
            Quantity::Given(distribution) => Self::Given(Rc::new(distribution.clone())),
            Quantity::Step(singles) => Self::Sum(Rc::new(Sum::of_step(singles))),
            Quantity::Block(single) => Self::Sum(Rc::new(Sum::of_block(*single))),
        }
    }

    fn quantile(&self, share: f64) -> f64 {
        match self {
            Self::Lognormal { sigma } => libm::exp(sigma * inverse_normal(share)),
            Self::Given(distribution) => distribution.quantile_ns(share),
            Self::Sum(sum) => sum.quantile_ns(share),
        }
    }
}

/// The quantile of the standard normal distribution: Newton's method on erfc (accurate to parts in 10^12), in
/// software arithmetic, so that every machine gets the same bits. The ends are cut at 9 standard deviations.
pub(crate) fn inverse_normal(share: f64) -> f64 {
    if share <= 0.0 || share >= 1.0 {
        return if share < 0.5 { -9.0 } else { 9.0 };
    }
    // By symmetry the lower half is enough, and it has no cancellation.
    let lower = share.min(1.0 - share);
    // Abramowitz and Stegun 26.2.23 as a start: off by less than 5e-4.
    let t = libm::sqrt(-2.0 * libm::log(lower));
    let numerator = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let mut z = numerator / (1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308))) - t;
    for _ in 0..3 {
        let below = 0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2);
        let density = libm::exp(-0.5 * z * z) * 0.398_942_280_401_432_7;
        z -= (below - lower) / density;
    }
    if share < 0.5 { z } else { -z }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_of_the_normal_distribution_are_right() {
        // Digits from the tables of the NIST handbook and from high-precision arithmetic.
        let known = [(0.5, 0.0), (0.975, 1.959_963_984_540_054), (0.001, -3.090_232_306_167_813)];
        for (share, z) in known {
            assert!((inverse_normal(share) - z).abs() < 1e-10, "{share}: {}", inverse_normal(share));
        }
        assert!((inverse_normal(1e-12) + 7.034_483_825_301_13).abs() < 1e-6);
        assert!(inverse_normal(0.0).is_finite() && inverse_normal(1.0).is_finite());
    }
}
