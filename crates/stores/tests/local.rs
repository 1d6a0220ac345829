//! The store on local disk keeps the contract, also between threads and between processes.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::fs;
use std::path::Path;
use std::task::{Context, Waker};

use bytes::Bytes;
use glidepath_env::conformance::run_all;
use glidepath_env::{BulkStore, Guard, Key, ObjectStore, Payload, PutError, Transfer};
use glidepath_model::ByteSize;
use glidepath_stores::local::{Durability, Footprint, LocalStore};
use glidepath_stores::{OpenError, Options, SCRATCH, open};
use support::{Child, child_task, none};

fn store(directory: &Path) -> LocalStore {
    LocalStore::new(directory, Durability::None).unwrap()
}

fn body(text: String) -> Payload {
    Bytes::from(text).into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn keeps_the_contract() {
    let directory = tempfile::tempdir().unwrap();
    // Handles that share only the directory, as if in processes of their own.
    let stores: Vec<_> = (0..4).map(|_| store(directory.path())).collect();
    none(&tokio::spawn(async move { run_all(&stores, &Key::new("scratch")).await }).await.unwrap());
    assert_eq!(files_in(directory.path(), "objects"), 0, "empty folders stay behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn keeps_the_contract_durably() {
    let directory = tempfile::tempdir().unwrap();
    let url = format!("file://{}", directory.path().display());
    let store = open(&url, &Options::default()).unwrap();
    none(&tokio::spawn(async move { run_all(&[store], &Key::new("scratch")).await }).await.unwrap());
}

fn files_in(directory: &Path, folder: &str) -> usize {
    fs::read_dir(directory.join(folder)).unwrap().count()
}

async fn increment(store: &LocalStore, times: u64) {
    let key = Key::new("shared/counter");
    for _ in 0..times {
        loop {
            let object = store.get(&key).await.unwrap();
            let number: u64 = std::str::from_utf8(&object.payload.bytes).unwrap().parse().unwrap();
            match store.put(&key, body((number + 1).to_string()), Guard::Matches(object.tag)).await {
                Ok(_) => break,
                Err(PutError::Lost) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

async fn append(store: &LocalStore, writer: u64, times: u64) {
    let key = Key::new("shared/log");
    for number in 0..times {
        loop {
            let end = store.head(&key).await.map_or(0, |metadata| metadata.size.as_bytes());
            match store.append(&key, body(format!("{writer:03} {number:03}\n")), end).await {
                Ok(_) => break,
                Err(PutError::Lost) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// Every increment counts, and every record is there once, those of each writer in order.
async fn check_counter_and_log(store: &LocalStore, writers: u64, times: u64) {
    let counter = store.get(&Key::new("shared/counter")).await.unwrap().payload.bytes;
    assert_eq!(counter, (writers * times).to_string());
    let log = store.get(&Key::new("shared/log")).await.unwrap().payload.bytes;
    let log = std::str::from_utf8(&log).unwrap();
    assert_eq!(log.lines().count() as u64, writers * times);
    for writer in 0..writers {
        let prefix = format!("{writer:03} ");
        let records: Vec<&str> = log.lines().filter_map(|line| line.strip_prefix(&prefix)).collect();
        let wanted: Vec<String> = (0..times).map(|number| format!("{number:03}")).collect();
        assert_eq!(records, wanted, "writer {writer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn threads_do_not_overwrite_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let first = store(directory.path());
    first.put(&Key::new("shared/counter"), body("0".to_owned()), Guard::Absent).await.unwrap();
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            // Half of them share a handle.
            let store = if writer % 2 == 0 { first.clone() } else { store(directory.path()) };
            tokio::spawn(async move {
                increment(&store, 50).await;
                append(&store, writer, 50).await;
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    check_counter_and_log(&first, 8, 50).await;
}

/// They wait in line: one that tried again and again might never get the lock, and be refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_writers_of_one_object_all_write() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let overwrite = |number: u64| {
        let store = store.clone();
        tokio::spawn(async move { store.put(&Key::new("object"), body(number.to_string()), Guard::None).await })
    };
    for written in (0..1_000).map(overwrite).collect::<Vec<_>>() {
        written.await.unwrap().unwrap();
    }
    assert_eq!(files_in(directory.path(), "locks"), 1, "they have one lock");
}

/// Whoever polls a write once, and then neither polls nor drops it, holds up nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_that_are_not_polled_again_hold_up_no_others() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let key = Key::new("object");
    let mut parked: Vec<_> =
        (0..600_u64).map(|number| Box::pin(store.put(&key, body(number.to_string()), Guard::None))).collect();
    for write in &mut parked {
        let _ = write.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    store.put(&Key::new("another"), body("content".to_owned()), Guard::Absent).await.unwrap();
    store.put(&key, body("the last".to_owned()), Guard::None).await.unwrap();
    assert_eq!(store.get(&key).await.unwrap().payload.bytes, "the last", "they take turns in order");
    drop(parked);
}

/// Not a test itself: the task of the processes in the next test.
#[tokio::test]
async fn child_of_processes() {
    let Some((directory, writer)) = child_task("processes") else { return };
    let store = store(Path::new(&directory));
    increment(&store, 100).await;
    append(&store, writer.parse().unwrap(), 100).await;
}

#[tokio::test]
async fn processes_do_not_overwrite_each_other() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    store.put(&Key::new("shared/counter"), body("0".to_owned()), Guard::Absent).await.unwrap();
    let start = |writer: u64| Child::start("child_of_processes", "processes", directory.path(), &writer.to_string());
    let children: Vec<_> = (0..4).map(start).collect();
    for child in children {
        child.succeeds();
    }
    check_counter_and_log(&store, 4, 100).await;
    assert_eq!(files_in(directory.path(), "writers"), 1, "processes that ended left their folders behind");
}

#[tokio::test]
async fn unfinished_files_of_the_dead_are_removed_and_those_of_the_living_are_not() {
    let directory = tempfile::tempdir().unwrap();
    let living = store(directory.path());
    let writers = directory.path().join("writers");
    let dead = writers.join("000000000000dead");
    fs::create_dir(&dead).unwrap();
    fs::write(dead.join("17"), "half a").unwrap();
    assert_eq!(files_in(directory.path(), "writers"), 2);
    let second = store(directory.path());
    assert!(!dead.exists());
    assert_eq!(files_in(directory.path(), "writers"), 2, "the folder of a living process was removed");
    drop(second);
    assert_eq!(files_in(directory.path(), "writers"), 1);
    living.put(&Key::new("a"), body("x".to_owned()), Guard::Absent).await.unwrap();
}

#[test]
fn what_is_not_of_a_process_stays_among_the_unfinished_files() {
    let (directory, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (book, other) = (directory.path().join("writers/alice/book.txt"), outside.path().join("0"));
    fs::create_dir_all(book.parent().unwrap()).unwrap();
    fs::write(&book, "a novel").unwrap();
    fs::write(&other, "of another program").unwrap();
    std::os::unix::fs::symlink(outside.path(), directory.path().join("writers/00000000000000ab")).unwrap();
    drop(store(directory.path()));
    assert_eq!(fs::read_to_string(book).unwrap(), "a novel");
    assert_eq!(fs::read_to_string(other).unwrap(), "of another program");
}

#[test]
fn a_folder_of_a_store_that_is_a_link_is_refused() {
    let (directory, shared) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::os::unix::fs::symlink(shared.path(), directory.path().join("objects")).unwrap();
    let error = LocalStore::new(directory.path(), Durability::None).err().unwrap().to_string();
    assert!(error.contains("is a symbolic link"), "{error}");
}

#[tokio::test]
async fn a_removed_folder_of_unfinished_files_is_made_again() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    fs::remove_dir_all(directory.path().join("writers")).unwrap();
    store.put(&Key::new("a"), body("x".to_owned()), Guard::Absent).await.unwrap();
    assert_eq!(files_in(directory.path(), "writers"), 1);
}

/// A folder is removed with its last object, also while another writer is about to put one there.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn folders_come_and_go_under_writers() {
    let directory = tempfile::tempdir().unwrap();
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let store = LocalStore::new(directory.path(), Durability::None).unwrap();
            tokio::spawn(async move {
                let key = Key::new(&format!("some/folder/below/{writer}"));
                for number in 0..300 {
                    store.put(&key, body(number.to_string()), Guard::Absent).await.unwrap();
                    assert_eq!(store.get(&key).await.unwrap().payload.bytes, number.to_string());
                    store.delete(&key).await.unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(files_in(directory.path(), "objects"), 0);
}

/// Not a test itself: the task of the process in the next test, in which no file can grow beyond 64 KiB.
#[tokio::test]
async fn child_of_full() {
    let Some((directory, _)) = child_task("full") else { return };
    let store = store(Path::new(&directory));
    let (object, log) = (Key::new("object"), Key::new("log"));
    let large = || Payload { filler: ByteSize::from_bytes(1 << 20), ..body("large".to_owned()) };
    let tag = store.put(&object, body("small".to_owned()), Guard::Absent).await.unwrap();
    let end = store.append(&log, body("first".to_owned()), 0).await.unwrap().end;
    for guard in [Guard::None, Guard::Matches(tag.clone())] {
        let put = store.put(&object, large(), guard).await;
        assert!(matches!(put, Err(PutError::Refused(_))), "{put:?}");
    }
    let put = store.put(&Key::new("new"), large(), Guard::Absent).await;
    assert!(matches!(put, Err(PutError::Refused(_))), "{put:?}");
    let appended = store.append(&log, large(), end).await;
    assert!(matches!(appended, Err(PutError::Refused(_))), "{appended:?}");

    assert_eq!(store.get(&object).await.unwrap().tag, tag);
    assert_eq!(store.list(&Key::new(""), None, 10).await.unwrap().objects.len(), 2);
    assert_eq!(store.get(&log).await.unwrap().payload.bytes, "first");
    for writer in fs::read_dir(Path::new(&directory).join("writers")).unwrap() {
        assert_eq!(fs::read_dir(writer.unwrap().path()).unwrap().count(), 0, "an unfinished file stayed");
    }
    let kept = fs::metadata(Path::new(&directory).join("objects/log%o")).unwrap().len();
    assert!(kept < 4096, "a refused append keeps {kept} bytes of a full disk");
    // What fits is written without an error.
    store.put(&object, body("other".to_owned()), Guard::Matches(tag)).await.unwrap();
    store.append(&log, body(" second".to_owned()), end).await.unwrap();
    assert_eq!(store.get(&log).await.unwrap().payload.bytes, "first second");
}

#[test]
fn a_write_for_which_there_is_no_room_is_refused_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    Child::start_without_room("child_of_full", "full", directory.path()).succeeds();
}

#[test]
fn what_cannot_be_a_store_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "x").unwrap();
    let complaint = |url: &str| open(url, &Options::default()).map(drop).unwrap_err();
    let unusable = [format!("file://{}", file.display()), "file:///proc/glidepath".to_owned()];
    for url in unusable {
        let error = complaint(&url);
        assert!(matches!(error, OpenError::Unusable { .. }) && error.to_string().contains(&url), "{error}");
    }
    for url in ["file://host/directory", "file:///tmp?durability=perhaps", "file:///tmp?other=none"] {
        let error = complaint(url);
        assert!(matches!(error, OpenError::Url { .. }) && error.to_string().contains(url), "{error}");
    }
}

#[tokio::test]
async fn a_damaged_file_is_an_error_and_not_an_object() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let key = Key::new("a");
    let tag = store.put(&key, body("x".to_owned()), Guard::Absent).await.unwrap();
    fs::write(directory.path().join("objects/a%o"), "").unwrap();
    assert!(store.get(&key).await.unwrap_err().to_string().contains("damaged"));
    let put = store.put(&key, body("y".to_owned()), Guard::Matches(tag)).await;
    assert!(matches!(put, Err(PutError::Refused(_))), "{put:?}");
}

/// What other programs put in the place of an object is an error of this object alone, and nothing waits for it.
#[tokio::test]
async fn what_is_no_file_is_an_error_and_not_an_object() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let whole = store.put(&Key::new("whole"), body("x".to_owned()), Guard::Absent).await.unwrap();
    let place = |name: &str| directory.path().join("objects").join(name);
    fs::create_dir(place("folder%o")).unwrap();
    std::os::unix::fs::symlink("loop%o", place("loop%o")).unwrap();
    std::os::unix::fs::symlink("l".repeat(300), place("long%o")).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(place("socket%o")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(place("pipe%o")).status().unwrap().success());
    let listed = store.list(&Key::new(""), None, 10).await.unwrap().objects;
    let listed: Vec<&str> = listed.iter().map(|listed| listed.key.as_str()).collect();
    assert_eq!(listed, ["folder", "long", "loop", "pipe", "socket", "whole"]);
    drop(socket);
    for name in ["folder", "long", "loop", "pipe", "socket"] {
        let key = Key::new(name);
        let error = store.get(&key).await.unwrap_err().to_string();
        assert!(error.contains(&format!("objects/{name}%o")), "{error}");
        for guard in [Guard::Absent, Guard::Matches(whole.clone())] {
            let put = store.put(&key, body("y".to_owned()), guard).await;
            assert!(matches!(put, Err(PutError::Refused(_) | PutError::Lost)), "{put:?}");
        }
    }
}

/// What other programs put beside objects has the form of a folder's name, and holds none.
#[tokio::test]
async fn files_of_others_hide_no_objects() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    for key in ["a/x", "b", "z/y"] {
        store.put(&Key::new(key), body("x".to_owned()), Guard::Absent).await.unwrap();
    }
    let place = |name: &str| directory.path().join("objects").join(name);
    fs::write(place("core"), "not an object").unwrap();
    fs::write(place("a/core"), "").unwrap();
    for (to, name) in [("turn", "turn"), (".", "here"), ("core", "file"), ("nowhere", "gone")] {
        std::os::unix::fs::symlink(to, place(name)).unwrap();
    }
    assert!(std::process::Command::new("mkfifo").arg(place("pipe")).status().unwrap().success());
    std::os::unix::fs::symlink("l".repeat(300), place("long")).unwrap();
    let listed = store.list(&Key::new(""), None, 10_000).await.unwrap().objects;
    let listed: Vec<&str> = listed.iter().map(|listed| listed.key.as_str()).collect();
    let own: Vec<&str> = listed.iter().copied().filter(|key| !key.starts_with("here/")).collect();
    assert_eq!(own, ["a/x", "b", "z/y"]);
    // A link to a folder is one, as far as keys go.
    assert!(listed.contains(&"here/here/b") && listed.iter().all(|key| key.len() <= 1024));
    assert_eq!(store.list(&Key::new("core/"), None, 10).await.unwrap().objects, []);
    // Two of them make more paths than anybody can walk, also if they are so long that no key has 40 of them.
    std::os::unix::fs::symlink(".", place("hither")).unwrap();
    for length in [4, 26] {
        let listed = store.list(&Key::new(""), None, usize::MAX).await.unwrap().objects;
        let own = listed.iter().filter(|listed| ["a/x", "b", "z/y"].contains(&listed.key.as_str()));
        assert_eq!((own.count(), listed.len() < 500), (3, true), "{length}");
        for name in ["here", "hither"].iter().filter(|_| length == 4) {
            fs::rename(place(name), place(&name.repeat(26)[..26])).unwrap();
        }
    }
}

/// Somebody's folders lead to one another in 2^30 ways, or are deeper than any key; what the owner has linked is
/// listed.
#[tokio::test]
async fn links_are_followed_and_do_not_lead_astray() {
    let (directory, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let store = store(directory.path());
    for key in ["a/x", "own/y", "z/y"] {
        store.put(&Key::new(key), body("x".to_owned()), Guard::Absent).await.unwrap();
    }
    let place = |name: &str| directory.path().join("objects").join(name);
    fs::rename(place("own"), elsewhere.path().join("own")).unwrap();
    std::os::unix::fs::symlink(elsewhere.path().join("own"), place("own")).unwrap();
    fs::create_dir_all(place(&format!("deep/{}", vec!["x".repeat(70); 16].join("/")))).unwrap();
    let own = async || {
        let listed = store.list(&Key::new(""), None, usize::MAX).await.unwrap().objects;
        let keys = listed.into_iter().map(|listed| listed.key.as_str().to_owned());
        keys.filter(|key| !key.contains("maze")).collect::<Vec<_>>()
    };
    assert_eq!(own().await, ["a/x", "own/y", "z/y"]);
    for level in 0..30 {
        fs::create_dir(place(&format!("maze{level:02}"))).unwrap();
        for link in ["left", "right"] {
            std::os::unix::fs::symlink(format!("../maze{:02}", level + 1), place(&format!("maze{level:02}/{link}")))
                .unwrap();
        }
    }
    let listed = own().await;
    assert!(["a/x", "z/y"].iter().all(|key| listed.iter().any(|listed| listed == key)), "{listed:?}");
}

/// Two links to the folder above make 2^40 paths, and a page ends before a listing has met many of them.
#[tokio::test]
async fn links_to_a_folder_above_do_not_hold_up_a_listing_of_many_pages() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    for number in 0..30 {
        store.put(&Key::new(&format!("a/b/{number:02}")), body("x".to_owned()), Guard::Absent).await.unwrap();
    }
    for link in ["x", "y"] {
        std::os::unix::fs::symlink("..", directory.path().join("objects/a/b").join(link)).unwrap();
    }
    let (mut after, mut pages, mut own) = (None::<Key>, 0, 0);
    loop {
        let page = store.list(&Key::new(""), after.as_ref(), 100).await.unwrap();
        own += page.objects.iter().filter(|listed| listed.key.as_str().len() == "a/b/00".len()).count();
        after = page.objects.last().map(|listed| listed.key.clone());
        pages += 1;
        assert!(pages < 1000, "{after:?}");
        if !page.more {
            break;
        }
    }
    assert_eq!(own, 30);
}

#[tokio::test]
async fn bulk_traffic_is_real_and_stays_under_its_prefix() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&format!("file://{}?durability=none", directory.path().display()), &Options::default()).unwrap();
    let size = |bytes| ByteSize::from_bytes(bytes);
    let transfers = [
        Transfer::Write(size(1000)),
        Transfer::Read(size(70)),
        Transfer::Read(size(70)),
        Transfer::ReadMany { count: 10, size: size(80), parallel: 3 },
        Transfer::Write(size(1000)),
    ];
    store.bulk(&transfers).await.unwrap();
    let objects = store.list(&Key::new(""), None, 100).await.unwrap().objects;
    let mut sizes: Vec<u64> = objects.iter().map(|listed| listed.size.as_bytes()).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [70, 80, 1000, 1000]);
    assert!(objects.iter().all(|listed| listed.key.as_str().starts_with(SCRATCH)));
}

/// Each of these opens the store for one write, closes it, and removes what it added to the folder: lock files that
/// others have open, folders into which others are about to write.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_removes_lock_files_does_not_let_two_writers_in() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("made/by/the/store");
    let url = format!("file://{}?durability=none", root.display());
    let before = || Footprint::before_opening(&url).unwrap().unwrap();
    let first = before();
    let seed = store(&root);
    seed.put(&Key::new("shared/counter"), body("0".to_owned()), Guard::Absent).await.unwrap();
    drop(seed);
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let (url, root) = (url.clone(), root.clone());
            tokio::spawn(async move {
                for _ in 0..100 {
                    let before = Footprint::before_opening(&url).unwrap().unwrap();
                    increment(&store(&root), 1).await;
                    before.remove().unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let counter = store(&root).get(&Key::new("shared/counter")).await.unwrap().payload.bytes;
    assert_eq!(counter, "400");
    store(&root).delete(&Key::new("shared/counter")).await.unwrap();
    assert_eq!(first.remove().unwrap(), Vec::<std::path::PathBuf>::new());
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn what_others_use_stays() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path().join("store");
    let url = format!("file://{}?durability=none", root.display());
    let before = Footprint::before_opening(&url).unwrap().unwrap();
    let living = store(&root);
    living.put(&Key::new("a"), body("x".to_owned()), Guard::Absent).await.unwrap();
    let stays = before.remove().unwrap();
    assert_eq!(
        stays,
        ["objects", "locks", "writers", ""]
            .map(|folder| root.join(folder).components().collect::<std::path::PathBuf>())
    );
    living.delete(&Key::new("a")).await.unwrap();
    living.put(&Key::new("a"), body("y".to_owned()), Guard::Absent).await.unwrap();
    assert!(Footprint::before_opening("memory:").unwrap().is_none());
}
