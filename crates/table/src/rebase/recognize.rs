//! Which commits are appends that may be rebased? Decided by the request and the table's metadata alone.

use std::collections::BTreeSet;

use iceberg::spec::{
    FormatVersion, Operation, Snapshot, SnapshotRef, SnapshotReference, SnapshotRetention, TableMetadata,
};
use iceberg::{TableRequirement, TableUpdate};

use super::lineage::Lineage;
use super::why::Why;
use crate::mutant::{self, Mutant};

/// The property of a table that asks for all its appends to be rebased: `true`.
pub const TABLE_PROPERTY: &str = "glidepath.append-rebase";
/// The key in a snapshot's summary that asks for this append to be rebased, `true`, or forbids it.
pub const SUMMARY_KEY: &str = "append-rebase";

/// What the summary of a cherry-picked snapshot names: the snapshot that it repeats, and the staged work that it
/// publishes.
const PUBLISHES: [&str; 2] = ["source-snapshot-id", "published-wap-id"];

const ISOLATION_LEVELS: [&str; 3] =
    ["write.delete.isolation-level", "write.update.isolation-level", "write.merge.isolation-level"];

/// Who asked for the rebase. It must be asked for: an overwrite of a client that found nothing to delete looks like an
/// append, and is validated by the client only if it is told of the conflict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The table, by [`TABLE_PROPERTY`].
    Table,
    /// The commit, by [`SUMMARY_KEY`].
    Commit,
    /// The server's owner, for tables whose isolation levels are all `snapshot`, where only appends lie between.
    Owner,
}

/// What a commit is.
#[derive(Clone, Debug)]
pub enum Recognized {
    /// It took effect before: its snapshots are in the history of their branches. Answer with success. A client that is
    /// told of a conflict deletes files of the table, or sets the branch back.
    AlreadyThere,
    /// An append that may be rebased, if its files allow it.
    Candidate(Box<Candidate>),
    /// Not to be rebased.
    No(Why),
}

/// An append that may be rebased.
#[derive(Clone, Debug)]
pub struct Candidate {
    pub(super) snapshot: Snapshot,
    /// The snapshot that the client saw at the head of the branch.
    pub(super) parent: i64,
    pub(super) branch: String,
    pub(super) retention: SnapshotRetention,
    pub(super) requirements: Vec<TableRequirement>,
    owner: bool,
}

impl Candidate {
    /// The id of the snapshot, before and after.
    #[must_use]
    pub fn snapshot_id(&self) -> i64 {
        self.snapshot.snapshot_id()
    }

    /// The branch.
    #[must_use]
    pub fn branch(&self) -> &str {
        &self.branch
    }
}

/// What is this commit to a table with this metadata? `owner`: the server's owner asks for rebases, see
/// [`Asked::Owner`].
#[must_use]
pub fn recognize(
    requirements: &[TableRequirement],
    updates: &[TableUpdate],
    metadata: &TableMetadata,
    owner: bool,
) -> Recognized {
    if already_there(requirements, updates, metadata) {
        return Recognized::AlreadyThere;
    }
    let candidate = match append_of(requirements, updates, owner) {
        Ok(candidate) => candidate,
        Err(why) => return Recognized::No(why),
    };
    match applicable(&candidate, metadata) {
        Ok((_, head)) if !stale(&candidate, &head, metadata) => Recognized::No(Why::NotStale),
        Ok(_) => Recognized::Candidate(Box::new(candidate)),
        Err(why) => Recognized::No(why),
    }
}

/// Whether the commit took effect before. A commit does so as a whole, so its snapshots and branches tell for all of
/// it.
fn already_there(requirements: &[TableRequirement], updates: &[TableUpdate], metadata: &TableMetadata) -> bool {
    let added = updates.iter().filter_map(|update| match update {
        TableUpdate::AddSnapshot { snapshot } => Some(snapshot),
        _ => None,
    });
    let added: Vec<&Snapshot> = added.collect();
    let stored = |s: &Snapshot| {
        let stored = metadata.snapshot_by_id(s.snapshot_id());
        stored.is_some_and(|stored| stored.summary().operation == s.summary().operation)
    };
    // Most commits are new, and histories are long.
    if added.is_empty() || !added.iter().all(|snapshot| stored(snapshot)) {
        return false;
    }
    let sets_branch = |update: &TableUpdate| match update {
        TableUpdate::SetSnapshotRef { reference, .. } => reference.is_branch(),
        _ => false,
    };
    if !updates.iter().any(sets_branch) {
        // Staged, to be published later: in no branch, and never rebased, so it has the list that it came with.
        let same = |s: &Snapshot| {
            metadata.snapshot_by_id(s.snapshot_id()).is_some_and(|stored| stored.manifest_list() == s.manifest_list())
        };
        return added.iter().all(|s| same(s)) && requirements.iter().all(|one| same_table(one, metadata));
    }
    let mut branches = Vec::new();
    for update in updates {
        if let TableUpdate::SetSnapshotRef { ref_name, reference } = update
            && reference.is_branch()
        {
            let Some(head) = metadata.snapshot_for_ref(ref_name) else { return false };
            branches.push((head, reference.snapshot_id));
        }
    }
    let lineage = Lineage::of(metadata.snapshots().map(|s| (s.snapshot_id(), s.parent_snapshot_id())));
    let mut history = BTreeSet::new();
    for (head, id) in branches {
        if !lineage.has(head.snapshot_id(), id) {
            return false;
        }
        // Where a branch leaves a history, the rest is in it already.
        for snapshot in ancestors(metadata, head) {
            if !history.insert(snapshot.snapshot_id()) {
                break;
            }
        }
    }
    added.iter().all(|snapshot| history.contains(&snapshot.snapshot_id()))
        && requirements.iter().all(|requirement| same_table(requirement, metadata))
}

