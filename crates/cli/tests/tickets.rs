//! A catalog without a common root, by every command.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use common::{glidepath, output, refused};
use serde_json::Value;

fn does(folder: &tempfile::TempDir, arguments: &str) -> String {
    output(glidepath(folder.path(), arguments))
}

#[test]
fn it_is_kept_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file://{}/store?durability=none", folder.path().display());
    let catalog = |arguments: &str| does(&folder, &format!("catalog {}", arguments.replace("STORE", &store)));
    let refuses = |arguments: &str, code: i32| {
        refused(glidepath(folder.path(), &format!("catalog {}", arguments.replace("STORE", &store))), code)
    };
    let created = catalog("create STORE --protocol tickets");
    assert!(created.starts_with("created an empty catalog, kept by tickets (commit "), "{created}");
    catalog("create-namespace STORE sales");
    let told: Value = serde_json::from_str(&catalog("create-table STORE sales/orders --json")).unwrap();
    assert_eq!(told["version"], Value::Null);
    assert_eq!(told["commit"].as_str().unwrap().len(), 16);
    catalog("rename STORE sales/orders sales/bills");
    assert!(catalog("list STORE sales").contains("sales/bills"));
    assert!(catalog("list STORE --recursive").contains("sales/bills"));
    assert!(catalog("describe STORE").contains("tickets"));
    let words = refuses("drop STORE sales", 5);
    assert!(words.contains("sales"), "{words}");
    for arguments in ["history STORE", "list STORE --version 1"] {
        let words = refuses(arguments, 2);
        assert!(words.contains("a catalog of tickets has no versions"), "{words}");
    }
    let vacuumed = catalog("vacuum STORE");
    assert!(vacuumed.starts_with("deleted ") && !vacuumed.contains("version"), "{vacuumed}");
    let checked = catalog("fsck STORE");
    assert!(checked.contains("the catalog is whole") && !checked.contains("version"), "{checked}");
}

#[test]
fn it_is_simulated_searched_for_its_knee_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let tickets = "--provider s3-standard --set catalog.protocol=tickets";
    let simulated: Value =
        serde_json::from_str(&does(&folder, &format!("simulate --seeds 1 --json --duration 10min {tickets}"))).unwrap();
    assert!(simulated["throughput_commits_per_s"].as_f64().unwrap() > 1.0, "{simulated}");
    let knee = does(&folder, &format!("knee --tables 5 --budget 2s {tickets}"));
    assert!(knee.contains("Knee: "), "{knee}");
    let table = does(&folder, "check tickets --seeds 10 --scenario storm,sleepers,power");
    assert_eq!(table.lines().filter(|line| line.trim_start().starts_with("tickets")).count(), 3, "{table}");
}

#[test]
fn it_runs_under_load_on_a_real_store() {
    let folder = tempfile::tempdir().unwrap();
    let table = does(&folder, "bench memory: --protocol tickets --rows 50 --writers 2 --duration 50ms --warm-up 0s");
    assert!(table.contains("tickets"), "{table}");
}
