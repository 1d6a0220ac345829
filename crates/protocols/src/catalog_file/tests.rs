//! The fault table of `docs/protocols/catalog-file.md`, tested in simulation: writers commit under every fault, and a
//! checker compares the answers they got with the resulting chain of roots.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

use glidepath_env::unit_interval;
use glidepath_model::{Advance, Edit, Instant, MetadataId, PartitionId, Span};
use glidepath_sim::{EffectPoint, Faults, Mode, Profile, Setup, SimEnv, Simulation, StoreId, StoreModel};
use proptest::prelude::*;
use smallvec::smallvec;

use super::*;

const STORE: StoreId = StoreId(0);
const TABLES: u32 = 3;

/// The answer to one commit, keyed by the metadata id that only this commit names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Told {
    Committed,
    Conflict,
    Refused,
    Unknown,
}

#[derive(Default)]
struct History {
    told: RefCell<BTreeMap<u64, Told>>,
    /// How many times a reader saw a version older than one it had seen before.
    backwards: Cell<u32>,
}

fn advance(at: &Snapshot, table: TableId, metadata: u64) -> Changes {
    let state = at.root().table(table).unwrap();
    let partitions = smallvec![(PartitionId(0), state.partitions[0])];
    Changes::of(table, Edit::Advance(Advance { metadata: MetadataId(metadata), partitions }))
}

async fn write(env: SimEnv, shared_state: Arc<SharedState>, commits: u32, history: Rc<History>) {
    let catalog = CatalogFile::new(env.clone(), env.store(STORE), shared_state);
    let mut seen = Version(0);
    for _ in 0..commits {
        let Ok(base) = catalog.load().await else { continue };
        if base.root().version < seen {
            history.backwards.set(history.backwards.get() + 1);
        }
        seen = base.root().version;
        let table = TableId((unit_interval(env.draw(Purpose::Tables)) * f64::from(TABLES)) as u32);
        let metadata = env.draw(Purpose::Transaction) | 1;
        let told = match catalog.commit(&base, &advance(&base, table, metadata)).await {
            Outcome::Committed(now) => {
                seen = now.root().version;
                Told::Committed
            }
            Outcome::Conflict(_) => Told::Conflict,
            Outcome::Refused(_) => Told::Refused,
            Outcome::Unknown(_) => Told::Unknown,
        };
        history.told.borrow_mut().insert(metadata, told);
    }
}

struct Run {
    told: BTreeMap<u64, Told>,
    /// Every root that the catalog has had, in the order of writing.
    chain: Vec<File>,
    backwards: u32,
}

fn run(seed: u64, faults: Faults, writers: u32, commits: u32) -> Run {
    let model = StoreModel { faults, effect: EffectPoint::Half, profile: Profile::constant(Span::from_millis(10)) };
    let horizon = Instant::ZERO + Span::from_secs(3600);
    let setup = Setup { seed, horizon, mode: Mode::EveryOperation, stores: vec![model] };
    let mut simulation = Simulation::new(setup);
    let shared_state = Arc::new(SharedState::new(Key::new("catalog"), ByteSize::default()));
    let tables = (0..TABLES).map(|id| (TableId(id), TableState::new(1))).collect();
    let first = File::first(Root::from_parts(Version(0), CommitId(1), tables).unwrap());
    simulation.keep_writes(STORE);
    simulation.seed_object(STORE, &Key::new("catalog"), shared_state.payload(&first));
    let history = Rc::new(History::default());
    let starts = (0..writers).map(|n| {
        let (history, shared_state) = (Rc::clone(&history), Arc::clone(&shared_state));
        let start = move |env: SimEnv| write(env, shared_state, commits, history);
        (Instant::ZERO + Span::from_millis(u64::from(n)), start)
    });
    simulation.run(starts);
    let writes = simulation.writes(STORE);
    let chain = writes.iter().map(|payload| File::decode(&payload.bytes).unwrap()).collect();
    drop(simulation);
    Run { told: history.told.take(), chain, backwards: history.backwards.get() }
}

