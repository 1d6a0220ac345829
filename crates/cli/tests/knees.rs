//! Does `glidepath knees` find a sweep's knees, keep them, and answer mistakes?

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;

use common::{glidepath, output, refused};

/// Two numbers of tables, and loads that are ignored; with short work.
const SMALL: &str = "\
title = \"Small\"
duration = \"20min\"
[transaction]
runtime = { kind = \"fixed\", scale = \"2s\" }
[sweep]
\"tables.count\" = [1, 3]
\"arrivals.scale\" = [\"500ms\", \"250ms\"]
";

#[test]
fn a_sweep_fills_its_folder_and_finds_everything_done_the_second_time() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine.toml"), SMALL).unwrap();
    let options = "knees mine.toml --budget 1s --tolerance 0.2";
    let text = output(glidepath(folder.path(), options));
    assert!(text.contains("tables.count") && !text.contains("250ms") && text.contains("2 knees in"), "{text}");
    let results = folder.path().join("results/mine-knees");
    let read = |name: &str| fs::read(results.join(name)).unwrap();
    let files = ["knees.parquet", "knees.jsonl", "table.txt", "pictures/usable-throughput-by-tables-count.png"];
    let first = files.map(read);
    let report = String::from_utf8(read("report.html")).unwrap();
    assert!(report.contains("95 % confidence"));
    let setting = "Preset iceberg, tables on s3-standard, the catalog an object there, 100 % fast appends, protocol \
                   catalog-file, with transaction.runtime.kind = fixed, transaction.runtime.scale = 2s.";
    assert!(report.contains(setting) && text.contains(setting), "{text}");
    assert!(String::from_utf8(read("table.txt")).unwrap().contains(setting));
    output(glidepath(folder.path(), &format!("{options} --threads 1")));
    assert!(files.map(read) == first);
    // Another question.
    for more in ["--commit-within 1s", "--threshold 0.9"] {
        let error = refused(glidepath(folder.path(), &format!("{options} {more}")), 2);
        assert!(error.contains("holds the results of `glidepath knees mine.toml`"), "{error}");
    }
    // About the same as from a single search, which keeps a part of its budget for other searches.
    let json: serde_json::Value =
        serde_json::from_str(&output(glidepath(folder.path(), &format!("{options} --json")))).unwrap();
    let single = "knee --tables 3 --duration 20min --set transaction.runtime={kind=\"fixed\",scale=\"2s\"} --budget 1s \
                  --tolerance 0.2 --no-what-if --json";
    let single: serde_json::Value = serde_json::from_str(&output(glidepath(folder.path(), single))).unwrap();
    let point = &json["points"][1];
    assert_eq!(point["coordinates"], serde_json::json!({ "tables.count": "3" }));
    let number = |of: &serde_json::Value, path: &str| of.pointer(path).and_then(serde_json::Value::as_f64).unwrap();
    let low = number(point, "/knee_interval_commits_per_s/0");
    let knee = number(&single, "/knee_commits_per_s");
    assert!(low < knee && knee < number(point, "/knee_interval_commits_per_s/1"), "{knee}: {point}");
    for field in ["/knee_commits_per_s", "/success", "/all/latency_p99_s"] {
        let ratio = number(point, field) / number(&single, field);
        assert!((ratio - 1.0).abs() < 0.1, "{field}: {ratio}");
    }
}

#[test]
fn without_an_experiment_options_are_the_sweep_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let short = "--duration 20min --set transaction.runtime={kind=\"fixed\",scale=\"2s\"} --budget 1s --tolerance 0.2";
    let text = output(glidepath(folder.path(), &format!("knees --provider gcs,azure-standard {short}")));
    assert!(text.contains("gcs") && text.contains("azure-standard") && text.contains("95 % from"), "{text}");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn mistakes_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("knees 4d", "there is no experiment \"4d\""),
        ("knees 4c --threshold 2", "threshold: found 2; allowed: 0 < share < 1"),
        ("knees 4c --threshold 1", "threshold: found 1; allowed: 0 < share < 1"),
        ("knees 4c --inter-arrival 5ms", "the search varies this value itself"),
        ("knees 4c --set arrivals.scale=5ms", "the search varies this value itself"),
        (
            "knees --tables 1,2 --commit-within 0s",
            "tables.count = 1: --commit-within: found 0; allowed: a time above zero",
        ),
        (
            "knees --tables 1,2 --worst 1min",
            "tables.count = 1: --worst: found 1min; allowed: no such option for a load without bursts",
        ),
        ("knee --tables 1,2", "`glidepath knees` takes several"),
    ];
    for (arguments, expected) in cases {
        let error = refused(glidepath(folder.path(), arguments), 2);
        assert!(error.contains(expected), "{arguments}: {error}");
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing may be written before the question is good");
}
