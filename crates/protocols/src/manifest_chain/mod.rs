//! A chain of versions of the whole catalog: a commit puts the object of version N + 1 if there is none.
//!
//! The entries are in an ordered tree of pages that never change (`tree.rs`); a commit writes the pages it touches, from
//! leaf to root, into the object that it puts: O(log entries) bytes and, met by nobody, one request. Versions are never
//! replaced, so what was committed can always be told from what was not.
//!
//! Steps of a commit (the numbers that comments cite; faults and invariants are in `docs/protocols/manifest-chain.md`):
//!
//! 1. Look up what the actions are about in the base version, and decide them (`glidepath_model::View`).
//! 2. Write the changed pages anew. What is too much for one object goes into packs, which are put first; nothing refers
//!    to them yet.
//! 3. Put the object of the next version if there is none.
//! 4. Lost: read that version. It is this very commit (something on the way repeated it): committed. It is another: a conflict
//!    for good; the packs are proven to be garbage and deleted.
//! 5. Refused, for certain: nothing happened; the packs are deleted.
//! 6. Anything else: read that version, as in 4; while there is none, put the same again: at most one of the two takes effect.
//! 7. What cannot be settled stays unknown, and its packs stay.
//! 8. Committed after a long time: make sure that the version is still among those that are kept (a writer that slept may
//!    have put a version that had been cleaned away).
//! 9. Now and then, leave a hint where the chain ends. Whether that works does not matter.

mod audit;
mod block;
mod cache;
mod commit;
mod design;
mod difference;
mod fsck;
mod gone;
mod inspect;
mod manifest;
mod measured;
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
use glidepath_env::{Cause, Env, Guard, ObjectStore, Payload, Purpose, ReadError};
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
pub use vacuum::{Grace, Swept, VacuumError};
pub use whole::Sizes;

/// A writer that took longer than this checks that the versions it knows are still kept. No grace period is shorter than
/// twice as long.
const RECHECK: Span = Span::from_secs(300);

/// Times that a reader looks anew because what it had been told of was gone when it came.
const OPENINGS: u32 = 8;

/// Whether that time, if there is one, was so short a while ago that nothing can have been cleaned away since.
fn is_recent(seen: Option<Instant>, now: Instant) -> bool {
    seen.is_some_and(|seen| now.since(seen) < RECHECK)
}

/// Every so many versions a hint says where the chain ends.
const HINT_EVERY: u64 = 16;

/// A catalog in a chain of versions.
#[derive(Clone)]
pub struct ManifestChain<E: Env> {
    env: E,
    store: E::Objects,
    place: Arc<Place>,
}

/// What all of a process's handles to one catalog share: where it is, and what the process knows of it.
pub struct Place {
    keys: Keys,
    cache: Cache,
    inline_max: usize,
    most_entry_bytes: usize,
    pages: PageSize,
    sizes: Sizes,
    /// The newest version that this process knows of.
    newest: Mutex<Option<Snapshot>>,
}

impl Place {
    /// The catalog below this prefix (empty, or ending in `/`), with up to `cached_bytes` of its pages kept at hand.
    #[must_use]
    pub fn new(prefix: &str, cached_bytes: usize) -> Self {
        let (keys, cache) = (Keys::below(prefix), Cache::new(cached_bytes / 2));
        let (inline_max, most_entry_bytes) = (commit::INLINE_MAX, entry::MOST_BYTES);
        let (pages, sizes) = (PageSize::default(), Sizes::default());
        Self { keys, cache, inline_max, most_entry_bytes, pages, sizes, newest: Mutex::new(None) }
    }

    /// New pages of a [`Layout::Paged`] catalog have at most so many bytes, or 4096 where that is less: for a deep tree of few
    /// entries. Writers of one catalog may differ in it.
    #[must_use]
    pub fn pages_of(self, bytes: usize) -> Self {
        Self { pages: PageSize::of(bytes), ..self }
    }

    /// Changed pages of more than so many bytes together (1 GiB at most) go into packs, not into the version's own object.
    #[must_use]
    pub fn inline_up_to(self, bytes: usize) -> Self {
        Self { inline_max: bytes.min(commit::MOST_INLINE), ..self }
    }

    /// As if an entry could have no more than so many bytes.
    #[cfg(test)]
    fn entries_of_at_most(self, bytes: usize) -> Self {
        Self { most_entry_bytes: bytes, ..self }
    }

    /// How large blocks and parts of a [`Layout::Whole`] catalog become that this process writes.
    #[must_use]
    pub fn whole_sized(self, Sizes { block_bytes, part_bytes }: Sizes) -> Self {
        // Places are told in 32 bits.
        let within = |bytes: usize| bytes.clamp(1, 1 << 30);
        Self { sizes: Sizes { block_bytes: within(block_bytes), part_bytes: within(part_bytes) }, ..self }
    }
}

/// The catalog at one version. Readable as long as the version is kept: see [`Grace`].
#[derive(Clone, Debug)]
pub struct Snapshot {
    manifest: Arc<Manifest>,
    /// A time, by the process's clock, at which it was the newest version or not yet written. What follows it cannot have
    /// been cleaned away before a grace period from then. `None` where it was asked for by its number, and may be long past.
    seen: Option<Instant>,
}

impl Snapshot {
    /// Whether what follows it can be relied on to be there, or not yet written, at this time.
    fn is_recent(&self, now: Instant) -> bool {
        is_recent(self.seen, now)
    }

