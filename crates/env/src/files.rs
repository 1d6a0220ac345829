//! What does a store that keeps objects in files see of the machine? Its file system, its clock, its random numbers.
//!
//! At every call other processes may act, the power may fail, or the call may fail. Live, a call is done when it is
//! first polled; such a store runs where blocking is allowed.

use std::future::Future;
use std::io;
use std::path::Path;

use glidepath_model::Instant;

/// A file system as one process has it.
///
/// What is written is visible to all processes at once, and durable only by a sync: that of a file for its content, that of a
/// folder for the names in it. A call that fails has had no effect, but for a sync and for a write:
/// a sync that fails leaves the new content visible and perhaps not durable: no later sync
/// makes it durable, only writing it (or naming it) once more does. A process that had the file or folder open before that
/// hears of the failure at its own next sync.
pub trait Files {
    /// An open file or folder. Dropping it closes it, and ends the lock that was taken by it.
    type File;

    /// Opens a file, or, to read, a folder.
    fn open(&self, path: &Path, access: Access) -> impl Future<Output = io::Result<Self::File>>;

    /// Reads the bytes at an offset into the buffer, and returns their number: perhaps fewer than there are,
    /// and none at the end only.
    fn read_at(&self, file: &Self::File, buffer: &mut [u8], at: u64) -> impl Future<Output = io::Result<usize>>;

    /// Writes at an offset in bytes, and returns how many bytes: perhaps fewer than were given.
    fn write_at(&self, file: &Self::File, bytes: &[u8], at: u64) -> impl Future<Output = io::Result<usize>>;

    /// Cuts a file off, or fills it up with zeros.
    fn set_len(&self, file: &Self::File, length_bytes: u64) -> impl Future<Output = io::Result<()>>;

    /// Makes the content of a file durable, and its length.
    fn sync_file(&self, file: &Self::File) -> impl Future<Output = io::Result<()>>;

    /// Makes the names in a folder durable, and that others are no longer in it.
    fn sync_folder(&self, folder: &Self::File) -> impl Future<Output = io::Result<()>>;

    /// The length in bytes of what is now at this path.
    fn length(&self, path: &Path) -> impl Future<Output = io::Result<u64>>;

    /// Whether this path now leads to this file or folder.
    fn leads_to(&self, path: &Path, file: &Self::File) -> impl Future<Output = io::Result<bool>>;

    /// Renames a file or folder in one step. A file that has the new name is replaced.
    fn rename(&self, from: &Path, to: &Path) -> impl Future<Output = io::Result<()>>;

    /// Takes a file's name away.
    fn remove_file(&self, path: &Path) -> impl Future<Output = io::Result<()>>;

    /// Makes a folder in a folder that is there.
    fn create_folder(&self, path: &Path) -> impl Future<Output = io::Result<()>>;

    /// Removes a folder that is empty.
    fn remove_folder(&self, path: &Path) -> impl Future<Output = io::Result<()>>;

    /// The names in a folder, in no order. Names that are not UTF-8 are left out.
    fn names(&self, folder: &Path) -> impl Future<Output = io::Result<Vec<String>>>;

    /// Takes the lock of an open file or folder if no other handle, in any process, has it. It ends with the handle, and with
    /// the process.
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
    /// To be read, and for folders to be synced; must be there.
    Read,
    /// To be read and written; must be there.
    Write,
    /// To be read and written; must not be there, and is made.
    New,
    /// To be read and written; is made where it is not there.
    Either,
}
