//! Tests of `glidepath simulate` with right and wrong arguments.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::path::Path;

use common::{glidepath, output, refused};

/// A small experiment: two points of two simulated minutes each.
const SMALL: &str = "\
title = \"Small\"
seeds = 2
duration = \"120s\"
[transaction]
runtime = { scale = \"5s\" }
[sweep]
\"arrivals.scale\" = [\"500ms\", \"250ms\"]
";

fn write(folder: &Path, text: &str) {
    fs::write(folder.join("mine.toml"), text).unwrap();
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap()
}

#[test]
fn one_load_prints_a_table_and_writes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let load = "simulate --duration 120s --inter-arrival 200ms --fast-append 0.8 --set transaction.runtime.scale=5s";
    let text = output(glidepath(folder.path(), load));
    let heading = "Preset iceberg, one table on s3-standard, the catalog an object there, 80 % fast appends, an arrival \
                   every 200ms on average, protocol catalog-file, with transaction.runtime.scale = 5s, means over 5 seeds";
    for expected in [heading, "success %", "P99 s", "validated overwrites"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert_eq!(output(glidepath(folder.path(), &load.replace("--inter-arrival 200ms", "--rate 5"))), text);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    // With a folder, it can be typed again.
    output(glidepath(folder.path(), "simulate --duration 60s --seeds 1 --set retry.table=immediate --out one"));
    let made_by = read(folder.path().join("one/made-by.txt"));
    assert_eq!(made_by, "glidepath simulate --duration 60s --set retry.table=immediate\n");
}

/// Intervals do not cover the bias of a run that had not settled, so there is a warning. Percentiles with few latencies
/// above them are not printed.
#[test]
fn what_a_run_cannot_tell_is_not_printed_as_if() {
    let folder = tempfile::tempdir().unwrap();
    let json = |load: &str| -> serde_json::Value {
        serde_json::from_str(&output(glidepath(folder.path(), &format!("simulate --seeds 1 --json {load}")))).unwrap()
    };
    let long = json("--inter-arrival 5s --set transaction.runtime.scale=2h");
    assert!(long["warning"].as_str().unwrap().contains("had not settled"), "{long}");
    let usual = json("--inter-arrival 60s");
    assert!(
        usual["warning"].is_null() && usual["latency_p99_s"].is_null() && usual["latency_p95_s"].is_null(),
        "{usual}"
    );
    assert!(usual["latency_p50_s"].is_f64(), "{usual}");
    let published = json("--preset published-2026-06 --inter-arrival 60s");
    assert!(published["warning"].is_null() && published["latency_p99_s"].is_f64(), "{published}");
    let nobody = json("--inter-arrival 100h");
    assert!(nobody["throughput_interval_commits_per_s"].is_null(), "{nobody}");
}

#[test]
fn each_field_of_the_json_is_on_the_page_about_the_model() {
    let folder = tempfile::tempdir().unwrap();
    let page = read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/model.md"));
    let quick = "simulate --provider s3-express --duration 5min --seeds 1 --fast-append 0.8 --json";
    let one: serde_json::Value = serde_json::from_str(&output(glidepath(folder.path(), quick))).unwrap();
    let several = output(glidepath(folder.path(), &format!("{quick} --tables 1,2")));
    let several: serde_json::Value = serde_json::from_str(&several).unwrap();
    for object in [&one, &one["fast_append"], &several, &several["points"][0]] {
        for field in object.as_object().unwrap().keys() {
            assert!(page.contains(&format!("`{field}`")), "{field} is not in docs/model.md");
        }
    }
}

#[test]
fn one_load_as_json_has_units_in_its_names() {
    let folder = tempfile::tempdir().unwrap();
    // The run has enough transactions for the 99th percentile.
    let load = "simulate --provider s3-express --duration 40min --fast-append 0.8 --tables 3 --catalog-latency 1ms \
                --json --set transaction.runtime.scale=5s --seeds 2";
    let json: serde_json::Value = serde_json::from_str(&output(glidepath(folder.path(), load))).unwrap();
    let fields = ["success_ratio", "throughput_commits_per_s", "latency_mean_s", "latency_p50_s", "latency_p95_s"];
    for group in [&json, &json["fast_append"], &json["validated_overwrite"]] {
        for field in fields.iter().chain(&["latency_p99_s", "retries_mean"]) {
            assert!(group[field].is_f64(), "{field}: {group}");
        }
    }
    assert_eq!((&json["provider"], &json["seeds"]), (&"s3-express".into(), &2.into()));
}

#[test]
fn a_heading_names_what_all_loads_have_in_common() {
    let folder = tempfile::tempdir().unwrap();
    let heading = |more: &str| {
        let load = format!("simulate --duration 120s --inter-arrival 5s --seeds 1 {more}");
        output(glidepath(folder.path(), &load))
    };
    let text = heading("--tables 1,2 --provider s3-express");
    let expected = "tables on s3-express, the catalog an object there, 100 % fast appends, an arrival every 5s on";
    assert!(text.contains(expected) && !text.contains("one table"), "{text}");
    let text = heading("--provider s3-express,s3-standard");
    let expected = "Preset iceberg, one table, the catalog an object in the provider's store, 100 % fast appends";
    assert!(text.contains(expected), "{text}");
    let text = heading("--provider s3-express,s3-standard --tables 1,2");
    assert!(text.contains("Preset iceberg, the catalog an object in the provider's store, "), "{text}");
}

/// Of what is on a command line, or in README, and is no field here.
#[test]
fn an_unknown_field_is_answered_with_the_one_that_was_meant() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("protocol = \"tickets\"\n", "protocol: found this unknown field (did you mean \"catalog.protocol\"?)"),
        ("[sweep]\nprotocol = [\"tickets\"]\n", "unknown field \"protocol\" (did you mean \"catalog.protocol\"?)"),
        ("threshold = 0.9\n", "(--threshold is an option of a search for knees, not a field)"),
        (
            "[sweep]\n\"arrivals.scale\" = [\"50ms\", \"0.05s\"]\n",
            "arrivals.scale: found \"50ms\" and \"0.05s\", which are equal; allowed: each value once",
        ),
    ];
    for (text, expected) in cases {
        write(folder.path(), text);
        for command in ["simulate", "knees"] {
            let error = refused(glidepath(folder.path(), &format!("{command} mine.toml")), 2);
            assert!(error.contains(expected), "{command}: {text}: {error}");
        }
    }
}

