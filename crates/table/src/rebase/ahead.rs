//! Files of appends that are read before it is known what the appends are put on top of.

use std::collections::BTreeMap;

use bytes::Bytes;
use futures_util::future::join;
use glidepath_env::together;
use iceberg::TableUpdate;
use iceberg::spec::{Operation, Snapshot, SnapshotRef, TableMetadata};

use super::list;
use super::{AT_ONCE, Listed, Lists, is_of_table, listed, recognize};
use crate::Files;

/// The most bytes of a list that is read ahead, and of all its manifests: many wait at once, at many tables, and
/// whoever leads reads what is larger.
const MOST_OF_A_LIST: u64 = 2 << 20;
const MOST_OF_MANIFESTS: u64 = 1 << 20;

/// The most bytes of memory of what such a list adds, and of the paths of others in it.
const MOST_OF_MEMORY: usize = 1 << 20;

/// Lists of parents that are read at once.
const PARENTS_AT_ONCE: usize = 64;

/// The files of an append, read before it is known what it is put on top of.
#[derive(Debug)]
pub struct ReadAhead {
    pub(super) own: list::Own,
    pub(super) contents: BTreeMap<String, Bytes>,
}

impl ReadAhead {
    /// About how many bytes of memory it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        const ITSELF: usize = 512;
        let contents: usize = self.contents.values().map(Bytes::len).sum();
        let added: usize = self.own.added.iter().map(|manifest| list::memory(manifest)).sum();
        ITSELF + contents + added + self.own.others.bytes()
    }
}

/// Reads the manifest list of an append and the manifests that it adds; so the files of several appends are read at
/// once, though they are rebased one after the other. Nothing if these updates add no append for which a rebase is
/// asked, or if a file cannot be read: [`rebase`](super::rebase()) then reads for itself, and says why. `owner`: as in
/// [`recognize()`](super::recognize()).
pub async fn read_ahead(
    updates: &[TableUpdate],
    metadata: &TableMetadata,
    owner: bool,
    files: &impl Files,
    lists: &Lists,
) -> Option<ReadAhead> {
    let snapshot = append(updates, metadata, owner)?;
    let parent = snapshot.parent_snapshot_id().and_then(|parent| metadata.snapshot_by_id(parent));
    // The list of the parent too: another server may have written it.
    let before = async {
        match parent {
            Some(parent) => listed(files, lists, metadata, parent).await.ok().and_then(Listed::manifests),
            None => None,
        }
    };
    let (bytes, before) = join(files.read_up_to(snapshot.manifest_list(), MOST_OF_A_LIST), before).await;
    let parent = parent.zip(before.as_deref()).map(|(parent, before)| (parent.manifest_list(), before));
    let own = list::decode_own(&bytes.ok()?, snapshot.snapshot_id(), parent, MOST_OF_MEMORY).ok()?;
    let mut room = MOST_OF_MANIFESTS;
    let added = own.added.iter().filter(|manifest| is_of_table(metadata, &manifest.manifest_path).is_ok());
    // A manifest that is longer than its list says is not read here.
    let fitting = added.take(AT_ONCE).filter_map(|manifest| {
        let length = u64::try_from(manifest.manifest_length).ok()?;
        room = room.checked_sub(length)?;
        Some((manifest.manifest_path.clone(), length))
    });
    let fitting: Vec<(String, u64)> = fitting.collect();
    let read = together(AT_ONCE, fitting.iter().map(|(path, length)| files.read_up_to(path, *length))).await;
    let contents = fitting.into_iter().zip(read).filter_map(|((path, _), read)| Some((path, read.ok()?)));
    Some(ReadAhead { contents: contents.collect(), own })
}

/// The append in these updates for which a rebase is asked.
fn append<'a>(updates: &'a [TableUpdate], metadata: &TableMetadata, owner: bool) -> Option<&'a Snapshot> {
    let snapshot = updates.iter().find_map(|update| match update {
        TableUpdate::AddSnapshot { snapshot } if snapshot.summary().operation == Operation::Append => Some(snapshot),
        _ => None,
    })?;
    let is_asked = recognize::is_asked(snapshot, metadata, owner);
    (is_asked && is_of_table(metadata, snapshot.manifest_list()).is_ok()).then_some(snapshot)
}

/// Reads the manifest lists of the parents of these appends at once, as [`read_ahead`] their own files: other servers
/// may have written them. A file that cannot be read is left to [`rebase`](super::rebase()).
pub async fn read_parents(
    appends: impl Iterator<Item = &[TableUpdate]>,
    metadata: &TableMetadata,
    owner: bool,
    files: &impl Files,
    lists: &Lists,
) {
    let parent = |updates| metadata.snapshot_by_id(append(updates, metadata, owner)?.parent_snapshot_id()?);
    let parents: BTreeMap<i64, &SnapshotRef> =
        appends.filter_map(parent).map(|parent| (parent.snapshot_id(), parent)).collect();
    let reads = parents.into_values().map(|parent| listed(files, lists, metadata, parent));
    together(PARENTS_AT_ONCE, reads).await;
}
