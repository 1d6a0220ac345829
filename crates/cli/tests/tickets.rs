//! A catalog without a common root, by every command.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::path::Path;
use std::process::Output;

use common::{glidepath, output, refused};
use serde_json::Value;

fn does(folder: &tempfile::TempDir, arguments: &str) -> String {
    output(glidepath(folder.path(), arguments))
}

#[test]
fn it_is_kept_in_objects_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    is_kept(&folder, &format!("file://{}/store?durability=none", folder.path().display()));
}

#[test]
fn it_is_kept_in_cells_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    is_kept(&folder, &format!("kv+file://{}/store", folder.path().display()));
    let refuses = |arguments: &str, code: i32| refused(glidepath(folder.path(), arguments), code);
    let other = format!("kv+file://{}/other", folder.path().display());
    refuses(&format!("catalog list {other}"), 3);
    let never = format!("kv+file://{}/never", folder.path().display());
    let words = refuses(&format!("catalog create {never} --protocol append-log"), 2);
    assert!(words.contains("append-log appends to objects") && words.contains("tickets"), "{words}");
    assert!(!folder.path().join("never").exists(), "a store was made for nothing");
    let created = does(&folder, &format!("catalog create kv+file://{}/usual", folder.path().display()));
    assert!(created.contains("kept by tickets"), "{created}");
    let words = refuses(&format!("catalog create {other} --layout whole"), 2);
    assert!(words.contains("are for manifest-chain, and this catalog would be kept by tickets"), "{words}");
    let words = refuses("catalog create kv+memory:", 2);
    assert!(words.contains("only until the command ends"), "{words}");
    let words = refuses("catalog create kv+file://relative", 2);
    assert!(words.contains("three slashes"), "{words}");
    let words = refuses(&format!("txn create {other} --table glidepath_objects"), 2);
    assert!(words.contains("belongs to the program itself"), "{words}");
}

/// In the servers that `scripts/servers` started.
#[test]
fn it_is_kept_in_databases_from_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    let server =
        |variable: &str| std::env::var(variable).ok().filter(|url| !["none", "missing"].contains(&url.as_str()));
    let own = std::process::id();
    if let Some(url) = server("GLIDEPATH_POSTGRES") {
        is_kept(&folder, &format!("{url}?schema=cli_tickets_{own}"));
    }
    if let Some(node) = server("GLIDEPATH_CASSANDRA") {
        is_kept(&folder, &format!("cassandra://{node}/cli_tickets_{own}?copies=1"));
    }
}

fn is_kept(folder: &tempfile::TempDir, store: &str) {
    let catalog = |arguments: &str| does(folder, &format!("catalog {}", arguments.replace("STORE", store)));
    let refuses = |arguments: &str, code: i32| {
        refused(glidepath(folder.path(), &format!("catalog {}", arguments.replace("STORE", store))), code)
    };
    let created = catalog("create STORE --protocol tickets");
    // Nothing was written to any name: there is no commit to be told.
    assert_eq!(created.trim_end(), "created an empty catalog, kept by tickets");
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
    assert!(vacuumed.starts_with("emptied ") && !vacuumed.contains("version"), "{vacuumed}");
    let checked = catalog("fsck STORE");
    assert!(checked.contains("the catalog is whole") && !checked.contains("version"), "{checked}");
}

/// A damaged object is a finding of fsck, and a vacuum leaves what is behind it.
/// Neither what cannot be there nor another process is in the way of a catalog for good.
#[test]
fn a_creation_that_cannot_be_leaves_the_place_free() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("kv+file://{}/cells", folder.path().display());
    let run = |arguments: &str| glidepath(folder.path(), arguments);
    let error = refused(run(&format!("catalog create {store} --protocol append-log")), 2);
    assert!(error.contains("append-log appends to objects"), "{error}");
    output(run(&format!("catalog create {store} --protocol tickets")));
    let held = glidepath_stores::open(&store, &glidepath_stores::Options::default()).unwrap();
    for command in ["list STORE", "fsck STORE", "exists STORE a", "create STORE"] {
        let error = refused(run(&format!("catalog {}", command.replace("STORE", &store))), 6);
        assert!(error.contains("one process at a time"), "{command}: {error}");
    }
    drop(held);
    assert!(output(run(&format!("catalog fsck {store}"))).contains("cannot detect"));
}

/// Each slot that the store does not give is a finding of its own, and the rest is checked.
fn what_cannot_be_read_is_named(one: &Path, other: &Path, run: &impl Fn(&str) -> Output) {
    let whole = [one, other].map(|slot| std::fs::read(slot).unwrap());
    let gone = |slot: &Path| {
        std::fs::remove_file(slot).unwrap();
        std::fs::create_dir(slot).unwrap();
    };
    std::fs::write(one, "").unwrap();
    gone(other);
    let checked = run("fsck STORE");
    let words = String::from_utf8(checked.stdout).unwrap();
    assert_eq!(checked.status.code(), Some(8), "{words}");
    for slot in ["unread: tickets/names/r/norders/", "unread: tickets/names/r/nother/"] {
        assert_eq!(words.matches(slot).count(), 1, "{words}");
    }
    std::fs::remove_dir(other).unwrap();
    for (slot, whole) in [one, other].into_iter().zip(whole) {
        std::fs::write(slot, whole).unwrap();
    }
}

#[test]
fn damage_is_found_and_made_no_worse() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file://{}/store?durability=none", folder.path().display());
    let run = |arguments: &str| glidepath(folder.path(), &format!("catalog {}", arguments.replace("STORE", &store)));
    output(run("create STORE --protocol tickets"));
    output(run("create-table STORE orders"));
    output(run("set STORE orders a=1"));
    output(run("create-table STORE other"));
    let objects = folder.path().join("store/objects/tickets");
    let newest = |below: &str| {
        let mut slots: Vec<_> =
            std::fs::read_dir(objects.join(below)).unwrap().map(|entry| entry.unwrap().path()).collect();
        slots.sort();
        slots
    };
    let slots = newest("names/r/norders");
    assert_eq!(slots.len(), 2);
    let (older, whole) = (std::fs::read(&slots[1]).unwrap(), std::fs::read(&slots[0]).unwrap());
    let flip = |path: &std::path::Path| {
        let mut bytes = std::fs::read(path).unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        std::fs::write(path, bytes).unwrap();
    };
    flip(&slots[0]);
    output(run("vacuum STORE"));
    assert_eq!(std::fs::read(&slots[1]).unwrap(), older, "the vacuum emptied what is left of the table");
    refused(run("fsck STORE"), 8);
    std::fs::write(&slots[0], whole).unwrap();
    output(run("fsck STORE"));
    what_cannot_be_read_is_named(&slots[0], &newest("names/r/nother")[0], &run);
    output(run("fsck STORE"));
    let roster = newest("rosters/r");
    // A key that says a slot of the highest number.
    let far = objects.join("rosters/r/0000000000000001%o");
    std::fs::copy(&roster[0], &far).unwrap();
    refused(run("fsck STORE"), 8);
    std::fs::remove_file(&far).unwrap();
    output(run("fsck STORE"));
    flip(&roster[0]);
    refused(run("fsck STORE"), 8);
    std::fs::remove_file(&roster[0]).unwrap();
    refused(run("fsck STORE"), 8);
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
