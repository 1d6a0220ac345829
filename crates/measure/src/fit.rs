//! Which distribution do latencies follow? A lognormal, a gamma, and mixtures of lognormals above a floor, each with
//! its distance from the data (Kolmogorov-Smirnov).

use std::borrow::Cow;

use glidepath_model::Span;
use glidepath_run::statistics::quantile;
use glidepath_sim::{Component, Distribution};
use statrs::function::erf::erfc;
use statrs::function::gamma::{digamma, gamma_lr};

use crate::measurement::Measurement;

/// A fit with at most this distance may replace the data.
pub const GOOD_KS: f64 = 0.05;

/// With more components a mixture only follows the noise.
const MOST_COMPONENTS: usize = 8;

/// The number of quantiles to which a mixture is fitted: they give distances to a thousandth.
const POINTS: usize = 1000;

/// Of more latencies, this number of evenly spaced ranks is used; this changes a distance by less than 10^-4.
const MOST_JUDGED: usize = 10_000;

/// A distribution fitted to latencies.
#[derive(Clone, Debug, PartialEq)]
pub enum Fit {
    /// Of the logarithm of milliseconds.
    Lognormal {
        /// Mean of the logarithm.
        mu: f64,
        /// Its standard deviation.
        sigma: f64,
    },
    /// Of milliseconds.
    Gamma {
        /// Without unit.
        shape: f64,
        /// In milliseconds.
        scale: f64,
    },
    /// Lognormals above a floor.
    Mixture(Distribution),
}

/// The fits to one list of latencies, each with its distance.
#[derive(Clone, Debug)]
pub struct Fits {
    /// Maximum likelihood.
    pub lognormal: (Fit, f64),
    /// Maximum likelihood.
    pub gamma: (Fit, f64),
    /// The fewest components within half of [`GOOD_KS`], otherwise the nearest.
    pub mixture: (Distribution, f64),
}

impl Fit {
    /// The share of latencies up to this number of milliseconds.
    #[must_use]
    pub fn cumulative(&self, millis: f64) -> f64 {
        match self {
            _ if millis <= 0.0 => 0.0,
            Self::Lognormal { mu, sigma } => normal_below((millis.ln() - mu) / sigma.max(1e-9)),
            Self::Gamma { shape, scale } => gamma_lr(*shape, millis / scale),
            Self::Mixture(distribution) => distribution.cumulative(millis * 1e6),
        }
    }
}

impl Fits {
    /// The fits to rising latencies in milliseconds; `None` for fewer than 10, which are too few.
    #[must_use]
    pub fn of(sorted: &[f64]) -> Option<Self> {
        if sorted.len() < 10 || sorted[0] <= 0.0 {
            return None;
        }
        let sorted = &thinned(sorted);
        let judged = |fit: Fit| {
            let distance = distance(sorted, |millis| fit.cumulative(millis));
            (fit, distance)
        };
        Some(Self { lognormal: judged(lognormal(sorted)), gamma: judged(gamma(sorted)), mixture: best_mixture(sorted) })
    }

    /// The distribution that replaces the data: the mixture, or the data's own quantiles if no mixture is near enough.
    #[must_use]
    pub fn chosen(&self, sorted: &[f64]) -> Distribution {
        if self.mixture.1 <= GOOD_KS { self.mixture.0.clone() } else { own_quantiles(sorted) }
    }
}

/// A measurement with the fits to its latencies. Fitting takes most of the time of a report, so report and profile
/// share the result.
#[derive(Clone, Debug)]
pub struct Fitted<'a> {
    /// What was measured.
    pub measurement: &'a Measurement,
    /// Fits to the latencies of successes; `None` if they are too few.
    pub success: Option<Fits>,
    /// Fits to those of failures.
    pub failure: Option<Fits>,
}

impl<'a> Fitted<'a> {
    /// Fits each of these measurements.
    #[must_use]
    pub fn all(measurements: &'a [Measurement]) -> Vec<Self> {
        measurements.iter().map(Self::of).collect()
    }

    fn of(measurement: &'a Measurement) -> Self {
        let Measurement { success_ms, failure_ms, .. } = measurement;
        Self { measurement, success: Fits::of(success_ms), failure: Fits::of(failure_ms) }
    }

