//! Which files of an Iceberg table does its purge delete, and in which order?
//!
//! A purge may be cut off at any file: the server ends, or a deletion fails. It is begun again then, and finds what is
//! left by the files that are left. So each file is deleted after all to which only it leads:
//!
//! 1. For each manifest, the data files that it names, if they are the table's own; then the manifest.
//! 2. The manifest lists, the statistics, and the metadata files of the log.
//! 3. The metadata file that the note names.
//!
//! A file that cannot be read stays, because nothing else names what it names. So does each file that leads to it: then
//! somebody can still find the rest by hand.
//!
//! A table may have any number of files. At a time, the paths of one list, or of a part of one manifest, are in memory.
//!
//! Another server may be at the same purge, and end it while this one sleeps; then anybody may put files there again.
//! So the note is read again before each few deletions.

use std::collections::BTreeSet;

use glidepath_env::Env;
use glidepath_model::Name;
use glidepath_protocols::group::Grouped;
use glidepath_table::rebase::{data_files, list_paths};
use glidepath_table::{FileError, Files};
use iceberg::spec::TableMetadata;
use sha2::{Digest as _, Sha256};

use super::collects;
use crate::error::{Kind, ServiceError};
use crate::locations::{is_same, is_within};
use crate::mutant::{self, Mutant};
use crate::{AT_ONCE, Inner};

/// The deletions between two looks at the note.
const TOGETHER: usize = 4 * AT_ONCE;

/// The files that are remembered, so that those which several manifests or lists name are looked at once. Of a larger
/// table, some are looked at again.
const REMEMBERED: usize = 1 << 20;

/// The files that stay, at which a purge gives up. No tool writes a table with so many that cannot be read.
const MOST_KEPT: usize = 1000;

/// The files that stay: those that cannot be read, and those that lead to them.
pub(super) type Kept = BTreeSet<String>;

/// Whether a purge may go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Noted {
    Still,
    /// Its note is gone, or is another one.
    NoMore,
}

/// The purge of a table.
pub(super) struct Sweep<'a, E: Env, C: Grouped, F: Files> {
    inner: &'a Inner<E, C, F>,
    /// The name of the note, and what tells it from others.
    note: (&'a Name, Option<&'a str>),
    /// The folder of the table, and the metadata file that the note names.
    location: &'a str,
    pointer: &'a str,
    seen: BTreeSet<[u8; 16]>,
    kept: Kept,
}

impl<'a, E: Env, C: Grouped, F: Files> Sweep<'a, E, C, F> {
    pub(super) fn of(
        inner: &'a Inner<E, C, F>,
        note: (&'a Name, Option<&'a str>),
        (location, pointer): (&'a str, &'a str),
    ) -> Self {
        Self { inner, note, location, pointer, seen: BTreeSet::new(), kept: Kept::new() }
    }

    /// Deletes all files but those that it returns. `None`: the note is gone.
    pub(super) async fn run(mut self) -> Result<Option<Kept>, ServiceError> {
        Ok((self.sweep().await? == Noted::Still).then_some(self.kept))
    }

    async fn sweep(&mut self) -> Result<Noted, ServiceError> {
        let body = match self.inner.read_body::<TableMetadata>(self.pointer).await {
            Ok(body) => body,
            // An earlier run has deleted it, as the last file; or it was never a file of this server.
            Err(error) if error.kind == Kind::NoFile => return Ok(Noted::Still),
            Err(error) if error.kind == Kind::Broken => {
                self.kept.insert(self.pointer.to_owned());
                return Ok(Noted::Still);
            }
            Err(error) => return Err(error),
        };
        if mutant::is(Mutant::PurgedBackwards) {
            self.inner.files.delete(self.pointer).await?;
        }
        let (metadata, with_data) = (&body.metadata, collects(&body.metadata));
        // The library keeps snapshots in no order.
        let lists: BTreeSet<&str> = metadata.snapshots().map(|snapshot| snapshot.manifest_list()).collect();
        // Step 1.
        for list in &lists {
            if self.manifests_of(list, with_data).await? == Noted::NoMore {
                return Ok(Noted::NoMore);
            }
            if self.kept.len() > MOST_KEPT {
                self.kept.insert(self.pointer.to_owned());
                return Ok(Noted::Still);
            }
        }
        // Step 2.
        let log = metadata.metadata_log().iter().map(|log| log.metadata_file.clone());
        let statistics = metadata.statistics_iter().map(|file| file.statistics_path.clone());
        let partitions = metadata.partition_statistics_iter().map(|file| file.statistics_path.clone());
        let others: BTreeSet<String> =
            log.chain(statistics).chain(partitions).chain(lists.iter().map(|&list| list.to_owned())).collect();
        if self.delete(others).await? == Noted::NoMore {
            return Ok(Noted::NoMore);
        }
        // Step 3.
        if !self.kept.is_empty() {
            self.kept.insert(self.pointer.to_owned());
            return Ok(Noted::Still);
        }
        if self.noted().await? == Noted::NoMore {
            return Ok(Noted::NoMore);
        }
        self.inner.files.delete(self.pointer).await?;
        Ok(Noted::Still)
    }

