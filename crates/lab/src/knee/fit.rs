//! Which curve does success follow over loads, and where does it cross the threshold?
//!
//! The logarithm of the odds of failure is assumed to be a line over that of the load (logistic regression of the
//! counts, by maximum likelihood: McCullagh and Nelder, "Generalized Linear Models", 1989, chapter 4). Two loads 2 %
//! apart do not determine the slope. So the range of loads is widened until the slope is known to a fifth, or there are
//! no more loads; and the slope has a normal prior, which is weak compared with some hundred failures. It is centred at
//! 4: a transaction with four retries fails if five attempts do, and the odds of failure rise about with the fourth or
//! fifth power of the load.

use std::ops::RangeInclusive;

/// A load, with its deciding transactions and failures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LoadCounts {
    pub(super) load: f64,
    pub(super) ended: f64,
    pub(super) failed: f64,
}

/// The factor by which the odds of failure of an unfinished (hopeless) load exceed those that the threshold allows.
pub(super) const FAR_ODDS: f64 = 3.0;

/// Least and greatest slope.
pub(super) const SLOPE: (f64, f64) = (0.5, 2000.0);

/// Mean and standard deviation of the slope's prior.
const PRIOR: (f64, f64) = (4.0, 4.0);

/// The curve uses loads in the bracket, and beyond it by the first of these factors that determines the slope.
const RANGES: [f64; 4] = [1.06, 1.15, 1.35, 2.0];

/// The relative standard error of the slope that is small enough.
const SLOPE_ERROR: f64 = 0.2;

/// Steps of the iteration, each of which doubles the correct digits.
const STEPS: usize = 40;

/// The logarithm of the odds of failure as a line over that of the load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit {
    /// The logarithm of the load at which the level applies.
    centre: f64,
    level: f64,
    slope: f64,
    /// Variances of level and slope, and their covariance.
    variance: [f64; 3],
}

fn odds_of_failure(threshold: f64) -> f64 {
    ((1.0 - threshold) / threshold).ln()
}

impl Fit {
    /// The fit to the loads around a bracket, and the range of these loads.
    pub(super) fn around(
        (holds, fails): (f64, f64),
        points: &[LoadCounts],
        threshold: f64,
    ) -> (Self, RangeInclusive<f64>) {
        let of = |by: f64| {
            let range = holds / by..=fails * by;
            let near: Vec<LoadCounts> = points.iter().filter(|point| range.contains(&point.load)).copied().collect();
            (Self::of(&near, holds, threshold), range)
        };
        let mut found = of(RANGES[0]);
        for by in &RANGES[1..] {
            if found.0.variance[1].sqrt() <= SLOPE_ERROR * found.0.slope {
                break;
            }
            found = of(*by);
        }
        found
    }

    /// The fit to these points.
    pub(super) fn of(points: &[LoadCounts], about: f64, threshold: f64) -> Self {
        let weight: f64 = points.iter().map(|point| point.ended).sum();
        let centre = points.iter().map(|point| point.ended * point.load.ln()).sum::<f64>() / weight;
        let centre = if centre.is_finite() { centre } else { about.ln() };
        let (mut level, mut slope) = (odds_of_failure(threshold), PRIOR.0);
        let mut variance = [f64::INFINITY, PRIOR.1 * PRIOR.1, 0.0];
        for _ in 0..STEPS {
            // Newton's method; the information is that of the counts and of the prior. Half a failure at the level
            // keeps it finite.
            let (mut gradient, mut information) = ([0.0; 2], [1e-6, 0.0, PRIOR.1.powi(-2)]);
            gradient[1] += (PRIOR.0 - slope) * PRIOR.1.powi(-2);
            for point in points {
                let x = point.load.ln() - centre;
                let share = 1.0 / (1.0 + (-(level + slope * x)).exp());
                let (off, weight) = (point.failed - point.ended * share, point.ended * share * (1.0 - share));
                gradient[0] += off;
                gradient[1] += off * x;
                information[0] += weight;
                information[1] += weight * x;
                information[2] += weight * x * x;
            }
            // Half a failure and half a success (Jeffreys): without any failure, the level would fall for ever.
            let share = 1.0 / (1.0 + (-level).exp());
            gradient[0] += 0.5 - share;
            information[0] += share * (1.0 - share);
            let determinant = information[0] * information[2] - information[1] * information[1];
            let step = [
                (information[2] * gradient[0] - information[1] * gradient[1]) / determinant,
                (information[0] * gradient[1] - information[1] * gradient[0]) / determinant,
            ];
            level += step[0].clamp(-1.0, 1.0);
            slope = (slope + step[1].clamp(-2.0 - slope, 2.0 + slope)).clamp(SLOPE.0, SLOPE.1);
            variance = [information[2] / determinant, information[0] / determinant, -information[1] / determinant];
        }
        Self { centre, level, slope, variance }
    }

    /// Where the line crosses the threshold, as a logarithm.
    pub(super) fn root(&self, threshold: f64) -> f64 {
        self.centre + (odds_of_failure(threshold) - self.level) / self.slope
    }

    /// Its standard error for independent transactions (the delta method).
    pub(super) fn error_of_root(&self, threshold: f64) -> f64 {
        let off = self.root(threshold) - self.centre;
        let [level, slope, both] = self.variance;
        (level + off * off * slope + 2.0 * off * both).max(0.0).sqrt() / self.slope
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(load: f64, ended: f64, failed: f64) -> LoadCounts {
        LoadCounts { load, ended, failed }
    }

    #[test]
    fn the_line_of_exact_counts_is_found() {
        let share = |load: f64| 1.0 / (1.0 + (-(0.05_f64 / 0.95).ln() - 6.0 * load.ln()).exp());
        let points: Vec<LoadCounts> = [0.9, 0.97, 1.03, 1.1].map(|load| at(load, 1e6, 1e6 * share(load))).into();
        let fit = Fit::of(&points, 1.0, 0.95);
        assert!((fit.slope - 6.0).abs() < 1e-2 && fit.root(0.95).abs() < 1e-4, "{fit:?}");
        // Of 4 million, 0.0475 each: a standard error of 0.0023 of the level, which the slope divides.
        assert!((fit.error_of_root(0.95) / 0.00038 - 1.0).abs() < 0.1, "{}", fit.error_of_root(0.95));
    }

    #[test]
    fn a_slope_that_two_near_loads_do_not_tell_is_the_usual_one() {
        let fit = Fit::of(&[at(1.0, 300.0, 20.0), at(1.02, 300.0, 12.0)], 1.0, 0.95);
        assert!((2.0..5.0).contains(&fit.slope), "success rises with the load by chance: {fit:?}");
        let none = Fit::of(&[at(1.0, 1000.0, 0.0)], 1.0, 0.95);
        assert!(none.level.is_finite() && none.root(0.95) > 0.0, "{none:?}");
    }

    #[test]
    fn a_wider_range_is_taken_until_the_slope_is_known() {
        let points = [at(0.8, 1e4, 200.0), at(0.99, 1e4, 480.0), at(1.01, 1e4, 520.0), at(1.2, 1e4, 1000.0)];
        assert!(Fit::around((0.99, 1.01), &points, 0.95).1.contains(&1.2));
        let many = points.map(|point| at(point.load, 1e4 * point.ended, 1e4 * point.failed));
        assert!(!Fit::around((0.99, 1.01), &many, 0.95).1.contains(&1.2));
    }
}
