//! Does one distribution of latencies explain the measurement? A flat profile assumes that all attempts are alike,
//! whether they win or lose and however many writers contend, and that each takes effect half-way through its own round
//! trip. It explains the measurement if a simulated closed loop with it has the measured failure rates and the measured
//! latencies of winners and losers. The one distribution must also be a lognormal, within the distance that other fits
//! must keep (`fit.rs`).
//!
//! If so, the flat profile is preferred to distributions by outcome and number of writers with fitted holds. It has
//! fewer numbers, each from all attempts, and it gives the effect time, which the other can only bound (`hold.rs`).

use glidepath_sim::{OperationProfile, Profile};

use crate::fit::{GOOD_KS, distance, normal_below};
use crate::hold::{FailureRate, Rehearsal, of_mut};
use crate::measurement::{Measurement, Numbers};
use crate::plan::Operation;
use crate::profile::flat;

/// Failure rates differ if their difference exceeds the random error by more than this.
const RATE: f64 = 0.01;

/// Mean latencies differ if their difference exceeds the random error by more than this share.
const MEAN: f64 = 0.05;

/// The random error, in standard errors.
const ERRORS: f64 = 3.0;

/// The operation without contention, from all attempts at all numbers of writers, if it explains the measurement.
pub(crate) fn explained(
    profile: &Profile,
    operation: Operation,
    found: &[&Measurement],
    rehearsal: &Rehearsal<'_>,
) -> Option<OperationProfile> {
    let of = if operation == Operation::Append { profile.append.as_ref()? } else { &profile.conditional_put };
    if found.iter().all(|found| found.writers == 1) {
        return None;
    }
    let source = format!(
        "{}. One lognormal of all attempts explains the failure rates and latencies at every number of writers, so \
         there are no others",
        of.source.split(". ").next().unwrap_or_default()
    );
    let flat = OperationProfile { source, ..alike(found, of)? };
    (is_lognormal(&latencies(found), &flat) && explains(&flat, profile, operation, found, rehearsal)).then_some(flat)
}

/// The latencies of all attempts in milliseconds, rising.
fn latencies(found: &[&Measurement]) -> Vec<f64> {
    let mut all: Vec<f64> =
        found.iter().flat_map(|found| found.success_ms.iter().chain(&found.failure_ms)).copied().collect();
    all.sort_unstable_by(f64::total_cmp);
    all
}

/// The operation with one lognormal of all attempts.
pub(crate) fn alike(found: &[&Measurement], of: &OperationProfile) -> Option<OperationProfile> {
    let all = latencies(found);
    let (median, _, floor) = flat(&all)?;
    let sigma = upper_sigma(&all)?;
    Some(OperationProfile { median, sigma, floor, contended: Vec::new(), effect_after: None, ..of.clone() })
}

/// Whether a simulated store with this operation reproduces the measurement at every number of writers.
pub(crate) fn explains(
    flat: &OperationProfile,
    profile: &Profile,
    operation: Operation,
    found: &[&Measurement],
    rehearsal: &Rehearsal<'_>,
) -> bool {
    let mut candidate = profile.clone();
    let Some(place) = of_mut(&mut candidate, operation) else { return false };
    *place = flat.clone();
    let Some(numbers) = Numbers::of(&latencies(found)) else { return false };
    found.iter().all(|found| {
        let simulated = rehearsal.simulated(&candidate, operation, found.writers, numbers.mean * 1e6);
        simulated.is_some_and(|simulated| agree(found, &simulated))
    })
}

