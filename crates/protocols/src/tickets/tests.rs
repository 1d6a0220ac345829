//! What commits cost, what isolates them, and rows of the fault table that need a certain order of events.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use glidepath_env::{Denial, Key};
use glidepath_model::{Advance, Edit, Instant, MetadataId, PartitionId, Refusal, Span, TableState};
use glidepath_sim::{Mode, Profile, Setup, SimEnv, Simulation, StoreId, StoreModel};
use smallvec::smallvec;

use super::object::{Held, Intent, Record, Slot, TxnId};
use super::put::Sent;
use super::*;
use crate::group::Verdict;
use crate::registry::Design;
use crate::tests::counted::{World, at_once};
use crate::upkeep::Keep;

mod late;
mod objects;
mod rosters;
mod trimming;

const A: TableId = TableId(0);
const B: TableId = TableId(1);

/// A handle of a new process.
fn process(world: &World) -> Tickets<World> {
    Tickets::new(world.clone(), world.clone(), Arc::new(SharedState::new("")))
}

fn begun(world: &World) -> Tickets<World> {
    let catalog = process(world);
    let tables = vec![(A, TableState::new(1)), (B, TableState::new(1))];
    assert!(matches!(at_once(catalog.create(tables)), Outcome::Committed(_)));
    world.counted();
    catalog
}

fn read(catalog: &Tickets<World>, at: &Snapshot, ids: &[TableId]) -> Vec<TableState> {
    let states = at_once(catalog.tables(at, ids)).unwrap();
    states.into_iter().map(|state| state.unwrap().into_owned()).collect()
}

/// Changes that advance these tables from what a snapshot has.
fn advance(catalog: &Tickets<World>, at: &Snapshot, ids: &[TableId], metadata: u64) -> Changes {
    let mut changes = Changes::default();
    for (id, state) in ids.iter().zip(read(catalog, at, ids)) {
        let partitions = smallvec![(PartitionId(0), state.partitions[0])];
        changes.set(*id, Edit::Advance(Advance { metadata: MetadataId(metadata), partitions }));
    }
    changes
}

fn commit(catalog: &Tickets<World>, ids: &[TableId], metadata: u64) -> Outcome<Snapshot> {
    let at = at_once(catalog.load()).unwrap();
    let changes = advance(catalog, &at, ids, metadata);
    at_once(catalog.commit(&at, &changes))
}

fn metadata(catalog: &Tickets<World>) -> [u64; 2] {
    let at = at_once(catalog.load()).unwrap();
    let states = read(catalog, &at, &[A, B]);
    [states[0].metadata.0, states[1].metadata.0]
}

fn ask(catalog: &Tickets<World>, actions: Vec<Action>) -> (Vec<Verdict>, Option<Outcome<Snapshot>>) {
    let at = at_once(catalog.load()).unwrap();
    match at_once(catalog.attempt_group(&at, &[&actions])) {
        GroupAttempt::Decided { verdicts, outcome } => (verdicts, outcome),
        GroupAttempt::NotMade(error) => panic!("{error}"),
    }
}

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn create(text: &str, entry: Entry) -> Action {
    Action::Create { name: name(text), entry }
}

/// Puts an intent into a table and nothing else, like a writer that dies then.
fn intend(catalog: &Tickets<World>, id: TableId, txn: TxnId) -> Slot {
    let seen = at_once(catalog.look(&Name::numbered(id))).unwrap();
    let before = seen.slot.clone().unwrap();
    let after = Some(Entry::table(None, TableState { metadata: MetadataId(99), ..TableState::new(1) }));
    let slot = Slot {
        number: before.number + 1,
        lineage: vec![txn.0 as u64],
        commit: seen.commit(),
        settled: seen.now().cloned(),
        intent: Some(Intent { txn, after }),
        ..Slot::clone(&before)
    };
    assert!(matches!(at_once(catalog.put_once(Sent::Slot(&slot))), put::Stood::Yes));
    slot
}

#[test]
fn a_commit_to_one_table_is_one_guarded_put() {
    let world = World::default();
    let catalog = begun(&world);
    assert!(matches!(commit(&catalog, &[A], 5), Outcome::Committed(_)));
    world.counted();
    assert!(matches!(commit(&catalog, &[A], 6), Outcome::Committed(_)));
    let counts = world.counted();
    // The first read is the transaction's, the second that of `advance` in this test's helper.
    assert_eq!((counts.puts, counts.lists), (1, 0));
    assert!(counts.gets <= 2, "{counts:?}");
    assert_eq!(metadata(&process(&world)), [6, 0]);
}

