//! Which of a store's folders and lock files did a process add to a directory that it used for a while, and may it remove them?

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use url::Url;

/// What was in a store's directory before the store was opened there.
#[derive(Debug)]
pub struct Footprint {
    /// Folders that were not there, the deepest first.
    missing: Vec<PathBuf>,
    locks: PathBuf,
    writers: PathBuf,
    /// Lock files that were there.
    known: BTreeSet<OsString>,
}

impl Footprint {
    /// Looks at the directory that a URL names; `None` where it names another kind of store.
    ///
    /// # Errors
    /// What the file system says.
    pub fn before_opening(url: &str) -> io::Result<Option<Self>> {
        let directory = Url::parse(url).ok().filter(|url| url.scheme() == "file");
        let Some(directory) = directory.and_then(|url| url.to_file_path().ok()) else { return Ok(None) };
        let (locks, writers) = (directory.join("locks"), directory.join("writers"));
        let own = [directory.join("objects"), locks.clone(), writers.clone()];
        let missing = own.iter().map(PathBuf::as_path).chain(directory.ancestors());
        let missing = missing.filter(|folder| !folder.exists()).map(Path::to_owned).collect();
        let known = match fs::read_dir(&locks) {
            Ok(entries) => entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?,
            // There is no store, or something else is there that is no folder: opening the store says what is wrong.
            Err(_) => BTreeSet::new(),
        };
        Ok(Some(Self { missing, locks, writers, known }))
    }

    /// Removes lock files and folders that were not there, once the store is closed, and returns those that stay: folders
    /// with something in them, lock files that a process holds or that have a mark. Objects are not touched. Another process may use the
    /// store at the same time; it creates again what it needs.
    ///
    /// # Errors
    /// What the file system says.
    pub fn remove(self) -> io::Result<Vec<PathBuf>> {
        let mut stays = Vec::new();
        // While another process has the store open, its folder is in there.
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

/// Whether a lock file is gone. It is removed under its own lock: a process that waits for the lock checks afterwards whether the file is
/// still the one at this path.
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
    // What is in it says that something is to be made durable yet.
    let clear = file.metadata()?.len() == 0;
    if clear {
        fs::remove_file(path)?;
    }
    Ok(clear)
}

/// Whether what is open is what is at this path now. (While it is open, its number is given to nothing else.)
fn same_file(file: &File, path: &Path) -> io::Result<bool> {
    let open = file.metadata()?;
    match fs::metadata(path) {
        Ok(there) => Ok((there.dev(), there.ino()) == (open.dev(), open.ino())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
