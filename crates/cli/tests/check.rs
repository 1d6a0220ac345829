//! Tests of `glidepath check` with right and wrong arguments.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;

use common::{glidepath, output, refused};

const MINE: &str = "\
title = \"Mine\"
[writers]
count = 3
commits = 4
tables = 2
pause = \"100ms\"
round_trip = \"20ms\"
[faults]
answer_lost = 0.2
timeout = \"1s\"
";

#[test]
fn one_run_is_told_of_in_the_singular() {
    let folder = tempfile::tempdir().unwrap();
    let text = output(glidepath(folder.path(), "check manifest-chain --scenario storm --seeds 1"));
    assert!(text.contains("The one run held. Open: "), "{text}");
    let text = output(glidepath(folder.path(), "check catalog-file --scenario storm --seeds 2"));
    assert!(text.contains("All 2 runs held. Open: "), "{text}");
}

#[test]
fn every_protocol_in_every_scenario_is_a_line() {
    let folder = tempfile::tempdir().unwrap();
    let text = output(glidepath(folder.path(), "check all --seeds 3"));
    for protocol in ["catalog-file", "manifest-chain", "manifest-chain-whole", "append-log", "tickets", "transactions"]
    {
        for scenario in
            ["storm", "denied", "repeats", "deaths", "sleepers", "clocks", "listings", "crowd", "everything"]
        {
            let line = text.lines().find(|line| line.contains(protocol) && line.contains(scenario));
            assert!(line.is_some_and(|line| line.ends_with("yes")), "{protocol} {scenario}: {text}");
        }
    }
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_same_seeds_come_to_the_same_on_one_thread_or_two() {
    let folder = tempfile::tempdir().unwrap();
    let counts = |arguments: &str| {
        let lines: serde_json::Value = serde_json::from_str(&output(glidepath(folder.path(), arguments))).unwrap();
        let line = lines[0].clone();
        ["seeds", "attempts", "commits", "open", "faults"].map(|field| line[field].as_u64().unwrap())
    };
    let one = counts("check append-log --scenario storm --seeds 20 --first-seed 7 --threads 1 --json");
    assert_eq!(one, counts("check append-log --scenario storm --seeds 20 --first-seed 7 --threads 2 --json"));
    assert_eq!(one[0], 20);
    assert!(one[2] > 0 && one[4] > 0, "{one:?}");
}

#[test]
fn a_trace_tells_what_went_wrong_and_what_each_was_told() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("mine.toml"), MINE).unwrap();
    let text = output(glidepath(folder.path(), "check catalog-file --scenario mine.toml --seed 3 --trace"));
    for expected in ["process 2 has loaded version", "tries commit", "gets the answer to commit", ": answer lost"] {
        assert!(text.contains(expected), "{expected}: {text}");
    }
    let requests = output(glidepath(folder.path(), "check catalog-file --scenario mine.toml --seed 4 --trace"));
    for expected in ["asks for request", "gets the answer to request"] {
        assert!(requests.contains(expected), "{expected}: {requests}");
    }
    let transactions = output(glidepath(folder.path(), "check transactions --scenario repeats --seed 6 --trace"));
    for expected in
        ["is to end transaction", "makes a backup at", "has restored", ": delivered twice", "This run holds"]
    {
        assert!(transactions.contains(expected), "{expected}: {transactions}");
    }
    let smaller = "check catalog-file --scenario mine.toml --seed 3 --trace --writers 1 --commits 1";
    let smaller = output(glidepath(folder.path(), smaller));
    assert!(smaller.lines().count() < text.lines().count() && !smaller.contains("process 1 "), "{smaller}");
}

/// Clocks that stop while machines sleep make the manifest chain unsafe.
#[test]
fn a_failure_comes_with_the_command_that_shows_it_again() {
    let folder = tempfile::tempdir().unwrap();
    let text = "\
title = \"Clocks that stop\"
[writers]
count = 5
commits = 30
tables = 3
pause = \"60s\"
round_trip = \"20ms\"
vacuum_every = \"150s\"
[faults]
suspended = 0.01
answer_lost = 0.02
timeout = \"5s\"
lateness = \"2h\"
clocks_stop = true
";
    fs::write(folder.path().join("clocks.toml"), text).unwrap();
    let failed = glidepath(folder.path(), "check manifest-chain --scenario clocks.toml --seeds 500");
    let text = String::from_utf8(failed.stdout.clone()).unwrap();
    assert_eq!(refused(failed, 1), "error: 1 of 1 cases (a protocol in a scenario) did not hold\n");
    let replay = text.lines().find_map(|line| line.strip_prefix("replay: glidepath ")).unwrap();
    assert!(replay.contains("--scenario clocks.toml --seed ") && replay.ends_with(" --trace"), "{replay}");
    let again = glidepath(folder.path(), replay);
    assert!(String::from_utf8_lossy(&again.stdout).contains("gets the answer to "), "{text}");
    let violation = refused(again, 1).trim_start_matches("error: ").to_owned();
    assert!(text.contains(&violation), "{text}\n{violation}");
}

#[test]
fn mistakes_are_answered_in_one_message() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    write("field.toml", &MINE.replace("count = 3", "count = 3\ncuont = 4"));
    write("share.toml", &MINE.replace("0.2", "1.2"));
    write("zero.toml", &MINE.replace("tables = 2", "tables = 0"));
    write("time.toml", &MINE.replace("\"1s\"", "1"));
    let (writers, _) = MINE.split_once("[faults]").unwrap();
    write("disk.toml", &format!("{writers}[disk]\nio_error = 0.1\n"));
    write("call.toml", &format!("{writers}[disk.faults]\nio_eror = 0.1\n"));
    write("full.toml", &format!("{writers}[disk.faults]\nfull = 2\n"));
    let cases = [
        ("check nosuch", "possible values: catalog-file, manifest-chain, manifest-chain-whole, append-log"),
        ("check all --scenario strom", "there is no scenario \"strom\"; known: storm,"),
        ("check all --scenario no/such.toml", "no/such.toml: cannot read this scenario"),
        ("check all --scenario field.toml", "unknown field `cuont`"),
        ("check all --scenario share.toml", "share.toml: faults.answer_lost is 1.2: a share from 0 to 1"),
        ("check all --scenario zero.toml", "zero.toml: writers.tables is 0"),
        ("check all --scenario time.toml", "time.toml: TOML parse error"),
        ("check all --scenario disk.toml", "unknown field `io_error`, expected one of `cuts`, `calls`, `faults`"),
        ("check all --scenario call.toml", "unknown field `io_eror`, expected one of `io_error`, `failed_sync`,"),
        ("check all --scenario full.toml", "full.toml: disk.faults.full is 2: a share from 0 to 1"),
        ("check all --scenario storm --writers 0", "a whole number from 1"),
        ("check transactions --scenario disk.toml", "unknown field"),
        ("check transactions --scenario power", "catalogs: on a disk, in cells, or beside"),
        ("check transactions --scenario rows,disk", "give another scenario"),
        ("check append-log --scenario rows", "cannot be appended to"),
        ("check all --seeds 0", "a whole number from 1"),
        ("check all --seed 1 --trace", "give one protocol"),
        ("check tickets --seed 1 --trace", "give one scenario with --scenario: storm, "),
        ("check all --trace", "--seed"),
        ("check", "PROTOCOL"),
    ];
    for (arguments, expected) in cases {
        let error = refused(glidepath(folder.path(), arguments), 2);
        assert!(error.contains(expected), "{arguments}: {error}");
    }
}
