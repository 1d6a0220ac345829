//! A chain of versions of the whole catalog: a commit puts the object of version N + 1 if absent.
//!
//! The entries are in an ordered tree of pages that never change (`tree.rs`). A commit writes the pages that it
//! changes, from leaf to root, into the object that it puts: O(log entries) bytes and, without contention, one request.
//! Versions are never replaced, so what was committed can always be determined.
//!
//! Steps of a commit (comments cite these numbers; faults and invariants are in `docs/protocols/manifest-chain.md`):
//!
//! 1. Look up what the actions need in the base version, and decide them (`glidepath_model::View`).
//! 2. Write new versions of the changed pages. What is too much for one object goes into packs, which are put first;
//!    nothing refers to them yet.
//! 3. Put the object of the next version if absent.
//! 4. Lost: read that version. If it is this very commit (something on the way repeated the put): committed. If it is
//!    another: a conflict; the packs are proven to be garbage and are deleted.
//! 5. Certainly refused: nothing happened; the packs are deleted.
//! 6. Anything else: read that version, as in 4. While there is none, repeat the put: at most one of the two takes
//!    effect.
//! 7. What cannot be settled stays unknown, and its packs stay.
//! 8. Committed after a long time: check that the version is still among the kept ones (a writer that slept may have
//!    put a version that had been vacuumed).
//! 9. Now and then, update the hint. Whether that succeeds does not matter.

mod ages;
mod audit;
mod block;
mod cache;
mod commit;
mod design;
mod difference;
mod dropped_rows;
mod fsck;
mod inspect;
mod manifest;
mod measured;
mod newest;
mod page;
mod read;
mod rows;
mod tree;
mod upkeep;
mod vacuum;
mod whole;

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use glidepath_env::{Cause, Denial, Env, Guard, ObjectStore, Payload, Purpose, PutError, ReadError};
use glidepath_model::{
    Action, Changes, CommitId, Entry, Instant, Kind, Name, Refusal, Span, TableId, TableState, Version,
};

use crate::catalog::{Catalog, LoadError, Outcome, TableStates};
use crate::entry;
use crate::group::{GroupAttempt, Grouped, Verdict};
use crate::mutant::{self, Mutant};
use cache::Cache;
pub use commit::{Attempt, Verdicts};
pub use design::Chain;
pub use fsck::{Checked, Extent, Finding, Severity, Trouble};
pub use inspect::Changed;
pub use manifest::Layout;
use manifest::{Keys, Manifest};
use tree::PageSize;
pub use vacuum::{Dispute, Grace, Swept, VacuumError};
pub use whole::Sizes;

/// A writer that took longer than this checks that the versions it knows are still kept. Every grace period is at least
/// twice as long.
const RECHECK: Span = Span::from_secs(300);

/// Whether that time, if there is one, was so recent that nothing can have been vacuumed since.
fn is_recent(seen: Option<Instant>, now: Instant) -> bool {
    seen.is_some_and(|seen| now.since(seen) < RECHECK)
}

/// A hint is written for every version whose number is a multiple of this.
const HINT_EVERY: u64 = 16;

/// A catalog in a chain of versions.
#[derive(Clone)]
pub struct ManifestChain<E: Env> {
    env: E,
    store: E::Objects,
    shared_state: Arc<SharedState>,
}

/// What all handles of a process to one catalog share: its keys and settings, and what the process knows of it.
pub struct SharedState {
    keys: Keys,
    cache: Cache,
    inline_max: usize,
    most_entry_bytes: usize,
    pages: PageSize,
    sizes: Sizes,
    /// The newest version that this process knows.
    newest: Mutex<Option<Snapshot>>,
}

impl SharedState {
    /// The catalog below this prefix (empty, or ending in `/`), with up to `cached_bytes` of its pages kept in memory,
    /// and besides them the objects of the last 32 versions that were read or written, of 256 KiB each at most unless
    /// [`inline_up_to`](Self::inline_up_to) says otherwise.
    #[must_use]
    pub fn new(prefix: &str, cached_bytes: usize) -> Self {
        let (keys, cache) = (Keys::below(prefix), Cache::new(cached_bytes / 2));
        let (inline_max, most_entry_bytes) = (commit::INLINE_MAX, entry::MOST_BYTES);
        let (pages, sizes) = (PageSize::default(), Sizes::default());
        Self { keys, cache, inline_max, most_entry_bytes, pages, sizes, newest: Mutex::new(None) }
    }

    /// Limits new pages of a [`Layout::Paged`] catalog to this many bytes (at most 4096): makes a deep tree with few
    /// entries. Writers of one catalog may use different limits.
    #[must_use]
    pub fn pages_of(self, bytes: usize) -> Self {
        Self { pages: PageSize::of(bytes), ..self }
    }

