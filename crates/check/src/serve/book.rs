//! What was every client told, and what did it do because of it?

use std::collections::{BTreeMap, BTreeSet};

use glidepath_model::{Instant, Span};
use uuid::Uuid;

use super::lance;
use super::snapshots::Intent;
use crate::run::Checked;

/// What a client knows of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Told {
    /// Not enough: it may have been done, or may still be.
    #[default]
    Open,
    /// It was done.
    Done,
    /// It was not done and never will be: the client deletes the files that it wrote for it.
    Refused,
}

/// One attempt to commit snapshots, each to a table.
#[derive(Clone, Debug, Default)]
pub(super) struct Attempt {
    /// The snapshots. A client keeps their numbers when it tries again.
    pub(super) snapshots: Vec<i64>,
    /// The head of the branch that the client saw, for each of them.
    pub(super) heads: Vec<Option<i64>>,
    /// The tables of the snapshots.
    pub(super) tables: Vec<Uuid>,
    /// Whether it had a key: then no delivery of it is answered without regard to another.
    pub(super) keyed: bool,
    /// The manifest lists and manifests that were written for this attempt.
    pub(super) files: Vec<String>,
    pub(super) told: Told,
}

/// A request that leaves a mark of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Marked {
    pub(super) told: Told,
    /// Whether it had a key, so that it is done at most once.
    pub(super) keyed: bool,
}

#[derive(Debug, Default)]
pub(super) struct Book {
    last: i64,
    pub(super) attempts: Vec<Attempt>,
    /// Changes of properties, and creations, by their mark.
    pub(super) marks: BTreeMap<String, Marked>,
    /// Snapshots that a client was told are in a table, in the order in which they were told.
    acknowledged: Vec<(Uuid, i64)>,
    /// By the manifest list of an attempt: the manifest that it removes. The next attempt may remove another, from
    /// another table.
    pub(super) removed: BTreeMap<String, String>,
    /// What the snapshots are that have looked at the version that they were prepared on.
    pub(super) looked: BTreeMap<i64, Intent>,
    /// By snapshot of a commit to two tables: the two, its own first, and the snapshot of the other.
    pairs: BTreeMap<i64, ([Uuid; 2], i64)>,
    /// Files that readers did not find, each with the location of its table.
    missed: Vec<(String, String)>,
    /// Tables with two names, each with a history of its own.
    aliased: BTreeSet<Uuid>,
    /// Properties of a namespace, each set once, that a client was told it has removed.
    removed_properties: BTreeSet<String>,
    pub(super) checked: Checked,
    pub(super) violation: Option<String>,
    /// What clients of Lance were told.
    pub(super) lance: lance::Versions,
    lines: Option<Vec<(Instant, String)>>,
}

impl Book {
    pub(super) fn new(keeps_lines: bool) -> Self {
        Self { last: 1000, lines: keeps_lines.then(Vec::new), ..Self::default() }
    }

    /// A number that was never used before.
    pub(super) fn fresh(&mut self) -> i64 {
        self.last += 1;
        self.last
    }

    pub(super) fn line(&mut self, at: Instant, client: u32, words: impl FnOnce() -> String) {
        self.checked.simulated = self.checked.simulated.max(at.since(Instant::ZERO));
        if let Some(lines) = &mut self.lines {
            lines.push((at, format!("client {client} {}", words())));
        }
    }

    pub(super) fn lines(&mut self) -> Vec<(Instant, String)> {
        self.lines.take().unwrap_or_default()
    }

    pub(super) fn violated(&mut self, words: String) {
        self.violation.get_or_insert(words);
    }

    /// An attempt begins. Returns its place.
    pub(super) fn attempt(&mut self, attempt: Attempt) -> usize {
        self.attempts.push(attempt);
        self.checked.attempts += 1;
        self.checked.open += 1;
        self.attempts.len() - 1
    }

    /// A snapshot is written for its next attempt: what it is, its manifest list, and the manifest that it removes.
    pub(super) fn writes(&mut self, snapshot: i64, intent: Intent, list: &str, removes: Option<String>) {
        if intent.has_looked() {
            self.looked.insert(snapshot, intent);
        }
        self.removed.extend(removes.map(|manifest| (list.to_owned(), manifest)));
    }

