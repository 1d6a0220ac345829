//! The whole catalog is one object, replaced by a guarded put.
//!
//! Steps of a commit (comments cite these numbers; faults and invariants are in `docs/protocols/catalog-file.md`):
//!
//! 1. Apply the changes to the tables of the base root; if they do not fit, it is a conflict.
//! 2. Draw a fresh commit id. The next root contains it and the ids before it. The root is built and encoded when the
//!    store asks for it.
//! 3. Put it, guarded by the base's tag.
//! 4. Lost, and nothing on the way can have repeated the put: a conflict.
//! 5. Certainly refused: nothing happened.
//! 6. Anything else: read back, and look for the id at its version; repeat the same put while the head is still the
//!    base.
//! 7. What cannot be settled stays unknown.

mod design;
mod encoding;
mod next;
mod size;

use std::borrow::Cow;
use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};

use glidepath_env::{Cause, Env, Key, Object, ObjectStore, Payload};
use glidepath_env::{Purpose, PutError, ReadError, Tag};
use glidepath_model::{Action, AtHand, ByteSize, Changes, CommitId, Entry, Name, Root, TableId, TableState, Version};

use crate::catalog::{Catalog, LoadError, Outcome, TableStates};
use crate::entry;
use crate::group::{GroupAttempt, Grouped, Verdict};
use crate::mutant::{self, Mutant};
use crate::settling::{self, Doubt};
use crate::wire::DecodeError;
pub use design::OneFile;
pub use encoding::{File, LINEAGE};
use next::Next;

/// A file stores its length in 32 bits.
const MOST_BYTES: usize = u32::MAX as usize;

/// A catalog in one object of a store.
#[derive(Clone)]
pub struct CatalogFile<E: Env> {
    env: E,
    store: E::Objects,
    shared_state: Arc<SharedState>,
}

/// What all handles of a process to one catalog share.
pub struct SharedState {
    key: Key,
    filler_per_table: ByteSize,
    /// The maximum size of a file, in bytes.
    most_bytes: usize,
    /// The newest root that this process has decoded: most reads find the one that was just written.
    newest: Mutex<Option<Snapshot>>,
}

impl SharedState {
    /// The catalog under this key. Each table that is kept as a number adds `filler_per_table` to the object, in place
    /// of table metadata inside the catalog; zero if there is none.
    #[must_use]
    pub fn new(key: Key, filler_per_table: ByteSize) -> Self {
        Self { key, filler_per_table, most_bytes: MOST_BYTES, newest: Mutex::new(None) }
    }

    /// With a smaller maximum size.
    #[cfg(test)]
    fn of_at_most(self, most_bytes: usize) -> Self {
        Self { most_bytes, ..self }
    }

    /// The object that holds this file.
    #[must_use]
    pub fn payload(&self, file: &File) -> Payload {
        Payload { bytes: file.encode(), filler: self.filler(file.root().table_count()) }
    }

    fn filler(&self, tables: usize) -> ByteSize {
        ByteSize::from_bytes(self.filler_per_table.as_bytes().saturating_mul(tables as u64))
    }
}

/// A root as it was read or written, with the tag that guards the next write.
#[derive(Clone, Debug)]
pub struct Snapshot {
    file: Arc<File>,
    tag: Tag,
}

impl Snapshot {
    /// The catalog at this version.
    #[must_use]
    pub fn root(&self) -> &Root {
        self.file.root()
    }
}

impl<E: Env> CatalogFile<E> {
    /// A handle to this catalog. Makes no request.
    #[must_use]
    pub fn new(env: E, store: E::Objects, shared_state: Arc<SharedState>) -> Self {
        Self { env, store, shared_state }
    }

    /// Creates the catalog with these tables, each at its first version, if there is none yet; otherwise `Conflict`.
    pub async fn create(&self, tables: Vec<(TableId, TableState)>) -> Outcome<Snapshot> {
        let commit = CommitId(self.env.draw(Purpose::Names));
        let Some(root) = Root::from_parts(Version(0), commit, tables) else {
            return Outcome::refused(Cause::words("tables must have rising ids and at least one partition each"));
        };
        self.install(Next::built(None, root)).await
    }

