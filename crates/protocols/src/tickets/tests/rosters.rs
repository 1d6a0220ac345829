//! Rosters: what a slot repeats, and how far; that none can be closed by names that are too many.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::tickets::object::{ROSTER_BYTES, Roster, name_bytes};
use crate::wire::Frame;

/// A handle of a new process that lets a slot repeat others up to so many bytes of names.
fn limited(world: &World, roster_bytes: usize) -> Tickets<World> {
    let shared_state = SharedState::new("").with_roster_bytes(roster_bytes);
    Tickets::new(world.clone(), world.clone(), Arc::new(shared_state))
}

fn with_namespace() -> World {
    let world = World::default();
    let catalog = begun(&world);
    assert!(matches!(ask(&catalog, vec![create("a", Entry::namespace())]).1, Some(Outcome::Committed(_))));
    world.counted();
    world
}

fn enroll(catalog: &Tickets<World>, names: &[Name]) {
    at_once(catalog.enroll(Some(&name("a")), names)).unwrap();
}

/// The slots of the roster of the namespace, oldest first.
fn slots(world: &World) -> Vec<Roster> {
    let keys = process(world).shared_state.keys.clone();
    let key = |number| keys.roster_slot(Some(&name("a")), number);
    let found = (1..).map_while(|number| at_once(world.get(&key(number))).ok());
    found.map(|object| Roster::decode(&object.payload.bytes).unwrap()).collect()
}

fn bytes(slot: &Roster) -> usize {
    slot.names.iter().map(name_bytes).sum()
}

fn is_whole(world: &World) {
    let report = at_once(PerName::fsck(&process(world), false)).unwrap();
    assert!(!report.is_damaged(), "{:?}", report.findings);
}

#[test]
fn a_roster_repeats_so_that_a_cold_reader_needs_few_slots() {
    let world = World::default();
    let catalog = begun(&world);
    assert!(matches!(ask(&catalog, vec![create("a", Entry::namespace())]).1, Some(Outcome::Committed(_))));
    let all: Vec<Name> = (0..37).map(|number| name(&format!("a/{number:02}"))).collect();
    for one in &all {
        at_once(catalog.enroll(Some(&name("a")), std::slice::from_ref(one))).unwrap();
    }
    world.counted();
    let cold = process(&world);
    assert_eq!(at_once(cold.roster(Some(&name("a")))).unwrap(), (37, Arc::new(all.iter().cloned().collect())));
    // 37 = 32 + 4 + 1, and one get that finds nothing.
    assert_eq!((world.counted().gets, Roster::usual_first(37), Roster::usual_first(36)), (4, 37, 33));
    at_once(cold.enroll(Some(&name("a")), &all)).unwrap();
    assert_eq!(world.counted().puts, 0);
}

/// One name at a time, far beyond what a slot may have: the slot that would have all of them has only some.
#[test]
fn a_roster_of_more_names_than_fit_into_a_slot_goes_on() {
    let world = with_namespace();
    let most = 64;
    let all: Vec<Name> = (0..600).map(|number| name(&format!("a/{number:03}"))).collect();
    let always_there = limited(&world, most);
    for (number, one) in all.iter().enumerate() {
        // One process has read all slots one by one, others only those that a cold reader needs.
        let catalog = if number % 3 == 0 { &limited(&world, most) } else { &always_there };
        enroll(catalog, std::slice::from_ref(one));
    }
    let slots = slots(&world);
    assert!(slots.iter().all(|slot| bytes(slot) <= most), "{slots:?}");
    assert_eq!(slots.len(), 600);
    // Ten names fit, so those of eight slots. What does not repeat more than that is as it always was.
    let shortened: Vec<_> = slots.iter().filter(|slot| slot.first != Roster::usual_first(slot.number)).collect();
    assert!(shortened.iter().all(|slot| slot.number % 16 == 0 && slot.width() == 8), "{shortened:?}");
    assert_eq!(shortened.len(), 600 / 16);
    world.counted();
    let cold = process(&world);
    assert_eq!(at_once(cold.roster(Some(&name("a")))).unwrap(), (600, Arc::new(all.into_iter().collect())));
    // 75 times eight slots, and one get that finds nothing.
    assert_eq!(world.counted().gets, 76);
    is_whole(&world);
}

/// As in a run of the program: 8 slots of 200 names of a thousand bytes are too much for one of them.
#[test]
fn a_slot_of_a_roster_is_small_enough_for_every_store() {
    let world = with_namespace();
    let catalog = process(&world);
    let all: Vec<Name> = (0..4000).map(|number| name(&format!("a/{number:01000}"))).collect();
    for some in all.chunks(200) {
        enroll(&catalog, some);
    }
    let slots = slots(&world);
    assert!(slots.iter().all(|slot| bytes(slot) <= ROSTER_BYTES));
    assert_eq!(slots.iter().map(Roster::width).collect::<Vec<_>>()[..9], [1, 2, 1, 4, 1, 2, 1, 4, 1]);
    let (end, names) = at_once(process(&world).roster(Some(&name("a")))).unwrap();
    assert_eq!((end, names.len()), (20, 4000));
}

