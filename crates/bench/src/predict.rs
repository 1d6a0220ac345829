//! What do a profile and a machine predict for a cell? The same clients on the simulated store.

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use glidepath_env::Env;
use glidepath_model::{Instant, Span};
use glidepath_protocols::group::Group;
use glidepath_sim::{Mode, Profile, Setup, SimEnv, Simulation, StoreId, StoreModel};

use crate::cell::{Cell, Outcome};
use crate::client::Client;
use crate::counted::Counted;
use crate::design::Design;
use crate::machine::{Machine, Processors};
use crate::subject::{Chain, File, FillError, Log, Subject};

const STORE: StoreId = StoreId(0);
const PREFIX: &str = "bench/";

type Life = Pin<Box<dyn Future<Output = ()>>>;
type Simulated = Counted<SimEnv>;

/// What a store of this profile, and this machine for all clients, make of a cell. Where `stop` is set meanwhile it ends soon,
/// and what it returns means nothing.
///
/// # Errors
/// Where the store cannot hold such a catalog, as one that cannot append cannot hold a log.
pub fn predict(
    profile: &Profile,
    machine: &Machine,
    cell: &Cell,
    seed: u64,
    stop: &'static AtomicBool,
) -> Result<Outcome, FillError> {
    match cell.design {
        Design::CatalogFile => predict_for::<File>(profile, machine, cell, seed, stop),
        Design::AppendLog => predict_for::<Log>(profile, machine, cell, seed, stop),
        Design::ManifestChain { .. } => predict_for::<Chain>(profile, machine, cell, seed, stop),
    }
}

fn predict_for<S: Subject + 'static>(
    profile: &Profile,
    machine: &Machine,
    cell: &Cell,
    seed: u64,
    stop: &'static AtomicBool,
) -> Result<Outcome, FillError> {
    let cell = *cell;
    let stopped = move || stop.load(Ordering::Relaxed);
    let setup = Setup {
        seed,
        horizon: Instant::ZERO + Span::from_secs(100 * 3600),
        // Clients share what their process knows, and that must be seen in the order of time.
        mode: Mode::EveryOperation,
        stores: vec![StoreModel::of(profile.clone())],
    };
    let mut simulation = Simulation::new(setup);
    let filled = Rc::new(RefCell::new(Ok(())));
    let fill_ended = Rc::clone(&filled);
    let fill = move |env: SimEnv| -> Life {
        Box::pin(async move {
            let catalog = S::catalog(env.clone(), env.store(STORE), Arc::new(S::place(PREFIX)));
            *fill_ended.borrow_mut() = S::fill(&catalog, cell.design, cell.rows, |_| !stopped()).await;
        })
    };
    // Long after the catalog is there.
    let begin = Instant::ZERO + Span::from_secs(50 * 3600);
    let outcomes = Rc::new(RefCell::new(Vec::new()));
    let counted: Rc<RefCell<Option<Simulated>>> = Rc::default();
    let shared = (Arc::new(S::place(PREFIX)), Arc::<Group<S::Catalog<Simulated>>>::default());
    let processors = Processors::of(*machine);
    let clients = (0..cell.writers).map(|number| {
        let own = || (Arc::new(S::place(PREFIX)), Arc::default());
        let (place, group) = if cell.processes { own() } else { shared.clone() };
        let (outcomes, counted, processors) = (Rc::clone(&outcomes), Rc::clone(&counted), processors.clone());
        let start = move |env: SimEnv| -> Life {
            Box::pin(async move {
                let store = env.store(STORE);
                let env = match &*counted.borrow() {
                    Some(first) => first.beside(env, store),
                    None => Counted::new(env, store, cell.added_latency).on(processors),
                };
                counted.borrow_mut().get_or_insert_with(|| env.clone());
                let client = Client::<S, SimEnv> { env, prefix: PREFIX.to_owned(), place, group, number };
                let outcome = client.work(&cell, begin + cell.duration, stopped).await;
                let (began_ns, ended_ns) = (0, client.env.now().since(begin).as_nanos());
                outcomes.borrow_mut().push(Outcome { began_ns, ended_ns, ..outcome });
            })
        };
        (begin, Box::new(start) as Box<dyn FnOnce(SimEnv) -> Life>)
    });
    let fill = (Instant::ZERO, Box::new(fill) as Box<dyn FnOnce(SimEnv) -> Life>);
    simulation.run(std::iter::once(fill).chain(clients));
    filled.replace(Ok(()))?;
    let mut outcome = Outcome::joined(outcomes.take());
    if let Some(counted) = counted.take() {
        counted.counters().add_to(&mut outcome);
    }
    Ok(outcome)
}
