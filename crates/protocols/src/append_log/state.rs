//! What does the log say, up to one place in it? The deterministic fold of its records.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use glidepath_env::Cause;
use glidepath_model::{Changes, CommitId, Edit, Root, TableId, TableState, Version};

use super::record::{DecodeError, HEADER, Header, Record, VERSIONS};

/// How many of the last bytes of a segment a reader asks for again. No record is shorter than this.
pub(super) const OVERLAP: usize = 8;

/// A segment of the log, as long as it is the one that is written to.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: u64,
    /// The catalog at its beginning: what its checkpoint holds.
    pub(super) start: Arc<Root>,
    /// Whether its checkpoint is known to be there.
    pub(super) anchored: AtomicBool,
}

/// A catalog as the log has it up to one place.
///
/// Kept as the root at the beginning of the segment and what has changed since, so that a commit costs what a segment
/// holds and not what the catalog holds.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) segment: Arc<Segment>,
    /// Bytes of the segment that are folded into this.
    pub(super) end: u64,
    /// Records of the segment that are folded into this, void ones too.
    pub(super) records: u64,
    /// The last of those bytes: what proves that a segment is still the one that was read.
    pub(super) last_bytes: [u8; OVERLAP],
    pub(super) version: Version,
    pub(super) commit: CommitId,
    changed: BTreeMap<TableId, Option<TableState>>,
}

/// What became of a state by reading on.
pub(super) struct Folded {
    pub(super) state: State,
    /// Whether the commit that was looked for took effect; `None` if it is not there.
    pub(super) watched: Option<bool>,
}

impl State {
    /// The catalog at the beginning of a segment.
    pub(super) fn first(number: u64, start: Arc<Root>, anchored: bool) -> Self {
        let (version, commit) = (start.version, start.commit);
        let segment = Arc::new(Segment { number, start, anchored: AtomicBool::new(anchored) });
        let changed = BTreeMap::new();
        Self { segment, end: 0, records: 0, last_bytes: [0; OVERLAP], version, commit, changed }
    }

    /// How far in the log this is.
    pub(super) fn place(&self) -> (u64, u64) {
        (self.segment.number, self.end)
    }

    pub(super) fn table(&self, id: TableId) -> Option<&TableState> {
        match self.changed.get(&id) {
            Some(state) => state.as_ref(),
            None => self.segment.start.table(id),
        }
    }

    /// The whole catalog.
    pub(super) fn root(&self) -> Option<Root> {
        let mut tables = Vec::with_capacity(self.segment.start.table_count() + self.changed.len());
        let mut changed = self.changed.iter().peekable();
        let put = |tables: &mut Vec<_>, (id, state): (&TableId, &Option<TableState>)| {
            tables.extend(state.as_ref().map(|state| (*id, state.clone())));
        };
        for (id, state) in self.segment.start.tables() {
            while let Some(change) = changed.next_if(|(other, _)| *other < id) {
                put(&mut tables, change);
            }
            match changed.next_if(|(other, _)| *other == id) {
                Some(change) => put(&mut tables, change),
                None => tables.push((*id, state.clone())),
            }
        }
        changed.for_each(|change| put(&mut tables, change));
        Root::from_parts(self.version, self.commit, tables)
    }

    /// What to append here for an encoded record: the first of a segment brings the header.
    pub(super) fn with_header(&self, record: Vec<u8>) -> Vec<u8> {
        if self.end > 0 {
            return record;
        }
        [&Header::Segment.encode(self.segment.number)[..], &record].concat()
    }

    /// Applies changes by the one conflict rule; whether they fit. If not, nothing is changed.
    pub(super) fn apply(&mut self, changes: &Changes, commit: CommitId) -> bool {
        // A root of only the tables that are touched: the rule does not look at others.
        let touched = changes.edits().iter();
        let touched = touched.filter_map(|edit| Some((edit.table, self.table(edit.table)?.clone()))).collect();
        let Some(before) = Root::from_parts(self.version, self.commit, touched) else { return false };
        let Ok(after) = changes.apply(&before, commit) else { return false };
        for edit in changes.edits() {
            self.changed.insert(edit.table, after.table(edit.table).cloned());
        }
        (self.version, self.commit) = (after.version, after.commit);
        true
    }

    /// Whether these changes lead to versions that a checkpoint may hold. What it may not is not written.
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

    /// The state after what follows this one in its segment. A record whose changes do not fit where it stands is void;
    /// what stands behind a record that closes the segment does not count.
    pub(super) fn fold(&self, tail: &[u8], watched: Option<CommitId>) -> Result<Folded, DecodeError> {
        let mut state = self.clone();
        let (mut found, mut rest) = (None, tail);
        if self.end == 0 {
            rest = match Header::decode(tail, self.segment.number)? {
                // The header comes with the first record, in one append.
                (Header::Segment, []) => return Err(DecodeError::Truncated),
                (Header::Segment, rest) => rest,
                (Header::Emptied, _) => return Err(DecodeError::Content("it was emptied")),
            };
        }
        while !rest.is_empty() {
            let (record, behind) = Record::decode(rest)?;
            let applied = record.changes.is_some_and(|changes| state.apply(&changes, record.commit));
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

    /// Moves on behind bytes that stand in the segment.
    pub(super) fn reach(&mut self, bytes: &[u8]) {
        self.end += bytes.len() as u64;
        if let Some(last) = bytes.last_chunk() {
            self.last_bytes = *last;
        }
    }
}

// An emptied segment must be shorter than any place at which a writer or a reader could stand, other than its beginning.
const _: () = assert!(HEADER > 0 && OVERLAP < HEADER);

#[cfg(test)]
mod tests;
