//! The search against brute force on small histories, many right and many wrong; then large ones.

use glidepath_model::{CommitId, Instant};
use proptest::prelude::*;

use super::*;
use crate::record::{Edit, Effect, ProcessId, Reported};

/// An operation on the only item.
#[derive(Clone, Copy, Debug)]
struct Small {
    began: u64,
    lasts: u64,
    expected: Expected,
    effect: Effect,
    settled: bool,
}

fn state() -> impl Strategy<Value = State> {
    prop_oneof![Just(None), (1_u64..4).prop_map(|id| Some(CommitId(id)))]
}

fn small() -> impl Strategy<Value = Small> {
    let expected = prop_oneof![
        6 => state().prop_map(Expected::seen),
        1 => Just(Expected::Anything),
        1 => Just(Expected::Present),
    ];
    let effect = prop_oneof![
        2 => Just(Effect::Keep),
        3 => (1_u64..4).prop_map(|id| Effect::Put(CommitId(id))),
        1 => Just(Effect::Remove),
    ];
    let fields = (0_u64..10, 0_u64..6, expected, effect, prop::bool::weighted(0.7));
    fields.prop_map(|(began, lasts, expected, effect, settled)| Small { began, lasts, expected, effect, settled })
}

fn history(operations: &[Small]) -> History {
    let mut history = History::new();
    for (number, this) in (0..).zip(operations) {
        let at = Instant::from_nanos;
        let edit = Edit { item: Item(0), expected: this.expected, effect: this.effect };
        let id = history.begin_commit(ProcessId(number), at(this.began), CommitId(u64::from(number)), [edit]);
        if this.settled {
            history.end_commit(id, at(this.began + this.lasts), Ending::Committed(Reported::Nothing));
        } else if this.lasts % 2 == 0 {
            history.end_commit(id, at(this.began + this.lasts), Ending::Unknown);
        }
    }
    history
}

fn before(first: &Small, second: &Small) -> bool {
    let ended = first.began + first.lasts;
    ended < second.began || (ended == second.began && first.lasts > 0)
}