fn same_table(requirement: &TableRequirement, metadata: &TableMetadata) -> bool {
    !matches!(requirement, TableRequirement::UuidMatch { uuid } if *uuid != metadata.uuid())
}

/// The snapshot, its parent, the parent's parent, and so on, as far as the table still has them.
pub(super) fn ancestors<'a>(metadata: &'a TableMetadata, head: &'a SnapshotRef) -> impl Iterator<Item = &'a Snapshot> {
    let next = |s: &&Snapshot| metadata.snapshot_by_id(s.parent_snapshot_id()?).map(AsRef::as_ref);
    // No history is longer than this, unless damaged metadata has a circle in it.
    std::iter::successors(Some(head.as_ref()), next).take(metadata.snapshots().len())
}

/// The append that a commit consists of, if it does not do more.
pub(super) fn append_of(
    requirements: &[TableRequirement],
    updates: &[TableUpdate],
    owner: bool,
) -> Result<Candidate, Why> {
    let [TableUpdate::AddSnapshot { snapshot }, TableUpdate::SetSnapshotRef { ref_name, reference }] = updates else {
        return Err(Why::Shape("its updates are not exactly add-snapshot and set-snapshot-ref"));
    };
    if snapshot.summary().operation != Operation::Append && !mutant::is(Mutant::OverwriteRebased) {
        return Err(Why::Shape("its snapshot is no append"));
    }
    // Published twice, the rows would be there twice; clients look for that when they are told of a conflict.
    if PUBLISHES.iter().any(|key| snapshot.summary().additional_properties.contains_key(*key)) {
        return Err(Why::Shape("it publishes a staged snapshot"));
    }
    if !reference.is_branch() {
        return Err(Why::Shape("it sets a tag"));
    }
    if reference.snapshot_id != snapshot.snapshot_id() {
        return Err(Why::Shape("it sets the branch to another snapshot than the one it adds"));
    }
    let (mut asserted, mut uuids) = (None, 0);
    for requirement in requirements {
        match requirement {
            TableRequirement::RefSnapshotIdMatch { r#ref, snapshot_id } if r#ref == ref_name && asserted.is_none() => {
                asserted = Some(*snapshot_id);
            }
            TableRequirement::UuidMatch { .. } if uuids == 0 => uuids += 1,
            _ => {
                return Err(Why::Shape(
                    "it requires more than one assert-ref-snapshot-id of its branch and one assert-table-uuid",
                ));
            }
        }
    }
    let parent = match asserted {
        Some(Some(parent)) => parent,
        Some(None) => return Err(Why::Shape("it asserts that the branch does not exist")),
        None => return Err(Why::Shape("it does not assert the snapshot of its branch")),
    };
    if snapshot.parent_snapshot_id() != Some(parent) {
        return Err(Why::Shape("the parent of its snapshot is not the asserted snapshot"));
    }
    let SnapshotReference { retention, .. } = reference.clone();
    let requirements = requirements.to_vec();
    Ok(Candidate { snapshot: snapshot.clone(), parent, branch: ref_name.clone(), retention, requirements, owner })
}

/// Who asked, and the head of the branch: where the table as it is now allows to rebase the append.
pub(super) fn applicable(candidate: &Candidate, metadata: &TableMetadata) -> Result<(Asked, SnapshotRef), Why> {
    let Candidate { snapshot, parent, branch, requirements, .. } = candidate;
    if !requirements.iter().all(|requirement| same_table(requirement, metadata)) {
        return Err(Why::OtherTable);
    }
    if metadata.snapshot_by_id(snapshot.snapshot_id()).is_some() {
        return Err(Why::InTable(snapshot.snapshot_id()));
    }
    let version = metadata.format_version();
    if version < FormatVersion::V2 {
        return Err(Why::Version1);
    }
    if metadata.encryption_keys_iter().next().is_some() || snapshot.encryption_key_id().is_some() {
        return Err(Why::Encrypted);
    }
    // Row ids are what version 3 added to snapshots.
    if (version >= FormatVersion::V3) != snapshot.row_range().is_some() {
        let commit = if snapshot.row_range().is_some() { "3" } else { "2" };
        return Err(Why::Version { table: (version as u8).to_string(), commit: commit.into() });
    }
    let head = metadata.snapshot_for_ref(branch).ok_or_else(|| Why::NoBranch(branch.clone()))?;
    if metadata.snapshot_by_id(*parent).is_none() {
        return Err(Why::ParentGone(*parent));
    }
    if !ancestors(metadata, head).any(|s| s.snapshot_id() == *parent) {
        return Err(Why::NotAncestor(*parent));
    }
    if snapshot.schema_id() != Some(metadata.current_schema_id()) {
        return Err(Why::Schema(metadata.current_schema_id()));
    }
    same_stream(candidate, metadata, head)?;
    Ok((asked(candidate, metadata, head)?, head.clone()))
}