    /// The distributions that replace the latencies of successes and of failures.
    pub(crate) fn chosen(&self) -> Latencies {
        let of = |fits: Option<&Fits>, sorted: &[f64]| {
            let chosen = || fits.map_or_else(|| own_quantiles(sorted), |fits| fits.chosen(sorted));
            (!sorted.is_empty()).then(chosen)
        };
        Latencies {
            success: of(self.success.as_ref(), &self.measurement.success_ms),
            failure: of(self.failure.as_ref(), &self.measurement.failure_ms),
        }
    }
}

/// The distributions that replace the measured latencies; `None` if there are none.
pub(crate) struct Latencies {
    pub(crate) success: Option<Distribution>,
    pub(crate) failure: Option<Distribution>,
}

impl Latencies {
    /// The quantiles of the measured latencies.
    pub(crate) fn quantiles(measurement: &Measurement) -> Self {
        let of = |sorted: &[f64]| (!sorted.is_empty()).then(|| own_quantiles(sorted));
        Self { success: of(&measurement.success_ms), failure: of(&measurement.failure_ms) }
    }
}

fn thinned(sorted: &[f64]) -> Cow<'_, [f64]> {
    if sorted.len() <= MOST_JUDGED {
        return sorted.into();
    }
    (0..MOST_JUDGED).map(|n| sorted[n * (sorted.len() - 1) / (MOST_JUDGED - 1)]).collect()
}

/// The standard deviation of the logarithm of latencies that rise; 0 for fewer than 10.
pub(crate) fn sigma(sorted: &[f64]) -> f64 {
    match lognormal(&thinned(sorted)) {
        Fit::Lognormal { sigma, .. } if sorted.len() >= 10 && sorted[0] > 0.0 => sigma,
        _ => 0.0,
    }
}

/// The quantiles of latencies in milliseconds that rise. There must be at least one.
#[must_use]
pub(crate) fn own_quantiles(sorted: &[f64]) -> Distribution {
    const SHARES: [f64; 19] =
        [0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95, 0.975, 0.99, 0.995, 0.999, 1.0];
    let span = |millis: f64| Span::from_nanos_f64((millis * 1e6).max(1.0));
    let quantiles = SHARES.iter().map(|share| (*share, span(quantile(sorted, *share)))).collect();
    Distribution { quantiles, ..Distribution::default() }
}

/// The greatest difference between the data's share and the distribution's: the Kolmogorov-Smirnov statistic.
pub(crate) fn distance(sorted: &[f64], cumulative: impl Fn(f64) -> f64) -> f64 {
    let count = sorted.len() as f64;
    let mut greatest: f64 = 0.0;
    for (rank, millis) in sorted.iter().enumerate() {
        let share = cumulative(*millis);
        greatest = greatest.max((share - rank as f64 / count).abs()).max(((rank + 1) as f64 / count - share).abs());
    }
    greatest
}

pub(crate) fn normal_below(z: f64) -> f64 {
    0.5 * erfc(-z * std::f64::consts::FRAC_1_SQRT_2)
}

fn lognormal(sorted: &[f64]) -> Fit {
    let count = sorted.len() as f64;
    let mu = sorted.iter().map(|millis| millis.ln()).sum::<f64>() / count;
    let variance = sorted.iter().map(|millis| (millis.ln() - mu).powi(2)).sum::<f64>() / count;
    Fit::Lognormal { mu, sigma: variance.sqrt() }
}

/// Maximum likelihood: Newton's method on ln(shape) - digamma(shape) = ln(mean) - mean(ln), from the usual start
/// (Minka, "Estimating a Gamma distribution", 2002).
fn gamma(sorted: &[f64]) -> Fit {
    let count = sorted.len() as f64;
    let mean = sorted.iter().sum::<f64>() / count;
    let gap = (mean.ln() - sorted.iter().map(|millis| millis.ln()).sum::<f64>() / count).max(1e-9);
    let mut shape = (3.0 - gap + ((gap - 3.0).powi(2) + 24.0 * gap).sqrt()) / (12.0 * gap);
    for _ in 0..20 {
        let step = 1e-5 * shape;
        let miss = |shape: f64| shape.ln() - digamma(shape) - gap;
        let slope = (miss(shape + step) - miss(shape - step)) / (2.0 * step);
        shape = (shape - miss(shape) / slope).clamp(shape / 2.0, shape * 2.0);
    }
    Fit::Gamma { shape, scale: mean / shape }
}

