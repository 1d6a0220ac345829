//! What is one case, and what is its result?

use glidepath_model::Span;
use serde::{Deserialize, Serialize};

use super::answers::grouped;

/// How often an overwrite that conflicted is tried again before it is given up: what Iceberg's client for Java does
/// (`commit.retry.num-retries`).
pub const RETRIES: u32 = 4;

/// How long it waits before the first retry (`commit.retry.min-wait-ms`); each further wait is twice as long.
pub const FIRST_WAIT: Span = Span::from_millis(100);

/// Different answers that are kept.
const MOST_ERRORS: usize = 8;

/// What the clients do. Each sends its next request when the previous one is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Workload {
    /// Each connection has a table of its own, and sets a property of it with each commit.
    Own,
    /// All connections append to one table that asks for rebases, each against the head that it saw last. After a
    /// conflict, a client loads the table and tries again at once.
    Hot,
    /// All connections load one table.
    Load,
    /// The same, with `If-None-Match`.
    #[serde(rename = "load-304")]
    LoadUnchanged,
    /// Appends as in `hot`, beside connections that overwrite: after a conflict, they wait as Iceberg's client for Java
    /// does ([`FIRST_WAIT`]), load the table, read the manifest lists of the commits that they missed, and try again
    /// with the same snapshot id, up to [`RETRIES`] times.
    Fair,
}

impl Workload {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Own, Self::Hot, Self::Load, Self::LoadUnchanged, Self::Fair];

    /// As on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::Hot => "hot",
            Self::Load => "load",
            Self::LoadUnchanged => "load-304",
            Self::Fair => "fair",
        }
    }

    /// Whether clients append to one table.
    #[must_use]
    pub fn appends(self) -> bool {
        matches!(self, Self::Hot | Self::Fair)
    }
}

/// A case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cell {
    /// What the clients do.
    pub workload: Workload,
    /// Concurrent clients, each with a connection. In `fair`, those that append.
    pub connections: u32,
    /// Of `fair`: further clients, which overwrite.
    pub overwrites: u32,
    /// How long the clients run.
    pub duration: Span,
}

/// What became of the operations of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    /// Latencies of operations that were acknowledged, in nanoseconds: from the first try to the acknowledgement.
    pub latencies_ns: Vec<u64>,
    /// Tries that conflicted (409).
    pub conflicts: u64,
    /// Tries that the server put off (429, 503).
    pub busy: u64,
    /// Operations whose outcome the client does not know: 500, 502, 504, or a broken connection.
    pub unknown: u64,
    /// Operations that were given up after the last retry.
    pub given_up: u64,
    /// What was answered to tries that were not acknowledged, without numbers and names, with the count of tries.
    pub errors: Vec<(String, u64)>,
}

impl Samples {
    /// Both.
    pub fn add(&mut self, other: Self) {
        self.latencies_ns.extend(other.latencies_ns);
        self.conflicts += other.conflicts;
        self.busy += other.busy;
        self.unknown += other.unknown;
        self.given_up += other.given_up;
        for (words, count) in other.errors {
            self.note(&words, count);
        }
    }

    /// Counts an answer. Those that differ in numbers and names only are one; few different ones are kept.
    pub fn note(&mut self, words: &str, count: u64) {
        let words = grouped(words);
        if let Some((_, known)) = self.errors.iter_mut().find(|(known, _)| *known == words) {
            *known += count;
        } else if self.errors.len() < MOST_ERRORS {
            self.errors.push((words, count));
        }
    }

    /// The figures over a time.
    #[must_use]
    pub fn figures(&self, took_ns: u64) -> Figures {
        let mut sorted = self.latencies_ns.clone();
        sorted.sort_unstable();
        let quantile = |share: f64| {
            let place = (share * sorted.len() as f64).ceil() as usize;
            sorted.get(place.saturating_sub(1)).map(|ns| *ns as f64 / 1e6)
        };
        Figures {
            operations: sorted.len() as u64,
            per_s: sorted.len() as f64 / (took_ns.max(1) as f64 / 1e9),
            p50_ms: quantile(0.5),
            p99_ms: quantile(0.99),
            longest_ms: quantile(1.0),
            conflicts: self.conflicts,
            busy: self.busy,
            unknown: self.unknown,
            given_up: self.given_up,
        }
    }
}

/// Whether what was acknowledged is there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checked {
    /// Acknowledged snapshots; in `own`, tables whose last acknowledged commit was looked for.
    pub acknowledged: u64,
    /// Acknowledged, and not there.
    pub lost: u64,
    /// There more than once: as a snapshot, or its manifest in the list of the head.
    pub twice: u64,
    /// Of unknown outcome, and there.
    pub unknown_there: u64,
    /// There, and neither acknowledged nor of unknown outcome, though a client of this cell sent it.
    pub refused_there: u64,
}