    /// Changed pages of more than this many bytes together (1 GiB at most) go into packs instead of the version's own
    /// object.
    #[must_use]
    pub fn inline_up_to(self, bytes: usize) -> Self {
        Self { inline_max: bytes.min(commit::MOST_INLINE), ..self }
    }

    /// Limits entries to this many bytes.
    #[cfg(test)]
    fn entries_of_at_most(self, bytes: usize) -> Self {
        Self { most_entry_bytes: bytes, ..self }
    }

    /// The sizes of the blocks and parts of a [`Layout::Whole`] catalog that this process writes.
    #[must_use]
    pub fn whole_sized(self, Sizes { block_bytes, part_bytes }: Sizes) -> Self {
        // Offsets have 32 bits.
        let within = |bytes: usize| bytes.clamp(1, 1 << 30);
        Self { sizes: Sizes { block_bytes: within(block_bytes), part_bytes: within(part_bytes) }, ..self }
    }
}

/// The catalog at one version. Readable as long as the version is kept: see [`Grace`].
#[derive(Clone, Debug)]
pub struct Snapshot {
    manifest: Arc<Manifest>,
    /// A time, by the process's clock, at which it was the newest version or not yet written. What follows it cannot
    /// have been vacuumed within a grace period from then. `None` if it was read by its number, and may be old.
    seen: Option<Instant>,
}

impl Snapshot {
    /// Whether the versions after it are, at this time, sure to exist or not to have been written yet.
    fn is_recent(&self, now: Instant) -> bool {
        is_recent(self.seen, now)
    }

    /// Its position in the chain.
    #[must_use]
    pub fn version(&self) -> Version {
        self.manifest.version
    }

    /// The commit that made it.
    #[must_use]
    pub fn commit(&self) -> CommitId {
        self.manifest.commit
    }

    /// How many namespaces, tables and views there are.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.manifest.entries
    }

    /// When it was written, by its writer's clock, in milliseconds since 1970.
    #[must_use]
    pub fn written_ms(&self) -> u64 {
        self.manifest.written_ms
    }

    /// Versions before this one may have been removed.
    #[must_use]
    pub fn oldest_kept(&self) -> Version {
        self.manifest.oldest
    }

    /// How it stores its entries.
    #[must_use]
    pub fn layout(&self) -> Layout {
        self.manifest.layout
    }

    /// Whether there are indices by type and by base object.
    #[must_use]
    pub fn indexed(&self) -> bool {
        self.manifest.indexed
    }
}

impl<E: Env> ManifestChain<E> {
    /// A handle to this catalog. Makes no request.
    #[must_use]
    pub fn new(env: E, store: E::Objects, shared_state: Arc<SharedState>) -> Self {
        Self { env, store, shared_state }
    }

    /// Creates an empty catalog, with indices by type and by base object or without. `Conflict` if there is one.
    pub async fn create(&self, layout: Layout, indexed: bool) -> Outcome<Snapshot> {
        let manifest = Manifest {
            version: Version(0),
            commit: CommitId(self.env.draw(Purpose::Names)),
            before: CommitId(0),
            oldest: Version(0),
            written_ms: self.env.unix_ms(),
            entries: 0,
            indexed,
            layout,
            root: None,
            unknown: Vec::new(),
        };
        // A catalog whose first versions have been vacuumed exists, too. If there is none, that holds for some time
        // after this one.
        let since = self.env.now();
        match self.load().await {
            Err(LoadError::NotFound) => {}
            Ok(head) => return Outcome::Conflict(Some(head)),
            Err(error) => return Outcome::not_read(error),
        }
        let object = Bytes::from(manifest.encode());
        self.put_version(manifest, object, Some(since)).await
    }

    /// The content of the chain at a version; `None` if there is none. `seen` is as in [`Snapshot`].
    async fn read_version(&self, version: Version, seen: Option<Instant>) -> Result<Option<Snapshot>, LoadError> {
        match self.store.get(&self.shared_state.keys.version(version)).await {
            Ok(object) => {
                let manifest = Manifest::decode(&object.payload.bytes);
                let manifest = manifest.map_err(|error| LoadError::Undecodable(Cause::from_error(error)))?;
                if manifest.version != version {
                    let words = format!("the object of {version} says that it is {}", manifest.version);
                    return Err(LoadError::Undecodable(Cause::words(words)));
                }
                self.shared_state.cache.keep_object(version, object.payload.bytes);
                Ok(Some(Snapshot { manifest: Arc::new(manifest), seen }))
            }
            Err(ReadError::NotFound) => Ok(None),
            Err(ReadError::Failed(cause)) => Err(LoadError::Failed(cause)),
        }
    }

