use proptest::prelude::*;

use super::*;

/// The properties of an entry; refuses what its assertions refuse.
fn apply(entry: &mut BTreeMap<String, String>, actions: &[Action]) -> bool {
    for action in actions {
        if let Action::Assert { holds: Assertion::Property { key, value }, .. } = action
            && entry.get(key) != value.as_ref()
        {
            return false;
        }
    }
    for action in actions {
        if let Action::SetProperties { changes, .. } = action {
            for (key, value) in changes.clone() {
                match value {
                    Some(value) => drop(entry.insert(key, value)),
                    None => drop(entry.remove(&key)),
                }
            }
        }
    }
    true
}

fn name() -> Name {
    Name::of_parts(["t"]).unwrap()
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Span::from_millis(ms)
}

/// A process's own clock and the time of day.
fn both(ms: u64) -> (Instant, u64) {
    (at(ms), ms)
}

fn line(entry: &BTreeMap<String, String>) -> Line {
    Line::take(&mut entry.clone())
}

#[test]
fn who_joins_comes_before_who_does_not() {
    let (mut entry, mut one, mut other) =
        (BTreeMap::from([("a".to_owned(), "b".to_owned())]), Turn::default(), Turn::default());
    assert_eq!((one.lost(), one.lost()), (false, true));
    assert!(apply(&mut entry, &[one.join(&name(), 5, 1)]));
    assert!(!apply(&mut entry, &other.actions(&name())), "there is a line");
    assert_eq!(other.see(line(&entry), both(0), false), Next::JoinAndWait(LOOK));
    assert!(apply(&mut entry, &[other.join(&name(), 2, 2)]), "its clock is behind");
    assert_eq!(one.see(line(&entry), both(1), false), Next::Go);
    assert!(matches!(other.see(line(&entry), both(1), false), Next::Wait(_)));
    assert!(apply(&mut entry, &one.actions(&name())));
    assert_eq!(other.see(line(&entry), both(2), false), Next::Go);
    assert!(apply(&mut entry, &other.actions(&name())));
    assert_eq!(entry.len(), 1, "{entry:?}");
}

#[test]
fn who_must_not_wait_does_not() {
    let (mut entry, mut one, mut free) = (BTreeMap::new(), Turn::default(), Turn::default());
    assert!(apply(&mut entry, &[one.join(&name(), 5, 1)]));
    free.free = true;
    assert_eq!(free.see(line(&entry), both(0), false), Next::Go);
    assert!(free.actions(&name()).is_empty() && !free.lost() && !free.lost());
    assert_eq!(entry.len(), 2);
}

#[test]
fn the_dead_are_passed_over() {
    let (mut entry, mut dead, mut one) = (BTreeMap::new(), Turn::default(), Turn::default());
    assert!(apply(&mut entry, &[dead.join(&name(), 5, 1)]));
    assert!(matches!(one.see(line(&entry), both(0), false), Next::JoinAndWait(_)));
    assert!(apply(&mut entry, &[one.join(&name(), 5, 2)]));
    assert!(matches!(one.see(line(&entry), both(1999), false), Next::Wait(_)));
    assert!(matches!(one.see(line(&entry), both(2000), true), Next::Wait(_)));
    assert_eq!(one.see(line(&entry), both(2000), false), Next::Go);
    assert!(apply(&mut entry, &one.actions(&name())));
    assert!(!apply(&mut entry, &dead.actions(&name())), "it lives, and is not in the line");
    assert!(entry.is_empty(), "{entry:?}");
}

/// However many died while they waited: who comes then waits no longer than for two.
#[test]
fn many_dead_are_passed_over_together() {
    let mut entry = BTreeMap::new();
    for number in 0..99 {
        assert!(apply(&mut entry, &[Turn::default().join(&name(), 100, number)]));
    }
    let mut one = Turn::default();
    assert!(matches!(one.see(line(&entry), both(100), false), Next::JoinAndWait(_)));
    assert!(apply(&mut entry, &[one.join(&name(), 100, 100)]));
    // One behind it lives, and is not passed over.
    let mut later = Turn::default();
    assert!(matches!(later.see(line(&entry), both(100), false), Next::JoinAndWait(_)));
    assert!(apply(&mut entry, &[later.join(&name(), 100, 101)]));
    for ms in [1000, 2000, 2400] {
        assert!(matches!(one.see(line(&entry), both(100 + ms), false), Next::Wait(_)), "{ms}");
    }
    assert_eq!(one.see(line(&entry), both(2600), false), Next::Go);
    assert!(apply(&mut entry, &one.actions(&name())));
    assert_eq!(entry.len(), 2, "{entry:?}");
    assert_eq!(later.see(line(&entry), both(2600), false), Next::Go);
    assert!(apply(&mut entry, &later.actions(&name())) && entry.is_empty());
}

#[test]
fn the_long_dead_are_not_waited_for() {
    let (mut entry, mut one) = (BTreeMap::new(), Turn::default());
    assert!(apply(&mut entry, &[Turn::default().join(&name(), 5, 1)]));
    assert_eq!(one.see(line(&entry), (at(0), 5 + OLD_MS + 1), false), Next::Go);
    assert!(apply(&mut entry, &one.actions(&name())) && entry.is_empty());
}

