//! How are keys listed in their byte order? Folder by folder: what a folder holds lies together in that order, so each is
//! read and sorted only when the listing gets there, and folders that cannot hold what is asked for are never read.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use glidepath_env::{Cause, Key, Listed, Page, ReadError};
use glidepath_model::ByteSize;

use super::file;
use super::folders::Folders;
use super::names::{Entry, entry};

struct Listing<'a> {
    prefix: &'a [u8],
    after: Option<&'a [u8]>,
    limit: usize,
    page: Page,
}

pub(super) fn list(folders: &Folders, prefix: &Key, after: Option<&Key>, limit: usize) -> Result<Page, ReadError> {
    let after = after.map(|key| key.as_str().as_bytes());
    let mut listing = Listing { prefix: prefix.as_str().as_bytes(), after, limit, page: Page::default() };
    listing.folder(&folders.objects, &[]).map_err(|error| ReadError::Failed(Cause::from_error(error)))?;
    Ok(listing.page)
}

impl Listing<'_> {
    /// Lists a folder whose keys begin with `begin`. No deeper than a key has bytes.
    fn folder(&mut self, path: &Path, begin: &[u8]) -> io::Result<()> {
        for (key, is_object, path) in self.entries(path, begin)? {
            if self.page.more {
                break;
            }
            if is_object {
                self.object(key, &path)?;
            } else {
                self.folder(&path, &key)?;
            }
        }
        Ok(())
    }

    /// Whatever in a folder may be part of the listing, in order.
    fn entries(&self, path: &Path, begin: &[u8]) -> io::Result<Vec<(Vec<u8>, bool, PathBuf)>> {
        let entries = match fs::read_dir(path) {
            Ok(entries) => entries,
            // Emptied and removed since it was seen.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut found = Vec::new();
        for dir_entry in entries {
            let dir_entry = dir_entry?;
            let name = dir_entry.file_name();
            let Some(entry) = name.to_str().and_then(entry) else { continue };
            let (is_object, tail) = match entry {
                Entry::Object(tail) => (true, tail),
                Entry::Folder(tail) => (false, tail),
            };
            let key = [begin, &tail].concat();
            let wanted = if is_object { self.wants(&key) } else { self.may_want_below(&key) };
            if wanted {
                found.push((key, is_object, dir_entry.path()));
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    fn wants(&self, key: &[u8]) -> bool {
        key.starts_with(self.prefix) && self.after.is_none_or(|after| key > after)
    }

    /// Whether a key that begins so may be wanted.
    fn may_want_below(&self, begin: &[u8]) -> bool {
        let within = begin.starts_with(self.prefix) || self.prefix.starts_with(begin);
        within && self.after.is_none_or(|after| begin > after || after.starts_with(begin))
    }

    fn object(&mut self, key: Vec<u8>, path: &Path) -> io::Result<()> {
        let Ok(key) = String::from_utf8(key) else { return Ok(()) };
        let size = match File::open(path).and_then(|file| file::state(&file)) {
            Ok(state) => ByteSize::from_bytes(state.length),
            // Deleted since it was seen.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        if self.page.objects.len() == self.limit {
            self.page.more = true;
        } else {
            self.page.objects.push(Listed { key: Key::new(&key), size });
        }
        Ok(())
    }
}
