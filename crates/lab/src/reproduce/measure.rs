//! Ours, for each metric that a published figure may be of.

use crate::reproduce::{Figure, Runs};
use crate::summary::{GroupSummary, PointSummary, RankSummary, SUSTAINED, Spread, knee_on_grid};

/// Ours.
#[derive(Default)]
pub(super) struct Found {
    pub(super) value: Option<f64>,
    pub(super) load: Option<String>,
}

/// A metric of one point.
type OfPoint = fn(&PointSummary) -> Option<f64>;

/// Metrics that follow from one point alone.
const OF_POINT: &[(&str, OfPoint)] = &[
    ("throughput_per_s", |point| Some(point.all.throughput_per_s.mean)),
    ("success_percent", |point| percent(point.all.success)),
    ("p50_s", |point| mean(point.all.latency_p50_s)),
    ("p95_s", |point| mean(point.all.latency_p95_s)),
    ("p99_s", |point| mean(point.all.latency_p99_s)),
    ("vo_p99_s", |point| mean(overwrite(point)?.latency_p99_s)),
    ("mean_retries", |point| mean(point.all.retries_mean)),
    ("run_success_percent", |point| percent(point.all.run_success)),
    ("run_fa_success_percent", |point| percent(append(point)?.run_success)),
    ("run_vo_success_percent", |point| percent(overwrite(point)?.run_success)),
    ("run_fa_minus_vo_success_points", |point| {
        Some(percent(append(point)?.run_success)? - percent(overwrite(point)?.run_success)?)
    }),
    ("mid_fa_mean_latency_s", |point| mean(append(point)?.middle_latency_mean_s)),
    ("mid_vo_mean_latency_s", |point| mean(overwrite(point)?.middle_latency_mean_s)),
    // A transaction prepares once, and again after each table conflict that it may retry.
    ("prepare_mean_s", |point| {
        Some(point.all.spent.prepare_s / (1.0 + mean(point.all.table_conflicts_per_transaction)?))
    }),
    ("table_conflict_share_percent", |point| table_share(&point.ranks)),
    ("rank1_commit_share_percent", |point| commit_share(point, 0)),
    ("rank2_commit_share_percent", |point| commit_share(point, 1)),
    ("rank3_commit_share_percent", |point| commit_share(point, 2)),
    ("rank1_table_conflicts_per_transaction", |point| {
        point.ranks.first().map(|rank| rank.table_conflicts / rank.ended)
    }),
    ("rank1_catalog_conflicts_per_transaction", |point| {
        point.ranks.first().map(|rank| rank.catalog_conflicts / rank.ended)
    }),
    ("catalog_conflicts_per_transaction", |point| mean(point.all.catalog_conflicts_per_transaction)),
    ("rank1_table_conflict_share_percent", |point| table_share(point.ranks.get(..1)?)),
    ("cold_table_conflict_share_percent", |point| table_share(point.ranks.get(9..)?)),
    ("effective_table_count", |point| {
        let shares = (0..point.ranks.len()).map(|rank| commit_share(point, rank).unwrap_or(0.0) / 100.0);
        Some(1.0 / shares.map(|share| share * share).sum::<f64>())
    }),
];

/// A metric of a knee, given the knees at other coordinates too.
type OfKnee = fn(&Grid<'_>) -> Option<f64>;

const OF_KNEE: &[(&str, OfKnee)] = &[
    ("knee_throughput_per_s", |grid| Some(warm_throughput(grid.knee()?))),
    // Part 3's provider tables are not over the window, but over what arrived after the first quarter: twenty seeds of
    // its one-table rows agree with that to the last digit printed on three stores of five.
    ("knee_fa_mean_latency_s", |grid| mean(append(grid.knee()?)?.warm_latency_mean_s)),
    ("knee_vo_mean_latency_s", |grid| mean(overwrite(grid.knee()?)?.warm_latency_mean_s)),
    ("knee_throughput_per_table_per_s", |grid| {
        let tables: f64 = grid.figure.point.get("tables.count")?.to_string().parse().ok()?;
        Some(warm_throughput(grid.knee()?) / tables)
    }),
    ("knee_throughput_ratio_to_1_table", |grid| grid.ratio("tables.count", "1")),
    ("knee_throughput_ratio_to_fast_append_only", |grid| grid.ratio("transaction.fast_append", "1.0")),
    ("s3_express_knee_throughput_ratio", |grid| Some(1.0 / grid.ratio("provider", "s3-express")?)),
    ("knee_vo_mean_latency_ratio_from_1_table", |grid| {
        let latency = |point: &PointSummary| mean(overwrite(point)?.warm_latency_mean_s);
        Some(latency(grid.knee_at("tables.count", "1")?)? / latency(grid.knee()?)?)
    }),
];

#[cfg(test)]
pub(super) fn known_metric(metric: &str) -> bool {
    let known = |name: &str| name == metric;
    OF_POINT.iter().any(|(name, _)| known(name))
        || OF_KNEE.iter().any(|(name, _)| known(name))
        || known("uniform_equivalent_table_count")
}

pub(super) fn measure(figure: &Figure, runs: &Runs) -> Found {
    let Some((_, summary)) = runs.get(&figure.experiment) else { return Found::default() };
    let grid = Grid { figure, points: &summary.points };
    if let Some((_, of_point)) = OF_POINT.iter().find(|(name, _)| *name == figure.metric) {
        let point = grid.points.iter().find(|point| figure.is_about(&point.coordinates));
        return Found { value: point.and_then(of_point), load: None };
    }
    if let Some((_, of_knee)) = OF_KNEE.iter().find(|(name, _)| *name == figure.metric) {
        let load = grid.knee().and_then(|knee| knee.coordinate("arrivals.scale")).map(str::to_owned);
        return Found { value: of_knee(&grid), load };
    }
    Found { value: uniform_equivalent(&grid, runs), load: None }
}

/// The points of an experiment, seen from a figure.
struct Grid<'a> {
    figure: &'a Figure,
    points: &'a [PointSummary],
}

