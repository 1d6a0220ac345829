//! Figures that several reports share.

use serde::{Deserialize, Serialize};

/// A quantile: linear between the two nearest ranks, the first value being at 0 and the last at 1 (definition 7 of
/// Hyndman and Fan, "Sample Quantiles in Statistical Packages", The American Statistician 50, 1996). Percentiles
/// of simulations and measurements are computed this way; those of benchmarks are the nearest rank.
///
/// # Panics
/// Without any value.
#[must_use]
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    quantile_by(sorted, share, |value| *value)
}

/// The same of values of another type.
///
/// # Panics
/// Without any value.
#[must_use]
pub fn quantile_by<T>(sorted: &[T], share: f64, value: impl Fn(&T) -> f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (value(&sorted[place as usize]), value(&sorted[place.ceil() as usize]));
    below + (above - below) * place.fract()
}

/// Mean and standard deviation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The mean.
    pub mean: f64,
    /// The standard deviation of a sample (n - 1); absent for a single value.
    pub deviation: Option<f64>,
}

impl Spread {
    /// Of these values; `None` if there are none.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect();
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        let deviation = (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt());
        (!values.is_empty()).then_some(Self { mean, deviation })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_linear_between_ranks() {
        let sorted = [1.0, 2.0, 4.0, 8.0];
        let found = [0.0, 0.5, 1.0, 1.0 / 3.0, 0.9].map(|share| quantile(&sorted, share));
        assert_eq!(found[..4], [1.0, 3.0, 8.0, 2.0]);
        assert!((found[4] - 6.8).abs() < 1e-9);
        assert_eq!(quantile(&[5.0], 0.99), 5.0);
    }

    #[test]
    fn a_spread_is_mean_and_sample_deviation() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([3.0]), Some(Spread { mean: 3.0, deviation: None }));
        let spread = Spread::of([1.0, 2.0, 3.0]).unwrap();
        assert_eq!((spread.mean, spread.deviation), (2.0, Some(1.0)));
    }
}
