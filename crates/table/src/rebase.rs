//! Which appends may be rebased instead of refused, and what becomes of one that is?
//!
//! An append whose branch moved since its client read the table conflicts by the letter of the protocol. Appends that
//! read nothing commute, so the server may put such an append on top of the branch instead: it writes a new manifest
//! list and keeps the snapshot's id, by which the client finds it. [`recognize`] decides by the request and the table's
//! metadata, [`rebase`] by the files; both refuse whatever could be more than an append.

mod ahead;
pub(crate) mod avro;
mod lineage;
mod list;
mod lists;
mod manifest;
mod reading;
mod recognize;
mod summary;
mod why;

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::try_join3;
use glidepath_env::Cause;
use iceberg::spec::{
    FormatVersion, ManifestContentType, ManifestFile, Snapshot, SnapshotRef, SnapshotReference, SnapshotRetention,
    TableMetadata,
};
use iceberg::{TableRequirement, TableUpdate};
use uuid::Uuid;

use crate::Files;
use crate::files::is_within;
use crate::mutant::{self, Mutant};
use list::{Header, Manifests, Others};
use manifest::{Added, Unfit};
use reading::{AT_ONCE, Large, Listed, listed};

pub use ahead::{ReadAhead, read_ahead, read_parents};
pub use list::{paths as list_paths, read as read_list, write as write_list};
pub use lists::Lists;
pub use manifest::files as data_files;
pub use recognize::{Asked, Candidate, Recognized, SUMMARY_KEY, TABLE_PROPERTY, recognize};
pub use why::Why;

/// An append on top of its branch. Nothing has been written.
#[derive(Clone, Debug)]
pub struct Rebased {
    /// Who asked for it.
    pub asked: Asked,
    /// What the commit requires now.
    pub requirements: Vec<TableRequirement>,
    /// What the commit does now: it adds the snapshot and sets the branch.
    pub updates: Vec<TableUpdate>,
    /// Where the manifest list of the snapshot must be written, before the commit.
    pub list_location: String,
    /// The manifest list.
    pub list: Bytes,
    /// The client's manifest list. Nothing refers to it after the commit. Delete it only then; some clients do so, too.
    pub replaced: String,
}

/// Why an append was not rebased. In each case, nothing was written.
#[derive(Clone, Debug, thiserror::Error)]
pub enum NotRebased {
    /// The commit took effect before: another request with it was faster. Answer with success.
    #[error("snapshot {0} is already in the history of the branch")]
    AlreadyThere(i64),
    /// It is not allowed: a conflict, for which the commit is certainly not applied.
    #[error("the commit conflicts and was not rebased: {0}")]
    Refused(Why),
    /// A file cannot be decoded: a conflict, too, or a bad request.
    #[error("the commit conflicts and was not rebased: {location} cannot be read: {what}")]
    Undecodable {
        /// The file.
        location: String,
        /// What is wrong with it.
        what: String,
    },
    /// The store did not give a file. The commit is certainly not applied, and may be tried again.
    #[error("the commit was not applied: {location}: {cause}")]
    Store {
        /// The file.
        location: String,
        /// The reason.
        cause: Cause,
    },
}

impl From<Why> for NotRebased {
    fn from(why: Why) -> Self {
        Self::Refused(why)
    }
}

/// Where a snapshot's manifest list goes. `fresh` was never used before.
#[must_use]
pub fn list_location(metadata: &TableMetadata, snapshot_id: i64, fresh: Uuid) -> String {
    let base = metadata.location().trim_end_matches('/');
    let folder = metadata.properties().get("write.metadata.path").map(|path| path.trim_end_matches('/'));
    let folder = folder.map_or_else(|| format!("{base}/metadata"), str::to_owned);
    format!("{folder}/snap-{snapshot_id}-rebased-{fresh}.avro")
}

/// Whether a manifest list has a name as a rebase gives: it may be that of a commit which was not done.
#[must_use]
pub fn is_rebased_list(list: &str) -> bool {
    list.rsplit('/').next().is_some_and(|name| name.starts_with("snap-") && name.contains("-rebased-"))
}

