//! How long one request takes: a distribution, compiled so that a draw costs a few nanoseconds.
//!
//! A busy run draws a latency some hundred million times (a validated overwrite may read thousands of manifest lists), so
//! a distribution is turned into a table of its quantiles once. A draw is then one random number, one look-up and one
//! interpolation; only the two tails, where interpolation would be coarse, are computed exactly.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use glidepath_env::unit_interval;
use glidepath_model::{ByteSize, Span};

use crate::distribution::Distribution;
use crate::luck::Stream;
use crate::sum::{BLOCK, Single, Sum, WIDEST_SIGMA};

/// The distribution of one operation's round trip: `max(floor, (base + per_mib x MiB) x exp(sigma x Z))` with Z standard
/// normal, as in the published model (part 3, "Distribution Parameters"). Sigma 0 makes it a constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Latency {
    /// The median for an empty object.
    pub base: Span,
    /// What each MiB adds to the median.
    pub per_mib: Span,
    /// Standard deviation of the logarithm; not negative.
    pub sigma: f64,
    /// No draw is shorter.
    pub floor: Span,
}

impl Latency {
    /// The median for requests of this size.
    #[must_use]
    pub fn median(&self, size: ByteSize) -> Span {
        Span::from_nanos_f64(self.median_ns(size)).max(self.floor)
    }

    fn median_ns(&self, size: ByteSize) -> f64 {
        self.base.as_nanos() as f64 + self.per_mib.as_nanos() as f64 * size.as_mib_f64()
    }
}

/// The table has so many bins of equal probability. In each the density is taken as constant: in the middle that is off
/// by parts in a million, and 8 KiB stay in the nearest cache.
const BINS: usize = 1 << 10;

/// Bins at either end that are computed exactly: together 0.4 % of the draws.
const TAIL: usize = 2;

/// A latency ready for drawing.
#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    base_ns: f64,
    per_byte_ns: f64,
    floor: Span,
    /// exp(sigma x Z); absent where sigma is 0.
    factors: Option<QuantileTable>,
    /// Blocks of requests of the size that was asked for last; made when first needed.
    blocks: RefCell<Option<(ByteSize, QuantileTable)>>,
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
    /// exp(sigma x Z)
    Lognormal {
        sigma: f64,
    },
    Given(Rc<Distribution>),
    Block(Rc<Sum>),
}

/// Two measured profiles have fewer distributions.
const MOST_RECENT: usize = 64;

thread_local! {
    /// The tables made last on this thread. A knee or the fit of a hold simulates one store hundreds of times, and a table of
    /// a mixture takes as long as a short simulation.
    static RECENT: RefCell<VecDeque<(Distribution, QuantileTable)>> = const { RefCell::new(VecDeque::new()) };
}

