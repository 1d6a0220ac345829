//! Tests of the commands about servers on the command line: `glidepath serve`, `bench-server`, `bench-start`.

#![cfg(feature = "serve")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;
#[path = "common/serving.rs"]
mod serving;

use std::process::{Command, Stdio};

use common::{glidepath, output, refused};
use serde_json::Value;
use serving::Server;

fn on(folder: &tempfile::TempDir) -> Server {
    logging(folder, "error", Stdio::inherit())
}

fn logging(folder: &tempfile::TempDir, level: &str, to: Stdio) -> Server {
    let store = format!("file://{}/store?durability=none", folder.path().display());
    Server::start(&store, &format!("file://{}/tables", folder.path().display()), level, to)
}

#[test]
fn every_workload_is_measured_checked_and_removed() {
    let folder = tempfile::tempdir().unwrap();
    let server = on(&folder);
    let process = server.process.id();
    let arguments = format!(
        "bench-server {} --workload own,hot,load,load-304,fair --connections 1,3 --duration 300ms --warm-up 0ms --json --processes {process}",
        server.url
    );
    let lines: Vec<Value> = serde_json::from_str(&output(glidepath(folder.path(), &arguments))).unwrap();
    assert_eq!(lines.len(), 10);
    for line in &lines {
        let (workload, figures) = (line["cell"]["workload"].as_str().unwrap(), &line["figures"]);
        assert!(figures["operations"].as_u64().unwrap() > 0, "{line}");
        assert_eq!((&figures["unknown"], &figures["busy"]), (&0.into(), &0.into()), "{line}");
        if workload == "hot" {
            assert_eq!(figures["conflicts"], 0, "an append conflicted: {line}");
        }
        assert_eq!(line["checked"].is_null(), workload.starts_with("load"), "{line}");
        if let Some(checked) = line["checked"].as_object() {
            assert!(checked["acknowledged"].as_u64().unwrap() > 0, "{line}");
            for wrong in ["lost", "twice", "refused_there"] {
                assert_eq!(checked[wrong], 0, "{line}");
            }
        }
        assert_eq!(line["overwrites"].is_null(), workload != "fair", "{line}");
        let unchanged = if workload == "load-304" { figures["operations"].clone() } else { 0.into() };
        assert_eq!(line["not_modified"], unchanged, "{line}");
    }
    for file in ["report.html", "report.md", "results.json"] {
        assert!(folder.path().join("results/bench-server").join(file).exists(), "{file}");
    }
    // Nothing is left on the server.
    let store = format!("file://{}/store?durability=none", folder.path().display());
    let listed = output(glidepath(folder.path(), &format!("catalog list {store}")));
    assert!(!listed.contains("bench_"), "{listed}");
}

/// The disk of the log is full, or its terminal was closed: lines are lost, and requests are answered.
#[cfg(target_os = "linux")]
#[test]
fn a_server_whose_log_cannot_be_written_answers() {
    let folder = tempfile::tempdir().unwrap();
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let mut server = logging(&folder, "info", full.into());
    let listed = server.asked("GET", "/v1/namespaces", "");
    assert!(listed.starts_with("HTTP/1.1 200") && listed.contains("namespaces"), "{listed}");
    assert!(Command::new("kill").arg(server.process.id().to_string()).status().unwrap().success());
    assert_eq!(server.process.wait().unwrap().code(), Some(0));
}

/// Whoever has read that it serves may end it.
#[cfg(unix)]
#[test]
fn a_server_that_has_just_started_is_ended_in_order() {
    let folder = tempfile::tempdir().unwrap();
    for _ in 0..10 {
        let mut server = on(&folder);
        assert!(Command::new("kill").arg(server.process.id().to_string()).status().unwrap().success());
        assert_eq!(server.process.wait().unwrap().code(), Some(0));
    }
}

#[test]
fn the_cost_of_the_clients_is_measured_without_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = "bench-server responder: --workload own,load,load-304 --connections 2 --threads 2 --duration 100ms --warm-up 0ms";
    let told = output(glidepath(folder.path(), arguments));
    assert!(told.contains("load-304") && told.contains("client us"), "{told}");
}