impl Checked {
    /// Whether something is wrong.
    #[must_use]
    pub fn is_wrong(&self) -> bool {
        self.lost + self.twice + self.refused_there > 0
    }

    /// What was found, in words.
    #[must_use]
    pub fn words(&self) -> String {
        match self.is_wrong() {
            false => format!("{} there", self.acknowledged),
            true => format!("{} lost, {} twice, {} refused and there", self.lost, self.twice, self.refused_there),
        }
    }
}

/// The result of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// From the first request to the last answer.
    pub took_ns: u64,
    /// Commits, loads or appends.
    pub operations: Samples,
    /// Of `fair`: overwrites.
    pub overwrites: Option<Samples>,
    /// Loads that were answered 304.
    pub not_modified: u64,
    /// Bytes of the answers.
    pub received_bytes: u64,
    /// Processor time of the clients; absent for a simulation.
    pub client_processor_ns: Option<u64>,
    /// The largest share of a thread of the clients that was busy: near 1, the clients are the limit.
    pub busiest_client: f64,
    /// Processor time of the server's processes, if they are known.
    pub server_processor_ns: Option<u64>,
    /// Whether what was acknowledged is there; not for loads.
    pub checked: Option<Checked>,
}

/// The figures of operations of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Acknowledged.
    pub operations: u64,
    /// Acknowledged, per second.
    pub per_s: f64,
    /// Latency, if there is one.
    pub p50_ms: Option<f64>,
    /// Latency.
    pub p99_ms: Option<f64>,
    /// Latency.
    pub longest_ms: Option<f64>,
    /// As in [`Samples`].
    pub conflicts: u64,
    /// As in [`Samples`].
    pub busy: u64,
    /// As in [`Samples`].
    pub unknown: u64,
    /// As in [`Samples`].
    pub given_up: u64,
}

/// A cell and its figures, as one line of a table or one value of JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// The cell.
    pub cell: Cell,
    /// Of commits, loads or appends.
    pub figures: Figures,
    /// Of overwrites.
    pub overwrites: Option<Figures>,
    /// Loads that were answered 304.
    pub not_modified: u64,
    /// Bytes of an answer, in the mean.
    pub received_bytes: f64,
    /// Processor time of the clients for an operation; absent for a simulation.
    pub client_processor_us: Option<f64>,
    /// The largest share of a thread of the clients that was busy: near 1, the clients are the limit.
    pub busiest_client: f64,
    /// Processor time of the server's processes for an operation, if they are known.
    pub server_processor_us: Option<f64>,
    /// Whether what was acknowledged is there.
    pub checked: Option<Checked>,
    /// What was answered to tries that were not acknowledged, without numbers and names, with the count of tries.
    pub errors: Vec<(String, u64)>,
    /// What a simulation says, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Predicted>,
}

/// The figures of a simulated cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Predicted {
    /// Of commits, loads or appends.
    pub figures: Figures,
    /// Of overwrites.
    pub overwrites: Option<Figures>,
}

impl Figures {
    /// The relative difference of a predicted rate to this measured one, if there is one.
    #[must_use]
    pub fn error_of(&self, predicted: &Self) -> Option<f64> {
        (self.per_s > 0.0).then(|| predicted.per_s / self.per_s - 1.0)
    }
}

impl Line {
    /// With the simulated outcome of the cell.
    #[must_use]
    pub fn beside(self, outcome: &Outcome) -> Self {
        let figures = |samples: &Samples| samples.figures(outcome.took_ns);
        let predicted =
            Predicted { figures: figures(&outcome.operations), overwrites: outcome.overwrites.as_ref().map(figures) };
        Self { predicted: Some(predicted), ..self }
    }

    /// The figures of an outcome.
    #[must_use]
    pub fn new(cell: Cell, outcome: &Outcome) -> Self {
        let figures = outcome.operations.figures(outcome.took_ns);
        let overwrites = outcome.overwrites.as_ref().map(|samples| samples.figures(outcome.took_ns));
        let all = (figures.operations + overwrites.as_ref().map_or(0, |figures| figures.operations)).max(1) as f64;
        let mut errors = outcome.operations.errors.clone();
        errors.extend(outcome.overwrites.iter().flat_map(|samples| samples.errors.iter().cloned()));
        let each_us = |ns: u64| ns as f64 / 1e3 / all;
        Self {
            cell,
            figures,
            overwrites,
            not_modified: outcome.not_modified,
            received_bytes: outcome.received_bytes as f64 / all,
            client_processor_us: outcome.client_processor_ns.map(each_us),
            busiest_client: outcome.busiest_client,
            server_processor_us: outcome.server_processor_ns.map(each_us),
            checked: outcome.checked.clone(),
            errors,
            predicted: None,
        }
    }
}