impl QuantileTable {
    /// Latencies in nanoseconds.
    pub(crate) fn of(distribution: &Distribution) -> Self {
        RECENT.with_borrow_mut(|recent| {
            if let Some((_, table)) = recent.iter().find(|(known, _)| known == distribution) {
                return table.clone();
            }
            let table = Self::new(Shape::Given(Rc::new(distribution.clone())));
            if recent.len() == MOST_RECENT {
                recent.pop_front();
            }
            recent.push_back((distribution.clone(), table.clone()));
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
    fn quantile(&self, share: f64) -> f64 {
        match self {
            Self::Lognormal { sigma } => libm::exp(sigma * inverse_normal(share)),
            Self::Given(distribution) => distribution.quantile_ns(share),
            Self::Block(sum) => sum.quantile_ns(share),
        }
    }
}

impl Sampler {
    pub(crate) fn new(latency: Latency) -> Self {
        let sigma = latency.sigma;
        let factors = (sigma > 0.0).then(|| QuantileTable::new(Shape::Lognormal { sigma }));
        let per_byte_ns = latency.per_mib.as_nanos() as f64 / f64::from(1 << 20);
        Self {
            base_ns: latency.base.as_nanos() as f64,
            per_byte_ns,
            floor: latency.floor,
            factors,
            blocks: RefCell::default(),
        }
    }

    /// One draw for a request that carries so many bytes.
    #[inline]
    pub(crate) fn draw(&self, size: ByteSize, luck: &mut Stream) -> Span {
        let factor = self.factors.as_ref().map_or(1.0, |factors| factors.value(luck.draw()));
        Span::from_nanos_f64(self.median_ns(size) * factor).max(self.floor)
    }

    /// How long so many requests of this size take, one after another.
    pub(crate) fn draw_many(&self, count: u64, size: ByteSize, luck: &mut Stream) -> Span {
        let (mut left, mut took) = (count, Span::ZERO);
        while left > 0 {
            let (done, span) = self.draw_some(left, size, luck);
            left -= done;
            took += span;
        }
        took
    }

    /// How long the next of `left` requests of this size take, one after another, and how many those are: a whole block is
    /// one draw.
    pub(crate) fn draw_some(&self, left: u64, size: ByteSize, luck: &mut Stream) -> (u64, Span) {
        if left < BLOCK {
            return (left.min(1), self.draw(size, luck));
        }
        let narrow = |shape: &Shape| matches!(shape, Shape::Lognormal { sigma } if *sigma <= WIDEST_SIGMA);
        let Some(factors) = self.factors.as_ref().filter(|factors| narrow(&factors.shape)) else {
            return (1, self.draw(size, luck));
        };
        let mut blocks = self.blocks.borrow_mut();
        if blocks.as_ref().is_none_or(|(of, _)| *of != size) {
            *blocks = Some((size, self.block(size, factors)));
        }
        let nanos = blocks.as_ref().map_or(0.0, |(_, block)| block.value(luck.draw()));
        (BLOCK, Span::from_nanos_f64(nanos))
    }

    fn block(&self, size: ByteSize, factors: &QuantileTable) -> QuantileTable {
        let Shape::Lognormal { sigma } = factors.shape else { unreachable!("factors are lognormal: `Sampler::new`") };
        let floor_ns = self.floor.as_nanos() as f64;
        QuantileTable::new(Shape::Block(Rc::new(Sum::of(Single { median_ns: self.median_ns(size), sigma, floor_ns }))))
    }

    /// Whether it matters how many bytes a request carries.
    pub(crate) fn depends_on_size(&self) -> bool {
        self.per_byte_ns > 0.0
    }

    fn median_ns(&self, size: ByteSize) -> f64 {
        // By way of a signed integer, whose conversion is one instruction.
        self.base_ns + self.per_byte_ns * size.as_bytes().cast_signed() as f64
    }
}

/// The quantile of the standard normal distribution: Newton's method on erfc (accurate to parts in 10^12), in
/// software arithmetic, so that every machine gets the same bits. The ends are cut at 9 standard deviations.
pub(crate) fn inverse_normal(share: f64) -> f64 {
    if share <= 0.0 || share >= 1.0 {
        return if share < 0.5 { -9.0 } else { 9.0 };
    }
    // By symmetry the lower half is enough, and there no digits cancel.
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

    const S3_GET: Latency =
        Latency { base: Span::from_millis(27), per_mib: Span::ZERO, sigma: 0.62, floor: Span::from_millis(10) };
    const S3_PUT: Latency = Latency {
        base: Span::from_millis(60),
        per_mib: Span::from_millis(20),
        sigma: 0.29,
        floor: Span::from_millis(10),
    };

    fn draws(latency: Latency, count: usize) -> Vec<Span> {
        let (sampler, mut luck) = (Sampler::new(latency), Stream::keyed(1, 1, 1));
        let mut draws: Vec<_> = (0..count).map(|_| sampler.draw(ByteSize::from_bytes(10 << 10), &mut luck)).collect();
        draws.sort_unstable();
        draws
    }

    /// The percentiles that part 3 prints for S3 Standard, to the millisecond it prints.
    #[test]
    fn percentiles_are_the_published_ones() {
        let percentiles = [0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99];
        let published = [
            (S3_GET, [10.0, 12.0, 18.0, 27.0, 41.0, 60.0, 75.0, 114.0]),
            (S3_PUT, [37.0, 42.0, 50.0, 60.0, 73.0, 87.0, 97.0, 118.0]),
        ];
        for (latency, expected) in published {
            let draws = draws(latency, 200_000);
            for (percentile, expected) in percentiles.iter().zip(expected) {
                let found = draws[(percentile * draws.len() as f64) as usize].as_millis_f64();
                assert!((found - expected).abs() <= 0.5 + 0.015 * expected, "{percentile}: {found}, not {expected}");
            }
        }
    }

    /// The table must be the distribution: Kolmogorov-Smirnov against the formula, far into both tails.
    #[test]
    fn draws_follow_the_lognormal_distribution() {
        let latency = Latency { floor: Span::ZERO, per_mib: Span::ZERO, ..S3_GET };
        let draws = draws(latency, 400_000);
        let cumulative = |span: Span| {
            let z = libm::log(span.as_millis_f64() / 27.0) / 0.62;
            0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2)
        };
        let count = draws.len() as f64;
        let distance = draws.iter().enumerate().map(|(n, span)| (cumulative(*span) - n as f64 / count).abs());
        // The 1 % point of the statistic is 1.63 / sqrt(n) = 0.0026.
        assert!(distance.fold(0.0, f64::max) < 0.0026);
        for share in [1e-4_f64, 1e-3, 0.999, 0.9999] {
            let found = cumulative(draws[(share * count) as usize]);
            let spread = 4.0 * (share * (1.0 - share) / count).sqrt();
            assert!((found - share).abs() < spread, "{share}: {found}");
        }
    }

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