#[test]
fn a_commit_to_two_tables_is_three_guarded_puts() {
    let world = World::default();
    let catalog = begun(&world);
    assert!(matches!(commit(&catalog, &[A, B], 5), Outcome::Committed(_)));
    assert_eq!(world.counted().puts, 3);
    assert_eq!(metadata(&process(&world)), [5, 5]);
}

#[test]
fn commits_to_different_tables_do_not_meet() {
    let world = World::default();
    let (one, other) = (begun(&world), process(&world));
    let [of_one, of_other] = [&one, &other].map(|catalog| at_once(catalog.load()).unwrap());
    let (a, b) = (advance(&one, &of_one, &[A], 1), advance(&other, &of_other, &[B], 2));
    assert!(matches!(at_once(one.commit(&of_one, &a)), Outcome::Committed(_)));
    assert!(matches!(at_once(other.commit(&of_other, &b)), Outcome::Committed(_)));
    assert_eq!(metadata(&process(&world)), [1, 2]);
}

/// Both read A and B; one writes A, the other B.
fn skewed(validate: bool) -> usize {
    let world = World::default();
    let (one, other) = (begun(&world), process(&world));
    let [of_one, of_other] = [&one, &other].map(|catalog| at_once(catalog.load()).unwrap());
    read(&one, &of_one, &[A, B]);
    read(&other, &of_other, &[A, B]);
    let (a, b) = (advance(&one, &of_one, &[A], 1), advance(&other, &of_other, &[B], 2));
    let commit = |catalog: &Tickets<World>, at: &Snapshot, changes: &Changes| match validate {
        true => at_once(catalog.commit_validated(at, changes)),
        false => at_once(catalog.commit(at, changes)),
    };
    let outcomes = [commit(&one, &of_one, &a), commit(&other, &of_other, &b)];
    outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Committed(_))).count()
}

#[test]
fn write_skew_is_possible_without_validation() {
    assert_eq!(skewed(false), 2);
}

#[test]
fn validated_reads_prevent_write_skew() {
    assert_eq!(skewed(true), 1);
}

#[test]
fn a_snapshot_shows_one_state_or_fails() {
    let world = World::default();
    let catalog = begun(&world);
    let at = at_once(catalog.load()).unwrap();
    assert_eq!(read(&catalog, &at, &[A])[0].metadata.0, 0);
    assert!(matches!(commit(&catalog, &[A, B], 7), Outcome::Committed(_)));
    assert_eq!(read(&catalog, &at, &[A])[0].metadata.0, 0, "what was read stays");
    assert!(at_once(catalog.tables(&at, &[B])).is_err(), "B as it is now does not go with A as it was");
    // A copy without names goes on by itself.
    let fresh = at_once(catalog.load()).unwrap();
    let copy = fresh.clone();
    read(&catalog, &fresh, &[A]);
    assert!(matches!(commit(&catalog, &[A, B], 8), Outcome::Committed(_)));
    assert_eq!(read(&catalog, &copy, &[A, B])[1].metadata.0, 8);
}

/// Rows 3, 6 and 7 of the fault table.
#[test]
fn the_intent_of_a_dead_writer_is_aborted_by_the_next() {
    let world = World::default();
    let (catalog, dead) = (begun(&world), TxnId(77));
    let intent = intend(&process(&world), A, dead);
    assert_eq!(metadata(&catalog), [0, 0], "a reader takes the settled entry");
    assert!(matches!(commit(&catalog, &[A], 5), Outcome::Committed(_)));
    assert_eq!(metadata(&process(&world)), [5, 0]);
    // It was only asleep.
    let record = Record { committed: true, names: vec![intent.name] };
    let late = at_once(process(&world).put_once(Sent::Record(dead, &record)));
    assert!(matches!(late, put::Stood::Lost), "{late:?}");
    assert_eq!(metadata(&process(&world)), [5, 0]);
}

/// Row 4.
#[test]
fn the_next_writer_folds_what_a_dead_one_committed() {
    let world = World::default();
    let (catalog, dead) = (begun(&world), TxnId(77));
    let intent = intend(&process(&world), A, dead);
    let record = Record { committed: true, names: vec![intent.name] };
    assert!(matches!(at_once(process(&world).put_once(Sent::Record(dead, &record))), put::Stood::Yes));
    assert_eq!(metadata(&catalog), [99, 0]);
    assert!(matches!(commit(&catalog, &[A, B], 5), Outcome::Committed(_)));
    assert_eq!(metadata(&process(&world)), [5, 5]);
}

