//! Do the files of transactions agree with the tables? Each printed figure is computed again from the Parquet files of
//! its runs.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::File;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use glidepath_lab::experiment::{Experiment, Overrides, Setting};
use glidepath_lab::schema::{Provenance, TransactionFolder};
use glidepath_lab::{GroupSummary, Metrics, PointSummary};
use glidepath_point::simulate;
use glidepath_run::statistics::Spread;
use glidepath_sim::Mode;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use proptest::prelude::*;

/// A row of a transaction.
struct Row {
    overwrite: bool,
    committed: bool,
    arrived_s: f64,
    ended_s: f64,
    latency_s: f64,
    /// By name of the column.
    counts: Vec<f64>,
}

/// The columns that are averaged over all transactions, and their figures.
type Figure = fn(&GroupSummary) -> Option<Spread>;

const PER_TRANSACTION: [(&str, Figure); 5] = [
    ("catalog_conflicts", |group| group.catalog_conflicts_per_transaction),
    ("table_conflicts", |group| group.table_conflicts_per_transaction),
    ("unseen_conflicts", |group| group.unseen_conflicts_per_transaction),
    ("append_conflicts", |group| group.append_conflicts_per_transaction),
    ("history_reads", |group| group.history_reads_per_transaction),
];

fn rows(path: &Path) -> Vec<Row> {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap().build().unwrap();
    let mut rows = Vec::new();
    for batch in reader.map(Result::unwrap) {
        let text = |name: &str| batch.column_by_name(name).unwrap().as_string::<i32>();
        let number = |name: &str| batch.column_by_name(name).unwrap().as_primitive::<Float64Type>();
        let count = |name: &str| batch.column_by_name(name).unwrap().as_primitive::<UInt64Type>();
        let (arrived, done, ended) = (number("arrived_s"), number("work_done_s"), number("ended_s"));
        rows.extend((0..batch.num_rows()).map(|row| {
            Row {
                overwrite: text("kind").value(row) == "validated-overwrite",
                committed: text("end").value(row) == "committed",
                arrived_s: arrived.value(row),
                ended_s: ended.value(row),
                latency_s: ended.value(row) - done.value(row),
                counts: std::iter::once("retries")
                    .chain(PER_TRANSACTION.map(|(name, _)| name))
                    .map(|name| count(name).value(row) as f64)
                    .collect(),
            }
        }));
    }
    rows
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = values.fold((0.0, 0.0), |(count, sum), value| (count + 1.0, sum + value));
    (count > 0.0).then(|| sum / count)
}

/// Linear between the two nearest ranks.
fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(below + (above - below) * (place - place.floor()))
}

/// The figure is the mean over seeds.
fn agree(name: &str, figure: Option<Spread>, of_seed: impl Iterator<Item = Option<f64>>) -> Result<(), TestCaseError> {
    let (found, again) = (figure.map(|spread| spread.mean), mean(of_seed.flatten()));
    let near = match (found, again) {
        (Some(found), Some(again)) => (found - again).abs() <= 1e-6 * (1.0 + again.abs()),
        (found, again) => found == again,
    };
    prop_assert!(near, "{name}: {found:?} in the summary, {again:?} from the file");
    Ok(())
}

