//! From the metrics of single runs to the cells of a view (until the summaries exist).

use crate::config::Point;
use crate::metrics::{Group, Metrics, SpentMeans};

use super::timeline::offered;
use super::view::{Cell, Measures, RankConflicts, Spread};

fn spread(values: impl Iterator<Item = Option<f64>>) -> Option<Spread> {
    let values: Vec<f64> = values.flatten().collect();
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    (!values.is_empty()).then(|| Spread { mean, deviation: variance.sqrt() })
}

fn measures(groups: &[&Group], duration_s: f64) -> Measures {
    let of = |what: &dyn Fn(&Group) -> Option<f64>| spread(groups.iter().map(|group| what(group)));
    let mean = |what: &dyn Fn(&SpentMeans) -> f64| of(&|group| Some(what(&group.spent))).map_or(0.0, |spread| spread.mean);
    Measures {
        success: of(&Group::success),
        run_success: of(&Group::run_success),
        throughput_per_s: of(&|group| Some(group.throughput_per_s)).unwrap_or_default(),
        mean_s: of(&|group| Some(group.latency?.mean_s)),
        p50_s: of(&|group| Some(group.latency?.p50_s)),
        p95_s: of(&|group| Some(group.latency?.p95_s)),
        p99_s: of(&|group| Some(group.latency?.p99_s)),
        retries: of(&|group| group.retries_mean),
        middle_mean_s: of(&|group| group.middle_latency_mean_s),
        not_ended: of(&Group::not_ended).map(|spread| spread.mean),
        offered_per_s: of(&|group| Some(group.run_arrived as f64 / duration_s)).map_or(0.0, |spread| spread.mean),
        spent_s: [
            mean(&|spent| spent.catalog_reads_s),
            mean(&|spent| spent.prepare_s),
            mean(&|spent| spent.conflict_reads_s),
            mean(&|spent| spent.install_s),
            mean(&|spent| spent.backoff_s),
        ],
    }
}

pub(crate) fn cell(point: &Point, runs: &[Metrics]) -> Cell {
    let duration_s = point.config.duration.as_secs_f64();
    let group = |of: fn(&Metrics) -> Option<&Group>| {
        let groups: Vec<&Group> = runs.iter().filter_map(of).collect();
        (!groups.is_empty()).then(|| measures(&groups, duration_s))
    };
    let all = group(|run| Some(&run.all)).unwrap_or_default();
    let parts = runs.first().map_or(0, |run| run.commits_over_time.len());
    let part_s = duration_s / parts.max(1) as f64;
    let commits = |part: usize| {
        runs.iter().map(|run| run.commits_over_time[part] as f64).sum::<f64>() / runs.len() as f64 / part_s
    };
    let ranks = runs.first().map_or(0, |run| run.ranks.len());
    let rank = |rank: usize| {
        let sum = |what: fn(&crate::metrics::Rank) -> u64| runs.iter().map(|run| what(&run.ranks[rank])).sum::<u64>() as f64;
        let ended = sum(|rank| rank.ended).max(1.0);
        RankConflicts { catalog: sum(|rank| rank.catalog_conflicts) / ended, table: sum(|rank| rank.table_conflicts) / ended }
    };
    Cell {
        place: Vec::new(),
        fast_append: group(|run| run.fast_append.as_ref()),
        validated_overwrite: group(|run| run.validated_overwrite.as_ref()),
        tables: point.config.tables.count,
        duration_s,
        ranks: (0..ranks).map(rank).collect(),
        commits_per_s: (0..parts).map(commits).collect(),
        offered_per_s: offered(all.offered_per_s, point.config.duration, point.config.arrivals.burst, parts),
        all,
    }
}
