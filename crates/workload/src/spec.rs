//! The description of the workload in an experiment file: every field of the sections `arrivals`, `transaction`,
//! `tables`, `commit` and `retry`.

use std::ops::RangeInclusive;

use glidepath_env::{Backoff, Capabilities};
use glidepath_model::{ByteSize, Span};
use serde::{Deserialize, Serialize};

use crate::distribution::{Distribution, Shape};
use crate::record::Kind;

/// A workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// When transactions arrive.
    pub arrivals: Arrivals,
    /// What each one does.
    pub transaction: Transaction,
    /// The tables they write.
    pub tables: Tables,
    /// The requests of a commit.
    pub commit: Commit,
    /// What happens after a failed attempt.
    pub retry: Retry,
}

/// An open loop: transactions arrive independently of the backlog.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Arrivals {
    /// The family of the times between arrivals.
    pub kind: Shape,
    /// Its scale: the mean or median time between arrivals, depending on the family.
    pub scale: Span,
    /// Lognormal only: the standard deviation of the logarithm.
    #[serde(default)]
    pub sigma: f64,
    /// The minimum time between arrivals.
    #[serde(default)]
    pub floor: Span,
    /// Times with more arrivals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<Burst>,
}

impl Arrivals {
    /// Whether the scale is the mean of the times between arrivals, outside of bursts.
    #[must_use]
    pub fn scale_is_mean(&self) -> bool {
        self.kind != Shape::Lognormal && self.floor == Span::ZERO
    }
}

/// Periods with more arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// From the start of one burst to the start of the next; the first starts at this time.
    pub every: Span,
    /// The duration of each.
    pub lasts: Span,
    /// The factor by which arrivals are more frequent in a burst.
    pub factor: f64,
    /// If given, all additional arrivals write this table (counted from 0).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub table: Option<u32>,
}

/// What each transaction does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Transaction {
    /// The share of fast appends; the others are validated overwrites.
    pub fast_append: f64,
    /// The time each works between its first read of the catalog and its commit.
    pub runtime: Distribution,
    /// The same for validated overwrites, if it is another: a compaction works for longer than an append. An experiment
    /// file gives what differs from `runtime`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overwrite_runtime: Option<Distribution>,
    /// Given a table conflict, the probability that it is a real one for a validated overwrite.
    #[serde(default)]
    pub real_conflicts: f64,
    /// The number of tables each writes.
    #[serde(default = "one")]
    pub tables: u32,
    /// The number of partitions it writes in each.
    #[serde(default = "one")]
    pub partitions: u32,
}

impl Transaction {
    /// The time that transactions of this kind work.
    #[must_use]
    pub fn runtime_of(&self, kind: Kind) -> Distribution {
        match kind {
            Kind::FastAppend => self.runtime,
            Kind::ValidatedOverwrite => self.overwrite_runtime.unwrap_or(self.runtime),
        }
    }

    /// The kinds that there are, with their shares.
    pub fn kinds(&self) -> impl Iterator<Item = (Kind, f64)> + use<> {
        let kinds = [(Kind::FastAppend, self.fast_append), (Kind::ValidatedOverwrite, 1.0 - self.fast_append)];
        kinds.into_iter().filter(|(_, share)| *share > 0.0)
    }
}

/// The tables of the catalog.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tables {
    /// The number of tables.
    pub count: u32,
    /// Which of them a transaction writes.
    pub choice: Choice,
    /// The number of partitions of each.
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
    /// Who makes fast appends fit that met a commit to their table.
    #[serde(default, skip_serializing_if = "Appends::are_usual")]
    pub appends: Appends,
    /// The size of a table's metadata object.
    pub metadata_size: ByteSize,
    /// The size of a manifest list.
    pub manifest_list_size: ByteSize,
    /// The size of a manifest file.
    pub manifest_file_size: ByteSize,
    /// The bytes that one commit adds to a manifest list in append mode.
    #[serde(default = "entry_size")]
    pub manifest_entry_size: ByteSize,
}

