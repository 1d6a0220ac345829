//! Does the catalog server tell its clients the truth, whatever happens?
//!
//! Several server processes with the code that runs live (`glidepath_service`, without HTTP) share one simulated store,
//! which holds the catalog and the files of the tables. Client processes commit as Iceberg's client for Java does:
//! after a conflict they delete the files that they wrote. Requests and answers get lost, come late, or are delivered
//! twice, to two servers; servers are killed between any two steps and replaced; the store has the faults of the
//! scenario. A run is a function of (protocol, scenario, seed).
//!
//! What must hold:
//!
//! 1. A snapshot whose commit was acknowledged is in the history of its table once, and in every version after that.
//! 2. What a client was told is not done is in no version of any table.
//! 3. Each version of a table follows from the one that its pointer replaced: no commit is lost.
//! 4. Every file that a table refers to is there.
//! 5. A commit to two tables takes effect in both at once, or in none.
//! 6. A request with a key takes effect once at most, however often it is delivered.
//! 7. A table that is loaded has every snapshot that was acknowledged before the load began.
//! 8. No two tables have files in one folder, or in one that is in a folder of the other.
//! 9. Every client comes to an end, and every request that reached a server that lives is answered.
//!
//! Times of snapshots are far in the future: the crate `iceberg` dates versions without a new snapshot by the clock of
//! the machine. Where the last version is newer than that, the service keeps its time, so nothing depends on the clock.

mod book;
mod client;
mod doubting;
mod folders;
mod judge;
mod lance;
mod looks;
mod names;
mod remains;
mod server;
mod snapshots;
mod wire;

use std::cell::RefCell;
use std::pin::Pin;
use std::rc::Rc;

use glidepath_env::{Env, Key, Payload};
use glidepath_model::{Instant, Span};
use glidepath_protocols::Outcome;
use glidepath_protocols::registry::Protocol;
use glidepath_protocols::upkeep::Keep;
use glidepath_service::{Identifier, Namespace, Warehouse};
use glidepath_sim::{EffectPoint, Faults, Mode, Profile, Setup, SimEnv, Simulation, StoreModel};

use crate::process::Process;
use crate::run::{Ran, calm};
use crate::scenario::Scenario;
use crate::subject::{CatalogKind, Clients, PREFIX, STORE};
use crate::trace;
use book::Book;
use client::Client;
use doubting::Hidden;
use server::Ways;
use wire::{Link, Net};

/// The location of the simulated store.
const BASE: &str = "s3://lake";

/// The location of new tables.
const TABLES: &str = "s3://lake/tables";

/// The namespaces: of all tables, and of second names.
const NAMESPACES: [&str; 2] = ["n", "m"];

/// The time of snapshots, in milliseconds since 1970: later than any clock of a machine that runs this.
const FAR_MS: i64 = 4_102_444_800_000;

/// Every client ends within this simulated time, and every request is answered. It is long because a server that was
/// suspended for two hours has a hundred requests to answer, and may be suspended again by each step of each.
const HORIZON: Span = Span::from_secs(30 * 24 * 3600);

/// The number of servers.
const SERVERS: u32 = 3;

/// Clients that only read.
const READERS: u32 = 1;

/// The most clients and commits of each: runs of this subject have more requests for each commit than others.
const MOST: (u32, u32) = (12, 10);

fn identifier(name: &str) -> Identifier {
    Identifier { namespace: vec![NAMESPACES[0].to_owned()], name: name.to_owned() }
}

/// The objects that a run begins with: a catalog with its tables, and their files.
pub(crate) fn begun(kind: CatalogKind, clients: Clients, tables: u32) -> Result<Vec<(Key, Payload)>, String> {
    let mut simulation = calm([]);
    simulation.keep_writes(STORE);
    let result = Rc::new(RefCell::new(Err("never ended".to_owned())));
    let told = Rc::clone(&result);
    let creator = move |env: SimEnv| async move {
        let done = begin(&env, kind, clients, tables).await;
        *told.borrow_mut() = done;
    };
    simulation.run([(Instant::ZERO, creator)]);
    // In the order in which they were written last: the versions of a catalog follow from the order of writes.
    let mut objects = Vec::new();
    for (key, payload) in simulation.written(STORE) {
        objects.retain(|(written, _)| *written != key);
        objects.push((key, payload));
    }
    result.replace(Ok(())).map(|()| objects)
}

async fn begin(env: &SimEnv, kind: CatalogKind, clients: Clients, tables: u32) -> Result<(), String> {
    let process = Process::new(env.clone());
    let catalog = kind.protocol.open(process.clone(), process.store().clone(), PREFIX);
    match catalog.create_here(kind.creation(Vec::new())).await {
        Outcome::Committed(_) => {}
        other => return Err(format!("{other:?}")),
    }
    // The service with an odd number needs no leader.
    let (service, ..) = server::service(env, kind.protocol, 1, Ways::default(), &Hidden::default());
    let words = |error: glidepath_service::ServiceError| error.to_string();
    service.prepare().await.map_err(words)?;
    for namespace in NAMESPACES {
        let namespace = Namespace { parts: vec![namespace.to_owned()], properties: Default::default() };
        service.create_namespace(&namespace, None).await.map_err(words)?;
    }
    for number in 0..tables {
        let table = identifier(&format!("t{number}"));
        match clients {
            Clients::Iceberg => {
                let new = names::new_table(table, None, "first").ok_or("no schema")?;
                drop(service.create_table(new, None).await.map_err(words)?);
            }
            Clients::Lance => drop(service.declare_lance(lance::managed(table)).await.map_err(words)?),
        }
    }
    Ok(())
}

