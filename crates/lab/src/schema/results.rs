//! The columns of `results.parquet`: the configuration, then the numbers.

use std::path::{Path, PathBuf};

use glidepath_point::Config;
use serde::Serialize;

use crate::experiment::{Experiment, PlannedPoint};
use crate::metrics::{Group, Latency, Metrics, Rank};
use crate::runner::Results;
use crate::schema::columns::Columns;
use crate::schema::{Provenance, SchemaError, origin_of};

/// Its name in a run's folder.
pub const RESULTS: &str = "results.parquet";

/// One point with one seed.
struct Row<'a> {
    index: usize,
    planned: &'a PlannedPoint,
    seed: u64,
    metrics: &'a Metrics,
}

/// Writes the file into a folder: a row for each point and seed, in the order of the plan.
///
/// # Errors
/// It could not be written; then an earlier file of this name is unchanged.
pub fn write_results(
    folder: &Path,
    experiment: &Experiment,
    results: &Results,
    provenance: &Provenance,
) -> Result<PathBuf, SchemaError> {
    let points = experiment.points.iter().zip(results.points()).enumerate();
    let rows: Vec<Row<'_>> = points
        .flat_map(|(index, (planned, runs))| {
            let seeds = experiment.seeds.iter().zip(runs);
            seeds.map(move |(seed, metrics)| Row { index, planned, seed: *seed, metrics })
        })
        .collect();
    let mut columns = Columns::default();
    identity(&mut columns, experiment, &rows);
    surroundings(&mut columns, &rows);
    workload(&mut columns, &rows);
    tables_and_commit(&mut columns, &rows);
    group(&mut columns, "all", &rows, |metrics| Some(&metrics.all));
    group(&mut columns, "fast_append", &rows, |metrics| metrics.fast_append.as_ref());
    group(&mut columns, "validated_overwrite", &rows, |metrics| metrics.validated_overwrite.as_ref());
    whole_run(&mut columns, &rows);
    let path = folder.join(RESULTS);
    columns.write(&path, origin_of(experiment, provenance))?;
    Ok(path)
}

/// A map as JSON: every reader of Parquet can read a text.
pub(super) fn coordinates_json(planned: &PlannedPoint) -> String {
    let pairs = planned.coordinates.iter().map(|(key, value)| (key.clone(), value.clone().into()));
    serde_json::Value::Object(pairs.collect()).to_string()
}

fn identity(columns: &mut Columns, experiment: &Experiment, rows: &[Row<'_>]) {
    columns.text("experiment", rows.iter().map(|_| experiment.name.clone()));
    columns.text("preset", rows.iter().map(|_| experiment.preset.clone()));
    columns.count("point_index", rows.iter().map(|row| row.index as u64));
    columns.text("coordinates_json", rows.iter().map(|row| coordinates_json(row.planned)));
    columns.count("seed", rows.iter().map(|row| row.seed));
    columns.text("point_key", rows.iter().map(|row| row.planned.point.key(row.seed)));
}

fn configs<'a>(rows: &'a [Row<'_>]) -> impl Iterator<Item = &'a Config> {
    rows.iter().map(|row| &row.planned.point.config)
}

/// A value as in an experiment file, as far as JSON and TOML agree.
pub(super) fn word<T: Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        Ok(other) => other.to_string(),
        Err(error) => error.to_string(),
    }
}

/// The exponent of a Zipf choice.
fn zipf(choice: glidepath_workload::Choice) -> Option<f64> {
    match choice {
        glidepath_workload::Choice::Uniform => None,
        glidepath_workload::Choice::Zipf(exponent) => Some(exponent),
    }
}

fn choice_name(choice: glidepath_workload::Choice) -> String {
    if zipf(choice).is_some() { "zipf".to_owned() } else { word(&choice) }
}

