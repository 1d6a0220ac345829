//! Can the checkers fail? Known ways to get a protocol wrong, for tests to switch on. Without the feature `mutants`, and
//! outside this crate's own tests, none can be.

use std::borrow::Cow;

use glidepath_model::{Action, Assertion, Entry, Name};

/// A known mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// All protocols: a write of unknown outcome is taken for one that did not happen.
    UnknownIsLost,
    /// All protocols: readers that share loads are answered by a load that began before they asked.
    LateReadersServed,
    /// All protocols: a write that was turned away is taken for one that did not happen, whatever may have repeated it.
    RefusedIsProof,
    /// Manifest chain: packs are deleted when it is not known whether a version refers to them.
    PacksDeleted,
    /// Manifest chain: actions are decided on the base, and committed on top of what has become of it since.
    DecidedBefore,
    /// Manifest chain and catalog file: a put that was lost is taken for one that another writer beat, whatever may have repeated
    /// it.
    LostIsProof,
    /// Manifest chain: vacuum gives up one version more than it may.
    VersionTooFar,
    /// Manifest chain: vacuum looks at numbers of versions only, not at their age.
    AgeIgnored,
    /// Manifest chain: vacuum deletes older versions whose pages are still needed.
    NeededDeleted,
    /// Manifest chain: the number of entries does not fall.
    CountNeverFalls,
    /// Manifest chain: new entries are not in the index by type.
    KindNotIndexed,
    /// Manifest chain: new entries are not in the index by base object.
    BaseNotIndexed,
    /// Manifest chain: indices keep what is dropped.
    IndexNotCleaned,
    /// Manifest chain: a renamed table has no properties.
    RenameLosesProperties,
    /// Manifest chain: what is dropped with its namespace is only what is directly in it.
    GrandchildrenStay,
    /// All protocols: a property that is to be removed stays.
    UnsetIgnored,
    /// All protocols: a table is dropped at whatever version it is.
    ExpectedIgnored,
    /// Manifest chain: every namespace that is to be dropped is taken for an empty one.
    EmptinessIgnored,
    /// Manifest chain: the version that is told is the one before.
    OldVersionTold,
    /// Manifest chain: who put a version on an old base does not look whether it is still kept.
    NotRechecked,
    /// Manifest chain: where the versions that a listing named are gone, there is taken to be no catalog.
    VanishedIsNone,
    /// Manifest chain: where a listing names no version, there is taken to be no catalog.
    ListingTrusted,
    /// All protocols: of the partitions of an advance all but the last are written.
    PartitionForgotten,
    /// All protocols: what is asserted is not looked at.
    AssertionIgnored,
    /// All protocols: a metadata pointer is compared, and does not move.
    PointerStays,
    /// Append log: vacuum empties one segment more than it may.
    SegmentTooFar,
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
    /// Registry: a label that was lost to another writer's is taken for ours.
    LabelLostIsOurs,
    /// Registry: a label of unknown outcome is taken for ours.
    LabelUnknownIsOurs,
    /// Registry: a label is put over another one.
    LabelOverwritten,
    /// Groups: answers go to the requests of a batch in the wrong order.
    GroupAnswersSwapped,
    /// Groups: of a version of unknown outcome it is said that it was not done.
    GroupUnknownIsNotDone,
    /// Groups: what a version refuses that may be an old one is told as refused.
    GroupRefusesStale,
}

/// The actions as a mistake has them.
pub(crate) fn actions(actions: &[Action]) -> Cow<'_, [Action]> {
    let deciding = [
        Mutant::UnsetIgnored,
        Mutant::ExpectedIgnored,
        Mutant::PartitionForgotten,
        Mutant::AssertionIgnored,
        Mutant::PointerStays,
    ];
    if !deciding.into_iter().any(is) {
        return Cow::Borrowed(actions);
    }
    let mut wrong = actions.to_vec();
    if is(Mutant::AssertionIgnored) {
        wrong.retain(|action| !matches!(action, Action::Assert { .. }));
    }
    for action in &mut wrong {
        match action {
            Action::SetProperties { changes, .. } if is(Mutant::UnsetIgnored) => {
                changes.retain(|_, value| value.is_some());
            }
            Action::Drop { expected, .. } if is(Mutant::ExpectedIgnored) => *expected = None,
            Action::Advance { advance, .. } if is(Mutant::PartitionForgotten) && advance.partitions.len() > 1 => {
                let _ = advance.partitions.pop();
            }
            Action::SetPointer { name, expected, .. } if is(Mutant::PointerStays) => {
                *action = Action::Assert { name: name.clone(), holds: Assertion::Pointer(expected.clone()) };
            }
            _ => {}
        }
    }
    Cow::Owned(wrong)
}

/// What a name stands for after these groups of actions, as a mistake has it.
pub(crate) fn entry<'a>(groups: &[&[Action]], name: &Name, now: Option<&'a Entry>) -> Option<Cow<'a, Entry>> {
    let mut now = now.map(Cow::Borrowed);
    let renamed = |action: &Action| matches!(action, Action::Rename { to, .. } if to == name);
    if is(Mutant::RenameLosesProperties)
        && groups.iter().any(|actions| actions.iter().any(renamed))
        && let Some(entry) = &mut now
    {
        entry.to_mut().properties.clear();
    }
    now
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