/// The chain has no gap; what was acknowledged is in it exactly once; what was refused or lost is not; what is unknown
/// may be; readers never go back.
fn check(run: &Run) -> Result<(), TestCaseError> {
    let mut landed = BTreeMap::<u64, u32>::new();
    for pair in run.chain.windows(2) {
        let (before, after) = (pair[0].root(), pair[1].root());
        prop_assert_eq!(after.version, before.version.next());
        for ((_, old), (_, new)) in before.tables().zip(after.tables()) {
            if old.metadata != new.metadata {
                *landed.entry(new.metadata.0).or_default() += 1;
            }
        }
    }
    prop_assert_eq!(landed.values().map(|n| *n as usize).sum::<usize>(), run.chain.len() - 1);
    for (metadata, told) in &run.told {
        let times = landed.remove(metadata).unwrap_or(0);
        match told {
            Told::Committed => prop_assert_eq!(times, 1, "acknowledged"),
            Told::Conflict | Told::Refused => prop_assert_eq!(times, 0, "told {:?}", told),
            Told::Unknown => prop_assert!(times <= 1, "unknown, and there {} times", times),
        }
    }
    prop_assert!(landed.values().all(|times| *times == 1), "a writer that crashed left its commit twice");
    prop_assert_eq!(run.backwards, 0);
    Ok(())
}

fn count(run: &Run, what: Told) -> usize {
    run.told.values().filter(|told| **told == what).count()
}

