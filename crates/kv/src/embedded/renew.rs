//! What of an earlier process's files may an opening trust? Only what it has written once more.
//!
//! After a failed sync, Linux counts the lost pages as written. They can still be read, and the next sync has nothing
//! to write and succeeds; a power cut takes them away (`docs/decisions/0009-what-a-failed-fsync-leaves.md`). The
//! library believes what it reads and only syncs again. So each opening copies these files before the library reads
//! them:
//!
//! | file | what would be lost |
//! |---|---|
//! | `cells/NUMBER.jnl`, the journals | a write whose sync failed, which a retry finds and takes for durable; and with it all that is appended behind it, because a journal is read up to the first gap |
//! | `cells/keyspaces/NUMBER/current`, which names the files of a table | everything: the library removes older files, and journals, once a new `current` is visible |
//!
//! A copy gets the name of a file beside it, is synced, and is renamed over the original; then the folder is synced.
//! The folders `cells/keyspaces/NUMBER` are moved away and back, which writes their names once more. The library synced
//! everything else before it wrote a `current` that needs it.
//!
//! Nothing can tell an opening that the copies are not needed. The process before may have been killed before its sync,
//! and then it is the kernel whose write fails, and nobody hears of it.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

/// The end of a copy's name. The library passes over such files.
const COPY: &str = ".new";

/// The end of the name of a table's folder while it is away. The library stops at such a name.
const AWAY: &str = ".away";

/// How much is copied at once.
const PART: usize = 64 << 10;
static ZEROS: [u8; PART] = [0; PART];

/// Makes a file or a folder durable; tests have one that fails.
pub(super) type Sync<'s> = &'s dyn Fn(&File) -> io::Result<()>;

/// Puts the folders of tables back whose opening was killed while it moved them. Only while no other process has the
/// folder open, as all below.
pub(super) fn put_back(cells: &Path) -> io::Result<()> {
    let tables = cells.join("keyspaces");
    if !tables.try_exists()? {
        return Ok(());
    }
    for name in names(&tables)? {
        if let Some(place) = name.strip_suffix(AWAY) {
            let away = tables.join(&name);
            fs::rename(&away, tables.join(place)).map_err(|error| told(&away, &error))?;
        }
    }
    Ok(())
}

/// Writes the files and the names of the library's folder once more.
pub(super) fn renew(cells: &Path, sync: Sync<'_>) -> io::Result<()> {
    renew_files(cells, is_journal, sync)?;
    let tables = cells.join("keyspaces");
    // Opened before a name changes: a handle is told of each sync that fails from then on, also of another handle's.
    let opened = File::open(&tables)?;
    for name in names(&tables)? {
        let place = tables.join(&name);
        if name.parse::<u64>().is_ok() && fs::symlink_metadata(&place)?.is_dir() {
            renew_files(&place, |name| name == "current", sync)?;
            // Beside its place, so that one sync covers both names.
            let away = tables.join(format!("{name}{AWAY}"));
            let moved = fs::rename(&place, &away).and_then(|()| fs::rename(&away, &place));
            moved.map_err(|error| told(&place, &error))?;
        }
    }
    sync(&opened).map_err(|error| told(&tables, &error))
}

/// What is in a folder, in order. All names that are meant here are text.
fn names(folder: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder)? {
        names.extend(entry?.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

/// As the library decides it. It reads all journals that there are, and removes one when its cells are in other files.
fn is_journal(name: &str) -> bool {
    name.strip_suffix(".jnl").is_some_and(|number| number.parse::<u64>().is_ok())
}

fn renew_files(folder: &Path, is_meant: fn(&str) -> bool, sync: Sync<'_>) -> io::Result<()> {
    let opened = File::open(folder)?;
    let (copies, others): (Vec<_>, Vec<_>) = names(folder)?.into_iter().partition(|name| name.ends_with(COPY));
    for name in copies.iter().filter(|name| name.strip_suffix(COPY).is_some_and(is_meant)) {
        // A process was killed while it copied.
        let path = folder.join(name);
        fs::remove_file(&path).map_err(|error| told(&path, &error))?;
    }
    for name in others.iter().filter(|name| is_meant(name)) {
        renew_file(folder, name, sync).map_err(|error| told(&folder.join(name), &error))?;
    }
    sync(&opened).map_err(|error| told(folder, &error))
}

fn renew_file(folder: &Path, name: &str, sync: Sync<'_>) -> io::Result<()> {
    let (place, beside) = (folder.join(name), folder.join(format!("{name}{COPY}")));
    let written = copy(&place, &beside).and_then(|copy| sync(&copy)).and_then(|()| fs::rename(&beside, &place));
    if written.is_err() {
        // It may take the room that others need. If it stays, the next opening removes it.
        let _ = fs::remove_file(&beside);
    }
    written
}

/// A copy with the same bytes and the same access. Long runs of zeros take no room in it: the library makes a journal
/// 64 MB long before it writes to it.
fn copy(from: &Path, to: &Path) -> io::Result<File> {
    let (from, mut to) = (File::open(from)?, File::create_new(to)?);
    let metadata = from.metadata()?;
    let mut part = Vec::with_capacity(PART);
    loop {
        part.clear();
        (&from).take(PART as u64).read_to_end(&mut part)?;
        match part.len() {
            0 => break,
            length if part == ZEROS[..length] => drop(to.seek(SeekFrom::Current(length as i64))?),
            _ => to.write_all(&part)?,
        }
    }
    to.set_len(metadata.len())?;
    to.set_permissions(metadata.permissions())?;
    // An administrator's command must not take the journal away from the user that the server runs as. Others may not
    // give files away, and need not.
    #[cfg(unix)]
    let _ = {
        use std::os::unix::fs::{MetadataExt, fchown};
        fchown(&to, Some(metadata.uid()), Some(metadata.gid()))
    };
    Ok(to)
}

fn told(path: &Path, error: &io::Error) -> io::Error {
    let advice = "see that the disk works and has room for a copy of this file, then open the store again";
    io::Error::new(error.kind(), format!("{}: {error}; {advice}", path.display()))
}
