//! Pictures of made-up results, for experiments of every shape.

use std::collections::BTreeSet;

use super::*;
use glidepath_run::statistics::Spread;

use crate::experiment::Overrides;
use crate::metrics::SpentMeans;
use crate::summary::{GroupSummary, PointSummary, RankSummary};

/// An experiment with these lines in its file.
pub(crate) fn experiment(text: &str) -> Experiment {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine.toml");
    std::fs::write(&path, text).unwrap();
    Experiment::load(&path.to_string_lossy(), &Overrides::default()).unwrap_or_else(|error| panic!("{error}"))
}

/// Numbers that get worse with the load; with a health of 0, no transaction of the window commits.
fn group(health: f64) -> GroupSummary {
    let spread = |mean: f64| Some(Spread { mean, deviation: Some(mean / 50.0) });
    let latency = |factor: f64| spread(factor / health).filter(|_| health > 0.0);
    GroupSummary {
        success: spread(health),
        success_interval: None,
        warm_success: spread(health),
        warm_throughput_per_s: Spread { mean: 10.0 * health, deviation: Some(0.1) },
        warm_latency_mean_s: latency(1.0),
        run_success: spread(health),
        not_ended: spread(0.1),
        burst_success: None,
        arrived_per_s: Spread { mean: 2.0 * health, deviation: None },
        throughput_per_s: Spread { mean: 10.0 * health, deviation: Some(0.1) },
        throughput_interval_per_s: None,
        latency_mean_s: latency(1.0),
        latency_p50_s: latency(0.8),
        latency_p95_s: latency(2.0),
        latency_p99_s: latency(4.0),
        latency_p99_interval_s: None,
        fewest_commits: None,
        retries_mean: latency(0.5),
        middle_latency_mean_s: latency(1.1),
        catalog_conflicts_per_transaction: spread(0.5),
        table_conflicts_per_transaction: spread(0.25),
        unseen_conflicts_per_transaction: spread(0.01),
        append_conflicts_per_transaction: None,
        history_reads_per_transaction: None,
        spent: SpentMeans { prepare_s: 0.5, install_s: 0.1, ..SpentMeans::default() },
    }
}

/// Made-up results: `health` gives the quality of a point, from its number and the number of all points.
pub(crate) fn results(experiment: &Experiment, health: impl Fn(usize, usize) -> f64) -> RunSummary {
    let count = experiment.points.len();
    let point = |(index, planned): (usize, &crate::experiment::PlannedPoint)| {
        let health = health(index, count);
        let share = planned.point.config.transaction.fast_append;
        let tables = planned.point.config.tables.count as usize;
        let conflicts = RankSummary {
            ended: 10.0,
            committed: 9.0 * health,
            catalog_conflicts: 3.0,
            table_conflicts: 1.0,
            unseen_conflicts: 0.1,
        };
        PointSummary {
            coordinates: planned.coordinates.clone(),
            all: group(health),
            fast_append: (share > 0.0).then(|| group(health)),
            validated_overwrite: (share < 1.0).then(|| group(health * 0.9)),
            deciding_success: Some(Spread { mean: health, deviation: None }),
            unsettled: false,
            ranks: vec![conflicts; tables.min(50)],
            commits_over_time: vec![60.0 * health; 60],
        }
    };
    RunSummary { points: experiment.points.iter().enumerate().map(point).collect() }
}

/// From almost 0 to 1.
pub(crate) fn growing(index: usize, count: usize) -> f64 {
    (index + 1) as f64 / count as f64
}

fn stems(text: &str, health: impl Fn(usize, usize) -> f64) -> BTreeSet<String> {
    let experiment = experiment(text);
    let plan = plan(&experiment, &results(&experiment, health));
    for picture in &plan {
        let svg = picture.chart.svg().unwrap();
        assert!(svg.starts_with("<svg"), "{}", picture.file_stem);
        assert!(!picture.caption.is_empty() && !picture.chart.title().is_empty(), "{}", picture.file_stem);
    }
    let stems: BTreeSet<String> = plan.iter().map(|picture| picture.file_stem.clone()).collect();
    assert_eq!(stems.len(), plan.len(), "two pictures of one name");
    stems
}

