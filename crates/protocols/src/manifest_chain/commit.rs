//! One attempt to make the next version of the catalog: steps 1 to 8.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use glidepath_env::{Cause, Env, Guard, ObjectStore, Payload, Purpose, PutError};
use glidepath_model::{Action, CommitId, Entry, Instant, Name, Need, Refusal, Version, View};

use super::dropped_rows::DroppedRows;
use super::manifest::{Layout, Manifest};
use super::page::{Home, Page, PageRef};
use super::tree::{self, Child, Edit, Packer};
use super::whole::{Rewrite, RewriteError};
use super::{ManifestChain, RECHECK, Snapshot, is_recent, rows};
use crate::catalog::{Catalog, LoadError, Outcome};
use crate::entry;
use crate::mutant::{self, Mutant};
use crate::settling::{self, Doubt};

/// New pages of up to this many bytes together go into the version's own object.
pub(super) const INLINE_MAX: usize = 256 << 10;

/// A pack is full when it has this many bytes; it may exceed them by one page.
const PACK: usize = 4 << 20;

/// The maximum size of the pages in a version's own object: offsets have 32 bits.
pub(super) const MOST_INLINE: usize = 1 << 30;

/// For each group of actions, whether it fits the base.
pub type Verdicts = Vec<Result<(), Refusal>>;

/// How an attempt ended.
#[derive(Clone, Debug)]
pub enum Attempt {
    /// No group fits, or none changes anything: nothing was sent.
    Nothing,
    /// The groups that fit were sent together.
    Ended(Outcome<Snapshot>),
    /// The base could not be read. No version was sent.
    NotMade(LoadError),
}

/// A version ready to be put.
struct Draft {
    manifest: Manifest,
    object: Bytes,
    packs: Vec<(Home, Bytes)>,
    pages: Vec<(PageRef, Bytes)>,
}

impl<E: Env> ManifestChain<E> {
    /// Tries once to commit groups of actions on top of `base`, as one version. Each group takes effect as a whole or
    /// not at all, and is decided as if those before it had been committed. A refused group does not affect the others.
    ///
    /// Dropping the future leaves the outcome unknown.
    pub async fn attempt(&self, base: &Snapshot, groups: &[&[Action]]) -> (Verdicts, Attempt) {
        // Step 1.
        let (verdicts, view) = match self.decide(base, groups).await {
            Ok(decided) => decided,
            Err(error) => return (Vec::new(), Attempt::NotMade(error)),
        };
        let base = &match mutant::is(Mutant::DecidedBefore) {
            true => self.load().await.unwrap_or_else(|_| base.clone()),
            false => base.clone(),
        };
        let gone = DroppedRows::of(view.gone());
        let (mut edits, mut grown) = (Vec::new(), 0_i64);
        if base.layout() == Layout::Paged {
            let entries = match self.entries_of(base, &gone).await {
                Ok(entries) => entries,
                Err(error) => return (Vec::new(), Attempt::NotMade(error)),
            };
            grown -= entries.len() as i64;
            entries.iter().for_each(|(name, entry)| rows::edits(name, Some(entry), None, base.indexed(), &mut edits));
        }
        for (name, before, now) in view.changes() {
            let now = mutant::entry(groups, name, now);
            rows::edits(name, before, now.as_deref(), base.indexed(), &mut edits);
            grown += i64::from(now.is_some()) - i64::from(before.is_some());
        }
        if mutant::is(Mutant::CountNeverFalls) {
            grown = grown.max(0);
        }
        if edits.is_empty() && gone.is_empty() {
            return (verdicts, Attempt::Nothing);
        }
        // Index keys of different entries differ. A key that is removed and added again is kept, because its last edit
        // wins.
        let edits: Vec<Edit> = edits.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect();
        let commit = CommitId(self.env.draw(Purpose::Names));
        let manifest = Manifest {
            version: base.version().next(),
            commit,
            before: base.commit(),
            written_ms: self.env.unix_ms(),
            entries: base.entries().saturating_add_signed(grown),
            root: None,
            ..(*base.manifest).clone()
        };
        let attempt = match base.layout() {
            Layout::Paged => self.attempt_paged(base, manifest, &edits).await,
            Layout::Whole => self.attempt_whole(base, manifest, &edits, &gone).await,
        };
        (verdicts, attempt)
    }

