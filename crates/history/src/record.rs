//! What did each process do, and what was it told?
//!
//! Operations go into a [`History`] as they begin and end. A record is a few dozen bytes in a flat list, with what it
//! touched in another, so that recording costs next to nothing beside what is recorded.

use std::fmt;

use glidepath_model::{CommitId, Instant, TableId, Version};

/// Whatever has a state of its own that commits change: a table, a namespace, a partition. Any numbering will do, as long
/// as equal things have equal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Item(pub u64);

impl From<TableId> for Item {
    fn from(table: TableId) -> Self {
        Self(u64::from(table.0))
    }
}

impl fmt::Display for Item {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "item {}", self.0)
    }
}

/// The state of an item: the id that the last commit to it left there, or `None` where there is no such item.
pub type State = Option<CommitId>;

/// What a commit needs an item to be at the moment it takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// No matter what.
    Anything,
    /// The item does not exist.
    Absent,
    /// It exists, in whatever state: a namespace in which something is created.
    Present,
    /// It is as this commit left it.
    Is(CommitId),
}

impl Expected {
    /// Exactly the state that was seen.
    #[must_use]
    pub fn seen(state: State) -> Self {
        state.map_or(Self::Absent, Self::Is)
    }

    /// Whether an item in this state is as expected.
    #[must_use]
    pub fn holds(self, state: State) -> bool {
        match self {
            Self::Anything => true,
            Self::Absent => state.is_none(),
            Self::Present => state.is_some(),
            Self::Is(commit) => state == Some(commit),
        }
    }
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anything => f.write_str("anything"),
            Self::Absent => f.write_str("absent"),
            Self::Present => f.write_str("present"),
            Self::Is(commit) => write!(f, "{commit}"),
        }
    }
}

/// What a commit makes of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Leaves it as it is: the edit is a condition only.
    Keep,
    /// Leaves this id in it; one that no other operation ever writes.
    Put(CommitId),
    /// Ends its existence.
    Remove,
}

impl Effect {
    /// The state that follows `before`.
    #[must_use]
    pub fn after(self, before: State) -> State {
        match self {
            Self::Keep => before,
            Self::Put(commit) => Some(commit),
            Self::Remove => None,
        }
    }
}

/// One item in one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edit {
    /// Which item. At most one edit of a commit names it.
    pub item: Item,
    /// What it must be.
    pub expected: Expected,
    /// What it becomes.
    pub effect: Effect,
}

/// One item in a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Which item.
    pub item: Item,
    /// How it was seen.
    pub state: State,
}

/// How a commit ended for the process that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Acknowledged.
    Committed(Reported),
    /// Told that it is not in the catalog, and will not be.
    Conflict,
    /// Told that it was turned away before any effect.
    Refused,
    /// Told that nobody knows: it may have happened, or may yet.
    Unknown,
    /// Told nothing: the process died, or was still at it when the recording ended.
    Open,
}

/// What an acknowledgement says about the place of the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// It made this version.
    At(Version),
    /// It is in this version, and may be older: what a snapshot returned with an acknowledgement says.
    By(Version),
    /// Nothing.
    Nothing,
}

/// A client that does one thing after another. Group commit has one for each writer, not one for the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.0)
    }
}

/// Names an operation within one [`History`]: its place in the order of beginnings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(u32);

impl OperationId {
    /// The place in [`History::operations`].
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What processes did and were told.
///
/// All instants are of one clock that no fault touches; a process's own clock will not do where clocks are skewed. It is
/// read before the first request is sent, and again after the last answer came. Operations of one process are added in
/// the order in which it made them.
#[derive(Clone, Debug, Default)]
pub struct History {
    records: Vec<Record>,
    edits: Vec<Edit>,
    seen: Vec<Seen>,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    began: Instant,
    ended: Instant,
    kind: Kind,
    process: ProcessId,
    /// Where in `edits` or `seen` what it touched begins, and how much there is of it.
    first: u32,
    count: u32,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Commit(CommitId, Ending),
    Load(Option<Version>),
}

/// Stands for an end that was not recorded.
const OPEN: Instant = Instant::from_nanos(u64::MAX);

/// An operation as recorded.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    /// Its name.
    pub id: OperationId,
    /// Who made it.
    pub process: ProcessId,
    /// When.
    pub began: Instant,
    /// When it was answered; `None` if it never was.
    pub ended: Option<Instant>,
    /// What it was.
    pub what: What<'a>,
}

/// The two kinds of operations.
#[derive(Clone, Copy, Debug)]
pub enum What<'a> {
    /// An attempt to change the catalog, all edits or none.
    Commit {
        /// Names it; found again in the chain.
        commit: CommitId,
        /// What it was to change.
        edits: &'a [Edit],
        /// What the process was told.
        ending: Ending,
    },
    /// A look at a snapshot.
    Load {
        /// The snapshot's version; `None` if the load failed or never ended. Nothing is asked of such a load.
        version: Option<Version>,
        /// Items that were looked at in it.
        seen: &'a [Seen],
    },
}

