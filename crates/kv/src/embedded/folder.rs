//! How is a folder opened? By one process at a time, and only if it is in a format that this program knows.
//!
//! | file | what it is |
//! |---|---|
//! | `lock` | locked while the store is open |
//! | `cells` | the library's own folder |
//! | `cells.new` | the same, half made: a process was killed when it made it |
//! | `cells.away` | the same, on its way back: a process was killed when it wrote the name `cells` once more |
//! | `tables` | the names of the folders of all tables in `cells`; what it names and is missing was lost |
//! | `format` | the name and the version of the format; made last, so what is missing beside it was lost |

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

use fjall::Database;
use glidepath_env::Cause;

use super::EmbeddedOptions;
use super::renew;
use super::writer::cause;

/// Where the library keeps tables, each in a folder, and the file in it that the library makes last.
const TABLES: &str = "cells/keyspaces";
const CURRENT: &str = "current";

const NAME: &str = "glidepath cells";
const VERSION: u32 = 1;

/// Whether a folder is that of a store of cells, of any version.
#[must_use]
pub fn is_folder_of_cells(folder: &Path) -> bool {
    std::fs::read_to_string(folder.join("format")).is_ok_and(|format| format.starts_with(NAME))
}

/// Why a folder was not opened. It holds what it held before, unless it was new.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It is open elsewhere.
    #[error("{} is open already, in this process or in another: one process at a time may open it", .0.display())]
    Locked(PathBuf),
    /// It holds another format.
    #[error(
        "{} holds {found:?}, where this program knows {known:?} only: open it with the program that wrote it",
        folder.display()
    )]
    Format {
        /// The folder.
        folder: PathBuf,
        /// What its file `format` says.
        found: String,
        /// What it may say.
        known: String,
    },
    /// It holds files of something else.
    #[error("{} has no file `format` and is not empty: give an empty folder, or one that this program made", .0.display())]
    Foreign(PathBuf),
    /// A part of it is missing.
    #[error("{}: {missing} is missing, with what the store had there: put it back from a backup", folder.display())]
    Incomplete {
        /// The folder.
        folder: PathBuf,
        /// The part.
        missing: String,
    },
    /// The file system failed.
    #[error("{}: {step}: {error}", folder.display())]
    Files {
        /// The folder.
        folder: PathBuf,
        /// What was being done.
        step: &'static str,
        /// What the file system said.
        error: io::Error,
    },
    /// Its files have what the library never wrote.
    #[error(
        "{}: {step}: a file in its folder `cells` is damaged ({found}); put the whole folder back from a copy of it, and look at \
         the disk",
        folder.display()
    )]
    Damaged {
        /// The folder.
        folder: PathBuf,
        /// What was being done.
        step: &'static str,
        /// What the library stopped at.
        found: String,
    },
    /// The library could not open its files.
    #[error("{}: {step}: {error}", folder.display())]
    Library {
        /// The folder.
        folder: PathBuf,
        /// What was being done.
        step: &'static str,
        /// What the library said.
        error: Cause,
    },
}

/// A folder that this process has locked, with what is in it.
pub(super) struct Folder {
    /// Closed before the lock is given back.
    pub(super) database: Database,
    pub(super) path: PathBuf,
    /// Makes a file or a folder durable.
    pub(super) sync: fn(&File) -> io::Result<()>,
    _lock: Lock,
}

/// A locked file. Unlocked by a call and not only by closing it: a child process that is being started has a copy of
/// every open file for a moment, and would keep the lock.
struct Lock(File);

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing it unlocks it too.
        let _ = self.0.unlock();
    }
}

