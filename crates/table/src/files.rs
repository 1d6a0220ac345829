//! The files of tables: metadata, manifest lists, manifests, data. A file is written once, under a fresh name, and
//! never changes.

use bytes::Bytes;
use glidepath_env::Cause;

/// The most bytes of a file that is read: far above what metadata, lists and manifests have, and little enough to be in
/// memory.
pub const MOST: u64 = 128 << 20;

/// Files by their locations, such as `s3://bucket/lake/tables/orders/metadata/00001.metadata.json`.
pub trait Files {
    /// The whole file, if it has at most this many bytes. Reads have no effect and may be repeated.
    fn read_up_to(&self, location: &str, most: u64) -> impl Future<Output = Result<Bytes, FileError>>;

    /// The whole file, if it has at most [`MOST`] bytes.
    fn read(&self, location: &str) -> impl Future<Output = Result<Bytes, FileError>> {
        self.read_up_to(location, MOST)
    }

    /// Whether there is such a file, as [`ObjectStore::is_there`](glidepath_env::ObjectStore::is_there).
    fn is_there(&self, _location: &str) -> impl Future<Output = Option<bool>> {
        async { None }
    }

    /// Writes a file of a fresh name and makes it durable. After an error, the file may exist or may still appear;
    /// nobody refers to it.
    fn write(&self, location: &str, bytes: Bytes) -> impl Future<Output = Result<(), FileError>>;

    /// Removes a file; also succeeds if there is none. The caller has a proof that nothing refers to it.
    fn delete(&self, location: &str) -> impl Future<Output = Result<(), FileError>>;

    /// The locations of up to `limit` files in a folder, at all depths, in the byte order of their locations, from the
    /// first that is after `after`. Empty if there are none left. Files that come or go meanwhile may or may not be
    /// among them.
    fn list(
        &self,
        folder: &str,
        after: Option<&str>,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<String>, FileError>>;
}

/// `file:///a` and `file:/a` are one location: Hadoop writes the second.
#[must_use]
pub fn unslashed(location: &str) -> String {
    match location.strip_prefix("file:") {
        Some(path) => format!("file:/{}", path.trim_start_matches('/')),
        None => location.to_owned(),
    }
}

/// Whether a location is a folder or in it.
#[must_use]
pub fn is_within(location: &str, folder: &str) -> bool {
    let (location, folder) = (unslashed(location), unslashed(folder.trim_end_matches('/')));
    location.strip_prefix(&folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Why a file was not read, written or deleted.
#[derive(Clone, Debug, thiserror::Error)]
pub enum FileError {
    /// There is no such file.
    #[error("there is no file {0}")]
    NotFound(String),
    /// The location is not in the warehouse of this server, or not written as locations are.
    #[error(
        "{location:?} is outside of the warehouse {warehouse}: {why} (all servers of one store need the same --warehouse)"
    )]
    Outside {
        /// As given.
        location: String,
        /// The warehouse.
        warehouse: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// It is larger than what was to be read.
    #[error("{location} has more than {most} bytes")]
    TooLarge {
        /// The file.
        location: String,
        /// The bytes that were allowed.
        most: u64,
    },
    /// The store did not do it, or did not say so.
    #[error("{location}: {cause}")]
    Failed {
        /// The file.
        location: String,
        /// The reason.
        cause: Cause,
    },
}
