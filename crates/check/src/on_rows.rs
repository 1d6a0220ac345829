//! Does a protocol hold in the cells of a key-value store?
//!
//! The objects of the catalog are cells, kept by the code that keeps them in PostgreSQL and Cassandra
//! ([`glidepath_env::rows`]). Every second seed is of a store that fails in the middle of conditional writes: one whose
//! writer was not answered may show in one plain read and not in the next, and take effect later or never.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use glidepath_env::rows::{cell_of, object_in};
use glidepath_env::{Key, Payload, RowObjects, Table};
use glidepath_history::History;
use glidepath_protocols::afterwards::Write;
use glidepath_protocols::registry::Design;
use glidepath_sim::{SimEnv, Simulation};

use crate::process::Process;
use crate::run::{Run, counted, judged, processes, world};
use crate::scenario::Scenario;
use crate::stranger::Copies;
use crate::subject::STORE;
use crate::trace;

/// States of the first objects are below those of all processes.
const STATES: u64 = 1 << 32;

fn table() -> Table {
    #[expect(clippy::expect_used, reason = "a constant that is a name of a table")]
    Table::new("objects").expect("a name of a table")
}

/// A process, with the states that it writes.
fn process(sim: SimEnv, number: u32) -> Process {
    let state = AtomicU64::new(STATES * (1 + u64::from(number)));
    let rows = RowObjects::new(sim.store(STORE), table(), move || state.fetch_add(1, Ordering::Relaxed));
    Process::on_rows(sim, rows)
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
    let counts = simulation.run(processes::<D>(&scenario, &history, process));
    let history = history.take();
    let mut checked = counted(&history, counts.faults);
    let judged = written(&simulation).and_then(|(writes, objects)| {
        judged::<D>((&writes, objects, &Copies::default()), &history, &scenario.writers, seed)
    });
    checked.violation = judged.err();
    let mishaps = trace::events(&simulation, keep_mishaps);
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