#[test]
fn mistakes_are_told() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, words) in [
        ("https://127.0.0.1:1", "TLS"),
        ("127.0.0.1:8181", "http://HOST:PORT"),
        ("responder: --workload hot", "has no tables; allowed: own, load, load-304"),
        ("http://127.0.0.1:1 --duration 0ms", "--duration 0"),
        ("http://127.0.0.1:1 --connections 0", "a whole number from 1"),
        ("http://127.0.0.1:1 --connections 20000", "at most 10000"),
        ("http://127.0.0.1:1 --costs costs.toml", "--profile <PROFILE>"),
        ("http://127.0.0.1:1 --pause 10ms", "--profile <PROFILE>"),
        ("http://127.0.0.1:1 --workload cold", "possible values: own, hot, load, load-304, fair"),
        ("http://127.0.0.1:1 --processes 4294967295", "one of them is not there"),
    ] {
        let error = refused(glidepath(folder.path(), &format!("bench-server {arguments}")), 2);
        assert!(error.contains(words), "{arguments}: {error}");
    }
    // Nobody listens on this port: only root may, and no service has it.
    let error = refused(glidepath(folder.path(), "bench-server http://127.0.0.1:1"), 1);
    assert!(error.contains("cannot be reached"), "{error}");
    assert!(!folder.path().join("results").exists());
    let error = refused(glidepath(folder.path(), "bench-start memory:"), 2);
    assert!(error.contains("one process only"), "{error}");
}

#[test]
fn a_mistake_is_told_before_what_the_folder_has() {
    let folder = tempfile::tempdir().unwrap();
    let simulated = "simulated: --profile s3-express --workload own --connections 2 --duration 1s --out m";
    let told = output(glidepath(folder.path(), &format!("bench-server {simulated}")));
    let row =
        told.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).find(|row| row.first() == Some(&"own"));
    // Nothing measures the processor time of simulated clients and servers.
    assert_eq!(row.unwrap()[9..11], ["-", "-"], "{told}");
    for (arguments, words) in [
        ("http://127.0.0.1:1 --profile nope", "there is no provider \"nope\""),
        ("simulated:", "needs --profile"),
        ("https://127.0.0.1:1", "TLS"),
    ] {
        let error = refused(glidepath(folder.path(), &format!("bench-server {arguments} --out m")), 2);
        assert!(error.contains(words) && !error.contains("holds the results of"), "{arguments}: {error}");
    }
    let asked = "bench-server http://127.0.0.1:1 --connections 2 --out m";
    let error = refused(glidepath(folder.path(), asked), 2);
    assert!(error.contains(&format!("simulated:`, and this command is `glidepath {asked}`")), "{error}");
}

#[test]
fn a_start_is_timed_on_a_catalog_of_tables() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = format!("bench-start file://{}/store --tables 1500 --starts 2 --json", folder.path().display());
    let told: Value = serde_json::from_str(&output(glidepath(folder.path(), &arguments))).unwrap();
    assert_eq!(told["starts"].as_array().unwrap().len(), 2);
    for start in told["starts"].as_array().unwrap() {
        assert!(
            start["config_ms"].as_f64().unwrap() > 0.0 && start["table_ms"].as_f64() >= start["config_ms"].as_f64()
        );
    }
    let error = refused(glidepath(folder.path(), &arguments), 1);
    assert!(error.contains("there is a catalog already"), "{error}");
}

#[test]
fn what_a_server_is_given_wrong_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("file://{}/store", folder.path().display());
    for (arguments, words) in [
        ("--listen 8181", "allowed: ADDRESS:PORT in digits, such as 127.0.0.1:8181"),
        ("--listen lake.example.org:8181", "allowed: ADDRESS:PORT in digits"),
        ("--listen localhost", "or localhost:PORT"),
        ("--listen 127.0.0.1:99999", "the port is 0 (any that is free) to 65535"),
        ("--request-timeout 61min", "allowed: 1s to 3600s"),
        ("--request-timeout x", "write a number and a unit"),
        ("--port 8181", "'--listen <ADDRESS:PORT>': allowed: ADDRESS:PORT"),
        ("--most-body 64MB", "for 1024 KiB write 1MiB; allowed: 1MiB to 1024MiB"),
        ("--most-body 33MiB", "--all-bodies 32MiB is less than --most-body 33MiB"),
        ("--overwrite-priority 61s", "allowed: 0ms to 60s"),
        ("--idle-timeout 60", "write a number and a unit"),
        ("--most-requests 0", "a whole number from 1 to 1000000"),
        ("--sts-duration 3600s", "--sts <aws|URL>"),
    ] {
        let error = refused(glidepath(folder.path(), &format!("serve {store} {arguments}")), 2);
        assert!(error.contains(words), "{arguments}: {error}");
    }
    // Said of the store that was given, not of the folder for tables that is made of it.
    let error = refused(glidepath(folder.path(), "serve /tmp/x"), 2);
    assert!(error.contains("file:///tmp/x") && !error.contains("/tables"), "{error}");
}

