//! The account of what became of each commit.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// What a client knows about a commit in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Done: it must be there, exactly once.
    Acknowledged,
    /// Certainly not done: it must not be there.
    Refused,
    /// It may be there, once.
    Unknown,
}

/// What a table is for, and so how it is verified.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// One client appends to it.
    Own,
    /// Many append to it and ask for rebases; one overwrites. Its snapshots have manifests.
    Hot,
    /// Several append to it, and conflict.
    Contended,
    /// Two tables that are changed together, `NAME_a` and `NAME_b`: ids of `b` are those of `a` and one more.
    Pair,
    /// Several add columns to it: an id is a column `cID`.
    Columns,
}

#[derive(Default)]
pub(crate) struct Book {
    /// Kind and name of each table, and the fates of what was sent to it.
    tables: RefCell<BTreeMap<(Kind, String), BTreeMap<i64, Fate>>>,
    counts: RefCell<BTreeMap<(Kind, &'static str), u64>>,
    acknowledged: Cell<u64>,
    problems: RefCell<Vec<String>>,
}

impl Book {
    pub(crate) fn note(&self, kind: Kind, table: &str, id: i64, fate: Fate) {
        self.tables.borrow_mut().entry((kind, table.to_owned())).or_default().insert(id, fate);
        let word = match fate {
            Fate::Acknowledged => {
                self.acknowledged.set(self.acknowledged.get() + 1);
                "acknowledged"
            }
            Fate::Refused => "refused",
            Fate::Unknown => "unknown",
        };
        *self.counts.borrow_mut().entry((kind, word)).or_default() += 1;
    }

    pub(crate) fn acknowledged(&self) -> u64 {
        self.acknowledged.get()
    }

    /// Acknowledged in this table.
    pub(crate) fn acknowledged_in(&self, kind: Kind, table: &str) -> usize {
        let tables = self.tables.borrow();
        let Some(fates) = tables.get(&(kind, table.to_owned())) else { return 0 };
        fates.values().filter(|fate| **fate == Fate::Acknowledged).count()
    }

    /// An answer that contradicts another, or that no server may give.
    pub(crate) fn wrong(&self, words: String) {
        let mut problems = self.problems.borrow_mut();
        if problems.len() < 100 {
            problems.push(words);
        }
    }

    pub(crate) fn problems(&self) -> Vec<String> {
        self.problems.borrow().clone()
    }

    pub(crate) fn tables(&self) -> BTreeMap<(Kind, String), BTreeMap<i64, Fate>> {
        self.tables.borrow().clone()
    }

    pub(crate) fn counts(&self) -> String {
        let counts = self.counts.borrow();
        let each = counts.iter().map(|((kind, word), count)| format!("{kind:?} {word} {count}").to_lowercase());
        each.collect::<Vec<_>>().join(", ")
    }
}