/// A moment that can be compared with others. Of two operations, one is over before the other begins if the rank of its
/// end is below the rank of the other's beginning.
///
/// An end at the very instant of another's beginning comes before it, so that a process that does not pause between two
/// operations has done them in that order; but an operation of no duration is not before its equals.
pub(crate) type Rank = (u64, bool);

impl Operation<'_> {
    pub(crate) fn began_rank(&self) -> Rank {
        (self.began.as_nanos(), true)
    }

    /// `None` for an operation that never ended.
    pub(crate) fn ended_rank(&self) -> Option<Rank> {
        self.ended.map(|ended| (ended.as_nanos(), ended == self.began))
    }
}

impl History {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A commit begins. `commit` names this one attempt: it is recorded once, and found in the chain if the attempt took
    /// effect. Where a protocol draws its commit ids itself, any id will do that the writer chooses and the chain shows,
    /// such as that of a metadata object.
    pub fn begin_commit(
        &mut self,
        process: ProcessId,
        at: Instant,
        commit: CommitId,
        edits: impl IntoIterator<Item = Edit>,
    ) -> OperationId {
        let first = self.edits.len();
        self.edits.extend(edits);
        let count = self.edits.len() - first;
        self.push(process, at, Kind::Commit(commit, Ending::Open), first, count)
    }

    /// A commit ends. One that never ends is [`Ending::Open`].
    ///
    /// # Panics
    /// If there is no such commit in this history.
    pub fn end_commit(&mut self, operation: OperationId, at: Instant, ending: Ending) {
        let record = &mut self.records[operation.index()];
        let Kind::Commit(_, told) = &mut record.kind else { panic!("{operation:?} is not a commit") };
        *told = ending;
        record.ended = at.max(record.began);
    }

    /// A load of the newest snapshot begins.
    pub fn begin_load(&mut self, process: ProcessId, at: Instant) -> OperationId {
        self.push(process, at, Kind::Load(None), 0, 0)
    }

    /// A load ends with a snapshot. `at` is when its version was known; items may have been looked up in it later. A load
    /// that failed is left open.
    ///
    /// # Panics
    /// If there is no such load in this history.
    pub fn end_load(
        &mut self,
        operation: OperationId,
        at: Instant,
        version: Version,
        seen: impl IntoIterator<Item = Seen>,
    ) {
        let first = self.seen.len();
        self.seen.extend(seen);
        let record = &mut self.records[operation.index()];
        assert!(matches!(record.kind, Kind::Load(_)), "{operation:?} is not a load");
        record.kind = Kind::Load(Some(version));
        record.ended = at.max(record.began);
        (record.first, record.count) = (narrow(first), narrow(self.seen.len() - first));
    }

    /// Adds what other threads or processes recorded on the same clock. No process may be in both.
    pub fn absorb(&mut self, other: &Self) {
        let (edits, seen) = (self.edits.len(), self.seen.len());
        self.records.extend(other.records.iter().map(|record| {
            let shift = if matches!(record.kind, Kind::Commit(..)) { edits } else { seen };
            Record { first: narrow(record.first as usize + shift), ..*record }
        }));
        self.edits.extend_from_slice(&other.edits);
        self.seen.extend_from_slice(&other.seen);
        narrow(self.records.len());
    }

    /// How many operations there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The operation of this name.
    ///
    /// # Panics
    /// If it is of another history.
    #[must_use]
    pub fn operation(&self, id: OperationId) -> Operation<'_> {
        self.view(id, &self.records[id.index()])
    }

    /// All operations, in the order in which they were added.
    pub fn operations(&self) -> impl ExactSizeIterator<Item = Operation<'_>> {
        self.records.iter().enumerate().map(|(index, record)| self.view(OperationId(index as u32), record))
    }

    fn view(&self, id: OperationId, record: &Record) -> Operation<'_> {
        let range = record.first as usize..record.first as usize + record.count as usize;
        let what = match record.kind {
            Kind::Commit(commit, ending) => What::Commit { commit, edits: &self.edits[range], ending },
            Kind::Load(version) => What::Load { version, seen: &self.seen[range] },
        };
        let ended = (record.ended != OPEN).then_some(record.ended);
        Operation { id, process: record.process, began: record.began, ended, what }
    }

    fn push(&mut self, process: ProcessId, began: Instant, kind: Kind, first: usize, count: usize) -> OperationId {
        let id = OperationId(narrow(self.records.len()));
        let (first, count) = (narrow(first), narrow(count));
        self.records.push(Record { began, ended: OPEN, kind, process, first, count });
        id
    }
}

/// Four billion records are more than one machine keeps.
fn narrow(number: usize) -> u32 {
    u32::try_from(number).expect("a history of fewer than 2^32 records")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Millions are kept at a time.
    #[test]
    fn records_are_small() {
        assert!(size_of::<Record>() <= 64, "{}", size_of::<Record>());
        assert!(size_of::<Edit>() <= 40, "{}", size_of::<Edit>());
    }
}
