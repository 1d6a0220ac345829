//! What limits the knee?
//!
//! It is the resource whose *relief* raises the knee most: relieved means that it costs nothing, with all else the
//! same. So each of the [resources](Resource) is relieved in turn, and the knee is searched again. The numbers
//! [measured](Measured) at the knee itself are further evidence.

use glidepath_model::Span;
use glidepath_point::Point;
use glidepath_workload::{End, Kind, Record};
use serde::Serialize;

use super::KneeError;
use super::factor::{Factor, fell_short};
use super::found::{Bound, deciding};
use super::outcome::KneeSearch;
use crate::metrics::Metrics;

/// A relief is not searched beyond this multiple of the knee: a resource that allows more is the limit in any case.
pub(super) const MOST: f64 = 8.0;

/// A smaller effect of a relief is not significant: each knee has an error of a few per cent.
const SIGNIFICANT: f64 = 1.15;

/// So many parallel reads that more make no difference.
const ALL_AT_ONCE: u32 = 64;

const ALL: [Resource; 5] =
    [Resource::TableMetadata, Resource::Catalog, Resource::History, Resource::RealConflicts, Resource::Retries];

/// A resource that may limit the knee.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Resource {
    /// The reads and writes of table metadata and manifests with each attempt: relieved, attempts make none.
    TableMetadata,
    /// The reads and guarded writes of the catalog: relieved, it answers in a microsecond.
    Catalog,
    /// The history reads of validated overwrites: relieved, they read 64 manifest lists at a time, which is nearly all
    /// at once.
    History,
    /// Real conflicts: relieved, there are none.
    RealConflicts,
    /// The number of retries: relieved, there are twice as many.
    Retries,
}

/// The knee with one resource relieved.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Relief {
    /// The relieved resource.
    pub resource: Resource,
    /// The knee with the relief, searched with fewer transactions and a coarser resolution than the knee itself.
    pub knee_commits_per_s: f64,
    /// Whether that is a knee, or a limit of what was tried.
    pub bound: Bound,
    /// Its ratio to the knee.
    #[serde(flatten)]
    pub factor: Factor,
}

impl Relief {
    /// Whether the factor is large, but may be so by chance.
    #[must_use]
    pub fn may_be_large(&self) -> bool {
        self.factor.value().is_some_and(|factor| factor >= SIGNIFICANT) && self.factor.no_difference_seen()
    }
}

/// What limits the knee, and the evidence.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bottleneck {
    /// Of the resources whose relief surely raises the knee, the one that raises it most; absent if none raises it
    /// significantly, if another one may raise it more ([`candidates`](Self::candidates)), or if the knee itself is a
    /// lower bound.
    pub binds: Option<Resource>,
    /// The reliefs with a result, the most effective first, those with an unknown factor last.
    pub reliefs: Vec<Relief>,
    /// Resources whose relief the budget did not suffice for: its search found no knee, or only a lower bound below the
    /// knee itself.
    pub undecided: Vec<Resource>,
    /// Measurements at the knee.
    pub measured: Measured,
}

