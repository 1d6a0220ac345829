//! This machine's file system behind the `Files` trait. Every call is done when it returns.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use glidepath_env::{Access, Files};
use glidepath_model::Instant;
use rustix::fs::OFlags;

/// The file system of this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Machine;

/// A clock for measuring how long a process has waited for a lock. While the machine sleeps, no process blocks another,
/// so the clock may stop then.
static BEGAN: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);

/// The same error; if access was denied, with the path. Errors of other kinds are handled or named where they are met.
fn at(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| match error.kind() {
        kind @ io::ErrorKind::PermissionDenied => io::Error::new(kind, format!("{}: {error}", path.display())),
        _ => error,
    }
}

impl Files for Machine {
    type File = File;

    async fn open(&self, path: &Path, access: Access) -> io::Result<File> {
        let mut options = File::options();
        match access {
            Access::Read => options.read(true),
            Access::Write => options.read(true).write(true),
            Access::New => options.read(true).write(true).create_new(true),
            Access::Either => options.read(true).write(true).create(true).truncate(false),
        };
        // Opening a pipe would wait for another program.
        options.custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path).map_err(at(path))
    }

    async fn read_at(&self, file: &File, buffer: &mut [u8], at: u64) -> io::Result<usize> {
        file.read_at(buffer, at)
    }

    async fn write_at(&self, file: &File, bytes: &[u8], at: u64) -> io::Result<usize> {
        file.write_at(bytes, at)
    }

    async fn set_len(&self, file: &File, length_bytes: u64) -> io::Result<()> {
        file.set_len(length_bytes)
    }

    async fn sync_file(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    /// Not `fdatasync`: it need not sync names that were added or removed.
    async fn sync_folder(&self, folder: &File) -> io::Result<()> {
        folder.sync_all()
    }

    async fn length(&self, path: &Path) -> io::Result<u64> {
        fs::metadata(path).map(|metadata| metadata.len()).map_err(at(path))
    }

    async fn is_link(&self, path: &Path) -> io::Result<bool> {
        match fs::symlink_metadata(path) {
            Ok(there) => Ok(there.is_symlink()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(at(path)(error)),
        }
    }

    async fn written_ms(&self, file: &File) -> io::Result<u64> {
        let since = file.metadata()?.modified()?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Ok(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    async fn leads_to(&self, path: &Path, file: &File) -> io::Result<bool> {
        let open = file.metadata()?;
        match fs::metadata(path) {
            Ok(there) => Ok((there.dev(), there.ino()) == (open.dev(), open.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(at(path)(error)),
        }
    }

    async fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to).map_err(at(to))
    }

    async fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path).map_err(at(path))
    }

    async fn create_folder(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path).map_err(at(path))
    }

    async fn remove_folder(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path).map_err(at(path))
    }

    async fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(folder).map_err(at(folder))? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    async fn try_lock(&self, file: &File) -> io::Result<bool> {
        match file.try_lock() {
            Ok(()) => Ok(true),
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }

    fn now(&self) -> Instant {
        Instant::from_nanos(u64::try_from(BEGAN.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Blocks, as every call here does.
    async fn sleep_until(&self, at: Instant) {
        std::thread::sleep(Duration::from_nanos(at.since(self.now()).as_nanos()));
    }

    fn draw(&self) -> u64 {
        rand::random()
    }
}
