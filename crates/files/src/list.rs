//! Listing keys in their byte order. The keys of a folder are adjacent in that order, so each folder is read and sorted
//! only when the listing reaches it. It begins at the folder of its prefix, and folders that cannot contain requested
//! keys are never read.

use std::io;
use std::path::{Path, PathBuf};

use glidepath_env::{Access, Files, Key, ListPage, Listed, Payload, Tag};
use glidepath_model::ByteSize;

use crate::act::{ELOOP, concerns_one_file, is_no_file, named};
use crate::file;
use crate::folders::Folders;
use crate::names::{self, Entry, entry};

struct Listing<'a> {
    prefix: &'a [u8],
    after: Option<&'a [u8]>,
}

/// After so many folders a listing looks whether each is a link. Before, that would be a request more for each.
const LOOKED_AT_FROM: u32 = 10_000;

/// The most links that it follows from then on.
const MOST_LINKS: u32 = 1000;

/// For folders deeper than this, a listing counts the links on the path: [`Links`] begins anew with each page, and a
/// page may end before it has met many.
const DEEP: usize = 16;

/// The most links on the path to such a folder.
const MOST_ON_A_PATH: usize = 3;

/// The links that a listing has followed. A few of somebody else's can make 2^40 paths: two that lead to the folder in
/// which they are, or in each folder two to the next one.
#[derive(Default)]
struct Links {
    folders: u32,
    followed: u32,
    /// From now on none is followed.
    too_many: bool,
}

/// An item of a folder: the beginning of its key, whether it is an object, its path.
type FolderItem = (Vec<u8>, bool, PathBuf);

impl<F: Files> Folders<F> {
    /// A listing does not check whether what it shows is durable: it proves nothing.
    pub(crate) async fn list(&self, prefix: &Key, after: Option<&Key>, limit: usize) -> io::Result<ListPage> {
        let after = after.map(|key| key.as_str().as_bytes());
        let listing = Listing { prefix: prefix.as_str().as_bytes(), after };
        let mut page = ListPage::default();
        if prefix.as_str().len() > names::LONGEST_KEY {
            return Ok(page);
        }
        // The folders above are not read: they may have very many entries.
        let (first, begin) = names::folder(&self.objects, prefix.as_str());
        // At most as deep as keys have bytes.
        let mut folders =
            vec![self.wanted_of(&listing, &first, begin.as_bytes()).await?.unwrap_or_default().into_iter()];
        let mut links = Links::default();
        while let Some(folder) = folders.last_mut() {
            let Some((key, is_object, path)) = folder.next() else {
                folders.pop();
                continue;
            };
            if !is_object {
                let is_long = key.len() > names::LONGEST_KEY;
                if is_long || !self.follows(&mut links, &path).await? {
                    links.too_many |= is_long && self.links_to(&path).await? > 0;
                    continue;
                }
                if self.depth(&path) > DEEP && self.links_to(&path).await? > MOST_ON_A_PATH {
                    continue;
                }
                let wanted = self.wanted_of(&listing, &path, &key).await?;
                links.too_many |= wanted.is_none();
                folders.push(wanted.unwrap_or_default().into_iter());
                continue;
            }
            let Ok(key) = String::from_utf8(key) else { continue };
            let Some(size) = self.size(&path).await? else { continue };
            if page.objects.len() == limit {
                page.more = true;
                break;
            }
            page.objects.push(Listed { key: Key::new(&key), size });
        }
        Ok(page)
    }

    /// Whether a listing goes into this folder.
    async fn follows(&self, links: &mut Links, path: &Path) -> io::Result<bool> {
        links.folders += 1;
        if !links.too_many && links.folders < LOOKED_AT_FROM {
            return Ok(true);
        }
        if !self.files.is_link(path).await? {
            return Ok(true);
        }
        links.followed += 1;
        links.too_many |= links.followed > MOST_LINKS;
        Ok(!links.too_many)
    }

    fn depth(&self, path: &Path) -> usize {
        path.ancestors().take_while(|folder| **folder != *self.objects).count()
    }

    /// How many links lead there.
    async fn links_to(&self, path: &Path) -> io::Result<usize> {
        let mut links = 0;
        for folder in path.ancestors().take_while(|folder| **folder != *self.objects) {
            links += usize::from(self.files.is_link(folder).await?);
        }
        Ok(links)
    }

    /// The items of a folder that may be part of the listing, in order; `None` if too many links lead there.
    async fn wanted_of(&self, listing: &Listing<'_>, path: &Path, begin: &[u8]) -> io::Result<Option<Vec<FolderItem>>> {
        let names = match self.files.names(path).await {
            Ok(names) => names,
            // Emptied and removed since it was listed; or somebody else's file or links, which hold no objects.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Some(Vec::new()));
            }
            Err(error) if error.raw_os_error() == Some(ELOOP) => return Ok(None),
            Err(error) if is_no_file(&error) => return Ok(Some(Vec::new())),
            Err(error) => return Err(named(error, path)),
        };
        let mut found = Vec::new();
        for name in names {
            let (is_object, tail) = match entry(&name) {
                Some(Entry::Object(tail)) => (true, tail),
                Some(Entry::Folder(tail)) => (false, tail),
                None => continue,
            };
            let key = [begin, &tail].concat();
            let wanted = if is_object { listing.wants(&key) } else { listing.may_want_below(&key) };
            if wanted {
                found.push((key, is_object, path.join(name)));
            }
        }
        found.sort_unstable();
        Ok(Some(found))
    }

    /// The size of an object; `None` if it was deleted since it was listed. For a damaged object, what its file has
    /// room for: the damage concerns this object only, and the listing continues.
    async fn size(&self, path: &Path) -> io::Result<Option<ByteSize>> {
        let state = match self.files.open(path, Access::Read).await {
            Ok(file) => file::state(&self.files, &file).await,
            Err(error) => Err(error),
        };
        match state {
            Ok(state) => Ok(Some(ByteSize::from_bytes(state.length))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if concerns_one_file(&error) => {
                let length = self.files.length(path).await.unwrap_or(0);
                Ok(Some(ByteSize::from_bytes(length.saturating_sub(file::CONTENT))))
            }
            Err(error) => Err(named(error, path)),
        }
    }
}

/// The key, content and tag of an object's file, for tools that read a store's files directly. The path is relative to
/// the store's folder. `None` if it is not an object's file.
#[must_use]
pub fn shown(path: &Path, content: &[u8]) -> Option<(Key, Option<(Payload, Tag)>)> {
    let key = names::key(path.strip_prefix("objects").ok()?)?;
    Some((Key::new(&key), file::shown(content)))
}

impl Listing<'_> {
    fn wants(&self, key: &[u8]) -> bool {
        key.starts_with(self.prefix) && self.after.is_none_or(|after| key > after)
    }

    /// Whether a key with this beginning may be wanted.
    fn may_want_below(&self, begin: &[u8]) -> bool {
        let within = begin.starts_with(self.prefix) || self.prefix.starts_with(begin);
        within && self.after.is_none_or(|after| begin > after || after.starts_with(begin))
    }
}