    /// The manifests that a list names, with their data files if these are the table's own.
    async fn manifests_of(&mut self, list: &str, with_data: bool) -> Result<Noted, ServiceError> {
        let Some(bytes) = self.read_if_there(list).await? else { return Ok(Noted::Still) };
        let Ok(manifests) = list_paths(&bytes) else {
            self.kept.insert(list.to_owned());
            return Ok(Noted::Still);
        };
        for manifest in manifests {
            if self.is_new(&manifest) {
                if with_data && self.data_of(&manifest).await? == Noted::NoMore {
                    return Ok(Noted::NoMore);
                }
                if self.delete([manifest.clone()]).await? == Noted::NoMore {
                    return Ok(Noted::NoMore);
                }
            }
            if self.kept.contains(&manifest) {
                self.kept.insert(list.to_owned());
            }
            if self.kept.len() > MOST_KEPT {
                return Ok(Noted::Still);
            }
        }
        Ok(Noted::Still)
    }

    async fn data_of(&mut self, manifest: &str) -> Result<Noted, ServiceError> {
        let Some(bytes) = self.read_if_there(manifest).await? else { return Ok(Noted::Still) };
        let mut entry = 0;
        loop {
            let Ok(named) = data_files(&bytes, entry) else {
                self.kept.insert(manifest.to_owned());
                return Ok(Noted::Still);
            };
            if named.is_empty() {
                return Ok(Noted::Still);
            }
            entry += named.len();
            let new: Vec<String> = named.into_iter().filter(|file| self.is_new(file)).collect();
            if self.delete(new).await? == Noted::NoMore {
                return Ok(Noted::NoMore);
            }
        }
    }

    /// Deletes those that are in the table's own folder and do not stay. Not the metadata file: without it, nothing is
    /// found again.
    async fn delete(&self, files: impl IntoIterator<Item = String>) -> Result<Noted, ServiceError> {
        let is_own = |file: &String| is_within(file, self.location) && !is_same(file, self.pointer);
        let mut own = files.into_iter().filter(|file| is_own(file) && !self.kept.contains(file));
        loop {
            let some: Vec<String> = own.by_ref().take(TOGETHER).collect();
            if some.is_empty() {
                return Ok(Noted::Still);
            }
            if self.noted().await? == Noted::NoMore {
                return Ok(Noted::NoMore);
            }
            for deleted in glidepath_env::together(AT_ONCE, some.iter().map(|file| self.inner.files.delete(file))).await
            {
                match deleted {
                    // Whoever wrote the metadata may name what is no file of this server.
                    Ok(()) | Err(FileError::Outside { .. }) => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }

    async fn noted(&self) -> Result<Noted, ServiceError> {
        let (at, (name, pointer)) = (self.inner.head().await?, self.note);
        let now = self.inner.committer.catalog().entry(&at, name).await?;
        Ok(match now.is_some_and(|now| now.pointer.as_deref() == pointer) {
            true => Noted::Still,
            false => Noted::NoMore,
        })
    }

    /// Whether this file has not been seen, as far as is remembered.
    fn is_new(&mut self, file: &str) -> bool {
        let mut digest = [0; 16];
        digest.copy_from_slice(&Sha256::digest(file)[..16]);
        match self.seen.len() < REMEMBERED {
            true => self.seen.insert(digest),
            false => !self.seen.contains(&digest),
        }
    }

    /// The content of a file, if it is there and is not too large. One that cannot be read stays.
    async fn read_if_there(&mut self, location: &str) -> Result<Option<bytes::Bytes>, ServiceError> {
        match self.inner.files.read(location).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(FileError::NotFound(_)) => Ok(None),
            Err(FileError::Outside { .. } | FileError::TooLarge { .. }) => {
                self.kept.insert(location.to_owned());
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }
}
