//! Listing keys in their byte order. The keys of a folder are adjacent in that order if the folder's name counts with
//! its slash. So each folder is read and sorted only when the listing reaches it, and folders that cannot contain
//! requested keys are never read.

use std::fs::File;

use glidepath_env::{Cause, Key, ListPage, Listed, ReadError};
use glidepath_model::ByteSize;
use rustix::fs::{Dir, FileType};
use rustix::io::Errno;

use super::folder::{Kind, Obstacle, Root, kind};
use super::names;

struct Listing<'a> {
    prefix: &'a str,
    after: Option<&'a str>,
}

impl Root {
    /// Symbolic links and unfinished files are not part of a listing. A listing is not a snapshot: files that come or
    /// go meanwhile may or may not be in it.
    pub(super) fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Result<ListPage, ReadError> {
        let listing = Listing { prefix, after };
        let mut page = ListPage::default();
        // All keys are in the folder that the prefix names up to its last slash.
        let folder = &prefix[..prefix.rfind('/').map_or(0, |slash| slash + 1)];
        if !parts(folder).iter().all(|part| names::is_part(part)) {
            return Ok(page);
        }
        let mut folders = vec![self.wanted_of(&listing, folder).map_err(failed)?.into_iter()];
        while let Some(folder) = folders.last_mut() {
            let Some(key) = folder.next() else {
                folders.pop();
                continue;
            };
            if key.ends_with('/') {
                let below = match self.wanted_of(&listing, &key) {
                    // Replaced by a link since its folder was read.
                    Err(Obstacle::Link(_)) => Vec::new(),
                    below => below.map_err(failed)?,
                };
                folders.push(below.into_iter());
                continue;
            }
            let Some(size) = self.size(&key).map_err(failed)? else { continue };
            if page.objects.len() == limit {
                page.more = true;
                break;
            }
            page.objects.push(Listed { key: Key::new(&key), size: ByteSize::from_bytes(size) });
        }
        Ok(page)
    }

    /// The keys of the files in a folder, and of the folders in it with a slash at the end, that may be part of the
    /// listing, in order.
    fn wanted_of(&self, listing: &Listing<'_>, begin: &str) -> Result<Vec<String>, Obstacle> {
        let parts = parts(begin);
        let folder = match self.folder(&parts) {
            Err(Obstacle::Missing(_) | Obstacle::File(_)) => return Ok(Vec::new()),
            folder => folder?,
        };
        let not_read = |error: Errno| self.failed(&parts, error.into());
        let mut found = Vec::new();
        for entry in Dir::read_from(&folder).map_err(not_read)? {
            let entry = entry.map_err(not_read)?;
            // No key has a name that is not UTF-8.
            let Ok(name) = entry.file_name().to_str() else { continue };
            if !names::is_part(name) {
                continue;
            }
            let is_folder = match kind_of_entry(&folder, name, entry.file_type()).map_err(not_read)? {
                Kind::File(_) => false,
                Kind::Folder => true,
                Kind::Nothing | Kind::Link | Kind::Other => continue,
            };
            let key = format!("{begin}{name}{}", if is_folder { "/" } else { "" });
            if if is_folder { listing.may_want_below(&key) } else { listing.wants(&key) } {
                found.push(key);
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// The size of a file; `None` if it was removed since its folder was read.
    fn size(&self, key: &str) -> Result<Option<u64>, Obstacle> {
        let mut parts = parts(key);
        let Some(name) = parts.pop() else { return Ok(None) };
        let folder = match self.folder(&parts) {
            Err(Obstacle::Missing(_) | Obstacle::File(_) | Obstacle::Link(_)) => return Ok(None),
            folder => folder?,
        };
        match kind(&folder, name).map_err(|error| self.failed(&[key], error.into()))? {
            Kind::File(size) => Ok(Some(size)),
            _ => Ok(None),
        }
    }
}

fn failed(obstacle: Obstacle) -> ReadError {
    ReadError::Failed(Cause::from_error(obstacle))
}

/// The parts of a key, or of the beginning of one that is empty or ends in a slash.
fn parts(begin: &str) -> Vec<&str> {
    begin.split_terminator('/').collect()
}

/// The kind of an entry; some file systems do not say it when a folder is read.
fn kind_of_entry(folder: &File, name: &str, said: FileType) -> rustix::io::Result<Kind> {
    match said {
        FileType::RegularFile => Ok(Kind::File(0)),
        FileType::Directory => Ok(Kind::Folder),
        FileType::Symlink => Ok(Kind::Link),
        FileType::Unknown => kind(folder, name),
        _ => Ok(Kind::Other),
    }
}

impl Listing<'_> {
    fn wants(&self, key: &str) -> bool {
        key.starts_with(self.prefix) && self.after.is_none_or(|after| key > after)
    }

    /// Whether a key with this beginning may be wanted.
    fn may_want_below(&self, begin: &str) -> bool {
        let within = begin.starts_with(self.prefix) || self.prefix.starts_with(begin);
        within && self.after.is_none_or(|after| begin > after || after.starts_with(begin))
    }
}
