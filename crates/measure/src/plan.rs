//! What is measured? Which operations, with how many writers, how long, how often.

use glidepath_model::{ByteSize, Span};
use serde::{Deserialize, Serialize};

/// An operation on the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Operation {
    /// Put-if-match on one object.
    Cas,
    /// Put-if-absent along a chain of keys: the loser of a key goes on to the next one.
    Create,
    /// Append at the end last seen of one object.
    Append,
    /// Unguarded reads of objects of one size.
    Get(ByteSize),
    /// Unguarded writes of objects of one size.
    Put(ByteSize),
}

impl Operation {
    /// Its name in tables, in files and on the command line.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Cas => "cas".to_owned(),
            Self::Create => "create".to_owned(),
            Self::Append => "append".to_owned(),
            Self::Get(size) => format!("get {size}"),
            Self::Put(size) => format!("put {size}"),
        }
    }

    /// Whether writers contend.
    #[must_use]
    pub fn is_guarded(self) -> bool {
        matches!(self, Self::Cas | Self::Create | Self::Append)
    }
}

/// A measurement, planned.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Guarded operations, each measured with each number of writers.
    pub operations: Vec<Operation>,
    /// Numbers of writers, rising.
    pub writers: Vec<u32>,
    /// Object sizes for unguarded operations, with one writer.
    pub sizes: Vec<ByteSize>,
    /// Whether reads are measured.
    pub get: bool,
    /// Whether unguarded writes are measured.
    pub put: bool,
    /// Trials of each.
    pub trials: u32,
    /// How long a trial lasts, after the warm-up.
    pub duration: Span,
    /// The first part of a trial, which is not counted.
    pub warm_up: Span,
    /// The number of operations of one writer that ends a trial early, on a fast store.
    pub most_per_writer: usize,
    /// The size of a guarded object, and of an appended piece.
    pub body: ByteSize,
}

/// One trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trial {
    /// The operation.
    pub operation: Operation,
    /// The number of writers.
    pub writers: u32,
    /// The number of the trial, from 1.
    pub number: u32,
}

/// Why a plan cannot be carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{option}: found {found}; allowed: {allowed}")]
pub struct PlanError {
    /// The option of the command line.
    pub option: &'static str,
    /// The value found.
    pub found: String,
    /// The values allowed.
    pub allowed: &'static str,
}

/// What a plan will cost, at most.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Writes and appends, at 10 ms each: no cloud answers a write sooner.
    pub writes: f64,
    /// Reads, likewise.
    pub reads: f64,
    /// Bytes either way.
    pub bytes: f64,
    /// The duration if no operation is slow.
    pub time: Span,
    /// The duration if slow operations make each trial as long as allowed. (Waiting for the last answers of a trial
    /// comes on top.)
    pub longest_time: Span,
}

/// No cloud store answers sooner, so that an estimate made with it is an upper bound: the fastest conditional write
/// measured in June 2025 took 10.3 ms (S3 Express One Zone, append).
const LEAST_ROUND_TRIP: Span = Span::from_millis(10);

/// The longest trial, as a multiple of the planned duration (see `pace.rs`).
pub(crate) const MOST_DURATIONS: u64 = 10;

impl Plan {
    /// As in the published study: 5 trials of each.
    #[must_use]
    pub fn full() -> Self {
        Self {
            operations: vec![Operation::Cas, Operation::Create, Operation::Append],
            writers: vec![1, 2, 4, 8, 16],
            sizes: [1 << 10, 100 << 10, 1 << 20, 4 << 20].map(ByteSize::from_bytes).to_vec(),
            get: true,
            put: true,
            trials: 5,
            duration: Span::from_secs(5),
            warm_up: Span::from_millis(500),
            most_per_writer: 50_000,
            body: ByteSize::from_bytes(100),
        }
    }

    /// A coarse answer in under a minute.
    #[must_use]
    pub fn quick() -> Self {
        Self {
            writers: vec![1, 4, 16],
            sizes: [1 << 10, 1 << 20].map(ByteSize::from_bytes).to_vec(),
            trials: 2,
            duration: Span::from_millis(1200),
            warm_up: Span::from_millis(200),
            most_per_writer: 10_000,
            ..Self::full()
        }
    }