#[test]
fn the_protocol_has_an_option_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let load = "simulate --duration 120s --inter-arrival 5s --seeds 1";
    let of = |more: &str| glidepath(folder.path(), &format!("{load} {more}"));
    let text = output(of("--protocol manifest-chain"));
    assert!(text.contains("protocol manifest-chain"), "{text}");
    assert_eq!(text, output(of("--set catalog.protocol=manifest-chain")));
    let both = output(of("--protocol manifest-chain,catalog-file"));
    assert!(both.contains("catalog.protocol") && both.contains("catalog-file"), "{both}");
    let error = refused(of("--protocol catalog-fil"), 2);
    assert!(error.contains("catalog-file, manifest-chain, append-log"), "{error}");
    let error = refused(of("--protocol append-log"), 2);
    assert!(error.contains("--protocol append-log") && error.contains("cannot append"), "{error}");
}

/// An option and --set of the same field are a mistake, whichever comes last.
#[test]
fn a_field_is_set_once() {
    let folder = tempfile::tempdir().unwrap();
    for (option, set) in [
        ("--protocol manifest-chain", "catalog.protocol=catalog-file"),
        ("--tables 2", "tables.count=3"),
        ("--tables 2", "tables={count=3}"),
        ("--provider gcs", "provider=s3-express"),
    ] {
        for order in [format!("{option} --set {set}"), format!("--set {set} {option}")] {
            let error = refused(glidepath(folder.path(), &format!("simulate {order}")), 2);
            let said = format!("{option} and --set {set} set the same field: give one of them");
            assert!(error.contains(&said), "{order}: {error}");
        }
    }
}

