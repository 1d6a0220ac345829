//! The printed tables: one load by kind of transaction; an experiment by point, or by knee if it has many points.

use glidepath_lab::experiment::Experiment;
use glidepath_lab::report::{ending, unsettled};
use glidepath_lab::setting;
use glidepath_lab::summary::{GroupSummary, PointSummary, RunSummary, SUSTAINED, knee_on_grid};

use crate::output::{NONE, interval, mean, percent, rate, rate_end, seconds, success, table, three_digits};

/// With more points than this, only knees are printed.
const ON_SCREEN: usize = 60;

/// The axis of the load.
const LOAD: &str = "arrivals.scale";

/// Before a rate that is a lower bound.
const AT_LEAST: &str = "\u{2265} ";

/// The message for a run without transactions.
const NOBODY: &str = "\n\nNo transaction arrived in the window (the middle half of the run): choose a shorter \
                      --inter-arrival or a longer --duration.";

fn heading(experiment: &Experiment) -> String {
    let lines = [experiment.title.clone(), experiment.description.clone()].into_iter().filter(|line| !line.is_empty());
    let seeds = match experiment.seeds.len() {
        1 => "one seed".to_owned(),
        count => format!("means over {count} seeds, ± standard deviation"),
    };
    let setting = format!("{}, {seeds}.", setting::of(experiment));
    lines.chain([setting, ending(experiment)]).chain(experiment.notes.iter().cloned()).collect::<Vec<_>>().join("\n")
}

/// One load: a row for each kind of transaction, and intervals.
pub(super) fn load(experiment: &Experiment, summary: &RunSummary) -> String {
    let mut header =
        vec!["transactions", "success %", "commits/s", "mean s", "P50 s", "P95 s", "P99 s", "retries", "not ended %"];
    header.extend(has_bursts(summary).then_some(IN_BURSTS));
    let row = |name: &str, group: &GroupSummary| {
        let mut row = vec![name.to_owned(), success(group.success), rate(group.throughput_per_s)];
        row.extend(latencies(group));
        row.extend([mean(group.retries_mean), percent(group.not_ended)]);
        row.extend(in_bursts(summary, group));
        row
    };
    let bounds = ["with 95 % confidence", "success %", "commits/s", "P99 s"];
    let bounds_row = |name: &str, group: &GroupSummary| {
        vec![
            name.to_owned(),
            interval(group.success_interval, |share| format!("{:.1}", 100.0 * share)),
            interval(group.throughput_interval_per_s, rate_end),
            interval(group.latency_p99_interval_s.filter(|_| group.tells(0.99)), three_digits),
        ]
    };
    let [numbers, bounds] =
        [(&header[..], &row as &dyn Fn(&str, &GroupSummary) -> Vec<String>), (&bounds, &bounds_row)].map(
            |(header, row)| {
                let header: Vec<String> = header.iter().map(|name| (*name).to_owned()).collect();
                table(&header, 1, kinds(summary).map(|(name, group)| row(name, group)).collect())
            },
        );
    let empty = if summary.points.iter().all(|point| point.all.arrived_per_s.mean == 0.0) { NOBODY } else { "" };
    format!("{}\n{numbers}\n\n{bounds}{empty}{}", heading(experiment), warning(summary))
}

/// The heading of the success of those that arrived in a burst.
const IN_BURSTS: &str = "success in bursts %";

fn has_bursts(summary: &RunSummary) -> bool {
    summary.points.iter().any(|point| point.all.burst_success.is_some())
}

/// The cell below [`IN_BURSTS`], if there is that column.
fn in_bursts(summary: &RunSummary, group: &GroupSummary) -> Option<String> {
    has_bursts(summary).then(|| success(group.burst_success))
}

/// The warning if a run had not settled.
fn warning(summary: &RunSummary) -> String {
    match (summary.points.iter().filter(|point| point.unsettled).count(), summary.points.len()) {
        (0, _) => String::new(),
        (count, all) => format!("\n\n{}", unsettled((all > 1).then_some((count, all)))),
    }
}

fn kinds(summary: &RunSummary) -> impl Iterator<Item = (&'static str, &GroupSummary)> {
    summary.points.iter().flat_map(|point| {
        let kinds = [
            ("all", Some(&point.all)),
            ("fast appends", point.fast_append.as_ref()),
            ("validated overwrites", point.validated_overwrite.as_ref()),
        ];
        kinds.into_iter().filter_map(|(name, group)| Some((name, group?)))
    })
}

fn latencies(group: &GroupSummary) -> [String; 4] {
    [group.latency_mean_s, group.latency_p50_s, group.told_p95_s(), group.told_p99_s()].map(seconds)
}

/// All points, or the knees if there are many.
pub(super) fn on_screen(experiment: &Experiment, summary: &RunSummary) -> String {
    if summary.points.len() > ON_SCREEN && experiment.axes.iter().any(|axis| axis.key == LOAD) {
        return format!("{}\n{}", heading(experiment), knees(experiment, summary));
    }
    all_points(experiment, summary)
}

