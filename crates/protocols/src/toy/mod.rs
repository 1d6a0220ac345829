//! A minimal protocol: one object; of two concurrent commits, the later one loses. It settles nothing: an unclear
//! answer stays unknown.
//!
//! It shows that a protocol takes only this folder and a line in `registry.rs`. Only tests can name it.

use std::borrow::Cow;
use std::sync::Arc;

use glidepath_env::{Cause, Env, Guard, Key, ObjectStore, Payload, Purpose, PutError, ReadError, Tag};
use glidepath_model::{Action, AtHand, Changes, CommitId, Entry, Name, Root, TableId, Version};

use crate::afterwards::{Made, Write, changed};
use crate::catalog::{Catalog, LoadError, Outcome, TableStates};
use crate::catalog_file::File;
use crate::entry;
use crate::group::{GroupAttempt, Grouped, Verdict};
use crate::registry::{Creation, Design, Settings};
use crate::upkeep::{Facts, Report, look_at_newest};

/// The protocol.
pub enum Toy {}

/// A catalog in one object.
#[derive(Clone)]
pub struct ToyCatalog<E: Env> {
    env: E,
    store: E::Objects,
    shared_state: Arc<Key>,
}

/// A root, and the tag of its object.
#[derive(Clone, Debug)]
pub struct Snapshot {
    root: Root,
    tag: Tag,
}

impl<E: Env> ToyCatalog<E> {
    async fn put(&self, root: Root, guard: Guard) -> Outcome<Snapshot> {
        let body = Payload::from(File::first(root.clone()).encode());
        match self.store.put(&self.shared_state, body, guard).await {
            Ok(tag) => Outcome::Committed(Snapshot { root, tag }),
            Err(PutError::Lost) if self.store.capabilities().delivers_once => Outcome::Conflict(None),
            Err(PutError::Refused(denial)) if denial.certain => Outcome::Refused(denial),
            // Its own first delivery may have won.
            Err(PutError::Lost) => Outcome::Unknown(Cause::words("lost, perhaps to an earlier delivery of itself")),
            Err(PutError::Refused(denial)) => Outcome::Unknown(denial.cause),
            Err(PutError::Unknown(cause)) => Outcome::Unknown(cause),
        }
    }
}

impl<E: Env> Catalog for ToyCatalog<E> {
    type Snapshot = Snapshot;

    async fn load(&self) -> Result<Snapshot, LoadError> {
        let object = self.store.get(&self.shared_state).await.map_err(|error| match error {
            ReadError::NotFound => LoadError::NotFound,
            ReadError::Failed(cause) => LoadError::Failed(cause),
        })?;
        let file = File::decode(&object.payload.bytes);
        let file = file.map_err(|error| LoadError::Undecodable(Cause::from_error(error)))?;
        Ok(Snapshot { root: file.root().clone(), tag: object.tag })
    }

    fn version(&self, at: &Snapshot) -> Option<Version> {
        Some(at.root.version)
    }

    async fn tables<'a>(&self, at: &'a Snapshot, ids: &[TableId]) -> Result<TableStates<'a>, LoadError> {
        Ok(ids.iter().map(|id| at.root.table(*id).map(Cow::Borrowed)).collect())
    }

    async fn entry(&self, at: &Snapshot, name: &Name) -> Result<Option<Entry>, LoadError> {
        Ok(at.root.entry(name))
    }

    async fn children(
        &self,
        at: &Snapshot,
        namespace: Option<&Name>,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, LoadError> {
        Ok(at.root.children(namespace, after, limit))
    }

    async fn commit(&self, base: &Snapshot, changes: &Changes) -> Outcome<Snapshot> {
        let commit = CommitId(self.env.draw(Purpose::Names));
        match changes.apply(&base.root, commit) {
            Ok(root) => self.put(root, Guard::Matches(base.tag.clone())).await,
            Err(_) => Outcome::Conflict(None),
        }
    }
}

impl<E: Env> Grouped for ToyCatalog<E> {
    fn newest_known(&self) -> Option<Snapshot> {
        None
    }

    async fn attempt_group(&self, base: &Snapshot, requests: &[&[Action]]) -> GroupAttempt<Snapshot> {
        let (mut root, mut unchanged) = (base.root.clone(), true);
        let allowed = |name: &Name, entry: &Entry| entry::can_be_kept(entry::MOST_BYTES, name, entry);
        let mut verdicts = Vec::new();
        for request in requests {
            verdicts.push(match root.decide(request, allowed) {
                Ok(done) => {
                    unchanged &= done.is_unchanged();
                    Verdict::Fits
                }
                Err(refusal) => Verdict::Refused(refusal),
            });
        }
        if unchanged {
            return GroupAttempt::Decided { verdicts, outcome: None };
        }
        (root.commit, root.version) = (CommitId(self.env.draw(Purpose::Names)), base.root.version.next());
        let outcome = self.put(root, Guard::Matches(base.tag.clone())).await;
        GroupAttempt::Decided { verdicts, outcome: Some(outcome) }
    }
}

impl Design for Toy {
    const NAME: &'static str = "toy";
    const TRACES: &'static [&'static str] = &["toy"];
    const SHARES: bool = false;

    type Snapshot = Snapshot;
    type SharedState = Key;
    type Catalog<E: Env> = ToyCatalog<E>;

    fn shared_state(prefix: &str, _: &Settings) -> Key {
        Key::new(&format!("{prefix}toy"))
    }

    fn open<E: Env>(env: E, store: E::Objects, shared_state: Arc<Key>) -> ToyCatalog<E> {
        ToyCatalog { env, store, shared_state }
    }

    async fn create<E: Env>(catalog: &ToyCatalog<E>, creation: Creation) -> Outcome<Snapshot> {
        let commit = CommitId(catalog.env.draw(Purpose::Names));
        match Root::from_parts(Version(0), commit, creation.tables) {
            Some(root) => catalog.put(root, Guard::Absent).await,
            None => Outcome::refused(Cause::words("tables must have rising ids and at least one partition each")),
        }
    }

    fn facts(at: &Snapshot) -> Facts {
        Facts::of(at.root.commit)
    }

    fn fsck<E: Env>(catalog: &ToyCatalog<E>, _: bool) -> impl Future<Output = Result<Report, LoadError>> {
        look_at_newest::<Self, E>(catalog, Key::clone(&catalog.shared_state))
    }

    fn versions(shared_state: Key, writes: &[Write]) -> Result<Vec<Made>, String> {
        let (mut before, mut versions) = (Root::empty(), Vec::new());
        for (number, write) in writes.iter().enumerate().filter(|(_, write)| write.key == shared_state) {
            let object = write.object.as_ref().ok_or("the catalog was deleted")?;
            let now = File::decode(&object.bytes).map_err(|error| error.to_string())?.root().clone();
            versions.push(Made { version: now.version, write: number, commit: None, changed: changed(&before, &now) });
            before = now;
        }
        Ok(versions)
    }
}
