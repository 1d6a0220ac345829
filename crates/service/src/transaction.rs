//! Commits over several tables: all take effect in one commit of the catalog, or none.
//!
//! Each part is decided as a commit to its table is, so appends that ask for it are rebased. Meanwhile nothing else of
//! this server commits to these tables (`lead.rs`).

mod folders;
pub(crate) mod lead;

use std::collections::BTreeMap;
use std::sync::Arc;

use glidepath_env::Env;
use glidepath_model::{Action, Name, Refusal};
use glidepath_protocols::group::Grouped;
use glidepath_protocols::table_turn::line::Turns;
use glidepath_protocols::table_turn::retry_over_several;
use glidepath_table::Files;
use glidepath_table::commit::check;
use glidepath_table::rebase::{Recognized, recognize};
use iceberg::TableRequirement;
use iceberg::spec::TableMetadata;

use crate::bodies::Loaded;
use crate::commit::decide::{committable, is_in_table, is_of_other, lasting, shows};
use crate::commit::priority::overwrites;
use crate::commit::{Decided, Draft, Fitting, Lost, Next, Request, TableCommit};
use crate::error::{Kind, Proof, ServiceError};
use crate::keys::{CommitFailure, Idempotency, Operation};
use crate::mutant::{self, Mutant};
use crate::names::Identifier;
use crate::placing::{self, Folder, table_entry};
use crate::reading::no_table;
use crate::table_queues::TableQueue;
use crate::tables::{created_told, exists, made};
use crate::{ConflictOn, Counts, Service, pointer, purge, sound};

use folders::Claimed;
use lead::{Lead, Places};

/// The most tables in one commit.
const MOST_TABLES: usize = 1000;

/// A part of the commit.
struct Part {
    identifier: Identifier,
    name: Name,
    request: Arc<Request>,
}

/// The next version of a table, decided and not written.
struct Planned {
    old: Option<Loaded<TableMetadata>>,
    draft: Draft,
    fitting: Fitting,
    /// The folder of a table that is created.
    folder: Option<Folder>,
}

/// A version of a table that is written and not committed.
struct Written<'a> {
    part: &'a Part,
    old: Option<Loaded<TableMetadata>>,
    fitting: Fitting,
    next: Next,
}

/// Where a commit stands between its tries.
struct Course {
    led: Vec<Lead>,
    turns: Turns,
    lost: Lost,
}

impl<E: Env, C: Grouped, F: Files> Service<E, C, F> {
    /// Commits to several tables at once. One table is committed as by [`commit_table`](Self::commit_table).
    ///
    /// The future must not be dropped before it ends, as there.
    ///
    /// # Errors
    /// [`Kind::Conflict`] if a requirement of one does not hold: then none was changed.
    pub async fn commit_transaction(
        &self,
        changes: Vec<(Identifier, TableCommit)>,
        key: Option<&Idempotency>,
    ) -> Result<(), ServiceError> {
        self.inner.once(key, async || self.try_transaction(changes.clone(), key).await).await
    }

