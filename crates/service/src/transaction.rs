//! Commits over several tables: all take effect in one commit of the catalog, or none.

use std::collections::BTreeMap;
use std::sync::Arc;

use glidepath_env::Env;
use glidepath_model::{Action, Name, Refusal, Span};
use glidepath_protocols::group::Grouped;
use glidepath_table::Files;
use glidepath_table::commit::{apply, check};
use glidepath_table::rebase::{Recognized, recognize};
use iceberg::TableRequirement;
use iceberg::spec::TableMetadata;

use crate::bodies::{Body, Loaded};
use crate::commit::TableCommit;
use crate::commit::decide::{committable, is_in_table, is_of_other, shows};
use crate::error::{Kind, Proof, ServiceError};
use crate::keys::{CommitFailure, Idempotency, Operation};
use crate::mutant::{self, Mutant};
use crate::names::Identifier;
use crate::reading::no_table;
use crate::tables::{created_told, exists, made, table_entry};
use crate::{ConflictOn, Counts, Service, purge, sound};

/// The most tables in one commit.
const MOST_TABLES: usize = 1000;

/// A version of a table that is written and not committed.
struct Written {
    identifier: Identifier,
    name: Name,
    old: Option<String>,
    body: Loaded<TableMetadata>,
}

impl<E: Env, C: Grouped, F: Files> Service<E, C, F> {
    /// Commits to several tables at once. One table is committed as by [`commit_table`](Self::commit_table).
    ///
    /// # Errors
    /// [`Kind::Conflict`] if a requirement of one does not hold: then none was changed.
    pub async fn commit_transaction(
        &self,
        mut changes: Vec<(Identifier, TableCommit)>,
        key: Option<&Idempotency>,
    ) -> Result<(), ServiceError> {
        if changes.len() > MOST_TABLES {
            let words = format!("{} tables in one commit; at most {MOST_TABLES} are allowed", changes.len());
            return Err(ServiceError::invalid(words));
        }
        let mut seen = BTreeMap::new();
        for (identifier, commit) in &changes {
            sound::check(&commit.updates)?;
            if seen.insert(identifier.catalog_name()?, ()).is_some() {
                let words = format!("{} is in the commit twice; give its changes at once", identifier.dotted());
                return Err(ServiceError::invalid(words));
            }
        }
        if changes.len() == 1
            && let Some((identifier, mut commit)) = changes.pop()
        {
            commit.key = key.cloned();
            return self.commit_table(&identifier, commit).await.map(drop);
        }
        if changes.is_empty() {
            return Ok(());
        }
        // Found before the first is waited for, so that they are waited for at the same time.
        let mut holds = Vec::new();
        for (identifier, commit) in &changes {
            let cell = self.inner.cells.of(&identifier.catalog_name()?);
            holds.extend(self.inner.hold(&cell, commit).map(|hold| (cell, hold)));
        }
        self.inner.wait_out(holds).await;
        for attempt in 0..self.inner.settings.attempts.max(1) {
            match self.attempt_all(&changes, key).await? {
                true => return self.landed(&changes),
                false => {
                    Counts::add(&self.inner.counts.overtaken, 1);
                    let wait = Span::from_millis(5 << attempt.min(6));
                    self.inner.env.sleep_until(self.inner.env.now() + wait).await;
                }
            }
        }
        let words = "other commits moved one of the tables first every time; nothing was done: try again later";
        Err(ServiceError::new(Kind::Unavailable, words))
    }

    /// What was held for one of the snapshots is free.
    fn landed(&self, changes: &[(Identifier, TableCommit)]) -> Result<(), ServiceError> {
        for (identifier, commit) in changes {
            self.inner.note_landed(&self.inner.cells.of(&identifier.catalog_name()?), commit);
        }
        Ok(())
    }