#[test]
fn an_error_names_the_option_that_was_given() {
    let folder = tempfile::tempdir().unwrap();
    for command in ["simulate", "knee"] {
        let error = refused(glidepath(folder.path(), &format!("{command} --profile no/profile.toml")), 2);
        assert!(error.contains("--profile no/profile.toml") && !error.contains("--provider"), "{error}");
        let error = refused(glidepath(folder.path(), &format!("{command} --provider s3-expres")), 2);
        assert!(error.contains("--provider s3-expres") && error.contains("s3-express"), "{error}");
    }
}

#[test]
fn an_experiment_fills_its_folder_and_finds_everything_done_the_second_time() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), SMALL);
    let text = output(glidepath(folder.path(), "simulate mine.toml --transactions"));
    assert!(text.contains("Small") && text.contains("250ms") && text.contains("4 runs"), "{text}");
    let results = folder.path().join("results/mine");
    let parquet = fs::read(results.join("results.parquet")).unwrap();
    assert_eq!(fs::read_dir(results.join("transactions")).unwrap().count(), 4);
    assert!(read(results.join("table.txt")).contains("500ms"));
    assert!(read(results.join("report.html")).contains("Small"));
    assert!(fs::read_dir(results.join("pictures")).unwrap().count() > 0);
    let journal = read(results.join("points.jsonl"));
    assert_eq!(journal.lines().count(), 4);
    output(glidepath(folder.path(), "simulate mine.toml --threads 1"));
    assert_eq!(read(results.join("points.jsonl")), journal);
    assert!(fs::read(results.join("results.parquet")).unwrap() == parquet);
}

#[test]
fn a_quick_run_says_that_it_is_coarse_and_goes_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let text =
        output(glidepath(folder.path(), "simulate 1a --quick --duration 120s --set transaction.runtime.scale=5s"));
    assert!(text.contains("Coarse (--quick): 5 of 10 points, one seed."), "{text}");
    assert!(folder.path().join("results/1a-quick/results.parquet").exists());
    assert!(!folder.path().join("results/1a").exists());
}

#[test]
fn many_points_are_summed_up_by_their_knees() {
    let folder = tempfile::tempdir().unwrap();
    let many = SMALL.replace(
        "[sweep]",
        "[sweep]\n\"tables.count\" = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\nprovider = \
                                         [\"gcs\", \"s3-express\", \"s3-standard\", \"azure-premium\"]",
    );
    write(folder.path(), &many);
    let text = output(glidepath(folder.path(), "simulate mine.toml --seeds 1 --out here"));
    assert!(text.contains("more than 95 % succeed") && text.contains("All 80 points are in table.txt"), "{text}");
    assert!(read(folder.path().join("here/table.txt")).lines().count() > 80);
    // Another experiment must not use this folder.
    fs::copy(folder.path().join("mine.toml"), folder.path().join("other.toml")).unwrap();
    let before = read(folder.path().join("here/points.jsonl"));
    let others = ["simulate other.toml", "simulate mine.toml --provider gcs --seeds 1", "knees mine.toml --budget 1s"];
    for command in others.map(|command| format!("{command} --out here")) {
        let error = refused(glidepath(folder.path(), &command), 2);
        assert!(error.contains("here holds the results of `glidepath simulate mine.toml`"), "{error}");
    }
    assert_eq!(read(folder.path().join("here/points.jsonl")), before);
}