/// A row for each point.
pub(super) fn all_points(experiment: &Experiment, summary: &RunSummary) -> String {
    let mixed = summary.points.iter().any(|point| point.validated_overwrite.is_some());
    let mut header: Vec<String> = experiment.axes.iter().map(|axis| axis.key.clone()).collect();
    let axes = header.len();
    let all = ["commits/s", "success %", "mean s", "P50 s", "P95 s", "P99 s", "retries", "not ended %"];
    let kinds = ["FA success %", "FA mean s", "VO success %", "VO mean s", "VO P99 s"];
    let bursts = has_bursts(summary).then_some(&IN_BURSTS);
    header.extend(all.iter().chain(bursts).chain(if mixed { &kinds[..] } else { &[] }).map(|name| (*name).to_owned()));
    let row =
        |point: &PointSummary| {
            let mut row: Vec<String> = point.coordinates.iter().map(|(_, value)| value.clone()).collect();
            row.extend([rate(point.all.throughput_per_s), success(point.all.success)]);
            row.extend(latencies(&point.all));
            row.extend([mean(point.all.retries_mean), percent(point.all.not_ended)]);
            row.extend(in_bursts(summary, &point.all));
            if mixed {
                let (fast, slow) = (point.fast_append.as_ref(), point.validated_overwrite.as_ref());
                row.extend(fast.map_or([NONE; 2].map(str::to_owned), |group| {
                    [success(group.success), seconds(group.latency_mean_s)]
                }));
                row.extend(slow.map_or([NONE; 3].map(str::to_owned), |group| {
                    [success(group.success), seconds(group.latency_mean_s), seconds(group.told_p99_s())]
                }));
            }
            row
        };
    let table = table(&header, axes, summary.points.iter().map(row).collect());
    format!("{}\n{table}{}{}", heading(experiment), abbreviations(&table), warning(summary))
}

/// What the headings of a table abbreviate.
fn abbreviations(table: &str) -> &'static str {
    if table.contains("VO ") { "\nFA: fast appends. VO: validated overwrites." } else { "" }
}

/// For each combination of all axes but the load: the highest throughput that is sustained.
fn knees(experiment: &Experiment, summary: &RunSummary) -> String {
    let others: Vec<&str> = experiment.axes.iter().map(|axis| axis.key.as_str()).filter(|key| *key != LOAD).collect();
    let place = |point: &PointSummary| -> Vec<String> {
        others.iter().map(|key| point.coordinate(key).unwrap_or(NONE).to_owned()).collect()
    };
    let mut groups: Vec<(Vec<String>, Vec<&PointSummary>)> = Vec::new();
    for point in &summary.points {
        let place = place(point);
        match groups.iter_mut().find(|(known, _)| *known == place) {
            Some((_, points)) => points.push(point),
            None => groups.push((place, vec![point])),
        }
    }
    let mut header: Vec<String> = others.iter().map(|key| (*key).to_owned()).collect();
    let numbers = ["at arrivals.scale", "commits/s", "success %", "FA mean s", "VO success %", "VO mean s"];
    header.extend(numbers.map(str::to_owned));
    let rows = groups.into_iter().map(|(mut row, points)| {
        let arrived = |point: &PointSummary| point.all.arrived_per_s.mean;
        let most = points.iter().map(|point| arrived(point)).fold(0.0, f64::max);
        let Some(knee) = knee_on_grid(points, SUSTAINED) else {
            row.extend(["none", NONE, NONE, NONE, NONE, NONE].map(str::to_owned));
            return row;
        };
        let fast = |of: fn(&GroupSummary) -> String| knee.fast_append.as_ref().map_or(NONE.to_owned(), of);
        let slow = |of: fn(&GroupSummary) -> String| knee.validated_overwrite.as_ref().map_or(NONE.to_owned(), of);
        row.extend([
            knee.coordinate(LOAD).unwrap_or(NONE).to_owned(),
            format!("{}{}", if arrived(knee) >= most { AT_LEAST } else { "" }, rate(knee.all.throughput_per_s)),
            success(knee.all.success),
            fast(|group| seconds(group.latency_mean_s)),
            slow(|group| success(group.success)),
            slow(|group| seconds(group.latency_mean_s)),
        ]);
        row
    });
    let table = table(&header, others.len(), rows.collect());
    let open = if table.contains(AT_LEAST) { "\n\u{2265}: no higher load was simulated." } else { "" };
    let threshold = 100.0 * SUSTAINED;
    format!(
        "The highest simulated load at which more than {threshold:.0} % succeed (of validated overwrites if there \
         are any):\n{table}{}{open}\nAll {} points are in table.txt.",
        abbreviations(&table),
        summary.points.len()
    )
}