    /// Tries once; `false` if another commit came first.
    async fn attempt_all(
        &self,
        changes: &[(Identifier, TableCommit)],
        key: Option<&Idempotency>,
    ) -> Result<bool, ServiceError> {
        let at = self.head().await?;
        if self.inner.replayed(&at, key).await?.is_some() {
            return Ok(true);
        }
        let mut written = Vec::new();
        for (identifier, commit) in changes {
            match self.next_of(identifier, commit).await {
                Ok(Some(next)) => written.push(next),
                Ok(None) => return self.done_as_a_whole(changes).await,
                Err(error) => return self.unless_done(changes, key, error).await,
            }
        }
        let files = written.iter().map(|one| self.inner.files.write(&one.body.location, one.body.json.clone()));
        for done in glidepath_env::together(crate::AT_ONCE, files).await {
            done?;
        }
        let mut actions = Vec::new();
        for Written { name, old, body, .. } in &written {
            let (name, pointer) = (name.clone(), body.location.clone());
            match old {
                Some(old) => {
                    actions.extend(purge::none_runs_where(old, &pointer, &self.inner.settings.warehouse)?);
                    actions.push(Action::SetPointer { name, expected: Some(old.clone()), pointer });
                }
                None => {
                    let location = body.metadata.location();
                    actions.push(Action::Create { name, entry: table_entry(location, &pointer) });
                    actions.extend(purge::none_runs(location, &self.inner.settings.warehouse)?);
                }
            }
        }
        if mutant::is(Mutant::OneByOne) {
            for action in actions.drain(1..).collect::<Vec<_>>().into_iter().rev() {
                let _ = self.inner.commit_once(None, vec![action], "").await;
            }
        }
        match self.inner.commit_once(key, actions, "").await {
            Ok(Operation::Before(_)) => {
                self.discard(&written).await;
                Ok(true)
            }
            Ok(Operation::Done) => {
                for Written { body, .. } in written {
                    self.inner.bodies.tables.put(body);
                    Counts::add(&self.inner.counts.committed, 1);
                    Counts::add(&self.inner.counts.versions, 1);
                }
                Ok(true)
            }
            Err(failure) => self.not_committed(failure, &written).await,
        }
    }

    async fn discard(&self, written: &[Written]) {
        for one in written {
            let _ = self.inner.files.delete(&one.body.location).await;
        }
    }

    /// This error, unless another delivery of the request came first and may be the reason.
    async fn unless_done(
        &self,
        changes: &[(Identifier, TableCommit)],
        key: Option<&Idempotency>,
        error: ServiceError,
    ) -> Result<bool, ServiceError> {
        if error.kind.proof() == Proof::Unknown || error.kind == Kind::Unavailable {
            return Err(error);
        }
        let at = self.head().await?;
        if self.inner.replayed(&at, key).await?.is_some() && !mutant::is(Mutant::RefusalTrusted) {
            return Ok(true);
        }
        for (identifier, commit) in changes {
            let now = self.inner.current(&identifier.catalog_name()?).await?;
            let Some(now) = now.filter(|now| !is_of_other(&now.metadata, commit)) else {
                let told = self.inner.unless_elsewhere(&identifier.catalog_name()?, commit, error.clone()).await;
                if told.kind != error.kind {
                    return Err(told);
                }
                continue;
            };
            if is_there(commit, &now.metadata) {
                return self.done_as_a_whole(changes).await;
            }
            if is_in_table(&now.metadata, commit) && !mutant::is(Mutant::LandedIsConflict) {
                let words =
                    "not committed again: a snapshot of it is in its table, and not in the history of its branch";
                return Err(ServiceError::new(Kind::Unknown, words));
            }
        }
        Err(error)
    }

    /// A part of the commit is in its table. Then the other parts are in theirs, if it was this request that did it, and
    /// not one with a part of the same.
    async fn done_as_a_whole(&self, changes: &[(Identifier, TableCommit)]) -> Result<bool, ServiceError> {
        for (identifier, commit) in changes {
            let now = self.inner.current(&identifier.catalog_name()?).await?;
            let shown = now.is_some_and(|now| {
                !is_of_other(&now.metadata, commit)
                    && (is_there(commit, &now.metadata) || is_shown(commit, &now.metadata))
            });
            if !shown {
                let words = format!(
                    "a part of the commit was done before, and {} does not show its own: whether all was done is not known",
                    identifier.dotted()
                );
                return Err(ServiceError::new(Kind::Unknown, words));
            }
        }
        Counts::add(&self.inner.counts.replayed, 1);
        Ok(true)
    }