/// Puts an append on top of its branch. The candidate may have been recognized by older metadata; this looks again.
///
/// `metadata` may hold appends that were rebased just now and are not written yet, if their lists are still in `lists`:
/// so several appends become one commit. `now_ms` is the time since 1970; `fresh` a random number that was never used
/// before.
pub async fn rebase(
    candidate: &Candidate,
    metadata: &TableMetadata,
    files: &impl Files,
    lists: &Lists,
    fresh: Uuid,
    now_ms: i64,
) -> Result<Rebased, NotRebased> {
    rebase_read(candidate, None, metadata, files, lists, (fresh, now_ms)).await
}

/// The same, with the append's own files if they have been read.
pub async fn rebase_read(
    candidate: &Candidate,
    ahead: Option<&ReadAhead>,
    metadata: &TableMetadata,
    files: &impl Files,
    lists: &Lists,
    (fresh, now_ms): (Uuid, i64),
) -> Result<Rebased, NotRebased> {
    let snapshot = &candidate.snapshot;
    let id = snapshot.snapshot_id();
    is_of_table(metadata, snapshot.manifest_list())?;
    if let Some(head) = metadata.snapshot_for_ref(&candidate.branch)
        && metadata.snapshot_by_id(id).is_some()
        && recognize::ancestors(metadata, head).any(|s| s.snapshot_id() == id)
    {
        return Err(NotRebased::AlreadyThere(id));
    }
    let (asked, head) = recognize::applicable(candidate, metadata)?;
    let Some(parent) = metadata.snapshot_by_id(candidate.parent) else {
        return Err(Why::ParentGone(candidate.parent).into());
    };
    let mut large = Large::of(lists);
    let (before, now) = (listed(files, lists, metadata, parent), listed(files, lists, metadata, &head));
    let bytes = async {
        match ahead {
            Some(_) => Ok(None),
            None => reading::own_bytes(files, snapshot.manifest_list()).await,
        }
    };
    let (bytes, before, now) = try_join3(bytes, before, now).await?;
    let before = before.whole(files, &mut large, parent).await?;
    let now = now.whole(files, &mut large, &head).await?;
    let parents = (parent.manifest_list(), &*before);
    let own = match ahead {
        Some(ahead) => Cow::Borrowed(&ahead.own),
        None => Cow::Owned(reading::own((files, &mut large), (snapshot.manifest_list(), id), bytes, parents).await?),
    };
    let added = added(&own, metadata, parents, &now)?;
    let total = inspect_all((files, &mut large), ahead, &added, id).await?;

    let list_location = list_location(metadata, id, fresh);
    let top = compose(metadata, &added, &now)?;
    let moved = moved(candidate, metadata, &head, &top, total, now.len(), (&list_location, now_ms));
    let updates = updates(candidate, metadata, moved)?;
    let header = Header {
        version: metadata.format_version(),
        snapshot: id,
        parent: Some(head.snapshot_id()),
        sequence_number: metadata.next_sequence_number(),
        first_row_id: top.rows.map(|(first, _)| first),
    };
    let shared = lists.get_written(head.manifest_list()).and_then(|(_, blocks)| blocks);
    // Row ids may have been assigned to manifests of the head: then they are not what was written.
    let unchanged = |kept: &[Arc<ManifestFile>]| kept.iter().zip(now.iter()).all(|(kept, was)| Arc::ptr_eq(kept, was));
    let shared = shared.filter(|_| unchanged(&top.manifests[added.len()..]));
    let encoded = list::encode(&header, &top.manifests, shared.as_ref(), *fresh.as_bytes());
    let (list, blocks) = encoded.map_err(Why::Unfit)?;
    lists.insert(&list_location, Arc::new(top.manifests), Some(blocks));
    let requirements = candidate.requirements.iter().map(|requirement| match requirement {
        TableRequirement::RefSnapshotIdMatch { r#ref, .. } => {
            TableRequirement::RefSnapshotIdMatch { r#ref: r#ref.clone(), snapshot_id: Some(head.snapshot_id()) }
        }
        other => other.clone(),
    });
    Ok(Rebased {
        asked,
        requirements: requirements.collect(),
        updates,
        list_location,
        list: list.into(),
        replaced: snapshot.manifest_list().to_owned(),
    })
}

/// Whether a file is where clients write those of this table. The server reads no others for a client: they may be of a
/// table that the client may not read.
fn is_of_table(metadata: &TableMetadata, file: &str) -> Result<(), Why> {
    // The paths of data may be anywhere.
    let named = metadata.properties().get("write.metadata.path").map(String::as_str);
    let within = |folder: &str| is_within(file, folder) && !file.split('/').any(|part| part == "..");
    match std::iter::once(metadata.location()).chain(named).any(within) {
        true => Ok(()),
        false => Err(Why::Outside(format!("{file} is not in a folder of the table"))),
    }
}

/// These paths, each once.
fn each_once<'a>(paths: impl Iterator<Item = &'a str>) -> Result<HashSet<&'a str>, Why> {
    let mut found = HashSet::new();
    for path in paths {
        if !found.insert(path) {
            return Err(Why::Twice(path.to_owned()));
        }
    }
    Ok(found)
}

