//! Does a protocol hold in the cells of a key-value store?
//!
//! The objects of the catalog are cells, kept by the code that keeps them in PostgreSQL and Cassandra
//! ([`glidepath_env::rows`]). Every second seed is of a store that fails in the middle of conditional writes: one whose
//! writer was not answered may show in one plain read and not in the next, and take effect later or never.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use glidepath_env::rows::{cell_of, object_in};
use glidepath_env::{Env, Key, Payload, Purpose, RowObjects, Table};
use glidepath_history::{History, ProcessId};
use glidepath_model::{Instant, Span};
use glidepath_protocols::afterwards::Write;
use glidepath_protocols::registry::Design;
use glidepath_protocols::upkeep::Keep;
use glidepath_sim::{SimEnv, SimStore, Simulation};

use crate::run::{Run, World, Writer, cleaned, counted, judged, world};
use crate::scenario::Scenario;
use crate::subject::{STORE, shared};
use crate::tidy::tidy;

/// States of the first objects are below those of all processes.
const STATES: u64 = 1 << 32;

fn table() -> Table {
    #[expect(clippy::expect_used, reason = "a constant that is a name of a table")]
    Table::new("objects").expect("a name of a table")
}

/// A process whose catalog is in cells.
#[derive(Clone)]
struct RowEnv(SimEnv);

impl Env for RowEnv {
    type Objects = RowObjects<SimStore>;

    fn now(&self) -> Instant {
        self.0.now()
    }

    fn unix_ms(&self) -> u64 {
        self.0.unix_ms()
    }

    async fn sleep_until(&self, at: Instant) {
        self.0.sleep_until(at).await;
    }

    fn draw(&self, purpose: Purpose) -> u64 {
        self.0.draw(purpose)
    }
}

impl World for RowEnv {
    fn world_now(&self) -> Instant {
        self.0.world_now()
    }
}

/// Runs one seed and checks it.
pub(crate) fn run<D: Design>(scenario: &Scenario, objects: &[(Key, Payload)], seed: u64, keep_mishaps: bool) -> Run {
    let mut scenario = scenario.clone();
    if seed & 1 == 1 {
        scenario.faults.half_done = 0.5;
    }
    let mut simulation = world(&scenario, &[], seed);
    if keep_mishaps {
        simulation.keep_mishaps();
    }
    let states = 1..STATES;
    for ((key, payload), state) in objects.iter().zip(states) {
        let Some((cell, value)) = cell_of(key, payload, state) else { continue };
        simulation.seed_cell(STORE, &table(), cell, value);
    }
    let history = Rc::new(RefCell::new(History::new()));
    let counts = simulation.run(processes::<D>(&scenario, &history));
    let history = history.take();
    let mut checked = counted(&history, counts.faults);
    let judged = written(&simulation).and_then(|(writes, objects)| {
        judged::<D>(&writes, objects.clone(), &history, scenario.writers.tables)?;
        match scenario.writers.vacuum_every {
            Some(_) => tidy::<D>(&cleaned::<D>(&objects), true),
            None => Ok(()),
        }
    });
    checked.violation = judged.err();
    let mishaps = simulation.mishaps();
    Run { checked, history, mishaps }
}

/// All writes of objects, and the objects at the end.
fn written(simulation: &Simulation) -> Result<(Vec<Write>, BTreeMap<Key, Payload>), String> {
    let (mut writes, mut objects) = (Vec::new(), BTreeMap::new());
    for written in simulation.cells_written(STORE) {
        let (key, object) = object_in(&written.cell, &written.value).map_err(|cause| cause.to_string())?;
        match &object {
            Some(payload) => objects.insert(key.clone(), payload.clone()),
            None => objects.remove(&key),
        };
        writes.push(Write { key, object });
    }
    Ok((writes, objects))
}

/// What a process does.
type Life = Pin<Box<dyn Future<Output = ()>>>;

/// The writers, and the process that cleans up.
fn processes<D: Design>(
    scenario: &Scenario,
    history: &Rc<RefCell<History>>,
) -> Vec<(Instant, impl FnOnce(SimEnv) -> Life)> {
    let writers = scenario.writers;
    let mut shared_state = shared::<D>(0);
    let mut processes = Vec::new();
    for number in 0..=writers.count {
        let cleaner = number == writers.count;
        if number % writers.shared == 0 || cleaner {
            shared_state = shared::<D>(number / writers.shared);
        }
        let (shared_state, history) = (Arc::clone(&shared_state), Rc::clone(history));
        let start = move |sim: SimEnv| -> Life {
            let state = AtomicU64::new(STATES * (1 + u64::from(number)));
            let store = RowObjects::new(sim.store(STORE), table(), move || state.fetch_add(1, Ordering::Relaxed));
            let env = RowEnv(sim);
            let catalog = D::open(env.clone(), store, shared_state);
            Box::pin(async move {
                match writers.vacuum_every {
                    Some(every) if cleaner => {
                        // Until the writers have ended.
                        for _ in 0..20 {
                            env.sleep_until(env.now() + every).await;
                            let _ = D::vacuum(&catalog, Keep::LEAST).await;
                        }
                    }
                    None if cleaner => {}
                    _ => Writer { env, catalog, history, process: ProcessId(number), writers }.run().await,
                }
            })
        };
        processes.push((Instant::ZERO + Span::from_millis(u64::from(number)), start));
    }
    processes
}
