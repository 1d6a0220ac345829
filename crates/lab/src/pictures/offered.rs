//! How many transactions arrive per second, by the configuration?
//!
//! The summaries count transactions that ended; the arrivals follow from their distribution, except for its random
//! error.

use glidepath_model::Span;
use glidepath_workload::{Arrivals, Burst, Shape};

/// The mean over a run.
pub(crate) fn mean_per_s(arrivals: &Arrivals, duration: Span) -> f64 {
    let duration_s = duration.as_secs_f64();
    usual_per_s(arrivals) * arrivals.burst.map_or(1.0, |burst| rate(&burst, 0.0, duration_s))
}

/// In `parts` equal parts of a run.
pub(crate) fn over_time(arrivals: &Arrivals, duration: Span, parts: usize) -> Vec<f64> {
    let part_s = duration.as_secs_f64() / parts.max(1) as f64;
    let of = |part: usize| {
        let (from, to) = (part as f64 * part_s, (part + 1) as f64 * part_s);
        usual_per_s(arrivals) * arrivals.burst.map_or(1.0, |burst| rate(&burst, from, to))
    };
    (0..parts).map(of).collect()
}

/// Outside bursts. A floor above the mean counts as the mean; a lower one is neglected.
fn usual_per_s(arrivals: &Arrivals) -> f64 {
    let scale = arrivals.scale.as_secs_f64();
    let mean = match arrivals.kind {
        Shape::Fixed | Shape::Exponential | Shape::LognormalMean => scale,
        // The mean of a lognormal is its median times exp(sigma^2 / 2).
        Shape::Lognormal => scale * (arrivals.sigma * arrivals.sigma / 2.0).exp(),
    };
    1.0 / mean.max(arrivals.floor.as_secs_f64())
}

/// The mean factor of the arrival rate in a stretch of time. The k-th burst (from 1) starts at k times `every`.
fn rate(burst: &Burst, from: f64, to: f64) -> f64 {
    let (every, lasts) = (burst.every.as_secs_f64(), burst.lasts.as_secs_f64());
    let busy_before = |at: f64| {
        let periods = (at / every).floor();
        if periods < 1.0 { 0.0 } else { (periods - 1.0) * lasts + (at - periods * every).min(lasts) }
    };
    1.0 + (burst.factor - 1.0) * (busy_before(to) - busy_before(from)) / (to - from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_as_frequent_as_configured() {
        let burst = Burst { every: Span::from_secs(600), lasts: Span::from_secs(60), factor: 10.0, table: None };
        let steady = Arrivals {
            kind: Shape::Lognormal,
            scale: Span::from_millis(20),
            sigma: 0.5,
            floor: Span::from_millis(1),
            burst: None,
        };
        let hour = Span::from_secs(3600);
        assert!((mean_per_s(&steady, hour) - 44.12).abs() < 0.01);
        let bursty = Arrivals { kind: Shape::Exponential, burst: Some(burst), ..steady };
        let rates = over_time(&bursty, hour, 60);
        assert!((rates.iter().sum::<f64>() / 60.0 - mean_per_s(&bursty, hour)).abs() < 1e-9);
        assert!((rates[0] - 50.0).abs() < 1e-9 && (rates[10] - 500.0).abs() < 1e-6);
        // Bursts of a minute within parts of 10 minutes.
        assert!((over_time(&bursty, hour, 6)[1] - 95.0).abs() < 1e-6);
    }
}
