//! Checks that every commit is in the chain as its process was told, where it may be, and in the order of time.

use glidepath_model::{CommitId, Version};
use rustc_hash::FxHashMap;

use crate::chain::{Chain, Change, Timeline};
use crate::record::{Ending, Expected, History, Item, Operation, OperationId, Rank, Reported, What};
use crate::violation::{Fault, Violation};

/// A history matched with a chain, each commit at its position. Building one is the first check; its methods are the
/// others.
pub struct Placement<'a> {
    pub(crate) history: &'a History,
    pub(crate) chain: &'a Chain,
    pub(crate) timeline: Timeline,
    /// The operation that made the commit at each position of the chain.
    pub(crate) makers: Vec<OperationId>,
}

impl<'a> Placement<'a> {
    /// Finds each commit in the chain.
    ///
    /// # Errors
    /// A version is missing or out of order; a commit is in the chain twice, or no operation made it; one was
    /// acknowledged and is missing, or is in another version than reported; one was denied and is there; or one has
    /// other changes than intended.
    pub fn new(history: &'a History, chain: &'a Chain) -> Result<Self, Violation> {
        gaps(chain)?;
        let places = places(chain)?;
        let mut makers: Vec<Option<OperationId>> = vec![None; chain.len()];
        for operation in history.operations() {
            let What::Commit { commit, edits, ending } = operation.what else { continue };
            let Some(place) = places.get(&commit) else {
                if matches!(ending, Ending::Committed(_)) {
                    return Err(Fault::AcknowledgedButMissing(operation.into()).into());
                }
                continue;
            };
            let link = chain.link(*place);
            told_so(operation, ending, link.version)?;
            if let Some(item) = difference(link.changes, edits.iter().filter_map(|e| Change::of(e.item, e.effect))) {
                return Err(Fault::OtherChanges { commit: operation.into(), version: link.version, item }.into());
            }
            if let Some(other) = makers[*place as usize].replace(operation.id) {
                return Err(Fault::RecordedTwice(history.operation(other).into(), operation.into()).into());
            }
        }
        let nobody = |place: usize| {
            let link = chain.link(place as u32);
            Violation::new(Fault::NobodyMade { commit: link.commit, version: link.version })
        };
        let makers = makers.into_iter().enumerate().map(|(place, maker)| maker.ok_or_else(|| nobody(place)));
        Ok(Self { history, chain, timeline: Timeline::new(chain), makers: makers.collect::<Result<_, _>>()? })
    }

    /// Each commit took effect when every item was as it expected: no update is lost.
    ///
    /// # Errors
    /// [`Fault::ExpectationBroken`] for the first that did not.
    pub fn expectations(&self) -> Result<(), Violation> {
        for (place, maker) in (0..).zip(&self.makers) {
            let operation = self.history.operation(*maker);
            let What::Commit { edits, .. } = operation.what else { continue };
            for edit in edits {
                if edit.expected == Expected::Anything {
                    continue;
                }
                let (found, by) = self.timeline.after(edit.item, place);
                if !edit.expected.holds(found) {
                    let by = by.checked_sub(1).map(|place| self.maker(place).into());
                    let version = self.chain.link(place).version;
                    let (item, expected, commit) = (edit.item, edit.expected, operation.into());
                    return Err(Fault::ExpectationBroken { commit, version, item, expected, found, by }.into());
                }
            }
        }
        Ok(())
    }

    /// A commit that was acknowledged before another began precedes it in the chain.
    ///
    /// # Errors
    /// [`Fault::OutOfOrder`].
    pub fn order(&self) -> Result<(), Violation> {
        // From the newest to the oldest: the earliest end of the commits after this position.
        let mut earliest: Option<(Rank, OperationId)> = None;
        for maker in self.makers.iter().rev() {
            let operation = self.history.operation(*maker);
            if let Some((ended, earlier)) = earliest
                && ended < operation.began_rank()
            {
                let earlier = self.history.operation(earlier).into();
                return Err(Fault::OutOfOrder { earlier, later: operation.into() }.into());
            }
            if let (Some(ended), true) = (operation.ended_rank(), acknowledged(&operation))
                && earliest.is_none_or(|(least, _)| ended < least)
            {
                earliest = Some((ended, *maker));
            }
        }
        Ok(())
    }

    /// Every conflict has a cause: at some time between the beginning and the end of the commit, an item was not as it
    /// expected. For protocols in which the actions decide: changes to different tables never conflict, and of two
    /// commits that create the same entry exactly one succeeds. Not for protocols that also answer "conflict" when only
    /// the catalog has changed, nor for attempts that met faults of the store.
    ///
    /// # Errors
    /// [`Fault::BaselessConflict`].
    pub fn conflicts(&self) -> Result<(), Violation> {
        let ends = Ends::new(self);
        for operation in self.history.operations() {
            let What::Commit { edits, ending: Ending::Conflict, .. } = operation.what else { continue };
            let (first, last) = ends.around(&operation);
            let broken = edits
                .iter()
                .any(|edit| self.timeline.between(edit.item, first, last).any(|state| !edit.expected.holds(state)));
            if !broken {
                return Err(Fault::BaselessConflict(operation.into()).into());
            }
        }
        Ok(())
    }

