//! The output of `--json`: means over seeds and some 95 % intervals, with units in the names of the fields; fields that
//! do not apply are null.

use std::collections::BTreeMap;

use glidepath_lab::experiment::Experiment;
use glidepath_lab::report::unsettled;
use glidepath_lab::summary::{GroupSummary, PointSummary, RunSummary};
use glidepath_run::statistics::Spread;
use serde::Serialize;

use crate::failure::Failure;
use crate::output::print_json;

/// One load.
#[derive(Serialize)]
struct Load<'a> {
    preset: &'a str,
    provider: &'a str,
    protocol: &'static str,
    tables: u32,
    inter_arrival_scale_s: f64,
    fast_append_share: f64,
    seeds: usize,
    run_on_s: f64,
    notes: &'a [String],
    #[serde(flatten)]
    numbers: Numbers,
}

/// An experiment.
#[derive(Serialize)]
struct Report<'a> {
    experiment: &'a str,
    title: &'a str,
    preset: &'a str,
    seeds: usize,
    notes: &'a [String],
    points: Vec<Point<'a>>,
}

#[derive(Serialize)]
struct Point<'a> {
    coordinates: BTreeMap<&'a str, &'a str>,
    #[serde(flatten)]
    numbers: Numbers,
}

/// All transactions, then each kind.
#[derive(Serialize)]
struct Numbers {
    #[serde(flatten)]
    all: Group,
    fast_append: Option<Group>,
    validated_overwrite: Option<Group>,
    /// Present if the run had not settled when its window began.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

#[derive(Serialize)]
struct Group {
    success_ratio: Option<f64>,
    success_interval: Option<[f64; 2]>,
    throughput_commits_per_s: f64,
    throughput_interval_commits_per_s: Option<[f64; 2]>,
    latency_mean_s: Option<f64>,
    latency_p50_s: Option<f64>,
    latency_p95_s: Option<f64>,
    latency_p99_s: Option<f64>,
    latency_p99_interval_s: Option<[f64; 2]>,
    retries_mean: Option<f64>,
    not_ended_ratio: Option<f64>,
    run_success_ratio: Option<f64>,
    catalog_conflicts_per_transaction: Option<f64>,
    table_conflicts_per_transaction: Option<f64>,
    unseen_conflicts_per_transaction: Option<f64>,
    arrived_per_s: f64,
    burst_success_ratio: Option<f64>,
}

impl From<&GroupSummary> for Group {
    fn from(group: &GroupSummary) -> Self {
        let mean = |spread: Option<Spread>| spread.map(|spread| spread.mean);
        Self {
            success_ratio: mean(group.success),
            success_interval: group.success_interval,
            throughput_commits_per_s: group.throughput_per_s.mean,
            throughput_interval_commits_per_s: group.throughput_interval_per_s,
            latency_mean_s: mean(group.latency_mean_s),
            latency_p50_s: mean(group.latency_p50_s),
            latency_p95_s: mean(group.told_p95_s()),
            latency_p99_s: mean(group.told_p99_s()),
            latency_p99_interval_s: group.latency_p99_interval_s.filter(|_| group.tells(0.99)),
            retries_mean: mean(group.retries_mean),
            not_ended_ratio: mean(group.not_ended),
            run_success_ratio: mean(group.run_success),
            catalog_conflicts_per_transaction: mean(group.catalog_conflicts_per_transaction),
            table_conflicts_per_transaction: mean(group.table_conflicts_per_transaction),
            unseen_conflicts_per_transaction: mean(group.unseen_conflicts_per_transaction),
            arrived_per_s: group.arrived_per_s.mean,
            burst_success_ratio: mean(group.burst_success),
        }
    }
}

impl From<&PointSummary> for Numbers {
    fn from(point: &PointSummary) -> Self {
        Self {
            all: (&point.all).into(),
            fast_append: point.fast_append.as_ref().map(Group::from),
            validated_overwrite: point.validated_overwrite.as_ref().map(Group::from),
            warning: point.unsettled.then(|| unsettled(None)),
        }
    }
}

/// Prints the numbers of one load.
pub(super) fn print_load(experiment: &Experiment, summary: &RunSummary) -> Result<(), Failure> {
    let loads = experiment.points.iter().zip(&summary.points).map(|(planned, point)| Load {
        preset: &experiment.preset,
        provider: &planned.point.config.provider,
        protocol: planned.point.config.catalog.protocol.name(),
        tables: planned.point.config.tables.count,
        inter_arrival_scale_s: planned.point.config.arrivals.scale.as_secs_f64(),
        fast_append_share: planned.point.config.transaction.fast_append,
        seeds: experiment.seeds.len(),
        run_on_s: planned.point.config.run_on.as_secs_f64(),
        notes: &experiment.notes,
        numbers: point.into(),
    });
    loads.into_iter().try_for_each(|load| print_json(&load))
}

/// Prints the numbers of all points.
pub(super) fn print_experiment(experiment: &Experiment, summary: &RunSummary) -> Result<(), Failure> {
    let points = summary.points.iter().map(|point| Point {
        coordinates: point.coordinates.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(),
        numbers: point.into(),
    });
    print_json(&Report {
        experiment: &experiment.name,
        title: &experiment.title,
        preset: &experiment.preset,
        seeds: experiment.seeds.len(),
        notes: &experiment.notes,
        points: points.collect(),
    })
}
