//! What is one sample of a writer, and which samples count?

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
    /// The store refused it: throttled, or another conditional write was in flight.
    Refused,
    /// Unknown outcome, or a failed read.
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

/// The samples of one trial that count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialSamples {
    /// Which trial.
    pub trial: Trial,
    /// Those that began while all writers were at work, however long they took.
    pub samples: Vec<Sample>,
    /// How long all writers were at work.
    pub window: Span,
}

impl TrialSamples {
    /// The samples that count: from the start of the last writer's first operation (before it, fewer writers ran than
    /// the trial has) to the closing of counting.
    #[must_use]
    pub fn counted(trial: Trial, samples: Vec<Sample>, closed: Instant) -> Self {
        let first =
            |writer: u32| samples.iter().filter(|sample| sample.writer == writer).map(|sample| sample.began).min();
        let firsts: Option<Vec<Instant>> = (0..trial.writers).map(first).collect();
        let Some(first) = firsts.and_then(|firsts| firsts.into_iter().max()) else {
            return Self { trial, samples: Vec::new(), window: Span::ZERO };
        };
        // A writer that was stopped has no end of its own.
        let last = samples.iter().map(|sample| sample.ended).max().map_or(closed, |last| closed.min(last));
        let samples = samples.into_iter().filter(|sample| sample.began >= first && sample.began < closed).collect();
        let window = if last > first { last.since(first) } else { Span::ZERO };
        Self { trial, samples, window }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Operation;

    #[test]
    fn what_begins_while_all_are_at_work_counts_however_long_it_takes() {
        let at = |millis| Instant::ZERO + Span::from_millis(millis);
        let sample = |writer, began, ended| Sample { writer, began: at(began), ended: at(ended), end: End::Done };
        let samples = vec![sample(0, 0, 5), sample(0, 5, 10), sample(0, 12, 400), sample(1, 4, 11), sample(1, 21, 30)];
        let trial = Trial { operation: Operation::Cas, writers: 2, number: 1 };
        let counted = TrialSamples::counted(trial, samples.clone(), at(20));
        assert_eq!(counted.window, Span::from_millis(16));
        assert_eq!(counted.samples, vec![sample(0, 5, 10), sample(0, 12, 400), sample(1, 4, 11)]);
        let one_never_ran = Trial { writers: 3, ..trial };
        assert_eq!(TrialSamples::counted(one_never_ran, samples, at(20)).samples, Vec::new());
    }
}
