//! Can the checkers fail? Known ways to get a catalog server wrong, for tests to switch on. Without the feature
//! `mutants`, none can be.

/// A known mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// A commit whose outcome is unknown is answered with a conflict.
    UnknownIsConflict,
    /// The key of a request is not written.
    KeyForgotten,
    /// The key of a request stands for any request.
    KeyOfAny,
    /// A commit is of whatever table has its name.
    UuidIgnored,
    /// A commit over several tables commits one after the other.
    OneByOne,
    /// A commit over several tables takes the lead at one after the other, in any order.
    LedInAnyOrder,
    /// A table may be created where a purge runs.
    CreatedBesidePurge,
    /// A purge neither ends the claims of the deleted files nor marks their location.
    PurgeForgotten,
    /// A purge deletes the metadata file first, and so does not find the others again when it was cut off.
    PurgedBackwards,
    /// What claimed a folder commits on no conditions.
    ClaimNotAsserted,
    /// Who claims a folder does not see the claims of others in or around it.
    ClaimsUnseen,
    /// A table that moves does not note where.
    MoveNotNoted,
    /// A change of properties does not assert what the answer says of those that it removes.
    RemovalNotAsserted,
    /// A registration does not look whether another table has the files.
    RegisteredInUse,
    /// An append that is in the table already is answered with a conflict.
    LandedIsConflict,
    /// A branch is held for an overwrite that lost until it comes back.
    HeldForEver,
    /// A turn is waited for until the server that asked for it takes it.
    TurnForEver,
    /// A request with a key that is refused does not look whether another delivery of it is why.
    RefusalTrusted,
    /// The refusal of a request with a key is not noted.
    RefusalNotNoted,
    /// A version of a Lance table is created though the one before may not be at its place.
    LeftUnpublished,
    /// The newest version of a Lance table is the staged manifest, and no copy of it.
    StagedNotCopied,
    /// A staged manifest that is not there was never there.
    StagedIsTrusted,
    /// The copy of a version of unknown outcome is deleted.
    DoubtedCopyDeleted,
    /// A repeated request for a version of a Lance table is answered with a conflict.
    RepeatIsConflict,
    /// A Lance table is deregistered though its newest version may not be at its place.
    DeregisteredUnpublished,
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
