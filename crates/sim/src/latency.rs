//! How long one request takes: a distribution, compiled so that a draw costs a few nanoseconds.

use glidepath_env::DrawRng;
use glidepath_model::{ByteSize, Span};
use rand_distr::{Distribution, StandardNormal};

use crate::luck::Stream;

/// The distribution of one operation's round trip.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Latency {
    /// Always the same.
    Fixed(Span),
    /// Lognormal around a median that grows with the size: `max(floor, (base + per_mib x MiB) x exp(sigma x Z))`, as in
    /// the published model (part 3, "Distribution Parameters").
    Lognormal {
        /// The median for an empty object.
        base: Span,
        /// What each MiB adds to the median.
        per_mib: Span,
        /// Standard deviation of the logarithm; not negative.
        sigma: f64,
        /// No draw is shorter.
        floor: Span,
    },
}

impl Latency {
    /// One draw for a request that carries so many bytes.
    #[must_use]
    pub fn draw(&self, size: ByteSize, luck: &mut Stream) -> Span {
        match *self {
            Self::Fixed(span) => span,
            Self::Lognormal { base, per_mib, sigma, floor } => {
                let median = base.as_nanos() as f64 + per_mib.as_nanos() as f64 * size.as_mib_f64();
                let z: f64 = StandardNormal.sample(&mut DrawRng(|| luck.draw()));
                // libm's `exp`, not the platform's: the same bits on every machine.
                Span::from_nanos_f64(median * libm::exp(sigma * z)).max(floor)
            }
        }
    }

    /// The median for requests of this size.
    #[must_use]
    pub fn median(&self, size: ByteSize) -> Span {
        match *self {
            Self::Fixed(span) => span,
            Self::Lognormal { base, per_mib, floor, .. } => {
                let median = base.as_nanos() as f64 + per_mib.as_nanos() as f64 * size.as_mib_f64();
                Span::from_nanos_f64(median).max(floor)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The percentiles that part 3 prints for S3 Standard, to the millisecond it prints.
    #[test]
    fn percentiles_are_the_published_ones() {
        let get = Latency::Lognormal {
            base: Span::from_millis(27),
            per_mib: Span::ZERO,
            sigma: 0.62,
            floor: Span::from_millis(10),
        };
        let put = Latency::Lognormal {
            base: Span::from_millis(60),
            per_mib: Span::from_millis(20),
            sigma: 0.29,
            floor: Span::from_millis(10),
        };
        let percentiles = [0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95, 0.99];
        let published = [
            (get, 10, [10.0, 12.0, 18.0, 27.0, 41.0, 60.0, 75.0, 114.0]),
            (put, 10, [37.0, 42.0, 50.0, 60.0, 73.0, 87.0, 97.0, 118.0]),
        ];
        for (latency, kib, expected) in published {
            let mut luck = Stream::keyed(1, 1, 1);
            let size = ByteSize::from_bytes(kib << 10);
            let mut draws: Vec<_> = (0..200_000).map(|_| latency.draw(size, &mut luck)).collect();
            draws.sort_unstable();
            for (percentile, expected) in percentiles.iter().zip(expected) {
                let found = draws[(percentile * draws.len() as f64) as usize].as_millis_f64();
                assert!((found - expected).abs() <= 0.5 + 0.015 * expected, "{percentile}: {found}, not {expected}");
            }
        }
    }
}
