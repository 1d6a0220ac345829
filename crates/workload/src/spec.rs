//! What does an experiment file say of the workload? Every field of the sections `arrivals`, `transaction`, `tables`, `commit` and
//! `retry`.

use glidepath_env::{Backoff, Capabilities};
use glidepath_model::{ByteSize, Span};
use serde::{Deserialize, Serialize};

use crate::distribution::{Distribution, Shape};

/// All that a workload is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// When transactions arrive.
    pub arrivals: Arrivals,
    /// What each is.
    pub transaction: Transaction,
    /// The tables they write.
    pub tables: Tables,
    /// What a commit takes.
    pub commit: Commit,
    /// What follows a failed attempt.
    pub retry: Retry,
}

/// An open loop: transactions arrive whatever the backlog.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrivals {
    /// The family of the times between arrivals.
    pub kind: Shape,
    /// Its scale: the mean or median time between arrivals, as the family has it.
    pub scale: Span,
    /// Lognormal only: the standard deviation of the logarithm.
    #[serde(default)]
    pub sigma: f64,
    /// No time between arrivals is shorter.
    #[serde(default)]
    pub floor: Span,
    /// More arrivals at times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Burst>,
}

/// Times of more arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// From the start of one burst to the start of the next; the first starts at this time.
    pub every: Span,
    /// How long each lasts.
    pub lasts: Span,
    /// The factor by which arrivals are more frequent in a burst.
    pub factor: f64,
    /// If given, all the arrivals that are more than usual write this table (counted from 0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<u32>,
}

/// What each transaction is.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transaction {
    /// The share that are fast appends; the others are validated overwrites.
    pub fast_append: f64,
    /// How long each works between its first look at the catalog and its commit.
    pub runtime: Distribution,
    /// Given a table conflict, the probability that it is a real one for a validated overwrite.
    #[serde(default)]
    pub real_conflicts: f64,
    /// How many tables each writes.
    #[serde(default = "one")]
    pub tables: u32,
    /// How many partitions it writes of each.
    #[serde(default = "one")]
    pub partitions: u32,
}

/// The tables of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tables {
    /// How many.
    pub count: u32,
    /// Which of them a transaction writes.
    pub choice: Choice,
    /// How many partitions each has.
    #[serde(default = "one")]
    pub partitions: u32,
    /// Which partitions of a table a transaction writes.
    #[serde(default)]
    pub partition_choice: Choice,
    /// Where table metadata is kept.
    #[serde(default)]
    pub metadata: TableMetadata,
    /// How a manifest list is changed.
    #[serde(default)]
    pub manifest_list: ManifestList,
    /// The size of a table's metadata object.
    pub metadata_size: ByteSize,
    /// The size of a manifest list.
    pub manifest_list_size: ByteSize,
    /// The size of a manifest file.
    pub manifest_file_size: ByteSize,
    /// What one commit adds to a manifest list in append mode.
    #[serde(default = "entry_size")]
    pub manifest_entry_size: ByteSize,
}

/// How one of several is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// All alike.
    #[default]
    Uniform,
    /// The k-th (from 1) with a probability proportional to 1 / k^exponent.
    Zipf(f64),
}

/// Where table metadata is kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TableMetadata {
    /// In objects of its own, read and written with each attempt.
    #[default]
    Separate,
    /// Inside the catalog's object: no requests of its own, but a larger object to put.
    Inlined,
}

/// How a manifest list is changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ManifestList {
    /// Each attempt reads the newest list and writes a new one.
    #[default]
    Rewrite,
    /// Each transaction appends one tentative entry to its table's list, once; it counts when the catalog names the
    /// transaction. Needs a store that can append.
    Append,
}

/// What a commit takes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Commit {
    /// Done once, before the first attempt.
    #[serde(default)]
    pub once: Vec<Step>,
    /// Done before each attempt, unless the last one failed with a catalog conflict.
    pub prepare: Vec<Step>,
    /// Done after a conflict, once the catalog has been read again.
    #[serde(default)]
    pub refresh: Vec<Step>,
    /// Which conflicts call for the steps of `refresh`.
    #[serde(default)]
    pub refresh_after: Refresh,
    /// What a validated overwrite reads after a table conflict.
    pub history: History,
    /// How many of these reads at a time.
    #[serde(default = "one")]
    pub history_parallel: u32,
    /// Whether the catalog is read again before the first attempt, and that attempt prepared against what it says.
    #[serde(default)]
    pub refresh_first: bool,
}

/// One request of a commit's preparation, per table written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(missing_docs, reason = "the names say it all")]
pub enum Step {
    ReadTableMetadata,
    WriteTableMetadata,
    ReadManifestList,
    WriteManifestList,
    WriteManifestFile,
}

/// Which conflicts call for a look at the tables' metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refresh {
    /// Every one.
    #[default]
    EveryConflict,
    /// Only those where something that the transaction writes has changed.
    TableConflict,
}

/// What a validated overwrite reads after a table conflict: one manifest list for each of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum History {
    /// Each snapshot of the partitions it writes that it has missed, but for the newest of each, which the next
    /// preparation reads anyway.
    MissedSnapshots,
    /// Each version of the whole catalog that it has missed.
    MissedCatalogVersions,
}

