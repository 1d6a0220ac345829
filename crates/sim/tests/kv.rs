//! Does the simulated key-value store keep the contract, and does each fault end as the contract says?

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;

use bytes::Bytes;
use glidepath_env::conformance::{Violation, kv::run_all};
use glidepath_env::{Cell, Columns, Env, KvStore, Rank, ReadLevel, Table};
use glidepath_model::{Instant, Span};
use glidepath_sim::{CellWritten, EffectPoint, Faults, Mode, Profile, Setup, SimEnv, Simulation, StoreId, StoreModel};

const PROFILE: &str = r#"
title = "a store whose latencies overlap"
source = "made up for this test"
get = { median = "20ms", sigma = 0.5, source = "made up" }
put = { median = "30ms", sigma = 0.5, source = "made up" }
conditional_put = { median = "40ms", sigma = 0.5, source = "made up" }
"#;

const CONTENDED: &str = r#"
[[conditional_put.contended]]
writers = 1
hold = "2ms"
success = { floor = "5ms", mixture = [{ weight = 1.0, median = "10ms", sigma = 0.5 }] }

[[conditional_put.contended]]
writers = 8
hold = "4ms"
success = { floor = "5ms", mixture = [{ weight = 1.0, median = "30ms", sigma = 0.5 }] }
failure = { floor = "5ms", mixture = [{ weight = 1.0, median = "20ms", sigma = 0.5 }] }
"#;

const CONTENDED_BASE: &str = r#"
title = "a store whose writers of one row slow each other down"
source = "made up for this test"
get = { median = "20ms", sigma = 0.5, source = "made up" }
put = { median = "30ms", sigma = 0.5, source = "made up" }

[conditional_put]
median = "40ms"
source = "made up"
"#;

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn table() -> Table {
    Table::new("t").unwrap()
}

fn cell(row: &str, column: &str) -> Cell {
    Cell { row: bytes(row), column: bytes(column) }
}

/// Runs the suite in one process, which has many requests in flight at once.
fn violations(profile: &str, effect: EffectPoint, half_done: f64, seed: u64) -> Vec<Violation> {
    let faults = Faults { half_done, ..Faults::default() };
    let model = StoreModel { effect, faults, profile: Profile::parse(profile).expect("a profile") };
    let horizon = Instant::ZERO + Span::from_secs(1_000_000);
    let mut simulation = Simulation::new(Setup { seed, horizon, mode: Mode::EveryOperation, stores: vec![model] });
    let found = Rc::new(RefCell::new(None));
    let result = Rc::clone(&found);
    let process = |env: SimEnv| async move {
        let violations = run_all(&[env.store(StoreId(0))], &table()).await;
        assert!(env.now() > Instant::ZERO, "the suite took no virtual time");
        result.replace(Some(violations));
    };
    simulation.run([(Instant::ZERO, process)]);
    found.take().expect("the suite did not end within the horizon")
}

#[test]
fn keeps_the_contract() {
    let contended = format!("{CONTENDED_BASE}{CONTENDED}");
    for seed in 0..10 {
        for half_done in [0.0, 0.5] {
            for effect in [EffectPoint::Half, EffectPoint::HalfOfPut, EffectPoint::End] {
                assert_eq!(violations(PROFILE, effect, half_done, seed), [], "{effect:?}, {half_done}, seed {seed}");
            }
            let broken = violations(&contended, EffectPoint::Half, half_done, seed);
            assert_eq!(broken, [], "contended, {half_done}, seed {seed}");
        }
    }
}

#[test]
fn says_what_it_can_do() {
    let seen = |faults: Faults| {
        let seen = Rc::new(RefCell::new(None));
        let result = Rc::clone(&seen);
        alone(faults, |env| async move {
            result.replace(Some(env.store(StoreId(0)).capabilities()));
        });
        let can = seen.take().unwrap();
        (can.delivers_once, can.plain_reads_are_linearizable, can.final_writes)
    };
    let none = Faults::default();
    assert_eq!(seen(none), (true, true, false));
    assert_eq!(seen(Faults { repeated: 0.1, ..none }), (false, true, false));
    assert_eq!(seen(Faults { half_done: 0.1, ..none }), (true, false, true));
}

/// What processes saw, and when, by their own clocks; and what was acknowledged to them.
#[derive(Default)]
struct Log {
    saw: Vec<(u32, u64, String)>,
    acknowledged: Vec<(Cell, Bytes)>,
}

