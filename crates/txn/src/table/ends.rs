//! The ends of transactions that a process keeps in memory.
//!
//! Ends never change, so an entry is never stale, and which entries are kept matters for speed only. A library keeps
//! them, in shards with a lock each; a read takes no lock that excludes other reads.

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{OptionsBuilder, UnitWeighter};
use rustc_hash::FxBuildHasher;

use crate::{Outcome, Timestamp};

/// Shards, unless so few ends are kept that one is enough.
const SHARDS: usize = 16;

type Kept = Cache<Timestamp, Outcome, UnitWeighter, FxBuildHasher>;

/// Ends of transactions.
#[derive(Debug)]
pub(super) struct Ends(Option<Kept>);

impl Ends {
    /// Keeps at most so many.
    pub(super) fn new(most: usize) -> Self {
        let shards = if most < 1000 * SHARDS { 1 } else { SHARDS };
        let mut options = OptionsBuilder::new();
        options.shards(shards).estimated_items_capacity(most).weight_capacity(most as u64);
        let options = options.build().ok().filter(|_| most > 0);
        let kept = |options| Cache::with_options(options, UnitWeighter, FxBuildHasher, DefaultLifecycle::default());
        Self(options.map(kept))
    }

    pub(super) fn get(&self, start: Timestamp) -> Option<Outcome> {
        self.0.as_ref()?.get(&start)
    }

    pub(super) fn keep(&self, ended: &[(Timestamp, Outcome)]) {
        if let Some(kept) = &self.0 {
            ended.iter().for_each(|(start, outcome)| kept.insert(*start, *outcome));
        }
    }

    pub(super) fn forget(&self, start: Timestamp) {
        if let Some(kept) = &self.0 {
            kept.remove(&start);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    #[test]
    fn no_more_are_kept_than_asked_for() {
        for most in [0, 1, 8, 1000, 40_000] {
            let ends = Ends::new(most);
            let all: Vec<_> = (1..=100_000).map(|number| (at(number), Outcome::Committed(at(number + 1)))).collect();
            ends.keep(&all);
            let kept = all.iter().filter(|(start, outcome)| match ends.get(*start) {
                None => false,
                Some(found) => {
                    assert_eq!(found, *outcome);
                    true
                }
            });
            let kept = kept.count();
            assert!(kept <= most && kept >= most / 2, "{kept} of {most}");
        }
    }

    #[test]
    fn what_is_forgotten_is_gone() {
        let ends = Ends::new(100);
        ends.keep(&[(at(1), Outcome::Aborted), (at(2), Outcome::Aborted)]);
        ends.forget(at(1));
        assert_eq!((ends.get(at(1)), ends.get(at(2))), (None, Some(Outcome::Aborted)));
    }
}