/// Measures at the knee, over all transactions that ended, of all kinds unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// Attempts to install a commit, per transaction.
    pub attempts_mean: f64,
    /// The share of attempts with a catalog conflict.
    pub catalog_conflict_share: f64,
    /// The share of attempts with a table conflict.
    pub table_conflict_share: f64,
    /// The share of attempts that lost and were the last of their transaction, so that the kind of conflict is unknown.
    pub unseen_conflict_share: f64,
    /// The share of attempts that the store refused.
    pub refused_share: f64,
    /// Mean time of one install: the catalog's guarded write, and the read that follows, if any.
    pub install_mean_s: f64,
    /// Commits per second times that time: the mean number of concurrent winning installs (Little, "A Proof for the
    /// Queuing Formula L = λW", 1961). It can exceed one, because an install takes effect before its answer arrives.
    pub winning_installs_in_flight: f64,
    /// Mean time of a preparation and the install that follows.
    pub pass_mean_s: f64,
    /// Commits per second to the busiest table, times that time: the mean number of its concurrent winning passes.
    pub winning_passes_in_flight: f64,
    /// The share of the deciding transactions that ran out of retries or of time.
    pub gave_up_share: f64,
    /// Their mean number of catalog conflicts; absent if none gave up.
    pub gave_up_catalog_conflicts_mean: Option<f64>,
    /// Their mean number of table conflicts; absent if none gave up.
    pub gave_up_table_conflicts_mean: Option<f64>,
    /// The share of the deciding transactions with a real conflict.
    pub validation_failed_share: f64,
    /// History reads per deciding transaction.
    pub history_reads_mean: f64,
    /// Of the time that deciding transactions spend committing: the share for reading the catalog.
    pub catalog_read_time_share: f64,
    /// The share for preparing attempts: table metadata and manifest lists.
    pub prepare_time_share: f64,
    /// The share for reading table metadata and history after conflicts.
    pub conflict_read_time_share: f64,
    /// The share for installing.
    pub install_time_share: f64,
    /// The share of waits between attempts.
    pub backoff_time_share: f64,
}

/// The reliefs that apply to a point.
pub(super) fn reliefs(point: &Point) -> Vec<(Resource, Point)> {
    let relieved = |resource| {
        let mut config = point.config.clone();
        match resource {
            Resource::TableMetadata => {
                config.commit.once.clear();
                config.commit.prepare.clear();
                config.commit.refresh.clear();
            }
            Resource::Catalog => {
                (config.catalog.latency, config.catalog.store) = (Some(Span::from_nanos(1000)), None);
            }
            Resource::History if config.transaction.fast_append < 1.0 => config.commit.history_parallel = ALL_AT_ONCE,
            Resource::History => {}
            Resource::RealConflicts if config.transaction.fast_append < 1.0 => config.transaction.real_conflicts = 0.0,
            Resource::RealConflicts => {}
            Resource::Retries => config.retry.retries = config.retry.retries.saturating_mul(2).max(1),
        }
        (config != point.config).then(|| point.with(config).ok()).flatten()
    };
    ALL.into_iter().filter_map(|resource| Some((resource, relieved(resource)?))).collect()
}

impl Bottleneck {
    pub(super) fn of(found: &KneeSearch, reliefs: Vec<(Resource, Result<KneeSearch, KneeError>)>) -> Self {
        let mut undecided = Vec::new();
        let relief = |(resource, result): (Resource, Result<KneeSearch, KneeError>)| {
            if matches!(result, Err(KneeError::BudgetSpent { .. })) {
                undecided.push(resource);
            }
            let with = result.ok()?;
            if fell_short(found, &with) {
                undecided.push(resource);
                return None;
            }
            let factor = Factor::of(found, &with);
            Some(Relief { resource, knee_commits_per_s: with.commits_per_s, bound: with.bound, factor })
        };
        let mut reliefs: Vec<Relief> = reliefs.into_iter().filter_map(relief).collect();
        reliefs.sort_by(|a, b| a.factor.descending(b.factor));
        undecided.sort();
        Self { binds: binding(&reliefs, &undecided), undecided, measured: Measured::of(found), reliefs }
    }
}

impl Bottleneck {
    /// The reliefs of which one may be of what limits the knee, the most effective first.
    pub fn candidates(&self) -> impl Iterator<Item = &Relief> {
        candidates(&self.reliefs)
    }

    /// Whether a larger budget may name another limit, or name one.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.binds.is_none() && (!self.undecided.is_empty() || self.reliefs.iter().any(may_exceed))
    }
}