    async fn try_transaction(
        &self,
        mut changes: Vec<(Identifier, TableCommit)>,
        key: Option<&Idempotency>,
    ) -> Result<(), ServiceError> {
        if changes.len() > MOST_TABLES {
            let words = format!("{} tables in one commit; at most {MOST_TABLES} are allowed", changes.len());
            return Err(ServiceError::invalid(words));
        }
        if changes.len() == 1
            && let Some((identifier, mut commit)) = changes.pop()
        {
            commit.key = key.cloned();
            return self.try_commit(&identifier, commit).await.map(drop);
        }
        let mut parts = BTreeMap::new();
        for (identifier, commit) in changes {
            sound::check(&commit)?;
            let (name, request) = (identifier.catalog_name()?, Arc::new(Request::of(commit)));
            let words = format!("{} is in the commit twice; give its changes at once", identifier.dotted());
            let part = Part { identifier, name: name.clone(), request };
            if parts.insert(name, part).is_some() {
                return Err(ServiceError::invalid(words));
            }
        }
        let mut parts: Vec<Part> = parts.into_values().collect();
        if parts.is_empty() {
            return Ok(());
        }
        let _waiting = self.inner.counts.one_waits();
        let of: Vec<_> = parts.iter().map(|part| self.inner.table_queues.of(&part.name)).collect();
        // Found before the first is waited for, so that they are waited for at the same time.
        let holds = of
            .iter()
            .zip(&parts)
            .filter_map(|(table_queue, part)| Some((&**table_queue, self.inner.hold(table_queue, &part.request)?)));
        self.inner.wait_out(holds.collect::<Vec<_>>()).await;
        let places = lead::places(of.iter());
        let led = places.at_once().unwrap_or_default();
        if led.is_empty() {
            self.read_meanwhile(&of, &mut parts).await;
        }
        let table_queues: Vec<_> =
            of.iter().zip(&parts).map(|(table_queue, part)| (&**table_queue, &**part.request)).collect();
        let lines = parts.iter().map(|part| (part.name.clone(), overwrites(&part.request)));
        let mut course = Course { led, turns: Turns::at(lines), lost: Lost::default() };
        let mut answer = self.commit_parts((&parts, &places), key, &mut course).await;
        self.inner.withdraw(course.turns).await;
        lead::hand_over(&mut course.led);
        self.inner.discard(course.lost).await;
        // When nobody waits for it any more.
        if let Err(error) = answer {
            answer = self.why_not_done(&parts, key, error).await;
        }
        self.inner.note_for_priority(&table_queues, &answer);
        answer
    }

    /// Reads the files of appends while others lead at the tables.
    async fn read_meanwhile(&self, table_queues: &[Arc<TableQueue>], parts: &mut [Part]) {
        let reads = table_queues.iter().zip(parts).map(async |(table_queue, part)| {
            if let Some(request) = Arc::get_mut(&mut part.request) {
                self.inner.read_meanwhile((table_queue, &self.inner.readers), request).await;
            }
        });
        glidepath_env::together(crate::AT_ONCE, reads).await;
    }

    async fn commit_parts(
        &self,
        (parts, places): (&[Part], &Places),
        key: Option<&Idempotency>,
        course: &mut Course,
    ) -> Result<(), ServiceError> {
        for attempt in 0..self.inner.settings.attempts {
            if course.led.is_empty() {
                course.led = self.inner.lead_all(places).await?;
            }
            if self.attempt_all(parts, key, course).await? {
                return Ok(());
            }
            // Without a place in line it may be overtaken for long: others that wait here for one of its tables go on
            // meanwhile.
            if !course.turns.have_place() {
                lead::hand_over(&mut course.led);
                let wait = retry_over_several(attempt);
                self.inner.env.sleep_until(self.inner.env.now() + wait).await;
            }
        }
        let words = "other commits moved one of the tables first every time; nothing was done: try again later";
        Err(ServiceError::new(Kind::Unavailable, words))
    }

    /// Tries once; `false` if another commit came first.
    async fn attempt_all(
        &self,
        parts: &[Part],
        key: Option<&Idempotency>,
        course: &mut Course,
    ) -> Result<bool, ServiceError> {
        let at = self.head().await?;
        if self.inner.replayed(&at, key).await?.is_some() {
            return Ok(true);
        }
        let tables = self.inner.in_turn(&mut course.turns).await?;
        let plans = parts.iter().zip(tables).map(|(part, table)| self.plan(part, table));
        let mut planned = Vec::new();
        for plan in glidepath_env::together(crate::AT_ONCE, plans).await {
            match plan {
                Ok(Some(plan)) => planned.push(plan),
                Ok(None) => return self.done_as_a_whole(parts, key).await.map(|()| true),
                Err(error) => return Err(error),
            }
        }
        // Before anything is written, because what is written for a creation stays.
        let mut claimed = Claimed::default();
        let written = match self.inner.claim_folders(parts, &planned, &mut claimed).await {
            Ok(()) => self.write_all(parts, planned, &mut course.lost).await,
            Err(error) => Err(error),
        };
        let done = match written {
            Ok(written) => self.commit_written(written, &mut claimed.actions, key, course).await,
            Err(error) => Err(error),
        };
        for claim in claimed.claims {
            self.inner.settle_claim(Some(claim), &done).await;
        }
        done
    }

