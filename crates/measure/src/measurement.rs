//! What the samples of one operation and number of writers amount to, over all trials.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::plan::Operation;
use crate::sample::{End, Sample, TrialSamples};

/// One operation with one number of writers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Measurement {
    /// What was done.
    pub operation: Operation,
    /// By how many.
    pub writers: u32,
    /// Trials that had anything to count.
    pub trials: usize,
    /// Latencies in milliseconds of what was done, rising.
    pub success_ms: Vec<f64>,
    /// Latencies in milliseconds of what was lost or turned away, rising.
    pub failure_ms: Vec<f64>,
    /// Operations that were turned away: some of the failures.
    pub refused: u64,
    /// Operations whose end nobody knows; in neither list.
    pub unknown: u64,
    /// Successes per second of the window: mean and standard deviation over trials.
    pub throughput_per_s: Spread,
}

/// Mean and standard deviation (of a sample).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the names say it all")]
pub struct Spread {
    pub mean: f64,
    pub deviation: f64,
}

/// The usual numbers of a list of latencies, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
#[expect(missing_docs, reason = "the names say it all")]
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
    /// Of latencies that rise; `None` if there are none.
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

/// Linear between the two nearest ranks. There must be at least one value.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let place = share * (sorted.len() - 1) as f64;
    let (below, above) = (sorted[place as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

impl Measurement {
    /// Sums trials up, in the order of operations and writers.
    #[must_use]
    pub fn of(trials: &[TrialSamples]) -> Vec<Self> {
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
            throughput_per_s: Spread::of(&rates),
        }
    }

    /// Operations whose end is known.
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

impl Spread {
    fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count.max(1.0);
        let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
        Self { mean, deviation: (squares / (count - 1.0).max(1.0)).sqrt() }
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
        assert!((found.throughput_per_s.deviation - 50.0_f64.sqrt()).abs() < 1e-9);
        let numbers = Numbers::of(&found.success_ms).unwrap();
        assert!((numbers.median - 20.0).abs() < 1e-12 && (numbers.p95 - 29.0).abs() < 1e-12);
        assert_eq!(Numbers::of(&[]), None);
    }
}