/// Refuses to put an append of a stream onto another one of the same stream: its client must be told of the conflict to
/// see that it is a second writer, or that the rows are there.
fn same_stream(candidate: &Candidate, metadata: &TableMetadata, head: &SnapshotRef) -> Result<(), Why> {
    let own = streams(&candidate.snapshot);
    if own.is_empty() {
        return Ok(());
    }
    let mut between = ancestors(metadata, head).take_while(|s| s.snapshot_id() != candidate.parent);
    match between.find(|other| streams(other).iter().any(|stream| own.contains(stream))) {
        Some(other) => Err(Why::SameStream(other.snapshot_id())),
        None => Ok(()),
    }
}

/// The streams whose progress a snapshot notes in its summary, for those who write each row once: Iceberg's sinks for
/// Kafka Connect (a key for each topic and group), Flink (by job and operator) and Spark (by query).
fn streams(snapshot: &Snapshot) -> BTreeSet<String> {
    const KAFKA: &str = "kafka.connect.offsets.";
    const FLINK: &str = "flink.max-committed-checkpoint-id";
    const SPARK: &str = "spark.sql.streaming.epochId";
    let noted = &snapshot.summary().additional_properties;
    let of = |key: &str| noted.get(key).map_or("", String::as_str);
    let spark = noted.contains_key(SPARK).then(|| format!("{SPARK} {}", of("spark.sql.streaming.queryId")));
    let flink =
        noted.contains_key(FLINK).then(|| format!("{FLINK} {} {}", of("flink.job-id"), of("flink.operator-id")));
    #[allow(clippy::disallowed_methods, reason = "in order afterwards")]
    let kafka = noted.keys().filter(|key| key.starts_with(KAFKA)).cloned();
    kafka.chain(flink).chain(spark).collect()
}

/// Whether somebody may have asked for a rebase of this append. Whoever did, [`applicable`] decides.
pub(super) fn is_asked(snapshot: &Snapshot, metadata: &TableMetadata, owner: bool) -> bool {
    let is = |value: Option<&String>| value.is_some_and(|value| value.eq_ignore_ascii_case("true"));
    owner
        || is(snapshot.summary().additional_properties.get(SUMMARY_KEY))
        || is(metadata.properties().get(TABLE_PROPERTY))
}

/// Who asked for a rebase onto this head.
fn asked(candidate: &Candidate, metadata: &TableMetadata, head: &SnapshotRef) -> Result<Asked, Why> {
    let is = |value: &String, wanted: &str| value.eq_ignore_ascii_case(wanted);
    match candidate.snapshot.summary().additional_properties.get(SUMMARY_KEY) {
        Some(value) if is(value, "true") => return Ok(Asked::Commit),
        Some(_) if !mutant::is(Mutant::DeclineIgnored) => return Err(Why::Declined),
        Some(_) | None => {}
    }
    let properties = metadata.properties();
    if properties.get(TABLE_PROPERTY).is_some_and(|value| is(value, "true")) {
        return Ok(Asked::Table);
    }
    if !candidate.owner {
        return Err(Why::NotAsked);
    }
    if !ISOLATION_LEVELS.iter().all(|name| properties.get(*name).is_some_and(|value| is(value, "snapshot"))) {
        return Err(Why::Isolation);
    }
    let mut between = ancestors(metadata, head).take_while(|s| s.snapshot_id() != candidate.parent);
    match between.find(|s| s.summary().operation != Operation::Append) {
        Some(other) => Err(Why::Between(other.snapshot_id())),
        None => Ok(Asked::Owner),
    }
}

/// Whether the table would not take the snapshot as it is: the branch moved, or the table gave its sequence number or
/// its row ids to a snapshot of another branch.
fn stale(candidate: &Candidate, head: &SnapshotRef, metadata: &TableMetadata) -> bool {
    let snapshot = &candidate.snapshot;
    head.snapshot_id() != candidate.parent
        || snapshot.sequence_number() <= metadata.last_sequence_number()
        || snapshot.first_row_id().is_some_and(|first| first < metadata.next_row_id())
}
