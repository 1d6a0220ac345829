//! What do a profile and a machine predict for a cell? The same clients run on the simulated store.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

use glidepath_env::Env;
use glidepath_model::{Instant, Span};
use glidepath_protocols::group::{Group, Leader, RetryPolicy};
use glidepath_protocols::registry::{AnyCatalog, AnySharedState, Settings};
use glidepath_sim::{Mode, Profile, Setup, SimEnv, Simulation, StoreId, StoreModel};

use crate::cell::{Cell, CellSamples};
use crate::client::Client;
use crate::counted::CountedWorld;
use crate::machine::{Machine, Processors};
use crate::rows::{self, FillError};

const STORE: StoreId = StoreId(0);
const PREFIX: &str = "bench/";

type Life = Pin<Box<dyn Future<Output = ()>>>;
type Start = Box<dyn FnOnce(SimEnv) -> Life>;
type Simulated = CountedWorld<SimEnv>;

/// State shared by the clients of one process.
struct Shared {
    shared_state: AnySharedState,
    group: Group<AnyCatalog<Simulated>>,
}

impl Shared {
    fn of(cell: &Cell) -> Self {
        Self { shared_state: cell.design.protocol.shared_state(PREFIX, &Settings::default()), group: Group::default() }
    }
}

/// The predicted outcome of a cell, on a store of this profile, with all clients on this machine. If `stop` is set it
/// ends soon, and the result is meaningless.
///
/// # Errors
/// The store does not support the protocol (for example a log on a store without appends).
pub fn predict(
    profile: &Profile,
    machine: &Machine,
    cell: &Cell,
    seed: u64,
    stop: &'static AtomicBool,
) -> Result<CellSamples, FillError> {
    let cell = *cell;
    let stopped = move || stop.load(Ordering::Relaxed);
    let setup = Setup {
        seed,
        horizon: Instant::ZERO + Span::from_secs(100 * 3600),
        // Clients share the knowledge of their process, which must be updated in the order of time.
        mode: Mode::EveryOperation,
        stores: vec![StoreModel::of(profile.clone())],
    };
    let mut simulation = Simulation::new(setup);
    let filled = Rc::new(RefCell::new(Ok(())));
    let fill_ended = Rc::clone(&filled);
    let fill = move |env: SimEnv| -> Life {
        Box::pin(async move {
            let catalog = cell.design.protocol.open(env.clone(), env.store(STORE), PREFIX);
            *fill_ended.borrow_mut() = rows::fill(&catalog, cell.design, cell.rows, |_| !stopped()).await;
        })
    };
    // Long after the catalog was created, and so long before the clients begin that reading a large catalog ends, but
    // not so long that a process takes what it knows for old.
    let warm_up = Instant::ZERO + Span::from_secs(50 * 3600);
    let begin = warm_up + Span::from_secs(60);
    let outcomes = Rc::new(RefCell::new(Vec::new()));
    let counted: Rc<RefCell<Option<Simulated>>> = Rc::default();
    let processors = Processors::of(*machine);
    let world = {
        let counted = Rc::clone(&counted);
        move |env: SimEnv| -> Simulated {
            let store = env.store(STORE);
            let mut first = counted.borrow_mut();
            match &*first {
                Some(first) => first.beside(env, store),
                None => first.insert(CountedWorld::new(env, store, cell.added_latency).on(processors.clone())).clone(),
            }
        }
    };
    let processes: Vec<Shared> =
        (0..if cell.processes { cell.writers } else { 1 }).map(|_| Shared::of(&cell)).collect();
    let grouped = processes.iter().filter(|_| cell.grouped);
    let leaders: Vec<_> = grouped.map(|shared| (begin, leader(shared, world.clone()))).collect();
    let clients = (0..cell.writers).map(|number| {
        let shared = &processes[number as usize % processes.len()];
        let (shared_state, group) = (shared.shared_state.clone(), shared.group.clone());
        let (outcomes, world) = (Rc::clone(&outcomes), world.clone());
        let start = move |env: SimEnv| -> Life {
            Box::pin(async move {
                let env = world(env);
                let client = Client::<SimEnv> { env, prefix: PREFIX.to_owned(), shared_state, group, number };
                let outcome = client.work(&cell, begin + cell.duration, stopped).await;
                let (began_ns, ended_ns) = (0, client.env.now().since(begin).as_nanos());
                outcomes.borrow_mut().push(CellSamples { began_ns, ended_ns, ..outcome });
            })
        };
        (begin, Box::new(start) as Start)
    });
    let fill = (Instant::ZERO, Box::new(fill) as Start);
    let warm = processes.iter().filter(|_| cell.begins_warm()).map(|shared| (warm_up, warm(cell, shared)));
    simulation.run(std::iter::once(fill).chain(warm).chain(leaders).chain(clients));
    filled.replace(Ok(()))?;
    let mut outcome = CellSamples::joined(outcomes.take());
    if let Some(counted) = counted.take() {
        counted.counters().add_to(&mut outcome);
    }
    Ok(outcome)
}

/// The first read of a process, with counters of its own.
fn warm(cell: Cell, shared: &Shared) -> Start {
    let shared_state = shared.shared_state.clone();
    Box::new(move |env: SimEnv| -> Life {
        let store = env.store(STORE);
        let env = CountedWorld::new(env, store, cell.added_latency);
        let client = Client { env, prefix: PREFIX.to_owned(), shared_state, group: Group::default(), number: 0 };
        Box::pin(async move { client.warm(&cell).await })
    })
}

/// The leader of a process's group, a task beside its clients.
fn leader(shared: &Shared, world: impl FnOnce(SimEnv) -> Simulated + 'static) -> Start {
    let (shared_state, group) = (shared.shared_state.clone(), shared.group.clone());
    Box::new(move |env: SimEnv| -> Life {
        let env = world(env);
        let leader = Leader::new(env.clone(), shared_state.open(env.clone(), env), &group, RetryPolicy::default());
        Box::pin(async move {
            if let Ok(leader) = leader {
                leader.lead().await;
            }
        })
    })
}
