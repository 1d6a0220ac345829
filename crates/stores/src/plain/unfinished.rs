//! A file that is being written, and the step that gives it its name.
//!
//! A call that fails has usually had no effect. On a network file system some failures only say that the answer did not
//! arrive: these leave the outcome unknown. A hard link shows by itself whether it took effect, because the file then
//! has two names; so a repeated delivery that reports "exists" is not mistaken for another writer.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::time::SystemTime;

use glidepath_env::{Metadata, Payload, Tag};
use glidepath_model::ByteSize;
use rustix::fs::{AtFlags, Mode, OFlags, Stat, fstat, linkat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use super::names;

/// Filler is written from this block of zeros.
static ZEROS: [u8; 1 << 16] = [0; 1 << 16];

/// An unfinished file in the folder where it will get its name. Its unfinished name is removed when this is dropped.
pub(super) struct Unfinished<'a> {
    folder: &'a File,
    name: String,
    file: File,
}

/// How the step that gives a file its name ended.
#[derive(Debug)]
pub(super) enum Naming {
    Done,
    /// There is something of that name.
    Exists,
    /// The step had no effect.
    Refused(Errno),
    /// The step may have had an effect.
    Unknown(Errno),
}

impl<'a> Unfinished<'a> {
    /// Writes a new file, and makes its content durable.
    pub(super) fn write(
        folder: &'a File,
        payload: &Payload,
        sync: fn(&File) -> io::Result<()>,
    ) -> io::Result<Unfinished<'a>> {
        let name = names::unfinished(rand::random());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(folder, name.as_str(), flags, Mode::from_raw_mode(0o666))?.into();
        let unfinished = Self { folder, name, file };
        unfinished.fill(payload)?;
        // The clock of a file system often stands still for milliseconds, and the number of a removed file is used
        // again: only this time keeps tags apart. Where it cannot be set, the file keeps the time of its last write.
        let _ = unfinished.file.set_modified(SystemTime::now());
        sync(&unfinished.file)?;
        Ok(unfinished)
    }

    fn fill(&self, payload: &Payload) -> io::Result<()> {
        self.file.write_all_at(&payload.bytes, 0)?;
        let (mut at, end) = (payload.bytes.len() as u64, payload.size().as_bytes());
        while at < end {
            let zeros = (end - at).min(ZEROS.len() as u64);
            // At most the length of the block.
            self.file.write_all_at(&ZEROS[..zeros as usize], at)?;
            at += zeros;
        }
        Ok(())
    }

    pub(super) fn tag(&self) -> io::Result<Tag> {
        metadata(&self.file).map(|metadata| metadata.tag)
    }

    /// Gives the file its name if there is nothing of that name.
    pub(super) fn link(&self, name: &str) -> Naming {
        let Err(error) = linkat(self.folder, self.name.as_str(), self.folder, name, AtFlags::empty()) else {
            return Naming::Done;
        };
        match self.file.metadata().map(|metadata| metadata.nlink()) {
            // Not any second name: somebody may copy the folder with links.
            Ok(2..) if self.has_name(name) => Naming::Done,
            Ok(2..) => Naming::Unknown(error),
            Ok(_) if error == Errno::EXIST => Naming::Exists,
            Ok(_) if is_certain(error) => Naming::Refused(error),
            _ => Naming::Unknown(error),
        }
    }

    fn has_name(&self, name: &str) -> bool {
        let there = statat(self.folder, name, AtFlags::SYMLINK_NOFOLLOW);
        let same =
            |there: Stat| fstat(&self.file).is_ok_and(|own| (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino));
        there.is_ok_and(same)
    }

    /// Gives the file its name, in place of what has this name.
    pub(super) fn rename(&self, name: &str) -> Naming {
        match renameat(self.folder, self.name.as_str(), self.folder, name) {
            Ok(()) => Naming::Done,
            Err(error) if is_certain(error) => Naming::Refused(error),
            Err(error) => Naming::Unknown(error),
        }
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        // A failure leaves a file that nobody sees. After a rename there is nothing of this name.
        let _ = unlinkat(self.folder, self.name.as_str(), AtFlags::empty());
    }
}

/// Whether a call that failed like this has had no effect. Not among them: "no such file", which a repeated delivery
/// reports after a rename that took effect, and failures of input and output.
pub(super) fn is_certain(error: Errno) -> bool {
    let of_names = [Errno::EXIST, Errno::ISDIR, Errno::NOTDIR, Errno::NOTEMPTY, Errno::LOOP, Errno::NAMETOOLONG];
    let of_rights = [Errno::ACCESS, Errno::PERM, Errno::ROFS];
    let of_room = [Errno::NOSPC, Errno::DQUOT, Errno::MLINK];
    let of_support = [Errno::NOTSUP, Errno::OPNOTSUPP, Errno::NOSYS, Errno::INVAL, Errno::XDEV];
    [&of_names[..], &of_rights, &of_room, &of_support].concat().contains(&error)
}

/// The size, tag and time of an open file. The tag names a state as long as clocks are not set back, and other programs
/// do not set the time of a file: file number, time of the last write, size.
pub(super) fn metadata(file: &File) -> io::Result<Metadata> {
    let found = file.metadata()?;
    let (seconds, nanoseconds) = (found.mtime(), found.mtime_nsec());
    let tag = Tag::text(&format!("{:x}-{seconds:x}.{nanoseconds:09}-{:x}", found.ino(), found.len()));
    let written_ms = u64::try_from(seconds.saturating_mul(1000).saturating_add(nanoseconds / 1_000_000)).ok();
    Ok(Metadata { size: ByteSize::from_bytes(found.len()), tag, written_ms })
}
