//! Can the checker fail? Known ways to get the protocol wrong, for its tests to switch on; elsewhere none is.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mutant {
    /// An append of unknown outcome is taken for one that did not happen.
    UnknownIsLost,
    /// It is sent again at the same place without reading back, and taken for lost when that one is.
    OffsetReused,
    /// After a lost append the record goes behind what others wrote, whether it still fits or not.
    NotRefitted,
    /// Vacuum removes segments instead of emptying them.
    SegmentsRemoved,
    /// A reader does not look whether the segment is still the one that it knows.
    OverlapIgnored,
    /// Segments are closed without looking for their checkpoints.
    NotAnchored,
    /// A reader is content with the segment it is in, closed or not.
    CloseIgnored,
}

#[cfg(not(test))]
pub(super) fn is(_: Mutant) -> bool {
    false
}

#[cfg(test)]
thread_local! {
    pub(super) static ACTIVE: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

#[cfg(test)]
pub(super) fn is(mutant: Mutant) -> bool {
    ACTIVE.get() == Some(mutant)
}