/// The probability with which each is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// Equal for all.
    #[default]
    Uniform,
    /// For the k-th (from 1), proportional to 1 / k^exponent.
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

/// Who makes fast appends fit that met a commit to their table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Appends {
    /// The client: it prepares them again, and tries again.
    #[default]
    Retried,
    /// The server of the catalog, which is one of ours: it writes the table metadata, and puts all appends that wait at
    /// a table on top of the newest version at once. Clients write manifest files and lists only.
    Rebased,
}

impl Appends {
    fn are_usual(&self) -> bool {
        *self == Self::default()
    }
}

/// The requests of a commit.
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
    /// Which conflicts require the steps of `refresh`.
    #[serde(default)]
    pub refresh_after: Refresh,
    /// What a validated overwrite reads after a table conflict.
    pub history: History,
    /// How many of these reads run at a time.
    #[serde(default = "one")]
    pub history_parallel: u32,
    /// Whether the catalog is read again before the first attempt, which is then prepared against the newer snapshot.
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

/// Which conflicts require reading the tables' metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refresh {
    /// All conflicts.
    #[default]
    EveryConflict,
    /// Only table conflicts.
    TableConflict,
}

/// What a validated overwrite reads after a table conflict: one manifest list for each of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum History {
    /// Each missed snapshot of the partitions it writes, except the newest of each, which the next preparation reads
    /// anyway.
    MissedSnapshots,
    /// Each missed version of the whole catalog.
    MissedCatalogVersions,
}

/// What happens after a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// The maximum number of attempts after the first, for all kinds of conflict together.
    pub retries: u32,
    /// The latest start of a retry, measured from the first attempt.
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

/// Assumed: an entry of an Iceberg manifest list, Avro-encoded, takes a few hundred bytes.
fn entry_size() -> ByteSize {
    ByteSize::from_bytes(256)
}

/// An invalid field of a workload: its name in the file, what was found, what is allowed.
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
    /// Checks every number, and that the store can do what the workload needs.
    ///
    /// # Errors
    /// The first field that is out of range.
    pub fn check(&self, table_store: Capabilities) -> Result<(), SpecError> {
        let Self { arrivals, transaction, tables, commit, retry } = self;
        check("arrivals.scale", arrivals.scale, arrivals.scale > Span::ZERO, "more than 0")?;
        check("arrivals.sigma", arrivals.sigma, (0.0..=5.0).contains(&arrivals.sigma), "0 to 5")?;
        if let Some(burst) = arrivals.burst {
            burst.check(tables.count)?;
        }
        let share = |value: f64| (0.0..=1.0).contains(&value);
        check(
            "transaction.fast_append",
            transaction.fast_append,
            share(transaction.fast_append),
            "0 to 1, such as 0.9 or 90%",
        )?;
        check(
            "transaction.real_conflicts",
            transaction.real_conflicts,
            share(transaction.real_conflicts),
            "0 to 1, such as 0.9 or 90%",
        )?;
        let sigma = transaction.runtime.sigma;
        check("transaction.runtime.sigma", sigma, (0.0..=5.0).contains(&sigma), "0 to 5")?;
        let sigma = transaction.overwrite_runtime.map_or(0.0, |runtime| runtime.sigma);
        check("transaction.overwrite_runtime.sigma", sigma, (0.0..=5.0).contains(&sigma), "0 to 5")?;
        for (field, value) in [("tables.count", tables.count), ("tables.partitions", tables.partitions)] {
            let range = whole_range(field).unwrap_or(0..=u32::MAX);
            check(field, value, range.contains(&value), format!("{} to {}", range.start(), range.end()))?;
        }
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

/// The range of a field with whole numbers, if it depends on no other field.
#[must_use]
pub fn whole_range(field: &str) -> Option<RangeInclusive<u32>> {
    match field {
        "tables.count" => Some(1..=100_000),
        "tables.partitions" => Some(1..=10_000),
        _ => None,
    }
}

/// The minimum time between bursts: the time that a simulation takes grows with their number.
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