fn expect(stems: &BTreeSet<String>, expected: &[&str]) {
    let expected: BTreeSet<String> = expected.iter().map(|stem| (*stem).to_owned()).collect();
    assert_eq!(stems, &expected);
}

const LOADS: &str = "[sweep]\n\"arrivals.scale\" = [\"1s\", \"50ms\", \"200ms\"]\n";

#[test]
fn one_point_has_no_curves() {
    expect(&stems("", |_, _| 1.0), &["commit-rate", "time-spent"]);
    expect(&stems("[tables]\ncount = 5", |_, _| 1.0), &["commit-rate", "conflicts-by-table", "time-spent"]);
}

#[test]
fn a_sweep_of_the_load_has_curves_but_no_maps() {
    let expected = ["commit-rate", "latency-throughput", "overview", "time-spent"];
    expect(&stems(LOADS, growing), &expected);
    // Without commits there is no latency.
    expect(&stems(LOADS, |_, _| 0.0), &["commit-rate", "overview", "time-spent"]);
}

#[test]
fn two_axes_have_maps() {
    let text = format!("{LOADS}\"tables.count\" = [10, 2, 1]\n");
    let expected = [
        "commit-rate--tables-count-1",
        "commit-rate--tables-count-10",
        "commit-rate--tables-count-2",
        "conflicts-by-table",
        "latency-fast-append",
        "latency-throughput--tables-count-1",
        "latency-throughput--tables-count-10",
        "latency-throughput--tables-count-2",
        "overview",
        "success-fast-append",
        "time-spent--tables-count-1",
        "time-spent--tables-count-10",
        "time-spent--tables-count-2",
        "usable-throughput-by-tables-count",
    ];
    expect(&stems(&text, growing), &expected);
}

#[test]
fn kinds_that_a_point_lacks_leave_gaps() {
    let text = format!("{LOADS}\"transaction.fast_append\" = [1.0, 0.5, 0.0]\n");
    let found = stems(&text, growing);
    for stem in ["success-fast-append", "success-validated-overwrite", "latency-validated-overwrite", "overview"] {
        assert!(found.contains(stem), "{stem}: {found:?}");
    }
}

#[test]
fn alternatives_are_laid_over_each_other() {
    let text = format!(
        "{LOADS}[[alternatives]]\nname = \"one retry\"\nset = {{ \"retry.retries\" = 1 }}\n\
         [[alternatives]]\nname = \"<script>\"\nset = {{ \"retry.retries\" = 2 }}\n"
    );
    let found = stems(&text, growing);
    assert!(found.contains("overview") && found.contains("success-fast-append"), "{found:?}");
    assert!(found.contains("commit-rate--alternative-script"), "{found:?}");
}

#[test]
fn names_that_differ_in_other_characters_only_do_not_share_a_file() {
    let text = format!(
        "{LOADS}[[alternatives]]\nname = \"a b\"\nset = {{ \"retry.retries\" = 1 }}\n\
         [[alternatives]]\nname = \"a/b\"\nset = {{ \"retry.retries\" = 2 }}\n"
    );
    let found = stems(&text, growing);
    assert!(found.contains("commit-rate--alternative-a-b") && found.contains("commit-rate--alternative-a-b--2"));
}

#[test]
fn without_a_load_the_next_axis_takes_its_place() {
    let names = "[sweep]\nprovider = [\"s3-standard\", \"gcs\"]\n";
    assert!(stems(names, growing).contains("overview"));
    let numbers = "[sweep]\n\"tables.count\" = [1, 5, 20]\n\"retry.retries\" = [1, 2]\n";
    let found = stems(numbers, growing);
    assert!(found.contains("overview") && found.contains("success-fast-append"), "{found:?}");
}

