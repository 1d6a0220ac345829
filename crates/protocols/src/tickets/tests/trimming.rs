//! Names that stand for nothing are taken off rosters, and nothing else is.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// A handle of a new process that takes names off rosters from the first one on.
fn eager(world: &World, roster_bytes: usize) -> Tickets<World> {
    let shared_state = SharedState::new("").with_roster_bytes(roster_bytes).with_least_trimmed(1);
    Tickets::new(world.clone(), world.clone(), Arc::new(shared_state))
}

fn drop_table(name: &str) -> Action {
    Action::Drop { name: self::name(name), kind: Kind::Table, expected: None }
}

fn table(name: &str) -> Action {
    create(name, Entry::table(None, TableState::new(1)))
}

fn done(catalog: &Tickets<World>, actions: Vec<Action>) {
    assert!(matches!(ask(catalog, actions).1, Some(Outcome::Committed(_))));
}

/// A catalog with these tables in a namespace, of which the odd ones were dropped again.
fn half_dropped(count: usize) -> World {
    let world = World::default();
    let catalog = begun(&world);
    done(&catalog, vec![create("a", Entry::namespace())]);
    for number in 0..count {
        done(&catalog, vec![table(&format!("a/{number:03}"))]);
    }
    for number in (1..count).step_by(2) {
        done(&catalog, vec![drop_table(&format!("a/{number:03}"))]);
    }
    world.counted();
    world
}

fn listed(catalog: &Tickets<World>) -> BTreeSet<Name> {
    let namespace = name("a");
    let listed = catalog.listed(Some(&namespace), None, usize::MAX, |_, entry| Some(entry.kind));
    at_once(listed).unwrap().into_iter().map(|(name, _)| name).collect()
}

fn on_roster(catalog: &Tickets<World>) -> BTreeSet<Name> {
    (*at_once(catalog.roster(Some(&name("a")))).unwrap().1).clone()
}

fn trimmed(catalog: &Tickets<World>) -> u64 {
    at_once(catalog.trim(Some(&name("a")))).unwrap()
}

fn is_whole(world: &World) {
    let report = at_once(PerName::fsck(&process(world), false)).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}

#[test]
fn names_that_stand_for_nothing_are_taken_off() {
    let world = half_dropped(80);
    let (before, other) = (process(&world), process(&world));
    let there = listed(&before);
    assert_eq!((there.len(), on_roster(&before).len()), (40, 80));
    assert_eq!(trimmed(&other), 0, "they are too few to be worth it");
    assert_eq!(trimmed(&eager(&world, 200)), 40);
    // Who has read the roster before, and who has not.
    for catalog in [&before, &other, &process(&world), &eager(&world, 64)] {
        assert_eq!((listed(catalog), on_roster(catalog)), (there.clone(), there.clone()));
    }
    assert_eq!(trimmed(&eager(&world, 64)), 0, "there are none left");
    is_whole(&world);
    // A namespace that is empty can be dropped, with all of it.
    done(&before, vec![Action::DropAll { name: name("a") }]);
    is_whole(&world);
}

/// A cold reader reads nothing from before.
#[test]
fn what_was_taken_off_is_not_read_any_more() {
    let world = half_dropped(61);
    for number in (0..61).step_by(2) {
        done(&process(&world), vec![drop_table(&format!("a/{number:03}"))]);
    }
    assert_eq!(trimmed(&eager(&world, 200)), 61);
    for number in 0..5 {
        done(&process(&world), vec![table(&format!("a/new{number}"))]);
    }
    world.counted();
    let cold = process(&world);
    assert_eq!((at_once(cold.roster(Some(&name("a")))).unwrap().0, on_roster(&cold).len()), (67, 5));
    // 67 = 64 + 2 + 1, and two that find nothing: one for each of the two calls.
    assert_eq!(world.counted().gets, 3 + 2);
}

/// A vacuum of a large catalog does not read it all.
#[test]
fn few_names_are_read_where_most_stand_for_something() {
    let world = World::default();
    let catalog = begun(&world);
    done(&catalog, vec![create("a", Entry::namespace())]);
    for first in (0..3000).step_by(100) {
        done(&catalog, (first..first + 100).map(|number| create(&format!("a/{number:04}"), Entry::view())).collect());
    }
    world.counted();
    assert_eq!(trimmed(&eager(&world, 1 << 20)), 0);
    let counts = world.counted();
    assert!(counts.gets < 3 * 400, "{counts:?}");
    for first in (0..2000).step_by(100) {
        let gone =
            |number: i32| Action::Drop { name: name(&format!("a/{number:04}")), kind: Kind::View, expected: None };
        done(&catalog, (first..first + 100).map(gone).collect());
    }
    assert_eq!(trimmed(&eager(&world, 1 << 20)), 2000);
    assert_eq!(listed(&process(&world)).len(), 1000);
}

/// Whatever the process knows that creates it.
#[test]
fn a_name_that_was_taken_off_comes_back() {
    let world = half_dropped(8);
    let [ignorant, knows_roster, knows_names] = [(); 3].map(|()| process(&world));
    on_roster(&knows_roster);
    listed(&knows_names);
    assert_eq!(trimmed(&eager(&world, 200)), 4);
    for (catalog, number) in [(ignorant, 1), (knows_roster, 3), (knows_names, 5)] {
        let back = format!("a/{number:03}");
        done(&catalog, vec![table(&back)]);
        assert!(listed(&process(&world)).contains(&name(&back)));
    }
    is_whole(&world);
}

