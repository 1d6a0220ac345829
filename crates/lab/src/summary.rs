//! The results of an experiment over its seeds: means and spreads for tables, pictures and knees.

use glidepath_run::statistics::Spread;
use serde::Serialize;

use crate::experiment::Experiment;
use crate::interval::{self, Interval};
use crate::metrics::{Group, Latency, Metrics, Rank, SpentMeans};
use crate::runner::Results;

/// An experiment's points, in its order.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunSummary {
    /// One for each planned point.
    pub points: Vec<PointSummary>,
}

/// A point, over all seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointSummary {
    /// For each axis: its key, and the value here.
    pub coordinates: Vec<(String, String)>,
    /// Transactions of all kinds.
    pub all: GroupSummary,
    /// Fast appends; absent where the workload has none.
    pub fast_append: Option<GroupSummary>,
    /// Validated overwrites; absent where the workload has none.
    pub validated_overwrite: Option<GroupSummary>,
    /// The deciding success: mean over seeds of [`Metrics::deciding_success`].
    pub deciding_success: Option<Spread>,
    /// Whether a run had not settled when its window began: then intervals do not cover that bias.
    #[serde(skip)]
    pub unsettled: bool,
    /// By table: mean counts over seeds.
    pub ranks: Vec<RankSummary>,
    /// Commits in each sixtieth of the duration: means over seeds.
    pub commits_over_time: Vec<f64>,
}

/// The transactions of one kind, over all seeds. A field is absent if no seed has it. Shares are between 0 and 1.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GroupSummary {
    /// Committed, of those that arrived in the window and ended.
    pub success: Option<Spread>,
    /// The 95 % interval of the mean of `success`; absent if a seed has none.
    pub success_interval: Option<Interval>,
    /// Committed, of those that arrived after the first quarter and ended.
    pub warm_success: Option<Spread>,
    /// Of these, commits per second of the last three quarters.
    pub warm_throughput_per_s: Spread,
    /// Of these, mean commit latency.
    pub warm_latency_mean_s: Option<Spread>,
    /// Committed, of those that ended, over the whole run.
    pub run_success: Option<Spread>,
    /// Of those that arrived in the window, those that had not ended when the run did.
    pub not_ended: Option<Spread>,
    /// Committed, of those that arrived in bursts in the window and ended.
    pub burst_success: Option<Spread>,
    /// Arrivals per second of the window.
    pub arrived_per_s: Spread,
    /// Commits per second of the window.
    pub throughput_per_s: Spread,
    /// The 95 % interval of the mean of `throughput_per_s`; absent if a seed has none, or without commits.
    pub throughput_interval_per_s: Option<Interval>,
    /// Commit latency in the window.
    pub latency_mean_s: Option<Spread>,
    /// Commit latency in the window.
    pub latency_p50_s: Option<Spread>,
    /// Commit latency in the window.
    pub latency_p95_s: Option<Spread>,
    /// Commit latency in the window.
    pub latency_p99_s: Option<Spread>,
    /// The 95 % interval of the mean of `latency_p99_s`; absent if a seed has none.
    pub latency_p99_interval_s: Option<Interval>,
    /// The fewest commits in the window of a seed; absent for published runs, for which all percentiles are printed.
    #[serde(skip)]
    pub fewest_commits: Option<u64>,
    /// Mean retries of those that committed in the window.
    pub retries_mean: Option<Spread>,
    /// Mean commit latency in the middle 80 % of the run.
    pub middle_latency_mean_s: Option<Spread>,
    /// Per transaction that ended.
    pub catalog_conflicts_per_transaction: Option<Spread>,
    /// Per transaction that ended.
    pub table_conflicts_per_transaction: Option<Spread>,
    /// Failed last attempts with an unknown kind of conflict, per transaction that ended.
    pub unseen_conflicts_per_transaction: Option<Spread>,
    /// Per transaction that ended.
    pub append_conflicts_per_transaction: Option<Spread>,
    /// History reads per transaction that ended.
    pub history_reads_per_transaction: Option<Spread>,
    /// Mean time per transaction that ended, by what it was spent on: mean over seeds.
    pub spent: SpentMeans,
}

