//! A register per name, put slot by slot; a record per transaction that writes several. There is no common root.
//!
//! Steps of a commit (comments cite these numbers; formats, faults and invariants are in `docs/protocols/tickets.md`):
//!
//! 1. Read the registers of all names concerned; decide.
//! 2. Wait for undecided transactions of others whose intents stand in the way, and abort those that take too long.
//! 3. Put names to be created onto the roster of their namespace.
//! 4. One name written and nothing else read: put its next slot. That is the commit.
//! 5. Otherwise look at the registers once more.
//! 6. Put an intent into each.
//! 7. When all stand, look at the namespaces that must exist, and at those that must be empty.
//! 8. Put the record `committed`. That is the commit.
//! 9. If 6 or 7 fails, put the record `aborted`.
//! 10. Settle each put whose answer does not tell by reading back.

mod audit;
mod commit;
mod design;
mod fsck;
mod keys;
mod known;
mod list;
mod object;
mod plan;
mod proofs;
mod put;
mod read;
#[cfg(test)]
mod tests;
mod trim;
mod upkeep;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use glidepath_env::{Cause, Env, Guard, ObjectStore, Payload, Purpose, PutError};
use glidepath_model::{Action, Assertion, Changes, CommitId, Entry, Kind, Name, TableId, TableState, Version};

use crate::catalog::{Catalog, LoadError, Outcome, TableStates, everywhere};
use crate::group::{GroupAttempt, Grouped};
use crate::mutant::{self, Mutant};
use crate::settling;
use commit::Plan;
pub use design::PerName;
use keys::Hash;
pub use known::SharedState;
pub use object::EMPTIED_BYTES;
use read::{Seen, restless, undecodable};

/// How often a look at more names of a snapshot is repeated.
const LOOKS: u32 = 8;

/// A catalog with a register for each name.
#[derive(Clone)]
pub struct Tickets<E: Env> {
    env: E,
    store: E::Objects,
    shared_state: Arc<SharedState>,
}

/// What became of a transaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fate {
    /// There is no record yet.
    #[default]
    Undecided,
    Committed,
    Aborted,
}

/// The names that were read so far, as they were together at one moment. A clone goes on by itself: what one reads does
/// not bind the other.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The commit after which it was taken; 0 for a load.
    commit: CommitId,
    names: Mutex<BTreeMap<Name, Seen>>,
}

impl Clone for Snapshot {
    fn clone(&self) -> Self {
        Self { commit: self.commit, names: Mutex::new(self.names().clone()) }
    }
}

impl Snapshot {
    fn committed(commit: CommitId, names: impl IntoIterator<Item = (Name, Seen)>) -> Self {
        Self { commit, names: Mutex::new(names.into_iter().collect()) }
    }

