//! The file operations of each store operation, and the meaning of each failure.
//!
//! A failure before the step by which a write takes effect (a link, a rename, the removal of a file) is a refusal:
//! nothing has changed that others see, except new folders. A failure after that step leaves the outcome unknown.

use std::fs::File;
use std::io;
use std::ops::Range;

use glidepath_env::{Cause, DeleteError, Denial, Guard, Metadata, Object, Payload, PutError, ReadError, Tag};
use rustix::buffer::spare_capacity;
use rustix::fs::{AtFlags, Mode, OFlags, openat, unlinkat};
use rustix::io::{Errno, pread};

use super::folder::{Kind, Obstacle, Root, kind};
use super::names;
use super::unfinished::{Naming, Unfinished, is_certain, metadata};

impl Root {
    /// The parts of the folder of a key, and the name of its file.
    fn place<'k>(&self, key: &'k str) -> Result<(Vec<&'k str>, &'k str), Cause> {
        let parts = names::parts(key, self.directory.as_os_str().len()).map_err(Cause::words)?;
        // Each key has a last part.
        let name = parts.last().copied().unwrap_or_default();
        Ok((parts, name))
    }

    pub(super) fn can_name(&self, key: &str) -> bool {
        self.place(key).is_ok()
    }

    pub(super) fn get(&self, key: &str, range: Range<u64>) -> Result<Object, ReadError> {
        let (file, before) = self.look(key)?;
        let failed = |error| ReadError::Failed(self.cause(key, "reading", &error));
        let bytes = read(&file, range, before.size.as_bytes()).map_err(failed)?;
        // A file of this store never changes. Other programs may write in place.
        if metadata(&file).map_err(failed)?.tag != before.tag {
            return Err(failed(io::Error::other("another program wrote to it meanwhile; try again when it is done")));
        }
        Ok(Object { payload: Payload::from(bytes::Bytes::from(bytes)), tag: before.tag })
    }

    pub(super) fn head(&self, key: &str) -> Result<Metadata, ReadError> {
        self.look(key).map(|(_, found)| found)
    }

    /// Whether the kernel has in memory that this file is there: then no pool for blocking work is needed. See
    /// `local/cached.rs`.
    #[cfg(target_os = "linux")]
    pub(super) fn is_known(&self, key: &str) -> bool {
        use rustix::fs::{CWD, ResolveFlags, openat2};
        let (path, cached) = (OFlags::PATH | OFlags::CLOEXEC, ResolveFlags::CACHED);
        let below = cached | ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let top = openat2(CWD, &self.directory, path | OFlags::DIRECTORY, Mode::empty(), cached).map(File::from);
        let Some(top) = top.ok().filter(|top| self.is_same(top)) else { return false };
        let file = openat2(&top, key, path | OFlags::NOFOLLOW, Mode::empty(), below);
        file.is_ok_and(|file| File::from(file).metadata().is_ok_and(|found| found.is_file()))
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn is_known(&self, _: &str) -> bool {
        false
    }

    /// Nothing if that is not known: also if the warehouse itself is away.
    pub(super) fn is_there(&self, key: &str) -> Option<bool> {
        match self.look(key) {
            Ok(_) => Some(true),
            Err(ReadError::NotFound) => Some(false),
            Err(ReadError::Failed(_)) => None,
        }
    }

    /// The file of a key, open, and its state.
    fn look(&self, key: &str) -> Result<(File, Metadata), ReadError> {
        let (parts, name) = self.place(key).map_err(ReadError::Failed)?;
        let folder = self.folder(&parts[..parts.len() - 1]).map_err(not_read)?;
        // Opening a pipe would wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&folder, name, flags, Mode::empty());
        let file = File::from(file.map_err(|error| not_read(self.obstacle(&folder, &parts, error)))?);
        let failed = |error| ReadError::Failed(self.cause(key, "reading", &error));
        let kind = file.metadata().map_err(failed)?.file_type();
        if kind.is_dir() {
            return Err(ReadError::NotFound);
        }
        if !kind.is_file() {
            return Err(failed(io::Error::other("it is a device, a pipe or a socket, not a file")));
        }
        let found = metadata(&file).map_err(failed)?;
        Ok((file, found))
    }

    pub(super) fn put(&self, key: &str, payload: &Payload, guard: &Guard) -> Result<Tag, PutError> {
        let certain = |cause| PutError::Refused(Denial::certain(cause));
        let replace = match guard {
            Guard::None => true,
            Guard::Absent => false,
            Guard::Matches(_) => {
                let why = "the files of a warehouse cannot be replaced on condition; allowed: a write without a \
                           guard, or only if there is no such file";
                return Err(certain(Cause::words(format!("{key}: {why}"))));
            }
        };
        let (parts, name) = self.place(key).map_err(certain)?;
        let folder = self.make_folder(&parts[..parts.len() - 1]).map_err(not_made)?;
        let refused = |what, error| self.refused(key, what, error);
        let found = kind(&folder, name).map_err(|error| refused("examining", error.into()))?;
        self.may_be_named(key, found, replace)?;
        let unfinished = Unfinished::write(&folder, payload, self.sync).map_err(|error| refused("writing", error))?;
        let tag = unfinished.tag().map_err(|error| refused("writing", error))?;
        let naming = if replace { unfinished.rename(name) } else { unfinished.link(name) };
        drop(unfinished);
        let unknown = |error| PutError::Unknown(self.cause(key, "naming the file of", &error));
        match naming {
            Naming::Done => {}
            Naming::Exists => {
                let found = kind(&folder, name).map_err(|error| refused("examining", error.into()))?;
                return Err(self.may_be_named(key, found, replace).err().unwrap_or(PutError::Lost));
            }
            Naming::Refused(error) if !replace && is_no_link(error) => {
                let why = "the file system has no hard links, by which a file gets its name only if there is none yet";
                return Err(refused("naming the file of", io::Error::other(format!("{error}; perhaps {why}"))));
            }
            Naming::Refused(error) => return Err(refused("naming the file of", error.into())),
            Naming::Unknown(error) => return Err(unknown(error.into())),
        }
        self.sync_names(&folder).map_err(unknown)?;
        Ok(tag)
    }

    /// Whether a file can get a name at which this was found.
    fn may_be_named(&self, key: &str, found: Kind, replace: bool) -> Result<(), PutError> {
        let why = match found {
            Kind::File(_) if !replace => return Err(PutError::Lost),
            Kind::Nothing | Kind::File(_) => return Ok(()),
            Kind::Folder => "a folder has this name",
            Kind::Link => "a symbolic link has this name, and those are neither followed nor replaced",
            Kind::Other => "a device, a pipe or a socket has this name",
        };
        Err(self.refused(key, "writing", io::Error::other(why)))
    }

    pub(super) fn delete(&self, key: &str) -> Result<(), DeleteError> {
        let (parts, name) = self.place(key).map_err(DeleteError::Refused)?;
        let folder = match self.folder(&parts[..parts.len() - 1]) {
            Err(Obstacle::Missing(_) | Obstacle::File(_)) => return Ok(()),
            folder => folder.map_err(|obstacle| DeleteError::Refused(Cause::from_error(obstacle)))?,
        };
        let cause = |error: io::Error| self.cause(key, "deleting", &error);
        match kind(&folder, name).map_err(|error| DeleteError::Refused(cause(error.into())))? {
            Kind::Folder => return Ok(()),
            Kind::Link | Kind::Other => {
                let why = "it is not a file, but a symbolic link, a device, a pipe or a socket";
                return Err(DeleteError::Refused(cause(io::Error::other(why))));
            }
            // Perhaps removed by another process, which may not be durable yet.
            Kind::Nothing => {}
            Kind::File(_) => match unlinkat(&folder, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) if is_certain(error) => return Err(DeleteError::Refused(cause(error.into()))),
                Err(error) => return Err(DeleteError::Unknown(cause(error.into()))),
            },
        }
        self.sync_names(&folder).map_err(|error| DeleteError::Unknown(cause(error)))
    }

    fn cause(&self, key: &str, what: &str, error: &io::Error) -> Cause {
        Cause::words(format!("{what} {}: {error}", self.shown(&[key])))
    }

    fn refused(&self, key: &str, what: &str, error: io::Error) -> PutError {
        let denial = Denial::certain(self.cause(key, what, &error));
        PutError::Refused(if passes(&error) { denial.passing() } else { denial })
    }
}