    async fn attempt_paged(&self, base: &Snapshot, manifest: Manifest, edits: &[Edit]) -> Attempt {
        // Step 2.
        match self.with_pages(|pages| tree::apply(pages, self.shared_state.pages, base.manifest.root, edits)).await {
            Ok(root) => {
                Attempt::Ended(self.install(Draft::of(manifest, root, self.shared_state.inline_max), base.seen).await)
            }
            Err(error) => Attempt::NotMade(error),
        }
    }

    async fn attempt_whole(
        &self,
        base: &Snapshot,
        mut manifest: Manifest,
        edits: &[Edit],
        gone: &DroppedRows<'_>,
    ) -> Attempt {
        // Step 2.
        let mut rewrite = Rewrite::new(self, manifest.version, manifest.commit);
        let done = rewrite.run(base, gone, edits).await;
        let Rewrite { children, staged, dropped, .. } = rewrite;
        manifest.entries = manifest.entries.saturating_sub(dropped);
        if let Err(stopped) = done {
            // No version refers to the parts or ever will: this commit ends here.
            self.delete_packs(&staged).await;
            return match stopped {
                RewriteError::Read(error) => Attempt::NotMade(error),
                RewriteError::Put(denial) => Attempt::Ended(Outcome::Refused(denial)),
            };
        }
        let mut object = vec![0; longest_frame(&mut manifest)];
        let root = (!children.is_empty()).then(|| Arc::new(Page::Inner(children)));
        manifest.root = root.as_ref().map(|root| {
            let offset = object.len();
            root.encode(&mut object);
            PageRef::of(Home::Version(manifest.version.0), false, offset, &object[offset..])
        });
        begin_with(&mut object, &manifest.encode());
        let pages: Vec<_> = manifest.root.zip(root).into_iter().collect();
        let outcome = self.put_version(manifest, object.into(), base.seen).await;
        self.settle_packs(&outcome, &staged).await;
        if let Outcome::Committed(_) = &outcome {
            pages.iter().for_each(|(at, page)| self.shared_state.cache.keep(*at, page));
        }
        Attempt::Ended(outcome)
    }

    /// Which groups fit, and what they change.
    async fn decide(&self, base: &Snapshot, groups: &[&[Action]]) -> Result<(Verdicts, View), LoadError> {
        let (mut view, mut verdicts) = (View::default(), Verdicts::new());
        for actions in groups {
            let actions = &*mutant::actions(actions);
            for need in view.needs(actions) {
                match need {
                    Need::Entry(name) => {
                        let entry = self.entry(base, &name).await?;
                        view.insert(name, entry);
                    }
                    Need::Children(namespace, most) => {
                        let children = self.children(base, Some(&namespace), None, most).await?;
                        let mut names: Vec<Name> = children.into_iter().map(|(name, _)| name).collect();
                        if mutant::is(Mutant::EmptinessIgnored) {
                            names.clear();
                        }
                        view.insert_children(namespace, names, most);
                    }
                }
            }
            verdicts.push(view.apply_where(actions, |name, entry| self.allowed(name, entry)));
        }
        Ok((verdicts, view))
    }

    /// An entry is stored in one page, and its offset has 32 bits, shared with everything else in the object.
    fn allowed(&self, name: &Name, entry: &Entry) -> Result<(), Refusal> {
        entry::can_be_kept(self.shared_state.most_entry_bytes, name, entry)
    }

