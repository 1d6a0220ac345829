//! Failures that no healthy file system shows: syncs that fail, and what the store says then.

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
fn only_names_of_unfinished_files_are_taken() {
    let own = names::unfinished(7);
    assert!(names::is_unfinished(&own) && names::parts(&format!("a/{own}"), 5).is_err());
    for name in [".glidepath-.tmp", ".glidepath-0000000000000007", ".a.tmp", "glidepath-0000000000000007.tmp"] {
        assert!(!names::is_unfinished(name), "{name}");
        assert!(names::parts(name, 5).is_ok(), "{name}");
    }
}
