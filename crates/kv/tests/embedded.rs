//! Does the store in a folder keep the contract, and every acknowledged write?

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use bytes::Bytes;
use glidepath_env::conformance::kv::run_all;
use glidepath_env::{Columns, KvStore, ReadLevel, Table};
use glidepath_kv::{Embedded, EmbeddedOptions, OpenError};

fn open(folder: &Path) -> Embedded {
    Embedded::open(folder, &EmbeddedOptions::default()).unwrap()
}

fn table(name: &str) -> Table {
    Table::new(name).unwrap()
}

async fn conforms(store: &Embedded, scratch: &str) {
    let violations = run_all(&[store.clone(), store.clone()], &table(scratch)).await;
    assert!(violations.is_empty(), "{violations:#?}");
}

#[tokio::test]
async fn conforms_when_new_and_when_opened_again() {
    let folder = tempfile::tempdir().unwrap();
    conforms(&open(folder.path()), "first").await;
    let again = open(folder.path());
    conforms(&again, "second").await;
    let rows = again.rows(&table("first"), None, 1000).await.unwrap().rows.len();
    assert!(rows > 20, "{rows} rows of the first run are there");
}

#[tokio::test]
async fn conforms_where_hardly_anything_may_wait() {
    let folder = tempfile::tempdir().unwrap();
    let options = EmbeddedOptions { most_waiting: 0, memtable_bytes: 64 << 10, ..EmbeddedOptions::default() };
    conforms(&Embedded::open(folder.path(), &options).unwrap(), "scratch").await;
}

#[test]
fn a_second_opening_is_refused_and_names_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    let first = open(folder.path());
    let error = Embedded::open(folder.path(), &EmbeddedOptions::default()).unwrap_err();
    assert!(matches!(error, OpenError::Locked(_)), "{error:?}");
    assert!(error.to_string().contains(&*folder.path().to_string_lossy()), "{error}");
    let output = child("child_that_opens", folder.path()).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("is open already"), "{output:?}");
    drop(first);
    open(folder.path());
}

#[test]
fn other_formats_and_other_folders_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    drop(open(folder.path()));
    std::fs::write(folder.path().join("format"), "glidepath cells, version 2\n").unwrap();
    let error = Embedded::open(folder.path(), &EmbeddedOptions::default()).unwrap_err();
    assert!(matches!(error, OpenError::Format { .. }), "{error:?}");
    for word in ["version 1", "version 2", &folder.path().to_string_lossy()] {
        assert!(error.to_string().contains(word), "{error}");
    }
    let foreign = tempfile::tempdir().unwrap();
    std::fs::write(foreign.path().join("letters"), "dear").unwrap();
    let error = Embedded::open(foreign.path(), &EmbeddedOptions::default()).unwrap_err();
    assert!(matches!(error, OpenError::Foreign(_)), "{error:?}");
    assert_eq!(std::fs::read_dir(foreign.path()).unwrap().count(), 1, "nothing was written there");
}

/// The library panics at some of these journals, if it is built with its checks.
#[tokio::test]
async fn a_flipped_bit_is_an_error_and_no_panic() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(folder.path());
    store.create_table(&table("t")).await.unwrap();
    store.put_unless_exists(&table("t"), &Bytes::from_static(b"row"), &columns(1, 1)).await.unwrap();
    drop(store);
    let journal = folder.path().join("cells/0.jnl");
    let whole = std::fs::read(&journal).unwrap();
    let mut refused = 0;
    for at in 0..whole.len().min(150) {
        let mut flipped = whole.clone();
        flipped[at] ^= 4;
        std::fs::write(&journal, flipped).unwrap();
        let opened = std::panic::catch_unwind(|| Embedded::open(folder.path(), &EmbeddedOptions::default()).map(drop));
        if let Err(error) = opened.expect("no panic") {
            refused += 1;
            assert!(matches!(error, OpenError::Damaged { .. } | OpenError::Library { .. }), "{error}");
        }
    }
    assert!(refused > 0 || whole.is_empty(), "{} bytes", whole.len());
    std::fs::write(&journal, whole).unwrap();
    open(folder.path());
}

