//! Does each fault of a request to the simulated key-value store end as the contract says? And what shows of a write
//! that is half done?

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::cell::{Cell as Slot, RefCell};
use std::collections::BTreeSet;
use std::future::Future;
use std::rc::Rc;

use bytes::Bytes;
use glidepath_env::{
    Cell, Columns, ConditionError, Denial, Env, KvReadError, KvStore, Rank, ReadLevel, Table, WriteError,
};
use glidepath_model::{Instant, Span};
use glidepath_sim::{Faults, Mode, Profile, Setup, SimEnv, SimStore, Simulation, StoreId, StoreModel};

const STORE: StoreId = StoreId(0);

/// How often a read is repeated, where every second one fails.
const MANY: usize = 40;

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn table() -> Table {
    Table::new("t").unwrap()
}

fn cell() -> Cell {
    Cell { row: bytes("r"), column: bytes("a") }
}

/// A run of one process against a store that has the table. Every request takes 10 ms.
fn alone<F, Fut>(seed: u64, faults: Faults, script: F) -> Simulation
where
    F: FnOnce(SimEnv) -> Fut,
    Fut: Future<Output = ()> + 'static,
{
    let model = StoreModel { faults, ..StoreModel::of(Profile::constant(Span::from_millis(10))) };
    let horizon = Instant::ZERO + Span::from_secs(10_000);
    let mut simulation = Simulation::new(Setup { seed, horizon, mode: Mode::LocalClocks, stores: vec![model] });
    simulation.seed_table(STORE, table());
    simulation.keep_writes(STORE);
    simulation.keep_mishaps();
    simulation.run([(Instant::ZERO, script)]);
    simulation
}

async fn put(store: &SimStore) -> Result<(), ConditionError> {
    store.put_unless_exists(&table(), &bytes("r"), &[(bytes("a"), bytes("1"))]).await
}

fn words(result: Result<(), ConditionError>) -> String {
    match result {
        Ok(()) => "written".into(),
        Err(ConditionError::Lost { found }) => format!("lost to {found:?}"),
        Err(ConditionError::Unknown(cause)) => format!("unknown: {cause}"),
        Err(ConditionError::Refused(Denial { cause, certain, passing })) => {
            format!("refused: {cause}, certain: {certain}, passing: {passing}")
        }
    }
}

/// The end of a put, and when the value took effect, in milliseconds.
fn put_once(seed: u64, faults: Faults) -> (String, Vec<u64>) {
    let outcome = Rc::new(RefCell::new("no answer".to_owned()));
    let seen = Rc::clone(&outcome);
    let simulation = alone(seed, faults, move |env| async move {
        let end = words(put(&env.store(STORE)).await);
        *seen.borrow_mut() = end;
    });
    let written = simulation.cells_written(STORE);
    assert!(written.iter().all(|write| write.by == 1 && write.cell == cell() && write.rank.is_none()));
    let last = written.last().map(|write| write.value.clone());
    assert_eq!(last, simulation.peek_cell(STORE, &table(), &cell()));
    (outcome.take(), written.iter().map(|write| write.at.as_nanos() / 1_000_000).collect())
}

#[test]
fn each_fault_of_a_conditional_write_has_its_end() {
    let none = Faults::default();
    let to_itself = r#"lost to [(b"a", b"1")]"#;
    for (faults, end, took_effect) in [
        (none, "written", vec![5]),
        (Faults { request_lost: 1.0, ..none }, "unknown: the request was lost", vec![]),
        (Faults { answer_lost: 1.0, ..none }, "unknown: the answer was lost", vec![5]),
        // Long after its sender gave up.
        (Faults { late: 1.0, ..none }, "unknown: no answer in time", vec![120_000]),
        (Faults { refused: 1.0, ..none }, "refused: 503 Slow Down, certain: true, passing: true", vec![]),
        (Faults { crash: 1.0, ..none }, "no answer", vec![5]),
        (Faults { slow: 1.0, ..none }, "written", vec![5]),
        (Faults { stalled: 1.0, ..none }, "written", vec![120_005]),
        (Faults { repeated: 1.0, ..none }, to_itself, vec![5]),
    ] {
        assert_eq!(put_once(1, faults), (end.to_owned(), took_effect), "{faults:?}");
    }
}

