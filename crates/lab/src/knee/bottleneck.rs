//! What binds at the knee?
//!
//! What binds is what raises the knee most when it is *relieved*: when it costs nothing, everything else being the same.
//! So each of the [resources](Resource) is relieved in turn, and the knee searched again. Beside that stand the numbers
//! [measured](Measured) at the knee itself, each with its definition, as evidence and for those who think otherwise.

use glidepath_model::Span;
use glidepath_workload::{End, Kind, Record};
use serde::Serialize;

use super::found::{Bound, Knee, deciding};
use super::outcome::KneeSearch;
use super::{KneeError, factor_interval};
use crate::config::Point;
use crate::metrics::Metrics;

/// A relief is not followed beyond so many times the knee: what lifts it further than that, binds.
pub(super) const MOST: f64 = 8.0;

/// A relief that raises the knee by less than this says nothing: each is found to within a few percent.
const SIGNIFICANT: f64 = 1.15;

/// As many reads at a time as make no difference to more.
const ALL_AT_ONCE: u32 = 64;

const ALL: [Resource; 5] =
    [Resource::TableMetadata, Resource::Catalog, Resource::History, Resource::RealConflicts, Resource::Retries];

/// What may bind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// The reads and writes of table metadata and manifests with each attempt: relieved, attempts make none.
    TableMetadata,
    /// The reads and guarded writes of the catalog: relieved, it answers in a microsecond.
    Catalog,
    /// What validated overwrites read of the history they missed: relieved, they read 64 manifest lists at a time,
    /// which is nearly all at once.
    History,
    /// Conflicts that are real: relieved, there are none.
    RealConflicts,
    /// The number of retries: relieved, there are twice as many.
    Retries,
}

/// What the knee would be without one of its causes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Relief {
    /// What is relieved.
    pub resource: Resource,
    /// The knee then; searched with fewer transactions and to a coarser resolution than the knee itself.
    pub knee_commits_per_s: f64,
    /// As often as the knee.
    pub factor: f64,
    /// Holds that factor with 95 % confidence; absent where that cannot be told.
    pub factor_interval: Option<[f64; 2]>,
    /// Whether it may be higher still.
    pub at_least: bool,
}

/// What binds, and the evidence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bottleneck {
    /// The resource whose relief raises the knee most; absent where none raises it noticeably.
    pub binds: Option<Resource>,
    /// All reliefs, those that help most first.
    pub reliefs: Vec<Relief>,
    /// What was measured at the knee.
    pub measured: Measured,
}

/// Measures at the knee, over all transactions that ended, of all kinds unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Attempts to install a commit, per transaction.
    pub attempts_mean: f64,
    /// The share of attempts that met a commit to something else in the catalog.
    pub catalog_conflict_share: f64,
    /// The share of attempts that met a commit to something they write.
    pub table_conflict_share: f64,
    /// The share of attempts that lost, and were the last before their transactions gave up: nobody looked to whom.
    pub unseen_conflict_share: f64,
    /// The share of attempts that the store turned away.
    pub refused_share: f64,
    /// Mean time of one attempt to install: the catalog's guarded write, and a read of it where that follows.
    pub install_mean_s: f64,
    /// Commits per second times that time: the winning installs under way, on average (Little, "A Proof for the Queuing Formula
    /// L = λW", 1961). It can be more than one, for an install takes effect on its way, and its answer takes time.
    pub winning_installs_in_flight: f64,
    /// Mean time of one pass over a table: a preparation, and the install that follows.
    pub pass_mean_s: f64,
    /// Commits per second to the table with the most, times that time: the winning passes over it under way, on average.
    pub winning_passes_in_flight: f64,
    /// The share of the deciding transactions that ran out of retries or of time.
    pub gave_up_share: f64,
    /// How many of their attempts met a commit to something else, on average; absent where none gave up.
    pub gave_up_catalog_conflicts_mean: Option<f64>,
    /// How many of their attempts met a commit to something they write, on average; absent where none gave up.
    pub gave_up_table_conflicts_mean: Option<f64>,
    /// The share of the deciding transactions that found a conflict to be real.
    pub validation_failed_share: f64,
    /// Manifest lists read as history, per deciding transaction.
    pub history_reads_mean: f64,
    /// Of the time that deciding transactions spend committing: the share that goes to reading the catalog.
    pub catalog_read_time_share: f64,
    /// The share that goes to preparing attempts: table metadata and manifest lists.
    pub prepare_time_share: f64,
    /// The share that goes to reading table metadata and history after conflicts.
    pub conflict_read_time_share: f64,
    /// The share that goes to installing.
    pub install_time_share: f64,
    /// The share that is waited between attempts.
    pub backoff_time_share: f64,
}