    /// Commits what is written, and `also`; `false` if another commit came first.
    async fn commit_written(
        &self,
        written: Vec<Written<'_>>,
        also: &mut Vec<Action>,
        key: Option<&Idempotency>,
        Course { turns, lost, .. }: &mut Course,
    ) -> Result<bool, ServiceError> {
        let mut actions = Vec::new();
        for (Written { part, old, next, .. }, turn) in written.iter().zip(turns.actions()) {
            let (name, file) = (&part.name, &next.body.location);
            let (location, warehouse) = (next.body.metadata.location(), &self.inner.settings.warehouse);
            match old {
                Some(on) => {
                    actions.extend(pointer::moved_table(name, on, file, warehouse)?);
                    actions.extend(turn);
                }
                None => {
                    actions.push(Action::Create { name: name.clone(), entry: table_entry(location, file) });
                    actions.extend(purge::none_runs_where(&format!("{location}/metadata/"), file, warehouse)?);
                }
            }
        }
        actions.append(also);
        if mutant::is(Mutant::OneByOne) {
            for action in actions.drain(1..).collect::<Vec<_>>().into_iter().rev() {
                let _ = self.inner.commit_once(None, vec![action], "").await;
            }
        }
        match self.inner.commit_once(key, actions, "").await {
            Ok(Operation::Before(_)) => {
                lose(lost, written);
                Ok(true)
            }
            Ok(Operation::Done) => {
                turns.taken();
                self.landed(written).await;
                Ok(true)
            }
            Err(failure) => {
                let moved = matches!(&failure, CommitFailure::Refused(refusal @ Refusal::PointerMoved { .. })
                    if placing::told(refusal).is_none());
                let told = self.not_committed(failure, &written);
                if told.as_ref().is_none_or(|error| error.kind.proof() == Proof::NotDone) {
                    lose(lost, written);
                }
                if let Some(error) = told {
                    return Err(error);
                }
                if moved {
                    Counts::add(&self.inner.counts.overtaken, 1);
                    self.inner.lost(turns).await;
                }
                Ok(false)
            }
        }
    }