/// Contends for a few rows with every kind of request.
async fn contend(env: SimEnv, log: Rc<RefCell<Log>>) {
    let (store, table) = (env.store(StoreId(0)), table());
    for step in 0..40_u32 {
        let number = step * 7 + env.process() * 3;
        let (row, column) = (["r1", "r2"][(number / 2 % 2) as usize], ["a", "b", "c"][(number % 3) as usize]);
        let (cell, value) = (cell(row, column), bytes(&format!("{}/{step}", env.process())));
        let level = if number.is_multiple_of(2) { ReadLevel::Plain } else { ReadLevel::Linearizable };
        let saw = match number % 6 {
            0 => format!("{:?}", store.create_table(&table).await.is_ok()),
            1 => format!("{:?}", store.get(&table, std::slice::from_ref(&cell), level).await.ok()),
            2 => format!("{:?}", store.scan(&table, &cell.row, &Columns::default(), 2, level).await.ok()),
            3 => {
                let columns = [(cell.column.clone(), value.clone()), (bytes("d"), value.clone())];
                format!("{:?}", store.put_unless_exists(&table, &cell.row, &columns).await.map_err(|e| e.to_string()))
            }
            4 => {
                let seen = store.get(&table, std::slice::from_ref(&cell), level).await.unwrap_or_default().pop();
                let set = store.compare_and_set(&table, &cell, seen.flatten().as_ref(), &value).await;
                format!("{:?}", set.map_err(|error| error.to_string()))
            }
            _ if step > 30 => format!("{:?}", store.put_final(&table, &cell, &bytes("f"), Rank::Written).await.is_ok()),
            _ => format!("{:?}", store.rows(&table, None, 1).await.ok()),
        };
        if (number % 6 == 3 || number % 6 == 4) && saw == "Ok(())" {
            log.borrow_mut().acknowledged.push((cell, value));
        }
        log.borrow_mut().saw.push((env.process(), env.now().as_nanos(), saw));
    }
}

fn contended_run(seed: u64, mode: Mode, profile: &str, faults: Faults) -> (Vec<(u32, u64, String)>, Vec<CellWritten>) {
    let model = StoreModel { faults, ..StoreModel::of(Profile::parse(profile).unwrap()) };
    let horizon = Instant::ZERO + Span::from_secs(1_000_000);
    let mut simulation = Simulation::new(Setup { seed, horizon, mode, stores: vec![model] });
    simulation.keep_writes(StoreId(0));
    let log = Rc::new(RefCell::new(Log::default()));
    let start = |_| {
        let log = Rc::clone(&log);
        (Instant::ZERO, move |env: SimEnv| contend(env, log))
    };
    simulation.run((0..6).map(start).collect::<Vec<_>>());
    let Log { mut saw, acknowledged } = log.take();
    saw.sort();
    let written = simulation.cells_written(StoreId(0));
    // The journal leads to what is there at the end.
    let cells: BTreeMap<_, _> = written.iter().map(|write| (write.cell.clone(), write.value.clone())).collect();
    assert_eq!(cells, simulation.cells(StoreId(0), &table()));
    // Each value is written with a condition once at most, and what was acknowledged is, unless the cell was final.
    let conditional = written.iter().filter(|write| write.rank.is_none());
    let mut times = BTreeMap::<_, u32>::new();
    conditional.for_each(|write| *times.entry((write.cell.clone(), write.value.clone())).or_default() += 1);
    assert!(times.values().all(|times| *times == 1), "{times:?}");
    let is_final = |cell: &Cell| written.iter().any(|write| write.cell == *cell && write.rank.is_some());
    for write in acknowledged {
        assert!(times.contains_key(&write) || is_final(&write.0), "{write:?} was acknowledged");
    }
    (saw, written)
}

fn storm() -> Faults {
    Faults {
        request_lost: 0.05,
        answer_lost: 0.1,
        late: 0.1,
        refused: 0.05,
        crash: 0.002,
        slow: 0.02,
        stalled: 0.02,
        repeated: 0.1,
        proxied: 0.1,
        suspended: 0.02,
        timeout: Span::from_millis(200),
        lateness: Span::from_millis(900),
        half_done: 0.5,
        ..Faults::default()
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let contended = format!("{CONTENDED_BASE}{CONTENDED}");
    for seed in 0..20 {
        for profile in [PROFILE, &contended] {
            let run = || contended_run(seed, Mode::EveryOperation, profile, storm());
            let first = run();
            assert!(!first.1.is_empty());
            assert_eq!(first, run(), "seed {seed}");
        }
    }
}

#[test]
fn local_clocks_change_nothing() {
    let contended = format!("{CONTENDED_BASE}{CONTENDED}");
    for seed in 0..20 {
        for (profile, half_done) in [(PROFILE, 0.0), (PROFILE, 0.5), (&*contended, 0.0)] {
            let faults = Faults { half_done, ..Faults::default() };
            let run = |mode| contended_run(seed, mode, profile, faults);
            assert_eq!(run(Mode::LocalClocks), run(Mode::EveryOperation), "seed {seed}");
        }
    }
}

fn alone<F, Fut>(faults: Faults, script: F) -> Simulation
where
    F: FnOnce(SimEnv) -> Fut,
    Fut: Future<Output = ()> + 'static,
{
    let model = StoreModel { faults, ..StoreModel::of(Profile::constant(Span::from_millis(10))) };
    let horizon = Instant::ZERO + Span::from_secs(1000);
    let mut simulation = Simulation::new(Setup { seed: 1, horizon, mode: Mode::LocalClocks, stores: vec![model] });
    simulation.keep_writes(StoreId(0));
    simulation.run([(Instant::ZERO, script)]);
    simulation
}