    /// Steps 3 to 7: replaces the base by a root, or creates the first one. (Not an async fn: that would store the root
    /// twice, as the argument and as the variable.)
    #[expect(clippy::manual_async_fn)]
    fn install(&self, next: Next<'_>) -> impl Future<Output = Outcome<Snapshot>> {
        async move {
            if let Some(cause) = self.too_large(&next) {
                return Outcome::refused(cause);
            }
            let error = match self.put(&next).await {
                Ok(tag) => return Outcome::Committed(self.landed(next, tag)),
                Err(PutError::Lost) if self.store.capabilities().delivers_once || mutant::is(Mutant::LostIsProof) => {
                    return Outcome::Conflict(None);
                }
                Err(PutError::Refused(denial)) if denial.certain => return Outcome::Refused(denial),
                Err(PutError::Unknown(_)) if mutant::is(Mutant::UnknownIsLost) => return Outcome::Conflict(None),
                Err(error) => error,
            };
            // Boxed, because it is rare and would otherwise enlarge the future of every commit.
            Box::pin(self.settle(next, error)).await
        }
    }

    /// A file that could not be read back is not written.
    fn too_large(&self, next: &Next<'_>) -> Option<Cause> {
        let (length, most) = (next.length(), self.shared_state.most_bytes);
        let words = || format!("the catalog would take {length} bytes; a catalog file holds at most {most}");
        (length > most).then(|| Cause::words(words()))
    }

    /// Step 3.
    fn put<'a>(&'a self, next: &'a Next<'_>) -> impl Future<Output = Result<Tag, PutError>> + 'a {
        self.store.put(&self.shared_state.key, next.body(&self.shared_state), next.guard())
    }

    fn landed(&self, next: Next<'_>, tag: Tag) -> Snapshot {
        self.keep(Arc::new(next.into_file()), tag)
    }

    /// Step 6: finds out whether a put took effect whose answer does not tell.
    async fn settle(&self, next: Next<'_>, error: PutError) -> Outcome<Snapshot> {
        let version = next.version();
        let delivers_once = self.store.capabilities().delivers_once;
        // If there was an answer, the put has almost always either taken effect by now or never will.
        let mut at_once = !matches!(error, PutError::Unknown(_));
        let mut doubt = Doubt::default();
        if let Some(denial) = doubt.record(error, delivers_once) {
            return Outcome::Refused(denial);
        }
        for round in 0..settling::ROUNDS {
            if !std::mem::take(&mut at_once) {
                settling::wait(&self.env, round).await;
            }
            match self.load().await {
                Ok(head) => match head.file.commit_at(version) {
                    Some(commit) if commit == next.commit() => return Outcome::Committed(head),
                    // Another commit's: the base's tag is gone, so the guard of our put can no longer hold.
                    Some(_) => return Outcome::Conflict(Some(head)),
                    None if head.root().version > version => {
                        return Outcome::Unknown(Cause::words(format!(
                            "the catalog is {} versions further; its lineage is too short to tell whether this commit \
                             is among them",
                            head.root().version.since(version)
                        )));
                    }
                    None => {}
                },
                // A creation: there is nothing yet.
                Err(LoadError::NotFound) if next.base().is_none() => {}
                Err(LoadError::NotFound) => return Outcome::Unknown(Cause::words("the catalog was deleted")),
                Err(LoadError::Undecodable(cause)) => return Outcome::Unknown(cause),
                Err(LoadError::Failed(cause)) => {
                    doubt.note(cause);
                    continue;
                }
            }
            if doubt.hopeless() {
                break;
            }
            // The head is still the base. The guard lets at most one of the two puts take effect, and both are ours.
            match self.put(&next).await {
                Ok(tag) => return Outcome::Committed(self.landed(next, tag)),
                // A denial says nothing about earlier puts.
                Err(error) => drop(doubt.record(error, delivers_once)),
            }
        }
        Outcome::Unknown(doubt.cause())
    }

    fn keep(&self, file: Arc<File>, tag: Tag) -> Snapshot {
        let snapshot = Snapshot { file, tag };
        *self.newest() = Some(snapshot.clone());
        snapshot
    }

    fn newest(&self) -> std::sync::MutexGuard<'_, Option<Snapshot>> {
        // The value is replaced as a whole, so a panic elsewhere cannot leave it half-written.
        self.shared_state.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decode(&self, object: Object) -> Result<Snapshot, LoadError> {
        if let Some(known) = self.newest().as_ref().filter(|known| known.tag == object.tag) {
            return Ok(known.clone());
        }
        let undecodable = |error: DecodeError| LoadError::Undecodable(Cause::from_error(error));
        let file = File::decode(&object.payload.bytes).map_err(undecodable)?;
        Ok(self.keep(Arc::new(file), object.tag))
    }
}