/// Whether these latencies (rising, in milliseconds) follow the lognormal above the floor.
fn is_lognormal(sorted: &[f64], flat: &OperationProfile) -> bool {
    let (median, floor, sigma) = (flat.median.as_millis_f64(), flat.floor.as_millis_f64(), flat.sigma.max(1e-9));
    // At the floor the share jumps: shorter draws take exactly the floor.
    let above = sorted.partition_point(|millis| *millis <= floor * (1.0 + 1e-9));
    let below = |millis: f64| normal_below((millis / median).ln() / sigma);
    let (count, beneath) = (sorted.len() as f64, above as f64);
    let of_those_above = |millis: f64| ((below(millis) * count - beneath) / (count - beneath)).clamp(0.0, 1.0);
    // The greatest distance of those above counts in proportion to their share.
    above < sorted.len() && distance(&sorted[above..], of_those_above) * (count - beneath) / count <= GOOD_KS
}

/// The deviation of the logarithm from its median, of the slower half: the faster half may have been cut off at a
/// floor.
pub(crate) fn upper_sigma(sorted: &[f64]) -> Option<f64> {
    let (median, slower) = (*sorted.get(sorted.len() / 2)?, &sorted[sorted.len() / 2..]);
    let squares: f64 = slower.iter().map(|millis| (millis / median).ln().powi(2)).sum();
    Some(((squares / slower.len() as f64).sqrt().min(5.0) * 1e4).round() / 1e4)
}

fn agree(measured: &Measurement, simulated: &Measurement) -> bool {
    let [a, b] = [measured, simulated].map(FailureRate::of);
    let rates = (a.rate - b.rate).abs() <= RATE + ERRORS * a.error.hypot(b.error);
    rates
        && same_mean(&measured.success_ms, &simulated.success_ms)
        && same_mean(&measured.failure_ms, &simulated.failure_ms)
}

/// Fewer are too few.
fn same_mean(a: &[f64], b: &[f64]) -> bool {
    let (Some((mean_a, error_a)), Some((mean_b, error_b))) = (mean(a), mean(b)) else { return true };
    (mean_a - mean_b).abs() <= MEAN * mean_b + ERRORS * error_a.hypot(error_b)
}

/// The mean and its standard error.
fn mean(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() >= 30).then(|| (mean, (squares / (count - 1.0) / count).sqrt()))
}

#[cfg(test)]
mod tests {
    use glidepath_model::Span;

    use super::*;

    fn lognormal(median: u64, sigma: f64, floor: u64) -> OperationProfile {
        let of = Profile::constant(Span::from_millis(median)).conditional_put;
        OperationProfile { sigma, floor: Span::from_millis(floor), ..of }
    }

    /// Evenly spaced quantiles.
    fn drawn(of: &OperationProfile) -> Vec<f64> {
        let share = |n: u32| (f64::from(n) + 0.5) / 5000.0;
        let latency = |n: u32| {
            let (mut low, mut high) = (-9.0, 9.0);
            for _ in 0..60 {
                let z = f64::midpoint(low, high);
                if normal_below(z) < share(n) { low = z } else { high = z }
            }
            (of.median.as_millis_f64() * (of.sigma * low).exp()).max(of.floor.as_millis_f64())
        };
        (0..5000).map(latency).collect()
    }

    #[test]
    fn the_shape_is_judged_above_the_floor() {
        let plain = lognormal(60, 0.3, 0);
        assert!(is_lognormal(&drawn(&plain), &plain));
        // A third of the attempts take exactly the floor.
        let cut = lognormal(60, 0.3, 52);
        assert!(is_lognormal(&drawn(&cut), &cut));
        assert!(!is_lognormal(&drawn(&plain), &lognormal(60, 0.2, 0)));
        // Two modes: the median and the upper half's deviation fit, the shape does not.
        let mut modes: Vec<f64> = drawn(&lognormal(40, 0.05, 0));
        modes.extend(drawn(&lognormal(90, 0.05, 0)));
        modes.sort_unstable_by(f64::total_cmp);
        let (median, sigma) = (modes[modes.len() / 2], upper_sigma(&modes).unwrap());
        let fitted = OperationProfile { median: Span::from_nanos_f64(median * 1e6), sigma, ..plain };
        assert!(!is_lognormal(&modes, &fitted));
    }
}
