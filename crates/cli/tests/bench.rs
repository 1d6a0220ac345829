//! Tests of `glidepath bench` on the command line.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use assert_cmd::Command;

fn glidepath(folder: &tempfile::TempDir, arguments: &[&str]) -> std::process::Output {
    let mut command = Command::cargo_bin("glidepath").unwrap();
    command.current_dir(folder.path()).args(arguments).output().unwrap()
}

fn url(folder: &tempfile::TempDir) -> String {
    format!("file://{}/store", folder.path().display())
}

/// All files in a folder, at any depth.
fn files(folder: &std::path::Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    entries.flat_map(|entry| if entry.path().is_dir() { files(&entry.path()) } else { vec![entry.path()] }).collect()
}

/// The cells of a run that must succeed without a failed operation.
fn cells(folder: &tempfile::TempDir, arguments: &[&str]) -> Vec<serde_json::Value> {
    let url = url(folder);
    let arguments = [&["bench", &url, "--json", "--warm-up", "100ms"], arguments].concat();
    let output = glidepath(folder, &arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
    for line in &lines {
        assert!(line["measured"]["operations"].as_u64().unwrap() > 0, "{line}");
        assert_eq!(line["measured"]["errors"], 0, "{line}");
    }
    let store = folder.path().join("store");
    assert!(!store.exists(), "{:?}", files(&store));
    lines
}

#[test]
fn threads_and_processes_commit_and_nothing_is_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    for how in [&[][..], &["--processes"]] {
        let arguments = ["--rows", "50", "--writers", "1,3", "--duration", "300ms", "--profile", "s3-express"];
        let lines = cells(&folder, &[&arguments[..], how].concat());
        assert_eq!(lines.len(), 2);
        for line in lines {
            let trials: Vec<f64> = serde_json::from_value(line["trials"].clone()).unwrap();
            let (least, most) =
                trials.iter().fold((f64::MAX, 0.0), |(least, most), rate| (rate.min(least), rate.max(most)));
            let all = line["measured"]["operations_per_s"].as_f64().unwrap();
            assert!(trials.len() == 3 && least <= all && all <= most, "{line}");
            assert!(line["predicted"]["operations_per_s"].as_f64().unwrap() > 0.0, "{line}");
            assert!(line["prediction_error"].is_number(), "{line}");
        }
    }
}

#[test]
fn every_protocol_is_committed_to_and_read_as_often_as_it_is_varied() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--protocol", "manifest-chain,append-log,catalog-file", "--index", "on,off", "--group", "on,off"];
    let layouts = ["--layout", "paged,whole"];
    // Limited by operations, so that requests made once are a small part of all on any machine.
    let load = ["--operation", "commit,describe,exists,list", "--rows", "40", "--writers", "2"];
    let load =
        [&load[..], &["--trials", "1", "--least", "20", "--duration", "1ms", "--profile", "s3-express"]].concat();
    let lines = cells(&folder, &[&arguments[..], &layouts, &load].concat());
    // Six designs; commits grouped and not, three reads warm and cold.
    assert_eq!(lines.len(), 6 * (2 + 6));
    let requests = |line: &serde_json::Value| line["measured"]["requests_per_operation"].as_f64().unwrap();
    let describes = |start: &str| {
        let of = |line: &&serde_json::Value| {
            let cell = &line["cell"];
            cell["design"]["protocol"] == "manifest-chain" && cell["operation"] == "describe" && cell["start"] == start
        };
        lines.iter().filter(of).map(requests).fold(0.0, f64::max)
    };
    // Opening a catalog takes requests that a process makes once.
    assert!(describes("warm") < 2.0 && describes("cold") > 3.0, "{} {}", describes("warm"), describes("cold"));
}

#[test]
fn a_table_is_for_people_and_so_is_the_report() {
    let folder = tempfile::tempdir().unwrap();
    let load =
        ["--rows", "10,20", "--writers", "1,2", "--duration", "100ms", "--out", "here", "--profile", "s3-express"];
    let output = glidepath(&folder, &[&["bench", &url(&folder), "--warm-up", "0s"], &load[..]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("rate/s") && text.contains("In here:"), "{text}");
    let read = |name: &str| std::fs::read_to_string(folder.path().join("here").join(name)).unwrap();
    let (html, markdown) = (read("report.html"), read("report.md"));
    assert_eq!(html.matches("<svg").count(), 2);
    assert!(markdown.contains("| manifest-chain | 20 | 2 |") && markdown.contains("Prediction error"), "{markdown}");
    let lines: Vec<serde_json::Value> = serde_json::from_str(&read("results.json")).unwrap();
    assert_eq!(lines.len(), 4);
}

#[test]
fn results_of_another_store_stay() {
    let folder = tempfile::tempdir().unwrap();
    let load = ["--rows", "10", "--writers", "1", "--duration", "100ms", "--warm-up", "0s", "--out", "here"];
    let run = |store: &str| {
        let output = glidepath(&folder, &[&["bench", store], &load[..]].concat());
        let words = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap()).concat();
        (output.status.code(), words)
    };
    let (code, words) = run("memory:");
    assert!(code == Some(0) && words.contains("CPU ms") && !words.contains("predicted"), "{words}");
    assert_eq!(run("memory:").0, Some(0));
    let (code, words) = run(&url(&folder));
    assert_eq!(code, Some(2), "{words}");
    assert!(words.contains("here holds the results of `glidepath bench memory:`"), "{words}");
}

#[test]
fn mistakes_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let url = url(&folder);
    let cells = format!("kv+{url}");
    let cases: [(&[&str], &str); 21] = [
        (&["bench", &url, "--writers", "0"], "--writers"),
        (&["bench", &url, "--writers", "9999"], "2048"),
        (&["bench", &url, "--duration", "5"], "unit"),
        (&["bench", &url, "--trials", "0"], "from 1 to 1000"),
        (&["bench", &url, "--rows", "1k"], "1000,100000"),
        (&["bench", &url, "--rows", "1,000"], "found 000; write 1000 without a comma"),
        (&["bench", &url, "--writers", "1-16"], "whole numbers"),
        (&["bench", &url, "--rows", "0", "--operation", "list"], "reads need at least one entry"),
        (&["bench", &url, "--protocol", "two-phase"], "append-log"),
        (&["bench", &url, "--operation", "drop"], "describe"),
        (&["bench", &url, "--layout", "flat"], "whole"),
        (&["bench", &url, "--start", "hot"], "cold"),
        (&["bench", &url, "--group", "yes"], "off"),
        (&["bench", "memory:", "--processes"], "memory:"),
        (&["bench", "Memory:", "--processes"], "memory:"),
        (&["bench", &cells, "--processes"], "one process at a time may open a store of the kind kv+file"),
        (&["bench", "kv+memory:", "--processes"], "kv+memory: exists in one process only: leave --processes out"),
        (&["bench", &url, "--least", "18446744073709551615"], "a whole number from 0 to 1000000"),
        (&["bench", "GS://bucket?endpoint=http://127.0.0.1:9"], "--yes"),
        (&["bench", "ftp://host/x"], "file:///directory"),
        (&["bench", &url, "--profile", "nowhere"], "nowhere"),
    ];
    for (arguments, word) in cases {
        let output = glidepath(&folder, arguments);
        let words = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {words}");
        assert!(words.contains(word), "{arguments:?}: {words}");
    }
    assert!(!folder.path().join("results").exists() && !folder.path().join("store").exists());
}
