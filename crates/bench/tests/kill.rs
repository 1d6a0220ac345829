//! Twenty processes commit to one catalog and are killed at random moments, over and over; afterwards what each was told is
//! compared with the chain of versions, by the checkers that simulated runs go through.
//!
//! On local disk always; with `GLIDEPATH_S3` (a URL, as `scripts/servers exec` sets it) on a real S3 server too.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use glidepath_env::{Env, Purpose};
use glidepath_history::{Chain, Change, Edit, Effect, Ending, Expected, History, Item, ProcessId, Reported};
use glidepath_model::{Action, CommitId, Entry, Instant, Name, Version};
use glidepath_protocols::Outcome;
use glidepath_protocols::group::{CommitError, Committer, Group, Leader, Persistence};
use glidepath_protocols::manifest_chain::{Layout, ManifestChain, Place};
use glidepath_stores::{LiveEnv, Options, Store, open};
use rustix::time::{ClockId, clock_gettime};

const CHILDREN: usize = 20;
const ROUNDS: u64 = 4;
const CHILD: &str = "GLIDEPATH_KILLED_WRITER";
const PREFIX: &str = "killed/";

type LiveChain = ManifestChain<LiveEnv>;

fn chain(store: &Store) -> LiveChain {
    ManifestChain::new(LiveEnv::new(), store.clone(), Arc::new(Place::new(PREFIX, 16 << 20)))
}

/// A clock that all processes of the machine share.
fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap()
}

/// Not a test of its own: what the processes do that are killed. Two threads share commits, which a task of
/// its own makes. A line before each commit,
/// and one after its answer.
#[test]
fn writer_that_is_killed() {
    let Ok(task) = std::env::var(CHILD) else { return };
    let (url, tag) = task.split_once(' ').unwrap();
    let store = open(url, &Options::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (env, place) = (LiveEnv::new(), Arc::new(Place::new(PREFIX, 16 << 20)));
    let group: Group<LiveChain> = Group::default();
    let chain = || ManifestChain::new(env, store.clone(), Arc::clone(&place));
    runtime.spawn(Leader::new(env, chain(), &group, Persistence::default()).unwrap().lead());
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let committer = Committer::grouped(env, chain(), group.clone());
            let handle = runtime.handle();
            scope.spawn(move || handle.block_on(write(&committer, &format!("{tag}-{thread}"))));
        }
    });
}

async fn write(committer: &Committer<LiveEnv, LiveChain>, tag: &str) {
    for number in 0_u64.. {
        let id = LiveEnv::new().draw(Purpose::Names) | 1;
        let name = format!("{tag}-{number}");
        let mut entry = Entry::namespace();
        entry.properties.insert("id".to_owned(), id.to_string());
        say(&format!("begin {tag} {name} {id}"));
        let action = Action::Create { name: Name::of_parts([name.as_str()]).unwrap(), entry };
        let told = match committer.commit(vec![action]).await {
            Ok(snapshot) => format!("committed {}", snapshot.version().0),
            Err(CommitError::Unknown(_)) => "unknown".to_owned(),
            Err(_) => "refused".to_owned(),
        };
        say(&format!("end {tag} {id} {told}"));
    }
}

/// One line, in one write, at once.
fn say(line: &str) {
    let line = format!("{line} {}\n", monotonic_ns());
    let mut output = std::io::stdout().lock();
    let _ = output.write_all(line.as_bytes()).and_then(|()| output.flush());
}

/// A process, and the lines that it has written.
fn start(url: &str, tag: &str, lines: &Arc<Mutex<Vec<String>>>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["writer_that_is_killed", "--exact", "--nocapture"]).env(CHILD, format!("{url} {tag}"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let (output, lines) = (child.stdout.take().unwrap(), Arc::clone(lines));
    std::thread::spawn(move || {
        // What a killed process was in the middle of writing is no line.
        for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
            lines.lock().unwrap().push(String::from_utf8_lossy(&line).into_owned());
        }
    });
    child
}