fn surroundings(columns: &mut Columns, rows: &[Row<'_>]) {
    columns.number("duration_s", configs(rows).map(|config| config.duration.as_secs_f64()));
    columns.number("run_on_s", configs(rows).map(|config| config.run_on.as_secs_f64()));
    columns.text("provider", configs(rows).map(|config| config.provider.clone()));
    columns.text("protocol", configs(rows).map(|config| word(&config.catalog.protocol)));
    let latency = |config: &Config| config.catalog.latency.map(|latency| latency.as_millis_f64());
    columns.number_or_none("catalog_latency_ms", configs(rows).map(latency));
    columns.text("catalog_store", configs(rows).map(|config| config.catalog.store.clone().unwrap_or_default()));
    let server = |config: &Config| config.catalog.server.map(|way| way.as_millis_f64());
    columns.number_or_none("catalog_server_ms", configs(rows).map(server));
    columns.count_or_none("catalog_servers", configs(rows).map(|config| config.catalog.servers.map(u64::from)));
    columns.text("catalog_balance", configs(rows).map(|config| word(&config.catalog.balance)));
    columns.text("catalog_effect", configs(rows).map(|config| word(&config.catalog.effect)));
}

fn workload(columns: &mut Columns, rows: &[Row<'_>]) {
    let arrivals = || configs(rows).map(|config| config.arrivals);
    columns.text("inter_arrival_kind", arrivals().map(|arrivals| word(&arrivals.kind)));
    columns.number("inter_arrival_scale_ms", arrivals().map(|arrivals| arrivals.scale.as_millis_f64()));
    columns.number("inter_arrival_sigma", arrivals().map(|arrivals| arrivals.sigma));
    columns.number("inter_arrival_floor_ms", arrivals().map(|arrivals| arrivals.floor.as_millis_f64()));
    let bursts = || arrivals().map(|arrivals| arrivals.burst);
    columns.number_or_none("burst_every_s", bursts().map(|burst| Some(burst?.every.as_secs_f64())));
    columns.number_or_none("burst_lasts_s", bursts().map(|burst| Some(burst?.lasts.as_secs_f64())));
    columns.number_or_none("burst_factor", bursts().map(|burst| Some(burst?.factor)));
    columns.count_or_none("burst_table", bursts().map(|burst| burst?.table.map(u64::from)));
    let transactions = || configs(rows).map(|config| config.transaction);
    columns.number("fast_append_ratio", transactions().map(|transaction| transaction.fast_append));
    columns.text("runtime_kind", transactions().map(|transaction| word(&transaction.runtime.kind)));
    columns.number("runtime_scale_s", transactions().map(|transaction| transaction.runtime.scale.as_secs_f64()));
    columns.number("runtime_sigma", transactions().map(|transaction| transaction.runtime.sigma));
    columns.number("runtime_floor_s", transactions().map(|transaction| transaction.runtime.floor.as_secs_f64()));
    let own = || transactions().map(|transaction| transaction.overwrite_runtime);
    columns.text("overwrite_runtime_kind", own().map(|own| own.map_or_else(String::new, |own| word(&own.kind))));
    columns.number_or_none("overwrite_runtime_scale_s", own().map(|own| Some(own?.scale.as_secs_f64())));
    columns.number_or_none("overwrite_runtime_sigma", own().map(|own| Some(own?.sigma)));
    columns.number_or_none("overwrite_runtime_floor_s", own().map(|own| Some(own?.floor.as_secs_f64())));
    columns.number("real_conflict_ratio", transactions().map(|transaction| transaction.real_conflicts));
    columns.count("tables_per_transaction", transactions().map(|transaction| transaction.tables.into()));
    columns.count("partitions_per_transaction_and_table", transactions().map(|one| one.partitions.into()));
}

fn tables_and_commit(columns: &mut Columns, rows: &[Row<'_>]) {
    let tables = || configs(rows).map(|config| config.tables);
    columns.count("table_count", tables().map(|tables| tables.count.into()));
    columns.text("table_choice", tables().map(|tables| choice_name(tables.choice)));
    columns.number_or_none("table_zipf_exponent", tables().map(|tables| zipf(tables.choice)));
    columns.count("partitions_per_table", tables().map(|tables| tables.partitions.into()));
    columns.text("partition_choice", tables().map(|tables| choice_name(tables.partition_choice)));
    columns.number_or_none("partition_zipf_exponent", tables().map(|tables| zipf(tables.partition_choice)));
    columns.text("table_metadata", tables().map(|tables| word(&tables.metadata)));
    columns.text("manifest_list", tables().map(|tables| word(&tables.manifest_list)));
    columns.text("appends", tables().map(|tables| word(&tables.appends)));
    columns.count("table_metadata_size_bytes", tables().map(|tables| tables.metadata_size.as_bytes()));
    columns.count("manifest_list_size_bytes", tables().map(|tables| tables.manifest_list_size.as_bytes()));
    columns.count("manifest_file_size_bytes", tables().map(|tables| tables.manifest_file_size.as_bytes()));
    columns.count("manifest_entry_size_bytes", tables().map(|tables| tables.manifest_entry_size.as_bytes()));
    let steps = |steps: &[glidepath_workload::Step]| steps.iter().map(word).collect::<Vec<_>>().join(" ");
    let commits = || configs(rows).map(|config| &config.commit);
    columns.text("commit_once", commits().map(|commit| steps(&commit.once)));
    columns.text("commit_prepare", commits().map(|commit| steps(&commit.prepare)));
    columns.text("commit_refresh", commits().map(|commit| steps(&commit.refresh)));
    columns.text("commit_refresh_after", commits().map(|commit| word(&commit.refresh_after)));
    columns.flag("commit_refresh_first", commits().map(|commit| commit.refresh_first));
    columns.text("history", commits().map(|commit| word(&commit.history)));
    columns.count("history_parallel", commits().map(|commit| commit.history_parallel.into()));
    let retries = || configs(rows).map(|config| config.retry);
    columns.count("retries", retries().map(|retry| retry.retries.into()));
    columns.number_or_none("retry_time_limit_s", retries().map(|retry| Some(retry.time_limit?.as_secs_f64())));
    columns.text("retry_catalog", retries().map(|retry| word(&retry.catalog)));
    columns.text("retry_table", retries().map(|retry| word(&retry.table)));
}

/// The numbers of one kind of transaction, all null if the workload has none.
fn group(columns: &mut Columns, kind: &str, rows: &[Row<'_>], of: fn(&Metrics) -> Option<&Group>) {
    let groups = || rows.iter().map(|row| of(row.metrics));
    let mut count = |name: &str, value: fn(&Group) -> u64| {
        columns.count_or_none(&format!("{kind}_{name}"), groups().map(|group| group.map(value)));
    };
    count("window_arrived", |group| group.window_arrived);
    count("window_ended", |group| group.window_ended);
    count("window_committed", |group| group.window_committed);
    count("warm_ended", |group| group.warm_ended);
    count("warm_committed", |group| group.warm_committed);
    count("run_arrived", |group| group.run_arrived);
    count("run_ended", |group| group.run_ended);
    count("run_committed", |group| group.run_committed);
    count("run_validation_failed", |group| group.run_validation_failed);
    count("attempts", |group| group.attempts);
    count("refused", |group| group.refused);
    count("catalog_conflicts", |group| group.catalog_conflicts);
    count("table_conflicts", |group| group.table_conflicts);
    count("unseen_conflicts", |group| group.unseen_conflicts);
    count("append_conflicts", |group| group.append_conflicts);
    count("history_reads", |group| group.history_reads);
    let mut number = |name: &str, value: fn(&Group) -> Option<f64>| {
        columns.number_or_none(&format!("{kind}_{name}"), groups().map(|group| value(group?)));
    };
    number("success_ratio", Group::success);
    number("warm_success_ratio", Group::warm_success);
    number("warm_throughput_per_s", |group| Some(group.warm_throughput_per_s));
    number("warm_latency_mean_s", |group| group.warm_latency_mean_s);
    number("run_success_ratio", Group::run_success);
    number("not_ended_ratio", Group::not_ended);
    number("throughput_per_s", |group| Some(group.throughput_per_s));
    number("retries_mean", |group| group.retries_mean);
    number("middle_latency_mean_s", |group| group.middle_latency_mean_s);
    number("spent_catalog_reads_mean_s", |group| Some(group.spent.catalog_reads_s));
    number("spent_prepare_mean_s", |group| Some(group.spent.prepare_s));
    number("spent_conflict_reads_mean_s", |group| Some(group.spent.conflict_reads_s));
    number("spent_install_mean_s", |group| Some(group.spent.install_s));
    number("spent_backoff_mean_s", |group| Some(group.spent.backoff_s));
    let mut latency = |name: &str, value: fn(&Latency) -> f64| {
        let name = format!("{kind}_latency_{name}_s");
        columns.number_or_none(&name, groups().map(|group| group?.latency.as_ref().map(value)));
    };
    latency("mean", |latency| latency.mean_s);
    latency("p50", |latency| latency.p50_s);
    latency("p95", |latency| latency.p95_s);
    latency("p99", |latency| latency.p99_s);
}

fn whole_run(columns: &mut Columns, rows: &[Row<'_>]) {
    columns.count("engine_events", rows.iter().map(|row| row.metrics.events));
    columns.count("most_transactions_alive", rows.iter().map(|row| row.metrics.most_alive));
    columns.counts("commits_per_sixtieth", rows.iter().map(|row| row.metrics.commits_over_time.clone()));
    let mut rank = |name: &str, value: fn(&Rank) -> u64| {
        columns.counts(name, rows.iter().map(|row| row.metrics.ranks.iter().map(value).collect()));
    };
    rank("table_ended", |rank| rank.ended);
    rank("table_committed", |rank| rank.committed);
    rank("table_catalog_conflicts", |rank| rank.catalog_conflicts);
    rank("table_table_conflicts", |rank| rank.table_conflicts);
    rank("table_unseen_conflicts", |rank| rank.unseen_conflicts);
}