impl<'a> Grid<'a> {
    /// The knee at the figure's coordinates.
    fn knee(&self) -> Option<&'a PointSummary> {
        self.knee_of(self.figure)
    }

    /// The knee where one coordinate is another.
    fn knee_at(&self, key: &str, value: &str) -> Option<&'a PointSummary> {
        let mut figure = self.figure.clone();
        figure.point.insert(key.to_owned(), toml::Value::String(value.to_owned()));
        self.knee_of(&figure)
    }

    fn knee_of(&self, figure: &Figure) -> Option<&'a PointSummary> {
        let line = self.points.iter().filter(|point| figure.is_about(&point.coordinates));
        knee_on_grid(line, SUSTAINED)
    }

    /// The knee over the one where one coordinate is another.
    fn ratio(&self, key: &str, value: &str) -> Option<f64> {
        Some(warm_throughput(self.knee()?) / warm_throughput(self.knee_at(key, value)?))
    }
}

/// What part 3 prints as the throughput of its knees.
fn warm_throughput(point: &PointSummary) -> f64 {
    point.all.warm_throughput_per_s.mean
}

/// At how many tables the uniform run has this point's success, between the counts that were run.
fn uniform_equivalent(grid: &Grid<'_>, runs: &Runs) -> Option<f64> {
    let success = |point: &PointSummary| percent(append(point)?.run_success);
    let ours = grid.points.iter().find(|point| grid.figure.is_about(&point.coordinates)).and_then(success)?;
    let (_, uniform) = runs.get(grid.figure.experiment.strip_suffix("-zipf")?)?;
    let mut figure = grid.figure.clone();
    figure.point.remove("tables.count");
    let line = uniform.points.iter().filter(|point| figure.is_about(&point.coordinates));
    let count = |point: &PointSummary| point.coordinate("tables.count")?.parse::<f64>().ok();
    let mut line: Vec<_> = line.filter_map(|point| Some((count(point)?, success(point)?))).collect();
    line.sort_by(|a, b| a.0.total_cmp(&b.0));
    let pair = line.windows(2).find(|pair| (pair[0].1..=pair[1].1).contains(&ours))?;
    let share = (ours - pair[0].1) / (pair[1].1 - pair[0].1);
    Some(pair[0].0 + share * (pair[1].0 - pair[0].0))
}

fn mean(spread: Option<Spread>) -> Option<f64> {
    spread.map(|spread| spread.mean)
}

fn percent(spread: Option<Spread>) -> Option<f64> {
    spread.map(|spread| 100.0 * spread.mean)
}

fn append(point: &PointSummary) -> Option<&GroupSummary> {
    point.fast_append.as_ref()
}

fn overwrite(point: &PointSummary) -> Option<&GroupSummary> {
    point.validated_overwrite.as_ref()
}

fn commit_share(point: &PointSummary, rank: usize) -> Option<f64> {
    let all: f64 = point.ranks.iter().map(|rank| rank.committed).sum();
    point.ranks.get(rank).map(|rank| 100.0 * rank.committed / all)
}

fn table_share(ranks: &[RankSummary]) -> Option<f64> {
    let table: f64 = ranks.iter().map(|rank| rank.table_conflicts).sum();
    let catalog: f64 = ranks.iter().map(|rank| rank.catalog_conflicts).sum();
    (table + catalog > 0.0).then(|| 100.0 * table / (table + catalog))
}
