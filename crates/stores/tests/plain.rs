//! The store of plain files keeps the contract, shows other programs their files under plain names, and shows nobody
//! anything outside its directory.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use bytes::Bytes;
use glidepath_env::conformance::{POINTS, check};
use glidepath_env::{DeleteError, Guard, Key, ObjectStore, Payload, PutError, ReadError};
use glidepath_stores::local::Durability;
use glidepath_stores::plain::PlainStore;
use glidepath_stores::{Options, Store, base_location, open_plain};
use support::Child;

const DEVIATIONS: [(&str, &str); 2] = [
    ("dots-and-slashes", "they would name other folders, or none"),
    ("key-within-key", "a file cannot be a folder too"),
];

const UNFINISHED: &str = ".glidepath-0123456789abcdef.tmp";

fn store(directory: &Path) -> PlainStore {
    PlainStore::new(directory, Durability::None).unwrap()
}

fn body(text: impl Into<Bytes>) -> Payload {
    text.into().into()
}

async fn conforms<S: ObjectStore>(handles: &[S]) {
    for point in POINTS {
        let deviation = DEVIATIONS.iter().find(|(name, _)| *name == point.name);
        match (check(handles, &Key::new("scratch"), point).await, deviation) {
            (Ok(()), None) => {}
            (Err(violation), Some((_, reason))) => println!("known: {violation}; because {reason}"),
            (Err(violation), None) => panic!("{violation}"),
            (Ok(()), Some(_)) => panic!("{} holds, but is listed as a deviation", point.name),
        }
    }
}

/// The paths of all files below a directory, relative to it, in order.
fn files_below(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut folders = vec![directory.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let entry = entry.unwrap();
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => found.push(entry.path().strip_prefix(directory).unwrap().to_str().unwrap().to_owned()),
            }
        }
    }
    found.sort();
    found
}

