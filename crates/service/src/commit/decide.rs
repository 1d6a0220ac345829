//! Step 2: whether each of several commits fits a version of a table, and the version after those that do.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use glidepath_env::Env;
use glidepath_protocols::group::Grouped;
use glidepath_table::Files;
use glidepath_table::commit::{Misfit, apply, check};
use glidepath_table::rebase::{NotRebased, ReadAhead, Recognized, Why, read_ahead, rebase_read, recognize};
use iceberg::TableUpdate;
use iceberg::spec::{TableMetadata, TableMetadataBuildResult};

use super::{Fitting, TOGETHER, TableCommit};
use crate::Inner;
use crate::bodies::Loaded;
use crate::error::{Kind, ServiceError};
use crate::mutant::{self, Mutant};

/// Manifests in the lists that are read ahead.
const MOST_AHEAD: usize = 200_000;

/// The decisions on several commits.
pub(super) struct Decided {
    /// What to write; `None` if nothing changes.
    pub(super) draft: Option<Draft>,
    /// One for each commit.
    pub(super) verdicts: Vec<Result<Fitting, ServiceError>>,
}

/// A version to write.
pub(super) struct Draft {
    pub(super) metadata: TableMetadata,
    /// New manifest lists, with their locations.
    pub(super) lists: Vec<(String, Bytes)>,
    /// Metadata files that leave the log.
    pub(super) expired: Vec<String>,
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// Decides these commits, one after the other.
    pub(super) async fn decide(
        &self,
        on: &Loaded<TableMetadata>,
        commits: &[Arc<TableCommit>],
    ) -> Result<Decided, ServiceError> {
        let mut draft: Option<Draft> = None;
        let mut verdicts = Vec::with_capacity(commits.len());
        let mut ahead = VecDeque::new();
        for (place, commit) in commits.iter().enumerate() {
            if ahead.is_empty() {
                ahead = self.ahead(&on.metadata, &commits[place..]).await;
            }
            let read = ahead.pop_front().flatten();
            let now = draft.as_ref().map_or(&on.metadata, |draft| &draft.metadata);
            let file = draft.is_none().then_some(on.location.as_str());
            match self.one(now, file, commit, read.as_ref()).await {
                Ok(One { next, fitting }) => {
                    verdicts.push(Ok(fitting));
                    if let Some(next) = next {
                        let earlier = draft.take();
                        draft = Some(after(earlier, next));
                    }
                }
                Err(error) if matches!(error.kind, Kind::Unavailable | Kind::Broken) => return Err(error),
                Err(error) => verdicts.push(Err(error)),
            }
        }
        Ok(Decided { draft, verdicts })
    }

    /// Reads the files of the next of several appends at once, since each is decided after the one before; as many as do
    /// not take too much memory. A single commit may need none.
    async fn ahead(&self, on: &TableMetadata, commits: &[Arc<TableCommit>]) -> VecDeque<Option<ReadAhead>> {
        if commits.len() < 2 {
            return VecDeque::new();
        }
        let list = on.current_snapshot().and_then(|head| self.lists.get(head.manifest_list()));
        let each = list.map_or(MOST_AHEAD / TOGETHER, |manifests| manifests.len() + commits.len());
        let some = &commits[..commits.len().min((MOST_AHEAD / each.max(1)).max(1))];
        let read = some.iter().map(|commit| read_ahead(&commit.updates, on, self.settings.rebase, &self.files));
        glidepath_env::together(TOGETHER, read).await.into()
    }

    /// Decides one.
    async fn one(
        &self,
        now: &TableMetadata,
        file: Option<&str>,
        commit: &TableCommit,
        read: Option<&ReadAhead>,
    ) -> Result<One, ServiceError> {
        self.check_updates(now, &commit.updates)?;
        let candidate = match recognize(&commit.requirements, &commit.updates, now, self.settings.rebase) {
            Recognized::AlreadyThere if mutant::is(Mutant::LandedIsConflict) => {
                return Err(ServiceError::new(Kind::Conflict, "its branch has moved"));
            }
            Recognized::AlreadyThere => return Ok(One { next: None, fitting: Fitting::Before }),
            Recognized::Candidate(candidate) => candidate,
            Recognized::No(why) => return as_it_is(now, file, commit, &why),
        };
        let (fresh, now_ms) = (self.fresh_uuid(), i64::try_from(self.env.unix_ms()).unwrap_or(i64::MAX));
        let rebased = rebase_read(&candidate, read, now, &self.files, &self.lists, (fresh, now_ms)).await;
        let rebased = match rebased {
            Ok(rebased) => rebased,
            Err(NotRebased::AlreadyThere(_)) => return Ok(One { next: None, fitting: Fitting::Before }),
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
        let built = apply(now, file, rebased.updates)?;
        let lists = vec![(rebased.list_location, rebased.list)];
        Ok(One { next: Some(drafted(built, lists)), fitting: Fitting::Rebased })
    }
}

/// A commit that is not rebased: it fits as it is, or conflicts.
fn as_it_is(now: &TableMetadata, file: Option<&str>, commit: &TableCommit, why: &Why) -> Result<One, ServiceError> {
    let built = check(&commit.requirements, Some(now)).and_then(|()| apply(now, file, commit.updates.clone()));
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

fn is_in_table(now: &TableMetadata, commit: &TableCommit) -> bool {
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
