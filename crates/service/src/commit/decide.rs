//! Step 2: whether each of several commits fits a version of a table, and the version after those that do.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use glidepath_env::Env;
use glidepath_protocols::group::Grouped;
use glidepath_table::commit::{Misfit, apply, check, has_its_refs};
use glidepath_table::rebase::{NotRebased, ReadAhead, Recognized, Why, rebase_read, recognize};
use glidepath_table::{Files, defaults};
use iceberg::spec::{TableMetadata, TableMetadataBuildResult};
use iceberg::{TableRequirement, TableUpdate};

use super::TableCommit;
use super::ahead::Request;
use crate::bodies::Loaded;
use crate::error::{Kind, ServiceError};
use crate::mutant::{self, Mutant};
use crate::{Counts, Inner, placing};

/// The decisions on several commits.
pub(crate) struct Decided {
    /// What to write; `None` if nothing changes.
    pub(crate) draft: Option<Draft>,
    /// One for each commit.
    pub(crate) verdicts: Vec<Result<Fitting, NotDone>>,
}

/// Why a commit was not done, by those who commit. The task that asked finds out whether an earlier delivery was, when
/// nobody waits for it.
#[derive(Clone, Debug)]
pub(crate) enum NotDone {
    /// It does not fit. An earlier delivery with its key may be why.
    Refused(ServiceError),
    /// Its table is not there, or another one has its name. The same; and its table may have another name.
    Elsewhere(ServiceError),
    /// It could not be done, or nobody knows.
    Failed(ServiceError),
}

impl NotDone {
    pub(crate) fn error(self) -> ServiceError {
        match self {
            Self::Refused(error) | Self::Elsewhere(error) | Self::Failed(error) => error,
        }
    }
}

/// A version to write.
pub(crate) struct Draft {
    pub(super) metadata: TableMetadata,
    /// New manifest lists, with their locations.
    pub(super) lists: Vec<(String, Bytes)>,
    /// Metadata files that leave the log.
    pub(super) expired: Vec<String>,
}

impl Draft {
    /// The first version of a table.
    pub(crate) fn first(metadata: TableMetadata) -> Self {
        Self { metadata, lists: Vec::new(), expired: Vec::new() }
    }

    /// The location of the table.
    pub(crate) fn location(&self) -> &str {
        self.metadata.location()
    }
}

/// How a commit fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fitting {
    /// As it is.
    Applied,
    /// Onto a newer snapshot than it was prepared against.
    Rebased,
    /// It is in the table already.
    Before,
}

impl Fitting {
    pub(crate) fn count(self, counts: &Counts) {
        match self {
            Self::Applied => Counts::add(&counts.committed, 1),
            Self::Rebased => {
                Counts::add(&counts.committed, 1);
                Counts::add(&counts.rebased, 1);
            }
            Self::Before => Counts::add(&counts.replayed, 1),
        }
    }
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// Decides these commits, one after the other.
    pub(crate) async fn decide(&self, on: &Loaded<TableMetadata>, requests: &[Arc<Request>]) -> Decided {
        let mut draft: Option<Draft> = None;
        let mut verdicts = Vec::with_capacity(requests.len());
        let mut ahead = VecDeque::new();
        for (place, request) in requests.iter().enumerate() {
            if ahead.is_empty() {
                ahead = self.ahead(&on.metadata, &requests[place..]).await;
            }
            let read = ahead.pop_front().flatten();
            let read = request.ahead().or(read.as_ref());
            let now = draft.as_ref().map_or(&on.metadata, |draft| &draft.metadata);
            let file = draft.is_none().then_some(on.location.as_str());
            if is_of_other(now, request) {
                let error = check(&request.requirements, Some(now)).err().unwrap_or(Misfit::Missing).into();
                verdicts.push(Err(NotDone::Elsewhere(error)));
                continue;
            }
            match self.one(now, file, (&request.commit, read)).await {
                Ok(One { next, fitting }) => {
                    verdicts.push(Ok(fitting));
                    if let Some(next) = next {
                        let earlier = draft.take();
                        draft = Some(after(earlier, next));
                    }
                }
                // Also if a file cannot be read: it may be one that only this commit names.
                Err(error) => verdicts.push(Err(NotDone::Refused(error))),
            }
        }
        Decided { draft, verdicts }
    }

