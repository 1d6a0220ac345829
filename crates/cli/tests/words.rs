//! Does the answer to a mistake say what was found, where, what is allowed, and what to do next?

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[path = "common/place.rs"]
mod place;

use common::{glidepath, output, refused};
use place::Place;

/// Each with what its message must contain.
fn all_refused(cases: &[(&str, &[&str])]) {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, expected) in cases {
        let error = refused(glidepath(folder.path(), arguments), 2);
        for words in *expected {
            assert!(error.contains(words), "{arguments}: {words}: {error}");
        }
        assert!(!error.contains("invalid digit") && !error.contains("unexpected argument"), "{arguments}: {error}");
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 0, "a mistake leaves nothing behind");
}

#[test]
fn a_number_that_is_none_is_answered_with_an_example() {
    let one: &[&str] = &["a whole number from 1 ", "in digits alone, such as 1000"];
    let zero: &[&str] = &["a whole number from 0 on", "in digits alone, such as 1000"];
    all_refused(&[
        ("simulate --seeds 1k", one),
        ("simulate --seeds 0", one),
        ("simulate --seeds -1", one),
        ("knee --seeds 1k", one),
        ("knees --seeds 1,000", one),
        ("check all --seeds 1k", one),
        ("check all --seeds 0", one),
        ("check all --first-seed -1", one),
        ("check all --first-seed 18446744073709551615 --seeds 2", &["leaves no 2 seeds", "18446744073709551615"]),
        ("check all --seed 0", one),
        ("check all --seed x", one),
        ("check all --writers 0", one),
        ("check all --commits 1e3", one),
        ("measure memory: --trials 1k", one),
        ("catalog list memory: --limit 0", one),
        ("catalog list memory: --limit x", one),
        ("catalog list memory: --version x", zero),
        ("catalog describe memory: --version -2", zero),
        ("catalog exists memory: t --version x", zero),
        ("catalog history memory: --limit 0", one),
        ("catalog history memory: --changes x", &["a whole number from 0 to 4294967295"]),
        ("catalog vacuum memory: --keep-versions x", zero),
        ("catalog create-table memory: t --partitions 70000", &["a whole number from 1 to 65535"]),
        ("catalog create-table memory: t --tries 0", one),
        ("catalog drop memory: t --table-version x", zero),
        ("simulate --tables -5", &["--tables -5", "found", "allowed: a whole number"]),
        ("knee --fast-append -1", &["--fast-append -1", "allowed: 0 to 1, such as 0.9 or 90%"]),
        ("knee --threshold -1", &["allowed"]),
        ("bench memory: --rows -1", &["--rows", "-1"]),
    ]);
}

#[test]
fn a_unit_that_is_none_is_answered_with_one_that_is() {
    all_refused(&[
        ("catalog vacuum memory: --keep-age 1d", &["--keep-age", "h, min, s, ms, us, ns", "for a day write 24h"]),
        ("catalog vacuum memory: --keep-age 2weeks", &["for a week write 168h"]),
        ("knee --worst 1m", &["for a minute write 1min"]),
        ("simulate --duration 1d", &["--duration 1d", "for a day write 24h"]),
        ("measure memory: --body 4k", &["--body", "GiB, MiB, KiB, B", "for a thousand bytes write 1000B"]),
        ("measure memory: --body 4M", &["for 1024 KiB write 1MiB"]),
        ("knee --budget 10", &["\"10\" is not a span of time: write a number and a unit"]),
    ]);
}

/// A file or an experiment that this command does not take, or that is not there.
#[test]
fn what_was_meant_is_told() {
    all_refused(&[
        ("knee my.toml", &["found \"my.toml\"", "`glidepath knees my.toml`"]),
        ("knee 4c", &["`glidepath knees 4c`"]),
        ("simulate my.toml", &["my.toml: cannot read this experiment", "`glidepath experiments` lists"]),
        ("simulate .", &["That is a folder"]),
        ("simulate 4c --seeds 20000", &["--seeds: found 20000; allowed: 1 to 10000"]),
        ("check all --scenario my.toml", &["my.toml: cannot read this scenario", "experiments/faults"]),
        ("txn begin kv+memory: --count -3", &["a whole number from 1 to 1000000"]),
        ("bench memory: --duration 25h", &["--duration 25h", "at most 24h"]),
    ]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.toml"), "preset = \"iceberg\"\n").unwrap();
    let error = refused(glidepath(folder.path(), "knee --profile mine.toml"), 2);
    assert!(error.contains("This file looks like an experiment"), "{error}");
    let error = refused(glidepath(folder.path(), "measure memory: --quick --out mine.toml"), 2);
    assert!(error.contains("--out mine.toml: this is a file; give a folder"), "{error}");
    let place = format!("file://{}/cells", folder.path().display());
    output(glidepath(folder.path(), &format!("catalog create kv+{place}")));
    let error = refused(glidepath(folder.path(), &format!("catalog list {place}")), 3);
    assert!(error.contains(&format!("it is a folder of cells: kv+{place}")), "{error}");
    for command in ["catalog create", "bench", "measure --quick"] {
        let error = refused(glidepath(folder.path(), &format!("{command} {place}")), 2);
        assert!(error.contains(&format!("it is a folder of cells: kv+{place}")), "{error}");
    }
    let error = refused(glidepath(folder.path(), "knee --profile ./"), 2);
    assert!(error.contains("it is a folder: name the file profile.toml in it"), "{error}");
}

#[test]
fn an_empty_value_is_named() {
    all_refused(&[
        ("simulate --inter-arrival ,", &["--inter-arrival ,: found an empty value", "one comma between"]),
        ("knees --tables 1,,2", &["--tables 1,,2: found an empty value"]),
    ]);
}

/// A catalog is not kept in the root of all folders because somebody forgot the rest of the URL.
#[test]
fn the_root_of_all_folders_is_no_store() {
    // A command that would write nothing but empty folders there.
    all_refused(&[("catalog list file:///", &["the root of all folders", "such as file:///tmp/lake"])]);
}

/// In SQL a dot separates the namespace from the table. Here it is a part of the name, so somebody may have meant
/// another one.
#[test]
fn a_dot_in_a_name_is_explained() {
    let place = Place::with("");
    let told = place.run("create-table STORE sales.orders");
    let note = String::from_utf8(told.stderr.clone()).unwrap();
    assert!(note.contains("note: a dot is a part of a name") && note.contains("sales/orders"), "{note}");
    assert!(output(told).contains("created table sales.orders"));
    place.does("create-namespace STORE sales");
    let plain = place.run("create-table STORE sales/orders.2026");
    assert!(plain.stderr.is_empty(), "{}", String::from_utf8_lossy(&plain.stderr));
    place.fails("describe STORE sales.customers", 3, "there is no sales.customers; a dot is a part of a name");
    place.fails("drop STORE sales.customers", 3, "sales/customers");
    place.fails("rename STORE sales.customers x", 3, "entries of a namespace are written sales/customers");
    place.fails("set STORE sales.customers a=1", 3, "sales/customers");
}

#[test]
fn what_is_missing_is_answered_with_the_next_step() {
    let place = Place::with("");
    place.fails("describe STORE orders", 3, "`glidepath catalog list STORE -r` lists all names");
    place.fails("create-table STORE sales/orders", 3, "`glidepath catalog create-namespace STORE sales`");
    place.does("create-namespace STORE sales");
    place.fails("list STORE --after sales/x", 2, "sales/x is not directly in the root, which is listed; allowed: NAME");
    place.fails("list STORE sales --after x", 2, "x is not directly in sales, which is listed; allowed: sales/NAME");
}
