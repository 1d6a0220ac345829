//! The store on local disk keeps every acknowledged write, complete, when the writing process is killed at any point.

#![allow(clippy::disallowed_methods, reason = "processes are killed at real moments")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use glidepath_env::{Guard, Key, ObjectStore, Payload, PutError, ReadError};
use glidepath_stores::local::{Durability, LocalStore};
use support::{Child, child_task};
use tokio::task::JoinSet;

const ROUNDS: u64 = 40;
const OBJECTS: u64 = 3;
const LOGS: u64 = 3;

fn object(number: u64) -> Key {
    Key::new(&format!("objects/in a folder/{number}"))
}

fn log(number: u64) -> Key {
    Key::new(&format!("logs/{number}"))
}

/// Bytes that differ from those of any other number: a length, and content that depends on both.
fn pattern(number: u64) -> Bytes {
    let words = 1 + number.wrapping_mul(2_654_435_761) % 9000;
    (0..words).flat_map(|at| (number << 16 | at).to_le_bytes()).collect()
}

/// The number of the pattern at the beginning of these bytes, and its size; `None` if there is no complete one.
fn number_of(bytes: &[u8]) -> Option<(u64, usize)> {
    let number = u64::from_le_bytes(bytes.first_chunk().copied()?) >> 16;
    let wanted = pattern(number);
    bytes.starts_with(&wanted).then_some((number, wanted.len()))
}

/// The number in an object, which each write increments.
async fn object_at(store: &LocalStore, key: &Key) -> (u64, Guard) {
    match store.get(key).await {
        Err(ReadError::NotFound) => (0, Guard::Absent),
        Err(error) => panic!("{key}: {error}"),
        Ok(object) => {
            let bytes = object.payload.bytes;
            let (number, size) = number_of(&bytes).unwrap_or_else(|| panic!("{key}: there is half a write"));
            assert_eq!(size, bytes.len(), "{key}: there is more than one write");
            (number, Guard::Matches(object.tag))
        }
    }
}

/// The number of records in a log, checked to be complete and in order, and its end.
async fn log_at(store: &LocalStore, key: &Key) -> (u64, u64) {
    let bytes = match store.get(key).await {
        Err(ReadError::NotFound) => return (0, 0),
        read => read.unwrap_or_else(|error| panic!("{key}: {error}")).payload.bytes,
    };
    let (mut records, mut at) = (0, 0);
    while at < bytes.len() {
        let (number, size) = number_of(&bytes[at..]).unwrap_or_else(|| panic!("{key}: there is half a record"));
        assert_eq!(number, records + 1, "{key}: a record is out of order");
        (records, at) = (number, at + size);
    }
    (records, bytes.len() as u64)
}

/// Not a test itself: the task of the processes that are killed. Each line reports an acknowledged write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_that_is_killed() {
    let Some((directory, durability)) = child_task("killed") else { return };
    let durability = if durability == "fsync" { Durability::Fsync } else { Durability::None };
    let store = Arc::new(LocalStore::new(directory, durability).unwrap());
    let mut writers = JoinSet::new();
    for number in 0..OBJECTS {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            loop {
                let (last, guard) = object_at(&store, &object(number)).await;
                store.put(&object(number), Payload::from(pattern(last + 1)), guard).await.unwrap();
                println!("object {number} {}", last + 1);
            }
        });
    }
    for number in 0..LOGS {
        let store = Arc::clone(&store);
        writers.spawn(async move {
            let (mut last, mut end) = log_at(&store, &log(number)).await;
            loop {
                let appended = store.append(&log(number), Payload::from(pattern(last + 1)), end).await.unwrap();
                (last, end) = (last + 1, appended.end);
                println!("log {number} {last}");
            }
        });
    }
    let ended = writers.join_next().await;
    panic!("a writer ended before it was killed: {ended:?}");
}

/// The last state of every object and log that was acknowledged, or seen by a check.
#[derive(Default)]
struct Acknowledged {
    objects: [u64; OBJECTS as usize],
    logs: [u64; LOGS as usize],
    lines: u64,
}

impl Acknowledged {
    fn note(&mut self, line: &str) {
        // The last line may be cut off; then it says less than is true, or nothing.
        let words: Vec<&str> = line.split(' ').collect();
        let &[kind, number, last] = &words[..] else { return };
        let (Ok(number), Ok(last)) = (number.parse::<usize>(), last.parse::<u64>()) else { return };
        let place = match kind {
            "object" => &mut self.objects[number],
            "log" => &mut self.logs[number],
            _ => return,
        };
        *place = last.max(*place);
        self.lines += 1;
    }
}

#[tokio::test]
async fn kill_minus_nine_loses_nothing_and_halves_nothing() {
    let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    println!("seed {seed}");
    let directory = tempfile::tempdir().unwrap();
    let mut acknowledged = Acknowledged::default();
    let mut luck = seed;
    for round in 0..ROUNDS {
        luck = luck.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        kill_one(directory.path(), round, luck >> 33, &mut acknowledged);
        check(directory.path(), round, &mut acknowledged).await;
    }
    println!("{} writes were acknowledged", acknowledged.lines);
    assert!(acknowledged.lines > ROUNDS, "too few writes to test anything");
    let left = std::fs::read_dir(directory.path().join("writers")).unwrap().count();
    drop(LocalStore::new(directory.path(), Durability::None).unwrap());
    let now = std::fs::read_dir(directory.path().join("writers")).unwrap().count();
    assert_eq!(now, 0, "of {left} folders of killed processes");
}

fn kill_one(directory: &Path, round: u64, luck: u64, acknowledged: &mut Acknowledged) {
    let durability = if round.is_multiple_of(4) { "fsync" } else { "none" };
    let mut child = Child::start("child_that_is_killed", "killed", directory, durability);
    // From the first acknowledgement on, so that the kill happens during writes.
    while let Some(line) = child.line() {
        let before = acknowledged.lines;
        acknowledged.note(&line);
        if acknowledged.lines > before {
            break;
        }
    }
    std::thread::sleep(Duration::from_micros(luck % 60_000));
    for line in child.kill() {
        acknowledged.note(&line);
    }
}

/// Everything acknowledged, or found by the last check, is there, and at most one more write, which was in progress at
/// the kill. (If a check finds a write that was not acknowledged, the next round's writer continues after it.)
async fn check(directory: &Path, round: u64, acknowledged: &mut Acknowledged) {
    let store = LocalStore::new(directory, Durability::None).unwrap();
    for (number, last) in acknowledged.objects.iter_mut().enumerate() {
        let (found, _) = object_at(&store, &object(number as u64)).await;
        let allowed = *last..=*last + 1;
        assert!(allowed.contains(&found), "round {round}, object {number}: {last} was acknowledged, {found} found");
        *last = found;
    }
    for (number, last) in acknowledged.logs.iter_mut().enumerate() {
        let (found, end) = log_at(&store, &log(number as u64)).await;
        let allowed = *last..=*last + 1;
        assert!(allowed.contains(&found), "round {round}, log {number}: {last} was acknowledged, {found} found");
        *last = found;
        // If its writer stopped half-way, the log continues from the end that readers see.
        let beyond = store.append(&log(number as u64), Payload::default(), end + 1).await;
        assert!(matches!(beyond, Err(PutError::Lost)), "{beyond:?}");
    }
}