    /// Decides one.
    async fn one(
        &self,
        now: &TableMetadata,
        file: Option<&str>,
        (commit, read): (&TableCommit, Option<&ReadAhead>),
    ) -> Result<One, ServiceError> {
        self.check_updates(now, &commit.updates)?;
        let candidate = match recognize(&commit.requirements, &commit.updates, now, self.settings.rebase) {
            Recognized::AlreadyThere if mutant::is(Mutant::LandedIsConflict) => {
                return Err(ServiceError::new(Kind::Conflict, "its branch has moved"));
            }
            Recognized::AlreadyThere => return before(now, commit),
            Recognized::Candidate(candidate) => {
                // Before a file is read for the client: the folder that the table names may be one that the client may
                // not read.
                self.settings.metadata_folder(now.location(), now.properties())?;
                candidate
            }
            Recognized::No(why) => return self.writable(as_it_is(now, file, commit, &why)?),
        };
        let (fresh, now_ms) = (self.fresh_uuid(), i64::try_from(self.env.unix_ms()).unwrap_or(i64::MAX));
        let rebased = rebase_read(&candidate, read, now, &self.files, &self.lists, (fresh, now_ms)).await;
        let rebased = match rebased {
            Ok(rebased) => rebased,
            Err(NotRebased::AlreadyThere(_)) => return before(now, commit),
            Err(error @ NotRebased::Store { .. }) => {
                return Err(ServiceError::new(Kind::Unavailable, error.to_string()));
            }
            // Its files are the table's, though its branch was set back: the client must not delete them.
            Err(NotRebased::Refused(why @ Why::InTable(_))) => {
                return Err(ServiceError::new(Kind::Unknown, format!("not committed again: {why}")));
            }
            Err(error) => return Err(ServiceError::new(Kind::Conflict, error.to_string())),
        };
        check(&rebased.requirements, Some(now))?;
        let built = apply(now, file, placing::with_former(now, rebased.updates))?;
        let lists = vec![(rebased.list_location, rebased.list)];
        self.writable(One { next: Some(drafted(built, lists)), fitting: Fitting::Rebased })
    }

    /// Whether the metadata may be where this version says: if not, this commit is at fault, and no other one.
    fn writable(&self, one: One) -> Result<One, ServiceError> {
        if let Some(Draft { metadata, .. }) = &one.next {
            self.settings.metadata_folder(metadata.location(), metadata.properties())?;
        }
        Ok(one)
    }
}

/// Why a table is neither registered nor committed to.
pub(crate) const LOSES_DEFAULTS: &str = "a column of the table has a default value that this server cannot keep (of a \
     timestamp with nanoseconds, of one before 1970 with a fraction of a second, or one that is not of the column's type), \
     so that a commit would lose it. Change it with another catalog";

/// A version on which something may be committed.
pub(crate) fn committable(on: &Loaded<TableMetadata>) -> Result<(), ServiceError> {
    if on.written {
        return Ok(());
    }
    if !defaults::are_kept(&on.json) {
        return Err(ServiceError::new(Kind::Broken, format!("not done: {LOSES_DEFAULTS}")));
    }
    if has_its_refs(&on.metadata, &on.json) {
        return Ok(());
    }
    let words = "not done: the library for Iceberg cannot keep the branches and tags of this table of format version 1, so \
                 that a commit would lose them. Upgrade it to version 2 with another catalog";
    Err(ServiceError::new(Kind::Broken, words))
}

/// The snapshots of the commit are in the table. A request of its own with the same snapshots would not be done by
/// that.
fn before(now: &TableMetadata, commit: &TableCommit) -> Result<One, ServiceError> {
    if lasting(commit).all(|update| shows(update, now) != Some(false)) {
        return Ok(One { next: None, fitting: Fitting::Before });
    }
    let words = "its snapshots are in the table, and the table is not in all as it makes it (properties, schemas, tags, statistics, \
                 format version, what it removes): whether it was done is not known";
    Err(ServiceError::new(Kind::Unknown, words))
}

/// The updates of a commit without the removals of what it sets again: a replacement of a table removes its branch
/// first.
pub(crate) fn lasting(commit: &TableCommit) -> impl Iterator<Item = &TableUpdate> {
    commit.updates.iter().enumerate().filter_map(|(at, update)| {
        let is_set_again = |removed: &str| {
            let sets = |later: &TableUpdate| matches!(later, TableUpdate::SetSnapshotRef { ref_name, .. } if ref_name == removed);
            commit.updates[at..].iter().any(sets)
        };
        match update {
            TableUpdate::RemoveSnapshotRef { ref_name } if is_set_again(ref_name) => None,
            update => Some(update),
        }
    })
}