#[test]
fn a_proxy_answers_a_conditional_write_by_any_status() {
    let ends = |seed| put_once(seed, Faults { proxied: 1.0, ..Faults::default() });
    let ends: Vec<_> = (0..200).map(ends).collect();
    for (end, took_effect) in &ends {
        assert_eq!(took_effect.len(), 1, "{end}: one of its deliveries finds no cell");
        assert!(!end.contains("certain: true"), "{end}");
        assert!(end != "written" || took_effect == &[10], "{end} at {took_effect:?}");
    }
    let is_there = |words: &str, at: u64| ends.iter().any(|(end, when)| end.starts_with(words) && when == &[at]);
    for (end, at) in [("lost to", 5), ("written", 10), ("refused: 409", 120_000), ("refused: 503", 5)] {
        assert!(is_there(end, at), "{end}, {at}");
    }
    assert!(is_there("unknown: 500", 5) && is_there("unknown: 500", 120_000) && is_there("unknown: no answer", 5));
}

#[test]
fn a_suspended_machine_has_its_end_too() {
    let ends: BTreeSet<_> =
        (0..20).map(|seed| put_once(seed, Faults { suspended: 1.0, ..Faults::default() })).collect();
    let wanted = [vec![5], vec![120_005]].map(|took_effect| ("written".to_owned(), took_effect));
    assert_eq!(ends, BTreeSet::from(wanted));
}

#[test]
fn faults_of_other_requests_have_their_ends_too() {
    let none = Faults { half_done: 0.5, ..Faults::default() };
    for (faults, unknown) in [(Faults { answer_lost: 1.0, ..none }, true), (Faults { refused: 1.0, ..none }, false)] {
        let simulation = alone(1, faults, move |env| async move {
            let (store, table) = (env.store(STORE), table());
            for level in [ReadLevel::Plain, ReadLevel::Linearizable] {
                let get = store.get(&table, &[cell()], level).await;
                assert!(matches!(get, Err(KvReadError::Failed(_))));
                let scan = store.scan(&table, &bytes("r"), &Columns::default(), 1, level).await;
                assert!(matches!(scan, Err(KvReadError::Failed(_))));
            }
            assert!(matches!(store.rows(&table, None, 1).await, Err(KvReadError::Failed(_))));
            let is_right = |end: Result<(), WriteError>| match end.unwrap_err() {
                WriteError::Unknown(_) => unknown,
                WriteError::Refused(denial) => !unknown && denial.certain && denial.passing,
            };
            assert!(is_right(store.create_table(&table).await));
            assert!(is_right(store.put_final(&table, &cell(), &bytes("f"), Rank::Written).await));
        });
        let written: Vec<_> = simulation.cells_written(STORE).into_iter().map(|write| write.rank).collect();
        assert_eq!(written, if unknown { vec![Some(Rank::Written)] } else { vec![] });
        assert_eq!(simulation.mishaps().len(), 7);
        let first = &simulation.mishaps()[0].words;
        assert!(first.starts_with("plain get of 1 cells of t, first r/a: "), "{first}");
    }
}

#[test]
fn a_store_without_half_done_writes_refuses_final_values() {
    let simulation = alone(1, Faults::default(), |env| async move {
        let end = env.store(STORE).put_final(&table(), &cell(), &bytes("f"), Rank::Written).await;
        assert!(matches!(end, Err(WriteError::Refused(Denial { certain: true, passing: false, .. }))));
    });
    assert_eq!(simulation.cells_written(STORE), []);
}

/// Every second answer is lost, and whatever was to be written then is half done.
fn half_done() -> Faults {
    Faults { answer_lost: 0.5, half_done: 1.0, timeout: Span::from_millis(20), ..Faults::default() }
}

async fn get(store: &SimStore, level: ReadLevel) -> Option<Option<Bytes>> {
    Some(store.get(&table(), &[cell()], level).await.ok()?.remove(0))
}

/// What those of many plain reads show that do not fail, a get and a scan each.
async fn plain_reads(store: &SimStore) -> Vec<Option<Bytes>> {
    let mut shown = Vec::new();
    for _ in 0..MANY {
        shown.extend(get(store, ReadLevel::Plain).await);
        let slice = store.scan(&table(), &bytes("r"), &Columns::default(), 9, ReadLevel::Plain).await;
        shown.extend(slice.ok().map(|mut slice| slice.cells.pop().map(|(_, value)| value)));
    }
    shown
}

async fn linearizable_read(store: &SimStore) -> Option<Bytes> {
    loop {
        if let Some(value) = get(store, ReadLevel::Linearizable).await {
            return value;
        }
    }
}