    async fn not_committed(&self, failure: CommitFailure, written: &[Written]) -> Result<bool, ServiceError> {
        let error = match failure {
            CommitFailure::Refused(Refusal::PointerMoved { .. }) => None,
            CommitFailure::Refused(Refusal::Exists(note)) if purge::is_note(&note) => Some(purge::runs()),
            failure => Some(failure.told(|refusal| {
                let name = match refusal {
                    Refusal::Exists(name) | Refusal::NotFound(name) => name,
                    Refusal::NoParent { name, .. } | Refusal::WrongKind { name, .. } => name,
                    _ => return None,
                };
                let one = written.iter().find(|one| one.name == *name)?;
                match refusal {
                    Refusal::Exists(_) => Some(ServiceError::new(Kind::Conflict, exists(&one.identifier).message)),
                    Refusal::NotFound(_) | Refusal::WrongKind { .. } => Some(no_table(&one.identifier)),
                    refusal => created_told(refusal, &one.identifier),
                }
            })),
        };
        if error.as_ref().is_none_or(|error| error.kind.proof() == Proof::NotDone) {
            self.discard(written).await;
        }
        error.map_or(Ok(false), Err)
    }

    /// The next version of one table; `None` if the table has the snapshots of the commit already, or was created by it.
    async fn next_of(&self, identifier: &Identifier, commit: &TableCommit) -> Result<Option<Written>, ServiceError> {
        let name = identifier.catalog_name()?;
        let creates = commit.requirements.iter().any(|one| matches!(one, TableRequirement::NotExist));
        let current = self.inner.current_to_commit(&name).await?.map(|(current, _)| current);
        let counted = |error: ServiceError| {
            if error.kind == Kind::Conflict {
                self.inner.counts.conflict(ConflictOn::of(&error.message));
            }
            error
        };
        let (metadata, old) = match current {
            None if creates => (self.created_by(identifier, commit.updates.clone()).await?, None),
            None => return Err(no_table(identifier)),
            Some(current) if is_there(commit, &current.metadata) => return Ok(None),
            Some(current) => {
                let fits = check(&commit.requirements, Some(&current.metadata));
                fits.map_err(|misfit| counted(misfit.into()))?;
                committable(&current)?;
                self.inner.check_updates(&current.metadata, &commit.updates)?;
                let built = apply(&current.metadata, Some(&current.location), commit.updates.clone());
                let built = built.map_err(|misfit| counted(misfit.into()))?;
                (built.metadata, Some(current.location.clone()))
            }
        };
        let file = self.inner.metadata_file(metadata.location(), metadata.properties(), old.as_deref())?;
        Ok(Some(Written { identifier: identifier.clone(), name, old, body: Arc::new(Body::of(file, metadata)?) }))
    }
}

/// Whether the table has the snapshots of the commit, or was created by it.
fn is_there(commit: &TableCommit, now: &TableMetadata) -> bool {
    if mutant::is(Mutant::LandedIsConflict) {
        return false;
    }
    let creates = commit.requirements.iter().any(|one| matches!(one, TableRequirement::NotExist));
    let known = || recognize(&commit.requirements, &commit.updates, now, false);
    (creates && made(&commit.updates, now)) || matches!(known(), Recognized::AlreadyThere)
}

/// Whether the table is as the commit leaves it, where that can be seen; what changes nothing must only hold.
fn is_shown(commit: &TableCommit, now: &TableMetadata) -> bool {
    match commit.updates.is_empty() {
        true => check(&commit.requirements, Some(now)).is_ok(),
        false => commit.updates.iter().all(|update| shows(update, now) == Some(true)),
    }
}
