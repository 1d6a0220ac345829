//! What is the summary of the samples of one operation and number of writers, over all trials?

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use glidepath_run::statistics::{Spread, quantile};

use crate::plan::Operation;
use crate::sample::{End, Sample, TrialSamples};

/// One operation with one number of writers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// The operation.
    pub operation: Operation,
    /// The number of writers.
    pub writers: u32,
    /// Trials with samples that count.
    pub trials: usize,
    /// Latencies in milliseconds of successful operations, rising.
    pub success_ms: Vec<f64>,
    /// Latencies in milliseconds of lost and refused operations, rising.
    pub failure_ms: Vec<f64>,
    /// Refused operations: some of the failures.
    pub refused: u64,
    /// Operations of unknown outcome; in neither list.
    pub unknown: u64,
    /// Successes per second of the window: mean and standard deviation over trials.
    pub throughput_per_s: Spread,
    /// One standard error of the failure rate, a share. Failures come in runs, so it is not the error of independent
    /// attempts but that of a ratio between *clusters* of attempts: whole trials, or tenths of each if there are few
    /// trials (Cochran, "Sampling Techniques", 1977, 6.3 and 9A). Absent for a single one.
    pub failure_rate_error: Option<f64>,
}

/// With fewer trials than these, each is cut into [`PARTS`].
const ENOUGH_TRIALS: usize = 4;
const PARTS: u64 = 10;

/// The usual figures of a list of latencies, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names are enough")]
pub struct Numbers {
    pub count: usize,
    pub mean: f64,
    pub median: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
}

impl Numbers {
    /// The figures of rising latencies; `None` if there are none.
    #[must_use]
    pub fn of(sorted: &[f64]) -> Option<Self> {
        let max = *sorted.last()?;
        Some(Self {
            count: sorted.len(),
            mean: sorted.iter().sum::<f64>() / sorted.len() as f64,
            median: quantile(sorted, 0.5),
            p95: quantile(sorted, 0.95),
            p99: quantile(sorted, 0.99),
            p999: quantile(sorted, 0.999),
            max,
        })
    }
}

/// Where a percentile of this number of samples may lie, with 95 % confidence: between two of the sorted samples, by
/// the binomial distribution of how many lie below it (David and Nagaraja, "Order Statistics", 2003, 7.1; with the
/// normal approximation). `None` if fewer than three samples can be expected above it: too few for a percentile.
#[must_use]
pub fn percentile_interval(sorted: &[f64], share: f64) -> Option<(f64, f64)> {
    let count = sorted.len() as f64;
    if count * (1.0 - share) < 3.0 - 1e-9 {
        return None;
    }
    let reach = 1.96 * (count * share * (1.0 - share)).sqrt();
    let rank = |rank: f64| sorted[(rank.max(1.0) as usize).min(sorted.len()) - 1];
    Some((rank((count * share - reach).floor()), rank((count * share + reach).ceil() + 1.0)))
}

/// One standard error of the ratio of the sums of these pairs (a part, and the whole that it is part of).
fn ratio_error(clusters: &[(f64, f64)]) -> Option<f64> {
    let whole: f64 = clusters.iter().map(|(_, whole)| whole).sum();
    let ratio = clusters.iter().map(|(part, _)| part).sum::<f64>() / whole;
    let squares: f64 = clusters.iter().map(|(part, of)| (part - ratio * of).powi(2)).sum();
    let count = clusters.len() as f64;
    (clusters.len() > 1 && whole > 0.0).then(|| (count / (count - 1.0) * squares).sqrt() / whole)
}

/// Failures and attempts of each cluster.
fn clusters(trials: &[&TrialSamples]) -> Vec<(f64, f64)> {
    let parts = if trials.len() < ENOUGH_TRIALS { PARTS } else { 1 };
    let mut found = BTreeMap::<(usize, u64), (f64, f64)>::new();
    for (number, trial) in trials.iter().enumerate() {
        let first = trial.samples.iter().map(|sample| sample.began).min().unwrap_or_default();
        for sample in trial.samples.iter().filter(|sample| sample.end != End::Unknown) {
            let part = sample.began.since(first).as_nanos() * parts / trial.window.as_nanos().max(1);
            let (failed, all) = found.entry((number, part.min(parts - 1))).or_default();
            *failed += f64::from(u8::from(sample.end != End::Done));
            *all += 1.0;
        }
    }
    found.into_values().collect()
}

impl Measurement {
    /// Sums up trials, by operation and number of writers.
    #[must_use]
    pub fn of(trials: &[TrialSamples]) -> Vec<Self> {
        Self::of_each(trials)
    }

