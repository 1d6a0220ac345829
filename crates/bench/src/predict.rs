//! The same cell on the simulated store: what the profile predicts.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use glidepath_model::{Instant, Span};
use glidepath_protocols::group::{Committer, Group, Persistence};
use glidepath_protocols::manifest_chain::{ManifestChain, Place};
use glidepath_sim::{Mode, Profile, Setup, SimEnv, Simulation, StoreId, StoreModel};

use crate::cell::{Cell, Outcome};
use crate::counted::Counted;
use crate::seed::seed;
use crate::writer::write;

const STORE: StoreId = StoreId(0);
const PREFIX: &str = "bench/";
const CACHE_BYTES: usize = 128 << 20;

type Life = Pin<Box<dyn Future<Output = ()>>>;

/// What a store of this profile makes of a cell. The writers are threads of one process, or (with `processes`) each its own.
/// Time that the processor takes is not simulated.
#[must_use]
pub fn predict(profile: &Profile, cell: &Cell, processes: bool, number: u64) -> Outcome {
    let (cell, outcomes) = (*cell, Rc::new(RefCell::new(Vec::new())));
    let setup = Setup {
        seed: number,
        horizon: Instant::ZERO + Span::from_secs(100 * 3600),
        // Writers share what their process knows, and that must be seen in the order of time.
        mode: Mode::EveryOperation,
        stores: vec![StoreModel::of(profile.clone())],
    };
    let mut simulation = Simulation::new(setup);
    let filler = move |env: SimEnv| -> Life {
        Box::pin(async move {
            let chain = ManifestChain::new(env.clone(), env.store(STORE), Arc::new(Place::new(PREFIX, CACHE_BYTES)));
            // A simulated store without faults takes it.
            let _ = seed(&chain, cell.rows, cell.indexed, |_| {}).await;
        })
    };
    // Long after the catalog is there.
    let begin = Instant::ZERO + Span::from_secs(50 * 3600);
    let group: Arc<Group<ManifestChain<Counted<SimEnv>>>> = Arc::default();
    let place = Arc::new(Place::new(PREFIX, CACHE_BYTES));
    let counters: Rc<RefCell<Option<Counted<SimEnv>>>> = Rc::default();
    let writers = (0..cell.writers).map(|writer| {
        let own = || (Arc::default(), Arc::new(Place::new(PREFIX, CACHE_BYTES / cell.writers as usize)));
        let (group, place) = if processes { own() } else { (Arc::clone(&group), Arc::clone(&place)) };
        let (outcomes, counters) = (Rc::clone(&outcomes), Rc::clone(&counters));
        let start = move |env: SimEnv| -> Life {
            Box::pin(async move {
                let store = env.store(STORE);
                let env = match &*counters.borrow() {
                    Some(first) => first.beside(env, store),
                    None => Counted::new(env, store, cell.added_latency),
                };
                counters.borrow_mut().get_or_insert_with(|| env.clone());
                let chain = ManifestChain::new(env.clone(), env.clone(), place);
                let committer = match cell.grouped {
                    true => Committer::grouped(env.clone(), chain, group, Persistence::default()),
                    false => Committer::alone(env.clone(), chain, Persistence::default()),
                };
                let outcome = write(&env, &committer, &format!("p-{writer:04}"), begin + cell.duration).await;
                let ended = glidepath_env::Env::now(&env);
                outcomes.borrow_mut().push(Outcome { took_ns: ended.since(begin).as_nanos(), ..outcome });
            })
        };
        (begin, Box::new(start) as Box<dyn FnOnce(SimEnv) -> Life>)
    });
    let filler = (Instant::ZERO, Box::new(filler) as Box<dyn FnOnce(SimEnv) -> Life>);
    simulation.run(std::iter::once(filler).chain(writers));
    let mut outcome = Outcome::joined(outcomes.take());
    if let Some(counted) = counters.take() {
        outcome.requests = counted.counters().requests.load(Ordering::Relaxed);
        outcome.sent_bytes = counted.counters().sent_bytes.load(Ordering::Relaxed);
        outcome.received_bytes = counted.counters().received_bytes.load(Ordering::Relaxed);
    }
    outcome
}
