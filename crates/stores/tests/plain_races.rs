//! Writers of plain files, in threads and processes, some of them killed: one creator of each key wins, and no reader
//! meets half a file.

#![allow(clippy::disallowed_methods, reason = "processes are killed at real moments")]
#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::future::Future;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use glidepath_env::{Guard, Key, ObjectStore, Payload, PutError, ReadError};
use glidepath_stores::local::Durability;
use glidepath_stores::plain::PlainStore;
use support::{Child, child_task};

const KEYS: u64 = 200;
const ROUNDS: u64 = 20;

fn store(directory: &Path) -> PlainStore {
    PlainStore::new(directory, Durability::None).unwrap()
}

/// A key in a folder of which several writers need the first file.
fn key(number: u64) -> Key {
    Key::new(&format!("folder {}/below/{number}", number / 10))
}

/// Bytes that name the writer, and of which no part is like another.
fn pattern(writer: u64, number: u64) -> Bytes {
    (0..2000 + number % 3000).flat_map(|at| (writer << 48 | number << 24 | at).to_le_bytes()).collect()
}

/// Creates all keys, and returns those that were not there before.
async fn create_all(store: &PlainStore, writer: u64) -> Vec<u64> {
    let mut won = Vec::new();
    for number in 0..KEYS {
        match store.put(&key(number), Payload::from(pattern(writer, number)), Guard::Absent).await {
            Ok(_) => won.push(number),
            Err(PutError::Lost) => {}
            Err(error) => panic!("{error}"),
        }
    }
    won
}