#[test]
fn mistakes_are_answered_with_file_field_found_and_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        (
            "[arrivals]\nscal = \"1s\"\n",
            "mine.toml: arrivals.scal: found unknown field \"scal\" (did you mean \"scale\"?)",
        ),
        ("[arrivals]\nscale = 35\n", "mine.toml: arrivals.scale: found integer \"35\"; allowed: a span of time"),
        (
            "[tables]\nmanifest_list = \"append\"\n",
            "mine.toml: tables.manifest_list: found \"append\"; allowed: \"rewrite\"",
        ),
        ("provider = \"s3-standart\"\n", "mine.toml: provider: there is no provider \"s3-standart\" (did you mean"),
        ("preset = \"nowhere/to/be.toml\"\n", "nowhere/to/be.toml: cannot read this preset"),
        ("seeds = \n", "TOML parse error at line 1"),
    ];
    for (text, expected) in cases {
        write(folder.path(), text);
        let error = refused(glidepath(folder.path(), "simulate mine.toml"), 2);
        assert!(error.contains(expected), "{text}: {error}");
    }
    assert!(!folder.path().join("results").exists(), "nothing may be written before the plan is good");
}

#[test]
fn a_run_in_which_nobody_arrives_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let text = output(glidepath(folder.path(), "simulate --inter-arrival 100h --duration 1min"));
    assert!(text.contains("No transaction arrived in the window") && text.contains("--inter-arrival"), "{text}");
}

#[test]
fn mistakes_on_the_command_line_are_answered_so_too() {
    let folder = tempfile::tempdir().unwrap();
    let cases = [
        ("simulate 4d", "there is no experiment \"4d\""),
        ("simulate my.tml", "There is no file of this name either; name one by its path, such as ./my.toml"),
        ("simulate no-such.toml", "no-such.toml: cannot read this experiment"),
        ("simulate --rate 0", "--rate: found \"0\"; allowed: arrivals per second, 0.000001 to 1000000, such as 50"),
        ("simulate --rate 5,50ms", "--rate: found \"50ms\"; allowed: arrivals per second"),
        ("simulate --rate 5 --inter-arrival 1s", "cannot be used with"),
        ("simulate --rate 5 --set arrivals.scale=1s", "--rate 5 and --set arrivals.scale=1s set the same field"),
        (
            "simulate --rate 5 --preset published-2026-06",
            "--rate 5: arrivals of the preset \"published-2026-06\" are given",
        ),
        ("knee --rate 5", "the search varies this value itself"),
        ("simulate --inter-arrival 20", "--inter-arrival 20: arrivals.scale: \"20\" is not a span of time"),
        ("simulate --tables many", "--tables many: tables.count: found string \"many\"; allowed: a whole number"),
        (
            "simulate --fast-append 1.5",
            "--fast-append 1.5: transaction.fast_append: found 1.5; allowed: 0 to 1, such as 0.9 or 90%",
        ),
        ("simulate --provider aws", "--provider aws: provider: there is no provider \"aws\""),
        ("simulate --preset icebreg", "did you mean \"iceberg\"?"),
        ("simulate --set retry.retires=3", "did you mean \"retries\"?"),
        ("simulate --set retries", "allowed: key=value"),
        ("simulate --duration 0s", "--duration 0s: duration: found 0ns; allowed: 1s to"),
        ("simulate --inter-arrival 1ns", "at most 20000000 arrivals"),
        ("simulate --inter-arrival 1us --duration 10s", "at most 2000000, which are the arrivals of"),
        ("simulate --seeds 0", "allowed: a whole number from 1 on"),
        ("simulate --threads 0", "allowed: a whole number from 1 to 4096"),
        ("simulate --threads 4097", "allowed: a whole number from 1 to 4096"),
        ("simulate --tables -1", "allowed: a whole number from 1 to 100000"),
        ("simulate --tables 1e9", "allowed: a whole number from 1 to 100000"),
        ("simulate --tables 0", "allowed: 1 to 100000"),
        ("simulate --fast-append 1,1.0", "found \"1\" and \"1.0\", which are equal"),
        ("simulate --tables 99999999999999999999", "found 99999999999999999999; allowed: a whole number from 1 to"),
        ("simulate --inter-arrival 1000000000000h", "is too large for a span of time: at most 5124095h"),
        ("simulate --set retry.catalog=exponential", "allowed: the name with its fields"),
        ("simulate --provider s3", "did you mean \"s3-express\" or \"s3-standard\""),
        ("simulate --transactions", "add --out FOLDER"),
        ("simulat 1a", "a similar subcommand exists: 'simulate'"),
    ];
    for (arguments, expected) in cases {
        let error = refused(glidepath(folder.path(), arguments), 2);
        assert!(error.contains(expected), "{arguments}: {error}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_to_is_named() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), SMALL);
    fs::write(folder.path().join("results"), "a file, and no folder").unwrap();
    let error = refused(glidepath(folder.path(), "simulate mine.toml"), 1);
    assert!(error.contains("results/mine: cannot create this folder"), "{error}");
}

#[test]
fn a_damaged_journal_is_repaired_or_refused() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), SMALL);
    output(glidepath(folder.path(), "simulate mine.toml"));
    let journal = folder.path().join("results/mine/points.jsonl");
    let whole = read(&journal);
    fs::write(&journal, &whole[..whole.len() - 100]).unwrap();
    output(glidepath(folder.path(), "simulate mine.toml"));
    let sorted = |text: &str| {
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&read(&journal)), sorted(&whole));
    fs::write(&journal, format!("{whole}something else\n")).unwrap();
    let error = refused(glidepath(folder.path(), "simulate mine.toml"), 1);
    assert!(error.contains("points.jsonl, line 5: found no finished run"), "{error}");
}