fn check(group: &GroupSummary, seeds: &[Vec<&Row>], duration_s: f64, goes_on: bool) -> Result<(), TestCaseError> {
    let window = duration_s * 0.25..duration_s * 0.75;
    let inside: Vec<Vec<&Row>> =
        seeds.iter().map(|rows| rows.iter().copied().filter(|row| window.contains(&row.arrived_s)).collect()).collect();
    let success = |rows: &Vec<&Row>| mean(rows.iter().map(|row| f64::from(u8::from(row.committed))));
    agree("success", group.success, inside.iter().map(success))?;
    agree("success of the whole run", group.run_success, seeds.iter().map(success))?;
    let committed: Vec<Vec<&Row>> =
        inside.iter().map(|rows| rows.iter().copied().filter(|row| row.committed).collect()).collect();
    // Commits count when they land.
    let throughput = |rows: &Vec<&Row>| {
        let lands = rows.iter().filter(|row| {
            // If the run does not continue, commits count as in the publication.
            row.committed && window.contains(if goes_on { &row.ended_s } else { &row.arrived_s })
        });
        Some(lands.count() as f64 / (window.end - window.start))
    };
    agree("throughput", Some(group.throughput_per_s), seeds.iter().map(throughput))?;
    let retries = |rows: &Vec<&Row>| mean(rows.iter().map(|row| row.counts[0]));
    agree("retries", group.retries_mean, committed.iter().map(retries))?;
    let latency_mean = |rows: &Vec<&Row>| mean(rows.iter().map(|row| row.latency_s));
    agree("mean latency", group.latency_mean_s, committed.iter().map(latency_mean))?;
    for (share, figure) in [(0.5, group.latency_p50_s), (0.95, group.latency_p95_s), (0.99, group.latency_p99_s)] {
        let of_seed = |rows: &Vec<&Row>| {
            let mut sorted: Vec<f64> = rows.iter().map(|row| row.latency_s).collect();
            sorted.sort_by(f64::total_cmp);
            percentile(&sorted, share)
        };
        agree(&format!("P{}", 100.0 * share), figure, committed.iter().map(of_seed))?;
    }
    for (place, (name, figure)) in PER_TRANSACTION.into_iter().enumerate() {
        agree(name, figure(group), seeds.iter().map(|rows| mean(rows.iter().map(|row| row.counts[place + 1]))))?;
    }
    for ends in [group.success_interval, group.latency_p99_interval_s].into_iter().flatten() {
        prop_assert!(ends[0] <= ends[1]);
    }
    Ok(())
}

fn settings() -> impl Strategy<Value = Vec<String>> {
    let providers = prop::sample::select(vec!["s3-express", "azure-premium-2025-06", "gcs-2025-06"]);
    let run_on = prop::sample::select(vec!["0s", "3s", "2h"]);
    let shares = prop::sample::select(vec![0.0, 0.5, 1.0]);
    (providers, run_on, shares, (1_u32..4, 0_u32..4, 50_u64..800)).prop_map(
        |(provider, run_on, share, (tables, retries, between))| {
            vec![
                format!("provider={provider}"),
                format!("run_on={run_on}"),
                format!("transaction.fast_append={share}"),
                format!("tables.count={tables}"),
                format!("retry.retries={retries}"),
                format!("arrivals.scale={between}ms"),
                "transaction.runtime={kind=\"exponential\",scale=\"3s\"}".to_owned(),
                "duration=3min".to_owned(),
            ]
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    #[test]
    fn the_figures_that_are_printed_follow_from_the_files(settings in settings(), seed in 1_u64..1000) {
        let settings = settings.iter().map(|setting| Setting::parse(setting).unwrap()).collect();
        let overrides = Overrides { settings, ..Overrides::default() };
        let experiment = Experiment::of_preset("iceberg", &overrides).unwrap();
        let point = &experiment.points[0].point;
        let run = tempfile::tempdir().unwrap();
        let provenance = Provenance { git_revision: "test".to_owned() };
        let folder = TransactionFolder::create(run.path(), &experiment, &provenance).unwrap();
        let (mut metrics, mut files) = (Vec::new(), Vec::new());
        for seed in [seed, seed + 1] {
            let outcome = simulate(point, seed, Mode::LocalClocks);
            folder.write(0, seed, &point.key(seed), &outcome).unwrap();
            metrics.push(Metrics::of(point, &outcome));
            files.push(rows(&run.path().join(format!("transactions/0000-{seed}.parquet"))));
        }
        let summary = PointSummary::of(Vec::new(), &metrics);
        let of = |kind: Option<bool>| -> Vec<Vec<&Row>> {
            let wanted = |row: &&Row| kind.is_none_or(|overwrite| row.overwrite == overwrite);
            files.iter().map(|rows| rows.iter().filter(wanted).collect()).collect()
        };
        let duration_s = point.config.duration.as_secs_f64();
        let goes_on = point.config.run_on.as_nanos() > 0;
        check(&summary.all, &of(None), duration_s, goes_on)?;
        for (group, overwrite) in [(&summary.fast_append, false), (&summary.validated_overwrite, true)] {
            if let Some(group) = group {
                check(group, &of(Some(overwrite)), duration_s, goes_on)?;
            }
        }
    }
}
