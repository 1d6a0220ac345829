//! How are objects kept in files, so that a crash at any point leaves each object in its old or its new state? Any
//! number of threads and processes may write to them concurrently.
//!
//! Every write holds the lock of its key while it checks the guard and takes effect. A put takes effect by the rename
//! of a complete, durable file; an append by the switch of a slot in the object's file (see `file`). Readers take no
//! lock, unless a mark says that what they see may not be durable (see `lock`). `docs/stores/local.md` lists every
//! point at which a crash can occur.
//!
//! The code runs over [`Files`], live and on a simulated disk; it uses no runtime and no operating system. Dropping a
//! future leaves its operation unfinished, like the end of the process, except that its unfinished file stays.
//!
//! Start with [`FileStore`], then `act`.

mod act;
mod file;
mod folders;
mod list;
mod lock;
#[cfg(not(feature = "mutants"))]
#[allow(unreachable_pub, reason = "it can be reached with the feature")]
mod mutant;
#[cfg(feature = "mutants")]
pub mod mutant;
mod names;

use std::fmt;
use std::io;
use std::ops::Range;
use std::path::Path;

use glidepath_env::{
    Appended, Body, Capabilities, Cause, DeleteError, Denial, Files, Guard, Key, ListPage, Metadata, Object,
    ObjectStore, Payload, PutError, ReadError, Tag,
};

use folders::Folders;
pub use list::shown;
pub use lock::LONGEST_WAIT;

/// A store in a folder of a file system, opened by one process.
pub struct FileStore<F: Files>(Folders<F>);

/// What an acknowledged write survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The end of the process, and the loss of power.
    Fsync,
    /// The end of the process only. For tests.
    None,
}

impl<F: Files> fmt::Debug for FileStore<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FileStore").field(&self.0.objects).finish()
    }
}

impl<F: Files> FileStore<F> {
    /// Opens the store in a folder, which is created if it does not exist, and removes the unfinished files of
    /// processes that ended.
    ///
    /// # Errors
    /// An error of the file system, for example that the folder may not be written to.
    pub async fn open(files: F, folder: &Path, durability: Durability) -> io::Result<Self> {
        Folders::open(files, folder, durability == Durability::Fsync).await.map(Self)
    }

    /// A handle on the same store that only reads, with calls of another kind. It enters nothing in the folder.
    pub fn reading_with<G: Files<File = F::File>>(&self, files: G) -> FileStore<G> {
        FileStore(self.0.reading_with(files))
    }

    /// Whether the folder is still the one in which the store was opened. If it was moved, what is found in its place
    /// proves nothing.
    ///
    /// # Errors
    /// It is another one, or cannot be seen.
    pub async fn is_in_place(&self) -> io::Result<()> {
        self.0.is_in_place().await
    }

    /// Which lock the writers of a key hold. Those of other locks do not wait for them.
    pub fn lock_of(key: &Key) -> u8 {
        lock::number_of_lock(key.as_str())
    }

    /// The refusal of a write that has waited too long for the lock of its key.
    pub fn held_too_long(&self, key: &Key) -> Denial {
        denial(self.0.held_too_long(&lock::name_of_lock(key.as_str())))
    }

    /// Removes this process's folder of unfinished files. Call it when no operation is in progress. If a process ends
    /// without it, the next one that opens the store removes the folder.
    pub async fn close(&self) {
        self.0.leave().await;
    }
}

impl<F: Files> ObjectStore for FileStore<F> {
    fn capabilities(&self) -> Capabilities {
        Capabilities { put_if_absent: true, put_if_match: true, append: true, delivers_once: true }
    }

    async fn get(&self, key: &Key) -> Result<Object, ReadError> {
        self.get_range(key, 0..u64::MAX).await
    }

    async fn get_range(&self, key: &Key, range: Range<u64>) -> Result<Object, ReadError> {
        self.0.get(key, range).await.map_err(not_read)
    }

    async fn head(&self, key: &Key) -> Result<Metadata, ReadError> {
        self.0.head(key).await.map_err(not_read)
    }

    async fn put(&self, key: &Key, body: impl Body, guard: Guard) -> Result<Tag, PutError> {
        self.0.put(key, &body.into_payload(), &guard).await
    }

    async fn append(&self, key: &Key, payload: Payload, offset: u64) -> Result<Appended, PutError> {
        self.0.append(key, &payload, offset).await
    }

    async fn list(&self, prefix: &Key, after: Option<&Key>, limit: usize) -> Result<ListPage, ReadError> {
        self.0.list(prefix, after, limit).await.map_err(not_read)
    }

    async fn delete(&self, key: &Key) -> Result<(), DeleteError> {
        self.0.delete(key).await
    }
}

fn not_read(error: io::Error) -> ReadError {
    match error.kind() {
        io::ErrorKind::NotFound => ReadError::NotFound,
        _ => ReadError::Failed(Cause::from_error(error)),
    }
}

/// Where a write failed: before the step by which it takes effect, or in or after it.
enum Failure {
    Before(io::Error),
    After(io::Error),
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Before(error) | Failure::After(error) => error,
        }
    }
}

fn refused(error: io::Error) -> PutError {
    PutError::Refused(denial(error))
}

fn unknown(error: io::Error) -> PutError {
    PutError::Unknown(Cause::from_error(error))
}

/// No valid data were changed. Some errors pass by themselves. A lock held for very long does not count as one: each
/// further attempt would wait as long again.
fn denial(error: io::Error) -> Denial {
    let passing = matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ResourceBusy);
    let many_files = matches!(error.raw_os_error(), Some(ENFILE | EMFILE));
    Denial { cause: Cause::from_error(error), certain: true, passing: passing || many_files }
}

/// Too many open files, in the machine and in the process. The same numbers on every Unix.
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
