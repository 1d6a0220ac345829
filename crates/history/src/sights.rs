//! Loads without a version: which version of the chain did each show?

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use glidepath_model::Version;

use crate::chain::{Chain, Timeline};
use crate::placement::places;
use crate::record::{Ending, History, OperationId, Rank, Seen, What};
use crate::violation::Violation;

impl History {
    /// Gives each load without a version the least version that explains it: what was read is in it, and it is at least
    /// as new as all that was acknowledged, or shown by a load, before this load began. If there is none, it gets a
    /// version that [`Placement::loads`](crate::Placement::loads) reports. So these loads are explained together if and
    /// only if those with the versions given here are.
    ///
    /// # Errors
    /// A commit is in the chain twice.
    pub fn place(&mut self, chain: &Chain) -> Result<(), Violation> {
        let timeline = Timeline::new(chain);
        let places = places(chain)?;
        // Ends, each with the number of commits known then.
        let mut ends: BinaryHeap<Reverse<(Rank, u32)>> = BinaryHeap::new();
        let mut sights: Vec<(Rank, OperationId)> = Vec::new();
        for operation in self.operations() {
            match (operation.what, operation.ended_rank()) {
                (What::Commit { commit, ending: Ending::Committed(_), .. }, Some(ended)) => {
                    ends.extend(places.get(&commit).map(|place| Reverse((ended, place + 1))));
                }
                (What::Load { version: Some(version), .. }, Some(ended)) => {
                    ends.extend(chain.commits_up_to(version).map(|commits| Reverse((ended, commits))));
                }
                (What::Sight { .. }, Some(_)) => sights.push((operation.began_rank(), operation.id)),
                _ => {}
            }
        }
        sights.sort_unstable();
        let mut known = 0;
        for (began, id) in sights {
            while let Some(Reverse((ended, commits))) = ends.peek().copied()
                && ended < began
            {
                known = known.max(commits);
                let _ = ends.pop();
            }
            let operation = self.operation(id);
            let What::Sight { seen } = operation.what else { continue };
            let commits = shown(&timeline, chain, seen, known);
            ends.extend(operation.ended_rank().map(|ended| Reverse((ended, commits))));
            self.place_sight(id, chain.version_with(commits));
        }
        Ok(())
    }
}

/// The least number of commits, from `known` on if possible, after which all items are as they were seen.
fn shown(timeline: &Timeline, chain: &Chain, seen: &[Seen], known: u32) -> u32 {
    let (mut first, mut last) = (0, chain.len() as u32);
    for seen in seen {
        match timeline.during(seen.item, seen.state) {
            Some((begin, end)) => (first, last) = (first.max(begin), last.min(end)),
            // Nothing ever left it so; the check of contents reports it.
            None => return known,
        }
    }
    if first > last { first } else { first.max(known).min(last) }
}

impl Chain {
    /// The first version with this number of commits, or more.
    fn version_with(&self, commits: u32) -> Version {
        let enough = |version: &Version| self.commits_up_to(*version).is_some_and(|found| found >= commits);
        let base = self.base().into_iter();
        base.chain(self.versions()).find(enough).or_else(|| self.versions().last()).unwrap_or_default()
    }
}