/// Whether the snapshot keeps the manifests of its parent, and lists no others but those that it adds.
fn keeps(own: &list::Own, list: &str, before: &Manifests) -> Result<(), Why> {
    // Clients keep the order, so usually nothing has to be searched.
    let others = match &own.others {
        others if others.are(list, before) => return Ok(()),
        // It was read when the parent had another list.
        Others::Of(other) => return Err(Why::NotOfParent(other.clone())),
        Others::Paths(paths) => paths,
    };
    let parents = || before.iter().map(|manifest| manifest.manifest_path.as_str());
    let others = || others.iter().map(AsRef::as_ref);
    let (mine, theirs) = (each_once(others())?, each_once(parents())?);
    for manifest in before {
        let live = manifest.has_added_files() || manifest.has_existing_files();
        if live && !mine.contains(manifest.manifest_path.as_str()) && !mutant::is(Mutant::LeftOutAllowed) {
            return Err(Why::LeftOut(manifest.manifest_path.clone()));
        }
    }
    match others().find(|path| !theirs.contains(path)) {
        Some(path) => Err(Why::NotOfParent(path.to_owned())),
        None => Ok(()),
    }
}

/// The manifests that the snapshot adds to those of its parent, `before`: if it only adds, and neither its parent nor
/// the head, which has the manifests `now`, has them.
fn added(
    own: &list::Own,
    metadata: &TableMetadata,
    (list, before): (&str, &Manifests),
    now: &Manifests,
) -> Result<Manifests, Why> {
    let version = (metadata.format_version() as u8).to_string();
    if let Some(commit) = own.version.as_ref().filter(|claimed| **claimed != version) {
        return Err(Why::Version { table: version, commit: commit.clone() });
    }
    let added = each_once(own.added.iter().map(|manifest| manifest.manifest_path.as_str()))?;
    let mut fresh: Vec<&str> = added.into_iter().collect();
    fresh.sort_unstable();
    let there = now.iter().chain(before).find(|old| fresh.binary_search(&old.manifest_path.as_str()).is_ok());
    if let Some(manifest) = there {
        return Err(Why::Listed(manifest.manifest_path.clone()));
    }
    keeps(own, list, before)?;
    let (default, spec) = (metadata.default_partition_spec_id(), metadata.default_partition_spec());
    for manifest in &own.added {
        let path = manifest.manifest_path.clone();
        is_of_table(metadata, &path)?;
        if manifest.content != ManifestContentType::Data {
            return Err(Why::Deletes(path));
        }
        if manifest.key_metadata.is_some() {
            return Err(Why::Encrypted);
        }
        if manifest.partition_spec_id != default {
            return Err(Why::Spec { manifest: path, spec: manifest.partition_spec_id, default });
        }
        let other_rows = [manifest.existing_rows_count, manifest.deleted_rows_count];
        let counts_others = other_rows.into_iter().flatten().any(|rows| rows > 0);
        if manifest.has_existing_files() || manifest.has_deleted_files() || counts_others {
            return Err(Why::EntryNotAdded(path));
        }
        let (summaries, fields) = (manifest.partitions.as_ref().map_or(0, Vec::len), spec.fields().len());
        if summaries > fields {
            return Err(Why::Unfit(format!(
                "{path} has summaries of {summaries} fields; the partitioning has {fields}"
            )));
        }
    }
    Ok(own.added.clone())
}