    /// These snapshots of two tables are about to be committed together.
    pub(super) fn pair(&mut self, snapshots: [i64; 2], tables: [Uuid; 2]) {
        self.pairs.insert(snapshots[0], (tables, snapshots[1]));
        self.pairs.insert(snapshots[1], ([tables[1], tables[0]], snapshots[0]));
    }

    /// A client saw these snapshots in the first of two tables, and loaded the second after it.
    pub(super) fn saw_two(&mut self, seen: &[i64], tables: (Uuid, Uuid), has: impl Fn(i64) -> bool) {
        if self.aliased.contains(&tables.0) || self.aliased.contains(&tables.1) {
            return;
        }
        let halves = seen.iter().filter_map(|snapshot| {
            let (of, other) = self.pairs.get(snapshot)?;
            (*of == [tables.0, tables.1] && !has(*other)).then_some((*snapshot, *other))
        });
        // Snapshots come in any order, and the same run has the same words.
        if let Some((seen, other)) = halves.min() {
            self.violated(format!(
                "a reader saw snapshot {seen}, and after it a table without {other} of the same commit"
            ));
        }
    }

    pub(super) fn told(&mut self, attempt: usize, told: Told, tables: &[Uuid]) {
        let Some(attempt) = self.attempts.get_mut(attempt) else { return };
        attempt.told = told;
        self.checked.open -= u64::from(told != Told::Open);
        if told == Told::Done {
            self.checked.committed += 1;
            let acknowledged: Vec<_> = tables.iter().copied().zip(attempt.snapshots.iter().copied()).collect();
            let (two, looked) =
                (attempt.snapshots.len() == 2, attempt.snapshots.iter().any(|one| self.looked.contains_key(one)));
            self.met_times("commits to two tables", two.into());
            self.met_times("overwrites", looked.into());
            self.acknowledged.extend(acknowledged);
        }
    }

    /// A situation occurred.
    pub(super) fn met(&mut self, situation: &'static str) {
        self.met_times(situation, 1);
    }

    fn met_times(&mut self, situation: &'static str, times: u64) {
        *self.checked.situations.entry(situation).or_default() += times;
    }

    /// A request with a mark begins.
    pub(super) fn marks(&mut self, mark: &str, keyed: bool) {
        self.marks.insert(mark.to_owned(), Marked { told: Told::Open, keyed });
    }

    /// A request with a mark has ended.
    pub(super) fn marked(&mut self, mark: &str, told: Told) {
        if let Some(marked) = self.marks.get_mut(mark) {
            marked.told = told;
        }
    }

    /// A client was told that these properties were there, and that it has removed them.
    pub(super) fn removed_properties(&mut self, properties: Vec<String>) {
        for property in properties {
            self.met("removals of a property");
            if !self.removed_properties.insert(property.clone()) {
                self.violated(format!(
                    "two clients were told that they removed the property {property} of a namespace"
                ));
            }
        }
    }

    pub(super) fn aliasing(&mut self, table: Uuid) {
        self.aliased.insert(table);
    }

    /// How many snapshots have been acknowledged so far.
    pub(super) fn acknowledged(&self) -> usize {
        self.acknowledged.len()
    }

    /// A client loaded this table, after so many snapshots had been acknowledged.
    pub(super) fn loaded(&mut self, table: Uuid, acknowledged: usize, has: impl Fn(i64) -> bool) {
        if self.aliased.contains(&table) {
            return;
        }
        let missing = self.acknowledged[..acknowledged].iter().find(|(of, snapshot)| *of == table && !has(*snapshot));
        if let Some((_, snapshot)) = missing {
            let words = format!("table {table} was loaded without snapshot {snapshot}, acknowledged before the load");
            self.violated(words);
        }
    }

    /// A reader did not find a file of a table that it had loaded.
    pub(super) fn miss(&mut self, table: &str, file: String) {
        self.missed.push((table.to_owned(), file));
    }

    /// Readers find the files of a table, unless it was to be purged.
    pub(super) fn missed(&self, purged: impl Fn(&str) -> bool) -> Result<(), String> {
        match self.missed.iter().find(|(table, _)| !purged(table)) {
            Some((table, file)) => Err(format!("a reader of {table}, which nobody purged, did not find {file}")),
            None => Ok(()),
        }
    }

    /// The longest simulated time so far.
    pub(super) fn reach(&mut self, at: Instant) {
        let now: Span = at.since(Instant::ZERO);
        self.checked.simulated = self.checked.simulated.max(now);
    }
}
