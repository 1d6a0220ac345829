//! How long does one request take, and how long do several take, one after another?
//!
//! A busy run draws a latency some hundred million times (a validated overwrite may read thousands of manifest lists).
//! So distributions are tables of their quantiles ([`crate::quantiles`]), and several requests are one draw.

use std::cell::RefCell;

use glidepath_model::{ByteSize, Span};

use crate::luck::Stream;
use crate::quantiles::{QuantileTable, Quantity};
use crate::sum::{BLOCK, Single, WIDEST_SIGMA};

/// The distribution of one operation's round trip: `max(floor, (base + per_mib x MiB) x exp(sigma x Z))` with Z
/// standard normal, as in the published model (part 3, "Distribution Parameters"). Sigma 0 makes it a constant.
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

/// A latency ready for drawing.
#[derive(Clone, Debug)]
pub(crate) struct Sampler {
    base_ns: f64,
    per_byte_ns: f64,
    floor: Span,
    sigma: f64,
    /// exp(sigma x Z); absent where sigma is 0.
    factors: Option<QuantileTable>,
    /// Blocks of requests of the size last requested; built when first needed.
    blocks: RefCell<Option<(ByteSize, QuantileTable)>>,
}

impl Sampler {
    pub(crate) fn new(latency: Latency) -> Self {
        let sigma = latency.sigma;
        let factors = (sigma > 0.0).then(|| QuantileTable::of(Quantity::Lognormal { sigma }));
        let per_byte_ns = latency.per_mib.as_nanos() as f64 / f64::from(1 << 20);
        Self {
            base_ns: latency.base.as_nanos() as f64,
            per_byte_ns,
            floor: latency.floor,
            sigma,
            factors,
            blocks: RefCell::default(),
        }
    }

    /// One draw for a request of this size.
    #[inline]
    pub(crate) fn draw(&self, size: ByteSize, luck: &mut Stream) -> Span {
        let factor = self.factors.as_ref().map_or(1.0, |factors| factors.value(luck.draw()));
        Span::from_nanos_f64(self.median_ns(size) * factor).max(self.floor)
    }

    /// How long `count` requests of this size take, one after another.
    pub(crate) fn draw_many(&self, count: u64, size: ByteSize, luck: &mut Stream) -> Span {
        let (mut left, mut took) = (count, Span::ZERO);
        while left > 0 {
            let (done, span) = self.draw_some(left, size, luck);
            left -= done;
            took += span;
        }
        took
    }

    /// Draws the time of the next of `left` successive requests of this size, and returns how many the draw covers: a
    /// whole block is one draw.
    pub(crate) fn draw_some(&self, left: u64, size: ByteSize, luck: &mut Stream) -> (u64, Span) {
        if left < BLOCK {
            return (left.min(1), self.draw(size, luck));
        }
        let Some(single) = self.single(size) else { return (1, self.draw(size, luck)) };
        let mut blocks = self.blocks.borrow_mut();
        if blocks.as_ref().is_none_or(|(of, _)| *of != size) {
            *blocks = Some((size, QuantileTable::of(Quantity::Block(single))));
        }
        let nanos = blocks.as_ref().map_or(0.0, |(_, block)| block.value(luck.draw()));
        (BLOCK, Span::from_nanos_f64(nanos))
    }

    /// One such request as a part of a sum. `None` if a table of the sum would be useless or too coarse.
    pub(crate) fn single(&self, size: ByteSize) -> Option<Single> {
        let Self { sigma, floor, .. } = *self;
        let single = Single { median_ns: self.median_ns(size), sigma, floor_ns: floor.as_nanos() as f64 };
        (sigma > 0.0 && sigma <= WIDEST_SIGMA && single.median_ns > 0.0).then_some(single)
    }

    /// Whether it matters how many bytes a request carries.
    pub(crate) fn depends_on_size(&self) -> bool {
        self.per_byte_ns > 0.0
    }

    fn median_ns(&self, size: ByteSize) -> f64 {
        // Converted through a signed integer, which takes one instruction.
        self.base_ns + self.per_byte_ns * size.as_bytes().cast_signed() as f64
    }
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
}
