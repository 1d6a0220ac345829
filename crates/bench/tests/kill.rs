//! Twenty processes commit to one catalog, each through a group, and are killed at random moments, over and over;
//! afterwards the checkers of simulated runs compare all answers with the chain of versions.
//!
//! On local disk always; with `GLIDEPATH_S3` (a URL, as `scripts/servers exec` sets it) on a real S3 server too.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::sync::Arc;

use glidepath_env::{Env, Purpose};
use glidepath_model::Span;
use glidepath_protocols::Outcome;
use glidepath_protocols::manifest_chain::Layout;
use glidepath_stores::{LiveEnv, Options, open};
use support::chain::{Reader, acknowledged, chain, judge, recorded, runtime, write};
use support::{Luck, Process, Said, task};

const PROCESSES: usize = 20;
const ROUNDS: u64 = 4;

/// Not a test: the task of the processes that are killed.
#[test]
fn writer_that_is_killed() {
    let Some(task) = task() else { return };
    let (url, tag) = task.split_once(' ').unwrap();
    write(&LiveEnv::new(), &open(url, &Options::default()).unwrap(), tag, false, Span::ZERO);
}

/// Kills every process in turn, after the others have made progress, and starts a replacement.
fn storm(url: &str) -> Vec<String> {
    let (said, mut luck): (Arc<Said>, _) = (Arc::default(), Luck::new());
    let start =
        |number: usize, round: u64| Process::start("writer_that_is_killed", &format!("{url} w{number}r{round}"), &said);
    let mut processes: Vec<Process> = (0..PROCESSES).map(|number| start(number, 0)).collect();
    for round in 1..=ROUNDS {
        for (number, process) in processes.iter_mut().enumerate() {
            let more = 1 + luck.below(4) as usize;
            said.wait(said.count(), |lines| acknowledged(lines) >= more);
            luck.pause();
            process.kill();
            if round < ROUNDS {
                *process = start(number, round);
            }
        }
    }
    drop(processes);
    said.lines()
}

fn killed_writers_leave_a_right_chain(url: &str) {
    let runtime = runtime();
    let store = open(url, &Options::default()).unwrap();
    let created = runtime.block_on(chain(LiveEnv::new(), store.clone(), false).create(Layout::Paged, true));
    assert!(matches!(created, Outcome::Committed(_)), "{created:?}");
    let lines = storm(url);
    let found = runtime.block_on(async {
        let mut reader = Reader::new(chain(LiveEnv::new(), store, false)).await;
        reader.read_on().await;
        reader.look_at_the_end().await;
        reader.found
    });
    let told = acknowledged(&lines);
    println!("{url}: {} commits tried, {told} acknowledged, {} in the chain", recorded(&lines).len(), found.len());
    judge(&lines, &found);
}

#[test]
fn on_local_disk() {
    let folder = tempfile::tempdir().unwrap();
    killed_writers_leave_a_right_chain(&format!("file://{}", folder.path().display()));
}

#[test]
fn on_a_real_s3_server() {
    let Ok(url) = std::env::var("GLIDEPATH_S3") else {
        println!("no S3 server: not tested (scripts/servers exec cargo test ... starts one)");
        return;
    };
    let (place, query) =
        url.split_once('?').map_or((url.as_str(), String::new()), |(place, query)| (place, format!("?{query}")));
    let nonce = LiveEnv::new().draw(Purpose::Names);
    killed_writers_leave_a_right_chain(&format!("{place}/kill-{nonce:016x}{query}"));
}