impl Folder {
    /// Opens it; makes it where there is none.
    pub(super) fn open(path: &Path, options: &EmbeddedOptions) -> Result<Self, OpenError> {
        let failed = |step| move |error| OpenError::Files { folder: path.to_owned(), step, error };
        make_durably(path).map_err(failed("making the folder"))?;
        let path = &path.canonicalize().map_err(failed("finding the folder"))?;
        let made = path.join("format").try_exists().map_err(failed("looking for the file `format`"))?;
        if !made && !is_ours(path).map_err(failed("listing the folder"))? {
            return Err(OpenError::Foreign(path.clone()));
        }
        let lock = File::options().write(true).create(true).truncate(false).open(path.join("lock"));
        let lock = lock.map_err(failed("opening the file `lock`"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(OpenError::Locked(path.clone())),
            Err(TryLockError::Error(error)) => return Err(failed("locking the file `lock`")(error)),
        }
        let lock = Lock(lock);
        let cells = path.join("cells");
        let is_whole = check_format(path)?;
        if !is_whole {
            name_again(path).map_err(failed("naming the folder `cells` once more"))?;
        }
        match cells.try_exists().map_err(failed("looking for the folder `cells`"))? {
            true => {}
            false if is_whole => return Err(missing(path, "the folder `cells`")),
            false => make(path, options)?,
        }
        renew::put_back(&cells).map_err(failed("putting folders of tables back"))?;
        // The library removes the folder of a table that it takes for one half made.
        check_tables(path)?;
        if !is_whole {
            write_format(path).map_err(failed("writing the file `format`"))?;
        }
        renew::renew(&cells, &File::sync_all).map_err(failed("writing the files of the cells once more"))?;
        let database = of_library(path, "opening the cells", || open_library(&cells, options))?;
        let folder = Self { database, path: path.clone(), sync: File::sync_all, _lock: lock };
        folder.sync_names().map_err(failed("syncing the names of tables' folders"))?;
        folder.list_tables().map_err(failed("writing the file `tables`"))?;
        Ok(folder)
    }

    /// Makes the name of each table's folder durable. The library syncs what is in such a folder, and its list of the
    /// tables, but not the name of the folder, without which it takes the table for dropped. After a failure no second
    /// call proves anything: the next opening writes the names once more.
    pub(super) fn sync_names(&self) -> io::Result<()> {
        (self.sync)(&File::open(self.path.join(TABLES))?)
    }

    /// Writes the file `tables`, unless it is as it should be.
    pub(super) fn list_tables(&self) -> io::Result<()> {
        let folders = self.path.join(TABLES);
        let mut names = Vec::new();
        for entry in fs::read_dir(&folders)? {
            names.extend(entry?.file_name().into_string());
        }
        names.retain(|name| folders.join(name).join(CURRENT).exists());
        names.sort_unstable();
        let text = names.iter().map(|name| format!("{name}\n")).collect::<String>();
        match fs::read(self.path.join("tables")) {
            Ok(found) if found == text.as_bytes() => Ok(()),
            _ => replace(&self.path, "tables", &text),
        }
    }
}

fn missing(path: &Path, missing: &str) -> OpenError {
    OpenError::Incomplete { folder: path.to_owned(), missing: missing.to_owned() }
}

/// An error if a table that the file `tables` names is not there.
fn check_tables(path: &Path) -> Result<(), OpenError> {
    let failed = |step| move |error| OpenError::Files { folder: path.to_owned(), step, error };
    let names = match fs::read_to_string(path.join("tables")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        names => names.map_err(failed("reading the file `tables`"))?,
    };
    for name in names.lines() {
        let file = format!("{TABLES}/{name}/{CURRENT}");
        if !path.join(&file).try_exists().map_err(failed("looking for the files of a table"))? {
            return Err(missing(path, &format!("the file `{file}`")));
        }
    }
    Ok(())
}

/// Whether there is nothing but what an interrupted opening leaves, which may be all but the file `format`.
fn is_ours(path: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        // `cells` alone would be somebody else's.
        let has_lock = (name == "cells" || name == "cells.away") && path.join("lock").try_exists()?;
        let others = ["lock", "tables", "tables.new", "format.new", "cells.new", "lost+found"];
        if !has_lock && !others.iter().any(|other| name == *other) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Makes a folder and those that it is in, and syncs the names of those that were missing.
fn make_durably(path: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = path.ancestors().take_while(|folder| !folder.exists()).collect();
    fs::create_dir_all(path)?;
    for made in &missing {
        let synced = match made.parent() {
            Some(parent) if parent.as_os_str().is_empty() => sync_folder(Path::new(".")),
            Some(parent) => sync_folder(parent),
            None => Ok(()),
        };
        if synced.is_err() {
            // No later sync makes a name durable, so they must be made again. They are empty, or somebody else's by
            // now.
            for made in &missing {
                let _ = fs::remove_dir(made);
            }
            return synced;
        }
    }
    Ok(())
}

/// Moves the folder `cells`, if there is one, away and back, which writes its name once more: an earlier opening, which
/// did not come to its end, may have failed to sync it. Also brings it back if that was killed here.
fn name_again(path: &Path) -> io::Result<()> {
    let (cells, away) = (path.join("cells"), path.join("cells.away"));
    let opened = File::open(path)?;
    for (from, to) in [(&cells, &away), (&away, &cells)] {
        match fs::rename(from, to) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    opened.sync_all()
}

/// Reads the file `format`; `false` if there is none.
fn check_format(path: &Path) -> Result<bool, OpenError> {
    let failed = |step| move |error| OpenError::Files { folder: path.to_owned(), step, error };
    let (file, known) = (path.join("format"), format!("{NAME}, version {VERSION}\n"));
    match fs::read(&file) {
        Ok(found) if found == known.as_bytes() => Ok(true),
        Ok(found) => {
            let found = String::from_utf8_lossy(&found[..found.len().min(100)]).trim_end().to_owned();
            Err(OpenError::Format { folder: path.to_owned(), found, known: known.trim_end().to_owned() })
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(failed("reading the file `format`")(error)),
    }
}

/// Writes the file `format`.
fn write_format(path: &Path) -> io::Result<()> {
    replace(path, "format", &format!("{NAME}, version {VERSION}\n"))?;
    path.parent().map_or(Ok(()), sync_folder)
}

/// Writes a file beside its place and renames it, so that a process that is killed leaves none half written.
fn replace(path: &Path, name: &str, text: &str) -> io::Result<()> {
    let beside = path.join(format!("{name}.new"));
    let mut new = File::create(&beside)?;
    new.write_all(text.as_bytes())?;
    new.sync_all()?;
    fs::rename(&beside, path.join(name))?;
    sync_folder(path).inspect_err(|_| {
        // No later sync makes its name durable, so it must be written again.
        let _ = fs::remove_file(path.join(name));
    })
}

/// Makes the library's folder beside its place and renames it: the library cannot go on from one that is half made.
fn make(path: &Path, options: &EmbeddedOptions) -> Result<(), OpenError> {
    let failed = |step| move |error| OpenError::Files { folder: path.to_owned(), step, error };
    let new = path.join("cells.new");
    match fs::remove_dir_all(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed("removing `cells.new`")(error)),
        _ => {}
    }
    drop(of_library(path, "making the cells", || open_library(&new, options))?);
    sync_folder(&new.join("keyspaces")).and_then(|()| sync_folder(&new)).map_err(failed("syncing `cells.new`"))?;
    fs::rename(&new, path.join("cells")).map_err(failed("naming the folder `cells`"))?;
    sync_folder(path).map_err(failed("syncing the folder"))
}

fn open_library(cells: &Path, options: &EmbeddedOptions) -> Result<Database, fjall::Error> {
    let EmbeddedOptions { cache_bytes, .. } = options;
    Database::builder(cells).cache_size(*cache_bytes).manual_journal_persist(true).open()
}

/// What the library returns. It panics at some files with a flipped bit, where others are an error: no panic of ours,
/// so it is told as an error too. Nothing that it had begun is used afterwards.
pub(super) fn of_library<T>(
    path: &Path,
    step: &'static str,
    call: impl FnOnce() -> Result<T, fjall::Error>,
) -> Result<T, OpenError> {
    let folder = path.to_owned();
    match std::panic::catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(opened)) => Ok(opened),
        Ok(Err(fjall::Error::Locked)) => Err(OpenError::Locked(folder)),
        Ok(Err(error)) => Err(OpenError::Library { folder, step, error: cause(error) }),
        Err(panic) => {
            let words = panic.downcast_ref::<&str>().map(|words| (*words).to_owned());
            let words = words.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
            // Without the values of the failed comparison, which are on further lines.
            let found = words.lines().next().unwrap_or("the library does not say where").to_owned();
            Err(OpenError::Damaged { folder, step, found })
        }
    }
}

fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}
