//! Checks that a chain is complete. Reads every object of it, and changes nothing.
//!
//! 1. List the versions, newest first. Each kept one must decode and follow the one before it, without gaps.
//! 2. Walk the tree of the newest version; of each older one, the part that the next newer one does not share
//!    (`trees.rs`).
//! 3. Every version older than the kept ones, and every pack, must be referred to by a kept version; otherwise it is
//!    garbage.
//! 4. The hint must name an existing version that is not too old.
//!
//! In memory: a page of each height, the cache, the names of the objects that kept versions refer to, references to
//! damaged pages and those above them, and up to [`MOST`] findings of damage and as many others. Every page is read
//! once, not once per version.
//!
//! May run concurrently with writers and vacuums: what a vacuum removes meanwhile is not reported.

mod finding;
mod trees;

use std::collections::{BTreeSet, HashSet};

use bytes::Bytes;
use glidepath_env::{Cause, Env, Key, Object, ObjectStore, ReadError};
use glidepath_model::{CommitId, Version};

use super::ManifestChain;
use super::manifest::Manifest;
use super::page::{Home, PageRef};
use crate::catalog::{Catalog, LoadError};
pub use finding::{Extent, Finding, Severity, Trouble};

/// Keys listed at a time.
const PAGE: usize = 1000;

/// The maximum number of findings of damage that are reported, and of all others: what is harmless takes no place from
/// damage. The rest are counted.
const MOST: usize = 1000;

/// After this many objects that cannot be read, the store itself is taken to have failed.
const MOST_UNREAD: u32 = 20;

/// The most versions in a row that are read though a listing did not show them.
const MOST_UNLISTED: u64 = 1000;

/// A hint this far behind has not been updated for some time: writers update it every sixteenth version.
const HINT_LATE: u64 = 64;

/// The result of checking a chain.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// What is wrong: at most a thousand findings of what is damaged or could not be read, and a thousand others.
    pub findings: Vec<Finding>,
    /// How many more there are.
    pub more_findings: u64,
    /// The newest version that has an object.
    pub newest: Version,
    /// The oldest version that should be kept.
    pub oldest: Version,
    /// Kept versions that were checked.
    pub versions: u64,
    /// Pages that were checked.
    pub pages: u64,
    /// Entries of the newest version that could be read.
    pub entries: u64,
    /// Packs and objects of older versions that are needed.
    pub older_objects: u64,
    /// The newest version that can be read completely.
    pub whole: Option<Version>,
}

impl Checked {
    /// Whether something is damaged, or may be.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.findings.iter().any(Finding::is_damage)
    }
}

/// A check in progress.
struct Look<'a, E: Env> {
    chain: &'a ManifestChain<E>,
    checked: Checked,
    /// Whether a version that decodes has been seen.
    begun: bool,
    unread: u32,
    /// The findings of damage, and all others.
    told: [usize; 2],
    /// The objects in which pages of kept versions are.
    homes: BTreeSet<Home>,
    /// Pages that cannot be read, and those above them. Only looked up, never iterated.
    bad: HashSet<PageRef>,
    missing: BTreeSet<Home>,
    /// The object of the version that is being checked.
    object: (Version, Bytes),
    /// Entries of that version that could be read.
    count: i64,
    /// Whether it is known: not if a page could not be read, which another time can be.
    has_count: bool,
    /// The error in the number of entries of the version checked last.
    off_by: i64,
    /// Whether something that could not be read may refer to any object.
    blind: bool,
    /// Versions that were listed but did not exist when they were read.
    vanished: Vec<Version>,
}

impl<E: Env> ManifestChain<E> {
    /// Checks every object of the chain.
    ///
    /// # Errors
    /// If there is no version at all, or the store does not answer.
    pub async fn fsck(&self) -> Result<Checked, LoadError> {
        let mut look = Look {
            chain: self,
            checked: Checked::default(),
            begun: false,
            unread: 0,
            told: [0, 0],
            homes: BTreeSet::new(),
            bad: HashSet::new(),
            missing: BTreeSet::new(),
            object: (Version(0), Bytes::new()),
            count: 0,
            has_count: true,
            off_by: 0,
            blind: false,
            vanished: Vec::new(),
        };
        look.versions().await?;
        look.packs().await?;
        look.hint().await?;
        for version in std::mem::take(&mut look.vanished) {
            look.gap(version, version);
        }
        // Versions that a vacuum has made old meanwhile may be missing. Of a chain that is damaged, that is not known.
        match self.load().await {
            Ok(head) if head.oldest_kept() > look.checked.oldest => {
                let is_kept = |finding: &Finding| finding.version.is_none_or(|version| version >= head.oldest_kept());
                look.checked.findings.retain(is_kept);
            }
            // What was found is told all the same, with this if there is room for it.
            Err(LoadError::Failed(cause)) => {
                let newest = look.checked.newest;
                let _ = look.not_read(&self.shared_state.keys.version(newest), Some(newest), cause);
            }
            Ok(_) | Err(LoadError::Undecodable(_) | LoadError::NotFound) => {}
        }
        let mut checked = look.checked;
        checked.findings.sort_by_key(Finding::severity);
        Ok(checked)
    }

