//! The same workload on every commit protocol.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use glidepath_lab::experiment::{Experiment, Overrides, Setting};
use glidepath_lab::{Metrics, simulate};
use glidepath_sim::Mode;

fn metrics(settings: &[&str]) -> Result<Metrics, String> {
    let setting = |assignment: &&str| Setting::parse(assignment).map_err(|error| error.to_string());
    let settings = settings.iter().map(setting).collect::<Result<_, _>>()?;
    let overrides = Overrides { settings, ..Overrides::default() };
    let experiment = Experiment::of_preset("iceberg", &overrides).map_err(|error| error.to_string())?;
    let point = &experiment.points[0].point;
    let outcome = simulate(point, 1, Mode::LocalClocks);
    let again = simulate(point, 1, Mode::LocalClocks);
    assert_eq!(outcome.records.len(), again.records.len());
    Ok(Metrics::of(point, &outcome))
}

/// A busy hour of one in ten: 20 offered commits/s over 20 tables on S3 Express.
fn busy(protocol: &str) -> Metrics {
    let protocol = format!("catalog.protocol=\"{protocol}\"");
    let load = [
        "provider=s3-express",
        "arrivals.scale=50ms",
        "tables.count=20",
        "duration=10min",
        "transaction.runtime={ fixed = \"1s\" }",
    ];
    let settings: Vec<&str> = load.into_iter().chain([protocol.as_str()]).collect();
    metrics(&settings).unwrap()
}

#[test]
fn each_protocol_runs_the_same_workload() {
    let runs = ["catalog-file", "manifest-chain", "append-log"].map(|protocol| (protocol, busy(protocol)));
    for (protocol, metrics) in &runs {
        println!("{protocol}: {metrics:?}");
    }
}

#[test]
fn an_append_log_needs_a_store_that_appends() {
    let error = metrics(&["catalog.protocol=\"append-log\"", "provider=s3-standard"]).unwrap_err();
    assert!(error.contains("catalog.protocol") && error.contains("cannot append"), "{error}");
    let error = metrics(&["catalog.protocol=\"manifest-chain\"", "tables.metadata=inlined"]).unwrap_err();
    assert!(error.contains("catalog.protocol") && error.contains("inlined"), "{error}");
}
