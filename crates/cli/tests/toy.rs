//! Does a protocol need only a folder and a line? `glidepath-protocols` has a toy for tests, which no other crate
//! names.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{glidepath, output, refused};
use serde_json::Value;

fn does(folder: &tempfile::TempDir, arguments: &str) -> String {
    output(glidepath(folder.path(), arguments))
}

#[test]
fn no_other_crate_knows_the_toy() {
    let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    for entry in walk(std::path::Path::new(crates)) {
        let path = entry.to_string_lossy().into_owned();
        let allowed = path.contains("/protocols/src/toy/") || path.contains("/tests/");
        if path.ends_with(".rs") && !allowed {
            let text = std::fs::read_to_string(&entry).unwrap();
            let lines = text.lines().filter(|line| line.contains("Toy") || line.contains("toy"));
            let known = ["    Toy: crate::toy::Toy, if \"toy\";", "#[cfg(feature = \"toy\")]", "mod toy;"];
            let unknown: Vec<&str> = lines.filter(|line| !known.contains(line)).collect();
            assert_eq!(unknown, Vec::<&str>::new(), "{path}");
        }
    }
}

fn walk(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}

#[test]
fn it_is_simulated_and_searched_for_its_knee() {
    let folder = tempfile::tempdir().unwrap();
    let toy = "--provider s3-standard --set catalog.protocol=toy";
    let simulated: Value =
        serde_json::from_str(&does(&folder, &format!("simulate --seeds 1 --json --duration 10min {toy}"))).unwrap();
    assert!(simulated["throughput_commits_per_s"].as_f64().unwrap() > 1.0, "{simulated}");
    let knee = does(&folder, &format!("knee --tables 5 --budget 2s {toy}"));
    assert!(knee.contains("Knee: "), "{knee}");
}

#[test]
fn it_is_checked_and_holds() {
    let folder = tempfile::tempdir().unwrap();
    let table = does(&folder, "check toy --seeds 20 --scenario storm,everything,power");
    assert_eq!(table.lines().filter(|line| line.trim_start().starts_with("toy")).count(), 3, "{table}");
}

#[test]
fn it_runs_under_load_on_a_real_store() {
    let folder = tempfile::tempdir().unwrap();
    let table = does(&folder, "bench memory: --protocol toy --rows 50 --writers 2 --duration 50ms --warm-up 0s");
    assert!(table.contains("toy"), "{table}");
}

#[test]
fn it_keeps_a_catalog_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file://{}/store?durability=none", folder.path().display());
    let catalog = |arguments: &str| does(&folder, &format!("catalog {}", arguments.replace("STORE", &store)));
    let layout = format!("catalog create {store} --protocol toy --layout whole");
    let words = refused(glidepath(folder.path(), &layout), 2);
    assert!(words.contains("--layout and --without-indices are for manifest-chain"), "{words}");
    assert_eq!(catalog("create STORE --protocol toy"), "created an empty catalog, kept by toy (version 0)\n");
    catalog("create-namespace STORE sales");
    catalog("create-table STORE sales/orders");
    catalog("rename STORE sales/orders sales/bills");
    assert!(catalog("list STORE sales").contains("sales/bills"));
    assert!(catalog("describe STORE").contains("toy"));
}
