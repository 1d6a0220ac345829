//! Step 2: whether each of several commits fits a version of a table, and the version after those that do.

use std::sync::Arc;

use bytes::Bytes;
use glidepath_env::Env;
use glidepath_protocols::group::Grouped;
use glidepath_table::Files;
use glidepath_table::commit::{apply, check};
use iceberg::TableUpdate;
use iceberg::spec::TableMetadata;

use super::{Fitting, TableCommit};
use crate::Inner;
use crate::bodies::Loaded;
use crate::error::{Kind, ServiceError};
use crate::locations::{checked, unslashed};

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
        for commit in commits {
            let now = draft.as_ref().map_or(&on.metadata, |draft| &draft.metadata);
            let file = draft.is_none().then_some(on.location.as_str());
            match self.one(now, file, commit).await {
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

    /// Decides one.
    async fn one(&self, now: &TableMetadata, file: Option<&str>, commit: &TableCommit) -> Result<One, ServiceError> {
        self.check_updates(now, &commit.updates)?;
        let fits = check(&commit.requirements, Some(now)).map_err(ServiceError::from);
        let applied = match fits {
            Ok(()) => apply(now, file, commit.updates.clone()).map_err(ServiceError::from),
            Err(error) => Err(error),
        };
        match applied {
            Ok(built) => {
                let expired = built.expired_metadata_logs.into_iter().map(|log| log.metadata_file).collect();
                let next = Draft { metadata: built.metadata, lists: Vec::new(), expired };
                Ok(One { next: Some(next), fitting: Fitting::Applied })
            }
            Err(error) => Err(error),
        }
    }
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
            match update {
                TableUpdate::SetLocation { location } if unslashed(location) != unslashed(now.location()) => {
                    checked(location, &self.settings.warehouse)?;
                }
                _ => {}
            }
        }
        Ok(())
    }
}
