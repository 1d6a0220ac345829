//! The way to a folder: from the store's directory through one open folder after the other, never through a symbolic
//! link. What an open folder is does not change when other programs rename folders or put links in their place.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, mkdirat, open, openat, statat, unlinkat};
use rustix::io::Errno;

use crate::local::Durability;

/// How often a folder is created again that other programs remove meanwhile.
const TRIES: usize = 10;

/// At most this many folders are remembered as durable.
const MOST_KNOWN: usize = 10_000;

/// At most this many folders are remembered because a sync of them failed; if there are more, all count as such.
const MOST_IN_DOUBT: usize = 10_000;

/// The directory of a store.
#[derive(Debug)]
pub(super) struct Root {
    pub(super) directory: PathBuf,
    /// Which directory this was when it was opened.
    identity: Identity,
    /// Makes a file or folder durable. Folders through [`sync_names`](Root::sync_names) only.
    pub(super) sync: fn(&File) -> io::Result<()>,
    /// Folders whose name is durable in the folder above: path below the directory, and identity. Another program may
    /// have created a folder without a sync, so each is synced once by this process.
    known: Mutex<BTreeMap<String, Identity>>,
    /// Folders of which a sync failed. The names that were in them may not be durable, and no later sync tells: Linux
    /// counts what it failed to write as written. Writing a name once more would mean to move the folder away and back,
    /// under the hands of other programs.
    in_doubt: Mutex<BTreeSet<Identity>>,
}

/// The number of the file system, and of the file in it.
type Identity = (u64, u64);

/// Why a path leads nowhere.
#[derive(Debug, thiserror::Error)]
pub(super) enum Obstacle {
    /// There is nothing of that name.
    #[error("{0} does not exist")]
    Missing(String),
    /// A file where a folder is needed.
    #[error("{0} is a file, so no key can continue after it")]
    File(String),
    /// A symbolic link.
    #[error("{0} is a symbolic link, and those are not followed: they could lead out of the warehouse")]
    Link(String),
    /// The file system reported a failure.
    #[error("{0}: {1}")]
    Failed(String, io::Error),
}

/// What a name leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Nothing,
    /// A file of this many bytes.
    File(u64),
    Folder,
    Link,
    /// A device, a pipe or a socket.
    Other,
}

impl Root {
    /// Opens the directory, and creates it if it does not exist.
    pub(super) fn open(directory: &Path, durability: Durability) -> io::Result<Self> {
        let sync = match durability {
            Durability::Fsync => File::sync_all,
            Durability::None => |_: &File| Ok(()),
        };
        let directory = std::path::absolute(directory)?;
        create_with_those_above(&directory, sync)?;
        let opened = open(&directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let identity = identity(&opened.into())?;
        Ok(Self { directory, identity, sync, known: Mutex::default(), in_doubt: Mutex::default() })
    }

    /// The directory. It is opened anew for each operation, so that a directory that was moved away or unmounted is an
    /// error instead of a warehouse that nobody sees.
    fn top(&self) -> Result<File, Obstacle> {
        let failed = |words: &str, error: io::Error| {
            let what = format!("the directory of the warehouse, {}, {words}", self.directory.display());
            Obstacle::Failed(what, error)
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = File::from(
            open(&self.directory, flags, Mode::empty()).map_err(|error| failed("cannot be opened", error.into()))?,
        );
        if identity(&folder).map_err(|error| failed("cannot be examined", error))? != self.identity {
            let why = "is a disk not mounted? If the change is intended, start this program again";
            return Err(failed("is another one than when it was opened", io::Error::other(why)));
        }
        Ok(folder)
    }

    /// Whether this is the directory that was opened.
    #[cfg(target_os = "linux")]
    pub(super) fn is_same(&self, top: &File) -> bool {
        identity(top).is_ok_and(|identity| identity == self.identity)
    }

    /// The folder of these parts.
    pub(super) fn folder(&self, parts: &[&str]) -> Result<File, Obstacle> {
        let mut folder = self.top()?;
        for (depth, part) in parts.iter().enumerate() {
            folder = enter(&folder, part).map_err(|error| self.obstacle(&folder, &parts[..=depth], error))?;
        }
        Ok(folder)
    }

    /// The folder of these parts; those that are missing are created, each durable before the next.
    pub(super) fn make_folder(&self, parts: &[&str]) -> Result<File, Obstacle> {
        let mut folder = self.top()?;
        for depth in 0..parts.len() {
            folder = self.make_one(&folder, &parts[..=depth])?;
        }
        Ok(folder)
    }

    fn make_one(&self, above: &File, parts: &[&str]) -> Result<File, Obstacle> {
        let Some(name) = parts.last() else { return self.top() };
        for _ in 0..TRIES {
            match enter(above, name) {
                Ok(folder) => {
                    self.know(above, parts, &folder).map_err(|error| self.failed(parts, error))?;
                    return Ok(folder);
                }
                Err(Errno::NOENT) => {}
                Err(error) => return Err(self.obstacle(above, parts, error)),
            }
            match mkdirat(above, *name, Mode::from_raw_mode(0o777)) {
                Ok(()) => self.sync_new(above, parts)?,
                Err(Errno::EXIST) => {}
                Err(error) => return Err(self.obstacle(above, parts, error)),
            }
        }
        Err(self.failed(parts, io::Error::other("other programs removed this folder again and again")))
    }

    /// Makes a folder durable that was just created. It counts as durable also where an earlier sync failed: its name
    /// was written after that.
    fn sync_new(&self, above: &File, parts: &[&str]) -> Result<(), Obstacle> {
        let path = parts.join("/");
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&path);
        let Some(name) = parts.last() else { return Ok(()) };
        let created = enter(above, name);
        if let Err(error) = self.sync_names(above) {
            // No later sync makes its name durable, so it must be created again.
            let _ = unlinkat(above, *name, AtFlags::REMOVEDIR);
            return Err(self.failed(parts, error));
        }
        match created {
            Ok(folder) => self.remember(path, identity(&folder).map_err(|error| self.failed(parts, error))?),
            // Another program has removed it.
            Err(Errno::NOENT) => {}
            Err(error) => return Err(self.obstacle(above, parts, error)),
        }
        Ok(())
    }

    /// Makes a folder durable, unless this process has done that before.
    fn know(&self, above: &File, parts: &[&str], folder: &File) -> io::Result<()> {
        let (path, found) = (parts.join("/"), identity(folder)?);
        if self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&path) == Some(&found) {
            return Ok(());
        }
        if self.is_in_doubt(above)? {
            let here = self.directory.join(&path);
            let holder = here.parent().unwrap_or(&here).display();
            return Err(io::Error::other(format!(
                "a sync of {holder} failed earlier, so this folder may be gone after a power cut, and with it what is \
                 written into it, and no later sync can tell; stop the programs that use the file system, see that the \
                 disk works, mount the file system anew, which shows what it really holds, and start them again"
            )));
        }
        self.sync_names(above)?;
        self.remember(path, found);
        Ok(())
    }

