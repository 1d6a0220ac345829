//! How long do several requests take, one after another? The distribution of a sum of latencies. With it, the step that
//! prepares a commit is one draw instead of four, and a block of reads is one draw instead of many: a validated
//! overwrite may read thousands of manifest lists.
//!
//! The distribution of each latency is put on an even grid, and the grids are convolved; that of a block with itself,
//! six times. A mass between two grid points is split so that its mean stays where it is. So the mean of the sum is
//! exact, and its standard deviation is too high by less than a hundredth (tested below).

/// The number of requests in a block.
pub(crate) const BLOCK: u64 = 1 << DOUBLINGS;

const DOUBLINGS: u32 = 6;

/// The most points of a grid.
const POINTS: usize = 1 << 11;

/// Latencies are cut at this number of standard deviations of their logarithm: one in 10^10 is longer.
const LONGEST: f64 = 6.5;

/// The grid would be too coarse for a distribution wider than this.
pub(crate) const WIDEST_SIGMA: f64 = 0.8;

/// Probabilities below this are cut off at either end.
const RARE: f64 = 1e-15;

/// A lognormal latency in nanoseconds, none shorter than the floor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Single {
    pub(crate) median_ns: f64,
    pub(crate) sigma: f64,
    pub(crate) floor_ns: f64,
}

/// The distribution of a sum.
#[derive(Clone, Debug)]
pub(crate) struct Sum {
    first_ns: f64,
    step_ns: f64,
    /// The share of sums up to each grid point, rising to 1.
    cumulative: Vec<f64>,
}

impl Sum {
    /// Of one block of such latencies.
    pub(crate) fn of_block(single: Single) -> Self {
        let one = single.masses(single.finest_step_ns());
        Self::of((0..DOUBLINGS).fold(one, |masses, _| masses.plus(&masses).within(POINTS)))
    }

    /// Of one request of each.
    pub(crate) fn of_step(singles: &[Single]) -> Self {
        let step_ns = singles.iter().map(|single| single.finest_step_ns()).fold(0.0, f64::max);
        let masses = singles.iter().map(|single| single.masses(step_ns));
        Self::of(masses.reduce(|sum, next| sum.plus(&next)).unwrap_or_else(Masses::nothing))
    }

    fn of(masses: Masses) -> Self {
        let total: f64 = masses.at.iter().sum();
        let mut sum = 0.0;
        let cumulative = masses.at.iter().map(|mass| {
            sum += mass;
            sum / total
        });
        Self { first_ns: masses.first_ns, step_ns: masses.step_ns, cumulative: cumulative.collect() }
    }

    /// In nanoseconds. Each mass is spread evenly over the step around its grid point.
    pub(crate) fn quantile_ns(&self, share: f64) -> f64 {
        let point = self.cumulative.partition_point(|up_to| *up_to < share).min(self.cumulative.len() - 1);
        let below = if point == 0 { 0.0 } else { self.cumulative[point - 1] };
        let mass = self.cumulative[point] - below;
        let place = if mass > 0.0 { ((share - below) / mass).clamp(0.0, 1.0) } else { 0.5 };
        (self.first_ns + (point as f64 + place - 0.5) * self.step_ns).max(0.0)
    }
}

impl Single {
    fn longest_ns(self) -> f64 {
        (self.median_ns * libm::exp(LONGEST * self.sigma)).max(self.floor_ns)
    }

    /// The step of the finest grid that holds it.
    fn finest_step_ns(self) -> f64 {
        self.longest_ns() / (POINTS - 1) as f64
    }

    /// Laid on a grid with this step.
    fn masses(self, step_ns: f64) -> Masses {
        let Self { median_ns, sigma, floor_ns } = self;
        // Share and mean of latencies shorter than x: integrals of a lognormal distribution in closed form.
        let below = |z: f64| 0.5 * libm::erfc(-z * std::f64::consts::FRAC_1_SQRT_2);
        let mean = median_ns * libm::exp(sigma * sigma / 2.0);
        let up_to = |x: f64| {
            if x <= floor_ns || x <= 0.0 {
                return (0.0, 0.0);
            }
            let z = libm::log(x / median_ns) / sigma;
            let floored = if floor_ns > 0.0 { libm::log(floor_ns / median_ns) / sigma } else { f64::NEG_INFINITY };
            let (share, kept) = (below(z), mean * (below(z - sigma) - below(floored - sigma)));
            (share, kept + floor_ns * below(floored))
        };
        let mut masses = Masses { first_ns: 0.0, step_ns, at: vec![0.0; POINTS] };
        let mut before = (0.0, 0.0);
        for point in 0..POINTS - 1 {
            let after = up_to((point + 1) as f64 * step_ns);
            masses.add(point as f64 * step_ns, after.0 - before.0, after.1 - before.1);
            before = after;
        }
        masses.trimmed()
    }
}

/// Probabilities on an even grid.
struct Masses {
    first_ns: f64,
    step_ns: f64,
    at: Vec<f64>,
}

impl Masses {
    /// Adds a mass of this mean (times mass) that lies between the grid point at `low` and the next.
    fn add(&mut self, low: f64, mass: f64, mean: f64) {
        let point = ((low - self.first_ns) / self.step_ns).round() as usize;
        let upper = ((mean - low * mass) / self.step_ns).clamp(0.0, mass);
        self.at[point] += mass - upper;
        if let Some(next) = self.at.get_mut(point + 1) {
            *next += upper;
        }
    }

    /// No time at all.
    fn nothing() -> Self {
        Self { first_ns: 0.0, step_ns: 1.0, at: vec![1.0] }
    }