impl<E: Env> Catalog for CatalogFile<E> {
    type Snapshot = Snapshot;

    async fn load(&self) -> Result<Snapshot, LoadError> {
        match self.store.get(&self.shared_state.key).await {
            Ok(object) => self.decode(object),
            Err(ReadError::NotFound) => Err(LoadError::NotFound),
            Err(ReadError::Failed(cause)) if mutant::is(Mutant::FailureIsDamage) => Err(LoadError::Undecodable(cause)),
            Err(ReadError::Failed(cause)) => Err(LoadError::Failed(cause)),
        }
    }

    fn version(&self, at: &Snapshot) -> Option<Version> {
        Some(at.root().version)
    }

    fn tables<'a>(
        &self,
        at: &'a Snapshot,
        ids: &[TableId],
    ) -> impl Future<Output = Result<TableStates<'a>, LoadError>> {
        let state = |id: &TableId| at.root().table(*id).map(Cow::Borrowed);
        ready(Ok(match ids {
            // The usual case; much cheaper than collecting.
            [id] => TableStates::from_buf([state(id)]),
            _ => ids.iter().map(state).collect(),
        }))
    }

    async fn entry(&self, at: &Snapshot, name: &Name) -> Result<Option<Entry>, LoadError> {
        Ok(at.root().entry(name))
    }

    async fn children(
        &self,
        at: &Snapshot,
        namespace: Option<&Name>,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, LoadError> {
        Ok(at.root().children(namespace, after, limit))
    }

    async fn commit(&self, base: &Snapshot, changes: &Changes) -> Outcome<Snapshot> {
        // Steps 1 and 2.
        let commit = CommitId(self.env.draw(Purpose::Names));
        let Some(next) = Next::of(base, commit, changes) else { return Outcome::Conflict(None) };
        self.install(next).await
    }
}

impl<E: Env> Grouped for CatalogFile<E> {
    fn newest_known(&self) -> Option<Snapshot> {
        self.newest().clone()
    }

    async fn attempt_group(&self, base: &Snapshot, requests: &[&[Action]]) -> GroupAttempt<Snapshot> {
        let commit = CommitId(self.env.draw(Purpose::Names));
        let mut requests = requests;
        loop {
            let Decided { verdicts, next } = decide(base, commit, requests);
            let Some(root) = next else { return GroupAttempt::Decided { verdicts, outcome: None } };
            let next = Next::built(Some(base), root);
            match self.too_large(&next) {
                None => return GroupAttempt::Decided { verdicts, outcome: Some(self.install(next).await) },
                Some(cause) if requests.len() == 1 => {
                    return GroupAttempt::Decided { verdicts: vec![Verdict::Failed(cause)], outcome: None };
                }
                // Fewer may fit.
                Some(_) => requests = &requests[..requests.len() / 2],
            }
        }
    }
}

/// Which requests can be done one after another.
struct Decided {
    verdicts: Vec<Verdict>,
    /// The root after them, if they change anything.
    next: Option<Root>,
}

fn decide(base: &Snapshot, commit: CommitId, requests: &[&[Action]]) -> Decided {
    // One copy for all requests, however large the catalog is.
    let (mut root, mut changed) = (base.root().clone(), false);
    let verdict = |actions: &&[Action]| {
        let allowed = |name: &Name, entry: &Entry| entry::can_be_kept(entry::MOST_BYTES, name, entry);
        match root.decide(&mutant::actions(actions), allowed) {
            Ok(done) => {
                changed |= !done.is_unchanged();
                Verdict::Fits
            }
            Err(refusal) => Verdict::Refused(refusal),
        }
    };
    let verdicts = requests.iter().map(verdict).collect();
    (root.commit, root.version) = (commit, base.root().version.next());
    Decided { verdicts, next: changed.then_some(root) }
}

#[cfg(test)]
mod tests;
