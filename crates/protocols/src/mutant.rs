//! Known defects of protocols that tests can switch on, to show that the checkers detect them. They exist only with the
//! feature `mutants` and in this crate's own tests.

use std::borrow::Cow;

use glidepath_model::{Action, Assertion, Entry, Name, Version};

use crate::upkeep::Report;

/// A known defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// All protocols: a write of unknown outcome counts as not done.
    UnknownIsLost,
    /// All protocols: readers that share loads are answered by a load that began before they asked.
    LateReadersServed,
    /// All protocols: a refused write counts as not done, even if something may have repeated it.
    RefusedIsProof,
    /// Manifest chain: packs are deleted when it is not known whether a version refers to them.
    PacksDeleted,
    /// Manifest chain: actions are decided on the base, and committed on top of a newer version.
    DecidedBefore,
    /// All protocols: a checksum that does not match its content is no error.
    ChecksumIgnored,
    /// Manifest chain and tickets: what is whole is taken for what was written there.
    ReplacedTaken,
    /// All protocols: a check finds nothing.
    CheckBlind,
    /// All protocols of several objects: a key that resembles one of ours counts as ours.
    SimilarIsOurs,
    /// Manifest chain: the first key of a listing decides, whoever's it is.
    FirstListedTaken,
    /// Append log and manifest chain: who asks for an old version gets the one after it.
    NextVersionRead,
    /// Append log: what was removed does not count as changed.
    RemovalsUntold,
    /// Manifest chain and catalog file: a lost put counts as beaten by another writer, even if something may have
    /// repeated it.
    LostIsProof,
    /// Catalog file: a store that does not answer is told as damage.
    FailureIsDamage,
    /// Manifest chain: vacuum removes one version more than it may.
    VersionTooFar,
    /// Manifest chain: vacuum considers only the numbers of versions, not their age.
    AgeIgnored,
    /// Manifest chain: vacuum believes the clocks of the writers and its own, and does not ask the store's.
    StoreClockIgnored,
    /// Manifest chain: vacuum does not look whether the newest version can be read.
    NewestUnread,
    /// Manifest chain: vacuum deletes older versions whose pages are still needed.
    NeededDeleted,
    /// Manifest chain: the number of entries never decreases.
    CountNeverFalls,
    /// Manifest chain: new entries are not in the index by type.
    KindNotIndexed,
    /// Manifest chain: new entries are not in the index by base object.
    BaseNotIndexed,
    /// Manifest chain: indices keep dropped entries.
    IndexNotCleaned,
    /// Manifest chain: a renamed table has no properties.
    RenameLosesProperties,
    /// Manifest chain: dropping a namespace drops only what is directly in it.
    GrandchildrenStay,
    /// All protocols: a property to be removed stays.
    UnsetIgnored,
    /// All protocols: a table is dropped whatever its version.
    ExpectedIgnored,
    /// Manifest chain: every namespace to be dropped counts as empty.
    EmptinessIgnored,
    /// Manifest chain: the version reported is the one before.
    OldVersionTold,
    /// Manifest chain: a writer that put a version on an old base does not check whether it is still kept.
    NotRechecked,
    /// Manifest chain: if the listed versions are missing, there is taken to be no catalog.
    VanishedIsNone,
    /// Manifest chain: if a listing names no version, there is taken to be no catalog.
    ListingTrusted,
    /// All protocols: an advance writes all of its partitions but the last.
    PartitionForgotten,
    /// All protocols: assertions are ignored.
    AssertionIgnored,
    /// All protocols: a metadata pointer is compared, and does not move.
    PointerStays,
    /// Append log: vacuum empties one segment more than it may.
    SegmentTooFar,
    /// Append log: an append of unknown outcome is repeated at the same offset without reading back, and counts as lost
    /// if the repeat is.
    OffsetReused,
    /// Append log: after a lost append, the record is appended again whether it still fits or not.
    NotRefitted,
    /// Append log: vacuum removes segments instead of emptying them.
    SegmentsRemoved,
    /// Append log: a reader does not check whether the segment still has the content read before.
    OverlapIgnored,
    /// Append log: segments are closed without checking for their checkpoints.
    NotAnchored,
    /// Append log: a reader does not continue after the end of a closed segment.
    CloseIgnored,
    /// Append log: an append of a group may exceed what readers accept.
    BatchUnlimited,
    /// Tickets: names that are read together are not looked at again.
    OneLook,
    /// Tickets: a listing takes any slots that names got between its two looks.
    AnySlots,
    /// Tickets: a search lists one namespace after another.
    SearchInParts,
    /// Tickets: an undecided transaction is taken for an aborted one, without a record.
    AbsenceIsAbort,
    /// Tickets: a record that could not be put counts as aborted without being read.
    AbortUnread,
    /// Tickets: a record replaces one that is there.
    RecordOverwritten,
    /// Tickets: what a transaction needs is looked at before its intents stand.
    NeedsBeforeIntents,
    /// Tickets: names that were read and are not written are not held.
    ReadsNotHeld,
    /// Tickets: the namespace of a name that came and went in one commit is not held.
    PassedNotHeld,
    /// Tickets: an intent of unknown outcome counts as one that stands.
    IntentAssumed,
    /// Tickets: names are put onto the roster after their commit.
    RosterAfterIntents,
    /// Tickets: a slot of a roster that repeats less than usual does not say so.
    RosterCutUntold,
    /// Tickets: who creates a retired name does not add it to the roster again.
    RetiredIgnored,
    /// Tickets: a name that was read is retired no more.
    RetiredForgotten,
    /// Tickets: names are taken off a roster without being retired.
    TrimmedUnretired,
    /// Tickets: names are retired before the end of the roster is read, up to which they are taken off.
    TrimmedTooFar,
    /// Tickets: a slot that a vacuum has emptied counts as another writer's.
    EmptiedIsLost,
    /// Tickets: vacuum empties the newest slot, too.
    NewestEmptied,
    /// Tickets: vacuum deletes slots instead of emptying them.
    SlotsDeleted,
    /// Registry: a label lost to another writer's counts as ours.
    LabelLostIsOurs,
    /// Registry: a label of unknown outcome counts as ours.
    LabelUnknownIsOurs,
    /// Registry: a label overwrites another one.
    LabelOverwritten,
    /// Groups: the answers of a batch go to the wrong requests.
    GroupAnswersSwapped,
    /// Groups: a version of unknown outcome is reported as not done.
    GroupUnknownIsNotDone,
    /// Groups: refusals by a version that may be old are reported.
    GroupRefusesStale,
}

/// The actions, changed by a defect.
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

/// The result of a check, changed by a defect.
pub(crate) fn report(report: Report) -> Report {
    if is(Mutant::CheckBlind) { Report { findings: Vec::new(), more_findings: 0, ..report } } else { report }
}

/// The number of the version that is read for this one.
pub(crate) fn version_read(version: Version) -> Version {
    if is(Mutant::NextVersionRead) { version.next() } else { version }
}

/// What a name stands for after these groups of actions, changed by a defect.
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

/// Runs a function with a defect, in this thread.
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
