//! Which share of requests takes longer than a given time? Distributions as data, for operations that no single
//! lognormal describes: a mixture of lognormals above a floor, or the quantiles themselves.

use glidepath_model::Span;
use serde::{Deserialize, Serialize};

use crate::quantiles::inverse_normal;

/// A distribution of latencies: either a mixture or quantiles, never both.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// Of a mixture: the least latency; the lognormals describe the latency beyond it.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub floor: Span,
    /// Lognormals, each drawn from with its weight. Weights are relative.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mixture: Vec<Component>,
    /// `[share, latency]`: this share of the requests takes at most this latency. Shares go from 0 to 1, both rise;
    /// between two pairs the logarithm of the latency is linear in the share.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quantiles: Vec<(f64, Span)>,
}

/// One lognormal of a mixture.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Component {
    /// Relative to the other components' weights.
    pub weight: f64,
    /// Beyond the floor.
    pub median: Span,
    /// Standard deviation of the logarithm.
    pub sigma: f64,
}

fn is_zero(span: &Span) -> bool {
    *span == Span::ZERO
}

/// Why a distribution is invalid: field, value found, values allowed.
pub(crate) type Complaint = (&'static str, String, &'static str);

impl Distribution {
    pub(crate) fn check(&self) -> Result<(), Complaint> {
        match (self.mixture.is_empty(), self.quantiles.is_empty()) {
            (true, true) => Err(("", "neither mixture nor quantiles".to_owned(), "one of the two")),
            (false, false) => Err(("", "mixture and quantiles".to_owned(), "one of the two")),
            (false, true) => self.mixture.iter().try_for_each(|component| component.check()),
            (true, false) => self.check_quantiles(),
        }
    }

    fn check_quantiles(&self) -> Result<(), Complaint> {
        let (first, last) = (self.quantiles[0].0, self.quantiles[self.quantiles.len() - 1].0);
        if first != 0.0 || last != 1.0 {
            return Err((".quantiles", format!("shares from {first} to {last}"), "shares from 0 to 1"));
        }
        if let Some((share, _)) = self.quantiles.iter().find(|(_, span)| *span == Span::ZERO) {
            return Err((".quantiles", format!("no latency at share {share}"), "latencies above zero"));
        }
        let falls = self.quantiles.windows(2).find(|pair| pair[0].0 >= pair[1].0 || pair[0].1 > pair[1].1);
        match falls {
            Some(pair) => {
                Err((".quantiles", format!("{:?} before {:?}", pair[0], pair[1]), "rising shares and latencies"))
            }
            None => Ok(()),
        }
    }

    /// The latency in nanoseconds that this share of requests stays within.
    #[must_use]
    pub fn quantile_ns(&self, share: f64) -> f64 {
        if self.quantiles.is_empty() { self.mixture_quantile_ns(share) } else { self.interpolated_ns(share) }
    }

    /// The share of requests that take at most this number of nanoseconds.
    #[must_use]
    pub fn cumulative(&self, latency_ns: f64) -> f64 {
        if self.quantiles.is_empty() {
            let beyond = latency_ns - self.floor.as_nanos() as f64;
            return if beyond <= 0.0 { 0.0 } else { self.mixture_cumulative(libm::log(beyond)) };
        }
        let after = self.quantiles.partition_point(|(_, span)| (span.as_nanos() as f64) < latency_ns);
        if after == 0 || after == self.quantiles.len() {
            return if after == 0 { 0.0 } else { 1.0 };
        }
        let ((low, from), (high, to)) = (self.quantiles[after - 1], self.quantiles[after]);
        let (from, to) = (libm::log(from.as_nanos() as f64), libm::log(to.as_nanos() as f64));
        low + (high - low) * ((libm::log(latency_ns) - from) / (to - from).max(f64::MIN_POSITIVE)).clamp(0.0, 1.0)
    }

