//! Checks of a version's tree: is it complete, and does it keep the rules? Only the part that the next newer version
//! does not share is checked: a rule that holds in the newer version can be broken here only where the two differ.

use std::sync::Arc;

use bytes::Bytes;
use glidepath_env::Env;
use glidepath_model::{Entry, Kind, Name};

use super::super::cache::AtHand;
use super::super::difference::{Step, Walk};
use super::super::manifest::Manifest;
use super::super::page::{Home, Key, Page, PageRef};
use super::super::read::PageError;
use super::super::rows;
use super::super::tree::{self, Missing};
use super::{Extent, Look, Trouble};
use crate::catalog::LoadError;
use crate::entry;
use crate::wire::DecodeError;

/// A key that differs from the newer version.
struct Difference {
    key: Key,
    name: Name,
    newer: Option<Bytes>,
    here: Option<Bytes>,
}

/// Why a page cannot be used.
enum Lost {
    Object,
    Page(DecodeError),
    /// The store cannot read it; this has been reported.
    Unread,
}

impl<E: Env> Look<'_, E> {
    /// Step 2.
    pub(super) async fn tree(&mut self, at: &Manifest, newer: Option<&Manifest>) -> Result<(), LoadError> {
        // If only one of the two has indices, their rules differ.
        let newer = newer.filter(|newer| newer.indexed == at.indexed);
        if newer.is_none() {
            (self.count, self.has_count) = (0, true);
        }
        let mut walk = Walk::new(newer.and_then(|newer| newer.root), at.root);
        let (mut whole, mut last) = (true, None::<Key>);
        loop {
            match walk.step(|page| self.bad.contains(&page)) {
                Step::Done => break,
                Step::Open { before, now } => {
                    let mut pages = [None, None];
                    if let Some(before) = before {
                        let page = self.page(before).await?;
                        self.has_count &= !matches!(page, Err(Lost::Unread));
                        pages[0] = page.ok().map(|page| (before, page));
                    }
                    if let Some((now, bound)) = now {
                        self.checked.pages += 1;
                        self.homes.insert(now.home);
                        match self.page(now).await? {
                            Ok(page) => {
                                self.order(at, now, &page, &mut last);
                                pages[1] = Some((now, page));
                            }
                            Err(lost) => {
                                whole = false;
                                self.has_count &= !matches!(lost, Lost::Unread);
                                self.lost(at, now, lost, &bound, &walk);
                            }
                        }
                    }
                    let [before, now] = pages;
                    walk.opened(before, now);
                }
                Step::Differs { key, before, now } => self.differs(at, key, before, now).await?,
            }
        }
        if newer.is_none() {
            self.checked.entries = u64::try_from(self.count).unwrap_or_default();
        }
        if whole {
            self.checked.whole = self.checked.whole.or(Some(at.version));
            if self.has_count {
                self.compare_count(at);
            }
        }
        Ok(())
    }

    fn compare_count(&mut self, at: &Manifest) {
        let off_by = i64::try_from(at.entries).unwrap_or(i64::MAX).saturating_sub(self.count);
        // Each commit adds to the count of the one before, so an error propagates; it is reported once.
        if off_by != 0 && off_by != self.off_by {
            let found = u64::try_from(self.count).unwrap_or_default();
            self.report_version(Trouble::WrongCount { says: at.entries, found }, at.version);
        }
        self.off_by = off_by;
    }

    /// Keys of leaves must rise from each leaf to the next.
    fn order(&mut self, at: &Manifest, place: PageRef, page: &Page, last: &mut Option<Key>) {
        let Page::Leaf(items) = page else { return };
        let (Some((first, _)), Some((end, _))) = (items.first(), items.last()) else { return };
        if last.as_ref().is_some_and(|last| last >= first) {
            let object = self.chain.shared_state.keys.home(place.home);
            self.report(Trouble::Disorder { offset_bytes: place.offset }, object, Some(at.version));
        }
        *last = Some(end.clone());
    }

    fn lost(&mut self, at: &Manifest, place: PageRef, lost: Lost, bound: &Key, walk: &Walk) {
        self.bad.extend(walk.above());
        // The pages below it are not known.
        self.blind |= !place.leaf;
        if !self.bad.insert(place) {
            return;
        }
        let next = walk.next_key();
        let same_part = next.as_ref().filter(|next| next.first() == bound.first());
        let extent = Extent {
            from: rows::name_in(bound),
            to: same_part.and_then(|next| rows::name_in(next)),
            only_index: bound.first().is_some_and(|first| !rows::is_entry_key(*first)),
        };
        let trouble = match lost {
            Lost::Unread => return,
            Lost::Object if !self.missing.insert(place.home) => return,
            Lost::Object => Trouble::MissingObject(extent),
            Lost::Page(reason) => Trouble::DamagedPage { offset_bytes: place.offset, reason, lost: extent },
        };
        let object = self.chain.shared_state.keys.home(place.home);
        self.report(trouble, object, Some(at.version));
    }

    async fn page(&mut self, at: PageRef) -> Result<Result<Arc<Page>, Lost>, LoadError> {
        if let Ok(Some(page)) = self.chain.shared_state.cache.get(at) {
            return Ok(Ok(page));
        }
        let found = if at.home == Home::Version(self.object.0.0) {
            let (object, from) = (&self.object.1, at.offset as usize);
            let bytes = object.get(from..from + at.length as usize).map(|page| object.slice_ref(page));
            bytes.ok_or(DecodeError::Truncated).and_then(|bytes| Page::read(&bytes, at)).map_err(PageError::Damaged)
        } else {
            self.chain.read_page(at).await
        };
        Ok(match found {
            Ok(page) => {
                self.chain.shared_state.cache.keep(at, &page);
                Ok(page)
            }
            Err(PageError::Gone) => Err(Lost::Object),
            Err(PageError::Damaged(error)) => Err(Lost::Page(error)),
            Err(PageError::Failed(cause)) => {
                if !self.bad.contains(&at) {
                    let key = self.chain.shared_state.keys.home(at.home);
                    self.not_read(&key, Some(self.object.0), cause)?;
                }
                Err(Lost::Unread)
            }
        })
    }

    /// Looks something up in a version's tree; `None` if a page that it needs is lost.
    async fn look_up<T>(
        &mut self,
        operation: impl Fn(&AtHand<'_>) -> Result<T, Missing>,
    ) -> Result<Option<T>, LoadError> {
        let chain = self.chain;
        let mut pages = AtHand::new(&chain.shared_state.cache);
        loop {
            match operation(&pages) {
                Ok(done) => return Ok(Some(done)),
                Err(Missing(missing)) => {
                    for at in missing {
                        match self.page(at).await? {
                            Ok(page) => pages.add(at, page),
                            Err(_) => return Ok(None),
                        }
                    }
                }
            }
        }
    }

    /// Whether a version certainly has nothing under a key. The walk takes a page that cannot be read for empty, so
    /// that it has nothing there proves nothing.
    async fn is_absent(&mut self, at: &Manifest, key: &Key) -> Result<bool, LoadError> {
        Ok(self.look_up(|pages| tree::get(pages, at.root, key)).await? == Some(None))
    }

    /// Checks the rules that concern a key. What cannot be decided because a page is lost is not reported.
    async fn differs(
        &mut self,
        at: &Manifest,
        key: Key,
        newer: Option<Bytes>,
        here: Option<Bytes>,
    ) -> Result<(), LoadError> {
        let Some(name) = rows::name_in(&key) else {
            if here.is_some() {
                self.report_version(Trouble::BadItem(format!("the key {key:?}")), at.version);
            }
            return Ok(());
        };
        let difference = Difference { key, name, newer, here };
        if rows::by_name(&difference.name) == difference.key {
            self.entry_differs(at, difference).await
        } else {
            self.index_differs(at, difference).await
        }
    }

    async fn entry_differs(&mut self, at: &Manifest, difference: Difference) -> Result<(), LoadError> {
        let Difference { key, name, newer, here } = difference;
        self.count += i64::from(here.is_some()) - i64::from(newer.is_some());
        if here.is_none() && !self.is_absent(at, &key).await? {
            return Ok(());
        }
        let here = match here.as_deref().map(entry::decode).transpose() {
            Ok(entry) => entry,
            Err(error) => {
                self.report_version(Trouble::BadItem(format!("{name}: {error}")), at.version);
                return Ok(());
            }
        };
        let newer = newer.as_deref().and_then(|bytes| entry::decode(bytes).ok());
        let (wanted, others) = (index_keys(at, &name, here.as_ref()), index_keys(at, &name, newer.as_ref()));
        for key in &wanted {
            if self.is_absent(at, key).await? {
                self.report_version(Trouble::NotIndexed(name.clone()), at.version);
            }
        }
        for key in others.iter().filter(|key| !wanted.contains(key)) {
            if let Some(Some(_)) = self.look_up(|pages| tree::get(pages, at.root, key)).await? {
                self.report_version(Trouble::StrayIndex(name.clone()), at.version);
            }
        }
        self.family(at, &name, here.as_ref(), newer.as_ref()).await
    }

    /// Entries in a namespace need the namespace.
    async fn family(
        &mut self,
        at: &Manifest,
        name: &Name,
        here: Option<&Entry>,
        newer: Option<&Entry>,
    ) -> Result<(), LoadError> {
        let is_namespace = |entry: Option<&Entry>| entry.is_some_and(|entry| entry.kind == Kind::Namespace);
        if here.is_some()
            && let Some(parent) = name.parent()
        {
            let key = rows::by_name(&parent);
            // A parent that cannot be decoded is a finding of its own.
            if let Some(found) = self.look_up(|pages| tree::get(pages, at.root, &key)).await?
                && let Ok(found) = found.as_deref().map(entry::decode).transpose()
                && !is_namespace(found.as_ref())
            {
                self.report_version(Trouble::Orphan(name.clone()), at.version);
            }
        }
        // Children that the newer version also has do not differ; their namespace does.
        if is_namespace(newer) && !is_namespace(here) {
            let between = rows::children(Some(name));
            let found = self.look_up(|pages| tree::range(pages, at.root, (&between.from, &between.to), 1)).await?;
            if let Some(child) = found.unwrap_or_default().first().and_then(|(key, _)| rows::name_in(key)) {
                self.report_version(Trouble::Orphan(child), at.version);
            }
        }
        Ok(())
    }

    async fn index_differs(&mut self, at: &Manifest, difference: Difference) -> Result<(), LoadError> {
        let Difference { key, name, newer, here } = difference;
        let by_name = rows::by_name(&name);
        let Some(found) = self.look_up(|pages| tree::get(pages, at.root, &by_name)).await? else { return Ok(()) };
        // An entry that cannot be decoded is a finding of its own.
        let Ok(entry) = found.as_deref().map(entry::decode).transpose() else { return Ok(()) };
        if here.is_none() && !self.is_absent(at, &key).await? {
            return Ok(());
        }
        let fits = index_keys(at, &name, entry.as_ref()).contains(&key);
        match (newer, here) {
            (_, Some(_)) if !fits => self.report_version(Trouble::StrayIndex(name), at.version),
            // If the entry differs too, that was reported there.
            (Some(_), None) if fits && !self.told(&name, at) => {
                self.report_version(Trouble::NotIndexed(name), at.version);
            }
            _ => {}
        }
        Ok(())
    }

    fn told(&self, name: &Name, at: &Manifest) -> bool {
        let about = |trouble: &Trouble| matches!(trouble, Trouble::NotIndexed(other) if other == name);
        self.checked.findings.iter().any(|finding| finding.version == Some(at.version) && about(&finding.trouble))
    }
}

/// The index keys of an entry in a version.
fn index_keys(at: &Manifest, name: &Name, entry: Option<&Entry>) -> Vec<Key> {
    match entry {
        Some(entry) if at.indexed => rows::index_keys(name, entry),
        _ => Vec::new(),
    }
}