/// What follows a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Attempts after the first, whatever the conflicts.
    pub retries: u32,
    /// No retry begins later than this after the first attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<Span>,
    /// The wait after a catalog conflict; its n counts catalog conflicts.
    pub catalog: Backoff,
    /// The wait after a table conflict; its n counts table conflicts.
    pub table: Backoff,
}

fn one() -> u32 {
    1
}

/// An entry of an Iceberg manifest list, Avro-encoded, is a few hundred bytes (assumed).
fn entry_size() -> ByteSize {
    ByteSize::from_bytes(256)
}

/// What is wrong with a workload: the field as written in the file, what was found, what is allowed.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{field}: found {found}; allowed: {allowed}")]
pub struct SpecError {
    /// Path of the field, with dots.
    pub field: &'static str,
    /// The value in the file.
    pub found: String,
    /// The allowed values.
    pub allowed: String,
}

impl Workload {
    /// Checks every number, and that the stores can do what the workload asks of them.
    ///
    /// # Errors
    /// The first field that is out of its range.
    pub fn check(&self, table_store: Capabilities) -> Result<(), SpecError> {
        let Self { arrivals, transaction, tables, commit, retry } = self;
        check("arrivals.scale", arrivals.scale, arrivals.scale > Span::ZERO, "more than 0")?;
        check("arrivals.sigma", arrivals.sigma, (0.0..=5.0).contains(&arrivals.sigma), "0 to 5")?;
        if let Some(burst) = arrivals.burst {
            burst.check(tables.count)?;
        }
        let share = |value: f64| (0.0..=1.0).contains(&value);
        check("transaction.fast_append", transaction.fast_append, share(transaction.fast_append), "0 to 1")?;
        check("transaction.real_conflicts", transaction.real_conflicts, share(transaction.real_conflicts), "0 to 1")?;
        let sigma = transaction.runtime.sigma;
        check("transaction.runtime.sigma", sigma, (0.0..=5.0).contains(&sigma), "0 to 5")?;
        check("tables.count", tables.count, (1..=100_000).contains(&tables.count), "1 to 100000")?;
        check("tables.partitions", tables.partitions, (1..=10_000).contains(&tables.partitions), "1 to 10000")?;
        let up_to = |field, value: u32, most: u32, of: &str| {
            check(field, value, (1..=most).contains(&value), format!("1 to {most} ({of})"))
        };
        up_to("transaction.tables", transaction.tables, tables.count, "tables.count")?;
        up_to("transaction.partitions", transaction.partitions, tables.partitions, "tables.partitions")?;
        tables.choice.check("tables.choice")?;
        tables.partition_choice.check("tables.partition_choice")?;
        check("commit.history_parallel", commit.history_parallel, commit.history_parallel > 0, "1 or more")?;
        check_backoff("retry.catalog", &retry.catalog)?;
        check_backoff("retry.table", &retry.table)?;
        let can_append = table_store.append || tables.manifest_list == ManifestList::Rewrite;
        let allowed = "\"rewrite\" (this store cannot append; a profile with an [append] section can)";
        check("tables.manifest_list", "\"append\"", can_append, allowed)
    }
}

/// Bursts come no more often: the time of a simulation grows with their number, whatever they bring.
const SHORTEST_CYCLE: Span = Span::from_secs(1);

impl Burst {
    fn check(&self, tables: u32) -> Result<(), SpecError> {
        check("arrivals.burst.every", self.every, self.every >= SHORTEST_CYCLE, "1s or more")?;
        let lasts = self.lasts <= self.every;
        check("arrivals.burst.lasts", self.lasts, lasts, format!("0 to {} (arrivals.burst.every)", self.every))?;
        check("arrivals.burst.factor", self.factor, (1.0..=1e6).contains(&self.factor), "1 to 1000000")?;
        let table = self.table.unwrap_or(0);
        check("arrivals.burst.table", table, table < tables, format!("0 to {} (below tables.count)", tables - 1))
    }
}

impl Choice {
    fn check(&self, field: &'static str) -> Result<(), SpecError> {
        let Self::Zipf(exponent) = self else { return Ok(()) };
        check(field, format!("{{ zipf = {exponent} }}"), (0.0..=10.0).contains(exponent), "an exponent of 0 to 10")
    }
}

fn check_backoff(field: &'static str, backoff: &Backoff) -> Result<(), SpecError> {
    let Backoff::Exponential(waits) = backoff else { return Ok(()) };
    let jitter = waits.jitter;
    let found = format!("factor = {}, jitter = [{}, {}]", waits.factor, jitter.low, jitter.high);
    let good = (1.0..=1000.0).contains(&waits.factor) && 0.0 <= jitter.low && jitter.low <= jitter.high;
    check(
        field,
        found,
        good && jitter.high <= 10.0,
        "factor = 1 to 1000, jitter = [low, high] with 0 <= low <= high <= 10",
    )
}

fn check(field: &'static str, found: impl ToString, good: bool, allowed: impl Into<String>) -> Result<(), SpecError> {
    if good { Ok(()) } else { Err(SpecError { field, found: found.to_string(), allowed: allowed.into() }) }
}