    /// Steps 2 to 7.
    async fn install(&self, draft: Draft, since: Option<Instant>) -> Outcome<Snapshot> {
        let homes: Vec<Home> = draft.packs.iter().map(|(home, _)| *home).collect();
        for (home, bytes) in &draft.packs {
            let put =
                self.store.put(&self.shared_state.keys.home(*home), Payload::from(bytes.clone()), Guard::None).await;
            if let Err(error) = put {
                // No version refers to the packs or ever will: this commit ends here.
                self.delete_packs(&homes).await;
                return Outcome::Refused(settling::not_staged(error));
            }
        }
        let outcome = self.put_version(draft.manifest.clone(), draft.object.clone(), since).await;
        self.settle_packs(&outcome, &homes).await;
        if let Outcome::Committed(_) = &outcome {
            for (at, bytes) in &draft.pages {
                if let Ok(page) = Page::decode(bytes) {
                    self.shared_state.cache.keep(*at, &page);
                }
            }
        }
        outcome
    }

    /// Deletes packs that are proven not to be in the chain.
    async fn settle_packs(&self, outcome: &Outcome<Snapshot>, packs: &[Home]) {
        match outcome {
            // Another commit's version was read, or nothing was sent.
            Outcome::Conflict(Some(_)) | Outcome::Refused(_) => self.delete_packs(packs).await,
            Outcome::Unknown(_) if mutant::is(Mutant::PacksDeleted) => self.delete_packs(packs).await,
            Outcome::Committed(_) | Outcome::Unknown(_) | Outcome::Conflict(None) => {}
        }
    }

    async fn delete_packs(&self, packs: &[Home]) {
        for home in packs {
            // The next vacuum finds what is left.
            let _ = self.store.delete(&self.shared_state.keys.home(*home)).await;
        }
    }

    /// Steps 3 to 8. `since` is the base's `seen`.
    pub(super) async fn put_version(
        &self,
        manifest: Manifest,
        object: Bytes,
        since: Option<Instant>,
    ) -> Outcome<Snapshot> {
        let snapshot = Snapshot { manifest: Arc::new(manifest), seen: since };
        let version = snapshot.version();
        let key = self.shared_state.keys.version(version);
        let (first_sent, mut doubt) = (self.env.now(), Doubt::default());
        let delivers_once = self.store.capabilities().delivers_once;
        for round in 0..settling::ROUNDS {
            let sent = self.env.now();
            match self.store.put(&key, Payload::from(object.clone()), Guard::Absent).await {
                Ok(_) => return self.landed(snapshot, Some(sent)).await,
                Err(PutError::Unknown(_)) if mutant::is(Mutant::UnknownIsLost) => return Outcome::Conflict(None),
                Err(PutError::Lost) if mutant::is(Mutant::LostIsProof) => return Outcome::Conflict(None),
                Err(error) => {
                    if let Some(denial) = doubt.record(error, delivers_once) {
                        return Outcome::Refused(denial);
                    }
                }
            }
            // Steps 4 and 6.
            match self.read_version(version, since).await {
                Ok(Some(found)) if found.commit() == snapshot.commit() => return self.landed(snapshot, since).await,
                // Read so late that this very commit may have been written and then vacuumed: neither an empty slot nor
                // another writer's commit in it proves anything.
                Ok(_) if self.env.now().since(first_sent) >= RECHECK => {
                    let words = format!(
                        "the outcome of {version} was looked up so late that the version may have been vacuumed"
                    );
                    return Outcome::Unknown(Cause::words(words));
                }
                // On so old a base, what is in the slot may have been put there after a vacuum had emptied it.
                Ok(Some(_)) if !is_recent(since, self.env.now()) => return Outcome::Conflict(None),
                Ok(Some(found)) => {
                    self.know(&found);
                    return Outcome::Conflict(Some(found));
                }
                // Lost although there is no such version, which a correct store does not do. Nothing was written.
                Ok(None) if doubt.all_lost() && is_recent(since, self.env.now()) => {
                    return Outcome::Conflict(None);
                }
                Ok(None) if doubt.hopeless() => break,
                Ok(None) => {}
                // Lost for good, but perhaps to an earlier delivery of this same put.
                Err(LoadError::Failed(cause) | LoadError::Undecodable(cause)) => doubt.note(cause),
                Err(LoadError::NotFound) => {}
            }
            settling::wait_after(&self.env, round).await;
        }
        // Step 7.
        Outcome::Unknown(doubt.cause())
    }

