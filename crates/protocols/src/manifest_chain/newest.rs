//! Which version is the newest?

use glidepath_env::{Cause, Env, ObjectStore, ReadError, together};
use glidepath_model::{Instant, Version};

use super::{ManifestChain, Snapshot, is_recent};
use crate::catalog::LoadError;
use crate::first_of;
use crate::mutant::{self, Mutant};

/// How often a reader starts again because a version that it had been told of was missing when it read it.
const OPENINGS: u32 = 8;

/// Up to this distance from a missing version, all versions before it are asked for at once.
const NEAR: u64 = 8;

/// How many reads go on to the end of the chain, because a commit on an older version is lost. From then on, any
/// version suffices that is proven to have been the newest during the call.
const READS: usize = 40;

/// What is known after a round of reads at once.
#[derive(Default)]
struct Round {
    /// The newest version that was found.
    newest: Option<Snapshot>,
    /// The least one after it that was missing.
    missing: Option<Version>,
}

/// Which versions to ask for next.
struct Search {
    /// The newest version that was found.
    head: Version,
    /// The least version after it that was missing, perhaps some rounds ago.
    bound: Option<Version>,
    /// Rounds without a bound.
    unbounded: u32,
}

impl Search {
    fn from(head: Version) -> Self {
        Self { head, bound: None, unbounded: 0 }
    }

    /// The versions of a round, in order: the next one first. Mostly there is none; where there is one, there may be
    /// many.
    fn asks(&self) -> Vec<Version> {
        let mut steps: Vec<u64> = match self.bound.map(|bound| bound.0 - self.head.0) {
            // Others may have been written meanwhile.
            Some(distance) if distance <= NEAR => (1..=distance + 1).collect(),
            Some(distance) => std::iter::once(1).chain((1..NEAR).map(|part| distance / NEAR * part)).collect(),
            None if self.unbounded == 0 => vec![1],
            None => [1, 2, 3].into_iter().chain([4, 8].map(|far| far << (2 * (self.unbounded - 1)).min(58))).collect(),
        };
        steps.dedup();
        steps.into_iter().map(|step| Version(self.head.0.saturating_add(step))).collect()
    }

    /// A round found this to be the newest, and this one after it to be missing. Returns whether nothing can be between
    /// them.
    fn learn(&mut self, head: Version, missing: Option<Version>) -> bool {
        self.head = head;
        self.bound = missing.or(self.bound).filter(|bound| *bound > head);
        self.unbounded = if self.bound.is_none() { self.unbounded + 1 } else { 1 };
        missing == Some(head.next())
    }
}

impl<E: Env> ManifestChain<E> {
    /// The newest version at some time during the call, searched for from the newest known one.
    pub(super) async fn find_newest(&self) -> Result<Snapshot, LoadError> {
        let known = self.known().as_ref().filter(|head| head.is_recent(self.env.now())).cloned();
        let mut head = match known {
            Some(known) => known,
            None => self.open().await?,
        };
        let (mut search, mut reads, mut openings) = (Search::from(head.version()), 0, 0);
        // The first version that was missing, and a time just before.
        let mut missing = None::<(Version, Instant)>;
        loop {
            let began = self.env.now();
            let asked = search.asks();
            reads += asked.len();
            let round = self.read_round(&asked, head.seen).await?;
            // Read so late that the missing version may have been written and vacuumed: find the current end of the
            // chain.
            if round.missing.is_some() && !head.is_recent(self.env.now()) {
                openings += 1;
                if openings > OPENINGS {
                    let words = "the store answers so slowly that what it says is too old when it comes";
                    return Err(LoadError::Failed(Cause::words(words)));
                }
                head = self.open().await?;
                (search, missing) = (Search::from(head.version()), None);
                continue;
            }
            head = round.newest.unwrap_or(head);
            missing = missing.or(round.missing.map(|version| (version, began)));
            let is_last = search.learn(head.version(), round.missing);
            let since = match missing {
                _ if is_last => began,
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
        let keys = &self.shared_state.keys;
        let listed = match first_of(&self.store, &keys.versions(), |key| keys.version_in(key)).await {
            Ok(first) => first,
            Err(ReadError::NotFound) => None,
            // The hint alone is not enough: it may be old, and its version may only be left because its pages are
            // needed.
            Err(ReadError::Failed(cause)) => return Err(LoadError::Failed(cause)),
        };
        Ok([hinted.max(listed), hinted.min(listed)].into_iter().flatten().collect())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The rounds and reads until a process that knows version 0 of a chain that does not grow knows its newest one.
    fn rounds(newest: u64) -> (u32, usize) {
        let (mut search, mut rounds, mut reads) = (Search::from(Version(0)), 0, 0);
        loop {
            let (head, asked) = (search.head, search.asks());
            assert!(asked.is_sorted_by(|a, b| a < b) && asked[0] == head.next(), "{asked:?}");
            (rounds, reads) = (rounds + 1, reads + asked.len());
            let (there, missing): (Vec<_>, Vec<_>) = asked.into_iter().partition(|version| version.0 <= newest);
            if search.learn(there.last().copied().unwrap_or(head), missing.first().copied()) {
                assert_eq!(search.head, Version(newest));
                return (rounds, reads);
            }
        }
    }

    #[test]
    fn who_is_a_few_versions_behind_needs_few_rounds() {
        assert_eq!(rounds(0), (1, 1));
        assert!((1..=4).all(|newest| rounds(newest) == (2, 6)));
        assert!((5..=11).all(|newest| rounds(newest) == (3, 11)));
    }

    proptest! {
        /// About half as many as a search that doubles the distance, and then halves it, takes reads.
        #[test]
        fn rounds_are_few(bits in 0_u32..60, random: u64) {
            let newest = random >> (63 - bits);
            let (rounds, _) = rounds(newest);
            prop_assert!(f64::from(rounds) <= (newest as f64 + 1.0).log2() + 2.0, "{newest}: {rounds}");
        }
    }
}
