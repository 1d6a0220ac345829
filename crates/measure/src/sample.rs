//! What one writer saw of one operation, and which of it counts.

use glidepath_model::{Instant, Span};
use serde::{Deserialize, Serialize};

use crate::plan::Trial;

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// It was done.
    Done,
    /// Its guard did not hold.
    Lost,
    /// The store turned it away: throttled, or another conditional write was in flight.
    Refused,
    /// Nobody knows; or a read that failed.
    Unknown,
}

/// One operation of one writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Which writer, from 0.
    pub writer: u32,
    /// By the clock that all writers of a trial share.
    pub began: Instant,
    /// Likewise.
    pub ended: Instant,
    /// How it ended.
    pub end: End,
}

impl Sample {
    /// From request to answer.
    #[must_use]
    pub fn latency(&self) -> Span {
        self.ended.since(self.began)
    }
}

/// What counts of one trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialSamples {
    /// Which trial.
    pub trial: Trial,
    /// Those that began and ended while all writers were at work.
    pub samples: Vec<Sample>,
    /// How long that was.
    pub window: Span,
}

impl TrialSamples {
    /// Cuts to the time in which all writers were at work: from the latest first operation to the earliest last answer.
    /// Before and after it some writers ran with less company than the trial says.
    #[must_use]
    pub fn trimmed(trial: Trial, samples: Vec<Sample>) -> Self {
        let of = |writer: u32| samples.iter().filter(move |sample| sample.writer == writer);
        let first = (0..trial.writers).filter_map(|writer| of(writer).map(|sample| sample.began).min()).max();
        let last = (0..trial.writers).filter_map(|writer| of(writer).map(|sample| sample.ended).max()).min();
        let (Some(first), Some(last)) = (first, last) else {
            return Self { trial, samples: Vec::new(), window: Span::ZERO };
        };
        let counts = |sample: &Sample| sample.began >= first && sample.ended <= last;
        let samples = samples.into_iter().filter(counts).collect();
        let window = if last > first { last.since(first) } else { Span::ZERO };
        Self { trial, samples, window }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Operation;

    #[test]
    fn only_the_time_in_which_all_writers_ran_counts() {
        let at = |millis| Instant::ZERO + Span::from_millis(millis);
        let sample = |writer, began, ended| Sample { writer, began: at(began), ended: at(ended), end: End::Done };
        let samples = vec![sample(0, 0, 5), sample(0, 5, 10), sample(0, 12, 40), sample(1, 4, 11), sample(1, 11, 20)];
        let trial = Trial { operation: Operation::Cas, writers: 2, number: 1 };
        let trimmed = TrialSamples::trimmed(trial, samples.clone());
        assert_eq!(trimmed.window, Span::from_millis(16));
        assert_eq!(trimmed.samples, vec![sample(0, 5, 10), sample(1, 4, 11), sample(1, 11, 20)]);
        let one_never_ran = Trial { writers: 3, ..trial };
        assert_eq!(TrialSamples::trimmed(one_never_ran, samples).samples.len(), 3);
    }
}