    fn names(&self) -> std::sync::MutexGuard<'_, BTreeMap<Name, Seen>> {
        // Each insertion is complete in itself.
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<E: Env> Tickets<E> {
    /// A handle to this catalog. Makes no request.
    #[must_use]
    pub fn new(env: E, store: E::Objects, shared_state: Arc<SharedState>) -> Self {
        Self { env, store, shared_state }
    }

    /// Creates the catalog with these tables if there is none yet; otherwise `Conflict`. The object `format` is the
    /// commit point; the tables follow in a transaction.
    pub async fn create(&self, tables: Vec<(TableId, TableState)>) -> Outcome<Snapshot> {
        let creation = self.env.draw(Purpose::Names);
        match self.put_format(creation).await {
            Outcome::Committed(at) if tables.is_empty() => return Outcome::Committed(at),
            Outcome::Committed(_) => {}
            other => return other,
        }
        let create = |(id, state): (TableId, TableState)| Action::Create {
            name: Name::numbered(id),
            entry: Entry::table(None, state),
        };
        let actions: Vec<Action> = tables.into_iter().map(create).collect();
        match self.attempt(&[&actions]).await {
            GroupAttempt::Decided { outcome: Some(outcome @ Outcome::Committed(_)), verdicts }
                if matches!(verdicts[..], [crate::group::Verdict::Fits]) =>
            {
                outcome
            }
            GroupAttempt::Decided { outcome: Some(Outcome::Unknown(cause)), .. } => Outcome::Unknown(cause),
            // The catalog is there, without its tables.
            other => Outcome::Unknown(Cause::words(format!("the catalog was created without its tables: {other:?}"))),
        }
    }

    async fn put_format(&self, creation: u64) -> Outcome<Snapshot> {
        let key = self.shared_state.keys.format();
        let mut cause = None;
        for round in 0..settling::ROUNDS {
            let body = Payload::from(object::encode_format(creation));
            match self.store.put(&key, body, Guard::Absent).await {
                Ok(_) => {
                    self.shared_state.exists(Hash::Sha256);
                    return Outcome::Committed(Snapshot::default());
                }
                Err(PutError::Refused(denial)) if denial.certain && cause.is_none() => return Outcome::Refused(denial),
                Err(PutError::Lost) => {}
                Err(error) => {
                    cause = Some(Cause::from_error(error));
                    settling::wait(&self.env, round).await;
                }
            }
            match self.object(&key).await {
                Ok(Some(object)) => {
                    return match object::decode_format(&object.payload.bytes) {
                        Ok((found, _)) if found == creation => Outcome::Committed(Snapshot::default()),
                        Ok(_) => Outcome::Conflict(None),
                        Err(error) => Outcome::not_read(undecodable(&key, error)),
                    };
                }
                Ok(None) => {}
                Err(LoadError::Failed(failed)) => cause = Some(failed),
                Err(error) => return Outcome::not_read(error),
            }
        }
        Outcome::Unknown(
            cause.unwrap_or_else(|| Cause::words("the store answered that the object is there, and does not show it")),
        )
    }

    /// Names in a snapshot: those that it has, and others if they and those that it has were current together.
    async fn look_up(&self, at: &Snapshot, names: &[Name]) -> Result<Vec<Seen>, LoadError> {
        for _ in 0..LOOKS {
            let there = at.names().clone();
            let new: Vec<Name> = names.iter().filter(|name| !there.contains_key(name)).cloned().collect();
            let seen = match () {
                () if new.is_empty() => Vec::new(),
                () if there.is_empty() => self.look_together(&new).await?,
                () => self.look_beside(&there, &new).await?,
            };
            let mut kept = at.names();
            // Names are only added. Those of another look-up on this snapshot meanwhile are of another moment.
            if new.is_empty() || kept.len() == there.len() {
                kept.extend(new.into_iter().zip(seen));
                return Ok(names.iter().filter_map(|name| kept.get(name).cloned()).collect());
            }
        }
        Err(restless())
    }

    async fn look_beside(&self, there: &BTreeMap<Name, Seen>, new: &[Name]) -> Result<Vec<Seen>, LoadError> {
        for _ in 0..LOOKS {
            let seen = self.look_at(new).await?;
            if !self.are_same(there).await? {
                return Err(restless());
            }
            if new.len() == 1 || self.are_same(new.iter().zip(&seen)).await? {
                return Ok(seen);
            }
        }
        Err(restless())
    }

    /// As [`commit`](Catalog::commit); the other tables and names that were read in `base` must also be as they were,
    /// at the moment of the commit.
    pub async fn commit_validated(&self, base: &Snapshot, changes: &Changes) -> Outcome<Snapshot> {
        self.commit_on(base, changes, true).await
    }

    async fn commit_on(&self, base: &Snapshot, changes: &Changes, validate: bool) -> Outcome<Snapshot> {
        let ids: Vec<TableId> = changes.edits().iter().map(|change| change.table).collect();
        let names: Vec<Name> = ids.iter().map(|id| Name::numbered(*id)).collect();
        let seen = match self.look_up(base, &names).await {
            Ok(seen) => seen,
            Err(error) => return Outcome::not_read(error),
        };
        let seen: BTreeMap<TableId, Seen> = ids.into_iter().zip(seen).collect();
        let entry = |id: TableId| seen.get(&id).and_then(Seen::now);
        let state = |id: TableId| entry(id).and_then(state_of);
        let taken = |id: TableId| entry(id).is_some_and(|entry| state_of(entry).is_none());
        let Ok(touched) = changes.touch_with(state, taken) else { return Outcome::Conflict(None) };
        let mut plan = Plan::default();
        for (id, after) in touched.into_tables() {
            let before = entry(id).cloned();
            let after = after.map(|state| match before {
                Some(entry) => Entry { state: Some(state), ..entry },
                None => Entry::table(None, state),
            });
            let Some(seen) = seen.get(&id) else { continue };
            plan.writes.insert(Name::numbered(id), (seen.clone(), after));
        }
        if plan.writes.is_empty() {
            return Outcome::Committed(base.clone());
        }
        if validate {
            plan.holds = base.names().clone();
            plan.holds.retain(|name, _| !plan.writes.contains_key(name));
        }
        self.carry_out(plan).await
    }
}

/// The state of a table.
fn state_of(entry: &Entry) -> Option<&TableState> {
    entry.state.as_ref().filter(|_| entry.kind == Kind::Table)
}

impl<E: Env> Catalog for Tickets<E> {
    type Snapshot = Snapshot;

