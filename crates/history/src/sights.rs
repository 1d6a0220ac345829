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

#[cfg(test)]
mod tests {
    use glidepath_model::{CommitId, Instant};

    use super::*;
    use crate::record::{Edit, Effect, Expected, Item, ProcessId, Reported};
    use crate::{Change, Fault, check};

    const OLD: CommitId = CommitId(1);
    const NEW: CommitId = CommitId(2);

    fn at(nanos: u64) -> Instant {
        Instant::from_nanos(nanos)
    }

    /// One commit changes two items from `OLD` to `NEW`, from 10 to 20, if it is answered; then these processes look at
    /// both.
    fn judged(answered: bool, looks: &[(u32, (u64, u64), [CommitId; 2])]) -> Option<Fault> {
        let items = [Item(0), Item(1)];
        let mut history = History::new();
        let edit = |item| Edit { item, expected: Expected::Is(OLD), effect: Effect::Put(NEW) };
        let commit = history.begin_commit(ProcessId(0), at(10), NEW, items.map(edit));
        if answered {
            history.end_commit(commit, at(20), Ending::Committed(Reported::Nothing));
        }
        for (process, (from, to), states) in looks {
            let load = history.begin_load(ProcessId(*process), at(*from));
            let seen = items.into_iter().zip(states).map(|(item, state)| Seen { item, state: Some(*state) });
            history.end_sight(load, at(*to), seen);
        }
        let mut chain = Chain::starting_at(Version(4), items.map(|item| (item, OLD)));
        chain.begin_version(Version(5));
        chain.push(NEW, items.map(|item| Change { item, now: Some(NEW) }));
        let judged = history.place(&chain).and_then(|()| check(&history, &chain));
        judged.err().map(|violation| violation.fault().clone())
    }

    #[test]
    fn loads_are_placed_where_what_they_read_was() {
        assert_eq!(judged(true, &[(1, (5, 30), [OLD, OLD]), (2, (5, 30), [NEW, NEW])]), None);
        assert_eq!(judged(false, &[(1, (12, 13), [NEW, NEW]), (1, (14, 15), [NEW, NEW])]), None);
    }

    #[test]
    fn half_a_commit_an_old_state_and_a_step_back_are_noticed() {
        let half = judged(true, &[(1, (5, 30), [OLD, NEW])]).unwrap();
        assert!(matches!(half, Fault::WrongContent { .. }), "{half:?}");
        let stale = judged(true, &[(1, (25, 30), [OLD, OLD])]).unwrap();
        assert!(matches!(stale, Fault::StaleLoad { .. }), "{stale:?}");
        let back = judged(false, &[(1, (12, 13), [NEW, NEW]), (2, (14, 15), [OLD, OLD])]).unwrap();
        assert!(matches!(back, Fault::StaleLoad { .. }), "{back:?}");
        let early = judged(true, &[(1, (5, 8), [NEW, NEW])]).unwrap();
        assert!(matches!(early, Fault::FromTheFuture { .. }), "{early:?}");
    }
}