fn candidates(reliefs: &[Relief]) -> impl Iterator<Item = &Relief> {
    let raises = |relief: &&Relief| raises(relief) || may_exceed(relief);
    let least = reliefs.iter().filter(raises).filter_map(|relief| relief.factor.lowest()).fold(0.0, f64::max);
    let may_be_most = move |relief: &&Relief| relief.factor.highest().is_none_or(|highest| highest >= least);
    reliefs.iter().filter(raises).filter(may_be_most)
}

/// Whether this surely raises the knee, and significantly.
fn raises(relief: &Relief) -> bool {
    match relief.factor {
        Factor::Found { value, .. } => value >= SIGNIFICANT && !relief.factor.no_difference_seen(),
        Factor::AtLeast(value) => value >= SIGNIFICANT,
        Factor::AtMost(_) | Factor::Unknown => false,
    }
}

/// Whether this may raise the knee more than its factor says.
fn may_exceed(relief: &Relief) -> bool {
    matches!(relief.factor, Factor::AtLeast(_)) || relief.may_be_large()
}

/// Of these, the most effective first: the first that surely raises the knee, and significantly, unless another one may
/// raise it more.
fn binding(reliefs: &[Relief], undecided: &[Resource]) -> Option<Resource> {
    let first = reliefs.iter().find(|relief| raises(relief))?;
    let is_most = matches!(first.factor, Factor::AtLeast(value) if value >= MOST * ALMOST);
    let others = || reliefs.iter().filter(|relief| relief.resource != first.resource);
    (is_most || (undecided.is_empty() && !others().any(may_exceed))).then_some(first.resource)
}

/// The share of [`MOST`] from which on a relief counts as one that allows more: commits are a little fewer than offers.
const ALMOST: f64 = 0.9;

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
        // After a catalog conflict or a refusal, the next attempt keeps the preparation.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_no_effect_is_not_named_as_the_limit() {
        let of = |resource, factor| Relief { resource, knee_commits_per_s: 2.0, bound: Bound::Found, factor };
        let relief = |resource, value, interval| of(resource, Factor::Found { value, interval });
        let wide = relief(Resource::Retries, 1.5, Some([0.9, 2.5]));
        let sure = relief(Resource::Catalog, 1.3, Some([1.1, 1.5]));
        let small = relief(Resource::History, 1.1, Some([1.05, 1.15]));
        let binding = |reliefs: &[Relief]| super::binding(reliefs, &[]);
        assert_eq!(binding(&[wide, sure, small]), None, "the first may be larger");
        assert_eq!(binding(&[sure, small]), Some(Resource::Catalog));
        assert_eq!(super::binding(&[sure, small], &[Resource::Retries]), None, "one was not tried");
        assert_eq!(binding(&[relief(Resource::Retries, 1.5, None), small]), Some(Resource::Retries));
        assert_eq!(binding(&[wide, small]), None);
        let bound = |resource, least| of(resource, Factor::AtLeast(least));
        let named = |reliefs: &[Relief]| candidates(reliefs).map(|relief| relief.resource).collect::<Vec<_>>();
        assert_eq!(binding(&[sure, bound(Resource::Retries, 1.2)]), None, "a lower bound may be any more");
        assert_eq!(
            named(&[sure, bound(Resource::Retries, 1.6), bound(Resource::History, 1.2)]),
            [Resource::Retries, Resource::History]
        );
        assert_eq!(named(&[sure, bound(Resource::Retries, 1.4)]), [Resource::Catalog, Resource::Retries]);
        assert_eq!(binding(&[bound(Resource::Retries, 7.9), bound(Resource::History, 1.2)]), Some(Resource::Retries));
        assert_eq!([wide, sure, small].map(|relief| relief.may_be_large()), [true, false, false]);
        let bounds = [Factor::AtMost(4.3), Factor::Unknown].map(|factor| of(Resource::Catalog, factor));
        assert_eq!(binding(&bounds), None, "the knee itself may be as high");
        assert_eq!(binding(&[of(Resource::Catalog, Factor::AtLeast(4.3))]), Some(Resource::Catalog));
    }
}
