//! One case, and what came of it.

use glidepath_model::Span;
use serde::{Deserialize, Serialize};

/// A case. Each writer creates namespaces of its own, one after another, as fast as it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// Entries in the catalog at the beginning.
    pub rows: u64,
    /// Writers at once.
    pub writers: u32,
    /// Whether the writers of a process share commits.
    pub grouped: bool,
    /// Whether the catalog has indices by type and by base object.
    pub indexed: bool,
    /// How long they go on.
    pub duration: Span,
    /// Added to every request, before it is sent.
    pub added_latency: Span,
}

/// What one process measured.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    /// Each commit's, in nanoseconds.
    pub latencies_ns: Vec<u64>,
    /// Commits that failed, in words, and how many of each.
    pub errors: Vec<(String, u64)>,
    /// From the first writer's beginning to the last one's end.
    pub took_ns: u64,
    /// Processor time of the process meanwhile.
    pub processor_ns: u64,
    /// Requests to the store meanwhile.
    pub requests: u64,
    /// Bytes sent in them.
    pub sent_bytes: u64,
    /// Bytes that came back.
    pub received_bytes: u64,
}

/// An outcome in figures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Commits that were acknowledged.
    pub commits: u64,
    /// Commits that failed.
    pub errors: u64,
    /// Acknowledged commits over the time.
    pub commits_per_s: f64,
    /// Latency.
    pub p50_ms: f64,
    /// Latency.
    pub p99_ms: f64,
    /// Requests for each acknowledged commit.
    pub requests_per_commit: f64,
    /// Bytes sent for each acknowledged commit.
    pub sent_bytes_per_commit: f64,
    /// Processor time for each acknowledged commit; of a simulation: none.
    pub processor_ms_per_commit: f64,
}

impl Outcome {
    /// Of several processes that ran side by side.
    #[must_use]
    pub fn joined(outcomes: Vec<Self>) -> Self {
        let mut all = Self::default();
        for one in outcomes {
            all.latencies_ns.extend(one.latencies_ns);
            for (words, count) in one.errors {
                all.count_error(words, count);
            }
            all.took_ns = all.took_ns.max(one.took_ns);
            all.processor_ns += one.processor_ns;
            all.requests += one.requests;
            all.sent_bytes += one.sent_bytes;
            all.received_bytes += one.received_bytes;
        }
        all
    }

    pub(crate) fn count_error(&mut self, words: String, count: u64) {
        match self.errors.iter_mut().find(|(known, _)| *known == words) {
            Some((_, known)) => *known += count,
            None => self.errors.push((words, count)),
        }
    }

    /// In figures.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let mut sorted = self.latencies_ns.clone();
        sorted.sort_unstable();
        let quantile = |share: f64| {
            let place = (share * sorted.len() as f64).ceil() as usize;
            sorted.get(place.saturating_sub(1)).map_or(f64::NAN, |ns| *ns as f64 / 1e6)
        };
        let commits = sorted.len() as u64;
        let each = |total: u64| total as f64 / commits as f64;
        Figures {
            commits,
            errors: self.errors.iter().map(|(_, count)| count).sum(),
            commits_per_s: commits as f64 / (self.took_ns as f64 / 1e9),
            p50_ms: quantile(0.5),
            p99_ms: quantile(0.99),
            requests_per_commit: each(self.requests),
            sent_bytes_per_commit: each(self.sent_bytes),
            processor_ms_per_commit: each(self.processor_ns) / 1e6,
        }
    }
}