    /// Steps 8 and 9. `newest` is a time at which the version was the newest or not yet written, if it is in the chain.
    async fn landed(&self, mut snapshot: Snapshot, newest: Option<Instant>) -> Outcome<Snapshot> {
        let version = snapshot.version();
        if !snapshot.is_recent(self.env.now()) && !mutant::is(Mutant::NotRechecked) {
            *self.known() = None;
            match self.load().await {
                Ok(head) if head.oldest_kept() <= version && head.version() >= version => {}
                Ok(_) => {
                    let words = format!("{version} was written so late that a vacuum may have emptied its slot before");
                    return Outcome::Unknown(Cause::words(words));
                }
                Err(error) => return Outcome::Unknown(Cause::from_error(error)),
            }
        }
        snapshot.seen = newest;
        self.know(&snapshot);
        self.leave_hint(version).await;
        Outcome::Committed(snapshot)
    }
}

impl Draft {
    fn of(mut manifest: Manifest, root: Option<Child>, inline_max: usize) -> Self {
        let Some(root) = root else {
            return Self { object: manifest.encode().into(), manifest, packs: Vec::new(), pages: Vec::new() };
        };
        let inline = root.new_bytes() <= inline_max;
        let frame = vec![0; longest_frame(&mut manifest)];
        let filling = if inline { frame } else { Vec::new() };
        let (version, commit) = (manifest.version, manifest.commit);
        let mut writer = PageWriter { version, commit, inline, filling, packs: Vec::new(), places: Vec::new() };
        manifest.root = Some(root.write(&mut writer));
        if !inline {
            writer.end_pack();
        }
        let PageWriter { mut filling, packs, places, .. } = writer;
        begin_with(&mut filling, &manifest.encode());
        let object = Bytes::from(filling);
        let pages = places.into_iter().map(|at| (at, bytes_of(at, &object, &packs))).collect();
        Self { manifest, object, packs, pages }
    }
}

/// Pages contain their offsets, so they begin after the longest possible frame.
fn longest_frame(manifest: &mut Manifest) -> usize {
    let home = Home::Pack { version: u64::MAX, commit: u64::MAX, number: u32::MAX };
    let root =
        manifest.root.replace(PageRef { home, leaf: true, offset: u32::MAX, length: u32::MAX, checksum: Some(0) });
    let length = manifest.encode().len();
    manifest.root = root;
    length
}

/// Overwrites the beginning of an object.
fn begin_with(object: &mut Vec<u8>, frame: &[u8]) {
    object.resize(object.len().max(frame.len()), 0);
    object[..frame.len()].copy_from_slice(frame);
}

fn bytes_of(at: PageRef, object: &Bytes, packs: &[(Home, Bytes)]) -> Bytes {
    let whole = packs.iter().find(|(home, _)| *home == at.home).map_or(object, |(_, bytes)| bytes);
    whole.slice(at.offset as usize..(at.offset + at.length) as usize)
}

/// Places new pages in the version's own object, or in packs.
struct PageWriter {
    version: Version,
    commit: CommitId,
    inline: bool,
    filling: Vec<u8>,
    packs: Vec<(Home, Bytes)>,
    places: Vec<PageRef>,
}

impl PageWriter {
    fn home(&self) -> Home {
        if self.inline {
            return Home::Version(self.version.0);
        }
        Home::Pack { version: self.version.0, commit: self.commit.0, number: self.packs.len() as u32 }
    }

    fn end_pack(&mut self) {
        if !self.filling.is_empty() {
            let home = self.home();
            self.packs.push((home, std::mem::take(&mut self.filling).into()));
        }
    }
}

impl Packer for PageWriter {
    fn add(&mut self, page: Page) -> PageRef {
        let offset = self.filling.len();
        page.encode(&mut self.filling);
        let leaf = matches!(page, Page::Leaf(_));
        let at = PageRef::of(self.home(), leaf, offset, &self.filling[offset..]);
        self.places.push(at);
        if !self.inline && self.filling.len() >= PACK {
            self.end_pack();
        }
        at
    }
}