/// One table: mean counts over seeds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[expect(missing_docs, reason = "the names are enough")]
pub struct RankSummary {
    pub ended: f64,
    pub committed: f64,
    pub catalog_conflicts: f64,
    pub table_conflicts: f64,
    pub unseen_conflicts: f64,
}

impl RunSummary {
    /// Sums up the results of an experiment.
    #[must_use]
    pub fn of(experiment: &Experiment, results: &Results) -> Self {
        let points = experiment.points.iter().zip(results.points());
        Self { points: points.map(|(planned, seeds)| PointSummary::of(planned.coordinates.clone(), seeds)).collect() }
    }
}

impl PointSummary {
    /// Sums up the runs of one point.
    #[must_use]
    pub fn of(coordinates: Vec<(String, String)>, seeds: &[Metrics]) -> Self {
        let group = |of: fn(&Metrics) -> Option<&Group>| {
            let groups: Vec<&Group> = seeds.iter().filter_map(of).collect();
            (!groups.is_empty()).then(|| GroupSummary::of(&groups))
        };
        let all: Vec<&Group> = seeds.iter().map(|metrics| &metrics.all).collect();
        let mean =
            |value: &dyn Fn(&Metrics) -> u64| seeds.iter().map(value).sum::<u64>() as f64 / seeds.len().max(1) as f64;
        let tables = seeds.iter().map(|metrics| metrics.ranks.len()).min().unwrap_or(0);
        let rank = |table: usize| {
            let count = |of: fn(&Rank) -> u64| mean(&|metrics| of(&metrics.ranks[table]));
            RankSummary {
                ended: count(|rank| rank.ended),
                committed: count(|rank| rank.committed),
                catalog_conflicts: count(|rank| rank.catalog_conflicts),
                table_conflicts: count(|rank| rank.table_conflicts),
                unseen_conflicts: count(|rank| rank.unseen_conflicts),
            }
        };
        let stretches = seeds.iter().map(|metrics| metrics.commits_over_time.len()).min().unwrap_or(0);
        Self {
            coordinates,
            all: GroupSummary::of(&all),
            fast_append: group(|metrics| metrics.fast_append.as_ref()),
            validated_overwrite: group(|metrics| metrics.validated_overwrite.as_ref()),
            deciding_success: Spread::of(seeds.iter().filter_map(Metrics::deciding_success)),
            unsettled: seeds.iter().any(|metrics| metrics.unsettled),
            ranks: (0..tables).map(rank).collect(),
            commits_over_time: (0..stretches).map(|at| mean(&|metrics| metrics.commits_over_time[at])).collect(),
        }
    }

    /// The value on one axis.
    #[must_use]
    pub fn coordinate(&self, key: &str) -> Option<&str> {
        self.coordinates.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }
}

/// A figure of a run, if it has it, and its interval.
type Known = Option<(f64, Option<Interval>)>;

/// A percentile is not printed if fewer latencies than this can lie above it, as in `measure`.
const FEWEST_ABOVE: f64 = 3.0;

impl GroupSummary {
    /// Whether there are enough latencies for this percentile, given as a share.
    #[must_use]
    pub fn tells(&self, share: f64) -> bool {
        self.fewest_commits.is_none_or(|count| count as f64 * (1.0 - share) >= FEWEST_ABOVE - 1e-6)
    }

    /// The 95th percentile of the latency, if there are enough latencies for it.
    #[must_use]
    pub fn told_p95_s(&self) -> Option<Spread> {
        self.latency_p95_s.filter(|_| self.tells(0.95))
    }

    /// The 99th percentile of the latency, if there are enough latencies for it.
    #[must_use]
    pub fn told_p99_s(&self) -> Option<Spread> {
        self.latency_p99_s.filter(|_| self.tells(0.99))
    }