/// A commit of so many names that they do not fit: its slot has them all, and repeats none.
#[test]
fn the_names_of_one_commit_are_in_one_slot() {
    let world = with_namespace();
    let catalog = limited(&world, 64);
    let all: Vec<Name> = (0..200).map(|number| name(&format!("a/{number:03}"))).collect();
    for some in [&all[..1], &all[1..2], &all[2..3], &all[3..]] {
        enroll(&catalog, some);
    }
    let slots = slots(&world);
    assert_eq!(
        slots.iter().map(|slot| (slot.first, slot.names.len())).collect::<Vec<_>>(),
        [(1, 1), (1, 2), (3, 1), (4, 197)]
    );
    assert_eq!(at_once(process(&world).roster(Some(&name("a")))).unwrap().1.len(), 200);
}

/// It would miss names: it takes the slots that this one does not repeat for repeated ones.
#[test]
fn a_program_from_before_stops_at_a_slot_that_is_shortened() {
    let before = Frame { known_flags: 0, ..object::ROSTER };
    for (first, stops) in [(1, false), (3, true), (4, true)] {
        let bytes = Roster { number: 4, first, floor: 0, names: vec![name("a/b")] }.encode();
        let opened = before.open(&bytes).map(|(flags, _)| flags);
        match stops {
            false => assert_eq!(opened, Ok(0)),
            true => assert!(opened.unwrap_err().to_string().contains("use a newer one")),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    /// Processes with different limits, one of them from before there was any; some forget what they have read.
    #[test]
    fn rosters_have_all_names_whoever_added_them(
        steps in prop::collection::vec((0_usize..4, 1_usize..6, 0_usize..30, any::<bool>()), 1..120),
    ) {
        let world = with_namespace();
        let limits = [0, 40, 200, usize::MAX];
        let mut processes = limits.map(|most| limited(&world, most));
        let mut all = BTreeSet::new();
        for (process, count, long, forgets) in steps {
            if forgets {
                processes[process] = limited(&world, limits[process]);
            }
            let number = all.len();
            let new: Vec<Name> =
                (number..number + count).map(|number| name(&format!("a/{number}{}", "x".repeat(long)))).collect();
            enroll(&processes[process], &new);
            all.extend(new);
            let cold = at_once(super::process(&world).roster(Some(&name("a")))).unwrap().1;
            prop_assert_eq!(&*cold, &all);
        }
        for slot in slots(&world) {
            prop_assert!(slot.first >= Roster::usual_first(slot.number));
        }
        for catalog in &processes {
            prop_assert_eq!(&*at_once(catalog.roster(Some(&name("a")))).unwrap().1, &all);
        }
        is_whole(&world);
    }
}

/// Processes that create views in one namespace, all at once, with limits that short runs reach.
#[test]
fn many_add_to_a_roster_of_many_small_slots_in_simulation() {
    const EACH: u32 = 40;
    let stores = vec![StoreModel::of(Profile::constant(Span::from_millis(10)))];
    let horizon = Instant::ZERO + Span::from_secs(3600);
    let mut simulation = Simulation::new(Setup { seed: 1, horizon, mode: Mode::EveryOperation, stores });
    let told = Rc::new(Cell::new((0, 0)));
    let process = |number: u32| {
        let told = Rc::clone(&told);
        move |env: SimEnv| async move {
            let settings = crate::registry::Settings { test_limits: Some(number), ..Default::default() };
            let shared_state = Arc::new(PerName::shared_state("", &settings));
            let catalog = PerName::open(env.clone(), env.store(StoreId(0)), shared_state);
            let at = Snapshot::default();
            let ask = async |actions: Vec<Action>| {
                let asked = catalog.attempt_group(&at, &[&actions]).await;
                matches!(asked, GroupAttempt::Decided { outcome: Some(Outcome::Committed(_)), .. })
            };
            if number == 0 {
                assert!(matches!(catalog.create(Vec::new()).await, Outcome::Committed(_)));
                assert!(ask(vec![create("a", Entry::namespace())]).await);
                env.sleep_until(Instant::ZERO + Span::from_secs(3000)).await;
                let listed = catalog.list(&at, Some(&name("a")), None, usize::MAX, |_, entry| Some(entry.kind)).await;
                let damaged = PerName::fsck(&catalog, false).await.unwrap().is_damaged();
                return told.set((listed.unwrap().len(), if damaged { 0 } else { told.get().1 }));
            }
            for view in 0..EACH {
                while !ask(vec![create(&format!("a/{number}-{view}"), Entry::view())]).await {}
            }
            told.set((0, told.get().1 + 1));
        }
    };
    let at = |number: u32| Instant::ZERO + Span::from_secs(5 * u64::from(number.min(1)));
    simulation.run((0..9).map(|number| (at(number), process(number))));
    assert_eq!(told.get(), (8 * EACH as usize, 8));
    let rosters = simulation.objects(StoreId(0)).into_iter().filter(|(key, _)| key.as_str().contains("rosters/na/"));
    let slots: Vec<Roster> = rosters.map(|(_, payload)| Roster::decode(&payload.bytes).unwrap()).collect();
    let shortened = slots.iter().filter(|slot| slot.first != Roster::usual_first(slot.number)).count();
    assert!(shortened > 20, "{shortened} of {}", slots.len());
}