fn best_mixture(sorted: &[f64]) -> (Distribution, f64) {
    // Just below the least, so that its logarithm above the floor is finite.
    let floor = sorted[0] - (0.02 * (quantile(sorted, 0.5) - sorted[0])).max(0.001 * sorted[0]);
    let points = POINTS.min(sorted.len());
    let logarithms: Vec<f64> =
        (0..points).map(|n| (quantile(sorted, (n as f64 + 0.5) / points as f64) - floor).max(1e-6).ln()).collect();
    let judge = |normals: &[Normal]| {
        let mixture = distribution(floor, normals);
        let distance = distance(sorted, |millis| mixture.cumulative(millis * 1e6));
        (mixture, distance)
    };
    let mut normals = expectation_maximisation(&logarithms, equal_parts(&logarithms, 1));
    let mut best = judge(&normals);
    for count in 2..=MOST_COMPONENTS {
        if best.1 <= GOOD_KS / 2.0 {
            break;
        }
        // Two starts, because either may end in a local optimum: equal parts of the data, and one more component where
        // the last mixture is farthest off.
        let afresh = expectation_maximisation(&logarithms, equal_parts(&logarithms, count));
        let mended = expectation_maximisation(&logarithms, one_more(&logarithms, &normals));
        let (fresh, mend) = (judge(&afresh), judge(&mended));
        let better = if fresh.1 < mend.1 { (afresh, fresh) } else { (mended, mend) };
        normals = better.0;
        if better.1.1 < best.1 {
            best = better.1;
        }
    }
    best
}

/// One normal of a mixture of logarithms.
#[derive(Clone, Copy, Debug)]
struct Normal {
    weight: f64,
    mean: f64,
    deviation: f64,
}

fn distribution(floor: f64, normals: &[Normal]) -> Distribution {
    let component = |normal: &Normal| Component {
        weight: round(normal.weight),
        median: four_digits(normal.mean.exp()),
        sigma: round(normal.deviation),
    };
    Distribution {
        floor: Span::from_nanos_f64((floor * 1e6).floor()),
        mixture: normals.iter().filter(|normal| normal.weight > 1e-4).map(component).collect(),
        quantiles: Vec::new(),
    }
}

/// Milliseconds with four significant digits.
fn four_digits(millis: f64) -> Span {
    let nanos = (millis * 1e6).max(1.0);
    let unit = 10_f64.powf((nanos.log10().floor() - 3.0).max(0.0));
    Span::from_nanos_f64((nanos / unit).round() * unit)
}

/// Five digits after the decimal point: more would be noise.
fn round(value: f64) -> f64 {
    (value * 1e5).round() / 1e5
}

fn spread(sorted: &[f64]) -> f64 {
    (sorted[sorted.len() - 1] - sorted[0]).max(1e-3)
}

/// A component narrower than this fits a single value only.
fn narrowest(sorted: &[f64]) -> f64 {
    spread(sorted) / 500.0
}

fn equal_parts(sorted: &[f64], count: usize) -> Vec<Normal> {
    let part = |n: usize| &sorted[n * sorted.len() / count..(n + 1) * sorted.len() / count];
    (0..count).map(|n| moments(part(n), narrowest(sorted), 1.0 / count as f64)).collect()
}

/// With a narrow component where the mixture is farthest from the data.
fn one_more(sorted: &[f64], normals: &[Normal]) -> Vec<Normal> {
    let below = |at: f64| -> f64 {
        normals.iter().map(|normal| normal.weight * normal_below((at - normal.mean) / normal.deviation)).sum()
    };
    let off = |rank: usize| ((rank as f64 + 0.5) / sorted.len() as f64 - below(sorted[rank])).abs();
    let farthest = (0..sorted.len()).max_by(|a, b| off(*a).total_cmp(&off(*b))).unwrap_or(0);
    let few = sorted.len().div_ceil(20);
    let near = &sorted[farthest.saturating_sub(few)..(farthest + few).min(sorted.len())];
    let mut more: Vec<Normal> =
        normals.iter().map(|normal| Normal { weight: normal.weight * 0.9, ..*normal }).collect();
    more.push(moments(near, narrowest(sorted), 0.1));
    more
}