#[test]
fn a_large_sweep_is_thinned_out() {
    let text = format!(
        "{LOADS}provider = [\"s3-standard\", \"s3-express\", \"gcs\"]\n\"tables.count\" = [1, 2, 5, 10, 20, 50]\n\
         \"transaction.fast_append\" = [1.0, 0.9, 0.5]\n"
    );
    let found = stems(&text, growing);
    assert!(found.len() < 100, "{}", found.len());
    // All maps are there: 9 of fast appends, 6 of validated overwrites.
    assert_eq!(found.iter().filter(|stem| stem.starts_with("success-")).count(), 15);
    assert!(found.contains("usable-throughput-by-tables-count"), "{found:?}");
    assert!(found.contains("overview--tables-count-10--transaction-fast-append-0.9"), "{found:?}");
}

#[test]
fn loads_are_ordered_by_value() {
    let experiment = experiment(&format!("{LOADS}\"tables.count\" = [10, 2]\n"));
    let pictures = plan(&experiment, &results(&experiment, growing));
    let map = pictures.iter().find_map(|picture| match &picture.chart {
        Chart::HeatMap(map) => Some(map),
        _ => None,
    });
    let map = map.unwrap();
    assert_eq!(map.x_ticks, ["50", "200", "1000"]);
    assert_eq!(map.y_ticks, ["2", "10"]);
    // The cell of 50 ms and 10 tables is that of the third point of six.
    assert_eq!(map.cells[1][0].as_ref().unwrap().text, "50.0");
}

/// A knee of this rate, without further figures.
pub(crate) fn knee(commits_per_s: f64) -> crate::knee::Knee {
    let interval = [0.9 * commits_per_s, 1.1 * commits_per_s];
    let kind = serde_json::json!({ "commits_per_s": commits_per_s });
    let json = serde_json::json!({
        "knee_commits_per_s": commits_per_s, "knee_interval_commits_per_s": interval, "bound": "found", "offered_per_s": 1.0,
        "inter_arrival_scale_s": 1.0, "threshold": 0.95, "success": 0.95, "deciding_transactions": 1, "runs": 1, "kept_runs": 1,
        "run_duration_s": 1.0, "simulated_s": 1.0, "events": 1, "all": kind, "fast_append": kind,
    });
    serde_json::from_value(json).unwrap()
}

const SETTINGS: &str =
    "[sweep]\nprovider = [\"s3-express\", \"gcs\", \"s3-standard\"]\n\"tables.count\" = [1, 2, 10]\n";

#[test]
fn knees_that_were_searched_are_drawn_with_their_intervals_and_side_by_side() {
    let experiment = experiment(SETTINGS);
    // All lines would coincide.
    let knees: Vec<_> = experiment.points.iter().map(|_| knee(5.0)).collect();
    let [picture] = &plan_knees(&experiment, &knees)[..] else { panic!("one picture") };
    let Chart::LineChart(chart) = &picture.chart else { panic!("one chart") };
    let names: Vec<&str> = chart.series.iter().map(|series| series.name.as_str()).collect();
    assert_eq!(names, ["S3 Express One Zone", "GCS", "S3 Standard"]);
    let styles: BTreeSet<String> = chart.series.iter().map(|series| format!("{:?}", series.line)).collect();
    assert_eq!(styles.len(), 3);
    for (index, tables) in [1.0, 2.0, 10.0].into_iter().enumerate() {
        let points: Vec<_> = chart.series.iter().map(|series| &series.points[index]).collect();
        assert!(points.iter().all(|point| point.spread == Some((4.5, 5.5)) && point.x == tables));
    }
    // So none hides another.
    assert_eq!(chart.x.ticks, Some(vec![1.0, 2.0, 10.0]));
    picture.chart.svg().unwrap();
}