/// Rows 5 and 9.
#[test]
fn a_put_from_before_a_vacuum_is_lost() {
    let world = World::default();
    let (catalog, sleeper) = (begun(&world), process(&world));
    let at = at_once(sleeper.load()).unwrap();
    let changes = advance(&sleeper, &at, &[A], 3);
    for number in 4..9 {
        assert!(matches!(commit(&catalog, &[A], number), Outcome::Committed(_)));
    }
    let removed = at_once(PerName::vacuum(&catalog, Keep::LEAST)).unwrap();
    assert_eq!(removed.emptied[0].count, 5);
    assert!(matches!(at_once(sleeper.commit(&at, &changes)), Outcome::Conflict(_)));
    assert_eq!(metadata(&process(&world)), [8, 0]);
    assert_eq!(metadata(&sleeper), [8, 0], "from an emptied slot to the newest");
    assert_eq!(at_once(PerName::vacuum(&catalog, Keep::LEAST)).unwrap().emptied[0].count, 0);
    assert!(!at_once(PerName::fsck(&catalog, false)).unwrap().is_damaged());
}

#[test]
fn fsck_finds_what_is_damaged_or_missing() {
    let world = World::default();
    let catalog = begun(&world);
    assert!(matches!(commit(&catalog, &[A], 5), Outcome::Committed(_)));
    let keys = catalog.shared_state.keys.clone();
    let newest = keys.slot(&Name::numbered(A), 2);
    world.tamper(newest.as_str(), |bytes| bytes[20] ^= 1);
    let report = at_once(PerName::fsck(&process(&world), false)).unwrap();
    assert_eq!((report.is_damaged(), report.findings[0].object.clone()), (true, newest.clone()));
    world.remove(newest.as_str());
    assert!(!at_once(PerName::fsck(&process(&world), false)).unwrap().is_damaged());
    assert!(matches!(commit(&process(&world), &[A], 5), Outcome::Committed(_)));
    world.remove(keys.slot(&Name::numbered(A), 1).as_str());
    let report = at_once(PerName::fsck(&process(&world), false)).unwrap();
    assert_eq!((report.is_damaged(), report.findings[0].trouble), (true, "missing"));
}

#[test]
fn a_namespace_is_dropped_with_everything_in_it() {
    let world = World::default();
    let catalog = begun(&world);
    let inside: Vec<String> = (0..40).map(|number| format!("a/t{number:02}")).collect();
    let mut actions = vec![create("a", Entry::namespace()), create("a/b", Entry::namespace())];
    actions.extend(inside.iter().map(|name| create(name, Entry::view())));
    actions.push(create("a/b/c", Entry::view()));
    assert!(matches!(ask(&catalog, actions).1, Some(Outcome::Committed(_))));
    let drop_one = Action::Drop { name: name("a"), kind: Kind::Namespace, expected: None };
    let (verdicts, _) = ask(&catalog, vec![drop_one.clone()]);
    assert!(matches!(&verdicts[..], [Verdict::Refused(Refusal::NotEmpty(_))]), "{verdicts:?}");
    assert!(matches!(ask(&catalog, vec![Action::DropAll { name: name("a") }]).1, Some(Outcome::Committed(_))));
    let at = at_once(catalog.load()).unwrap();
    assert_eq!(at_once(process(&world).children(&at, Some(&name("a")), None, 9)).unwrap(), []);
    assert!(matches!(ask(&process(&world), vec![create("a", Entry::namespace())]).1, Some(Outcome::Committed(_))));
    assert!(matches!(ask(&process(&world), vec![drop_one]).1, Some(Outcome::Committed(_))));
}

/// A creation and a drop of its namespace: the drop comes as a whole before one of the creation's puts. The child may
/// be dropped in the same commit, which then leaves nothing of it.
#[test]
fn a_child_is_not_created_in_a_dropped_namespace() {
    let child_and = |actions: [Option<Action>; 2]| {
        [create("a/x", Entry::namespace())].into_iter().chain(actions.into_iter().flatten()).collect::<Vec<_>>()
    };
    let gone = Action::Drop { name: name("a/x"), kind: Kind::Namespace, expected: None };
    beside_a_drop(&child_and([None, None]), true);
    beside_a_drop(&child_and([Some(create("b", Entry::namespace())), Some(gone)]), false);
}

