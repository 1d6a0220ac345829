//! The history: what each process did, and which answers it got.
//!
//! Operations are added to a [`History`] as they begin and end. A record is a few dozen bytes in a flat list; what it
//! touched is in another list. Recording costs almost nothing compared with the operations themselves.

use std::fmt;

use glidepath_model::{CommitId, Instant, TableId, Version};

/// Something with a state of its own that commits change: a table, a namespace, a partition. Any numbering works in
/// which equal things have equal numbers.
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

/// The state of an item: the id that the last commit to it left there, or `None` if the item does not exist.
pub type State = Option<CommitId>;

/// The state that a commit needs an item to have when it takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Any state, or none.
    Anything,
    /// The item does not exist.
    Absent,
    /// It exists, in any state: a namespace in which something is created.
    Present,
    /// It is as this commit left it.
    Is(CommitId),
}

impl Expected {
    /// Exactly the state that was read.
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

/// The effect of a commit on an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Does not change it: the edit is only a condition.
    Keep,
    /// Leaves this id in it; no other operation writes the same id.
    Put(CommitId),
    /// Removes the item.
    Remove,
}

impl Effect {
    /// The state after this effect.
    #[must_use]
    pub fn after(self, before: State) -> State {
        match self {
            Self::Keep => before,
            Self::Put(commit) => Some(commit),
            Self::Remove => None,
        }
    }
}

/// The edit of one item in a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edit {
    /// The item. At most one edit of a commit names it.
    pub item: Item,
    /// The state it must have.
    pub expected: Expected,
    /// The effect on it.
    pub effect: Effect,
}

/// The state of one item in a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The item.
    pub item: Item,
    /// The state that was read.
    pub state: State,
}

/// The answer to a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Acknowledged.
    Committed(Reported),
    /// It is not in the catalog, and will not be.
    Conflict,
    /// It was refused before any effect.
    Refused,
    /// Unknown: it may have taken effect, or may still do so.
    Unknown,
    /// No answer: the process crashed, or had not finished when the recording ended.
    Open,
}

/// What an acknowledgement says about the position of the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reported {
    /// The commit made this version.
    At(Version),
    /// It is in this version, and may be older: what a snapshot returned with an acknowledgement says.
    By(Version),
    /// Nothing.
    Nothing,
}

/// A client that does one operation after another. In group commit, each writer is one, not the group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProcessId(pub u32);

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {}", self.0)
    }
}

/// Identifies an operation within one [`History`]: its index in the order of beginnings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(u32);

impl OperationId {
    /// The index in [`History::operations`].
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What processes did and which answers they got.
///
/// All instants are of one clock that no fault affects; a process's own clock is not suitable if clocks are skewed. It
/// is read before the first request is sent, and again after the last answer. Operations of one process are added in
/// the order in which it made them.
#[derive(Clone, Debug, Default)]
pub struct History {
    records: Vec<Record>,
    edits: Vec<Edit>,
    seen: Vec<Seen>,
    misled: Vec<Misled>,
}

/// A process was told that a catalog that is there and whole is missing or damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misled {
    /// Which one.
    pub process: ProcessId,
    /// When it was told.
    pub at: Instant,
    /// What it was told.
    pub words: String,
}

#[derive(Clone, Copy, Debug)]
struct Record {
    began: Instant,
    ended: Instant,
    kind: Kind,
    process: ProcessId,
    /// The position in `edits` or `seen` of what it touched, and how many entries that has.
    first: u32,
    count: u32,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Commit(CommitId, Ending),
    Load(Option<Version>),
    /// A load whose snapshot has no version: placed by what was read in it.
    Sight,
}

/// Represents an end that was not recorded.
const OPEN: Instant = Instant::from_nanos(u64::MAX);

/// An operation as recorded.
#[derive(Clone, Copy, Debug)]
pub struct Operation<'a> {
    /// Its id.
    pub id: OperationId,
    /// The process that made it.
    pub process: ProcessId,
    /// When it began.
    pub began: Instant,
    /// When it was answered; `None` if it never was.
    pub ended: Option<Instant>,
    /// What it did.
    pub what: What<'a>,
}

