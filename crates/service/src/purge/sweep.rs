//! Which files of an Iceberg table does its purge delete, and in which order?
//!
//! A purge may be cut off at any file: the server ends, or a deletion fails. It is begun again then, and finds what is
//! left by the files that are left. So each file is deleted after all to which only it leads:
//!
//! 1. For each manifest, the data files that it names, if they are the table's own; then the manifest.
//! 2. The manifest lists, the statistics, and the metadata files of the log.
//! 3. The metadata file that the note names.
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
use crate::{AT_ONCE, Inner};

/// The deletions between two looks at the note.
const TOGETHER: usize = 4 * AT_ONCE;

/// The files that are remembered, so that those which several manifests or lists name are looked at once. Of a larger
/// table, some are looked at again.
const REMEMBERED: usize = 1 << 20;

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
}

impl<'a, E: Env, C: Grouped, F: Files> Sweep<'a, E, C, F> {
    pub(super) fn of(
        inner: &'a Inner<E, C, F>,
        note: (&'a Name, Option<&'a str>),
        (location, pointer): (&'a str, &'a str),
    ) -> Self {
        Self { inner, note, location, pointer, seen: BTreeSet::new() }
    }

    /// Deletes all files.
    pub(super) async fn run(mut self) -> Result<Noted, ServiceError> {
        let body = match self.inner.read_body::<TableMetadata>(self.pointer).await {
            Ok(body) => body,
            // An earlier run has deleted it, as the last file; or it was never a file of this server; or it cannot be
            // read, and names nothing that can be proved to be the table's.
            Err(error) if matches!(error.kind, Kind::NoFile | Kind::Broken) => return Ok(Noted::Still),
            Err(error) => return Err(error),
        };
        let (metadata, with_data) = (&body.metadata, collects(&body.metadata));
        // The library keeps snapshots in no order.
        let lists: BTreeSet<&str> = metadata.snapshots().map(|snapshot| snapshot.manifest_list()).collect();
        // Step 1.
        for list in &lists {
            if self.manifests_of(list, with_data).await? == Noted::NoMore {
                return Ok(Noted::NoMore);
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
        if self.noted().await? == Noted::NoMore {
            return Ok(Noted::NoMore);
        }
        self.inner.files.delete(self.pointer).await?;
        Ok(Noted::Still)
    }

    /// The manifests that a list names, with their data files if these are the table's own.
    async fn manifests_of(&mut self, list: &str, with_data: bool) -> Result<Noted, ServiceError> {
        let Some(manifests) = self.read_if_there(list).await?.and_then(|bytes| list_paths(&bytes).ok()) else {
            return Ok(Noted::Still);
        };
        for manifest in manifests {
            if !self.is_new(&manifest) {
                continue;
            }
            if with_data && self.data_of(&manifest).await? == Noted::NoMore {
                return Ok(Noted::NoMore);
            }
            if self.delete([manifest]).await? == Noted::NoMore {
                return Ok(Noted::NoMore);
            }
        }
        Ok(Noted::Still)
    }

    async fn data_of(&mut self, manifest: &str) -> Result<Noted, ServiceError> {
        let Some(bytes) = self.read_if_there(manifest).await? else { return Ok(Noted::Still) };
        let mut entry = 0;
        loop {
            // What cannot be decoded is left.
            let named = data_files(&bytes, entry).unwrap_or_default();
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

    /// Deletes those that are in the table's own folder. Not the metadata file: without it, nothing is found again.
    async fn delete(&self, files: impl IntoIterator<Item = String>) -> Result<Noted, ServiceError> {
        let mut own = files.into_iter().filter(|file| is_within(file, self.location) && !is_same(file, self.pointer));
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

    async fn read_if_there(&self, location: &str) -> Result<Option<bytes::Bytes>, ServiceError> {
        match self.inner.files.read(location).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(FileError::NotFound(_) | FileError::Outside { .. } | FileError::TooLarge { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}
