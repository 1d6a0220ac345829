//! The same workload on every commit protocol.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use glidepath_lab::Metrics;
use glidepath_lab::experiment::{Experiment, Overrides, Setting};
use glidepath_point::simulate;
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

/// Ten busy minutes: 20 offered commits/s over 20 tables on S3 Express.
fn busy(protocol: &str) -> Metrics {
    let protocol = format!("catalog.protocol=\"{protocol}\"");
    let load = [
        "provider=s3-express",
        "arrivals.scale=50ms",
        "tables.count=20",
        "duration=10min",
        "transaction.runtime={ kind = \"fixed\", scale = \"1s\" }",
    ];
    let settings: Vec<&str> = load.into_iter().chain([protocol.as_str()]).collect();
    metrics(&settings).unwrap()
}

#[test]
fn an_append_log_has_no_conflicts_between_tables_and_the_others_have_many() {
    let [file, chain, log] = ["catalog-file", "manifest-chain", "append-log"].map(busy);
    for metrics in [&file, &chain, &log] {
        let (committed, ended) = (metrics.all.window_committed as f64, metrics.all.window_ended as f64);
        assert!(committed > 0.95 * ended, "{committed} of {ended}");
    }
    // One write at a time for all tables: similar results for one object and for a chain.
    let conflicts = |metrics: &Metrics| metrics.all.catalog_conflicts as f64;
    assert!((conflicts(&chain) / conflicts(&file) - 1.0).abs() < 0.25, "{} {}", conflicts(&chain), conflicts(&file));
    // In a log commits to different tables do not conflict.
    assert!(conflicts(&log) < 0.02 * conflicts(&file), "{}", conflicts(&log));
    assert_eq!(log.all.window_committed, log.all.window_ended);
}

#[test]
fn an_append_log_needs_a_store_that_appends() {
    let error = metrics(&["catalog.protocol=\"append-log\"", "provider=s3-standard"]).unwrap_err();
    assert!(error.contains("catalog.protocol") && error.contains("cannot append"), "{error}");
    let error = metrics(&["catalog.protocol=\"manifest-chain\"", "tables.metadata=inlined"]).unwrap_err();
    assert!(error.contains("catalog.protocol") && error.contains("inlined"), "{error}");
}