    /// The mean in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        if self.quantiles.is_empty() {
            let total: f64 = self.mixture.iter().map(|component| component.weight).sum();
            let mean = |component: &Component| {
                component.weight / total
                    * component.median.as_nanos() as f64
                    * libm::exp(component.sigma * component.sigma / 2.0)
            };
            return self.floor.as_nanos() as f64 + self.mixture.iter().map(mean).sum::<f64>();
        }
        let stretch = |pair: &[(f64, Span)]| {
            let (from, to) = (pair[0].1.as_nanos() as f64, pair[1].1.as_nanos() as f64);
            // The mean of a stretch whose logarithm is linear.
            let mean = if to > from { (to - from) / libm::log(to / from) } else { from };
            (pair[1].0 - pair[0].0) * mean
        };
        self.quantiles.windows(2).map(stretch).sum()
    }

    fn interpolated_ns(&self, share: f64) -> f64 {
        let after = self.quantiles.partition_point(|(known, _)| *known <= share).clamp(1, self.quantiles.len() - 1);
        let ((low, from), (high, to)) = (self.quantiles[after - 1], self.quantiles[after]);
        let (from, to) = (libm::log(from.as_nanos() as f64), libm::log(to.as_nanos() as f64));
        libm::exp(from + (to - from) * ((share - low) / (high - low)).clamp(0.0, 1.0))
    }

    /// By bisection, to parts in 10^12.
    fn mixture_quantile_ns(&self, share: f64) -> f64 {
        let ends = |component: &Component, z: f64| libm::log(component.median.as_nanos() as f64) + component.sigma * z;
        let z = inverse_normal(share);
        let of_each = || self.mixture.iter().map(|component| ends(component, z));
        // The quantile of a mixture lies between the least and the greatest of its components' quantiles.
        let (mut low, mut high) = (of_each().fold(f64::MAX, f64::min), of_each().fold(f64::MIN, f64::max));
        for _ in 0..60 {
            let middle = (low + high) / 2.0;
            if self.mixture_cumulative(middle) < share { low = middle } else { high = middle }
        }
        self.floor.as_nanos() as f64 + libm::exp((low + high) / 2.0)
    }

    fn mixture_cumulative(&self, logarithm: f64) -> f64 {
        let total: f64 = self.mixture.iter().map(|component| component.weight).sum();
        let below = |component: &Component| {
            let off = logarithm - libm::log(component.median.as_nanos() as f64);
            if component.sigma == 0.0 {
                return if off >= 0.0 { component.weight } else { 0.0 };
            }
            component.weight * 0.5 * libm::erfc(-off / component.sigma * std::f64::consts::FRAC_1_SQRT_2)
        };
        self.mixture.iter().map(below).sum::<f64>() / total
    }
}

impl Component {
    fn check(&self) -> Result<(), Complaint> {
        let (weight, sigma) = (self.weight, self.sigma);
        if !(weight > 0.0 && weight.is_finite()) {
            return Err((".mixture.weight", weight.to_string(), "above 0"));
        }
        if self.median == Span::ZERO {
            return Err((".mixture.median", "0".to_owned(), "above zero"));
        }
        if !(0.0..=5.0).contains(&sigma) {
            return Err((".mixture.sigma", sigma.to_string(), "0 to 5 (the standard deviation of the logarithm)"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mixture(parts: &[(f64, u64, f64)]) -> Distribution {
        let component = |&(weight, millis, sigma)| Component { weight, median: Span::from_millis(millis), sigma };
        Distribution {
            floor: Span::from_millis(5),
            mixture: parts.iter().map(component).collect(),
            quantiles: Vec::new(),
        }
    }

    proptest! {
        #[test]
        fn quantile_and_cumulative_are_each_others_inverse(
            parts in prop::collection::vec((0.1_f64..5.0, 1_u64..2000, 0.05_f64..2.0), 1..4),
            share in 0.001_f64..0.999,
        ) {
            let distribution = mixture(&parts);
            let found = distribution.cumulative(distribution.quantile_ns(share));
            prop_assert!((found - share).abs() < 1e-6, "{found} for {share}");
        }

        #[test]
        fn quantiles_given_are_quantiles_found(
            steps in prop::collection::vec((0.01_f64..1.0, 1_u64..500), 2..9),
        ) {
            let total: f64 = steps.iter().map(|(share, _)| share).sum();
            let (mut share, mut millis) = (0.0, 1);
            let mut quantiles = vec![(0.0, Span::from_millis(1))];
            for (step, more) in &steps {
                share += step / total;
                millis += more;
                quantiles.push((share, Span::from_millis(millis)));
            }
            let last = quantiles.len() - 1;
            quantiles[last].0 = 1.0;
            let distribution = Distribution { quantiles: quantiles.clone(), ..Distribution::default() };
            prop_assert!(distribution.check().is_ok());
            for (share, span) in quantiles {
                let found = distribution.quantile_ns(share);
                prop_assert!((found / span.as_nanos() as f64 - 1.0).abs() < 1e-9);
            }
            let numeric: f64 = (0..20_000).map(|n| distribution.quantile_ns((f64::from(n) + 0.5) / 20_000.0)).sum();
            prop_assert!((distribution.mean_ns() / (numeric / 20_000.0) - 1.0).abs() < 1e-2);
        }
    }

    #[test]
    fn what_is_no_distribution_is_told_why() {
        let falling = vec![(0.0, Span::from_millis(2)), (1.0, Span::from_millis(1))];
        let short = vec![(0.1, Span::from_millis(2)), (1.0, Span::from_millis(3))];
        for quantiles in [falling, short, Vec::new()] {
            assert!(Distribution { quantiles, ..Distribution::default() }.check().is_err());
        }
        assert!(mixture(&[(1.0, 0, 1.0)]).check().is_err());
        assert!(mixture(&[(1.0, 1, 6.0)]).check().is_err());
        assert!(mixture(&[(-1.0, 1, 1.0)]).check().is_err());
        assert!(mixture(&[(1.0, 1, 1.0), (2.0, 500, 0.1)]).check().is_ok());
    }
}
