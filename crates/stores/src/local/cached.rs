//! What the kernel has in memory of this machine's file system, behind the `Files` trait: no call waits for a disk.
//!
//! Handing a read to the pool for blocking work and back costs several times what the read itself costs, if the kernel
//! has everything in its caches. Mostly it has: a reader that asks for the next version of a catalog asks again and
//! again for a file that is not there. A call that would have to wait, or that changes anything, fails; then the whole
//! operation is done on the pool. So does a call that the kernel does not know (before Linux 5.12) or that a sandbox
//! forbids.

use std::fs::File;
use std::io::{self, ErrorKind, IoSliceMut};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use glidepath_env::{Access, Files};
use glidepath_model::Instant;
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::{ReadWriteFlags, preadv2};

/// The part of the file system that is in memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cached;

/// Copying more than this delays other tasks of the thread for longer than the pool would.
const MOST_BYTES: usize = 64 << 10;

fn would_wait<T>() -> io::Result<T> {
    Err(ErrorKind::WouldBlock.into())
}

fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    Ok(openat2(CWD, path, flags | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::CACHED).map(File::from)?)
}

impl Files for Cached {
    type File = File;

    async fn open(&self, path: &Path, access: Access) -> io::Result<File> {
        match access {
            Access::Read => open(path, OFlags::RDONLY | OFlags::NONBLOCK),
            Access::Write | Access::New | Access::Either => would_wait(),
        }
    }

    async fn read_at(&self, file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        if buffer.len() > MOST_BYTES {
            return would_wait();
        }
        Ok(preadv2(file, &mut [IoSliceMut::new(buffer)], at, ReadWriteFlags::NOWAIT)?)
    }

    async fn length(&self, path: &Path) -> io::Result<u64> {
        Ok(open(path, OFlags::PATH)?.metadata()?.len())
    }

    async fn is_link(&self, _: &Path) -> io::Result<bool> {
        would_wait()
    }

    async fn write_at(&self, _: &File, _: &[u8], _: u64) -> io::Result<usize> {
        would_wait()
    }

    async fn set_len(&self, _: &File, _: u64) -> io::Result<()> {
        would_wait()
    }

    async fn sync_file(&self, _: &File) -> io::Result<()> {
        would_wait()
    }

    async fn sync_folder(&self, _: &File) -> io::Result<()> {
        would_wait()
    }

    async fn written_ms(&self, _: &File) -> io::Result<u64> {
        would_wait()
    }

    async fn leads_to(&self, path: &Path, file: &File) -> io::Result<bool> {
        let (there, open) = (open(path, OFlags::PATH)?.metadata()?, file.metadata()?);
        Ok((there.dev(), there.ino()) == (open.dev(), open.ino()))
    }

    async fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
        would_wait()
    }

    async fn remove_file(&self, _: &Path) -> io::Result<()> {
        would_wait()
    }

    async fn create_folder(&self, _: &Path) -> io::Result<()> {
        would_wait()
    }

    async fn remove_folder(&self, _: &Path) -> io::Result<()> {
        would_wait()
    }

    async fn names(&self, _: &Path) -> io::Result<Vec<String>> {
        would_wait()
    }

    async fn try_lock(&self, _: &File) -> io::Result<bool> {
        would_wait()
    }

    fn now(&self) -> Instant {
        super::machine::Machine.now()
    }

    async fn sleep_until(&self, _: Instant) {}

    fn draw(&self) -> u64 {
        super::machine::Machine.draw()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use glidepath_env::{Guard, Key, Object, ObjectStore, Payload, ReadError};
    use glidepath_files::{Durability, FileStore};

    use super::*;
    use crate::local::machine::Machine;
    use crate::local::{at_once, found};

    fn payload(length: usize) -> Payload {
        bytes::Bytes::from(vec![7; length]).into()
    }

    /// A kernel may answer nothing at once, but what it answers is what a read that may wait returns.
    #[test]
    fn what_is_answered_at_once_is_right() {
        let directory = tempfile::tempdir().unwrap();
        let store = at_once(FileStore::open(Machine, directory.path(), Durability::Fsync)).unwrap();
        let cached = store.reading_with(Cached);
        let key = Key::new("folder/object");
        let whole = || at_once(store.get(&key)).map(|object| object.payload.bytes);
        let lengths = [None, Some(0), Some(5), Some(MOST_BYTES), Some(MOST_BYTES + 1), None];
        for length in lengths {
            match length {
                Some(length) => drop(at_once(store.put(&key, payload(length), Guard::None)).unwrap()),
                None => at_once(store.delete(&key)).unwrap(),
            }
            match at_once(cached.get(&key)) {
                Ok(Object { payload, .. }) => assert_eq!(payload.bytes, whole().unwrap(), "{length:?}"),
                Err(ReadError::NotFound) => assert!(length.is_none(), "it is there, of {length:?}"),
                Err(ReadError::Failed(_)) => {}
            }
            let large = at_once(cached.get(&key)).is_ok_and(|read| read.payload.bytes.len() > MOST_BYTES);
            assert!(!large, "a long copy on the thread of other tasks");
        }
        // Whoever wrote it may have crashed before it was durable: that must be looked into, and written again.
        at_once(store.put(&key, payload(1), Guard::None)).unwrap();
        for lock in std::fs::read_dir(directory.path().join("locks")).unwrap() {
            std::fs::write(lock.unwrap().path(), "a mark").unwrap();
        }
        assert!(matches!(at_once(cached.get(&key)), Err(ReadError::Failed(_))), "it may not be durable");
        assert_eq!(whole().unwrap().len(), 1);
    }

    /// A folder in its place has no object. That says nothing of the store.
    #[test]
    fn nothing_is_not_found_in_another_folder() {
        let directory = tempfile::tempdir().unwrap();
        let (lake, elsewhere) = (directory.path().join("lake"), directory.path().join("elsewhere"));
        let store = at_once(FileStore::open(Machine, &lake, Durability::Fsync)).unwrap();
        let cached = store.reading_with(Cached);
        std::fs::rename(&lake, elsewhere).unwrap();
        let found = |key| found(&cached, at_once(cached.get(&Key::new(key))));
        assert!(matches!(found("object"), Err(ReadError::Failed(_))), "no folder");
        let _another = at_once(FileStore::open(Machine, &lake, Durability::Fsync)).unwrap();
        assert!(matches!(found("object"), Err(ReadError::Failed(_))), "another folder");
    }

    #[test]
    fn nothing_is_changed() {
        let directory = tempfile::tempdir().unwrap();
        let store = at_once(FileStore::open(Machine, directory.path(), Durability::Fsync)).unwrap();
        let there = || walk(directory.path());
        let (before, cached) = (there(), store.reading_with(Cached));
        let key = Key::new("object");
        assert!(at_once(cached.put(&key, payload(1), Guard::None)).is_err());
        assert!(at_once(cached.delete(&key)).is_err());
        at_once(cached.close());
        assert_eq!(there(), before);
    }

    /// The paths in a folder, in order.
    fn walk(folder: &Path) -> Vec<std::path::PathBuf> {
        let mut paths = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                paths.extend(walk(&path));
            }
            paths.push(path);
        }
        paths.sort();
        paths
    }
}
