//! Which version is the newest?

use glidepath_env::{Cause, Env, ObjectStore, ReadError, together};
use glidepath_model::{Instant, Version};

use super::{ManifestChain, Snapshot, is_recent};
use crate::catalog::LoadError;
use crate::mutant::{self, Mutant};

/// How often a reader starts again because a version that it had been told of was missing when it read it.
const OPENINGS: u32 = 8;

/// Up to this distance from a missing version, all versions before it are asked for at once.
const NEAR: u64 = 8;

/// How many reads go on to the end of the chain, because a commit on an older version is lost. From then on, any version
/// suffices that is proven to have been the newest during the call.
const READS: usize = 40;

/// What is known after a round of reads at once.
#[derive(Default)]
struct Round {
    /// The newest version that was found.
    newest: Option<Snapshot>,
    /// The least one after it that was missing.
    missing: Option<Version>,
}

/// The versions after `head` to ask for in a round: the next one first. Mostly there is none; where there is one, there may be
/// many.
fn ahead(head: Version, bound: Option<Version>, round: u32) -> Vec<Version> {
    let steps: Vec<u64> = match bound.map(|bound| bound.0 - head.0) {
        // Others may have been written meanwhile.
        Some(distance) if distance <= NEAR => (1..=distance + 1).collect(),
        Some(distance) => std::iter::once(1).chain((1..NEAR).map(|part| distance * part / NEAR)).collect(),
        None if round == 0 => vec![1],
        None => [1, 2, 3].into_iter().chain([4, 8].map(|far| far << (2 * (round - 1)).min(40))).collect(),
    };
    steps.into_iter().map(|step| Version(head.0.saturating_add(step))).collect()
}

impl<E: Env> ManifestChain<E> {
    /// The newest version at some time during the call, searched for from the newest known one.
    pub(super) async fn find_newest(&self) -> Result<Snapshot, LoadError> {
        let known = self.known().as_ref().filter(|head| head.is_recent(self.env.now())).cloned();
        let mut head = match known {
            Some(known) => known,
            None => self.open().await?,
        };
        let (mut reads, mut rounds) = (0, 0);
        // The least version that was missing in the last round; the first that was missing at all, and a time just before.
        let (mut bound, mut missing) = (None, None::<(Version, Instant)>);
        loop {
            let began = self.env.now();
            let asked = ahead(head.version(), bound, rounds);
            (reads, rounds) = (reads + asked.len(), rounds + 1);
            let round = self.read_round(&asked, head.seen).await?;
            // Read so late that the missing version may have been written and vacuumed: find the current end of the chain.
            if round.missing.is_some() && !head.is_recent(self.env.now()) {
                head = self.open().await?;
                (rounds, bound, missing) = (0, None, None);
                continue;
            }
            head = round.newest.unwrap_or(head);
            bound = round.missing;
            missing = missing.or(bound.map(|version| (version, began)));
            let since = match missing {
                _ if bound == Some(head.version().next()) => began,
                // Where commits are as fast as reads, the end of the chain is never reached. At that time there was no
                // version after the one before the missing one, so any version from there on was the newest then or
                // later.
                Some((missing, then)) if reads >= READS && head.version().next() >= missing => then,
                _ => continue,
            };
            head.seen = Some(since);
            self.know(&head);
            return Ok(head);
        }
    }

    /// Reads these versions at once.
    async fn read_round(&self, asked: &[Version], seen: Option<Instant>) -> Result<Round, LoadError> {
        let reads = asked.iter().map(|version| self.read_version(*version, seen));
        let (mut round, mut first_failed) = (Round::default(), None);
        for (version, read) in asked.iter().zip(together(asked.len(), reads).await) {
            match read {
                Ok(Some(newer)) => round = Round { newest: Some(newer), missing: None },
                Ok(None) => round.missing = round.missing.or(Some(*version)),
                Err(error) if *version == asked[0] => first_failed = Some(error),
                // It is asked for again, if it matters.
                Err(_) => {}
            }
        }
        match first_failed {
            Some(error) if round.newest.is_none() => Err(error),
            _ => Ok(round),
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
