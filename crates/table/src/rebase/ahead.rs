//! Reading the files of several appends at once. They are put on top of each other one after the other, and each would
//! otherwise wait for its own two reads.

use std::collections::BTreeMap;

use bytes::Bytes;
use glidepath_env::together;
use iceberg::spec::TableMetadata;
use iceberg::{TableRequirement, TableUpdate};

use super::{list, recognize};
use crate::{FileError, Files};

/// An append that may have to be rebased, because others are put before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreseen {
    snapshot: i64,
    list: String,
}

/// What this commit reads if a commit before it moves its branch; `None` if it would not be rebased on this metadata.
#[must_use]
pub fn foresee(
    requirements: &[TableRequirement],
    updates: &[TableUpdate],
    metadata: &TableMetadata,
    owner: bool,
) -> Option<Foreseen> {
    let candidate = recognize::append_of(requirements, updates, owner).ok()?;
    recognize::applicable(&candidate, metadata).ok()?;
    let snapshot = &candidate.snapshot;
    Some(Foreseen { snapshot: snapshot.snapshot_id(), list: snapshot.manifest_list().to_owned() })
}

/// Files, some of which have been read already.
#[derive(Debug)]
pub struct Ahead<'a, F> {
    files: &'a F,
    read: BTreeMap<String, Bytes>,
}

impl<'a, F: Files> Ahead<'a, F> {
    /// Nothing has been read.
    pub fn nothing(files: &'a F) -> Self {
        Self { files, read: BTreeMap::new() }
    }

    /// Reads the manifest lists of these appends, and the manifests that they add, this many at once. What cannot be read
    /// or decoded is left out: it is read again by the one that needs it, who says what is wrong.
    pub async fn of(files: &'a F, appends: &[Foreseen], at_once: usize) -> Self {
        let lists = together(at_once, appends.iter().map(|append| files.read(&append.list))).await;
        let (mut read, mut added) = (BTreeMap::new(), Vec::new());
        for (append, bytes) in appends.iter().zip(lists) {
            let Ok(bytes) = bytes else { continue };
            let manifests = list::decode(&bytes).map(|list| list.manifests).unwrap_or_default();
            let own = manifests.iter().filter(|manifest| manifest.added_snapshot_id == append.snapshot);
            added.extend(own.map(|manifest| manifest.manifest_path.clone()));
            read.insert(append.list.clone(), bytes);
        }
        let contents = together(at_once, added.iter().map(|manifest| files.read(manifest))).await;
        let contents = added.into_iter().zip(contents);
        read.extend(contents.filter_map(|(location, bytes)| Some((location, bytes.ok()?))));
        Self { files, read }
    }
}

impl<F: Files> Files for Ahead<'_, F> {
    async fn read(&self, location: &str) -> Result<Bytes, FileError> {
        match self.read.get(location) {
            Some(bytes) => Ok(bytes.clone()),
            None => self.files.read(location).await,
        }
    }

    async fn write(&self, location: &str, bytes: Bytes) -> Result<(), FileError> {
        self.files.write(location, bytes).await
    }

    async fn delete(&self, location: &str) -> Result<(), FileError> {
        self.files.delete(location).await
    }

    async fn list(&self, folder: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>, FileError> {
        self.files.list(folder, after, limit).await
    }
}
