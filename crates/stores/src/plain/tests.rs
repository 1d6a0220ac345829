//! Failures that no healthy file system shows: syncs that fail, and what the store says then.

use std::cell::Cell;
use std::fs::{self, File};
use std::io;
use std::path::Path;

use bytes::Bytes;
use glidepath_env::{DeleteError, Guard, Payload, PutError};
use rustix::io::Errno;

use super::folder::Root;
use super::names;
use super::unfinished::is_certain;
use crate::local::Durability;

fn failure() -> io::Error {
    io::Error::from_raw_os_error(Errno::IO.raw_os_error())
}

fn folders_fail(file: &File) -> io::Result<()> {
    if file.metadata()?.is_dir() { Err(failure()) } else { Ok(()) }
}

fn files_fail(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() { Err(failure()) } else { Ok(()) }
}

fn put(root: &Root, key: &str, text: &'static str, guard: &Guard) -> Result<(), PutError> {
    root.put(key, &Payload::from(Bytes::from_static(text.as_bytes())), guard).map(drop)
}

fn root(directory: &Path, sync: fn(&File) -> io::Result<()>) -> Root {
    let mut root = Root::open(directory, Durability::None).unwrap();
    root.sync = sync;
    root
}

/// The names in a folder, also those of unfinished files.
fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_failed_sync_of_the_folder_leaves_the_outcome_unknown() {
    let directory = tempfile::tempdir().unwrap();
    let failing = root(directory.path(), folders_fail);
    for guard in [Guard::Absent, Guard::None] {
        let error = put(&failing, "object", "whole", &guard).unwrap_err();
        assert!(matches!(&error, PutError::Unknown(cause) if cause.to_string().contains("object")), "{error}");
        assert_eq!(fs::read(directory.path().join("object")).unwrap(), b"whole");
        assert_eq!(names_in(directory.path()), ["object"]);
    }
    assert!(matches!(failing.delete("object"), Err(DeleteError::Unknown(_))));
    assert!(matches!(failing.delete("object"), Err(DeleteError::Unknown(_))), "the first delete may not be durable");
}

#[test]
fn a_failed_sync_of_the_content_is_a_refusal() {
    let directory = tempfile::tempdir().unwrap();
    put(&root(directory.path(), |_| Ok(())), "object", "before", &Guard::Absent).unwrap();
    let failing = root(directory.path(), files_fail);
    for (key, guard) in [("object", Guard::None), ("another", Guard::Absent), ("third", Guard::None)] {
        let error = put(&failing, key, "after", &guard).unwrap_err();
        assert!(matches!(&error, PutError::Refused(denial) if denial.certain && !denial.passing), "{error}");
    }
    assert_eq!(fs::read(directory.path().join("object")).unwrap(), b"before");
    assert_eq!(names_in(directory.path()), ["object"]);
}

#[test]
fn a_folder_that_is_not_durable_is_removed_again() {
    let directory = tempfile::tempdir().unwrap();
    let error = put(&root(directory.path(), folders_fail), "new/folder/object", "x", &Guard::Absent).unwrap_err();
    assert!(matches!(&error, PutError::Refused(denial) if denial.certain), "{error}");
    assert!(names_in(directory.path()).is_empty());
    // One that another program created, perhaps without a sync, is not removed.
    fs::create_dir(directory.path().join("theirs")).unwrap();
    let error = put(&root(directory.path(), folders_fail), "theirs/object", "x", &Guard::Absent).unwrap_err();
    assert!(matches!(&error, PutError::Refused(denial) if denial.certain), "{error}");
    assert_eq!(names_in(directory.path()), ["theirs"]);
}

thread_local! {
    /// Whether the next sync of a folder fails, in this test.
    static FAILS: Cell<bool> = const { Cell::new(false) };
}

/// As Linux: what a sync failed to write counts as written, so the next sync succeeds.
fn folders_fail_once(file: &File) -> io::Result<()> {
    if file.metadata()?.is_dir() && FAILS.take() { Err(failure()) } else { Ok(()) }
}

