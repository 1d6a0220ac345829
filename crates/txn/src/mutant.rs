//! Can the checkers fail? Known ways to get transactions wrong, for tests to switch on. Without the feature `mutants`,
//! none can be.

/// A known mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A transaction without a cell is taken for one that was aborted, and nothing is written.
    AbsenceTrusted,
    /// A put of unknown outcome is taken for one that happened.
    UnknownIsDone,
    /// The answers to a batch are given to the wrong tasks.
    AnswersShifted,
    /// Timestamps are given out before the bound is moved.
    BoundMovedAfter,
    /// A move of the bound of unknown outcome is taken for one that happened.
    MoveTakenForDone,
    /// An allocator does not look whether it is still the owner.
    OwnerNotConfirmed,
    /// A staged value that a plain read shows is taken for a final one.
    StagedTrusted,
    /// A map of tables is used for start timestamps beyond its bound.
    BoundIgnored,
    /// A restore leaves transactions without a cell as they are.
    OpenSpared,
    /// A restore looks at no transaction that started after the backup timestamp.
    BackupIsLast,
    /// A restore rewrites a value with the rank that any final value has.
    UndoOfNoRank,
}

#[cfg(feature = "mutants")]
mod switch {
    use std::cell::Cell;

    use super::Mutant;

    thread_local! {
        static MUTANT: Cell<Option<Mutant>> = const { Cell::new(None) };
    }

    /// Makes this mistake in this thread, until the guard is dropped.
    #[must_use]
    pub fn switch_on(mutant: Mutant) -> On {
        MUTANT.set(Some(mutant));
        On(())
    }

    /// While it lives, a mistake is made.
    #[derive(Debug)]
    pub struct On(());

    impl Drop for On {
        fn drop(&mut self) {
            MUTANT.set(None);
        }
    }

    pub(crate) fn is(mutant: Mutant) -> bool {
        MUTANT.get() == Some(mutant)
    }
}

#[cfg(feature = "mutants")]
pub(crate) use switch::is;
#[cfg(feature = "mutants")]
pub use switch::{On, switch_on};

#[cfg(not(feature = "mutants"))]
pub(crate) fn is(_: Mutant) -> bool {
    false
}