    pub(crate) fn of_each<'a>(trials: impl IntoIterator<Item = &'a TrialSamples>) -> Vec<Self> {
        let mut groups: BTreeMap<(Operation, u32), Vec<&TrialSamples>> = BTreeMap::new();
        for trial in trials {
            groups.entry((trial.trial.operation, trial.trial.writers)).or_default().push(trial);
        }
        groups.into_iter().map(|((operation, writers), trials)| Self::sum(operation, writers, &trials)).collect()
    }

    fn sum(operation: Operation, writers: u32, trials: &[&TrialSamples]) -> Self {
        let samples = || trials.iter().flat_map(|trial| &trial.samples);
        let latencies = |keep: fn(End) -> bool| {
            let kept = samples().filter(|sample| keep(sample.end));
            let mut found: Vec<f64> = kept.map(|sample| sample.latency().as_nanos() as f64 / 1e6).collect();
            found.sort_unstable_by(f64::total_cmp);
            found
        };
        let count = |end: End| samples().filter(|sample| sample.end == end).count() as u64;
        let counted = trials.iter().filter(|trial| trial.window.as_secs_f64() > 0.0);
        let done = |samples: &[Sample]| samples.iter().filter(|sample| sample.end == End::Done).count() as f64;
        let rates: Vec<f64> = counted.map(|trial| done(&trial.samples) / trial.window.as_secs_f64()).collect();
        Self {
            operation,
            writers,
            trials: rates.len(),
            success_ms: latencies(|end| end == End::Done),
            failure_ms: latencies(|end| matches!(end, End::Lost | End::Refused)),
            refused: count(End::Refused),
            unknown: count(End::Unknown),
            throughput_per_s: Spread::of(rates).unwrap_or_default(),
            failure_rate_error: ratio_error(&clusters(trials)),
        }
    }

    /// Operations with a known outcome.
    #[must_use]
    pub fn attempts(&self) -> usize {
        self.success_ms.len() + self.failure_ms.len()
    }

    /// The share of them that failed; 0 where there were none.
    #[must_use]
    pub fn failure_rate(&self) -> f64 {
        self.failure_ms.len() as f64 / (self.attempts().max(1)) as f64
    }
}

#[cfg(test)]
mod tests {
    use glidepath_model::{Instant, Span};

    use super::*;
    use crate::plan::Trial;

    #[test]
    fn numbers_are_those_of_all_trials() {
        let sample = |began: u64, ended: u64, end| Sample {
            writer: 0,
            began: Instant::ZERO + Span::from_millis(began),
            ended: Instant::ZERO + Span::from_millis(ended),
            end,
        };
        let trial = |number, samples: Vec<Sample>| TrialSamples {
            trial: Trial { operation: Operation::Cas, writers: 1, number },
            samples,
            window: Span::from_millis(100),
        };
        let trials = [
            trial(1, vec![sample(0, 10, End::Done), sample(10, 40, End::Lost), sample(40, 60, End::Done)]),
            trial(2, vec![sample(0, 30, End::Done), sample(30, 35, End::Refused), sample(35, 99, End::Unknown)]),
        ];
        let found = &Measurement::of(&trials)[0];
        assert_eq!(found.success_ms, [10.0, 20.0, 30.0]);
        assert_eq!(found.failure_ms, [5.0, 30.0]);
        assert_eq!((found.refused, found.unknown, found.trials), (1, 1, 2));
        assert!((found.failure_rate() - 0.4).abs() < 1e-12);
        assert!((found.throughput_per_s.mean - 15.0).abs() < 1e-9);
        assert!((found.throughput_per_s.deviation.unwrap() - 50.0_f64.sqrt()).abs() < 1e-9);
        // From tenths of one attempt each, except one tenth with two.
        assert!(found.failure_rate_error.is_some_and(|error| (0.15..0.35).contains(&error)), "{found:?}");
        let numbers = Numbers::of(&found.success_ms).unwrap();
        assert!((numbers.median - 20.0).abs() < 1e-12 && (numbers.p95 - 29.0).abs() < 1e-12);
        assert_eq!(Numbers::of(&[]), None);
    }

    /// Failures that come in runs of twenty: independent attempts would have an error of 0.016.
    #[test]
    fn the_error_of_a_failure_rate_is_that_between_clusters() {
        let attempt = |number: u64| Sample {
            writer: 0,
            began: Instant::ZERO + Span::from_millis(number),
            ended: Instant::ZERO + Span::from_millis(number + 1),
            end: if (number / 20).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 63 == 1 { End::Lost } else { End::Done },
        };
        let trial = TrialSamples {
            trial: Trial { operation: Operation::Cas, writers: 1, number: 1 },
            samples: (0..1000).map(attempt).collect(),
            window: Span::from_millis(1000),
        };
        let error = Measurement::of(&[trial])[0].failure_rate_error.unwrap();
        assert!((0.025..0.12).contains(&error), "{error}");
    }

    #[test]
    fn a_percentile_of_too_few_is_none() {
        let some: Vec<f64> = (1..=1000).map(f64::from).collect();
        assert_eq!(percentile_interval(&some, 0.999), None);
        assert_eq!(percentile_interval(&some, 0.5), Some((469.0, 532.0)));
        let (low, high) = percentile_interval(&some, 0.99).unwrap();
        assert!(low < 990.0 && high > 990.0 && low >= 980.0, "{low} {high}");
    }
}
