//! Does one distribution of latencies explain all that writers did to each other? Where attempts are all alike, whoever wins and
//! however many contend, and each takes effect half-way through its own round trip, a flat profile says it: with that, a simulated
//! closed loop has the failure rates that were measured, and winners and losers take as long as they did.
//!
//! Where it does, it is preferred to distributions by outcome and count with fitted holds: it has fewer numbers, each from all
//! attempts, and says when a write takes effect, which the other can only bound (`hold.rs`).

use glidepath_sim::{OperationProfile, Profile};

use crate::hold::{FailureRate, simulated};
use crate::measurement::{Measurement, Numbers};
use crate::plan::Operation;
use crate::profile::flat;

/// Failure rates further apart than by chance and by so much are different.
const RATE: f64 = 0.01;

/// Mean latencies further apart than by chance and by this share are different.
const MEAN: f64 = 0.05;

/// So many standard errors are not chance.
const ERRORS: f64 = 3.0;

/// The operation without contention, from all attempts at all numbers of writers, if that explains what was measured.
pub(crate) fn explained(
    profile: &Profile,
    operation: Operation,
    found: &[&Measurement],
    of: &OperationProfile,
) -> Option<OperationProfile> {
    if found.iter().all(|found| found.writers == 1) {
        return None;
    }
    let mut all: Vec<f64> =
        found.iter().flat_map(|found| found.success_ms.iter().chain(&found.failure_ms)).copied().collect();
    all.sort_unstable_by(f64::total_cmp);
    let (median, _, floor) = flat(&all)?;
    let sigma = upper_sigma(&all)?;
    let source = format!(
        "{}. One lognormal of all attempts explains the failure rates and latencies at every number of writers, so there are \
         no others",
        of.source.split(". ").next().unwrap_or_default()
    );
    let flat =
        OperationProfile { median, sigma, floor, contended: Vec::new(), effect_after: None, source, ..of.clone() };
    let mut candidate = profile.clone();
    match operation {
        Operation::Append => candidate.append = Some(flat.clone()),
        _ => candidate.conditional_put = flat.clone(),
    }
    let mean_ns = Numbers::of(&all)?.mean * 1e6;
    let same = |found: &&&Measurement| {
        simulated(&candidate, operation, found.writers, mean_ns).is_some_and(|simulated| agree(found, &simulated))
    };
    (found.iter().filter(same).count() == found.len()).then_some(flat)
}

/// The deviation of the logarithm from its median, of the slower half: the faster one may have been cut off at a floor.
fn upper_sigma(sorted: &[f64]) -> Option<f64> {
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

/// Too few say nothing.
fn same_mean(a: &[f64], b: &[f64]) -> bool {
    let (Some((mean_a, error_a)), Some((mean_b, error_b))) = (mean(a), mean(b)) else { return true };
    (mean_a - mean_b).abs() <= MEAN * mean_b + ERRORS * error_a.hypot(error_b)
}

/// And its standard error.
fn mean(values: &[f64]) -> Option<(f64, f64)> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() >= 30).then(|| (mean, (squares / (count - 1.0) / count).sqrt()))
}