/// Whether a table is as an update makes it, where that can be seen.
#[allow(clippy::disallowed_methods, reason = "whether all hold does not depend on the order")]
pub(crate) fn shows(update: &TableUpdate, now: &TableMetadata) -> Option<bool> {
    match update {
        TableUpdate::SetProperties { updates } => {
            Some(updates.iter().all(|(key, value)| now.properties().get(key) == Some(value)))
        }
        TableUpdate::RemoveProperties { removals } => {
            Some(removals.iter().all(|key| !now.properties().contains_key(key)))
        }
        TableUpdate::SetLocation { location } => Some(now.location() == location.trim_end_matches('/')),
        TableUpdate::UpgradeFormatVersion { format_version } => Some(now.format_version() >= *format_version),
        TableUpdate::AddSchema { schema } => Some(now.schemas_iter().any(|has| has.as_struct() == schema.as_struct())),
        TableUpdate::RemoveSnapshots { snapshot_ids } => {
            Some(snapshot_ids.iter().all(|id| now.snapshot_by_id(*id).is_none()))
        }
        TableUpdate::RemoveSnapshotRef { ref_name } => Some(now.snapshot_for_ref(ref_name).is_none()),
        // A branch goes on, and may be seen in its history.
        TableUpdate::SetSnapshotRef { ref_name, reference } if !reference.is_branch() => {
            let is_there = now.snapshot_for_ref(ref_name).is_some_and(|has| has.snapshot_id() == reference.snapshot_id);
            // How long it is kept cannot be seen.
            let is_plain = reference.retention == iceberg::spec::SnapshotRetention::Tag { max_ref_age_ms: None };
            (!is_there || is_plain).then_some(is_there)
        }
        TableUpdate::SetStatistics { statistics } => {
            let has = now.statistics_for_snapshot(statistics.snapshot_id);
            Some(has.is_some_and(|has| has.statistics_path == statistics.statistics_path))
        }
        _ => None,
    }
}

/// A commit that is not rebased: it fits as it is, or conflicts.
fn as_it_is(now: &TableMetadata, file: Option<&str>, commit: &TableCommit, why: &Why) -> Result<One, ServiceError> {
    let built = check(&commit.requirements, Some(now)).and_then(|()| {
        let updates = placing::with_former(now, commit.updates.clone());
        apply(now, file, updates)
    });
    match built {
        Ok(built) => Ok(One { next: Some(drafted(built, Vec::new())), fitting: Fitting::Applied }),
        // The table has it, though its branch was set back or never set: the client must not delete its files.
        Err(_) if is_in_table(now, commit) => {
            let words = "not committed again: its snapshot is in the table, and not in the history of its branch";
            Err(ServiceError::new(Kind::Unknown, words))
        }
        // Only an append could have been rebased.
        Err(Misfit::Conflict(words)) if adds_a_snapshot(commit) => {
            Err(ServiceError::new(Kind::Conflict, format!("{words} (not rebased: {why})")))
        }
        Err(misfit) => Err(misfit.into()),
    }
}

/// Whether the commit is of another table than this one, which has its name now.
pub(crate) fn is_of_other(now: &TableMetadata, commit: &TableCommit) -> bool {
    commit.requirements.iter().any(|one| matches!(one, TableRequirement::UuidMatch { uuid } if *uuid != now.uuid()))
}

/// Whether a snapshot of the commit is in this table.
pub(crate) fn is_in_table(now: &TableMetadata, commit: &TableCommit) -> bool {
    commit.updates.iter().any(|update| match update {
        TableUpdate::AddSnapshot { snapshot } => now.snapshot_by_id(snapshot.snapshot_id()).is_some(),
        _ => false,
    })
}

fn adds_a_snapshot(commit: &TableCommit) -> bool {
    commit.updates.iter().any(|update| matches!(update, TableUpdate::AddSnapshot { .. }))
}

fn drafted(built: TableMetadataBuildResult, lists: Vec<(String, Bytes)>) -> Draft {
    let expired = built.expired_metadata_logs.into_iter().map(|log| log.metadata_file).collect();
    Draft { metadata: built.metadata, lists, expired }
}

struct One {
    next: Option<Draft>,
    fitting: Fitting,
}

fn after(earlier: Option<Draft>, next: Draft) -> Draft {
    let Some(Draft { mut lists, mut expired, .. }) = earlier else { return next };
    lists.extend(next.lists);
    expired.extend(next.expired);
    Draft { metadata: next.metadata, lists, expired }
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// A commit may not move a table out of the warehouse.
    pub(crate) fn check_updates(&self, now: &TableMetadata, updates: &[TableUpdate]) -> Result<(), ServiceError> {
        for update in updates {
            if let TableUpdate::SetLocation { location } = update {
                self.settings.check_move(now.location(), location)?;
            }
        }
        Ok(())
    }
}