fn beside_a_drop(actions: &[Action], stays: bool) {
    let mut ends = std::collections::BTreeSet::new();
    for dropped_at in 1..7 {
        let world = World::default();
        let (one, other) = (begun(&world), process(&world));
        assert!(matches!(ask(&one, vec![create("a", Entry::namespace())]).1, Some(Outcome::Committed(_))));
        let drop_it = move || {
            let drop_it = Action::Drop { name: name("a"), kind: Kind::Namespace, expected: None };
            let _ = ask(&other, vec![drop_it]);
        };
        let (mut puts, mut armed, between) = (0, Some(drop_it), world.clone());
        world.when_put(move |_| {
            puts += 1;
            if puts == dropped_at
                && let Some(drop_it) = armed.take()
            {
                between.when_sent(drop_it);
            }
            None
        });
        let (_, outcome) = ask(&one, actions.to_vec());
        world.all_well();
        let created = matches!(outcome, Some(Outcome::Committed(_)));
        let reader = process(&world);
        let at = at_once(reader.load()).unwrap();
        let parent = at_once(reader.entry(&at, &name("a"))).unwrap();
        let child = at_once(reader.entry(&at, &name("a/x"))).unwrap();
        assert_eq!(child.is_some(), created && stays);
        assert!(!created || parent.is_some(), "at {dropped_at}");
        assert!(!at_once(PerName::fsck(&reader, false)).unwrap().is_damaged(), "at {dropped_at}");
        ends.insert((created, parent.is_some()));
    }
    assert!(ends.len() > 1, "{ends:?}");
}

/// Whoever commits would try again for long, though trying again does not help.
#[test]
fn a_full_store_refuses_a_creation_for_good() {
    let world = World::default();
    let catalog = begun(&world);
    world.when_put(|_| Some(PutError::Refused(Denial::words("no space"))));
    let (_, outcome) = ask(&catalog, vec![create("a", Entry::namespace())]);
    assert!(matches!(outcome, Some(Outcome::Refused(Denial { passing: false, .. }))), "{outcome:?}");
    world.when_put(|_| Some(PutError::Refused(Denial::words("slow down").passing())));
    let (_, outcome) = ask(&catalog, vec![create("a", Entry::namespace())]);
    assert!(matches!(outcome, Some(Outcome::Refused(Denial { passing: true, .. }))), "{outcome:?}");
}

/// Row 15: nobody waits longer than a second for another, holding nothing.
#[test]
fn an_attempt_waits_a_second_at_most() {
    let world = World::default();
    let catalog = begun(&world);
    intend(&process(&world), A, TxnId(77));
    let began = world.now();
    assert!(matches!(commit(&catalog, &[A], 5), Outcome::Committed(_)));
    assert!(world.now().since(began) <= Span::from_millis(1300));
}

/// Commits to one of a hundred tables after another, until all listings are told.
async fn move_tables(catalog: Tickets<SimEnv>, first: u32, told: Rc<Cell<(u32, u32)>>) {
    for round in 0_u32.. {
        if told.get().0 == LISTINGS {
            return;
        }
        let id = TableId((first + round * 7) % 100);
        let at = catalog.load().await.unwrap();
        let Ok(states) = catalog.tables(&at, &[id]).await else { continue };
        let Some(Some(state)) = states.first() else { continue };
        let partitions = smallvec![(PartitionId(0), state.partitions[0])];
        let metadata = MetadataId(u64::from(round));
        let mut changes = Changes::default();
        changes.set(id, Edit::Advance(Advance { metadata, partitions }));
        let _ = catalog.commit(&at, &changes).await;
    }
}

const LISTINGS: u32 = 20;