#[test]
fn a_knee_that_is_none_leaves_a_gap_and_a_limit_is_marked() {
    let experiment = experiment("[sweep]\n\"tables.count\" = [1, 2, 10]\n");
    let mut knees: Vec<_> = [1.0, 2.0, 3.0].map(knee).into();
    (knees[0].bound, knees[2].bound) = (crate::knee::Bound::NothingHolds, crate::knee::Bound::AllHold);
    let plan = plan_knees(&experiment, &knees);
    let Chart::LineChart(chart) = &plan[0].chart else { panic!("one chart") };
    let points = &chart.series[0].points;
    assert_eq!(
        points.iter().map(|point| (point.x, point.note.as_deref())).collect::<Vec<_>>(),
        [(2.0, None), (10.0, Some("\u{2265}"))]
    );
}

#[test]
fn knees_by_names_are_bars() {
    let experiment =
        experiment("[sweep]\n\"catalog.protocol\" = [\"catalog-file\", \"manifest-chain\", \"tickets\"]\n");
    let mut knees: Vec<_> = [12.0, 150.4, 3.0].map(knee).into();
    (knees[0].bound, knees[2].bound) = (crate::knee::Bound::NothingHolds, crate::knee::Bound::AllHold);
    let plan = plan_knees(&experiment, &knees);
    let Chart::NamedBars(chart) = &plan[0].chart else { panic!("{:?}", plan[0].chart) };
    assert_eq!(
        chart.bars.iter().map(|bar| (bar.name.as_str(), bar.value, bar.note.as_str())).collect::<Vec<_>>(),
        [
            ("catalog-file", None, "no load holds"),
            ("manifest-chain", Some(150.4), "150"),
            ("tickets", Some(3.0), "\u{2265} 3"),
        ]
    );
    assert_eq!(chart.bars.iter().map(|bar| bar.at_least).collect::<Vec<_>>(), [false, false, true]);
    assert_eq!(plan.len(), 1);
    assert!(plan[0].caption.starts_with("Each bar is a knee"), "{}", plan[0].caption);
}

#[test]
fn the_same_results_give_the_same_files() {
    let experiment = experiment(LOADS);
    let pictures = plan(&experiment, &results(&experiment, growing));
    let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for folder in &folders {
        write(&folder.path().join("pictures"), &draw(pictures.clone()).unwrap()).unwrap();
    }
    for picture in &pictures {
        for ending in ["svg", "png"] {
            let name = format!("pictures/{}.{ending}", picture.file_stem);
            let [one, two] = folders.each_ref().map(|folder| std::fs::read(folder.path().join(&name)).unwrap());
            assert!(one == two && !one.is_empty(), "{name}");
        }
    }
}

#[test]
fn a_folder_that_cannot_be_written_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = write(&file.path().join("pictures"), &[]).unwrap_err().to_string();
    assert!(error.contains("pictures: cannot write this file"), "{error}");
}

#[test]
fn bars_are_labelled_with_all_that_differs_and_captions_promise_no_line_among_bars() {
    let sweep = "[sweep]\nprovider = [\"s3-express\", \"azure-premium\"]\n\
                 \"catalog.protocol\" = [\"catalog-file\", \"manifest-chain\"]\n";
    let experiment = experiment(sweep);
    let plan = plan(&experiment, &results(&experiment, growing));
    let overview = plan.iter().find(|picture| picture.section == Section::Overview).unwrap();
    assert!(!overview.caption.contains("line"), "{}", overview.caption);
    let Chart::Panels(panels) = &overview.chart else { panic!("{:?}", overview.chart) };
    assert_eq!(panels.title, "Protocols compared by provider");
    for chart in &panels.charts {
        let Chart::StackedBars(bars) = chart else { panic!("{chart:?}") };
        assert_eq!(bars.x_label, "Provider, protocol");
        let [stores, protocols] = [["S3 Express One Zone", "Azure Premium"], ["catalog-file", "manifest-chain"]];
        let expected = stores.iter().flat_map(|store| protocols.iter().map(move |name| format!("{store}, {name}")));
        assert_eq!(bars.categories, expected.collect::<Vec<_>>());
    }
}