/// Tries every order of every choice.
fn brute(operations: &[Small], done: u32, state: State) -> bool {
    let undone = |slot: &usize| done & (1 << slot) == 0;
    let all = || (0..operations.len()).filter(undone);
    if !all().any(|slot| operations[slot].settled) {
        return true;
    }
    all().any(|slot| {
        let this = &operations[slot];
        let waits = all().any(|other| operations[other].settled && before(&operations[other], this));
        !waits && this.expected.holds(state) && brute(operations, done | 1 << slot, this.effect.after(state))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_brute_force(operations in prop::collection::vec(small(), 0..8), start in state()) {
        let initial: Vec<Seen> = start.map(|_| Seen { item: Item(0), state: start }).into_iter().collect();
        let right = linearizable(&history(&operations), &initial).is_ok();
        prop_assert_eq!(right, brute(&operations, 0, start));
    }
}

/// Random numbers that are the same on every machine.
fn next(luck: &mut u64) -> u64 {
    *luck = luck.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *luck >> 33
}

/// The comparison is meaningless if nearly all histories are wrong, or nearly all right.
#[test]
fn brute_force_meets_right_and_wrong_histories() {
    let mut luck = 5;
    let mut right = 0;
    for _ in 0..5000 {
        let mut operations = Vec::new();
        for _ in 0..5 {
            let state = |number: u64| (number > 0).then_some(CommitId(number));
            let expected = Expected::seen(state(next(&mut luck) % 4));
            let effect = if next(&mut luck).is_multiple_of(3) {
                Effect::Keep
            } else {
                Effect::Put(CommitId(next(&mut luck) % 3 + 1))
            };
            let (began, lasts, settled) = (next(&mut luck) % 10, next(&mut luck) % 6, next(&mut luck) % 10 < 7);
            operations.push(Small { began, lasts, expected, effect, settled });
        }
        let found = linearizable(&history(&operations), &[]).is_ok();
        assert_eq!(found, brute(&operations, 0, None), "{operations:?}");
        right += u32::from(found);
    }
    assert!((100..4900).contains(&right), "{right} right of 5000");
}

/// One item, a chain of updates by overlapping writers, a third of which get no answer, and readers. Dropping and
/// creating the item brings the absent state back repeatedly.
fn long(operations: u64, seed: u64) -> (History, Vec<OperationId>) {
    let (mut history, mut luck) = (History::new(), seed);
    let (mut state, mut reads) = (None, Vec::new());
    for n in 0..operations {
        let effect_at = 100 + n * 10;
        let spread = |luck: &mut u64| next(luck) % 80;
        let began = Instant::from_nanos(effect_at - spread(&mut luck));
        let ended = Instant::from_nanos(effect_at + spread(&mut luck));
        let process = ProcessId(n as u32);
        if next(&mut luck).is_multiple_of(3) {
            let id = history.begin_load(process, began);
            history.end_load(id, ended, glidepath_model::Version(0), [Seen { item: Item(1), state }]);
            reads.push(id);
            continue;
        }
        let effect = if next(&mut luck).is_multiple_of(4) { Effect::Remove } else { Effect::Put(CommitId(n + 1)) };
        let edit = Edit { item: Item(1), expected: Expected::seen(state), effect };
        let id = history.begin_commit(process, began, CommitId(n + 1), [edit]);
        match next(&mut luck) % 6 {
            0 => history.end_commit(id, ended, Ending::Unknown),
            // Never took effect: the state stays.
            1 => {
                history.end_commit(id, ended, Ending::Unknown);
                continue;
            }
            _ => history.end_commit(id, ended, Ending::Committed(Reported::Nothing)),
        }
        state = effect.after(state);
    }
    (history, reads)
}

#[test]
fn long_histories_of_one_item_are_decided() {
    for seed in 0..200 {
        let (history, _) = long(2000, seed);
        assert_eq!(linearizable(&history, &[]), Ok(()), "seed {seed}");
    }
    assert_eq!(linearizable(&long(50_000, 99).0, &[]), Ok(()));
}

#[test]
fn a_stale_read_deep_in_a_long_history_is_found() {
    for seed in 0..20 {
        let (mut history, reads) = long(2000, seed);
        let stale = reads[reads.len() / 2];
        let ended = history.operation(stale).ended.unwrap_or_default();
        let mut old = None;
        for operation in history.operations().take(stale.index() / 2) {
            if let What::Commit {
                edits: [Edit { effect: Effect::Put(commit), .. }],
                ending: Ending::Committed(_),
                ..
            } = operation.what
            {
                old = Some(*commit);
            }
        }
        assert!(old.is_some());
        history.end_load(stale, ended, glidepath_model::Version(0), [Seen { item: Item(1), state: old }]);
        let violation = linearizable(&history, &[]).unwrap_err();
        assert!(
            matches!(violation.fault(), Fault::NotLinearizable { item: Item(1), operation, .. } if operation.operation == stale),
            "{violation}"
        );
    }
}

/// 24 creations and 24 drops of one item, all at the same time and of unknown outcome: too many orders to try.
#[test]
fn many_unknown_outcomes_are_decided() {
    let mut history = History::new();
    let at = Instant::from_nanos;
    for n in 0..24 {
        for (number, expected, effect) in
            [(n, Expected::Absent, Effect::Put(CommitId(n))), (n + 100, Expected::Is(CommitId(n)), Effect::Remove)]
        {
            let edit = Edit { item: Item(0), expected, effect };
            history.begin_commit(ProcessId(number as u32), at(0), CommitId(number), [edit]);
        }
    }
    let mut read = |from: u64, state: State| {
        let id = history.begin_load(ProcessId(1000), at(from));
        history.end_load(id, at(from + 5), glidepath_model::Version(0), [Seen { item: Item(0), state }]);
    };
    for (from, state) in [(10, None), (20, Some(CommitId(3))), (30, None), (40, Some(CommitId(20))), (50, None)] {
        read(from, state);
    }
    let right = history.clone();
    assert_eq!(linearizable(&right, &[]), Ok(()));
    let id = history.begin_load(ProcessId(1000), at(60));
    history.end_load(id, at(65), glidepath_model::Version(0), [Seen { item: Item(0), state: Some(CommitId(3)) }]);
    let violation = linearizable(&history, &[]).unwrap_err();
    assert!(matches!(violation.fault(), Fault::NotLinearizable { .. }), "{violation}");
}