    fn remember(&self, path: String, identity: Identity) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_KNOWN {
            known.clear();
        }
        known.insert(path, identity);
    }

    /// Makes the names in a folder durable.
    pub(super) fn sync_names(&self, folder: &File) -> io::Result<()> {
        let synced = (self.sync)(folder);
        if synced.is_err() {
            let identity = identity(folder)?;
            let mut in_doubt = self.in_doubt.lock().unwrap_or_else(PoisonError::into_inner);
            if in_doubt.len() < MOST_IN_DOUBT {
                in_doubt.insert(identity);
            }
        }
        synced
    }

    fn is_in_doubt(&self, folder: &File) -> io::Result<bool> {
        let identity = identity(folder)?;
        let in_doubt = self.in_doubt.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(in_doubt.len() >= MOST_IN_DOUBT || in_doubt.contains(&identity))
    }

    /// The path of these parts, for messages.
    pub(super) fn shown(&self, parts: &[&str]) -> String {
        self.directory.join(parts.join("/")).display().to_string()
    }

    pub(super) fn failed(&self, parts: &[&str], error: io::Error) -> Obstacle {
        Obstacle::Failed(self.shown(parts), error)
    }

    /// Why the last of these parts, in this folder, could not be opened.
    pub(super) fn obstacle(&self, above: &File, parts: &[&str], error: Errno) -> Obstacle {
        let shown = || self.shown(parts);
        match error {
            Errno::NOENT => Obstacle::Missing(shown()),
            Errno::NOTDIR | Errno::LOOP => match parts.last().map(|name| kind(above, name)) {
                Some(Ok(Kind::Link)) => Obstacle::Link(shown()),
                _ => Obstacle::File(shown()),
            },
            error => Obstacle::Failed(shown(), error.into()),
        }
    }
}

fn identity(file: &File) -> io::Result<Identity> {
    let metadata = file.metadata()?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Opens a folder in a folder.
fn enter(folder: &File, name: &str) -> rustix::io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(folder, name, flags, Mode::empty()).map(File::from)
}

/// What a name in a folder leads to.
pub(super) fn kind(folder: &File, name: &str) -> rustix::io::Result<Kind> {
    let stat = match statat(folder, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(Kind::Nothing),
        stat => stat?,
    };
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File(u64::try_from(stat.st_size).unwrap_or_default()),
        FileType::Directory => Kind::Folder,
        FileType::Symlink => Kind::Link,
        _ => Kind::Other,
    })
}

/// Creates a directory and those above it, each durable before the next.
fn create_with_those_above(directory: &Path, sync: fn(&File) -> io::Result<()>) -> io::Result<()> {
    let missing: Vec<&Path> = directory.ancestors().take_while(|level| !level.exists()).collect();
    for level in missing.into_iter().rev() {
        match fs::create_dir(level) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            created => created?,
        }
        let Some(above) = level.parent() else { continue };
        if let Err(error) = File::open(above).and_then(|above| sync(&above)) {
            // No later sync makes its name durable, so it must be created again.
            let _ = fs::remove_dir(level);
            return Err(error);
        }
    }
    Ok(())
}
