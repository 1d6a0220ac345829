//! The columns of `knees.parquet`: a row for each point of a sweep, with its knee.

use std::path::{Path, PathBuf};

use crate::experiment::{Experiment, PlannedPoint};
use crate::knee::{KindAtKnee, Knee};
use crate::schema::columns::Columns;
use crate::schema::results::{coordinates_json, word};
use crate::schema::{Provenance, SchemaError, origin_of};

/// Its name in a folder of knees.
pub const KNEES: &str = "knees.parquet";

/// Writes the file into a folder: a row for each point, in the order of the plan. The columns are the fields of
/// [`Knee`], prefixed with the kind of transactions for those by kind; `configuration_json` is the whole configuration,
/// whose `arrivals.scale` has no meaning.
///
/// # Errors
/// It could not be written; then an earlier file of this name is unchanged.
pub fn write_knees(
    folder: &Path,
    experiment: &Experiment,
    knees: &[Knee],
    provenance: &Provenance,
) -> Result<PathBuf, SchemaError> {
    let mut columns = Columns::default();
    points(&mut columns, experiment);
    at_knee(&mut columns, knees);
    kind(&mut columns, "all", knees, |knee| Some(&knee.all));
    kind(&mut columns, "fast_append", knees, |knee| knee.fast_append.as_ref());
    kind(&mut columns, "validated_overwrite", knees, |knee| knee.validated_overwrite.as_ref());
    let path = folder.join(KNEES);
    columns.write(&path, origin_of(experiment, provenance))?;
    Ok(path)
}

fn points(columns: &mut Columns, experiment: &Experiment) {
    let points = || experiment.points.iter();
    let configs = || points().map(|planned: &PlannedPoint| &planned.point.config);
    columns.text("experiment", points().map(|_| experiment.name.clone()));
    columns.text("preset", points().map(|_| experiment.preset.clone()));
    columns.count("point_index", 0..experiment.points.len() as u64);
    columns.text("coordinates_json", points().map(coordinates_json));
    columns.text("provider", configs().map(|config| config.provider.clone()));
    columns.text("protocol", configs().map(|config| word(&config.catalog.protocol)));
    columns.count("table_count", configs().map(|config| config.tables.count.into()));
    columns.number("fast_append_ratio", configs().map(|config| config.transaction.fast_append));
    columns.text("configuration_json", configs().map(word));
}

fn at_knee(columns: &mut Columns, knees: &[Knee]) {
    let of = |value: fn(&Knee) -> f64| knees.iter().map(value);
    let perhaps = |value: fn(&Knee) -> Option<f64>| knees.iter().map(value);
    let count = |value: fn(&Knee) -> u64| knees.iter().map(value);
    columns.number("knee_commits_per_s", of(|knee| knee.knee_commits_per_s));
    let low = perhaps(|knee| knee.knee_interval_commits_per_s.map(|[low, _]| low));
    columns.number_or_none("knee_interval_low_commits_per_s", low);
    let high = perhaps(|knee| knee.knee_interval_commits_per_s.map(|[_, high]| high));
    columns.number_or_none("knee_interval_high_commits_per_s", high);
    columns.text("bound", knees.iter().map(|knee| word(&knee.bound)));
    columns.number("threshold_ratio", of(|knee| knee.threshold));
    columns.number_or_none("commit_within_s", perhaps(|knee| knee.commit_within_s));
    columns.number("offered_per_s", of(|knee| knee.offered_per_s));
    columns.number("inter_arrival_scale_s", of(|knee| knee.inter_arrival_scale_s));
    columns.number("success_ratio", of(|knee| knee.success));
    columns.number_or_none("burst_success_ratio", perhaps(|knee| knee.burst_success));
    columns.number_or_none("worst_success_ratio", perhaps(|knee| knee.worst_success));
    columns.number_or_none("knee_relative_error", perhaps(|knee| knee.knee_relative_error));
    columns.number_or_none("resolution", perhaps(|knee| knee.resolution));
    columns.count("deciding_transactions", count(|knee| knee.deciding_transactions));
    columns.count("runs", count(|knee| knee.runs));
    columns.number("run_duration_s", of(|knee| knee.run_duration_s));
    columns.number("simulated_s", of(|knee| knee.simulated_s));
    columns.count("engine_events", count(|knee| knee.events));
}

/// The columns of one kind of transactions, all null if there are none.
fn kind(columns: &mut Columns, kind: &str, knees: &[Knee], of: fn(&Knee) -> Option<&KindAtKnee>) {
    let mut number = |name: &str, value: fn(&KindAtKnee) -> Option<f64>| {
        columns.number_or_none(&format!("{kind}_{name}"), knees.iter().map(|knee| value(of(knee)?)));
    };
    number("success_ratio", |kind| kind.success);
    number("not_ended_ratio", |kind| kind.not_ended);
    number("commits_per_s", |kind| Some(kind.commits_per_s));
    number("latency_mean_s", |kind| kind.latency_mean_s);
    number("latency_p50_s", |kind| kind.latency_p50_s);
    number("latency_p95_s", |kind| kind.latency_p95_s);
    number("latency_p99_s", |kind| kind.latency_p99_s);
    number("retries_mean", |kind| kind.retries_mean);
}
