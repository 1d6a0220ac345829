//! Which version is the newest?

use glidepath_env::{Cause, Env, ObjectStore, ReadError};
use glidepath_model::{Instant, Version};

use super::{ManifestChain, Snapshot, is_recent};
use crate::catalog::LoadError;
use crate::mutant::{self, Mutant};

/// How often a reader starts again because a version that it had been told of was missing when it read it.
const OPENINGS: u32 = 8;

/// How many reads go on to the end of the chain, because a commit on an older version is lost. From then on, any version
/// suffices that is proven to have been the newest during the call.
const READS: u32 = 64;

impl<E: Env> ManifestChain<E> {
    /// The newest version at some time during the call, searched for from the newest known one.
    pub(super) async fn find_newest(&self) -> Result<Snapshot, LoadError> {
        let known = self.known().as_ref().filter(|head| head.is_recent(self.env.now())).cloned();
        let mut head = match known {
            Some(known) => known,
            None => self.open().await?,
        };
        // Doubles the distance until there is no version, then goes back to the end of the chain.
        let (mut step, mut reads) = (1, 0);
        // The first version that was missing, and a time just before.
        let mut missing: Option<(Version, Instant)> = None;
        loop {
            let began = self.env.now();
            let next = Version(head.version().0 + step);
            reads += 1;
            match self.read_version(next, head.seen).await? {
                Some(newer) => {
                    head = newer;
                    step *= 2;
                    // Where commits are as fast as reads, the end of the chain is never reached. At that time there was no
                    // version after the one before the missing one, so any version from there on was the newest then or
                    // later.
                    if let Some((missing, then)) = missing
                        && reads >= READS
                        && head.version().next() >= missing
                    {
                        head.seen = Some(then);
                        self.know(&head);
                        return Ok(head);
                    }
                }
                // Read so late that the next version may have been written and vacuumed: find the current end of the
                // chain.
                None if !head.is_recent(self.env.now()) => {
                    head = self.open().await?;
                    (step, missing) = (1, None);
                }
                None if step == 1 => {
                    head.seen = Some(began);
                    self.know(&head);
                    return Ok(head);
                }
                None => {
                    missing = missing.or(Some((next, began)));
                    step = 1;
                }
            }
        }
    }

    /// The newest version according to the hint and a listing, both of which may lag. If they name no version, read the
    /// first one to learn whether there is a catalog: if it is too new for listings, it has not been vacuumed yet. If
    /// they name versions and none of these exists, they were vacuumed meanwhile, so there is a catalog: try again.
    async fn open(&self) -> Result<Snapshot, LoadError> {
        for _ in 0..OPENINGS {
            let began = self.env.now();
            let named = self.named().await?;
            if named.is_empty() {
                match self.read_version(Version(0), Some(began)).await? {
                    Some(first) if !mutant::is(Mutant::ListingTrusted) => return Ok(first),
                    // Read so late that it may have been written and vacuumed.
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
        let words = "the versions that the hint and the listing name are missing: they are lost, or vacuumed faster \
             than they are read";
        Err(LoadError::Failed(Cause::words(words)))
    }

    /// The versions that the hint and a listing name, newest first.
    async fn named(&self) -> Result<Vec<Version>, LoadError> {
        let hinted = match self.store.get(&self.shared_state.keys.hint()).await {
            Ok(object) => object.payload.bytes.first_chunk::<8>().map(|bytes| Version(u64::from_le_bytes(*bytes))),
            Err(_) => None,
        };
        let listed = match self.store.list_folder(&self.shared_state.keys.versions(), None, 1).await {
            Ok(page) => page.objects.first().and_then(|first| self.shared_state.keys.version_in(&first.key)),
            Err(ReadError::NotFound) => None,
            // The hint alone is not enough: it may be old, and its version may only be left because its pages are
            // needed.
            Err(ReadError::Failed(cause)) => return Err(LoadError::Failed(cause)),
        };
        Ok([hinted.max(listed), hinted.min(listed)].into_iter().flatten().collect())
    }
}
