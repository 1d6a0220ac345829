//! Vacuum: finds and deletes the objects that no kept version needs.
//!
//! A page that a version no longer refers to is in none of the later ones. So of everything written for versions up to
//! the oldest kept one, exactly what that version refers to is needed; what was written for later versions is not
//! examined. One walk over the inner pages of one version is enough.
//!
//! 0. Read the newest version whole: if it is damaged, what is left of older ones may be needed, and nothing is
//!    removed.
//! 1. Find the oldest version to keep: by number, and by the time since its successor was written, which two
//!    independent pairs of clocks must prove (`ages.rs`).
//! 2. Commit a version with the same entries that names it. From then on no reader begins to read older versions.
//! 3. Walk the oldest kept version, and collect the objects that it refers to.
//! 4. List versions older than it, and packs for versions up to it, page by page; delete those that were not collected.
//!
//! It may stop at any point; the next vacuum continues. Two at a time delete only what each may delete. A pack for a
//! version that exists can no longer become referred to: the commit that wrote it has lost, or is in the chain and in
//! the walk.

use std::collections::BTreeSet;

use bytes::Bytes;
use glidepath_env::{Cause, DeleteError, Denial, Env, Key, ObjectStore, Purpose, ReadError};
use glidepath_model::{CommitId, Span, Version};

pub use super::ages::Dispute;
use super::manifest::Manifest;
use super::page::Home;
use super::{ManifestChain, RECHECK, Snapshot};
use crate::catalog::{Catalog, LoadError, Outcome};
use crate::mutant::{self, Mutant};

/// Keys listed at a time.
const PAGE: usize = 1000;

/// The maximum number of attempts in step 2.
const TRIES: u32 = 20;

/// How long versions are kept.
#[derive(Clone, Copy, Debug)]
pub struct Grace {
    /// This many versions before the newest are kept, whatever their age.
    pub versions: u64,
    /// A version is kept for this long after the next one was written. Must exceed the time for which any reader uses a
    /// version; at least ten minutes.
    pub age: Span,
}

impl Grace {
    /// The shortest age allowed.
    pub const SHORTEST: Span = Span::from_nanos(2 * RECHECK.as_nanos());

    /// Keeps as little as possible.
    pub const LEAST: Self = Self { versions: 2, age: Self::SHORTEST };
}

/// What a vacuum did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// The oldest version that is kept now.
    pub oldest: Version,
    /// The newest version when the vacuum began to delete.
    pub newest: Version,
    /// Objects of older versions that were deleted.
    pub versions: u64,
    /// Packs that were deleted.
    pub packs: u64,
    /// Objects of older versions and packs that are still needed.
    pub kept: u64,
}

/// Why a vacuum stopped. Everything deleted before was not needed; run it again.
#[derive(Clone, Debug, thiserror::Error)]
pub enum VacuumError {
    /// Readers could lose versions that they read.
    #[error("the grace period is {given}; at least {least} is needed, so that no reader or sleeping writer loses what it still needs", given = .0, least = Grace::SHORTEST)]
    TooShort(Span),
    /// The chain could not be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The version that names the oldest kept one could not be committed.
    #[error("could not commit the version that names the oldest kept one: {0}")]
    Commit(Cause),
    /// The clocks disagree on whether anything is old. Nothing was removed.
    #[error("{0}")]
    Clocks(Dispute),
    /// The store does not say when an object was written. Nothing was removed.
    #[error("the store does not say when {0} was written, so nothing proves that anything is old: nothing was removed")]
    Undated(Key),
    /// The newest version cannot be read whole. Nothing was removed, because what is left of older ones may be needed.
    #[error(
        "the newest version cannot be read whole ({0}), so nothing was removed: older versions may be needed to restore it. A check (fsck) says what is damaged"
    )]
    Damaged(Cause),
    /// The store failed to list or delete.
    #[error("could not {what}: {cause}")]
    Store {
        /// For example "list versions".
        what: &'static str,
        /// Why.
        cause: Cause,
    },
}

impl<E: Env> ManifestChain<E> {
    /// Deletes what no kept version needs. May run concurrently with readers, writers and other vacuums. In memory: the
    /// names of the objects that the oldest kept version refers to, and one page of a listing.
    ///
    /// # Errors
    /// [`VacuumError`]; it can always be run again.
    pub async fn vacuum(&self, grace: Grace) -> Result<Swept, VacuumError> {
        if grace.age < Grace::SHORTEST {
            return Err(VacuumError::TooShort(grace.age));
        }
        let head = self.load().await?;
        // Step 0.
        if !mutant::is(Mutant::NewestUnread)
            && let Err(error) = self.read_whole(&head).await
        {
            if let Some(kept) = self.kept_since(head.version()).await? {
                return Ok(kept);
            }
            return Err(match error {
                LoadError::Undecodable(cause) => VacuumError::Damaged(cause),
                error => VacuumError::Load(error),
            });
        }
        let oldest = self.oldest_to_keep(&head, grace).await?;
        if oldest > head.oldest_kept() {
            self.commit_oldest(head, oldest).await?;
        }
        let head = self.load().await?;
        let swept = Swept { oldest: head.oldest_kept(), newest: head.version(), ..Swept::default() };
        if head.oldest_kept() > oldest {
            // Another vacuum keeps fewer versions, and deletes the rest.
            return Ok(swept);
        }
        // Also if no version became old: an earlier vacuum may have stopped, or a writer that slept may have written.
        let needed = match self.needed_by(oldest).await {
            Ok(needed) => needed,
            Err(error) => return self.kept_since(oldest).await?.ok_or(error),
        };
        let mut swept = Swept { oldest, ..swept };
        let behind = self.shared_state.keys.version(oldest);
        swept.versions = self
            .sweep("list versions", &self.shared_state.keys.versions(), Some(behind), &mut |key| {
                let version = self.shared_state.keys.version_in(key)?;
                let needed = needed.contains(&Home::Version(version.0)) && !mutant::is(Mutant::NeededDeleted);
                let gone = version < oldest && !needed;
                swept.kept += u64::from(!gone);
                Some(gone)
            })
            .await?;
        swept.packs = self
            .sweep("list packs", &self.shared_state.keys.packs(), None, &mut |key| {
                let home = self.shared_state.keys.pack_in(key)?;
                let gone = matches!(home, Home::Pack { version, .. } if version <= oldest.0) && !needed.contains(&home);
                swept.kept += u64::from(!gone);
                Some(gone)
            })
            .await?;
        Ok(swept)
    }