    fn known(&self) -> MutexGuard<'_, Option<Snapshot>> {
        // The value is replaced as a whole, so a panic elsewhere cannot leave it half-written.
        self.shared_state.newest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn know(&self, head: &Snapshot) {
        let mut known = self.known();
        if known.as_ref().is_none_or(|known| known.version() <= head.version()) {
            *known = Some(head.clone());
        }
    }

    /// Step 9.
    async fn leave_hint(&self, version: Version) {
        if version.0.is_multiple_of(HINT_EVERY) {
            let _ = self.put_hint(version).await;
        }
    }

    async fn put_hint(&self, version: Version) -> Result<(), Cause> {
        let payload = Payload::from(Bytes::copy_from_slice(&version.0.to_le_bytes()));
        match self.store.put(&self.shared_state.keys.hint(), payload, Guard::None).await {
            Ok(_) => Ok(()),
            Err(PutError::Lost) => Err(Cause::words("a put without a guard was lost")),
            Err(PutError::Unknown(cause) | PutError::Refused(Denial { cause, .. })) => Err(cause),
        }
    }
}

impl<E: Env> Grouped for ManifestChain<E> {
    fn newest_known(&self) -> Option<Snapshot> {
        self.known().as_ref().filter(|head| head.is_recent(self.env.now())).cloned()
    }

    async fn attempt_group(&self, base: &Snapshot, requests: &[&[Action]]) -> GroupAttempt<Snapshot> {
        let (verdicts, attempt) = self.attempt(base, requests).await;
        let verdict = |decided: Result<(), Refusal>| decided.map_or_else(Verdict::Refused, |()| Verdict::Fits);
        let verdicts = verdicts.into_iter().map(verdict).collect();
        match attempt {
            Attempt::Nothing => GroupAttempt::Decided { verdicts, outcome: None },
            Attempt::Ended(Outcome::Committed(_)) if mutant::is(Mutant::OldVersionTold) => {
                GroupAttempt::Decided { verdicts, outcome: Some(Outcome::Committed(base.clone())) }
            }
            Attempt::Ended(outcome) => GroupAttempt::Decided { verdicts, outcome: Some(outcome) },
            Attempt::NotMade(error) => GroupAttempt::NotMade(error),
        }
    }
}

impl<E: Env> Catalog for ManifestChain<E> {
    type Snapshot = Snapshot;

    async fn load(&self) -> Result<Snapshot, LoadError> {
        self.find_newest().await
    }

    fn version(&self, at: &Snapshot) -> Option<Version> {
        Some(at.version())
    }

    async fn tables<'a>(&self, at: &'a Snapshot, ids: &[TableId]) -> Result<TableStates<'a>, LoadError> {
        let mut states = TableStates::new();
        for id in ids {
            let entry: Option<Entry> = self.entry(at, &Name::numbered(*id)).await?;
            let table = entry.filter(|entry| entry.kind == Kind::Table);
            let state: Option<TableState> = table.and_then(|entry| entry.state);
            states.push(state.map(Cow::Owned));
        }
        Ok(states)
    }

    async fn entry(&self, at: &Snapshot, name: &Name) -> Result<Option<Entry>, LoadError> {
        self.find_entry(at, name).await
    }

    async fn children(
        &self,
        at: &Snapshot,
        namespace: Option<&Name>,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, LoadError> {
        self.list_children(at, namespace, after, limit).await
    }

    async fn of_kind(&self, at: &Snapshot, kind: Kind) -> Result<Vec<Name>, LoadError> {
        self.names_of_kind(at, kind).await
    }

    async fn with_base(&self, at: &Snapshot, base: &Name) -> Result<Vec<Name>, LoadError> {
        self.names_with_base(at, base).await
    }

    async fn commit(&self, base: &Snapshot, changes: &Changes) -> Outcome<Snapshot> {
        let (verdicts, attempt) = self.attempt(base, &[&changes.actions()]).await;
        let refused: Option<&Refusal> = verdicts.first().and_then(|verdict| verdict.as_ref().err());
        match attempt {
            Attempt::Nothing => match refused {
                Some(refusal @ Refusal::TooLarge { .. }) => Outcome::refused(Cause::from_error(refusal.clone())),
                Some(_) => Outcome::Conflict(None),
                None => Outcome::Committed(base.clone()),
            },
            Attempt::Ended(outcome) => outcome,
            Attempt::NotMade(error) => Outcome::not_read(error),
        }
    }
}

#[cfg(test)]
mod tests;