/// Every key was won by one writer, and has its bytes.
async fn check_winners(store: &PlainStore, won: &BTreeMap<u64, Vec<u64>>) {
    let mut winners = BTreeMap::new();
    for (writer, numbers) in won {
        for number in numbers {
            assert_eq!(winners.insert(*number, *writer), None, "two writers won {number}");
        }
    }
    assert_eq!(winners.len() as u64, KEYS);
    for (number, writer) in winners {
        assert_eq!(store.get(&key(number)).await.unwrap().payload.bytes, pattern(writer, number));
    }
    let page = store.list(&Key::new(""), None, 10_000).await.unwrap();
    assert_eq!(page.objects.len() as u64, KEYS);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn of_threads_that_create_a_key_one_wins() {
    let directory = tempfile::tempdir().unwrap();
    let first = store(directory.path());
    let start = |writer: u64| {
        // Half of them share a handle.
        let store = if writer.is_multiple_of(2) { first.clone() } else { store(directory.path()) };
        tokio::spawn(async move { (writer, create_all(&store, writer).await) })
    };
    let writers: Vec<_> = (0..8).map(start).collect();
    let mut won = BTreeMap::new();
    for writer in writers {
        let (writer, numbers) = writer.await.unwrap();
        won.insert(writer, numbers);
    }
    check_winners(&first, &won).await;
}

/// Not a test itself: the task of the processes in the next test.
#[tokio::test]
async fn child_of_processes() {
    let Some((directory, writer)) = child_task("creators") else { return };
    let won = create_all(&store(Path::new(&directory)), writer.parse().unwrap()).await;
    for number in won {
        println!("\nwon {number}");
    }
    println!("\nend");
}

#[tokio::test]
async fn of_processes_that_create_a_key_one_wins() {
    let directory = tempfile::tempdir().unwrap();
    let start = |writer: u64| Child::start("child_of_processes", "creators", directory.path(), &writer.to_string());
    let children: Vec<_> = (0..4).map(start).collect();
    let mut won: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (writer, mut child) in (0..).zip(children) {
        while let Some(line) = child.line().filter(|line| line != "end") {
            let number: Option<u64> = line.strip_prefix("won ").map(|number| number.parse().unwrap());
            won.entry(writer).or_default().extend(number);
        }
        child.succeeds();
    }
    check_winners(&store(directory.path()), &won).await;
}

/// Not a test itself: the task of the processes that are killed. Each line reports an acknowledged write.
#[tokio::test]
async fn child_that_is_killed() {
    let Some((directory, writer)) = child_task("killed") else { return };
    let (store, writer) = (store(Path::new(&directory)), writer.parse().unwrap());
    for number in 0.. {
        let fresh = Key::new(&format!("{writer}/{}/{number}", number / 10));
        store.put(&fresh, Payload::from(pattern(writer, number)), Guard::Absent).await.unwrap();
        store.put(&Key::new("replaced"), Payload::from(pattern(writer, number)), Guard::None).await.unwrap();
        println!("\nwrote {number}");
    }
}

fn numbers(lines: &[String]) -> impl Iterator<Item = u64> {
    // The last line may be cut off: then it says less than is true, or nothing.
    lines.iter().filter_map(|line| line.strip_prefix("wrote ")?.parse().ok())
}

#[tokio::test]
async fn kill_minus_nine_loses_nothing_and_halves_nothing() {
    let seed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos() as u64;
    println!("seed {seed}");
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let mut luck = seed;
    for round in 0..ROUNDS {
        luck = luck.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut child = Child::start("child_that_is_killed", "killed", directory.path(), &round.to_string());
        let mut lines = Vec::new();
        while numbers(&lines).next().is_none() {
            lines.push(child.line().unwrap());
        }
        std::thread::sleep(Duration::from_micros((luck >> 33) % 20_000));
        lines.extend(child.kill());
        let acknowledged = numbers(&lines).max().unwrap();
        let page = store.list(&Key::new(&format!("{round}/")), None, 100_000).await.unwrap();
        let found = page.objects.len() as u64;
        // The last may have been written, and not yet acknowledged.
        assert!((acknowledged + 1..=acknowledged + 2).contains(&found), "{acknowledged} acknowledged, {found} found");
        for number in 0..found {
            let fresh = Key::new(&format!("{round}/{}/{number}", number / 10));
            assert_eq!(store.get(&fresh).await.unwrap().payload.bytes, pattern(round, number));
        }
        let replaced = store.get(&Key::new("replaced")).await.unwrap().payload.bytes;
        let whole = (acknowledged..acknowledged + 2).any(|number| replaced == pattern(round, number));
        assert!(whole, "round {round}: there is half a write, or an old one");
    }
    let page = store.list(&Key::new(""), None, 1_000_000).await.unwrap();
    assert!(page.objects.iter().all(|listed| !listed.key.as_str().ends_with(".tmp")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_see_whole_files_while_they_are_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let key = Key::new("folder/object");
    store.put(&key, Payload::from(pattern(1, 0)), Guard::Absent).await.unwrap();
    let (writing, written) = (store.clone(), key.clone());
    let writer = tokio::spawn(async move {
        for number in 1..500 {
            writing.put(&written, Payload::from(pattern(1, number)), Guard::None).await.unwrap();
        }
    });
    let mut last = 0;
    while !writer.is_finished() {
        let object = store.get(&key).await.unwrap();
        let number = u64::from_le_bytes(*object.payload.bytes.first_chunk().unwrap()) >> 24 & 0xff_ffff;
        assert_eq!(object.payload.bytes, pattern(1, number));
        assert!(number >= last, "an earlier state came back");
        last = number;
    }
    writer.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_write_leaves_a_whole_file_or_none() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let mut dropped = 0;
    for number in 0..50 {
        let content = Bytes::from(vec![b'x'; 1 << 20]);
        {
            let key = key(number);
            let put = pin!(store.put(&key, Payload::from(content.clone()), Guard::Absent));
            // Polled once, then dropped. On a busy machine it may be done by then.
            dropped += u32::from(put.poll(&mut Context::from_waker(Waker::noop())).is_pending());
        }
        let path = directory.path().join(key(number).as_str());
        while !path.exists() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(fs::read(path).unwrap(), content);
        match store.get(&key(number)).await {
            Ok(object) => assert_eq!(object.payload.bytes, content),
            Err(error @ ReadError::Failed(_)) => panic!("{error}"),
            Err(ReadError::NotFound) => panic!("it was there"),
        }
    }
    assert!(dropped > 0, "every write was done before it could be dropped");
}