/// Whether the servers of a run rebase appends: every second pair of seeds.
fn rebases(seed: u64) -> bool {
    seed & 2 != 0
}

/// What a run draws more often than others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Focus {
    /// Nothing.
    All,
    /// Tables that are made, given second names, renamed, dropped and purged.
    Names,
    /// Overwrites.
    Overwrites,
    /// Commits of the catalog whose outcome is not heard.
    Doubts,
}

impl Focus {
    fn of(seed: u64) -> Self {
        [Self::All, Self::Names, Self::Overwrites, Self::Doubts, Self::Doubts, Self::Overwrites, Self::All, Self::Names]
            [(seed % 8) as usize]
    }

    fn ways(self, seed: u64) -> Ways {
        let doubts = if self == Self::Doubts { 0.1 } else { 0.01 };
        Ways { rebases: rebases(seed), doubts, abandons: self == Self::All }
    }
}

/// Runs one seed.
pub(crate) fn run(
    (kind, clients): (CatalogKind, Clients),
    scenario: &Scenario,
    objects: &[(Key, Payload)],
    seed: u64,
    keep_mishaps: bool,
) -> Ran {
    let protocol = kind.protocol;
    let mut simulation = world(scenario, objects, seed);
    if keep_mishaps {
        simulation.keep_mishaps();
    }
    let book = Rc::new(RefCell::new(Book::new(keep_mishaps)));
    let net = Rc::new(Net::new(SERVERS, scenario.writers.count.min(MOST.0) + READERS));
    let counts = simulation.run(processes((protocol, clients), scenario, seed, &book, &net));
    let mut book = book.take();
    let mut checked = book.checked.clone();
    checked.faults = counts.faults;
    checked.situations.extend(net.situations.take());
    let ended = match counts.unfinished {
        0 => Ok(()),
        some => Err(format!("{some} processes have not ended after {HORIZON}: a request was never answered")),
    };
    let judged = match book.violation.take().or(net.violation.take()) {
        Some(violation) => Err(violation),
        None => ended.and_then(|()| match clients {
            Clients::Iceberg => judge::judged(protocol, &simulation, &book, net.hidden.take()),
            Clients::Lance => lance::judged(protocol, &simulation, &book).map(|()| 0),
        }),
    };
    match judged {
        Ok(rebased) => *checked.situations.entry("commits to two tables, rebased").or_default() += rebased,
        Err(violation) => checked.violation = Some(violation),
    }
    Ran { checked, lines: book.lines(), mishaps: trace::events(&simulation, keep_mishaps) }
}

/// The store. Processes die by a draw of their own, because a server dies with all of its requests.
fn world(scenario: &Scenario, objects: &[(Key, Payload)], seed: u64) -> Simulation {
    let profile = Profile::constant(scenario.writers.round_trip);
    let faults = Faults { crash: 0.0, ..scenario.faults };
    let model = StoreModel { faults, effect: EffectPoint::Half, profile };
    let horizon = Instant::ZERO + HORIZON;
    let simulation = Simulation::new(Setup { seed, horizon, mode: Mode::EveryOperation, stores: vec![model] });
    simulation.keep_writes(STORE);
    simulation.share_machines(scenario.writers.machine.max(1));
    for (key, payload) in objects {
        simulation.seed_object(STORE, key, payload.clone());
    }
    simulation
}

type Life = Pin<Box<dyn Future<Output = ()>>>;
type Start = Box<dyn FnOnce(SimEnv) -> Life>;

/// The servers, the clients, and the process that removes old versions of the catalog.
fn processes(
    (protocol, kind): (Protocol, Clients),
    scenario: &Scenario,
    seed: u64,
    book: &Rc<RefCell<Book>>,
    net: &Rc<Net>,
) -> Vec<(Instant, Start)> {
    let (mut writers, faults, focus) = (scenario.writers, scenario.faults, Focus::of(seed));
    (writers.count, writers.commits) = (writers.count.min(MOST.0), writers.commits.min(MOST.1));
    let mut starts = Vec::<Start>::new();
    for number in 0..SERVERS {
        let net = Rc::clone(net);
        starts.push(Box::new(move |env: SimEnv| {
            Box::pin(server::live(env, protocol, number, net, faults, focus.ways(seed)))
        }));
    }
    for number in 0..writers.count + READERS {
        let (net, book, reads) = (Rc::clone(net), Rc::clone(book), number >= writers.count);
        starts.push(Box::new(move |env: SimEnv| {
            let link = Link::of(&faults, writers.round_trip);
            let files = Warehouse::new(env.store(STORE), BASE);
            let mut writers = writers;
            if reads {
                (writers.commits, writers.pause) =
                    (writers.commits * 8, Span::from_nanos(writers.pause.as_nanos() / 8));
            }
            let (rebases, last_key) = (rebases(seed), RefCell::default());
            let client = Client { env, number, net, link, files, book, writers, rebases, focus, reads, kind, last_key };
            Box::pin(client.live(faults.crash / 20.0))
        }));
    }
    if let Some(every) = writers.vacuum_every {
        let net = Rc::clone(net);
        starts.push(Box::new(move |env: SimEnv| {
            Box::pin(async move {
                let catalog = protocol.open(env.clone(), env.store(STORE), PREFIX);
                while !net.is_over() {
                    env.sleep_until(env.now() + every).await;
                    let _ = catalog.vacuum(Keep::LEAST).await;
                }
            })
        }));
    }
    let at = |number: usize| Instant::ZERO + Span::from_millis(number as u64);
    starts.into_iter().enumerate().map(|(number, start)| (at(number), start)).collect()
}