#[test]
fn a_server_that_does_not_start_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let store = format!("file://{}/store", folder.path().display());
    for (arguments, code, words) in [
        (format!("--listen localhost:{port}"), 1, "error: --listen: cannot listen on"),
        (format!("--listen localhost:{port}"), 1, "another process listens there: stop it, or name another port"),
        ("--listen 192.0.2.1:0 --access none.toml --plain-http".to_owned(), 2, "none.toml"),
        ("--sts aws".to_owned(), 2, "has no token service"),
        (
            "--listen 127.0.0.1:1 --operations-listen localhost:1".to_owned(),
            2,
            "is the address of --listen 127.0.0.1:1",
        ),
        ("--listen 127.0.0.1:1 --operations-listen 0.0.0.0:1".to_owned(), 2, "leave --operations-listen out"),
        ("--warehouse kv+file:///x".to_owned(), 2, "give the warehouse a URL of its own"),
        (format!("--warehouse {store}/objects/tables"), 2, "in which the catalog keeps its own objects"),
        (format!("--warehouse file://{}", folder.path().display()), 2, "so a table could be put over it"),
    ] {
        let error = refused(
            glidepath(
                folder.path(),
                &format!("serve {store} --listen 127.0.0.1:0 {arguments}")
                    .replace("--listen 127.0.0.1:0 --listen", "--listen"),
            ),
            code,
        );
        assert!(error.contains(words), "{arguments}: {error}");
        assert!(!folder.path().join("store").exists(), "{arguments}");
    }
}

/// No request is made: neither store nor token service is there.
#[test]
fn a_token_service_that_cannot_be_used_is_a_mistake_on_the_command_line() {
    let folder = tempfile::tempdir().unwrap();
    for (sts, words) in [
        ("aws", "add --sts-role"),
        ("ftp://127.0.0.1:9", "the URL of the token service"),
        ("http://127.0.0.1:9", "only if the ?endpoint= of the warehouse is http:// too"),
    ] {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("glidepath"));
        command.env("AWS_ACCESS_KEY_ID", "a").env("AWS_SECRET_ACCESS_KEY", "b").env("AWS_REGION", "eu-central-1");
        command.args([
            "serve",
            "s3://bucket/lake?endpoint=https://127.0.0.1:9",
            "--listen",
            "127.0.0.1:0",
            "--sts",
            sts,
        ]);
        let error = refused(command.current_dir(folder.path()).output().unwrap(), 2);
        assert!(error.contains("no short-lived credentials for clients") && error.contains(words), "{sts}: {error}");
    }
}

#[test]
fn what_cannot_be_in_a_key_value_store_is_said_before_there_is_one() {
    let folder = tempfile::tempdir().unwrap();
    let (cells, tables) = (folder.path().join("cells"), folder.path().join("tables"));
    let serve = format!("serve kv+file://{} --listen 127.0.0.1:0", cells.display());
    for (arguments, words) in [
        (String::new(), "say where the files of tables are (--warehouse)"),
        (format!("--warehouse file://{} --protocol append-log", tables.display()), "append-log appends to objects"),
    ] {
        let error = refused(glidepath(folder.path(), &format!("{serve} {arguments}")), 2);
        assert!(error.contains(words), "{arguments}: {error}");
        assert!(!cells.exists() && !tables.exists(), "{arguments}");
    }
}

#[test]
fn a_catalog_keeps_its_protocol() {
    let folder = tempfile::tempdir().unwrap();
    drop(on(&folder));
    let store = format!("file://{}/store?durability=none", folder.path().display());
    let error = refused(
        glidepath(
            folder.path(),
            &format!(
                "serve {store} --warehouse file://{}/tables --listen 127.0.0.1:0 --protocol tickets",
                folder.path().display()
            ),
        ),
        2,
    );
    assert!(error.contains("has the protocol manifest-chain, not tickets; --protocol is for a new catalog"), "{error}");
}
