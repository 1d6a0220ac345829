//! The folders and lock files that a process added to a directory that it used for a while, and their removal.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use url::Url;

/// The content of a store's directory before the store was opened there.
#[derive(Debug)]
pub struct Footprint {
    /// Folders that did not exist, the deepest first.
    missing: Vec<PathBuf>,
    locks: PathBuf,
    writers: PathBuf,
    /// Lock files that existed.
    known: BTreeSet<OsString>,
}

impl Footprint {
    /// Examines the directory that a URL names; `None` if it names another kind of store.
    ///
    /// # Errors
    /// An error of the file system.
    pub fn before_opening(url: &str) -> io::Result<Option<Self>> {
        let directory = Url::parse(url).ok().filter(|url| url.scheme() == "file");
        let Some(directory) = directory.and_then(|url| url.to_file_path().ok()) else { return Ok(None) };
        let (locks, writers) = (directory.join("locks"), directory.join("writers"));
        let own = [directory.join("objects"), locks.clone(), writers.clone()];
        let missing = own.iter().map(PathBuf::as_path).chain(directory.ancestors());
        let missing = missing.filter(|folder| !folder.exists()).map(Path::to_owned).collect();
        let known = match fs::read_dir(&locks) {
            Ok(entries) => entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?,
            // There is no store, or something that is not a folder: opening the store reports what is wrong.
            Err(_) => BTreeSet::new(),
        };
        Ok(Some(Self { missing, locks, writers, known }))
    }

    /// Removes the lock files and folders that did not exist before, after the store was closed. Returns those that
    /// stay: folders that are not empty, lock files that a process holds or that have a mark. Does not touch objects.
    /// Another process may use the store at the same time; it creates again what it needs.
    ///
    /// # Errors
    /// An error of the file system.
    pub fn remove(self) -> io::Result<Vec<PathBuf>> {
        let mut stays = Vec::new();
        // While another process has the store open, its folder is in this one.
        let in_use = fs::read_dir(&self.writers).is_ok_and(|mut entries| entries.next().is_some());
        for entry in if in_use { None } else { fs::read_dir(&self.locks).ok() }.into_iter().flatten() {
            let entry = entry?;
            if !self.known.contains(&entry.file_name()) && !remove_lock(&entry.path())? {
                stays.push(entry.path());
            }
        }
        for folder in self.missing {
            match fs::remove_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => stays.push(folder),
                removed => removed?,
            }
        }
        Ok(stays)
    }
}

/// Removes a lock file; returns whether it is gone. It is removed under its own lock: a process that waits for the lock
/// checks afterwards whether the file is still the one at this path.
fn remove_lock(path: &Path) -> io::Result<bool> {
    let file = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(true),
        opened => opened?,
    };
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => return Ok(false),
        Err(TryLockError::Error(error)) => return Err(error),
        Ok(()) => {}
    }
    if !same_file(&file, path)? {
        return Ok(true);
    }
    // A mark in it means that something must still be made durable.
    let clear = file.metadata()?.len() == 0;
    if clear {
        fs::remove_file(path)?;
    }
    Ok(clear)
}

/// Whether an open file is the one at this path now. (While it is open, its number is not reused.)
fn same_file(file: &File, path: &Path) -> io::Result<bool> {
    let open = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (open.dev(), open.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
