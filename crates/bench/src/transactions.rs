//! How fast does a key-value store keep the ends of transactions, and which encoding and which loading suits it?
//!
//! Each [`Part`] asks one question, as the record of AtlasDB's transaction tables does (architecture decision record
//! 16):
//!
//! | part | question |
//! |---|---|
//! | puts | how many transactions end per second, each by a call of its own, with the original encoding and with tickets in so many rows |
//! | batches | the same, with 256 ends in one call |
//! | reads | how many ends are read per second, of which all or half exist |
//! | cache | how many are read per second from the memory of the process |
//! | loads | which division into batches loads many cells soonest |
//! | bytes | what an entry costs on disk (not in memory) |
//!
//! All loops are closed: a client sends its next call when the last one is answered. Each run has a table of its own,
//! which stays in the store: a key-value store has no call that drops one.

mod closed_loop;
mod ends;
mod loads;
mod report;
mod sizes;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use glidepath_env::{Cause, Env, Purpose, Table};
use glidepath_kv::{AnyKv, OpenError};
use glidepath_model::Span;
use glidepath_stores::LiveEnv;
use glidepath_txn::table::{self, DecideError, GetError};
use serde::Serialize;

use closed_loop::Looped;

pub use report::page;
pub use sizes::LEAST_ENTRIES;

/// A question of a benchmark of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// Transactions that end one at a time.
    Puts,
    /// Transactions that end 256 at a time.
    Batches,
    /// Reads of single transactions from the store.
    Reads,
    /// Reads of single transactions from memory.
    Cache,
    /// Loads of many cells.
    Loads,
    /// The size of entries on disk.
    Bytes,
}

impl Part {
    /// All of them, in the order of the reports.
    pub const ALL: [Self; 6] = [Self::Puts, Self::Batches, Self::Reads, Self::Cache, Self::Loads, Self::Bytes];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Puts => "puts",
            Self::Batches => "batches",
            Self::Reads => "reads",
            Self::Cache => "cache",
            Self::Loads => "loads",
            Self::Bytes => "bytes",
        }
    }
}

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The questions.
    pub parts: Vec<Part>,
    /// Clients of puts.
    pub clients: Vec<u32>,
    /// Rows of a partition of tickets, over which the clients of puts are spread: divisors of 25,000,000.
    pub rows: Vec<u64>,
    /// How long each run is measured, after a fifth of it that is not.
    pub duration: Span,
    /// Entries of the part *bytes*, at least [`LEAST_ENTRIES`].
    pub entries: u64,
}

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Its question.
    pub part: Part,
    /// What was run, in words.
    pub what: String,
    /// Clients at a time.
    pub clients: u32,
    /// Rows of a partition of tickets; of puts only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// Transactions, or cells of loads, per second.
    pub per_second: f64,
    /// How long a call took: median, 95th and 99th percentile, in milliseconds; those that too few calls support are
    /// left out.
    pub latency_ms: [Option<f64>; 3],
    /// Calls that ended in an error, or in another end than the one that was asked for.
    pub errors: u64,
    /// One of the first errors, in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
    /// Bytes on disk for each entry; of the part *bytes* only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_entry: Option<f64>,
}

impl Line {
    fn of(part: Part, what: String, clients: u32, looped: Looped) -> Self {
        let Looped { per_second, latency_ms, errors, first_error } = looped;
        Self { part, what, clients, rows: None, per_second, latency_ms, errors, first_error, bytes_per_entry: None }
    }
}

/// Why a benchmark ended early.
#[derive(Debug, thiserror::Error)]
pub enum TxnBenchError {
    /// No threads, or no timers.
    #[error("cannot start: {0}")]
    Start(#[from] std::io::Error),
    /// A table was not made.
    #[error(transparent)]
    Table(#[from] table::OpenError),
    /// The entries that are to be read were not written.
    #[error("preparing: {0}")]
    Decide(#[from] DecideError),
    /// An entry could not be read.
    #[error("preparing: {0}")]
    Get(#[from] GetError),
    /// Cells that are to be loaded were not written.
    #[error("preparing cells: {0}")]
    Cells(Cause),
    /// A store of the part *bytes* was not made.
    #[error(transparent)]
    Folder(#[from] OpenError),
    /// The server did not say what a table takes.
    #[error("the size on disk: {0}")]
    Size(Cause),
}

/// What all parts use.
struct Context<'a> {
    store: &'a AnyKv,
    plan: &'a Plan,
    stop: &'a AtomicBool,
    /// Random, so that a table is new.
    id: u64,
}

impl Context<'_> {
    /// A name that no other run has.
    fn table(&self, name: &str) -> Result<Table, TxnBenchError> {
        let named = Table::new(&format!("bench_{:016x}_{name}", self.id));
        named.ok_or_else(|| TxnBenchError::Cells(Cause::words("a table of the benchmark has no name")))
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}

/// Runs the parts in their order; `scratch` is a folder for the part *bytes*; without it, that part asks the server,
/// and is left out in memory. `each` gets each line as soon as it is there, and how many there will be at most; also if
/// a later run ends in an error. Set `stop` to end early.
///
/// # Errors
/// [`TxnBenchError`]
pub fn run(
    store: &AnyKv,
    plan: &Plan,
    scratch: Option<&Path>,
    stop: &AtomicBool,
    each: &mut dyn FnMut(Line, usize),
) -> Result<(), TxnBenchError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let context = Context { store, plan, stop, id: LiveEnv::new().draw(Purpose::Names) };
    let all = plan.lines();
    let mut add = |line: Line| {
        // A run that was cut short has no rate.
        if !context.stopped() {
            each(line, all);
        }
    };
    for part in &plan.parts {
        if context.stopped() {
            break;
        }
        match part {
            Part::Puts => runtime.block_on(ends::puts(&context, &mut add))?,
            Part::Batches => runtime.block_on(ends::batches(&context, &mut add))?,
            Part::Reads => runtime.block_on(ends::reads(&context, &mut add))?,
            Part::Cache => runtime.block_on(ends::cache(&context, &mut add))?,
            Part::Loads => runtime.block_on(loads::loads(&context, &mut add))?,
            Part::Bytes => match scratch {
                Some(scratch) => runtime.block_on(sizes::of_files(&context, scratch, &mut add))?,
                None => runtime.block_on(sizes::of_server(&context, &mut add))?,
            },
        }
    }
    Ok(())
}

impl Plan {
    /// How many lines it has, at most.
    #[must_use]
    pub fn lines(&self) -> usize {
        let of = |part: &Part| match part {
            Part::Puts => self.clients.len() * (self.rows.len() + 1),
            Part::Batches => 1,
            Part::Reads => 2 * ends::READERS.len(),
            Part::Cache => 1,
            Part::Loads => loads::SHAPES.len() * loads::READERS.len() * loads::DIVISIONS.len(),
            Part::Bytes => 2,
        };
        self.parts.iter().map(of).sum()
    }
}