    /// For each position of the chain, the latest beginning of a commit at or before it.
    pub(crate) fn newest_beginnings(&self) -> Vec<(Rank, OperationId)> {
        let mut newest: Option<(Rank, OperationId)> = None;
        let step = |maker: &OperationId| {
            let this = (self.history.operation(*maker).began_rank(), *maker);
            let latest = newest.map_or(this, |newest| newest.max(this));
            newest = Some(latest);
            latest
        };
        self.makers.iter().map(step).collect()
    }

    pub(crate) fn maker(&self, place: u32) -> Operation<'_> {
        self.history.operation(self.makers[place as usize])
    }
}

pub(crate) fn acknowledged(operation: &Operation<'_>) -> bool {
    matches!(operation.what, What::Commit { ending: Ending::Committed(_), .. })
}

fn gaps(chain: &Chain) -> Result<(), Violation> {
    let mut expected = chain.base().map_or(Version(0), Version::next);
    for found in chain.versions() {
        if found != expected {
            return Err(Fault::Gap { expected, found }.into());
        }
        expected = found.next();
    }
    Ok(())
}

pub(crate) fn places(chain: &Chain) -> Result<FxHashMap<CommitId, u32>, Violation> {
    let mut places = FxHashMap::with_capacity_and_hasher(chain.len(), rustc_hash::FxBuildHasher);
    for (place, link) in (0..).zip(chain.links()) {
        if let Some(first) = places.insert(link.commit, place) {
            let versions = [chain.link(first).version, link.version];
            return Err(Fault::TwiceInChain { commit: link.commit, versions }.into());
        }
    }
    Ok(places)
}

/// Whether the answer to a commit in the chain agrees with its version.
fn told_so(operation: Operation<'_>, ending: Ending, found: Version) -> Result<(), Violation> {
    let agrees = match ending {
        Ending::Unknown | Ending::Open | Ending::Committed(Reported::Nothing) => true,
        Ending::Committed(Reported::At(version)) => version == found,
        Ending::Committed(Reported::By(version)) => found <= version,
        Ending::Conflict | Ending::Refused => {
            return Err(Fault::DeniedButPresent { commit: operation.into(), found }.into());
        }
    };
    if agrees { Ok(()) } else { Err(Fault::ToldAnotherVersion { commit: operation.into(), found }.into()) }
}

/// An item for which only one side has a change. Commits are small, so a quadratic search is the fastest.
fn difference(found: &[Change], intended: impl Iterator<Item = Change> + Clone) -> Option<Item> {
    let missing = intended.clone().find(|change| !found.contains(change));
    let added = || found.iter().find(|change| !intended.clone().any(|other| other == **change)).copied();
    let repeated = || found.get(intended.clone().count()).copied();
    missing.or_else(added).or_else(repeated).map(|change| change.item)
}

/// The positions in the chain that an operation can have seen, given what had ended and what had not begun.
struct Ends {
    /// The ends of acknowledged commits, each with the number of commits in the chain up to the last of them.
    over: Vec<(Rank, u32)>,
    /// The latest beginning of a commit at or before each position.
    begun: Vec<(Rank, OperationId)>,
}

impl Ends {
    fn new(placement: &Placement<'_>) -> Self {
        let makers = (0..).zip(&placement.makers).map(|(place, maker)| (place, placement.history.operation(*maker)));
        let acknowledged = makers.filter(|(_, operation)| acknowledged(operation));
        let mut over: Vec<(Rank, u32)> =
            acknowledged.filter_map(|(place, operation)| Some((operation.ended_rank()?, place + 1))).collect();
        over.sort_unstable();
        let mut most = 0;
        for (_, commits) in &mut over {
            most = most.max(*commits);
            *commits = most;
        }
        let begun = placement.newest_beginnings();
        Self { over, begun }
    }

    /// The minimum number of commits when the operation began, and the maximum when it ended.
    fn around(&self, operation: &Operation<'_>) -> (u32, u32) {
        let known = self.over.partition_point(|(ended, _)| *ended < operation.began_rank());
        let first = known.checked_sub(1).map_or(0, |slot| self.over[slot].1);
        let ended = operation.ended_rank().unwrap_or((u64::MAX, true));
        // `begun` rises: from the first commit that had not begun by the end on, nothing can have been seen.
        let last = self.begun.partition_point(|(began, _)| *began <= ended) as u32;
        (first, last.max(first))
    }
}
