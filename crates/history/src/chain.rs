//! The versions of a catalog, and the commits that made them.
//!
//! Built after the run from what is stored, not from what processes were told: from the roots that were written, the
//! manifests, or the records of a log.

use glidepath_model::{CommitId, Version};

use crate::record::{Effect, Item, Seen, State};

/// The versions of a catalog with the commits that made them, oldest first. A version has one commit, or several (group
/// commit), or none (a checkpoint).
#[derive(Clone, Debug, Default)]
pub struct Chain {
    base: Option<Version>,
    initial: Vec<Seen>,
    /// Each with the index of its first commit.
    versions: Vec<(Version, u32)>,
    /// Each with its version and the index of its first change.
    links: Vec<(CommitId, Version, u32)>,
    changes: Vec<Change>,
}

/// What a commit in the chain did to one item: put or removed it. Unchanged items are not listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The item.
    pub item: Item,
    /// Its state after the commit.
    pub now: State,
}

/// A commit in the chain.
#[derive(Clone, Copy, Debug)]
pub struct Link<'a> {
    /// The version it is in.
    pub version: Version,
    /// Its commit id.
    pub commit: CommitId,
    /// What it did.
    pub changes: &'a [Change],
}

impl Chain {
    /// An empty chain: the first version will be version 0.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A chain that begins at a version from before the recording, with these items in it.
    #[must_use]
    pub fn starting_at(base: Version, initial: impl IntoIterator<Item = (Item, CommitId)>) -> Self {
        let initial = initial.into_iter().map(|(item, commit)| Seen { item, state: Some(commit) }).collect();
        Self { base: Some(base), initial, ..Self::default() }
    }

    /// Begins the next version, with the number found in the store. [`push`](Self::push) adds its commits.
    pub fn begin_version(&mut self, version: Version) {
        self.versions.push((version, self.links.len() as u32));
    }

    /// Adds a commit to the last version, after those added before.
    ///
    /// # Panics
    /// If there is no version yet.
    pub fn push(&mut self, commit: CommitId, changes: impl IntoIterator<Item = Change>) {
        let version = self.versions.last().expect("a commit is part of a version").0;
        self.links.push((commit, version, self.changes.len() as u32));
        self.changes.extend(changes);
    }

    /// The number of commits.
    #[must_use]
    pub fn len(&self) -> usize {
        self.links.len()
    }

    /// Whether there are no commits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.links.is_empty()
    }

    /// The version at which the recording began.
    #[must_use]
    pub fn base(&self) -> Option<Version> {
        self.base
    }

    /// The items of the base version.
    #[must_use]
    pub fn initial(&self) -> &[Seen] {
        &self.initial
    }

    /// The numbers of the versions, as found.
    pub fn versions(&self) -> impl ExactSizeIterator<Item = Version> {
        self.versions.iter().map(|(version, _)| *version)
    }

    /// The commits, in order.
    pub fn links(&self) -> impl ExactSizeIterator<Item = Link<'_>> + Clone {
        (0..self.links.len()).map(|place| self.link_at(place))
    }

    /// The commit with this index, counted from 0 over all versions.
    pub(crate) fn link(&self, place: u32) -> Link<'_> {
        self.link_at(place as usize)
    }

    fn link_at(&self, place: usize) -> Link<'_> {
        let (commit, version, first) = self.links[place];
        let end = self.links.get(place + 1).map_or(self.changes.len(), |(.., next)| *next as usize);
        Link { version, commit, changes: &self.changes[first as usize..end] }
    }

    /// The number of commits in this version and all before it; `None` if the version is not in the chain. The chain
    /// must have no gap.
    pub(crate) fn commits_up_to(&self, version: Version) -> Option<u32> {
        if Some(version) == self.base {
            return Some(0);
        }
        let first = self.versions.first()?.0;
        let slot = usize::try_from(version.0.checked_sub(first.0)?).ok()?;
        self.versions.get(slot)?;
        Some(self.versions.get(slot + 1).map_or(self.links.len() as u32, |(_, next)| *next))
    }
}

/// The state of every item after every commit.
pub(crate) struct Timeline(Vec<(Item, u32, State)>);

impl Timeline {
    pub(crate) fn new(chain: &Chain) -> Self {
        let initial = chain.initial.iter().map(|seen| (seen.item, 0, seen.state));
        let changes = (1..)
            .zip(chain.links())
            .flat_map(|(after, link)| link.changes.iter().map(move |change| (change.item, after, change.now)));
        let mut states: Vec<_> = initial.chain(changes).collect();
        states.sort_unstable_by_key(|(item, after, _)| (*item, *after));
        Self(states)
    }

    /// The item after this many commits, and the commit that made it so (counted from 1; 0 is the base).
    pub(crate) fn after(&self, item: Item, commits: u32) -> (State, u32) {
        let slot = self.0.partition_point(|(other, after, _)| (*other, *after) <= (item, commits));
        match slot.checked_sub(1).map(|slot| self.0[slot]) {
            Some((other, after, state)) if other == item => (state, after),
            _ => (None, 0),
        }
    }

    /// The numbers of commits, from and to, after which the item was in this state for the first time.
    pub(crate) fn during(&self, item: Item, state: State) -> Option<(u32, u32)> {
        let begin = self.0.partition_point(|(other, ..)| *other < item);
        let states = self.0[begin..].iter().take_while(|(other, ..)| *other == item);
        let mut states = states.map(|(_, after, state)| (*after, *state)).peekable();
        if state.is_none() && states.peek().is_none_or(|(after, _)| *after > 0) {
            return Some((0, states.peek().map_or(u32::MAX, |(after, _)| after - 1)));
        }
        while let Some((after, found)) = states.next() {
            if found == state {
                return Some((after, states.peek().map_or(u32::MAX, |(next, _)| next - 1)));
            }
        }
        None
    }

    /// All states of the item between two positions in the chain, both included.
    pub(crate) fn between(&self, item: Item, first: u32, last: u32) -> impl Iterator<Item = State> {
        let begin = self.0.partition_point(|(other, after, _)| (*other, *after) <= (item, first));
        let later = self.0[begin..].iter().take_while(move |(other, after, _)| *other == item && *after <= last);
        std::iter::once(self.after(item, first).0).chain(later.map(|(_, _, state)| *state))
    }
}

impl Change {
    /// The change that an edit makes; `None` if it changes nothing.
    #[must_use]
    pub fn of(item: Item, effect: Effect) -> Option<Self> {
        (effect != Effect::Keep).then(|| Self { item, now: effect.after(None) })
    }
}