fn storm() -> Faults {
    let (timeout, lateness) = (Span::from_millis(500), Span::from_secs(2));
    Faults {
        request_lost: 0.1,
        answer_lost: 0.1,
        late: 0.1,
        refused: 0.1,
        crash: 0.01,
        timeout,
        lateness,
        ..Faults::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn histories_hold_under_every_fault(seed in any::<u64>(), writers in 1_u32..12) {
        check(&run(seed, storm(), writers, 30))?;
    }

    /// Row 8: zombies so late that the lineage no longer contains their base.
    #[test]
    fn histories_hold_when_zombies_outlive_the_lineage(seed in any::<u64>()) {
        let faults = Faults { late: 0.02, answer_lost: 0.05, timeout: Span::from_secs(5), ..storm() };
        check(&run(seed, faults, 20, 60))?;
    }
}

#[test]
fn without_faults_every_attempt_commits_or_conflicts() {
    let run = run(1, Faults::default(), 8, 50);
    check(&run).unwrap();
    assert_eq!(count(&run, Told::Committed) + count(&run, Told::Conflict), 400);
    assert_eq!(count(&run, Told::Committed), run.chain.len() - 1);
    assert!(count(&run, Told::Conflict) > 100);
}

/// Rows 3 to 6, one fault at a time: each fault occurs, and what can be settled is settled.
#[test]
fn each_fault_alone_is_settled() {
    let calm = Faults { timeout: Span::from_millis(500), lateness: Span::from_secs(2), ..Faults::default() };
    for faults in [
        Faults { request_lost: 0.3, ..calm },
        Faults { answer_lost: 0.3, ..calm },
        Faults { late: 0.3, ..calm },
        Faults { refused: 0.3, ..calm },
    ] {
        let run = run(7, faults, 4, 100);
        check(&run).unwrap();
        assert!(run.chain.len() > 50, "{faults:?}: {} commits", run.chain.len());
        assert!(count(&run, Told::Unknown) <= 2, "{faults:?}: {:?}", run.told.values());
        assert_eq!(count(&run, Told::Refused) > 0, faults.refused > 0.0);
    }
}

/// Row 10: a damaged head is reported and not overwritten.
#[test]
fn a_damaged_head_stops_the_writer() {
    let model = StoreModel::of(Profile::constant(Span::from_millis(1)));
    let horizon = Instant::ZERO + Span::from_secs(60);
    let setup = Setup { seed: 1, horizon, mode: Mode::LocalClocks, stores: vec![model] };
    let mut simulation = Simulation::new(setup);
    let damaged = Payload::from(bytes::Bytes::from_static(b"GPCF\x02\x00 not this version"));
    simulation.seed_object(STORE, &Key::new("catalog"), damaged.clone());
    let shared_state = Arc::new(SharedState::new(Key::new("catalog"), ByteSize::default()));
    let said = Rc::new(RefCell::new(String::new()));
    let hear = Rc::clone(&said);
    simulation.run([(Instant::ZERO, move |env: SimEnv| async move {
        let catalog = CatalogFile::new(env.clone(), env.store(STORE), shared_state);
        *hear.borrow_mut() = catalog.load().await.unwrap_err().to_string();
        assert!(matches!(catalog.create(Vec::new()).await, Outcome::Conflict(_)));
    })]);
    assert!(said.borrow().contains("format version 2"), "{}", said.borrow());
    assert_eq!(simulation.peek(STORE, &Key::new("catalog")), Some(damaged));
}

#[test]
fn of_many_creators_one_wins() {
    let faults = Faults { crash: 0.0, ..storm() };
    for seed in 0..50 {
        let model = StoreModel { faults, ..StoreModel::of(Profile::constant(Span::from_millis(10))) };
        let horizon = Instant::ZERO + Span::from_secs(600);
        let setup = Setup { seed, horizon, mode: Mode::LocalClocks, stores: vec![model] };
        let mut simulation = Simulation::new(setup);
        let shared_state = Arc::new(SharedState::new(Key::new("catalog"), ByteSize::default()));
        let winners = Rc::new(Cell::new(0));
        let starts = (0..6).map(|_| {
            let (shared_state, winners) = (Arc::clone(&shared_state), Rc::clone(&winners));
            let start = move |env: SimEnv| async move {
                let catalog = CatalogFile::new(env.clone(), env.store(STORE), shared_state);
                if let Outcome::Committed(_) = catalog.create(vec![(TableId(0), TableState::new(1))]).await {
                    winners.set(winners.get() + 1);
                }
            };
            (Instant::ZERO, start)
        });
        simulation.keep_writes(STORE);
        simulation.run(starts);
        assert!(winners.get() <= 1, "seed {seed}: {} winners", winners.get());
        assert_eq!(simulation.writes(STORE).len(), 1, "seed {seed}");
    }
}

/// A file of exactly the maximum size is written and read; one byte more is refused; of a group, as many requests as
/// fit are taken.
#[test]
fn a_file_is_no_larger_than_it_can_say() {
    let table = |id: u32| Changes::of(TableId(id), Edit::Create(glidepath_model::TableState::new(1)));
    let length = |tables: usize| {
        let tables: Vec<_> = (0..tables as u32).map(|id| (TableId(id), glidepath_model::TableState::new(1))).collect();
        File::first(Root::from_parts(Version(0), CommitId(1), tables).unwrap()).encode().len()
    };
    // At later versions, with commits before it.
    let most = length(3) + 2 * 8;
    let model = StoreModel::of(Profile::constant(Span::from_millis(30)));
    let horizon = Instant::ZERO + Span::from_secs(3600);
    let mut simulation = Simulation::new(Setup { seed: 1, horizon, mode: Mode::EveryOperation, stores: vec![model] });
    let counts = simulation.run([(Instant::ZERO, |env: SimEnv| async move {
        let shared_state = || SharedState::new(Key::new("catalog"), ByteSize::default());
        let catalog = CatalogFile::new(env.clone(), env.store(STORE), Arc::new(shared_state().of_at_most(most)));
        let Outcome::Committed(base) = catalog.create(vec![(TableId(0), glidepath_model::TableState::new(1))]).await
        else {
            panic!("fits");
        };
        let requests = [1, 2, 3].map(|id| table(id).actions());
        let GroupAttempt::Decided { verdicts, outcome: Some(Outcome::Committed(base)) } =
            catalog.attempt_group(&base, &requests.each_ref().map(Vec::as_slice)).await
        else {
            panic!("one of them fits");
        };
        assert_eq!(verdicts.len(), 1);
        let Outcome::Committed(base) = catalog.commit(&base, &table(2)).await else {
            panic!("the maximum size is accepted")
        };
        assert!(matches!(catalog.commit(&base, &table(3)).await, Outcome::Refused(_)));
        let decided = catalog.attempt_group(&base, &[&table(3).actions()]).await;
        let GroupAttempt::Decided { verdicts, outcome: None } = decided else { panic!("{decided:?}") };
        assert!(matches!(&verdicts[..], [Verdict::Failed(_)]), "{verdicts:?}");
        let reader = CatalogFile::new(env.clone(), env.store(STORE), Arc::new(shared_state()));
        let read = reader.load().await.unwrap();
        assert_eq!((read.root().table_count(), read.file.encode().len()), (3, most));
    })]);
    assert_eq!(counts.unfinished, 0);
}