    /// Writes the files of all versions at once.
    async fn write_all<'a>(
        &self,
        parts: &'a [Part],
        planned: Vec<Planned>,
        lost: &mut Lost,
    ) -> Result<Vec<Written<'a>>, ServiceError> {
        let writes = parts.iter().zip(planned).map(async |(part, Planned { old, draft, fitting, .. })| {
            let next = self.inner.write(old.as_ref(), draft).await?;
            Ok::<_, ServiceError>(Written { part, old, fitting, next })
        });
        let (mut written, mut failed) = (Vec::new(), None);
        for one in glidepath_env::together(crate::AT_ONCE, writes).await {
            match one {
                Ok(one) => written.push(one),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        match failed {
            None => Ok(written),
            Some(error) => {
                lose(lost, written);
                Err(error)
            }
        }
    }

    async fn landed(&self, written: Vec<Written<'_>>) {
        for Written { part, fitting, next, .. } in &written {
            self.inner.bodies.tables.put(Arc::clone(&next.body));
            self.inner.table_queues.of(&part.name).learn(Some(&next.body));
            fitting.count(&self.inner.counts);
            Counts::add(&self.inner.counts.versions, 1);
        }
        let cleanings = written.iter().map(|one| self.inner.clean_log(&one.next));
        glidepath_env::together(crate::AT_ONCE, cleanings).await;
    }

    /// This error, unless another delivery of the request came first and may be the reason.
    async fn why_not_done(
        &self,
        parts: &[Part],
        key: Option<&Idempotency>,
        error: ServiceError,
    ) -> Result<(), ServiceError> {
        if error.kind.proof() == Proof::Unknown || error.kind == Kind::Unavailable {
            return Err(error);
        }
        let at = self.head().await?;
        if self.inner.replayed(&at, key).await?.is_some() && !mutant::is(Mutant::RefusalTrusted) {
            return Ok(());
        }
        for Part { name, request: commit, .. } in parts {
            let now = self.inner.current(name).await?;
            let Some(now) = now.filter(|now| !is_of_other(&now.metadata, commit)) else {
                let told = self.inner.unless_elsewhere(name, commit, error.clone()).await;
                if told.kind != error.kind {
                    return Err(told);
                }
                continue;
            };
            if is_there(commit, &now.metadata) {
                return self.done_as_a_whole(parts, key).await;
            }
            if is_in_table(&now.metadata, commit) && !mutant::is(Mutant::LandedIsConflict) {
                let words =
                    "not committed again: a snapshot of it is in its table, and not in the history of its branch";
                return Err(ServiceError::new(Kind::Unknown, words));
            }
        }
        Err(error)
    }

    /// A part of the commit is in its table. Then the other parts are in theirs, if it was this request that did it,
    /// and not one with a part of the same.
    async fn done_as_a_whole(&self, parts: &[Part], key: Option<&Idempotency>) -> Result<(), ServiceError> {
        for Part { identifier, name, request: commit } in parts {
            let now = self.inner.current(name).await?;
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
        self.inner.note_done(key, "").await.map(drop)
    }

    /// The answer to a commit that failed; none if it may be tried again.
    fn not_committed(&self, failure: CommitFailure, written: &[Written<'_>]) -> Option<ServiceError> {
        match failure {
            CommitFailure::Refused(refusal) if placing::told(&refusal).is_some() => placing::told(&refusal),
            // Or servers wait for their turn there that were not known of.
            CommitFailure::Refused(Refusal::PointerMoved { name, .. } | Refusal::PropertyChanged { name, .. }) => {
                // Nothing of this server did.
                self.inner.table_queues.of(&name).share(self.inner.env.now());
                None
            }
            failure => Some(failure.told(|refusal| {
                let name = match refusal {
                    Refusal::Exists(name) | Refusal::NotFound(name) => name,
                    Refusal::NoParent { name, .. } | Refusal::WrongKind { name, .. } => name,
                    _ => return None,
                };
                let identifier = &written.iter().find(|one| one.part.name == *name)?.part.identifier;
                match refusal {
                    Refusal::Exists(_) => Some(ServiceError::new(Kind::Conflict, exists(identifier).message)),
                    Refusal::NotFound(_) | Refusal::WrongKind { .. } => Some(no_table(identifier)),
                    refusal => created_told(refusal, identifier),
                }
            })),
        }
    }

    fn counted(&self, error: ServiceError) -> ServiceError {
        if error.kind == Kind::Conflict {
            self.inner.counts.conflict(ConflictOn::of(&error.message));
        }
        error
    }

    /// The next version of one table; `None` if the table has the snapshots of the commit already, or was created by
    /// it.
    async fn plan(
        &self,
        Part { identifier, request, .. }: &Part,
        current: Option<Loaded<TableMetadata>>,
    ) -> Result<Option<Planned>, ServiceError> {
        let creates = request.requirements.iter().any(|one| matches!(one, TableRequirement::NotExist));
        let Some(current) = current else {
            if !creates {
                return Err(no_table(identifier));
            }
            let (folder, metadata) = self.created_by(identifier, request.updates.clone()).await?;
            let (draft, folder) = (Draft::first(metadata), Some(folder));
            return Ok(Some(Planned { old: None, draft, fitting: Fitting::Applied, folder }));
        };
        if is_there(request, &current.metadata) {
            return Ok(None);
        }
        if creates {
            check(&request.requirements, Some(&current.metadata)).map_err(|misfit| self.counted(misfit.into()))?;
        }
        committable(&current)?;
        let Decided { draft, verdicts } = self.inner.decide(&current, &[Arc::clone(request)]).await;
        let fitting = verdicts.into_iter().next().unwrap_or(Ok(Fitting::Before));
        let fitting = fitting.map_err(|not_done| self.counted(not_done.error()))?;
        Ok(draft.map(|draft| Planned { old: Some(current), draft, fitting, folder: None }))
    }
}

/// Notes that these versions are not committed. The files of creations stay: somebody may have registered them.
fn lose(lost: &mut Lost, written: Vec<Written<'_>>) {
    for Written { part, old, next, .. } in written {
        if let Some(on) = old {
            lost.add(&part.name, &on, next);
        }
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
        false => lasting(commit).all(|update| shows(update, now) == Some(true)),
    }
}