/// The two kinds of operations.
#[derive(Clone, Copy, Debug)]
pub enum What<'a> {
    /// An attempt to change the catalog with all edits or none.
    Commit {
        /// The commit id that is also in the chain.
        commit: CommitId,
        /// The intended edits.
        edits: &'a [Edit],
        /// The answer.
        ending: Ending,
    },
    /// A load of a snapshot without a version: what was read was current together at some moment of the load. No check
    /// but linearizability knows it: [`History::place`] makes a load with a version of it.
    Sight {
        /// Items that were read.
        seen: &'a [Seen],
    },
    /// A load of a snapshot.
    Load {
        /// The snapshot's version; `None` if the load failed or never ended. Such a load is not checked.
        version: Option<Version>,
        /// Items that were read in it.
        seen: &'a [Seen],
    },
}

/// A moment that can be compared with others. An operation is over before another begins if the rank of its end is
/// below the rank of the other's beginning.
///
/// An end at the same instant as another's beginning comes before it, so operations of a process without a pause
/// between them are in order. But an operation without duration is not before another one at the same instant.
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
    /// An empty history.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records the beginning of a commit. `commit` identifies this one attempt: it is recorded once, and is in the
    /// chain if the attempt took effect. If a protocol draws its commit ids itself, use any id that the writer chooses
    /// and the chain shows, such as that of a metadata object.
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

    /// Records the end of a commit. One that never ends is [`Ending::Open`].
    ///
    /// # Panics
    /// If there is no such commit in this history.
    pub fn end_commit(&mut self, operation: OperationId, at: Instant, ending: Ending) {
        let record = &mut self.records[operation.index()];
        let Kind::Commit(_, told) = &mut record.kind else { panic!("{operation:?} is not a commit") };
        *told = ending;
        record.ended = at.max(record.began);
    }

    /// Records the beginning of a load of the newest snapshot.
    pub fn begin_load(&mut self, process: ProcessId, at: Instant) -> OperationId {
        self.push(process, at, Kind::Load(None), 0, 0)
    }

    /// Records the end of a load. `at` is when its version was known; items may have been read in it later. A load that
    /// failed is left open.
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

    /// Records the end of a load whose snapshot has no version. `at` is when the last of these items had been read.
    ///
    /// # Panics
    /// If there is no such load in this history.
    pub fn end_sight(&mut self, operation: OperationId, at: Instant, seen: impl IntoIterator<Item = Seen>) {
        self.end_load(operation, at, Version(0), seen);
        self.records[operation.index()].kind = Kind::Sight;
    }

    /// Gives a load without a version the version of the chain that it shows.
    pub(crate) fn place_sight(&mut self, operation: OperationId, version: Version) {
        self.records[operation.index()].kind = Kind::Load(Some(version));
    }

    /// Records that a process was told that the catalog, which is there and whole, is missing or damaged.
    pub fn mislead(&mut self, process: ProcessId, at: Instant, words: String) {
        self.misled.push(Misled { process, at, words });
    }

    pub(crate) fn misled(&self) -> &[Misled] {
        &self.misled
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
        self.misled.extend_from_slice(&other.misled);
        narrow(self.records.len());
    }

    /// The number of operations.
    #[must_use]
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there are no operations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The operation with this id.
    ///
    /// # Panics
    /// If the id is of another history.
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
            Kind::Sight => What::Sight { seen: &self.seen[range] },
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

/// Four billion records are more than one machine can hold.
fn narrow(number: usize) -> u32 {
    u32::try_from(number).expect("a history of fewer than 2^32 records")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Millions are kept at a time, so records must be small.
    #[test]
    fn records_are_small() {
        assert!(size_of::<Record>() <= 64, "{}", size_of::<Record>());
        assert!(size_of::<Edit>() <= 40, "{}", size_of::<Edit>());
    }
}