#[test]
fn a_folder_whose_name_failed_to_sync_is_not_durable_after_a_second_sync() {
    let directory = tempfile::tempdir().unwrap();
    let store = root(directory.path(), folders_fail_once);
    put(&store, "known/object", "x", &Guard::Absent).unwrap();
    for theirs in ["theirs", "more"] {
        fs::create_dir(directory.path().join(theirs)).unwrap();
    }
    FAILS.set(true);
    // A caller repeats a refused write.
    let refused = |key: &str| {
        let error = put(&store, key, "x", &Guard::Absent).unwrap_err();
        assert!(matches!(&error, PutError::Refused(denial) if denial.certain && !denial.passing), "{error}");
        error.to_string()
    };
    refused("theirs/object");
    assert!(!FAILS.get(), "the sync has failed");
    for folder in ["theirs", "more"] {
        let words = refused(&format!("{folder}/object"));
        let folder = directory.path().join(folder);
        assert!(words.contains(&*folder.to_string_lossy()) && words.contains("mount the file system"), "{words}");
    }
    assert!(names_in(&directory.path().join("theirs")).is_empty());
    // What was durable before is so still, and what is written after the failed sync is by the next one.
    for key in ["known/another", "object", "new/object", "new/folder/object"] {
        put(&store, key, "x", &Guard::Absent).unwrap();
    }
}

#[test]
fn a_failed_sync_leaves_no_name_of_its_folder_certain_whatever_it_was_for() {
    for fails in ["put", "delete", "create"] {
        let directory = tempfile::tempdir().unwrap();
        let store = root(directory.path(), folders_fail_once);
        fs::create_dir(directory.path().join("theirs")).unwrap();
        FAILS.set(true);
        match fails {
            "put" => assert!(matches!(put(&store, "object", "x", &Guard::Absent), Err(PutError::Unknown(_)))),
            "delete" => assert!(matches!(store.delete("object"), Err(DeleteError::Unknown(_)))),
            _ => {
                let error = put(&store, "new/object", "x", &Guard::Absent).unwrap_err();
                assert!(matches!(&error, PutError::Refused(denial) if denial.certain), "{error}");
                // It was removed, and so is created again.
                put(&store, "new/object", "x", &Guard::Absent).unwrap();
            }
        }
        let error = put(&store, "theirs/object", "x", &Guard::Absent).unwrap_err();
        assert!(matches!(&error, PutError::Refused(denial) if denial.certain), "after a failed {fails}: {error}");
        // Another process knows nothing of it.
        put(&root(directory.path(), |_| Ok(())), "theirs/object", "x", &Guard::Absent).unwrap();
    }
}

#[test]
fn what_a_network_leaves_open_is_unknown() {
    for error in [Errno::IO, Errno::TIMEDOUT, Errno::STALE, Errno::NOENT, Errno::INTR] {
        assert!(!is_certain(error), "{error}");
    }
    for error in [Errno::NOSPC, Errno::ACCESS, Errno::ROFS, Errno::ISDIR, Errno::PERM] {
        assert!(is_certain(error), "{error}");
    }
}

#[test]
fn what_no_file_can_be_called_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let root = root(directory.path(), |_| Ok(()));
    for (key, possible) in [
        ("a/b", true),
        (&"a/".repeat(900), false),
        (&"x".repeat(256), false),
        ("a/\0", false),
        (&"x".repeat(255), true),
    ] {
        assert_eq!(root.can_name(key), possible, "{key:?}");
    }
}

#[test]
fn only_names_of_unfinished_files_are_taken() {
    let own = names::unfinished(7);
    assert!(names::is_unfinished(&own) && names::parts(&format!("a/{own}"), 5).is_err());
    for name in [".glidepath-.tmp", ".glidepath-0000000000000007", ".a.tmp", "glidepath-0000000000000007.tmp"] {
        assert!(!names::is_unfinished(name), "{name}");
        assert!(names::parts(name, 5).is_ok(), "{name}");
    }
}