    async fn load(&self) -> Result<Snapshot, LoadError> {
        if !self.shared_state.is_there() {
            let key = self.shared_state.keys.format();
            let object = self.object(&key).await?.ok_or(LoadError::NotFound)?;
            let (_, hash) = object::decode_format(&object.payload.bytes).map_err(|error| undecodable(&key, error))?;
            self.shared_state.exists(hash);
        }
        Ok(Snapshot::default())
    }

    fn version(&self, _: &Snapshot) -> Option<Version> {
        None
    }

    async fn tables<'a>(&self, at: &'a Snapshot, ids: &[TableId]) -> Result<TableStates<'a>, LoadError> {
        let names: Vec<Name> = ids.iter().map(|id| Name::numbered(*id)).collect();
        let seen = self.look_up(at, &names).await?;
        Ok(seen.iter().map(|seen| seen.now().and_then(state_of).map(|state| Cow::Owned(state.clone()))).collect())
    }

    async fn entry(&self, at: &Snapshot, name: &Name) -> Result<Option<Entry>, LoadError> {
        let seen = self.look_up(at, std::slice::from_ref(name)).await?;
        Ok(seen.first().and_then(Seen::now).cloned())
    }

    async fn children(
        &self,
        _: &Snapshot,
        namespace: Option<&Name>,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, LoadError> {
        self.listed(namespace, after, limit, |_, entry| Some(entry.clone())).await
    }

    async fn list<T: PartialEq>(
        &self,
        _: &Snapshot,
        namespace: Option<&Name>,
        after: Option<&Name>,
        limit: usize,
        what: impl Fn(&Name, &Entry) -> Option<T>,
    ) -> Result<Vec<(Name, T)>, LoadError> {
        self.listed(namespace, after, limit, what).await
    }

    async fn search(
        &self,
        at: &Snapshot,
        enters: impl Fn(&Name) -> bool,
        wanted: impl Fn(&Name, &Entry) -> bool,
    ) -> Result<Vec<Name>, LoadError> {
        if mutant::is(Mutant::SearchInParts) {
            return everywhere(self, at, enters, wanted).await;
        }
        self.searched(enters, wanted).await
    }

    async fn trim(&self, namespace: Option<&Name>) -> Result<u64, LoadError> {
        match self.shared_state.may_be_trimmed(namespace) {
            true => self.trimmed(namespace).await,
            false => Ok(0),
        }
    }

    async fn commit(&self, base: &Snapshot, changes: &Changes) -> Outcome<Snapshot> {
        self.commit_on(base, changes, false).await
    }
}

impl<E: Env> Grouped for Tickets<E> {
    /// A load makes no request once the process knows that there is a catalog.
    fn newest_known(&self) -> Option<Snapshot> {
        None
    }

    /// Changes of one entry take one guarded put (step 4), a batch of several entries a transaction.
    fn is_apart(&self, request: &[Action]) -> bool {
        let mut changed = request.iter().map(|action| match action {
            Action::SetPointer { name, .. }
            | Action::Advance { name, .. }
            | Action::SetProperties { name, .. }
            | Action::Assert { name, holds: Assertion::Property { .. } } => Some(name),
            _ => None,
        });
        changed.next().flatten().is_some_and(|first| changed.all(|name| name == Some(first)))
    }

    async fn attempt_group(&self, _: &Snapshot, requests: &[&[Action]]) -> GroupAttempt<Snapshot> {
        self.attempt(requests).await
    }
}