    /// Its place in the chain.
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

    /// Versions before this one may be gone.
    #[must_use]
    pub fn oldest_kept(&self) -> Version {
        self.manifest.oldest
    }

    /// How its entries lie in objects.
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
    /// A handle to the catalog at this place. Makes no request.
    #[must_use]
    pub fn new(env: E, store: E::Objects, place: Arc<Place>) -> Self {
        Self { env, store, place }
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
        // A catalog whose first versions have been cleaned away is one, too. That there is none was so at some time from now on.
        let since = self.env.now();
        match self.load().await {
            Err(LoadError::NotFound) => {}
            Ok(head) => return Outcome::Conflict(Some(head)),
            Err(error) => return Outcome::not_read(error),
        }
        let object = Bytes::from(manifest.encode());
        self.put_version(manifest, object, Some(since)).await
    }

    /// The newest version at some moment during the call, looked for from the newest known on.
    async fn find_newest(&self) -> Result<Snapshot, LoadError> {
        let known = self.known().as_ref().filter(|head| head.is_recent(self.env.now())).cloned();
        let mut head = match known {
            Some(known) => known,
            None => self.open().await?,
        };
        // Twice as far each time, until there is nothing; then back to where the chain goes on.
        let mut step = 1;
        loop {
            let began = self.env.now();
            match self.read_version(Version(head.version().0 + step), head.seen).await? {
                Some(newer) => {
                    head = newer;
                    step *= 2;
                }
                // Asked so late that the next version may have come and gone: look where the chain is now.
                None if !head.is_recent(self.env.now()) => {
                    head = self.open().await?;
                    step = 1;
                }
                None if step == 1 => {
                    head.seen = Some(began);
                    self.know(&head);
                    return Ok(head);
                }
                None => step = 1,
            }
        }
    }

    /// The newest version by what may lag: the hint, and a listing. Where they name none, the first version tells whether there is
    /// a catalog: while it may be too young for listings, it is not yet cleaned away. Where they name versions and none of these
    /// is there, they were cleaned away since, which says that there is a catalog; so it looks again.
    async fn open(&self) -> Result<Snapshot, LoadError> {
        for _ in 0..OPENINGS {
            let began = self.env.now();
            let named = self.named().await?;
            if named.is_empty() {
                match self.read_version(Version(0), Some(began)).await? {
                    Some(first) if !mutant::is(Mutant::ListingTrusted) => return Ok(first),
                    // Looked for so late that it may have come and gone.
                    None if !is_recent(Some(began), self.env.now()) => continue,
                    _ => return Err(LoadError::NotFound),
                }
            }
            for version in &named {
                if let Some(found) = self.read_version(*version, Some(began)).await? {
                    return Ok(found);
                }
            }
            if mutant::is(Mutant::VanishedIsNone) {
                return Err(LoadError::NotFound);
            }
        }
        let words = "the versions that the hint and the listing name are missing: they are lost, or vacuumed faster than they are read";
        Err(LoadError::Failed(Cause::words(words)))
    }

    /// The versions that the hint and a listing name, the newest first.
    async fn named(&self) -> Result<Vec<Version>, LoadError> {
        let hinted = match self.store.get(&self.place.keys.hint()).await {
            Ok(object) => object.payload.bytes.first_chunk::<8>().map(|bytes| Version(u64::from_le_bytes(*bytes))),
            Err(_) => None,
        };
        let listed = match self.store.list(&self.place.keys.versions(), None, 1).await {
            Ok(page) => page.objects.first().and_then(|first| self.place.keys.version_in(&first.key)),
            Err(ReadError::NotFound) => None,
            // The hint alone will not do: it may be old, and the version it names still there for its pages' sake.
            Err(ReadError::Failed(cause)) => return Err(LoadError::Failed(cause)),
        };
        Ok([hinted.max(listed), hinted.min(listed)].into_iter().flatten().collect())
    }

    /// What is in the chain at a version; `None` where nothing is. `seen` is as in [`Snapshot`].
    async fn read_version(&self, version: Version, seen: Option<Instant>) -> Result<Option<Snapshot>, LoadError> {
        match self.store.get(&self.place.keys.version(version)).await {
            Ok(object) => {
                let manifest = Manifest::decode(&object.payload.bytes);
                let manifest = manifest.map_err(|error| LoadError::Undecodable(Cause::from_error(error)))?;
                if manifest.version != version {
                    let words = format!("the object of {version} says that it is {}", manifest.version);
                    return Err(LoadError::Undecodable(Cause::words(words)));
                }
                self.place.cache.keep_object(version, object.payload.bytes);
                Ok(Some(Snapshot { manifest: Arc::new(manifest), seen }))
            }
            Err(ReadError::NotFound) => Ok(None),
            Err(ReadError::Failed(cause)) => Err(LoadError::Failed(cause)),
        }
    }

    fn known(&self) -> MutexGuard<'_, Option<Snapshot>> {
        // What is inside is replaced whole, so a panic elsewhere cannot have left it half-written.
        self.place.newest.lock().unwrap_or_else(PoisonError::into_inner)
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
            let payload = Payload::from(Bytes::copy_from_slice(&version.0.to_le_bytes()));
            let _ = self.store.put(&self.place.keys.hint(), payload, Guard::None).await;
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

    fn version(&self, at: &Snapshot) -> Version {
        at.version()
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