/// Runs 60 seeds in which a put is left half done, and returns how many of them end with its value.
fn left_half_done<F>(then: impl Fn(SimStore) -> F + Copy + 'static) -> usize
where
    F: Future<Output = ()>,
{
    let (mut runs, mut ends) = (0, 0);
    for seed in 0.. {
        let left = Rc::new(Slot::new(false));
        let seen = Rc::clone(&left);
        let simulation = alone(seed, half_done(), move |env| async move {
            let store = env.store(STORE);
            if let Err(ConditionError::Unknown(_)) = put(&store).await {
                assert_eq!(env.peek_cell(STORE, &table(), &cell()), None, "it has not taken effect yet");
                seen.set(true);
                then(store).await;
            }
        });
        if left.get() {
            runs += 1;
            ends += usize::from(simulation.peek_cell(STORE, &table(), &cell()) == Some(bytes("1")));
        }
        if runs == 60 {
            break;
        }
    }
    ends
}

#[test]
fn a_half_done_write_shows_in_one_plain_read_and_not_in_the_next() {
    let ends = left_half_done(|store| async move {
        let shown: BTreeSet<_> = plain_reads(&store).await.into_iter().collect();
        assert_eq!(shown, BTreeSet::from([None, Some(bytes("1"))]));
    });
    assert_eq!(ends, 0, "plain reads decide nothing");
}

#[test]
fn after_a_linearizable_read_every_read_agrees() {
    let ends = left_half_done(|store| async move {
        let decided = linearizable_read(&store).await;
        assert!(plain_reads(&store).await.iter().all(|shown| *shown == decided));
        assert_eq!(linearizable_read(&store).await, decided);
    });
    assert!((15..=45).contains(&ends), "{ends} of 60 have taken effect: one half should");
}

#[test]
fn after_a_conditional_write_of_its_row_every_read_agrees() {
    let ends = left_half_done(|store| async move {
        // It is lost, and so leaves nothing half done itself.
        let other = Cell { column: bytes("b"), ..cell() };
        while let Err(ConditionError::Unknown(_)) =
            store.compare_and_set(&table(), &other, Some(&bytes("no such value")), &bytes("x")).await
        {}
        let shown: BTreeSet<_> = plain_reads(&store).await.into_iter().collect();
        assert_eq!(shown, BTreeSet::from([linearizable_read(&store).await]));
    });
    assert!((15..=45).contains(&ends), "{ends} of 60 have taken effect: one half should");
}

#[test]
fn a_repeated_put_is_written_or_lost_to_the_half_done_one() {
    let ends = left_half_done(|store| async move {
        loop {
            match put(&store).await {
                Err(ConditionError::Unknown(_)) => continue,
                Ok(()) => break,
                Err(ConditionError::Lost { found }) => break assert_eq!(found, [(bytes("a"), bytes("1"))]),
                Err(error) => panic!("{error}"),
            }
        }
        assert!(plain_reads(&store).await.iter().all(|shown| *shown == Some(bytes("1"))));
    });
    assert_eq!(ends, 60);
}

#[test]
fn a_final_value_stays_whatever_becomes_of_the_half_done_one() {
    let ends = left_half_done(|store| async move {
        let final_value = |value: &'static str, rank| {
            let store = store.clone();
            async move { while store.put_final(&table(), &cell(), &bytes(value), rank).await.is_err() {} }
        };
        final_value("f", Rank::Written).await;
        assert!(plain_reads(&store).await.iter().all(|shown| *shown == Some(bytes("f"))));
        assert_eq!(linearizable_read(&store).await, Some(bytes("f")));
        final_value("g", Rank::Restored).await;
        final_value("f", Rank::Written).await;
        assert_eq!(linearizable_read(&store).await, Some(bytes("g")));
    });
    assert_eq!(ends, 0);
}

/// It takes effect at the moment of the read that decides it, and is still the write of its sender.
#[test]
fn a_half_done_write_takes_effect_when_it_is_decided() {
    let decided = (0..50).filter_map(|seed| {
        let decided_at = Rc::new(Slot::new(None));
        let seen = Rc::clone(&decided_at);
        let simulation = alone(seed, half_done(), move |env| async move {
            let store = env.store(STORE);
            if put(&store).await.is_err() {
                env.sleep_until(Instant::ZERO + Span::from_secs(60)).await;
                let begun = env.now();
                if get(&store, ReadLevel::Linearizable).await.is_some_and(|value| value.is_some()) {
                    seen.set(Some((begun, env.now())));
                }
            }
        });
        let (begun, ended) = decided_at.get()?;
        let [write] = &simulation.cells_written(STORE)[..] else { panic!("one write took effect") };
        Some(begun < write.at && write.at < ended && write.by == 1)
    });
    let decided: Vec<bool> = decided.collect();
    assert!(decided.len() > 2 && decided.iter().all(|in_time| *in_time), "{decided:?}");
}