/// Expectation-maximisation from this start: the same data give the same mixture.
fn expectation_maximisation(sorted: &[f64], mut normals: Vec<Normal>) -> Vec<Normal> {
    let (spread, narrowest, count) = (spread(sorted), narrowest(sorted), normals.len());
    let mut shares = vec![0.0; sorted.len() * count];
    for _ in 0..200 {
        for (point, shares) in sorted.iter().zip(shares.chunks_mut(count)) {
            for (share, normal) in shares.iter_mut().zip(&normals) {
                let z = (point - normal.mean) / normal.deviation;
                *share = normal.weight / normal.deviation * (-0.5 * z * z).exp();
            }
            let total: f64 = shares.iter().sum();
            if total > 0.0 {
                shares.iter_mut().for_each(|share| *share /= total);
            } else {
                shares.fill(1.0 / count as f64);
            }
        }
        let mut moved: f64 = 0.0;
        for (index, normal) in normals.iter_mut().enumerate() {
            let of = || sorted.iter().zip(shares.iter().skip(index).step_by(count));
            let weight: f64 = of().map(|(_, share)| share).sum::<f64>().max(1e-12);
            let mean = of().map(|(point, share)| point * share).sum::<f64>() / weight;
            let variance = of().map(|(point, share)| (point - mean).powi(2) * share).sum::<f64>() / weight;
            moved = moved.max((mean - normal.mean).abs() / spread);
            *normal = Normal { weight: weight / sorted.len() as f64, mean, deviation: variance.sqrt().max(narrowest) };
        }
        if moved < 1e-5 {
            break;
        }
    }
    normals
}

fn moments(values: &[f64], narrowest: f64, weight: f64) -> Normal {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    Normal { weight, mean, deviation: variance.sqrt().max(narrowest) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(distribution: &Distribution, count: usize) -> Vec<f64> {
        (0..count).map(|n| distribution.quantile_ns((n as f64 + 0.5) / count as f64) / 1e6).collect()
    }

    fn lognormals(floor: u64, parts: &[(f64, u64, f64)]) -> Distribution {
        let component = |&(weight, millis, sigma)| Component { weight, median: Span::from_millis(millis), sigma };
        Distribution {
            floor: Span::from_millis(floor),
            mixture: parts.iter().map(component).collect(),
            quantiles: Vec::new(),
        }
    }

    #[test]
    fn a_lognormal_is_found_again() {
        let data = drawn(&lognormals(0, &[(1.0, 60, 0.3)]), 5000);
        let fits = Fits::of(&data).unwrap();
        let (Fit::Lognormal { mu, sigma }, distance) = fits.lognormal else { panic!("not a lognormal") };
        assert!((mu - 60.0_f64.ln()).abs() < 0.01 && (sigma - 0.3).abs() < 0.01 && distance < 0.01);
    }

    #[test]
    fn a_gamma_is_found_again() {
        // The quantiles of a gamma of shape 1 are those of an exponential.
        let data: Vec<f64> = (0..5000).map(|n| -20.0 * (1.0 - (f64::from(n) + 0.5) / 5000.0).ln()).collect();
        let (Fit::Gamma { shape, scale }, distance) = Fits::of(&data).unwrap().gamma else { panic!("not a gamma") };
        assert!(
            (shape - 1.0).abs() < 0.02 && (scale - 20.0).abs() < 0.5 && distance < 0.01,
            "{shape} {scale} {distance}"
        );
    }

    /// Three distant modes, as of a store that retries internally: one lognormal is far off, a mixture is not.
    #[test]
    fn modes_far_apart_are_found_again() {
        let data = drawn(&lognormals(4, &[(6.0, 4, 0.3), (3.0, 500, 0.05), (1.0, 3500, 0.02)]), 5000);
        let fits = Fits::of(&data).unwrap();
        assert!(fits.lognormal.1 > 0.2, "{}", fits.lognormal.1);
        assert!(fits.mixture.1 < 0.03, "{:?}", fits.mixture);
        assert_eq!(fits.chosen(&data), fits.mixture.0);
        let found = fits.mixture.0.quantile_ns(0.5) / 1e6;
        assert!((found / quantile(&data, 0.5) - 1.0).abs() < 0.1, "{found}");
    }

    #[test]
    fn no_data_makes_it_fail() {
        for data in [vec![], vec![1.0; 9], vec![5.0; 100], vec![0.0; 100]] {
            let Some(fits) = Fits::of(&data) else { continue };
            assert!(fits.chosen(&data).quantile_ns(0.5).is_finite(), "{data:?}");
        }
    }
}