    /// The distribution of the sum of two latencies on grids of the same step.
    fn plus(&self, other: &Self) -> Self {
        let mut at = vec![0.0; self.at.len() + other.at.len() - 1];
        for (shift, mass) in self.at.iter().enumerate() {
            for (sum, other) in at[shift..].iter_mut().zip(&other.at) {
                *sum += mass * other;
            }
        }
        Self { first_ns: self.first_ns + other.first_ns, step_ns: self.step_ns, at }.trimmed()
    }

    /// On the finest grid that has room for it.
    fn within(self, points: usize) -> Self {
        if self.at.len() <= points { self } else { self.coarsened().within(points) }
    }

    /// On every second grid point; the mass of each other point is split between its two neighbours.
    fn coarsened(&self) -> Self {
        let mut at = vec![0.0; self.at.len() / 2 + 1];
        for (point, mass) in self.at.iter().enumerate() {
            at[point / 2] += mass / 2.0;
            at[point.div_ceil(2)] += mass / 2.0;
        }
        Self { first_ns: self.first_ns, step_ns: 2.0 * self.step_ns, at }
    }

    fn trimmed(mut self) -> Self {
        let cut = |masses: &mut dyn Iterator<Item = &f64>| {
            let mut sum = 0.0;
            masses
                .take_while(|mass| {
                    sum += **mass;
                    sum < RARE
                })
                .count()
        };
        let (first, last) = (cut(&mut self.at.iter()), cut(&mut self.at.iter().rev()));
        self.at.truncate(self.at.len().saturating_sub(last).max(first + 1));
        self.at.drain(..first);
        self.first_ns += first as f64 * self.step_ns;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::luck::Stream;
    use crate::quantiles::inverse_normal;
    use glidepath_env::unit_interval;

    /// Latencies of reads of the shipped profiles, from the narrowest to the widest, and one with a floor that affects
    /// most draws.
    const SINGLES: [Single; 4] = [
        Single { median_ns: 200e6, sigma: 0.3, floor_ns: 80e6 },
        Single { median_ns: 27e6, sigma: 0.62, floor_ns: 10e6 },
        Single { median_ns: 5e6, sigma: 0.05, floor_ns: 0.0 },
        Single { median_ns: 10e6, sigma: WIDEST_SIGMA, floor_ns: 9e6 },
    ];

    fn draw(single: Single, luck: &mut Stream) -> f64 {
        let share = unit_interval(luck.draw()) + 0.5_f64.powi(54);
        (single.median_ns * libm::exp(single.sigma * inverse_normal(share))).max(single.floor_ns)
    }

    fn assert_sums(table: &Sum, mut sum: impl FnMut() -> f64, what: &str) {
        const SUMS: usize = 20_000;
        let mut sums: Vec<f64> = (0..SUMS).map(|_| sum()).collect();
        sums.sort_unstable_by(f64::total_cmp);
        let distance = sums.iter().enumerate().map(|(rank, sum)| {
            let point = ((sum - table.first_ns) / table.step_ns + 0.5).clamp(0.0, table.cumulative.len() as f64);
            let (whole, place) = (point as usize, point.fract());
            let up_to = |index: usize| index.checked_sub(1).map_or(0.0, |index| table.cumulative[index]);
            let below = up_to(whole);
            let share = below + (up_to((whole + 1).min(table.cumulative.len())) - below) * place;
            (share - rank as f64 / SUMS as f64).abs()
        });
        let distance = distance.fold(0.0, f64::max);
        // The 1 % point of the Kolmogorov-Smirnov statistic.
        assert!(distance < 1.63 / (SUMS as f64).sqrt(), "{what}: {distance}");
    }

    #[test]
    fn a_block_is_distributed_like_the_sum_of_single_draws() {
        for (number, single) in SINGLES.into_iter().enumerate() {
            let mut luck = Stream::keyed(1, 2, number as u64);
            let sum = || (0..BLOCK).map(|_| draw(single, &mut luck)).sum();
            assert_sums(&Sum::of_block(single), sum, &format!("{single:?}"));
        }
    }

    #[test]
    fn a_step_is_distributed_like_the_sum_of_single_draws() {
        let [gcs, s3, narrow, floored] = SINGLES;
        // Azure Standard's, whose floor is a sixth of the reads and a twentieth of the writes.
        let read = Single { median_ns: 38e6, sigma: 0.66, floor_ns: 20e6 };
        let write = Single { median_ns: 45e6, sigma: 0.5, floor_ns: 20e6 };
        let steps = [vec![read, read, write, write], vec![s3, s3, narrow], vec![gcs, s3], vec![floored, floored, s3]];
        for (number, step) in steps.into_iter().enumerate() {
            let mut luck = Stream::keyed(1, 3, number as u64);
            let sum = || step.iter().map(|single| draw(*single, &mut luck)).sum();
            assert_sums(&Sum::of_step(&step), sum, &format!("{step:?}"));
        }
    }

    #[test]
    fn mean_and_deviation_are_those_of_the_sum() {
        for single in SINGLES.map(|single| Single { floor_ns: 0.0, ..single }) {
            let variance = libm::exp(single.sigma * single.sigma);
            let mean = single.median_ns * variance.sqrt() * BLOCK as f64;
            let deviation = mean * ((variance - 1.0) / BLOCK as f64).sqrt();
            let table = Sum::of_block(single);
            let quantiles = (0..100_000).map(|n| table.quantile_ns((f64::from(n) + 0.5) / 1e5)).collect::<Vec<_>>();
            let found = quantiles.iter().sum::<f64>() / 1e5;
            let spread = (quantiles.iter().map(|value| (value - found).powi(2)).sum::<f64>() / 1e5).sqrt();
            assert!((found / mean - 1.0).abs() < 0.001, "{single:?}: mean {found}, not {mean}");
            assert!((spread / deviation - 1.0).abs() < 0.01, "{single:?}: deviation {spread}, not {deviation}");
        }
    }
}
