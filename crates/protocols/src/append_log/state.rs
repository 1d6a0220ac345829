//! The catalog at one position in the log: the deterministic fold of its records.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use glidepath_env::Cause;
use glidepath_model::{
    Action, AtHand, Changes, CommitId, Edit, Entries, Entry, Name, Refusal, Root, TableId, TableState, Version, View,
};

use super::record::{DecodeError, HEADER, Header, Intent, Record, VERSIONS};
use crate::entry;

/// How many of the last known bytes of a segment a reader requests again. No record is shorter.
pub(super) const OVERLAP: usize = 8;

/// The segment that is being written to.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: u64,
    /// The catalog at its beginning: what its checkpoint holds.
    pub(super) start: Arc<Root>,
    /// Whether its checkpoint is known to exist.
    pub(super) anchored: AtomicBool,
}

/// The catalog at one position in the log.
///
/// Numbered tables are stored as the root at the beginning of the segment and the changes since, so that the cost of a
/// commit grows with the segment and not with the catalog. States share the other entries that are equal in them.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) segment: Arc<Segment>,
    /// Bytes of the segment folded into this state.
    pub(super) end: u64,
    /// Records of the segment folded into this state, including void ones.
    pub(super) records: u64,
    /// The last of those bytes: they prove that the segment still has the content read before.
    pub(super) last_bytes: [u8; OVERLAP],
    pub(super) version: Version,
    pub(super) commit: CommitId,
    /// Tables that are kept as numbers.
    changed: BTreeMap<TableId, Option<TableState>>,
    entries: Entries,
}

/// The result of folding more bytes onto a state.
pub(super) struct Folded {
    pub(super) state: State,
    /// Whether the commit searched for took effect; `None` if it is not there.
    pub(super) watched: Option<bool>,
}

impl State {
    /// The catalog at the beginning of a segment.
    pub(super) fn first(number: u64, start: Arc<Root>, anchored: bool) -> Self {
        let (version, commit) = (start.version, start.commit);
        let segment = Arc::new(Segment { number, start, anchored: AtomicBool::new(anchored) });
        let (changed, entries) = (BTreeMap::new(), segment.start.entries().clone());
        Self { segment, end: 0, records: 0, last_bytes: [0; OVERLAP], version, commit, changed, entries }
    }

    /// Its position in the log.
    pub(super) fn place(&self) -> (u64, u64) {
        (self.segment.number, self.end)
    }

    /// The state of a numbered table, however it is kept.
    pub(super) fn table(&self, id: TableId) -> Option<&TableState> {
        self.plain_table(id).or_else(|| self.entries.numbered(id))
    }

    fn plain_table(&self, id: TableId) -> Option<&TableState> {
        match self.changed.get(&id) {
            Some(state) => state.as_ref(),
            None => self.segment.start.plain_table(id),
        }
    }

    /// Tables that are kept as numbers, from this id on.
    fn tables_from(&self, first: TableId) -> impl Iterator<Item = (TableId, &TableState)> {
        let mut start = self.segment.start.tables_from(first).peekable();
        let mut changed = self.changed.range(first..).peekable();
        std::iter::from_fn(move || {
            loop {
                let Some((next, _)) = changed.peek() else { return start.next().map(|(id, state)| (*id, state)) };
                if let Some((id, state)) = start.next_if(|(id, _)| id < *next) {
                    return Some((*id, state));
                }
                let (id, state) = changed.next()?;
                start.next_if(|(other, _)| other == id);
                if let Some(state) = state {
                    return Some((*id, state));
                }
            }
        })
    }

    /// The whole catalog.
    pub(super) fn root(&self) -> Option<Root> {
        let tables = self.tables_from(TableId(0)).map(|(id, state)| (id, state.clone())).collect();
        Root::from_parts(self.version, self.commit, tables)?.with_entries(self.entries.clone())
    }

    /// The bytes to append for an encoded record: the first append to a segment includes the header.
    pub(super) fn with_header(&self, record: Vec<u8>) -> Vec<u8> {
        if self.end > 0 {
            return record;
        }
        [&Header::Segment.encode(self.segment.number)[..], &record].concat()
    }

    /// Applies changes by the conflict rule and returns whether they fit. If not, nothing is changed.
    pub(super) fn apply(&mut self, changes: &Changes, commit: CommitId) -> bool {
        let Ok(touched) = changes.touch_with(|id| self.table(id), |id| self.entries.has_other(id)) else {
            return false;
        };
        for (id, state) in touched.into_tables() {
            if self.entries.numbered(id).is_some() {
                self.entries.set_numbered(id, state);
            } else {
                self.changed.insert(id, state);
            }
        }
        (self.version, self.commit) = (self.version.next(), commit);
        true
    }

    /// Decides the actions of a record, existing or planned. Changes nothing.
    pub(super) fn decide(&self, actions: &[Action]) -> Result<View, Refusal> {
        View::decided(actions, self, |name, entry| entry::can_be_kept(entry::MOST_BYTES, name, entry))
    }