const FOLDER: &str = "GLIDEPATH_TEST_FOLDER";

/// Another process of this test program, in which one test does a task.
fn child(task: &str, folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args([task, "--exact", "--nocapture"]).env(FOLDER, folder).stderr(Stdio::inherit());
    command
}

/// Not a test of its own: see [`a_second_opening_is_refused_and_names_the_folder`].
#[test]
fn child_that_opens() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    match Embedded::open(Path::new(&folder), &EmbeddedOptions::default()) {
        Ok(_) => println!("\nit was opened"),
        Err(error) => println!("\n{error}"),
    }
}

const WRITERS: usize = 8;
const ROUNDS: usize = 12;

/// Each put has three columns, so that one that was written by half can be told.
fn columns(writer: usize, number: usize) -> Vec<(Bytes, Bytes)> {
    let column = |part: usize| (format!("{writer}/{number:08}/{part}").into(), format!("{number}").into());
    (0..3).map(column).collect()
}

/// Not a test of its own: what the process does that is killed. Each line says that a put was acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn child_that_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    // Small, so that files are written and merged while the process is killed.
    let options = EmbeddedOptions { memtable_bytes: 32 << 10, ..EmbeddedOptions::default() };
    let store = Embedded::open(Path::new(&folder), &options).unwrap();
    store.create_table(&table("cells")).await.unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let store = store.clone();
        writers.spawn(async move {
            for number in count(&store, writer).await.. {
                let row = Bytes::from_static(b"row");
                store.put_unless_exists(&table("cells"), &row, &columns(writer, number)).await.unwrap();
                println!("\nput {writer} {number}.");
            }
        });
    }
    let ended = writers.join_next().await;
    panic!("a writer ended before it was killed: {ended:?}");
}

/// How many puts of a writer are there, all of them whole and none missing between.
async fn count(store: &Embedded, writer: usize) -> usize {
    let bound = |end: &str| Some(Bytes::from(format!("{writer}{end}")));
    let range = Columns { from: bound("/"), before: bound("0") };
    let row = Bytes::from_static(b"row");
    let slice = store.scan(&table("cells"), &row, &range, usize::MAX, ReadLevel::Linearizable).await.unwrap();
    let puts = slice.cells.len() / 3;
    let wanted: Vec<_> = (0..puts).flat_map(|number| columns(writer, number)).collect();
    assert!(slice.cells == wanted, "writer {writer}: a put is there by half, or one is missing before it");
    puts
}

#[tokio::test]
async fn kill_minus_nine_loses_nothing_and_halves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = [0_usize; WRITERS];
    for round in 0..ROUNDS {
        let mut process = child("child_that_is_killed", folder.path()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        // After more and more acknowledgements, so that the kill falls elsewhere each time; round 0: as it begins.
        let heard = lines.by_ref().filter(|line| note(line, &mut acknowledged)).take(round * round * 20).count();
        assert_eq!(heard, round * round * 20, "the process ended by itself");
        process.kill().unwrap();
        process.wait().unwrap();
        for line in lines {
            note(&line, &mut acknowledged);
        }
        let store = open(folder.path());
        if round > 0 {
            for (writer, acknowledged) in acknowledged.iter().enumerate() {
                let found = count(&store, writer).await;
                assert!(found >= *acknowledged, "writer {writer}: {acknowledged} puts acknowledged, {found} found");
            }
        }
    }
    let total: usize = acknowledged.iter().sum();
    println!("{total} puts were acknowledged");
    assert!(total > 100, "too few to have tried anything: {total}");
}

/// Takes down an acknowledgement; false where the line is none, or is cut off.
fn note(line: &str, acknowledged: &mut [usize; WRITERS]) -> bool {
    let numbers = line.strip_prefix("put ").and_then(|line| line.strip_suffix('.'));
    let Some((writer, number)) = numbers.and_then(|numbers| numbers.split_once(' ')) else { return false };
    let (writer, number): (usize, usize) = (writer.parse().unwrap(), number.parse().unwrap());
    acknowledged[writer] = acknowledged[writer].max(number + 1);
    true
}
