//! What a store in files uses of the machine: its file system, its clock, its random numbers.
//!
//! At every call other processes may act, the power may fail, or the call may fail. Live, a call is done when it is
//! first polled; such a store runs where blocking is allowed.

use std::future::Future;
use std::io;
use std::path::Path;

use glidepath_model::Instant;

/// A file system as one process sees it.
///
/// Written data is visible to all processes at once, and durable only after a sync: of the file for its content, of the
/// folder for the names in it. A call that fails has had no effect, except for writes and syncs: a failed sync leaves
/// the new content visible and perhaps not durable. No later sync makes it durable; only writing (or naming) it again
/// does. A process that had the file or folder open before gets the error at its own next sync.
pub trait Files {
    /// An open file or folder. Dropping it closes it and ends the lock taken with it.
    type File;

    /// Opens a file or, for reading, a folder.
    fn open(&self, path: &Path, access: Access) -> impl Future<Output = io::Result<Self::File>>;

    /// Reads bytes from an offset into the buffer, and returns their number: perhaps fewer than there are, but none
    /// only at the end.
    fn read_at(&self, file: &Self::File, buffer: &mut [u8], at: u64) -> impl Future<Output = io::Result<usize>>;

    /// Writes at an offset in bytes, and returns how many bytes: perhaps fewer than were given.
    fn write_at(&self, file: &Self::File, bytes: &[u8], at: u64) -> impl Future<Output = io::Result<usize>>;

    /// Truncates a file, or extends it with zeros.
    fn set_len(&self, file: &Self::File, length_bytes: u64) -> impl Future<Output = io::Result<()>>;

    /// Makes the content of a file durable, and its length.
    fn sync_file(&self, file: &Self::File) -> impl Future<Output = io::Result<()>>;

    /// Makes the names in a folder durable, and the removal of others.
    fn sync_folder(&self, folder: &Self::File) -> impl Future<Output = io::Result<()>>;

    /// The length in bytes of the file now at this path.
    fn length(&self, path: &Path) -> impl Future<Output = io::Result<u64>>;

    /// Whether this name is there, and is a symbolic link: what is under it belongs to another place.
    fn is_link(&self, path: &Path) -> impl Future<Output = io::Result<bool>>;

    /// When an open file was last written, by the clock of the file system, in milliseconds since 1970.
    fn written_ms(&self, file: &Self::File) -> impl Future<Output = io::Result<u64>>;

    /// Whether this path now leads to this open file or folder.
    fn leads_to(&self, path: &Path, file: &Self::File) -> impl Future<Output = io::Result<bool>>;

    /// Renames a file or folder atomically. Replaces a file that has the new name.
    fn rename(&self, from: &Path, to: &Path) -> impl Future<Output = io::Result<()>>;

    /// Removes a file's name.
    fn remove_file(&self, path: &Path) -> impl Future<Output = io::Result<()>>;

    /// Creates a folder in an existing folder.
    fn create_folder(&self, path: &Path) -> impl Future<Output = io::Result<()>>;

    /// Removes an empty folder.
    fn remove_folder(&self, path: &Path) -> impl Future<Output = io::Result<()>>;

    /// The names in a folder, in no order. Names that are not UTF-8 are left out.
    fn names(&self, folder: &Path) -> impl Future<Output = io::Result<Vec<String>>>;

    /// Locks an open file or folder if no other handle, in any process, has its lock. The lock ends with the handle,
    /// and with the process.
    fn try_lock(&self, file: &Self::File) -> impl Future<Output = io::Result<bool>>;

    /// The process's own clock.
    fn now(&self) -> Instant;

    /// Waits until the process's clock shows `at`.
    fn sleep_until(&self, at: Instant) -> impl Future<Output = ()>;

    /// 64 uniformly random bits.
    fn draw(&self) -> u64;
}

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For reading, or for syncing a folder; must exist.
    Read,
    /// For reading and writing; must exist.
    Write,
    /// For reading and writing; must not exist, and is created.
    New,
    /// For reading and writing; is created if it does not exist.
    Either,
}
