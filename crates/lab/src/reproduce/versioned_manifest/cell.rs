//! One cell of the sweep, simulated.

use std::cell::{Cell as Shared, RefCell};
use std::rc::Rc;

use glidepath_env::Env;
use glidepath_model::{Instant, Span};
use glidepath_sim::{Mode, Profile, Setup, SimEnv, Simulation, StoreModel};

use super::peer::{Catalog, Peer, STORE, manifest, version_key};
use super::published::{Costs, Sizes};

/// How long a concurrent cell lasts.
pub(super) const CONCURRENT: Span = Span::from_secs(30);

/// Commits of a continuous cell.
pub(super) const CONTINUOUS: u64 = 100;

/// After this time even the slowest commit has ended: 21 tries of some seconds.
const HORIZON: Span = Span::from_secs(3600);

/// What all cells share.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct World {
    pub(super) profile: Profile,
    pub(super) costs: Costs,
}

/// A case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) sizes: Sizes,
    pub(super) indexed: bool,
    pub(super) load: Load,
}

/// The writers and their commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Load {
    /// One process with a number of commits.
    Continuous(u64),
    /// A number of processes, each of which begins commits for 30 s.
    Concurrent(u32),
}

/// The result.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CellResult {
    /// Latencies of the commits, in the order in which they ended.
    pub(super) latencies_ms: Vec<f64>,
    /// Commits that landed within the time.
    pub(super) in_time: u64,
    /// Commits that failed, at any time.
    pub(super) errors: u64,
    /// Those of them that failed within the time.
    pub(super) errors_in_time: u64,
    /// The time until the last one ended.
    pub(super) took_s: f64,
    /// Requests, including those of opening the catalog.
    pub(super) requests: u64,
}

impl World {
    /// The profile, with an added time per MiB of reads.
    pub(super) fn new(mut profile: Profile, costs: Costs) -> Self {
        profile.get.per_mib = costs.read_per_mib;
        Self { profile, costs }
    }

    /// Runs a cell. The same seed gives the same outcome.
    pub(super) fn run(&self, cell: Cell, seed: u64) -> CellResult {
        let setup = Setup {
            seed,
            horizon: Instant::ZERO + HORIZON,
            // A process puts its indices in parallel.
            mode: Mode::EveryOperation,
            stores: vec![StoreModel::of(self.profile.clone())],
        };
        let mut simulation = Simulation::new(setup);
        simulation.seed_object(STORE, &version_key(1), manifest(0));
        let catalog = Catalog { costs: self.costs, sizes: cell.sizes, indexed: cell.indexed };
        let outcome: Rc<RefCell<CellResult>> = Rc::default();
        let writers = match cell.load {
            Load::Continuous(_) => 1,
            Load::Concurrent(writers) => writers,
        };
        simulation.run((0..writers).map(|_| {
            let outcome = Rc::clone(&outcome);
            (Instant::ZERO, move |env: SimEnv| work(env, catalog, cell.load, outcome))
        }));
        outcome.take()
    }
}

async fn work(env: SimEnv, catalog: Catalog, load: Load, outcome: Rc<RefCell<CellResult>>) {
    let requests: Rc<Shared<u64>> = Rc::default();
    let mut peer = Peer::open(env.clone(), catalog, Rc::clone(&requests)).await;
    let (opened, until) = (env.now(), Instant::ZERO + CONCURRENT);
    let mut done = 0;
    while match load {
        Load::Continuous(commits) => done < commits,
        Load::Concurrent(_) => env.now() < until,
    } {
        let began = env.now();
        let committed = peer.create_namespace().await;
        let (now, mut outcome) = (env.now(), outcome.borrow_mut());
        if committed {
            outcome.latencies_ms.push(now.since(began).as_millis_f64());
            outcome.in_time += u64::from(now <= until);
        } else {
            outcome.errors += 1;
            outcome.errors_in_time += u64::from(now <= until);
        }
        done += 1;
    }
    let mut outcome = outcome.borrow_mut();
    outcome.took_s = outcome.took_s.max(env.now().since(opened).as_secs_f64());
    outcome.requests += requests.get();
}

impl CellResult {
    /// The quantile of the latency.
    pub(super) fn quantile_ms(&self, share: f64) -> f64 {
        let mut sorted = self.latencies_ms.clone();
        sorted.sort_unstable_by(f64::total_cmp);
        let place = (share * sorted.len() as f64).ceil() as usize;
        sorted.get(place.saturating_sub(1)).copied().unwrap_or(f64::NAN)
    }
}