/// While the line moves, nobody is passed over but the one that does not come.
#[test]
fn who_comes_in_time_is_not_passed_over() {
    let mut entry = BTreeMap::new();
    let mut others: Vec<Turn> = (0..4).map(|_| Turn::default()).collect();
    for (number, other) in (0..).zip(&mut others) {
        assert!(apply(&mut entry, &[other.join(&name(), 0, number)]));
    }
    let mut one = Turn::default();
    assert!(matches!(one.see(line(&entry), both(0), false), Next::JoinAndWait(_)));
    assert!(apply(&mut entry, &[one.join(&name(), 0, 9)]));
    // The first is dead; the next ones need 1.9 s each.
    assert!(matches!(one.see(line(&entry), both(2000), false), Next::Wait(_)));
    for (ms, other) in [2300, 4200, 6100].into_iter().zip(&mut others[1..]) {
        assert!(matches!(one.see(line(&entry), both(ms), false), Next::Wait(_)), "{ms}");
        assert!(apply(&mut entry, &other.actions(&name())), "{ms}: passed over");
    }
    assert_eq!(one.see(line(&entry), both(6200), false), Next::Go);
}

/// Each is first in both lines, or in none, whatever was there before.
#[test]
fn who_joins_several_lines_has_one_place_in_all() {
    let names = ["t", "u"].map(|text| Name::of_parts([text]).unwrap());
    let mut entries = [BTreeMap::new(), BTreeMap::new()];
    assert!(apply(&mut entries[0], &[Turn::default().join(&names[0], 100, 1)]));
    for (unix_ms, random) in [(8, 3), (7, 2)] {
        let mut turns = Turns::at(names.iter().map(|name| (name.clone(), false)));
        let lines = entries.iter().map(|entry| Some(line(entry)));
        assert!(matches!(turns.see(lines, both(0), true), Next::JoinAndWait(_)));
        let (_, joins) = turns.places(unix_ms, random);
        assert!(turns.places(9, 9).1.is_empty(), "who has a place stays there");
        for (entry, join) in entries.iter_mut().zip(joins) {
            assert!(apply(entry, &[join]));
        }
        let lines = entries.iter().map(|entry| Some(line(entry)));
        assert!(matches!(turns.see(lines, both(0), true), Next::Wait(_)));
    }
    let lines = entries.map(|entry| line(&entry).places.into_iter().rev().take(2).collect::<Vec<_>>());
    assert_eq!(lines[0], lines[1]);
}

#[test]
fn what_others_wrote_there_holds_nobody_up_for_ever() {
    let strange =
        [(LINE, "x"), ("glidepath.line.y", "z"), ("glidepath.line.z", "18446744073709551615"), ("glidepath.line.", "")];
    let mut entry: BTreeMap<_, _> = strange.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let mut one = Turn::default();
    for ms in (0..10_000).step_by(10) {
        let next = one.see(line(&entry), both(ms), false);
        if let Next::JoinAndWait(_) = next {
            assert!(apply(&mut entry, &[one.join(&name(), ms, ms)]));
        }
        if next == Next::Go {
            assert!(apply(&mut entry, &one.actions(&name())) && entry.is_empty(), "{entry:?}");
            return;
        }
    }
    panic!("it waits still: {one:?}");
}

proptest! {
    /// Processes that come, commit, die and sleep in any order: one that looks often enough gets its turn, and when all
    /// have ended, nothing is left.
    #[test]
    fn everybody_gets_a_turn(steps in proptest::collection::vec((0_usize..5, 0_u64..900, 0_u8..8), 1..120)) {
        let mut entry = BTreeMap::new();
        let mut all: Vec<Option<Turn>> = (0..5).map(|_| None).collect();
        let mut now = 0;
        for (number, (who, later, what)) in steps.into_iter().enumerate() {
            now += later;
            let turn = all[who].get_or_insert_with(Turn::default);
            match (what, turn.see(line(&entry), both(now), false)) {
                // It dies.
                (0, _) => all[who] = None,
                (1, Next::Go) if turn.lost() => prop_assert!(apply(&mut entry, &[turn.join(&name(), now, number as u64)])),
                (_, Next::Go) => {
                    prop_assert!(apply(&mut entry, &turn.actions(&name())));
                    all[who] = None;
                }
                (_, Next::JoinAndWait(_)) => prop_assert!(apply(&mut entry, &[turn.join(&name(), now, number as u64)])),
                (_, Next::Wait(_)) => {}
            }
        }
        let mut last = Turn::default();
        let began = now;
        while last.see(line(&entry), both(now), false) != Next::Go {
            now += 40;
            prop_assert!(now < began + 31_000);
        }
        prop_assert!(apply(&mut entry, &last.actions(&name())));
        while let Some(turn) = all.iter_mut().find_map(Option::take) {
            if let Some(actions) = turn.leave(&name()) {
                apply(&mut entry, &actions);
            }
        }
    }
}