    /// Writes a hint that names the newest version, and returns that version.
    ///
    /// # Errors
    /// If the newest version cannot be found, or the hint cannot be written.
    pub async fn mend_hint(&self) -> Result<Version, LoadError> {
        let version = self.load().await?.version();
        self.put_hint(version).await.map_err(LoadError::Failed)?;
        Ok(version)
    }
}

impl<E: Env> Look<'_, E> {
    fn report(&mut self, trouble: Trouble, object: Key, version: Option<Version>) {
        let finding = Finding { trouble, object, version };
        let told = &mut self.told[usize::from(!finding.is_damage())];
        if *told < MOST {
            *told += 1;
            self.checked.findings.push(finding);
        } else {
            self.checked.more_findings += 1;
        }
    }

    fn report_version(&mut self, trouble: Trouble, version: Version) {
        let object = self.chain.shared_state.keys.version(version);
        self.report(trouble, object, Some(version));
    }

    /// An object, or `Some(None)` if there is none; `None` if the store cannot read it, which is reported.
    async fn read(&mut self, key: &Key, version: Option<Version>) -> Result<Option<Option<Object>>, LoadError> {
        match self.chain.store.get(key).await {
            Ok(object) => Ok(Some(Some(object))),
            Err(ReadError::NotFound) => Ok(Some(None)),
            Err(ReadError::Failed(cause)) => {
                self.not_read(key, version, cause)?;
                Ok(None)
            }
        }
    }

    fn not_read(&mut self, key: &Key, version: Option<Version>, cause: Cause) -> Result<(), LoadError> {
        let told = |finding: &Finding| finding.object == *key && matches!(finding.trouble, Trouble::Unread(_));
        if self.checked.findings.iter().any(told) {
            return Ok(());
        }
        self.unread += 1;
        if self.unread > MOST_UNREAD {
            return Err(LoadError::Failed(cause));
        }
        self.blind = true;
        self.report(Trouble::Unread(cause), key.clone(), version);
        Ok(())
    }

    /// Steps 1 and 2, and 3 for versions.
    async fn versions(&mut self) -> Result<(), LoadError> {
        let (mut newer, mut last, mut after) = (None::<Manifest>, None::<Version>, None::<Key>);
        loop {
            let page = self.list(&self.chain.shared_state.keys.versions(), after.as_ref()).await?;
            for object in &page.objects {
                let Some(version) = self.chain.shared_state.keys.version_in(&object.key) else {
                    self.report(Trouble::Foreign, object.key.clone(), None);
                    continue;
                };
                if self.begun && version < self.checked.oldest {
                    self.older(Home::Version(version.0), &object.key);
                    continue;
                }
                match last {
                    None => self.checked.newest = version,
                    Some(last) => self.unlisted(version.next(), last, &mut newer).await?,
                }
                last = Some(version);
                if let Some(manifest) = self.version(version, &object.key, newer.as_ref()).await? {
                    newer = Some(manifest);
                }
            }
            after = page.objects.last().map(|last| last.key.clone());
            if !page.more || after.is_none() {
                break;
            }
        }
        let last = last.ok_or(LoadError::NotFound)?;
        if last > self.checked.oldest && self.begun {
            self.unlisted(self.checked.oldest, last, &mut newer).await?;
        }
        Ok(())
    }

    /// The versions from the first on and before `last` that a listing did not show. A folder of many files is not
    /// listed at one moment: a version may be missing in it, and a later one be there. So each is read, up to a number
    /// of them.
    async fn unlisted(&mut self, first: Version, last: Version, newer: &mut Option<Manifest>) -> Result<(), LoadError> {
        // The newest one of those that are missing, up to here.
        let mut missing = None::<Version>;
        let least = first.0.max(last.0.saturating_sub(MOST_UNLISTED));
        for number in (least..last.0).rev() {
            let (version, key) = (Version(number), self.chain.shared_state.keys.version(Version(number)));
            if !matches!(self.read(&key, Some(version)).await?, Some(None)) {
                if let Some(missing) = missing.take() {
                    self.gap(version.next(), missing);
                }
                if let Some(manifest) = self.version(version, &key, newer.as_ref()).await? {
                    *newer = Some(manifest);
                }
            } else {
                missing = missing.or(Some(version));
            }
        }
        if first < last && (missing.is_some() || least > first.0) {
            self.gap(first, missing.unwrap_or_else(|| Version(least - 1)));
        }
        Ok(())
    }

    fn gap(&mut self, first: Version, last: Version) {
        self.blind = true;
        let object = self.chain.shared_state.keys.version(last);
        self.report(Trouble::Gap(first, last), object, Some(last));
    }

    /// One kept version.
    async fn version(
        &mut self,
        version: Version,
        key: &Key,
        newer: Option<&Manifest>,
    ) -> Result<Option<Manifest>, LoadError> {
        let object = match self.read(key, Some(version)).await? {
            Some(Some(object)) => object,
            Some(None) => {
                // A vacuum may have run since the listing; versions that it made old are removed from the result at the
                // end.
                self.vanished.push(version);
                return Ok(None);
            }
            None => return Ok(None),
        };
        let bytes = object.payload.bytes;
        let manifest = match Manifest::decode(&bytes) {
            Ok(manifest) if manifest.version == version => manifest,
            Ok(manifest) => {
                self.blind = true;
                self.report_version(Trouble::OtherVersion(manifest.version), version);
                return Ok(None);
            }
            Err(error) => {
                self.blind = true;
                self.report_version(Trouble::Undecodable(error), version);
                return Ok(None);
            }
        };
        if !std::mem::replace(&mut self.begun, true) {
            self.checked.oldest = manifest.oldest;
        }
        self.checked.versions += 1;
        if let Some(newer) = newer.filter(|newer| newer.version == version.next())
            && newer.before != manifest.commit
        {
            self.report_version(Trouble::BrokenChain { says: newer.before, found: manifest.commit }, newer.version);
        }
        if version.0 == 0 && manifest.before != CommitId(0) {
            self.report_version(Trouble::BrokenChain { says: manifest.before, found: CommitId(0) }, version);
        }
        if manifest.oldest > version || newer.is_some_and(|newer| newer.oldest < manifest.oldest) {
            self.report_version(Trouble::WrongOldest(manifest.oldest), version);
        }
        self.object = (version, bytes);
        self.tree(&manifest, newer).await?;
        Ok(Some(manifest))
    }

    /// Step 3 for one object.
    fn older(&mut self, home: Home, key: &Key) {
        if self.homes.contains(&home) {
            self.checked.older_objects += 1;
        } else if !self.blind {
            self.report(Trouble::Unused, key.clone(), None);
        }
    }

    /// Step 3 for packs.
    async fn packs(&mut self) -> Result<(), LoadError> {
        let mut after = None::<Key>;
        loop {
            let page = self.list(&self.chain.shared_state.keys.packs(), after.as_ref()).await?;
            for object in &page.objects {
                match self.chain.shared_state.keys.pack_in(&object.key) {
                    Some(Home::Pack { version, .. }) if version > self.checked.newest.0 => {
                        // The chain may have grown since its versions were listed.
                        let ahead = version > self.chain.load().await.map_or(version, |head| head.version().0) + 1;
                        let trouble = if ahead { Trouble::PackAhead } else { Trouble::Pending };
                        self.report(trouble, object.key.clone(), None);
                    }
                    Some(home) => self.older(home, &object.key),
                    None => self.report(Trouble::Foreign, object.key.clone(), None),
                }
            }
            after = page.objects.last().map(|last| last.key.clone());
            if !page.more || after.is_none() {
                return Ok(());
            }
        }
    }

    /// Step 4.
    async fn hint(&mut self) -> Result<(), LoadError> {
        let key = self.chain.shared_state.keys.hint();
        let Some(found) = self.read(&key, None).await? else { return Ok(()) };
        let newest = self.checked.newest;
        let trouble = match found.map(|object| object.payload.bytes) {
            None if newest.0 < HINT_LATE => return Ok(()),
            None => Trouble::HintBehind(None),
            Some(bytes) => match <[u8; 8]>::try_from(bytes.as_ref()) {
                Err(_) => Trouble::HintDamaged,
                Ok(bytes) => {
                    let says = Version(u64::from_le_bytes(bytes));
                    if says > newest {
                        match self.has_been(says).await {
                            Ok(true) => return Ok(()),
                            Ok(false) => Trouble::HintAhead(says),
                            Err(cause) => return self.not_read(&key, None, cause),
                        }
                    } else if newest.since(says) >= HINT_LATE {
                        Trouble::HintBehind(Some(says))
                    } else {
                        return Ok(());
                    }
                }
            },
        };
        self.report(trouble, key, None);
        Ok(())
    }

    /// Whether there is this version, or was: it may have been written after the versions were listed, and vacuumed.
    async fn has_been(&self, version: Version) -> Result<bool, Cause> {
        match self.chain.version_at(version).await {
            Ok(None) | Err(LoadError::NotFound) => {}
            Ok(Some(_)) | Err(LoadError::Undecodable(_)) => return Ok(true),
            Err(LoadError::Failed(cause)) => return Err(cause),
        }
        match self.chain.load().await {
            Ok(head) => Ok(version <= head.version()),
            Err(LoadError::Failed(cause)) => Err(cause),
            Err(LoadError::Undecodable(_) | LoadError::NotFound) => Ok(false),
        }
    }

    async fn list(&self, prefix: &Key, after: Option<&Key>) -> Result<glidepath_env::ListPage, LoadError> {
        match self.chain.store.list(prefix, after, PAGE).await {
            Ok(page) => Ok(page),
            Err(ReadError::NotFound) => Ok(glidepath_env::ListPage::default()),
            Err(ReadError::Failed(cause)) => Err(LoadError::Failed(cause)),
        }
    }
}

#[cfg(test)]
mod tests;
