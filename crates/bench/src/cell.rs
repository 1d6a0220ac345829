//! What is one case, and what is its result?

use glidepath_model::Span;
use serde::{Deserialize, Serialize};

use crate::design::{Design, Operation, Start};

/// A case: each client sends its next operation when the previous one is answered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The kind of catalog.
    pub design: Design,
    /// The clients' operation.
    pub operation: Operation,
    /// What clients know beforehand. Commits are warm.
    pub start: Start,
    /// Entries in the catalog at the beginning.
    pub rows: u64,
    /// Concurrent clients.
    pub writers: u32,
    /// Whether the writers of a process share commits.
    pub grouped: bool,
    /// Whether each client is a process; otherwise all are threads of one process.
    pub processes: bool,
    /// How long the clients run.
    pub duration: Span,
    /// The fewest operations of each client, however long they take: on a busy machine a short run may have none
    /// otherwise.
    pub least: u64,
    /// Added to every request, before it is sent.
    pub added_latency: Span,
}

impl Cell {
    /// Whether clients have read before the time begins.
    pub(crate) fn begins_warm(&self) -> bool {
        self.operation.reads() && self.start == Start::Warm
    }

    /// The case in words, without the numbers of entries and clients.
    #[must_use]
    pub fn kind(&self) -> String {
        let mut words = vec![self.design.name()];
        match (self.operation, self.start) {
            (Operation::Commit, _) if !self.grouped && !self.processes => words.push("no group".to_owned()),
            (Operation::Commit, _) => {}
            (operation, start) => words.push(format!("{} {}", operation.name(), start.name())),
        }
        if self.processes {
            words.push("processes".to_owned());
        }
        words.join(", ")
    }
}

/// The measurements of one process.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CellSamples {
    /// Latencies of the operations, in nanoseconds.
    pub latencies_ns: Vec<u64>,
    /// Errors in words, each with its count.
    pub errors: Vec<(String, u64)>,
    /// When the first client began, by a clock that all processes share.
    pub began_ns: u64,
    /// When the last one ended.
    pub ended_ns: u64,
    /// Processor time of the process between the two.
    pub processor_ns: u64,
    /// Requests to the store between the two.
    pub requests: u64,
    /// Bytes sent in them.
    pub sent_bytes: u64,
    /// Bytes that came back.
    pub received_bytes: u64,
}

/// The figures of an outcome.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Successful operations.
    pub operations: u64,
    /// Failed operations.
    pub errors: u64,
    /// Successful operations per second.
    pub operations_per_s: f64,
    /// Latency.
    pub p50_ms: f64,
    /// Latency.
    pub p99_ms: f64,
    /// Requests per successful operation.
    pub requests_per_operation: f64,
    /// Bytes sent per successful operation.
    pub sent_bytes_per_operation: f64,
    /// Bytes received per successful operation.
    pub received_bytes_per_operation: f64,
    /// Processor time per successful operation; absent for a simulation.
    pub processor_ms_per_operation: f64,
}

impl CellSamples {
    /// The outcome of several concurrent processes.
    #[must_use]
    pub fn joined(outcomes: Vec<Self>) -> Self {
        let mut all = Self { began_ns: u64::MAX, ..Self::default() };
        for one in outcomes {
            all.latencies_ns.extend(one.latencies_ns);
            for (words, count) in one.errors {
                all.count_error(words, count);
            }
            // A process that began late took part for less than the whole time.
            all.began_ns = all.began_ns.min(one.began_ns);
            all.ended_ns = all.ended_ns.max(one.ended_ns);
            all.processor_ns += one.processor_ns;
            all.requests += one.requests;
            all.sent_bytes += one.sent_bytes;
            all.received_bytes += one.received_bytes;
        }
        all
    }

    /// The outcome of several trials, one after the other: the time between them does not count.
    #[must_use]
    pub fn one_after_another(trials: &[Self]) -> Self {
        let mut all = Self::joined(trials.to_vec());
        (all.began_ns, all.ended_ns) =
            (0, trials.iter().map(|trial| trial.ended_ns.saturating_sub(trial.began_ns)).sum());
        all
    }

    pub(crate) fn count_error(&mut self, words: String, count: u64) {
        match self.errors.iter_mut().find(|(known, _)| *known == words) {
            Some((_, known)) => *known += count,
            None => self.errors.push((words, count)),
        }
    }

    /// The figures. Without a successful operation, figures per operation are NaN.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let mut sorted = self.latencies_ns.clone();
        sorted.sort_unstable();
        let quantile = |share: f64| {
            let place = (share * sorted.len() as f64).ceil() as usize;
            sorted.get(place.saturating_sub(1)).map_or(f64::NAN, |ns| *ns as f64 / 1e6)
        };
        let operations = sorted.len() as u64;
        let each = |total: u64| total as f64 / operations as f64;
        Figures {
            operations,
            errors: self.errors.iter().map(|(_, count)| count).sum(),
            operations_per_s: operations as f64 / (self.ended_ns.saturating_sub(self.began_ns) as f64 / 1e9),
            p50_ms: quantile(0.5),
            p99_ms: quantile(0.99),
            requests_per_operation: each(self.requests),
            sent_bytes_per_operation: each(self.sent_bytes),
            received_bytes_per_operation: each(self.received_bytes),
            processor_ms_per_operation: each(self.processor_ns) / 1e6,
        }
    }
}
