//! What does a server of ours do with the clients of a cell, on a store with this profile?
//!
//! The code that serves live (`glidepath_service`, without HTTP) runs in a simulated process, over the simulated store.
//! Clients are processes too, half a round trip away; they write the files of their snapshots themselves. Processor
//! time of server and clients is that of [`Costs`]. Same cell, world and seed: same outcome.

mod client;
mod costs;
mod files;
mod server;
mod thread;

use std::cell::{Cell as Kept, RefCell};
use std::collections::BTreeSet;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use glidepath_env::Env;
use glidepath_model::{Instant, Span};
use glidepath_protocols::registry::Protocol;
use glidepath_service::{Counts, Identifier};
use glidepath_sim::{Host, Mode, Profile, Setup, SimEnv, Simulation, StoreId, StoreModel};

use super::{Cell, Outcome, Samples, Workload};
use crate::counted::Counters;
use crate::machine::{Machine, Processors};
use client::Client;
pub use costs::{Costs, CostsError};
use server::{Answer, Ask};
use thread::Thread;

const STORE: StoreId = StoreId(0);

/// The location of the simulated store.
const BASE: &str = "s3://lake";

/// The namespace of all tables.
const NAMESPACE: &str = "bench";

/// The table that all append to.
const HOT: &str = "hot";

/// When the clients begin: long after the tables were created.
const BEGIN: Span = Span::from_secs(50 * 3600);

/// The time of snapshots, in milliseconds since 1970: later than any clock of a machine that runs this, because the
/// crate `iceberg` takes the time of the machine where it is later than that of the last snapshot.
const FAR_MS: i64 = 4_102_444_800_000;

/// What the cell is simulated on.
#[derive(Clone, Debug, PartialEq)]
pub struct World {
    /// The protocol of the catalog.
    pub protocol: Protocol,
    /// The servers. Each request goes to the next one.
    pub servers: u32,
    /// The store of the catalog and of the files.
    pub profile: Profile,
    /// Added to each request of the server to the store, before it is sent; not to those of clients.
    pub added_latency: Span,
    /// The processor time of requests.
    pub costs: Costs,
    /// The threads that all clients share.
    pub threads: usize,
    /// Between a client and the server and back, without their work.
    pub round_trip: Span,
    /// How long others' commits wait at most for the next try of an overwrite that lost.
    pub priority: Span,
    /// Of `fair`: how long an overwrite works between each load of the table and the commit on top of it.
    pub validation: Span,
    /// Of `hot` and `fair`: how long a client waits after each append.
    pub pause: Span,
}

impl World {
    /// A server with its usual settings, on loopback.
    #[must_use]
    pub fn of(protocol: Protocol, profile: Profile, costs: Costs) -> Self {
        Self {
            protocol,
            servers: 1,
            profile,
            added_latency: Span::ZERO,
            costs,
            threads: 1,
            round_trip: Span::from_nanos(50_000),
            priority: glidepath_service::PRIORITY,
            validation: Span::ZERO,
            pause: Span::ZERO,
        }
    }
}

/// What is predicted.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The same figures as of a live run. Processor time is not among them.
    pub outcome: Outcome,
    /// Requests of the server to the store.
    pub requests: u64,
    /// Commits that the server put on top of others.
    pub rebased: u64,
    /// Metadata files that it wrote for commits.
    pub versions: u64,
    /// Holds for overwrites that lost, and those that an overwrite used.
    pub holds: (u64, u64),
}

/// Why nothing is predicted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPredicted {
    /// The catalog or the tables could not be created on this store.
    #[error("the simulated server could not begin: {0}")]
    Begin(String),
    /// A client of the simulation could not go on.
    #[error("a simulated client stopped: {0}")]
    Client(String),
}

/// What all processes of a run share.
struct Scene {
    cell: Cell,
    world: World,
    /// One for each server.
    hosts: Vec<Host<Ask, Answer>>,
    /// The server that gets the next request.
    next: Kept<usize>,
    processors: Processors,
    /// The threads of the clients: each client has one of them.
    threads: Vec<Thread>,
    begin: Instant,
    /// Clients that have not ended.
    clients: Kept<u32>,
    /// Snapshots so far.
    snapshots: Kept<i64>,
    operations: RefCell<Samples>,
    overwrites: RefCell<Samples>,
    acknowledged: RefCell<BTreeSet<i64>>,
    received_bytes: Kept<u64>,
    not_modified: Kept<u64>,
    ended: Kept<Instant>,
    failed: RefCell<Option<NotPredicted>>,
    counters: RefCell<Vec<Arc<Counters>>>,
    counts: RefCell<Vec<Arc<Counts>>>,
    /// What was counted before the clients began.
    before: Kept<Counted>,
    /// Snapshots in the history of the hot table at the end, if it was read.
    history: RefCell<Vec<i64>>,
}

/// What the servers have counted so far.
#[derive(Clone, Copy, Default)]
struct Counted {
    requests: u64,
    rebased: u64,
    versions: u64,
    holds: u64,
    used: u64,
}

impl Scene {
    /// Before the begin: nothing has been counted.
    fn of(cell: &Cell, world: &World, overwriting: u32) -> Self {
        let processors = Processors::of(Machine { processors: world.costs.processors, ..Machine::boundless() });
        let begin = Instant::ZERO + BEGIN;
        Self {
            cell: *cell,
            world: world.clone(),
            hosts: (0..world.servers.max(1)).map(|_| Host::default()).collect(),
            next: Kept::new(0),
            threads: (0..world.threads.max(1)).map(|_| Thread::on(&processors)).collect(),
            processors,
            begin,
            clients: Kept::new(cell.connections + overwriting),
            snapshots: Kept::new(0),
            operations: RefCell::default(),
            overwrites: RefCell::default(),
            acknowledged: RefCell::default(),
            received_bytes: Kept::new(0),
            not_modified: Kept::new(0),
            ended: Kept::new(begin),
            failed: RefCell::default(),
            counters: RefCell::default(),
            counts: RefCell::default(),
            before: Kept::default(),
            history: RefCell::default(),
        }
    }

