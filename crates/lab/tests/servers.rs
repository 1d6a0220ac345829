//! Do simulated servers in front of a catalog commit what its clients alone cannot, in the time that is stated?

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use glidepath_lab::experiment::{Experiment, Overrides, Setting};
use glidepath_point::{Point, simulate};
use glidepath_sim::Mode;
use glidepath_workload::{End, Record};

fn planned(settings: &[&str]) -> Result<Point, String> {
    let usual = ["duration=10min", "arrivals.scale=60ms", "tables.count=20", "provider=s3-standard"];
    let settings = usual.iter().chain(settings).map(|setting| Setting::parse(setting).unwrap()).collect();
    let overrides = Overrides { settings, ..Overrides::default() };
    let experiment = Experiment::of_preset("iceberg", &overrides).map_err(|error| error.to_string())?;
    Ok(experiment.points[0].point.clone())
}

fn records(settings: &[&str]) -> Vec<Record> {
    simulate(&planned(settings).unwrap(), 1, Mode::LocalClocks).records
}

fn committed(records: &[Record]) -> f64 {
    records.iter().filter(|record| record.end == End::Committed).count() as f64 / records.len() as f64
}

fn installing(records: &[Record]) -> f64 {
    let all = records.iter().filter(|record| record.end == End::Committed);
    all.clone().map(|record| record.spent.install.as_secs_f64()).sum::<f64>() / all.count() as f64
}

#[test]
fn a_server_commits_what_clients_of_one_object_cannot() {
    for protocol in ["catalog-file", "manifest-chain"] {
        let protocol = format!("catalog.protocol={protocol}");
        let alone = committed(&records(&[&protocol]));
        let served = records(&[&protocol, "catalog.server=1ms"]);
        assert!(alone < 0.95 && committed(&served) > 0.99, "{protocol}: {alone}, {}", committed(&served));
        assert!(served.iter().all(|record| record.catalog_conflicts == 0), "{protocol}");
        assert_eq!(served, records(&[&protocol, "catalog.server=1ms"]), "{protocol}");
    }
}

#[test]
fn the_way_to_a_server_takes_its_time() {
    // So few commits that hardly any has to be tried twice.
    let installing = |way| installing(&records(&["arrivals.scale=5s", way]));
    let near = installing("catalog.server=0s");
    let far = installing("catalog.server=500ms");
    assert!((far - near - 0.5).abs() < 0.05, "{near} s, {far} s");
}

#[test]
fn a_catalog_in_a_database_takes_its_time() {
    let settings = ["catalog.protocol=tickets", "arrivals.scale=1s"];
    let objects = installing(&records(&settings));
    let cells = installing(&records(&[&settings[..], &["catalog.store=postgres-one-node"]].concat()));
    // The median of a conditional put: 61 ms there, a quarter of a millisecond here.
    assert!(objects > 0.05 && cells < 0.002, "{objects} s, {cells} s");
}

#[test]
fn a_catalog_is_in_one_place() {
    for (settings, words) in [
        (&["provider=postgres-one-node"][..], "keeps no files of tables"),
        (&["catalog.store=nowhere"], "there is no provider \"nowhere\""),
        (&["catalog.store=gcs", "catalog.latency=1ms"], "one of the two"),
        (&["catalog.protocol=append-log", "catalog.store=postgres-one-node"], "cannot append"),
        (&["catalog.server=2h"], "0s to 1h"),
    ] {
        let error = planned(settings).unwrap_err();
        assert!(error.contains(words), "{settings:?}: {error}");
    }
}