async fn listed(store: &impl ObjectStore, prefix: &str) -> Vec<String> {
    let page = store.list(&Key::new(prefix), None, 10_000).await.unwrap();
    assert!(!page.more);
    page.objects.into_iter().map(|listed| listed.key.to_string()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn keeps_the_contract() {
    let directory = tempfile::tempdir().unwrap();
    // Handles that share only the directory, as if in processes of their own.
    let stores: Vec<_> = (0..4).map(|_| store(directory.path())).collect();
    tokio::spawn(async move { conforms(&stores).await }).await.unwrap();
    assert_eq!(files_below(directory.path()), Vec::<String>::new(), "unfinished files stay behind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn keeps_the_contract_durably() {
    // Not as `.tmpXXXX`, but with a folder that is created.
    let directory = tempfile::tempdir().unwrap();
    let url = format!("file://{}/new/lake", directory.path().display());
    assert_eq!(base_location(&url).unwrap(), url);
    let store = open_plain(&url, &Options::default()).unwrap();
    assert!(matches!(store, Store::Plain(_)));
    tokio::spawn(async move { conforms(&[store]).await }).await.unwrap();
}

#[tokio::test]
async fn names_are_plain_for_other_programs() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let names = ["tables/sales/orders-1a2b/metadata/00001-a.metadata.json", "a/b c%d", "%20", "p=1/ä+&?#.parquet"];
    for name in names {
        store.put(&Key::new(name), body(name.to_owned()), Guard::Absent).await.unwrap();
        assert_eq!(fs::read_to_string(directory.path().join(name)).unwrap(), name);
    }
    let theirs = "tables/sales/orders-1a2b/data/p=x y/part-0.parquet";
    fs::create_dir_all(directory.path().join("tables/sales/orders-1a2b/data/p=x y")).unwrap();
    fs::write(directory.path().join(theirs), "theirs").unwrap();
    assert_eq!(store.get(&Key::new(theirs)).await.unwrap().payload, body("theirs"));
    assert_eq!(store.head(&Key::new(theirs)).await.unwrap().size.as_bytes(), 6);
    assert_eq!(listed(&store, "tables/sales/orders-1a2b/d").await, [theirs]);
    let lost = store.put(&Key::new(theirs), body("ours"), Guard::Absent).await;
    assert!(matches!(lost, Err(PutError::Lost)), "{lost:?}");
    store.delete(&Key::new(theirs)).await.unwrap();
    assert_eq!(files_below(directory.path()).len(), names.len());
}

#[tokio::test]
async fn a_file_is_no_folder_and_a_folder_is_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    store.put(&Key::new("folder/file"), body("x"), Guard::None).await.unwrap();
    for (key, part) in [("folder", "a folder has this name"), ("folder/file/below", "is a file")] {
        for guard in [Guard::None, Guard::Absent] {
            let error = store.put(&Key::new(key), body("y"), guard).await.unwrap_err();
            assert!(matches!(&error, PutError::Refused(denial) if denial.certain), "{error}");
            assert!(error.to_string().contains(part), "{error}");
        }
        assert!(matches!(store.get(&Key::new(key)).await, Err(ReadError::NotFound)));
        store.delete(&Key::new(key)).await.unwrap();
    }
    assert_eq!(files_below(directory.path()), ["folder/file"]);
}

#[tokio::test]
async fn impossible_keys_are_refused() {
    let above = tempfile::tempdir().unwrap();
    let directory = above.path().join("lake");
    let store = store(&directory);
    fs::write(above.path().join("secret"), "secret").unwrap();
    let (long_part, long_path) = ("x".repeat(256), "x/".repeat(2050) + "x");
    let unfinished = format!("a/{UNFINISHED}");
    for key in [
        "",
        "/",
        "/etc/passwd",
        "a/",
        "a//b",
        "../secret",
        "a/../../secret",
        "..",
        ".",
        "a/.",
        "zero\0byte",
        UNFINISHED,
        &unfinished,
        &long_part,
        &long_path,
    ] {
        let key = Key::new(key);
        for guard in [Guard::None, Guard::Absent] {
            let error = store.put(&key, body("x"), guard).await.unwrap_err();
            assert!(matches!(&error, PutError::Refused(denial) if denial.certain && !denial.passing), "{error}");
        }
        let error = store.get(&key).await.unwrap_err();
        assert!(matches!(&error, ReadError::Failed(cause) if cause.to_string().contains("names no file")), "{error}");
        assert!(matches!(store.head(&key).await, Err(ReadError::Failed(_))));
        assert!(matches!(store.delete(&key).await, Err(DeleteError::Refused(_))));
    }
    for prefix in ["/", "../", "a/../../", "../s", "./"] {
        assert!(listed(&store, prefix).await.is_empty(), "{prefix}");
    }
    store.put(&Key::new(&"x".repeat(255)), body("x"), Guard::Absent).await.unwrap();
    assert_eq!(files_below(above.path()), [format!("lake/{}", "x".repeat(255)), "secret".to_owned()]);
}

#[tokio::test]
async fn symbolic_links_lead_nowhere() {
    let (directory, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(outside.path().join("secret"), "secret").unwrap();
    let store = store(directory.path());
    store.put(&Key::new("inside/file"), body("x"), Guard::None).await.unwrap();
    symlink(outside.path(), directory.path().join("out")).unwrap();
    symlink(outside.path().join("secret"), directory.path().join("inside/secret")).unwrap();
    symlink(outside.path().join("new"), directory.path().join("inside/dangling")).unwrap();
    symlink(directory.path().join("inside"), directory.path().join("alias")).unwrap();
    for key in ["out/secret", "out/new", "out/new/new", "inside/secret", "inside/dangling", "alias/file"] {
        let key = Key::new(key);
        let read = store.get(&key).await.unwrap_err();
        assert!(matches!(&read, ReadError::Failed(cause) if cause.to_string().contains("symbolic link")), "{read}");
        assert!(matches!(store.head(&key).await, Err(ReadError::Failed(_))), "{key}");
        for guard in [Guard::None, Guard::Absent] {
            let error = store.put(&key, body("y"), guard).await.unwrap_err();
            assert!(matches!(&error, PutError::Refused(denial) if denial.certain), "{key}: {error}");
            assert!(error.to_string().contains("symbolic link"), "{key}: {error}");
        }
        assert!(matches!(store.delete(&key).await, Err(DeleteError::Refused(_))), "{key}");
    }
    assert_eq!(listed(&store, "").await, ["inside/file"]);
    assert!(store.list(&Key::new("out/"), None, 10).await.is_err());
    assert_eq!(files_below(outside.path()), ["secret"]);
    assert_eq!(fs::read(outside.path().join("secret")).unwrap(), b"secret");
    assert_eq!(files_below(directory.path()).len(), 5);
}

#[tokio::test]
async fn unfinished_files_of_a_crash_are_invisible_and_harmless() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    fs::create_dir(directory.path().join("folder")).unwrap();
    for folder in ["", "folder/"] {
        fs::write(directory.path().join(format!("{folder}{UNFINISHED}")), "half").unwrap();
    }
    store.put(&Key::new("folder/object"), body("x"), Guard::Absent).await.unwrap();
    // Names that only look like those of unfinished files belong to clients.
    fs::write(directory.path().join(".part.crc"), "theirs").unwrap();
    assert_eq!(listed(&store, "").await, [".part.crc", "folder/object"]);
    assert_eq!(listed(&store, "folder/.glidepath").await, Vec::<String>::new());
    store.delete(&Key::new("folder/object")).await.unwrap();
    store.put(&Key::new("folder/object"), body("y"), Guard::Absent).await.unwrap();
}

#[tokio::test]
async fn pipes_do_not_block_and_are_no_files() {
    let directory = tempfile::tempdir().unwrap();
    let made = std::process::Command::new("mkfifo").arg(directory.path().join("pipe")).status().unwrap();
    assert!(made.success());
    let store = store(directory.path());
    assert!(matches!(store.get(&Key::new("pipe")).await, Err(ReadError::Failed(_))));
    assert!(matches!(store.put(&Key::new("pipe"), body("x"), Guard::None).await, Err(PutError::Refused(_))));
    assert!(listed(&store, "").await.is_empty());
}

/// An unmounted disk must not look like an empty warehouse, nor be filled from below.
#[tokio::test]
async fn a_directory_that_is_gone_is_an_error() {
    let above = tempfile::tempdir().unwrap();
    let directory = above.path().join("lake");
    let store = store(&directory);
    fs::rename(&directory, above.path().join("away")).unwrap();
    let key = Key::new("a/b");
    assert!(matches!(store.get(&key).await, Err(ReadError::Failed(_))));
    assert!(matches!(store.list(&Key::new(""), None, 1).await, Err(ReadError::Failed(_))));
    assert!(matches!(store.delete(&key).await, Err(DeleteError::Refused(_))));
    let error = store.put(&key, body("x"), Guard::Absent).await.unwrap_err();
    assert!(matches!(&error, PutError::Refused(denial) if denial.certain), "{error}");
    assert!(error.to_string().contains("directory of the warehouse"), "{error}");
    assert!(!directory.exists());
    assert_eq!(store.is_there(&key).await, None);
    // What an unmounted disk leaves.
    fs::create_dir(&directory).unwrap();
    assert_eq!(store.is_there(&key).await, None);
    assert!(matches!(store.get(&key).await, Err(ReadError::Failed(_))));
    let error = store.put(&key, body("x"), Guard::Absent).await.unwrap_err();
    assert!(error.to_string().contains("another one than when it was opened"), "{error}");
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
}

#[tokio::test]
async fn writes_that_the_contract_does_not_ask_for_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let store = store(directory.path());
    let tag = store.put(&Key::new("a"), body("x"), Guard::Absent).await.unwrap();
    let error = store.put(&Key::new("a"), body("y"), Guard::Matches(tag)).await.unwrap_err();
    assert!(matches!(&error, PutError::Refused(denial) if denial.certain), "{error}");
    let error = store.append(&Key::new("a"), body("y"), 1).await.unwrap_err();
    assert!(matches!(&error, PutError::Refused(denial) if denial.certain), "{error}");
    assert_eq!(fs::read(directory.path().join("a")).unwrap(), b"x");
}

/// Not a test itself: the task of the process in the next test.
#[tokio::test]
async fn child_without_room() {
    let Some((directory, _)) = support::child_task("without room") else { return };
    let store = store(Path::new(&directory));
    for guard in [Guard::None, Guard::Absent] {
        let error = store.put(&Key::new("large"), body(vec![b'x'; 100_000]), guard).await.unwrap_err();
        assert!(matches!(&error, PutError::Refused(denial) if denial.certain), "{error}");
    }
}

#[tokio::test]
async fn a_write_without_room_is_refused_and_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = Child::start_without_room("child_without_room", "without room", directory.path());
    let mut passed = false;
    while let Some(line) = child.line() {
        passed |= line.contains("1 passed");
    }
    assert!(passed);
    assert_eq!(files_below(directory.path()), Vec::<String>::new());
}