    /// Checks that it can be carried out.
    ///
    /// # Errors
    /// [`PlanError`] names the option, what was found and what is allowed.
    pub fn check(&self) -> Result<(), PlanError> {
        let wrong = |option, found: String, allowed| Err(PlanError { option, found, allowed });
        let rising = self.writers.windows(2).all(|pair| pair[0] < pair[1]);
        if self.writers.is_empty() || !rising || self.writers.iter().any(|count| !(1..=256).contains(count)) {
            return wrong("--writers", format!("{:?}", self.writers), "numbers from 1 to 256, rising: 1,2,4,8,16");
        }
        if !(1..=100).contains(&self.trials) {
            return wrong("--trials", self.trials.to_string(), "1 to 100");
        }
        if self.duration < Span::from_millis(100) || self.duration > Span::from_secs(24 * 3600) {
            return wrong("--duration", self.duration.to_string(), "100ms to 24h");
        }
        if self.operations.is_empty() && (self.sizes.is_empty() || !(self.get || self.put)) {
            return wrong("--operations", "nothing".to_owned(), "cas, create, append, get, put");
        }
        // With more than a GiB a trial would end before its first answer.
        if self.body.as_bytes() > 1 << 30 || self.body.as_bytes() < 16 {
            return wrong("--body", self.body.to_string(), "16 B to 1 GiB");
        }
        Ok(())
    }

    /// All trials in order: those with few requests first, so that mistakes show early.
    pub fn trials(&self) -> impl Iterator<Item = Trial> + '_ {
        let sized = self.sizes.iter().flat_map(|size| {
            let put = self.put.then_some(Operation::Put(*size));
            put.into_iter().chain(self.get.then_some(Operation::Get(*size)))
        });
        let unguarded = sized.map(|operation| (operation, 1));
        let guarded =
            self.operations.iter().flat_map(|operation| self.writers.iter().map(|writers| (*operation, *writers)));
        let all = unguarded.chain(guarded).collect::<Vec<_>>();
        // Trials take turns, so that changes over time affect all alike.
        (1..=self.trials)
            .flat_map(move |number| all.clone().into_iter().map(move |pair| (number, pair)))
            .map(|(number, (operation, writers))| Trial { operation, writers, number })
    }

    /// The upper bound of its cost.
    #[must_use]
    pub fn estimate(&self) -> Estimate {
        let (mut writes, mut reads, mut bytes) = (0.0, 0.0, 0.0);
        let (mut time, mut longest_time) = (Span::ZERO, Span::ZERO);
        for trial in self.trials() {
            time += self.warm_up + self.duration;
            longest_time += self.warm_up + Span::from_nanos(self.duration.as_nanos().saturating_mul(MOST_DURATIONS));
            let requests = f64::from(trial.writers) * self.most_requests() as f64;
            let size = match trial.operation {
                Operation::Get(size) | Operation::Put(size) => size,
                _ => self.body,
            };
            match trial.operation {
                Operation::Get(_) => reads += requests,
                Operation::Put(_) | Operation::Create => writes += requests,
                // Each loser reads once.
                Operation::Cas | Operation::Append => {
                    writes += requests;
                    reads += requests * (1.0 - 1.0 / f64::from(trial.writers));
                }
            }
            bytes += requests * size.as_bytes() as f64;
        }
        Estimate { writes, reads, bytes, time, longest_time }
    }

    /// The most operations of one writer in a trial, on a store that answers no faster than a cloud.
    pub(crate) fn most_requests(&self) -> u64 {
        (self.warm_up + self.duration).as_nanos().div_ceil(LEAST_ROUND_TRIP.as_nanos())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_tried_with_each_number_of_writers() {
        let plan = Plan { trials: 2, writers: vec![1, 3], ..Plan::full() };
        let trials: Vec<_> = plan.trials().collect();
        assert_eq!(trials.len(), 2 * (3 * 2 + 4 * 2));
        assert!(trials.contains(&Trial { operation: Operation::Append, writers: 3, number: 2 }));
        let reads: Vec<_> = Plan { operations: vec![], put: false, trials: 1, ..Plan::full() }.trials().collect();
        assert!(reads.len() == 4 && reads.iter().all(|trial| matches!(trial.operation, Operation::Get(_))));
    }

    #[test]
    fn an_impossible_plan_is_told_why() {
        let wrong = [
            Plan { writers: vec![], ..Plan::full() },
            Plan { writers: vec![2, 2], ..Plan::full() },
            Plan { writers: vec![0], ..Plan::full() },
            Plan { trials: 0, ..Plan::full() },
            Plan { duration: Span::ZERO, ..Plan::full() },
            Plan { operations: vec![], sizes: vec![], ..Plan::full() },
            Plan { body: ByteSize::from_bytes(1), ..Plan::full() },
        ];
        for plan in wrong {
            assert!(plan.check().is_err(), "{plan:?}");
        }
        assert_eq!(Plan::full().check(), Ok(()));
        assert_eq!(Plan::quick().check(), Ok(()));
    }

    #[test]
    fn a_quick_plan_takes_less_than_a_minute() {
        assert!(Plan::quick().estimate().time < Span::from_secs(45));
    }
}