/// Kills every child at a random moment, and starts another in its place.
fn storm(url: &str) -> Vec<String> {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let mut luck = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos();
    println!("moments of killing drawn from {luck}");
    let mut children: Vec<Child> = (0..CHILDREN).map(|n| start(url, &format!("w{n}r0"), &lines)).collect();
    std::thread::sleep(Duration::from_secs(2));
    for round in 1..=ROUNDS {
        for (number, child) in children.iter_mut().enumerate() {
            luck = luck.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            std::thread::sleep(Duration::from_micros(u64::from(luck >> 16)));
            child.kill().unwrap();
            child.wait().unwrap();
            if round < ROUNDS {
                *child = start(url, &format!("w{number}r{round}"), &lines);
            }
        }
    }
    std::thread::sleep(Duration::from_millis(300));
    let lines = lines.lock().unwrap();
    lines.clone()
}

/// What the processes did and were told.
fn recorded(lines: &[String]) -> History {
    let (mut history, mut processes, mut open) = (History::new(), BTreeMap::new(), BTreeMap::new());
    let at = |word: Option<&&str>| word.and_then(|word| word.parse().ok()).map(Instant::from_nanos);
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        // The test harness writes lines of its own.
        let Some(when) = at(words.last()) else { continue };
        match words.as_slice() {
            ["begin", tag, name, id, _] => {
                let next = ProcessId(processes.len() as u32);
                let process = *processes.entry((*tag).to_owned()).or_insert(next);
                let id: u64 = id.parse().unwrap();
                let edit = Edit { item: item(name), expected: Expected::Absent, effect: Effect::Put(CommitId(id)) };
                open.insert(id, history.begin_commit(process, when, CommitId(id), [edit]));
            }
            ["end", _, id, told @ .., _] => {
                let ending = match told {
                    ["committed", version] => Ending::Committed(Reported::By(Version(version.parse().unwrap()))),
                    ["unknown"] => Ending::Unknown,
                    _ => Ending::Conflict,
                };
                history.end_commit(open[&id.parse::<u64>().unwrap()], when, ending);
            }
            _ => {}
        }
    }
    history
}

/// Names are numbered by a hash that no two of a run share but by a chance of one in a million million.
fn item(name: &str) -> Item {
    Item(name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)))
}

/// The chain as it is in the store.
async fn found(store: &Store) -> Chain {
    let catalog = chain(store);
    let versions = catalog.every_version().await.unwrap();
    let mut found = Chain::starting_at(versions[0].version(), []);
    let mut before: BTreeMap<Name, Entry> = BTreeMap::new();
    for version in &versions[1..] {
        found.begin_version(version.version());
        let now: BTreeMap<Name, Entry> = catalog.all(version, None, usize::MAX).await.unwrap().into_iter().collect();
        assert_eq!(now.len() as u64, version.entries());
        for (name, entry) in now.iter().filter(|(name, _)| !before.contains_key(name)) {
            let id = CommitId(entry.properties["id"].parse().unwrap());
            found.push(id, [Change { item: item(name.as_str()), now: Some(id) }]);
        }
        assert!(before.keys().all(|name| now.contains_key(name)), "an entry has vanished");
        before = now;
    }
    let keys = catalog.objects(versions.last().unwrap()).await.unwrap();
    for key in keys {
        glidepath_env::ObjectStore::head(store, &key).await.unwrap();
    }
    found
}

fn killed_writers_leave_a_right_chain(url: &str) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let store = open(url, &Options::default()).unwrap();
    let created = runtime.block_on(chain(&store).create(Layout::Paged, true));
    assert!(matches!(created, Outcome::Committed(_)), "{created:?}");
    let history = recorded(&storm(url));
    let chain = runtime.block_on(found(&store));
    println!("{url}: {} commits tried, {} in the chain", history.len(), chain.len());
    assert!(chain.len() > 2 * CHILDREN, "{} commits show nothing", chain.len());
    if let Err(violation) = glidepath_history::check(&history, &chain) {
        panic!("{violation}");
    }
}

#[test]
fn on_local_disk() {
    let folder = tempfile::tempdir().unwrap();
    killed_writers_leave_a_right_chain(&format!("file://{}", folder.path().display()));
}

#[test]
fn on_a_real_s3_server() {
    let Ok(url) = std::env::var("GLIDEPATH_S3") else {
        println!("no S3 server: not tried (scripts/servers exec cargo test ... starts one)");
        return;
    };
    let (place, query) =
        url.split_once('?').map_or((url.as_str(), String::new()), |(place, query)| (place, format!("?{query}")));
    let nonce = LiveEnv::new().draw(Purpose::Names);
    killed_writers_leave_a_right_chain(&format!("{place}/kill-{nonce:016x}{query}"));
}