    fn of(groups: &[&Group]) -> Self {
        let spread = |of: &dyn Fn(&Group) -> Option<f64>| Spread::of(groups.iter().filter_map(|group| of(group)));
        let latency = |of: fn(&Latency) -> f64| spread(&|group| group.latency.as_ref().map(of));
        let per_transaction = |of: fn(&Group) -> u64| {
            spread(&|group| (group.run_ended > 0).then(|| of(group) as f64 / group.run_ended as f64))
        };
        let spent = |of: fn(&SpentMeans) -> f64| {
            groups.iter().map(|group| of(&group.spent)).sum::<f64>() / groups.len().max(1) as f64
        };
        let interval = |of: &dyn Fn(&Group) -> Known| interval::mean(groups.iter().filter_map(|group| of(group)));
        Self {
            success: spread(&Group::success),
            success_interval: interval(&|group| Some((group.success()?, group.success_interval))),
            warm_success: spread(&Group::warm_success),
            warm_throughput_per_s: spread(&|group| Some(group.warm_throughput_per_s)).unwrap_or_default(),
            warm_latency_mean_s: spread(&|group| group.warm_latency_mean_s),
            run_success: spread(&Group::run_success),
            not_ended: spread(&Group::not_ended),
            burst_success: spread(&Group::burst_success),
            arrived_per_s: spread(&|group| Some(group.arrived_per_s())).unwrap_or_default(),
            throughput_per_s: spread(&|group| Some(group.throughput_per_s)).unwrap_or_default(),
            throughput_interval_per_s: interval(&|group| {
                Some((group.throughput_per_s, group.throughput_interval_per_s))
            })
            // Nothing tells how far no commits vary.
            .filter(|_| groups.iter().any(|group| group.throughput_per_s > 0.0)),
            latency_mean_s: latency(|latency| latency.mean_s),
            latency_p50_s: latency(|latency| latency.p50_s),
            latency_p95_s: latency(|latency| latency.p95_s),
            latency_p99_s: latency(|latency| latency.p99_s),
            latency_p99_interval_s: interval(&|group| {
                group.latency.map(|latency| (latency.p99_s, latency.p99_interval_s))
            }),
            fewest_commits: groups
                .iter()
                .all(|group| group.counts_landed)
                .then(|| groups.iter().map(|group| group.window_committed).min().unwrap_or(0)),
            retries_mean: spread(&|group| group.retries_mean),
            middle_latency_mean_s: spread(&|group| group.middle_latency_mean_s),
            catalog_conflicts_per_transaction: per_transaction(|group| group.catalog_conflicts),
            table_conflicts_per_transaction: per_transaction(|group| group.table_conflicts),
            unseen_conflicts_per_transaction: per_transaction(|group| group.unseen_conflicts),
            append_conflicts_per_transaction: per_transaction(|group| group.append_conflicts),
            history_reads_per_transaction: per_transaction(|group| group.history_reads),
            spent: SpentMeans {
                catalog_reads_s: spent(|spent| spent.catalog_reads_s),
                prepare_s: spent(|spent| spent.prepare_s),
                conflict_reads_s: spent(|spent| spent.conflict_reads_s),
                install_s: spent(|spent| spent.install_s),
                backoff_s: spent(|spent| spent.backoff_s),
            },
        }
    }
}

/// The success above which a load counts as sustained, in the published work.
pub const SUSTAINED: f64 = 0.95;

/// The knee, or "usable throughput": of points that differ in their load, the one with the highest throughput among
/// those whose deciding success (mean over seeds) is above the threshold. None if no load is sustained.
pub fn knee_on_grid<'a>(
    points: impl IntoIterator<Item = &'a PointSummary>,
    threshold: f64,
) -> Option<&'a PointSummary> {
    busiest(points.into_iter().filter(|point| point.deciding_success.is_some_and(|success| success.mean > threshold)))
}

/// The point of the highest throughput.
pub fn busiest<'a>(points: impl IntoIterator<Item = &'a PointSummary>) -> Option<&'a PointSummary> {
    let throughput = |point: &PointSummary| point.all.throughput_per_s.mean;
    points.into_iter().max_by(|a, b| throughput(a).total_cmp(&throughput(b)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_mean_and_sample_deviation() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([3.0]), Some(Spread { mean: 3.0, deviation: None }));
        assert_eq!(Spread::of([1.0, 3.0]), Some(Spread { mean: 2.0, deviation: Some(2.0_f64.sqrt()) }));
    }
}
