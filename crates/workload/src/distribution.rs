//! Distributions of times, as written in experiment files.

use glidepath_env::DrawRng;
use glidepath_model::Span;
use rand_distr::{Distribution as _, Exp1, StandardNormal};
use serde::{Deserialize, Serialize};

/// A distribution of spans.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Distribution {
    /// Its family.
    pub kind: Shape,
    /// The value, the mean, or the median, depending on the family.
    pub scale: Span,
    /// Lognormal only: the standard deviation of the logarithm.
    #[serde(default)]
    pub sigma: f64,
    /// The minimum of all draws.
    #[serde(default)]
    pub floor: Span,
}

/// The family of a distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shape {
    /// Always `scale`.
    Fixed,
    /// Exponential with mean `scale`.
    Exponential,
    /// Lognormal with median `scale`.
    Lognormal,
    /// Lognormal with mean `scale`.
    LognormalMean,
}

impl Distribution {
    /// Its mean; with a floor, a bound below it.
    #[must_use]
    pub fn mean(&self) -> Span {
        let factor = match self.kind {
            // The mean of a lognormal is its median times exp(sigma^2 / 2).
            Shape::Lognormal => (self.sigma * self.sigma / 2.0).exp(),
            Shape::Fixed | Shape::Exponential | Shape::LognormalMean => 1.0,
        };
        Span::from_secs_f64(self.scale.as_secs_f64() * factor).max(self.floor)
    }

    /// One draw.
    pub fn sample(&self, draw: impl FnMut() -> u64) -> Span {
        let mut rng = DrawRng(draw);
        let mut lognormal = |median: f64| {
            let z: f64 = StandardNormal.sample(&mut rng);
            median * libm::exp(self.sigma * z)
        };
        let scale = self.scale.as_nanos() as f64;
        let nanos = match self.kind {
            Shape::Fixed => scale,
            Shape::Lognormal => lognormal(scale),
            // The mean of a lognormal is its median times exp(sigma^2 / 2).
            Shape::LognormalMean => lognormal(scale / libm::exp(self.sigma * self.sigma / 2.0)),
            Shape::Exponential => {
                let unit: f64 = Exp1.sample(&mut rng);
                scale * unit
            }
        };
        Span::from_nanos_f64(nanos).max(self.floor)
    }
}