    /// Step 1. Ends at a version that is proven to be old (`ages.rs`), or where it began. Versions are written one
    /// after another, so whatever is before an old version is older still, whatever its own times say; a search that
    /// meets wrong times keeps more than it must.
    async fn oldest_to_keep(&self, head: &Snapshot, grace: Grace) -> Result<Version, VacuumError> {
        let began = head.oldest_kept().0;
        let (mut keep, mut latest) = (began, head.version().0.saturating_sub(grace.versions));
        if keep < latest {
            let mut ages = self.ages(head, grace.age).await?;
            // The version after `keep` - 1 is old enough; find the last such.
            while keep < latest {
                let middle = keep + (latest - keep).div_ceil(2);
                match ages.old_from(middle, latest).await? {
                    Some(version) => keep = version.0,
                    None => latest = middle - 1,
                }
            }
            if let Some(dispute) = ages.into_dispute().filter(|_| keep == began) {
                return Err(VacuumError::Clocks(dispute));
            }
        }
        let too_far = mutant::is(Mutant::VersionTooFar) && keep < head.version().0;
        Ok(Version(keep + u64::from(too_far)))
    }

    /// Step 2.
    async fn commit_oldest(&self, mut head: Snapshot, oldest: Version) -> Result<(), VacuumError> {
        for _ in 0..TRIES {
            if head.oldest_kept() >= oldest {
                return Ok(());
            }
            let manifest = Manifest {
                version: head.version().next(),
                commit: CommitId(self.env.draw(Purpose::Names)),
                before: head.commit(),
                oldest,
                written_ms: self.env.unix_ms(),
                ..(*head.manifest).clone()
            };
            let object = Bytes::from(manifest.encode());
            match self.put_version(manifest, object, head.seen).await {
                Outcome::Committed(_) => return Ok(()),
                Outcome::Conflict(_) => head = self.load().await?,
                Outcome::Refused(Denial { cause, .. }) | Outcome::Unknown(cause) => {
                    return Err(VacuumError::Commit(cause));
                }
            }
        }
        Err(VacuumError::Commit(Cause::words(format!("other writers committed first {TRIES} times"))))
    }

    /// What another vacuum keeps that does not keep this version any more, so that what was missing in it is no damage.
    async fn kept_since(&self, version: Version) -> Result<Option<Swept>, LoadError> {
        let head = self.load().await?;
        let swept = Swept { oldest: head.oldest_kept(), newest: head.version(), ..Swept::default() };
        Ok((head.oldest_kept() > version).then_some(swept))
    }

    /// Step 3.
    async fn needed_by(&self, oldest: Version) -> Result<BTreeSet<Home>, VacuumError> {
        let found = self.read_version(oldest, None).await?;
        let kept = found.ok_or_else(|| {
            LoadError::Undecodable(Cause::words(format!("{oldest} should be kept, but is missing: damage")))
        })?;
        Ok(self.homes(&kept).await?)
    }

    /// Step 4 for one kind of objects.
    async fn sweep(
        &self,
        what: &'static str,
        prefix: &Key,
        mut after: Option<Key>,
        gone: &mut impl FnMut(&Key) -> Option<bool>,
    ) -> Result<u64, VacuumError> {
        let mut deleted = 0;
        loop {
            let page = match self.store.list(prefix, after.as_ref(), PAGE).await {
                Ok(page) => page,
                Err(ReadError::NotFound) => return Ok(deleted),
                Err(ReadError::Failed(cause)) => return Err(VacuumError::Store { what, cause }),
            };
            for object in &page.objects {
                if gone(&object.key) == Some(true) {
                    match self.store.delete(&object.key).await {
                        Ok(()) => deleted += 1,
                        Err(DeleteError::Unknown(cause) | DeleteError::Refused(cause)) => {
                            return Err(VacuumError::Store { what: "delete", cause });
                        }
                    }
                }
            }
            after = page.objects.last().map(|last| last.key.clone());
            if !page.more || after.is_none() {
                return Ok(deleted);
            }
        }
    }
}
