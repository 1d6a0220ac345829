//! Hand-written histories in which operations overlap in ways that random histories rarely do.

use glidepath_history::{
    Chain, Change, Edit, Effect, Ending, Expected, Fault, History, Item, Placement, ProcessId, Reported, State,
    Violation, check,
};
use glidepath_model::{CommitId, Instant, Version};

const X: Item = Item(1);

/// A commit to `X` from one instant to another, by a process of its own.
fn commit(history: &mut History, time: [u64; 2], expected: Expected, id: u64, ending: Ending) {
    let [began, ended] = time.map(Instant::from_nanos);
    let edit = Edit { item: X, expected, effect: Effect::Put(CommitId(id)) };
    let process = ProcessId(history.len() as u32);
    let operation = history.begin_commit(process, began, CommitId(id), [edit]);
    history.end_commit(operation, ended, ending);
}

fn load(history: &mut History, time: [u64; 2], version: u64) {
    let [began, ended] = time.map(Instant::from_nanos);
    let process = ProcessId(history.len() as u32);
    let operation = history.begin_load(process, began);
    history.end_load(operation, ended, Version(version), []);
}

/// Versions 1, 2, 3 and so on, each with one of these commits to `X`.
fn chain(ids: &[u64]) -> Chain {
    let mut chain = Chain::starting_at(Version(0), []);
    for (version, id) in (1..).zip(ids) {
        chain.begin_version(Version(version));
        let now: State = Some(CommitId(*id));
        chain.push(CommitId(*id), [Change { item: X, now }]);
    }
    chain
}

const DONE: Ending = Ending::Committed(Reported::Nothing);

fn conflicts(history: &History, chain: &Chain) -> Result<(), Violation> {
    Placement::new(history, chain)?.conflicts()
}

/// The second commit builds on the first, and is acknowledged long before it.
#[test]
fn a_conflict_must_not_be_blamed_on_what_was_over() {
    let mut history = History::new();
    commit(&mut history, [0, 100], Expected::Absent, 1, DONE);
    commit(&mut history, [20, 50], Expected::Is(CommitId(1)), 2, DONE);
    let both = chain(&[1, 2]);
    let mut during = history.clone();
    commit(&mut during, [40, 130], Expected::Is(CommitId(2)), 3, Ending::Conflict);
    assert_eq!(conflicts(&during, &both), Ok(()));
    commit(&mut history, [120, 130], Expected::Is(CommitId(2)), 3, Ending::Conflict);
    let violation = conflicts(&history, &both).unwrap_err();
    assert!(matches!(violation.fault(), Fault::BaselessConflict(_)), "{violation}");
}

/// The first commit of the chain began last; the commits after it took effect later still.
#[test]
fn a_conflict_must_not_be_blamed_on_what_had_not_begun() {
    let history = |ends: u64| {
        let mut history = History::new();
        commit(&mut history, [300, 400], Expected::Absent, 1, DONE);
        commit(&mut history, [100, 400], Expected::Is(CommitId(1)), 2, DONE);
        commit(&mut history, [150, ends], Expected::Absent, 3, Ending::Conflict);
        history
    };
    let both = chain(&[1, 2]);
    assert_eq!(conflicts(&history(301), &both), Ok(()));
    let violation = conflicts(&history(299), &both).unwrap_err();
    assert!(matches!(violation.fault(), Fault::BaselessConflict(_)), "{violation}");
}

#[test]
fn a_load_with_something_below_the_head_that_had_not_begun() {
    let history = |ends: u64| {
        let mut history = History::new();
        commit(&mut history, [300, 400], Expected::Absent, 1, DONE);
        commit(&mut history, [100, 400], Expected::Is(CommitId(1)), 2, DONE);
        load(&mut history, [150, ends], 2);
        history
    };
    let both = chain(&[1, 2]);
    assert_eq!(check(&history(301), &both), Ok(()));
    let violation = check(&history(299), &both).unwrap_err();
    assert!(matches!(violation.fault(), Fault::FromTheFuture { .. }), "{violation}");
}

/// The commit was never acknowledged, but a reader has seen it; no other reader may miss it from then on.
#[test]
fn what_one_reader_has_seen_no_later_one_may_miss() {
    let history = |begins: u64| {
        let mut history = History::new();
        commit(&mut history, [0, 10], Expected::Absent, 1, Ending::Unknown);
        load(&mut history, [20, 30], 1);
        load(&mut history, [begins, 50], 0);
        history
    };
    let one = chain(&[1]);
    assert_eq!(check(&history(29), &one), Ok(()));
    for begins in [30, 31] {
        let violation = check(&history(begins), &one).unwrap_err();
        assert!(matches!(violation.fault(), Fault::StaleLoad { .. }), "{violation}");
    }
}

/// Another item changes meanwhile, which is not a conflict.
#[test]
fn a_conflict_must_not_be_blamed_on_another_item() {
    let mut history = History::new();
    let other = Item(2);
    let edit = Edit { item: other, expected: Expected::Absent, effect: Effect::Put(CommitId(1)) };
    let operation = history.begin_commit(ProcessId(9), Instant::from_nanos(100), CommitId(1), [edit]);
    history.end_commit(operation, Instant::from_nanos(200), DONE);
    commit(&mut history, [100, 200], Expected::Absent, 2, Ending::Conflict);
    let mut chain = Chain::starting_at(Version(0), []);
    chain.begin_version(Version(1));
    chain.push(CommitId(1), [Change { item: other, now: Some(CommitId(1)) }]);
    let violation = conflicts(&history, &chain).unwrap_err();
    assert!(matches!(violation.fault(), Fault::BaselessConflict(_)), "{violation}");
}

/// Whatever else it was told was right.
#[test]
fn who_is_told_of_damage_where_there_is_none_is_misled() {
    let mut history = History::new();
    commit(&mut history, [0, 10], Expected::Absent, 1, DONE);
    assert_eq!(check(&history, &chain(&[1])), Ok(()));
    let mut other = History::new();
    other.mislead(ProcessId(7), Instant::from_nanos(5), "no catalog".to_owned());
    history.absorb(&other);
    let violation = check(&history, &chain(&[1])).unwrap_err();
    assert!(matches!(violation.fault(), Fault::Misled(misled) if misled.process == ProcessId(7)), "{violation}");
    assert!(violation.to_string().ends_with("whole: no catalog"), "{violation}");
}
