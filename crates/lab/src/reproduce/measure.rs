//! Our value of each metric of the published figures.

use glidepath_model::Span;
use glidepath_run::statistics::Spread;

use crate::reproduce::{Figure, Runs};
use crate::summary::{GroupSummary, PointSummary, RankSummary, SUSTAINED, busiest};

/// Our value.
#[derive(Default)]
pub(super) struct Reproduced {
    pub(super) value: Option<f64>,
    pub(super) load: Option<String>,
    pub(super) edge: Option<(String, f64)>,
}

/// If the success at a load is this close to the threshold, noise decides on which side it is: the tolerance of a
/// success.
const EDGE: f64 = 0.015;

/// The axis of the load.
const SCALE: &str = "arrivals.scale";

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
    ("mid_mean_latency_s", |point| mean(point.all.middle_latency_mean_s)),
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

pub(super) fn measure(figure: &Figure, figures: &[Figure], runs: &Runs) -> Reproduced {
    let Some((_, summary)) = runs.get(&figure.experiment) else { return Reproduced::default() };
    let grid = Grid { figure, figures, points: &summary.points };
    if let Some((_, of_point)) = OF_POINT.iter().find(|(name, _)| *name == figure.metric) {
        let point = grid.points.iter().find(|point| figure.is_about(&point.coordinates));
        return Reproduced { value: point.and_then(of_point), ..Reproduced::default() };
    }
    if let Some((_, of_knee)) = OF_KNEE.iter().find(|(name, _)| *name == figure.metric) {
        let load = grid.knee().and_then(load_of).map(str::to_owned);
        let edge = grid.line(figure).edge.map(|(load, success)| (load.to_owned(), 100.0 * success));
        return Reproduced { value: of_knee(&grid), load, edge };
    }
    Reproduced { value: uniform_equivalent(&grid, runs), ..Reproduced::default() }
}

/// The points of an experiment that a figure refers to.
struct Grid<'a> {
    figure: &'a Figure,
    figures: &'a [Figure],
    points: &'a [PointSummary],
}

/// The points that differ in their load only.
struct Line<'a> {
    knee: Option<&'a PointSummary>,
    /// If the published knee is elsewhere on the grid, and noise decides: the load between the two with the success
    /// farthest from the threshold. Then the published knee is used.
    edge: Option<(&'a str, f64)>,
}

impl<'a> Grid<'a> {
    /// The knee at the figure's coordinates.
    fn knee(&self) -> Option<&'a PointSummary> {
        self.knee_of(self.figure)
    }

    /// The knee with one coordinate changed.
    fn knee_at(&self, key: &str, value: &str) -> Option<&'a PointSummary> {
        let mut figure = self.figure.clone();
        figure.point.insert(key.to_owned(), toml::Value::String(value.to_owned()));
        self.knee_of(&figure)
    }

    fn knee_of(&self, figure: &Figure) -> Option<&'a PointSummary> {
        self.line(figure).knee
    }

    fn line(&self, figure: &Figure) -> Line<'a> {
        let line: Vec<_> = self.points.iter().filter(|point| figure.is_about(&point.coordinates)).collect();
        let is_sustained = |point: &PointSummary| warm_success(point).is_some_and(|success| success > SUSTAINED);
        let ours = busiest(line.iter().copied().filter(|point| is_sustained(point)));
        let published =
            self.published_load(figure).and_then(|load| line.iter().find(|point| load_of(point) == Some(load)));
        let Some(published) = published.copied() else { return Line { knee: ours, edge: None } };
        // In the published run this load was sustained, and no higher one.
        let differs = |point: &&&PointSummary| match spacing(point).cmp(&spacing(published)) {
            std::cmp::Ordering::Less => is_sustained(point),
            std::cmp::Ordering::Equal => !is_sustained(point),
            std::cmp::Ordering::Greater => false,
        };
        let off = |success: f64| (success - SUSTAINED).abs();
        let differing = line.iter().filter(differs).filter_map(|point| Some((load_of(point)?, warm_success(point)?)));
        let farthest = differing.max_by(|a, b| off(a.1).total_cmp(&off(b.1)));
        match farthest {
            Some((_, success)) if off(success) <= EDGE => Line { knee: Some(published), edge: farthest },
            _ => Line { knee: ours, edge: None },
        }
    }

    /// The published load of the knee at a figure's coordinates.
    fn published_load(&self, figure: &'a Figure) -> Option<&'a str> {
        let same = |other: &&Figure| other.experiment == figure.experiment && other.point == figure.point;
        figure.knee_load().or_else(|| self.figures.iter().filter(same).find_map(Figure::knee_load))
    }

    /// The knee divided by the one with one coordinate changed.
    fn ratio(&self, key: &str, value: &str) -> Option<f64> {
        Some(warm_throughput(self.knee()?) / warm_throughput(self.knee_at(key, value)?))
    }
}

