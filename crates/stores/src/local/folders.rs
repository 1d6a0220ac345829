//! The folders of a store: where objects are, who may write, where unfinished files lie.
//!
//! | folder | what is in it |
//! |---|---|
//! | `objects` | the objects, as `names` says |
//! | `locks` | 256 empty files; who writes an object holds the lock on one of them |
//! | `writers` | a folder per process that writes now, locked while it lives, with its unfinished files |
//!
//! Locks are the kernel's (`flock`): they end with the process that holds them, however it ends.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The folders, as one process has them open. Unfinished files go when this does, or when another process opens the
/// store after this one died.
#[derive(Debug)]
pub(super) struct Folders {
    pub(super) objects: PathBuf,
    locks: PathBuf,
    unfinished: PathBuf,
    /// Its lock says that this process lives.
    _alive: File,
    next_name: AtomicU64,
    pub(super) durable: bool,
}

/// Removes the file when dropped; where it has been renamed by then, there is nothing to remove.
pub(super) struct Unfinished {
    pub(super) path: PathBuf,
    pub(super) file: File,
    renamed: bool,
}

impl Folders {
    pub(super) fn open(root: &Path, durable: bool) -> io::Result<Self> {
        let (objects, locks, writers) = (root.join("objects"), root.join("locks"), root.join("writers"));
        for folder in [&objects, &locks, &writers] {
            make_folder(folder, durable)?;
        }
        remove_the_dead(&writers)?;
        let (unfinished, alive) = enter(&writers)?;
        Ok(Self { objects, locks, unfinished, _alive: alive, next_name: AtomicU64::new(0), durable })
    }

    /// Waits until nobody else, in any process, writes under this key. The lock is held until the file is dropped.
    pub(super) fn lock(&self, key: &str) -> io::Result<File> {
        // Keys share locks, so that there are few; a process holds one at a time, so sharing cannot make a circle.
        let path = self.locks.join(format!("{:02x}", crc32fast::hash(key.as_bytes()) & 0xff));
        let file = File::options().create(true).append(true).open(path)?;
        file.lock()?;
        Ok(file)
    }

    /// A new file that nobody else sees yet.
    pub(super) fn unfinished(&self) -> io::Result<Unfinished> {
        let number = self.next_name.fetch_add(1, Ordering::Relaxed);
        let path = self.unfinished.join(number.to_string());
        let file = File::options().read(true).write(true).create_new(true).open(&path)?;
        Ok(Unfinished { path, file, renamed: false })
    }

    /// Puts a finished file in its place, in one step. It is durable there once the folder is.
    pub(super) fn finish(&self, mut unfinished: Unfinished, place: &Path) -> io::Result<()> {
        // A folder that empties is removed by whoever empties it, so one that was there may be gone.
        for _ in 0..100 {
            match fs::rename(&unfinished.path, place) {
                Ok(()) => {
                    unfinished.renamed = true;
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    let folder = place.parent().ok_or(error)?;
                    make_folder(folder, self.durable)?;
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::other("the folder of this object vanished again and again"))
    }

    /// Makes a file's content durable.
    pub(super) fn sync(&self, file: &File) -> io::Result<()> {
        if self.durable { file.sync_data() } else { Ok(()) }
    }

    /// Makes what was renamed into a path's folder, or removed from it, durable.
    pub(super) fn sync_folder_of(&self, path: &Path) -> io::Result<()> {
        for folder in path.ancestors().skip(1).take_while(|_| self.durable) {
            match File::open(folder) {
                // Removed since, empty: made durable where it was, that takes what was removed from it along.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                opened => return opened?.sync_all(),
            }
        }
        Ok(())
    }

    /// Removes the folders on the way to a path that have become empty.
    pub(super) fn prune(&self, path: &Path) {
        for folder in path.ancestors().skip(1).take_while(|folder| *folder != self.objects) {
            // Not empty, or gone already: either way there is nothing left to do.
            if fs::remove_dir(folder).is_err() {
                return;
            }
        }
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next process that opens the store.
        let _ = fs::remove_dir_all(&self.unfinished);
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.renamed {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Makes a folder and those above it, each durable in the one above it before anything is put inside.
fn make_folder(folder: &Path, durable: bool) -> io::Result<()> {
    // Others may remove empty folders meanwhile.
    for _ in 0..100 {
        match fs::create_dir(folder) {
            Ok(()) => {
                let Some(above) = folder.parent().filter(|_| durable) else { return Ok(()) };
                match File::open(above) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    opened => return opened?.sync_all(),
                }
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return if folder.is_file() { Err(io::ErrorKind::NotADirectory.into()) } else { Ok(()) };
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_folder(folder.parent().ok_or(error)?, durable)?;
            }
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("the folder above vanished again and again"))
}

/// A folder of this process's own, and its lock.
fn enter(writers: &Path) -> io::Result<(PathBuf, File)> {
    for _ in 0..100 {
        let folder = writers.join(format!("{:016x}", rand::random::<u64>()));
        fs::create_dir(&folder)?;
        // Between these steps another process may take the folder for a dead one's and remove it.
        let Ok(file) = File::open(&folder) else { continue };
        if file.try_lock().is_err() {
            continue;
        }
        let number = file.metadata()?.ino();
        if fs::metadata(&folder).is_ok_and(|there| there.ino() == number) {
            return Ok((folder, file));
        }
    }
    Err(io::Error::other("the folder for unfinished files was removed again and again"))
}

/// Removes the unfinished files of processes that ended without doing so.
fn remove_the_dead(writers: &Path) -> io::Result<()> {
    for entry in fs::read_dir(writers)? {
        let folder = entry?.path();
        let Ok(file) = File::open(&folder) else { continue };
        match file.try_lock() {
            // Whatever is in the way, it is only unused space, and another process may be removing the same.
            Ok(()) => drop(fs::remove_dir_all(&folder)),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
    }
    Ok(())
}
