//! Can the checkers fail? Known ways to get a protocol wrong, for tests to switch on. Without the feature `mutants`, and
//! outside this crate's own tests, none can be.

/// A known mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// All protocols: a write of unknown outcome is taken for one that did not happen.
    UnknownIsLost,
    /// All protocols: a write that was turned away is taken for one that did not happen, whatever may have repeated it.
    RefusedIsProof,
    /// Manifest chain: packs are deleted when it is not known whether a version refers to them.
    PacksDeleted,
    /// Manifest chain: actions are decided on the base, and committed on top of what has become of it since.
    DecidedBefore,
    /// Append log: an append of unknown outcome is sent again at the same place without reading back, and taken for lost
    /// when that one is.
    OffsetReused,
    /// Append log: after a lost append the record goes behind what others wrote, whether it still fits or not.
    NotRefitted,
    /// Append log: vacuum removes segments instead of emptying them.
    SegmentsRemoved,
    /// Append log: a reader does not look whether the segment is still the one that it knows.
    OverlapIgnored,
    /// Append log: segments are closed without looking for their checkpoints.
    NotAnchored,
    /// Append log: a reader is content with the segment it is in, closed or not.
    CloseIgnored,
    /// Append log: an append of a group is as large as it comes, whatever readers take.
    BatchUnlimited,
    /// Groups: answers go to the requests of a batch in the wrong order.
    GroupAnswersSwapped,
    /// Groups: of a version of unknown outcome it is said that it was not done.
    GroupUnknownIsNotDone,
    /// Groups: what a version refuses that may be an old one is told as refused.
    GroupRefusesStale,
}

#[cfg(not(any(test, feature = "mutants")))]
pub(crate) fn is(_: Mutant) -> bool {
    false
}

#[cfg(any(test, feature = "mutants"))]
thread_local! {
    static ACTIVE: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

#[cfg(any(test, feature = "mutants"))]
pub(crate) fn is(mutant: Mutant) -> bool {
    ACTIVE.get() == Some(mutant)
}

/// Runs something with a mistake, in this thread.
#[cfg(any(test, feature = "mutants"))]
pub fn with<T>(mutant: Mutant, run: impl FnOnce() -> T) -> T {
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            ACTIVE.set(None);
        }
    }
    let _reset = Reset;
    ACTIVE.set(Some(mutant));
    run()
}