/// Reads the added manifests, and sums up what they add.
async fn inspect_all(
    (files, large): (&impl Files, &mut Large<'_>),
    ahead: Option<&ReadAhead>,
    added: &Manifests,
    id: i64,
) -> Result<Added, NotRebased> {
    let mut total = Added::default();
    if mutant::is(Mutant::ManifestsUnread) {
        let counted = |one: &Arc<ManifestFile>| {
            (u64::from(one.added_files_count.unwrap_or(0)), one.added_rows_count.unwrap_or(0))
        };
        let (files, rows) = added.iter().map(counted).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        return Ok(Added { files, rows, bytes: 0 });
    }
    for some in added.chunks(AT_ONCE) {
        let contents = reading::contents(files, ahead, some).await?;
        for (manifest, small) in some.iter().zip(contents) {
            let bytes = match small {
                Some(bytes) => bytes,
                None => reading::content(files, large, manifest).await?,
            };
            let one = manifest::inspect(&bytes, manifest, id).map_err(|unfit| match unfit {
                Unfit::Why(why) => why.into(),
                Unfit::Fault(what) => NotRebased::Undecodable { location: manifest.manifest_path.clone(), what },
            })?;
            total = total.and(one).ok_or_else(|| Why::Counts(manifest.manifest_path.clone()))?;
        }
    }
    Ok(total)
}

/// The manifests of the rebased snapshot.
struct Top {
    manifests: Manifests,
    /// The first of the row ids that are assigned to them, and how many. Of version 3.
    rows: Option<(u64, u64)>,
}

/// The added manifests and then the head's, as clients order them.
fn compose(metadata: &TableMetadata, added: &Manifests, head: &Manifests) -> Result<Top, Why> {
    let sequence_number = metadata.next_sequence_number();
    let fresh = added.iter().map(|manifest| {
        let manifest = ManifestFile {
            sequence_number,
            min_sequence_number: sequence_number,
            // The client assigned row ids that others may have by now.
            first_row_id: None,
            ..manifest.as_ref().clone()
        };
        Arc::new(manifest)
    });
    let mut manifests: Manifests = fresh.chain(head.iter().cloned()).collect();
    if metadata.format_version() < FormatVersion::V3 {
        return Ok(Top { manifests, rows: None });
    }
    let first = metadata.next_row_id();
    let mut next = first;
    // Manifests of the head may have no row ids either: if the table had an older format version when it was committed.
    for manifest in &mut manifests {
        if manifest.content == ManifestContentType::Data && manifest.first_row_id.is_none() {
            let rows = manifest.added_rows_count.zip(manifest.existing_rows_count).and_then(|(a, b)| a.checked_add(b));
            let after = rows.and_then(|rows| next.checked_add(rows)).filter(|after| i64::try_from(*after).is_ok());
            let Some(after) = after else {
                return Err(Why::Unfit(format!("manifest {} has no row counts to assign", manifest.manifest_path)));
            };
            Arc::make_mut(manifest).first_row_id = Some(next);
            next = after;
        }
    }
    Ok(Top { manifests, rows: Some((first, next - first)) })
}

/// The snapshot on top of the head.
fn moved(
    candidate: &Candidate,
    metadata: &TableMetadata,
    head: &SnapshotRef,
    top: &Top,
    total: Added,
    kept: usize,
    (location, now_ms): (&str, i64),
) -> Snapshot {
    let builder = Snapshot::builder()
        .with_snapshot_id(candidate.snapshot.snapshot_id())
        .with_parent_snapshot_id(Some(head.snapshot_id()))
        .with_sequence_number(metadata.next_sequence_number())
        .with_timestamp_ms(now_ms.max(metadata.last_updated_ms()).max(head.timestamp_ms()))
        .with_manifest_list(location)
        .with_summary(summary::on_top(candidate.snapshot.summary(), head.summary(), total, kept))
        .with_schema_id(metadata.current_schema_id());
    match top.rows {
        Some((first, rows)) => builder.with_row_range(first, rows).build(),
        None => builder.build(),
    }
}

/// The updates of the rebased commit, which the table takes. The branch keeps its retention: clients append without
/// saying what it is.
fn updates(candidate: &Candidate, metadata: &TableMetadata, moved: Snapshot) -> Result<Vec<TableUpdate>, Why> {
    let unfit = |e: iceberg::Error| Why::Unfit(e.message().to_owned());
    let builder = metadata.clone().into_builder(None);
    let built =
        builder.set_branch_snapshot(moved, &candidate.branch).and_then(iceberg::spec::TableMetadataBuilder::build);
    let updates = built.map_err(unfit)?.changes;
    let unset = SnapshotRetention::branch(None, None, None);
    for update in &updates {
        if let TableUpdate::SetSnapshotRef { reference: SnapshotReference { retention, .. }, .. } = update
            && candidate.retention != unset
            && candidate.retention != *retention
        {
            return Err(Why::Retention);
        }
    }
    Ok(updates)
}