#[test]
fn what_was_dropped_and_taken_off_during_a_check_is_no_damage() {
    let world = half_dropped(8);
    let (check, gone) = (process(&world), name("a/000"));
    let before = at_once(check.look(&gone)).unwrap();
    done(&process(&world), vec![drop_table("a/000")]);
    assert_eq!(trimmed(&eager(&world, 200)), 5);
    assert_eq!(at_once(check.findings_of(&gone, &before)), Vec::new());
    // What is there, and is not on the roster, is damage all the same.
    let lost = name("a/lost");
    let slot = Slot { settled: Some(Entry::view()), commit: CommitId(1), ..commit::next(&lost, &Seen::default(), 1) };
    assert!(matches!(at_once(check.put_once(Sent::Slot(&slot))), put::Stood::Yes));
    let seen = at_once(check.look(&lost)).unwrap();
    let found = at_once(check.findings_of(&lost, &seen));
    assert_eq!(found.iter().map(|finding| finding.trouble).collect::<Vec<_>>(), ["unlisted"]);
}

/// Its name is on the roster, and it has put nothing else: as if it slept there.
#[test]
fn a_creation_that_has_only_put_its_name_on_the_roster_loses() {
    let world = half_dropped(8);
    let sleeper = process(&world);
    let b = name("a/b");
    let before = at_once(sleeper.look(&b)).unwrap();
    at_once(sleeper.enroll(Some(&name("a")), std::slice::from_ref(&b))).unwrap();
    assert_eq!(trimmed(&eager(&world, 200)), 5);
    let slot = Slot { settled: Some(Entry::view()), commit: CommitId(1), ..commit::next(&b, &before, 1) };
    assert!(matches!(at_once(sleeper.put_once(Sent::Slot(&slot))), put::Stood::Lost));
    assert!(!on_roster(&process(&world)).contains(&b));
}

/// Between steps 2 and 4: all are retired, and still on the roster.
#[test]
fn a_retired_name_that_somebody_reads_stays_retired() {
    let world = half_dropped(8);
    let (one, gone) = (process(&world), name("a/001"));
    let end = at_once(one.roster(Some(&name("a")))).unwrap().0;
    assert!(at_once(one.retire(&gone)).unwrap());
    let absent = Action::Assert { name: gone.clone(), holds: Assertion::Absent };
    done(&process(&world), vec![absent, create("other", Entry::view())]);
    let seen = at_once(one.look(&gone)).unwrap();
    assert!(seen.is_retired() && seen.slot.is_some_and(|slot| slot.intent.is_some()), "it was held");
    done(&process(&world), vec![table("a/001")]);
    // The trim that retired it goes on.
    let rest = (0..8).step_by(2).map(|number| name(&format!("a/{number:03}"))).collect();
    at_once(one.enroll_anew(Some(&name("a")), rest, end)).unwrap();
    assert!(listed(&process(&world)).contains(&gone));
    is_whole(&world);
}

/// A thread that has read the roster, and is overtaken by others of its process before it makes the next slot.
#[test]
fn a_slot_that_is_late_is_made_and_lost() {
    let world = half_dropped(8);
    let catalog = eager(&world, 200);
    assert_eq!((trimmed(&catalog), on_roster(&catalog).len()), (4, 4));
    let (shared_state, a) = (&catalog.shared_state, name("a"));
    let (end, floor) = (shared_state.roster_end(Some(&a)), shared_state.roster_floor(Some(&a)));
    assert!(end > floor && floor > 1, "{end} {floor}");
    for number in 1..=end + 1 {
        let slot = shared_state.next_on_roster(Some(&a), number, vec![name("a/late")]);
        assert_eq!(object::Roster::decode(&slot.encode()), Ok(slot));
    }
}

#[test]
fn a_program_from_before_stops_at_what_is_retired() {
    let before = [
        crate::wire::Frame { known_flags: 0, ..object::SLOT },
        crate::wire::Frame { known_flags: 1, ..object::ROSTER },
    ];
    let slot = commit::next(&name("b"), &Seen::default(), 1);
    let roster = object::Roster { number: 4, first: 3, floor: 1, names: Vec::new() };
    for (frame, bytes) in before.iter().zip([Slot { retired: true, ..slot }.encode(), roster.encode()]) {
        assert!(frame.open(&bytes).unwrap_err().to_string().contains("use a newer one"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Processes that create, drop, trim and forget what they have read.
    #[test]
    fn listings_have_what_is_there(
        steps in prop::collection::vec((0_usize..4, 0_u8..8, 0_usize..12), 1..150),
    ) {
        let world = World::default();
        done(&begun(&world), vec![create("a", Entry::namespace())]);
        let limits = [8, 40, 200, usize::MAX];
        let mut processes = limits.map(|most| eager(&world, most));
        let mut there = BTreeSet::new();
        for (process, what, number) in steps {
            let (catalog, text) = (&processes[process], format!("a/{number}"));
            let present = there.contains(&name(&text));
            match what {
                0 => processes[process] = eager(&world, limits[process]),
                1 => drop(trimmed(catalog)),
                2 => drop(at_once(PerName::vacuum(catalog, Keep::LEAST)).unwrap()),
                3..=5 if !present => {
                    done(catalog, vec![table(&text)]);
                    there.insert(name(&text));
                }
                _ if present => {
                    done(catalog, vec![drop_table(&text)]);
                    there.remove(&name(&text));
                }
                _ => {}
            }
            prop_assert_eq!(&listed(&super::process(&world)), &there);
        }
        for catalog in &processes {
            prop_assert_eq!(&listed(catalog), &there);
        }
        is_whole(&world);
    }
}
