//! Can the checkers fail? Known ways to rebase wrongly, for tests to switch on. Without the feature `mutants`, none can
//! be.

/// A known mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The manifests that an append adds are not read: what its list says of them is believed.
    ManifestsUnread,
    /// A commit is rebased though it says that it is no append.
    OverwriteRebased,
    /// A commit that forbids it is rebased.
    DeclineIgnored,
    /// A commit that calls itself an append and leaves out manifests of its parent is rebased.
    LeftOutAllowed,
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