fn load_of(point: &PointSummary) -> Option<&str> {
    point.coordinate(SCALE)
}

/// The time between arrivals.
fn spacing(point: &PointSummary) -> Option<Span> {
    load_of(point)?.parse().ok()
}

/// The success that decides whether part 3 calls a load sustained. Its knees and provider tables are not over the
/// window, but over the transactions that arrived after the first quarter: twenty seeds of its one-table rows agree
/// with that to the last digit printed on three stores of five.
fn warm_success(point: &PointSummary) -> Option<f64> {
    Some(overwrite(point).unwrap_or(&point.all).warm_success?.mean)
}

/// The throughput that part 3 prints for its knees.
fn warm_throughput(point: &PointSummary) -> f64 {
    point.all.warm_throughput_per_s.mean
}

/// The number of tables at which the uniform run has this point's success, interpolated between the counts that were
/// run.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pictures::tests::{experiment, results};
    use crate::reproduce::{Verdict, figures, judge};

    /// Our success at 20, 50 and 100 ms, and the judgement of a published knee at one of them.
    fn judged(successes: [f64; 3], published: &str) -> (Option<String>, Verdict) {
        let text = "preset = \"published-2026-06\"\n[sweep]\n\"tables.count\" = [10]\n\"transaction.fast_append\" = \
                    [1.0]\nprovider = [\"s3-standard\"]\n\"arrivals.scale\" = [\"20ms\", \"50ms\", \"100ms\"]\n";
        let experiment = experiment(text);
        let mut summary = results(&experiment, |index, _| successes[index]);
        // Throughput grows with the load.
        for (point, rate) in summary.points.iter_mut().zip([40.0, 15.0, 7.0]) {
            point.all.throughput_per_s.mean = rate;
        }
        let mut figures = figures().unwrap();
        figures.retain(|figure| figure.id == "4c/s3-standard/10-tables/fa1.0/knee");
        figures[0].tolerance_note = Some(format!("the grid load of {published}"));
        let runs = Runs::from([("4c".to_owned(), (experiment, summary))]);
        let judgement = judge(&figures[0], &figures, &runs);
        (judgement.load, judgement.verdict)
    }

    #[test]
    fn a_knee_is_the_published_one_where_noise_decides() {
        let at = |load: &str| Some(load.to_owned());
        assert_eq!(judged([0.5, 0.97, 1.0], "50ms"), (at("50ms"), Verdict::Within));
        assert_eq!(judged([0.5, 0.97, 1.0], "100ms"), (at("50ms"), Verdict::Outside));
        assert_eq!(judged([0.5, 0.97, 1.0], "20ms"), (at("50ms"), Verdict::Outside));
        let edge = |load: &str, success_percent| Verdict::OnTheEdge { load: load.to_owned(), success_percent };
        assert_eq!(judged([0.5, 0.96, 1.0], "100ms"), (at("100ms"), edge("50ms", 96.0)));
        assert_eq!(judged([0.94, 0.96, 1.0], "20ms"), (at("20ms"), edge("20ms", 94.0)));
        // Every load in between must be near.
        assert_eq!(judged([0.96, 0.98, 1.0], "100ms"), (at("20ms"), Verdict::Outside));
    }
}