    /// Applies what was decided on this state.
    pub(super) fn take(&mut self, decided: &View, commit: CommitId) {
        for name in decided.gone().iter().flat_map(|namespace| self.entries.within(namespace)).collect::<Vec<_>>() {
            self.entries.set(name, None);
        }
        for (name, _, now) in decided.changes() {
            match (name.number(), now.and_then(Entry::plain)) {
                (Some(id), Some(state)) => {
                    self.entries.set(name.clone(), None);
                    self.changed.insert(id, Some(state.clone()));
                }
                (number, _) => {
                    if let Some(id) = number {
                        self.changed.insert(id, None);
                    }
                    self.entries.set(name.clone(), now.cloned());
                }
            }
        }
        (self.version, self.commit) = (self.version.next(), commit);
    }

    /// Applies a record, and returns whether it takes effect here. If not, nothing is changed.
    fn act(&mut self, intent: &Intent, commit: CommitId) -> bool {
        match intent {
            Intent::Changes(changes) => self.apply(changes, commit),
            Intent::Actions(actions) => self.decide(actions).map(|decided| self.take(&decided, commit)).is_ok(),
        }
    }

    /// Whether what was decided leads to versions that a checkpoint may hold. Otherwise it must not be written.
    pub(super) fn countable_now(decided: &View) -> Result<(), Cause> {
        let counted = |entry: &Entry| {
            entry.state.iter().all(|state| state.partitions.iter().chain([&state.version]).all(|at| at.0 < VERSIONS))
        };
        let mut now = decided.changes().filter_map(|(name, _, now)| Some((name, now?)));
        match now.find(|(_, entry)| !counted(entry)) {
            None => Ok(()),
            Some((name, _)) => {
                let words = format!("{name} is at the last version that a log can count, {}", VERSIONS - 1);
                Err(Cause::words(words))
            }
        }
    }

    /// Whether these changes lead to versions that a checkpoint may hold. Otherwise they must not be written.
    pub(super) fn countable(&self, changes: &Changes) -> Result<(), Cause> {
        for change in changes.edits() {
            let Edit::Advance(advance) = &change.edit else { continue };
            let seen = advance.partitions.iter().map(|(_, version)| *version);
            let last = seen.chain(self.table(change.table).map(|state| state.version)).max();
            if last.is_some_and(|last| last.0 >= VERSIONS - 1) {
                let words =
                    format!("table {} is at the last version that a log can count, {}", change.table.0, VERSIONS - 1);
                return Err(Cause::words(words));
            }
        }
        Ok(())
    }

    /// The state after the next bytes of its segment. A record whose changes do not fit the state before it is void;
    /// bytes after a record that closes the segment do not count.
    pub(super) fn fold(&self, tail: &[u8], watched: Option<CommitId>) -> Result<Folded, DecodeError> {
        let mut state = self.clone();
        let (mut found, mut rest) = (None, tail);
        if self.end == 0 {
            rest = match Header::decode(tail, self.segment.number)? {
                // The first append writes the header and a record together.
                (Header::Segment, []) => return Err(DecodeError::Truncated),
                (Header::Segment, rest) => rest,
                (Header::Emptied, _) => return Err(DecodeError::Content("it was emptied")),
            };
        }
        while !rest.is_empty() {
            let (record, behind) = Record::decode(rest)?;
            let applied = record.intent.is_some_and(|intent| state.act(&intent, record.commit));
            if watched == Some(record.commit) {
                found = Some(applied);
            }
            if record.closes {
                let state = state.next_segment()?;
                return Ok(Folded { state, watched: found });
            }
            state.records += 1;
            rest = behind;
        }
        state.reach(tail);
        Ok(Folded { state, watched: found })
    }

    /// The beginning of the next segment.
    pub(super) fn next_segment(&self) -> Result<Self, DecodeError> {
        let root = self.root().ok_or(DecodeError::Content("tables without partitions"))?;
        Ok(Self::first(self.segment.number + 1, Arc::new(root), false))
    }

    /// Moves the position to after these bytes of the segment.
    pub(super) fn reach(&mut self, bytes: &[u8]) {
        self.end += bytes.len() as u64;
        if let Some(last) = bytes.last_chunk() {
            self.last_bytes = *last;
        }
    }
}

impl AtHand for State {
    fn entry(&self, name: &Name) -> Option<Entry> {
        let plain = name.number().and_then(|id| self.plain_table(id));
        plain.map(|state| Entry::table(None, state.clone())).or_else(|| self.entries.get(name).cloned())
    }

    fn children(&self, namespace: Option<&Name>, after: Option<&Name>, limit: usize) -> Vec<(Name, Entry)> {
        self.entries.children(|first| self.tables_from(first), (namespace, after), limit)
    }
}

// An emptied segment must be shorter than any position of a writer or reader except the beginning.
const _: () = assert!(HEADER > 0 && OVERLAP < HEADER);

#[cfg(test)]
mod tests;