/// Where whole entries cannot be listed.
#[test]
fn names_are_listed_beside_commits_that_move_all_tables() {
    let stores = vec![StoreModel::of(Profile::constant(Span::from_millis(10)))];
    let horizon = Instant::ZERO + Span::from_secs(3600);
    let mut simulation = Simulation::new(Setup { seed: 1, horizon, mode: Mode::EveryOperation, stores });
    let told = Rc::new(Cell::new((0, 0)));
    let process = |number: u32| {
        let told = Rc::clone(&told);
        move |env: SimEnv| async move {
            let catalog = Tickets::new(env.clone(), env.store(StoreId(0)), Arc::new(SharedState::new("")));
            if number > 0 {
                return move_tables(catalog, 10 * number, told).await;
            }
            let tables = (0..100).map(|id| (TableId(id), TableState::new(1))).collect();
            assert!(matches!(catalog.create(tables).await, Outcome::Committed(_)));
            let at = catalog.load().await.unwrap();
            for _ in 0..LISTINGS {
                // The others begin after the creation.
                env.sleep_until(env.now() + Span::from_secs(10)).await;
                let whole = catalog.children(&at, None, None, usize::MAX).await;
                let kinds = catalog.list(&at, None, None, usize::MAX, |_, entry| Some(entry.kind)).await.unwrap();
                assert_eq!(kinds.len(), 100);
                told.set((told.get().0 + 1, told.get().1 + u32::from(whole.is_ok())));
            }
        }
    };
    let at = |number: u32| Instant::ZERO + Span::from_secs(5 * u64::from(number.min(1)));
    let counts = simulation.run((0..10).map(|number| (at(number), process(number))));
    assert_eq!((told.get(), counts.unfinished), ((LISTINGS, 0), 0));
}

/// A table goes to and fro between two namespaces, and is in one of them at each moment.
#[test]
fn a_search_finds_what_is_renamed_meanwhile_once() {
    let stores = vec![StoreModel::of(Profile::constant(Span::from_millis(10)))];
    let horizon = Instant::ZERO + Span::from_secs(3600);
    let mut simulation = Simulation::new(Setup { seed: 1, horizon, mode: Mode::EveryOperation, stores });
    let told = Rc::new(RefCell::new(Vec::new()));
    let process = |moves: bool| {
        let told = Rc::clone(&told);
        move |env: SimEnv| async move {
            let catalog = Tickets::new(env.clone(), env.store(StoreId(0)), Arc::new(SharedState::new("")));
            let at = Snapshot::default();
            let ask = async |actions: Vec<Action>| {
                let asked = catalog.attempt_group(&at, &[&actions]).await;
                assert!(matches!(asked, GroupAttempt::Decided { outcome: Some(Outcome::Committed(_)), .. }));
            };
            if moves {
                assert!(matches!(catalog.create(Vec::new()).await, Outcome::Committed(_)));
                ask(["a", "b", "c"].map(|space| create(space, Entry::namespace())).into()).await;
                ask(["a/t", "b/u", "c/t"].map(|table| create(table, Entry::table(None, TableState::new(1)))).into())
                    .await;
                let (mut from, mut to) = (name("a/t"), name("b/t"));
                while told.borrow().len() < 60 {
                    ask(vec![Action::Rename { from: from.clone(), to: to.clone() }]).await;
                    std::mem::swap(&mut from, &mut to);
                    env.sleep_until(env.now() + Span::from_millis(130)).await;
                }
                return;
            }
            for round in 0..60 {
                env.sleep_until(env.now() + Span::from_millis(500 + round)).await;
                let enters = |space: &Name| space.as_str() != "c";
                let found = catalog.search(&at, enters, |table, _| table.last() == "t").await;
                told.borrow_mut().push(found.map_or(0, |found| found.len()));
            }
        }
    };
    let at = |moves: bool| Instant::ZERO + Span::from_secs(if moves { 0 } else { 5 });
    let counts = simulation.run([true, false].map(|moves| (at(moves), process(moves))));
    assert_eq!((counts.unfinished, told.take()), (0, vec![1; 60]));
}

/// With so many at a time that a simulated process waits for several requests together, again and again.
#[test]
fn a_catalog_of_many_tables_is_created_and_listed_in_simulation() {
    let stores = vec![StoreModel::of(Profile::constant(Span::from_millis(10)))];
    let horizon = Instant::ZERO + Span::from_secs(3600);
    let mut simulation = Simulation::new(Setup { seed: 1, horizon, mode: Mode::EveryOperation, stores });
    let listed = Rc::new(Cell::new(0));
    let told = Rc::clone(&listed);
    simulation.run([(Instant::ZERO, move |env: SimEnv| async move {
        let catalog = Tickets::new(env.clone(), env.store(StoreId(0)), Arc::new(SharedState::new("")));
        let tables = (0..100).map(|id| (TableId(id), TableState::new(1))).collect();
        assert!(matches!(catalog.create(tables).await, Outcome::Committed(_)));
        let at = catalog.load().await.unwrap();
        told.set(catalog.children(&at, None, None, usize::MAX).await.unwrap().len());
    })]);
    assert_eq!(listed.get(), 100);
}