    fn until(&self) -> Instant {
        self.begin + self.cell.duration
    }

    /// A number that no snapshot had before.
    fn fresh(&self) -> i64 {
        self.snapshots.set(self.snapshots.get() + 1);
        self.snapshots.get()
    }

    /// Keeps the first failure.
    fn fail(&self, why: NotPredicted) {
        self.failed.borrow_mut().get_or_insert(why);
    }

    fn counted(&self) -> Counted {
        let counts = self.counts.borrow();
        let count = |of: fn(&Counts) -> &AtomicU64| counts.iter().map(|counts| of(counts).load(Relaxed)).sum();
        Counted {
            requests: self.counters.borrow().iter().map(|counters| counters.requests.load(Relaxed)).sum(),
            rebased: count(|counts| &counts.rebased),
            versions: count(|counts| &counts.versions),
            holds: count(|counts| &counts.priorities),
            used: count(|counts| &counts.priorities_used),
        }
    }

    fn leave(&self) {
        self.clients.set(self.clients.get() - 1);
        self.hosts.iter().for_each(Host::wake);
    }

    /// The server for the next request.
    fn host(&self) -> &Host<Ask, Answer> {
        let next = self.next.get();
        self.next.set((next + 1) % self.hosts.len());
        &self.hosts[next]
    }

    /// The thread of a client.
    fn thread(&self, client: u32) -> &Thread {
        &self.threads[client as usize % self.threads.len()]
    }

    fn is_over(&self) -> bool {
        self.clients.get() == 0
    }
}

fn identifier(name: &str) -> Identifier {
    Identifier { namespace: vec![NAMESPACE.to_owned()], name: name.to_owned() }
}

type Life = Pin<Box<dyn Future<Output = ()>>>;
type Start = Box<dyn FnOnce(SimEnv) -> Life>;

/// The predicted outcome of a cell.
///
/// # Errors
/// [`NotPredicted`]
pub fn predicted(cell: &Cell, world: &World, seed: u64) -> Result<Prediction, NotPredicted> {
    let begin = Instant::ZERO + BEGIN;
    let setup = Setup {
        seed,
        horizon: begin + cell.duration + Span::from_secs(24 * 3600),
        // A server has many requests under way.
        mode: Mode::EveryOperation,
        stores: vec![StoreModel::of(world.profile.clone())],
    };
    let overwriting = if cell.workload == Workload::Fair { cell.overwrites } else { 0 };
    let scene = Rc::new(Scene::of(cell, world, overwriting));
    let mut simulation = Simulation::new(setup);
    let servers = (0..scene.hosts.len()).map(|number| {
        let served = Rc::clone(&scene);
        let start: Start = Box::new(move |env| Box::pin(server::live(env, served, number)));
        // The first one creates the catalog.
        (Instant::ZERO + if number == 0 { Span::ZERO } else { BEGIN.half().half() }, start)
    });
    let clients = (0..cell.connections + overwriting).map(|number| {
        let scene = Rc::clone(&scene);
        let start: Start = Box::new(move |env| {
            Box::pin(async move {
                if number == 0 {
                    scene.before.set(scene.counted());
                }
                let client = Client::new(env.clone(), Rc::clone(&scene), number);
                let result = client.work(number >= scene.cell.connections).await;
                if let Err(words) = result {
                    scene.fail(NotPredicted::Client(words));
                }
                scene.ended.set(scene.ended.get().max(env.now()));
                scene.leave();
            })
        });
        (begin, start)
    });
    let first = cell.workload.appends().then(|| {
        let scene = Rc::clone(&scene);
        let start: Start = Box::new(move |env| {
            Box::pin(async move {
                if let Err(words) = Client::new(env, Rc::clone(&scene), 0).first().await {
                    scene.fail(NotPredicted::Begin(words));
                }
            })
        });
        (Instant::ZERO + BEGIN.half(), start)
    });
    simulation.run(servers.chain(first).chain(clients));
    drop(simulation);
    match scene.failed.take() {
        Some(why) => Err(why),
        None => Ok(told(&scene)),
    }
}

/// What a run that has ended says.
fn told(scene: &Scene) -> Prediction {
    let outcome = Outcome {
        took_ns: scene.ended.get().since(scene.begin).as_nanos(),
        operations: scene.operations.take(),
        overwrites: (scene.cell.workload == Workload::Fair).then(|| scene.overwrites.take()),
        not_modified: scene.not_modified.get(),
        received_bytes: scene.received_bytes.get(),
        checked: scene.cell.workload.appends().then(|| checked(scene)),
        ..Outcome::default()
    };
    let (before, all) = (scene.before.get(), scene.counted());
    Prediction {
        outcome,
        requests: all.requests - before.requests,
        rebased: all.rebased - before.rebased,
        versions: all.versions - before.versions,
        holds: (all.holds - before.holds, all.used - before.used),
    }
}

/// Whether what was acknowledged is in the table.
fn checked(scene: &Scene) -> super::Checked {
    let (history, acknowledged) = (scene.history.take(), scene.acknowledged.take());
    let there: BTreeSet<i64> = history.iter().copied().collect();
    super::Checked {
        acknowledged: acknowledged.len() as u64,
        lost: acknowledged.difference(&there).count() as u64,
        twice: (history.len() - there.len()) as u64,
        refused_there: there.difference(&acknowledged).count() as u64,
        ..super::Checked::default()
    }
}