/// The bytes of a range of a file of this size.
fn read(file: &File, range: Range<u64>, size: u64) -> io::Result<Vec<u8>> {
    let end = range.end.min(size);
    let start = range.start.min(end);
    let length = usize::try_from(end - start).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    while bytes.len() < length {
        let at = start + bytes.len() as u64;
        match pread(file, spare_capacity(&mut bytes), at) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // There may be more room than was asked for.
    bytes.truncate(length);
    Ok(bytes)
}

fn not_read(obstacle: Obstacle) -> ReadError {
    match obstacle {
        Obstacle::Missing(_) | Obstacle::File(_) => ReadError::NotFound,
        other => ReadError::Failed(Cause::from_error(other)),
    }
}

fn not_made(obstacle: Obstacle) -> PutError {
    let passing = matches!(&obstacle, Obstacle::Failed(_, error) if passes(error));
    let denial = Denial::certain(Cause::from_error(obstacle));
    PutError::Refused(if passing { denial.passing() } else { denial })
}

/// Whether a refusal passes by itself: a call was interrupted, or too many files are open.
fn passes(error: &io::Error) -> bool {
    let busy = matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ResourceBusy);
    let many_files = [Errno::NFILE, Errno::MFILE].iter().any(|many| error.raw_os_error() == Some(many.raw_os_error()));
    busy || many_files
}

/// What file systems without hard links report.
fn is_no_link(error: Errno) -> bool {
    error == Errno::PERM || error == Errno::NOTSUP || error == Errno::OPNOTSUPP || error == Errno::NOSYS
}