/// The reliefs that make sense for a point.
pub(super) fn reliefs(point: &Point) -> Vec<(Resource, Point)> {
    let relieved = |resource| {
        let mut config = point.config.clone();
        match resource {
            Resource::TableMetadata => {
                config.commit.once.clear();
                config.commit.prepare.clear();
                config.commit.refresh.clear();
            }
            Resource::Catalog => config.catalog.latency = Some(Span::from_nanos(1000)),
            Resource::History if config.transaction.fast_append < 1.0 => config.commit.history_parallel = ALL_AT_ONCE,
            Resource::History => {}
            Resource::RealConflicts if config.transaction.fast_append < 1.0 => config.transaction.real_conflicts = 0.0,
            Resource::RealConflicts => {}
            Resource::Retries => config.retry.retries = config.retry.retries.saturating_mul(2).max(1),
        }
        (config != point.config).then(|| Point::new(config, point.profile.clone()).ok()).flatten()
    };
    ALL.into_iter().filter_map(|resource| Some((resource, relieved(resource)?))).collect()
}

impl Bottleneck {
    pub(super) fn of(found: &KneeSearch, knee: &Knee, reliefs: Vec<(Resource, Result<KneeSearch, KneeError>)>) -> Self {
        let relief = |(resource, result): (Resource, Result<KneeSearch, KneeError>)| {
            let with = result.ok()?;
            let factor = with.commits_per_s / knee.knee_commits_per_s;
            let factor_interval = factor_interval(found, &with);
            let at_least = with.bound.is_lower();
            Some(Relief { resource, knee_commits_per_s: with.commits_per_s, factor, factor_interval, at_least })
        };
        let mut reliefs: Vec<Relief> = reliefs.into_iter().filter_map(relief).collect();
        reliefs.sort_by(|a, b| b.factor.total_cmp(&a.factor));
        let first = reliefs.first().filter(|relief| relief.factor >= SIGNIFICANT && knee.bound == Bound::Found);
        Self { binds: first.map(|relief| relief.resource), measured: Measured::of(found), reliefs }
    }
}

impl Measured {
    fn of(found: &KneeSearch) -> Self {
        let (outcome, runs) = &found.outcome;
        let metrics = &Metrics::judged(&found.point, outcome);
        let (all, group) = (&metrics.all, deciding(metrics));
        let decides =
            |record: &&Record| metrics.validated_overwrite.is_none() || record.kind == Kind::ValidatedOverwrite;
        let gave_up = || outcome.records.iter().filter(decides).filter(|record| record.end == End::OutOfRetries);
        let gave_up_count = gave_up().count();
        let gave_up_mean = |what: fn(&Record) -> u32| {
            let sum: f64 = gave_up().map(|record| f64::from(what(record))).sum();
            (gave_up_count > 0).then(|| sum / gave_up_count as f64)
        };
        let commits_per_s = all.throughput_per_s / *runs as f64;
        let attempts = all.attempts.max(1) as f64;
        let ended = all.run_ended.max(1) as f64;
        let install_mean_s = all.spent.install_s * ended / attempts;
        // An attempt that met a commit elsewhere, or was turned away, keeps its preparation for the next.
        let passes = (attempts - (all.catalog_conflicts + all.refused) as f64).max(ended);
        let pass_mean_s = install_mean_s + all.spent.prepare_s * ended / passes;
        let committed: u64 = metrics.ranks.iter().map(|rank| rank.committed).sum();
        let busiest = metrics.ranks.iter().map(|rank| rank.committed).max().unwrap_or(0);
        let busiest_per_s = commits_per_s * busiest as f64 / committed.max(1) as f64;
        let decided = group.run_ended.max(1) as f64;
        let spent = group.spent;
        let time = spent.catalog_reads_s + spent.prepare_s + spent.conflict_reads_s + spent.install_s + spent.backoff_s;
        let of_time = |part: f64| if time > 0.0 { part / time } else { 0.0 };
        Self {
            attempts_mean: attempts / ended,
            catalog_conflict_share: all.catalog_conflicts as f64 / attempts,
            table_conflict_share: all.table_conflicts as f64 / attempts,
            unseen_conflict_share: all.unseen_conflicts as f64 / attempts,
            refused_share: all.refused as f64 / attempts,
            install_mean_s,
            winning_installs_in_flight: commits_per_s * install_mean_s,
            pass_mean_s,
            winning_passes_in_flight: busiest_per_s * pass_mean_s,
            gave_up_share: gave_up_count as f64 / decided,
            gave_up_catalog_conflicts_mean: gave_up_mean(|record| record.catalog_conflicts),
            gave_up_table_conflicts_mean: gave_up_mean(|record| record.table_conflicts),
            validation_failed_share: group.run_validation_failed as f64 / decided,
            history_reads_mean: group.history_reads as f64 / decided,
            catalog_read_time_share: of_time(spent.catalog_reads_s),
            prepare_time_share: of_time(spent.prepare_s),
            conflict_read_time_share: of_time(spent.conflict_reads_s),
            install_time_share: of_time(spent.install_s),
            backoff_time_share: of_time(spent.backoff_s),
        }
    }
}