#[test]
fn a_window_that_does_not_hold_whole_bursts_is_told_of() {
    let folder = tempfile::tempdir().unwrap();
    let simulate = |duration: &str, every: &str, more: &str| {
        let burst = format!("arrivals.burst={{every=\"{every}\",lasts=\"1s\",factor=5.0}}");
        let arguments = format!("simulate --seeds 1 --inter-arrival 2s --duration {duration} --set {burst} {more}");
        glidepath(folder.path(), &arguments)
    };
    let words = "does not hold a whole number of bursts";
    assert!(output(simulate("10min", "1h", "")).contains(words));
    assert!(output(simulate("10min", "4min", "--json")).contains(words));
    let whole = output(simulate("16min", "4min", ""));
    assert!(!whole.contains(words) && whole.contains("success in bursts %"), "{whole}");
    assert!(!output(glidepath(folder.path(), "simulate --seeds 1 --duration 1min")).contains("in bursts"));
    // Each burst takes time, with or without arrivals.
    assert!(refused(simulate("10min", "999ms", ""), 2).contains("allowed: 1s or more"));
}

#[cfg(unix)]
#[test]
fn an_interrupted_run_says_how_to_continue_and_does() {
    use std::io::Read;
    use std::process::{Command, Stdio};

    let folder = tempfile::tempdir().unwrap();
    // Many small runs: some will be done, and not all, when the signal comes.
    write(folder.path(), &SMALL.replace("seeds = 2", "seeds = 2000"));
    let mut command = Command::new(assert_cmd::cargo::cargo_bin!("glidepath"));
    command.args(["simulate", "mine.toml"]).current_dir(folder.path());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let journal = folder.path().join("results/mine/points.jsonl");
    while fs::read_to_string(&journal).is_ok_and(|text| text.is_empty()) || !journal.exists() {
        #[expect(clippy::disallowed_methods, reason = "polls another process")]
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let mut error = String::new();
    child.stderr.take().unwrap().read_to_string(&mut error).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{error}");
    assert!(error.contains("give the same command again:\n  glidepath simulate mine.toml"), "{error}");
    let done = read(&journal);
    assert!(!done.is_empty());
    // The same with fewer seeds: finished runs are reused.
    output(glidepath(folder.path(), "simulate mine.toml --seeds 3"));
    assert!(read(&journal).starts_with(&done));
}
