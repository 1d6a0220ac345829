//! Runs one point with one seed.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use futures_util::future::Either;
use glidepath_env::{Key, Payload};
use glidepath_model::{Instant, Span, TableId, TableState};
use glidepath_protocols::Catalog;
use glidepath_protocols::Outcome::Committed;
use glidepath_protocols::registry::{Creation, Design, Settings, Visitor};
use glidepath_sim::{Counts, Mode, Profile, Setup, SimEnv, SimStore, Simulation, StoreId, StoreModel, Stream};
use glidepath_workload::{
    Arrival, ArrivalTimes, Client, End, Intent, Kind, Record, Requests, TablePicker, Workload, manifest_list_key,
};

use crate::config::{Balance, Point, window};
use crate::load::expected_arrivals;
use crate::server::{Lead, Life, Server};

/// The catalog's prefix in its store.
const PREFIX: &str = "";

/// The store of the tables.
const TABLES: StoreId = StoreId(0);

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct SimulatedRun {
    /// Transactions that arrived within the duration and ended within the run, in the order of their arrival.
    pub records: Vec<Record>,
    /// Arrival time and kind of each transaction, ended or not, within the duration.
    pub arrivals: Vec<(Instant, Kind)>,
    /// Of these, those that had not ended when the run did, in the order of arrival.
    pub open: Vec<Open>,
    /// When the run ended: later than its duration only if it continued for transactions of the window.
    pub ended: Instant,
    /// The counts of the engine.
    pub counts: Counts,
}

/// A transaction that had not ended when its run did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// When it arrived.
    pub arrived: Instant,
    /// When its work ends, without the first read of the catalog.
    pub work_done: Instant,
    /// Its kind.
    pub kind: Kind,
}

/// The progress of a run, for callers that may stop it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Underway {
    /// Events so far.
    pub events: u64,
    /// Transactions that have arrived and not ended, also those that are not counted.
    pub at_once: u64,
    /// Of the transactions that [decide](Point::overwrites_decide) and whose work ended in the window: those that ended
    /// without a commit.
    pub failed: u64,
    /// When the next transaction arrives, or the last one did: about the time that the run has reached.
    pub reached: Instant,
}

/// State shared by all processes of a run.
struct Scene {
    workload: Workload,
    requests: Requests,
    picker: TablePicker,
    window: Range<Instant>,
    /// Transactions that arrive later are load and are not counted.
    last_arrival: Instant,
    /// The latest end of the run.
    horizon: Instant,
    /// When the next transaction arrives.
    next_arrival: Cell<Instant>,
    /// Whether all transactions that count have arrived.
    complete: Cell<bool>,
    /// Transactions that have not ended.
    at_once: Cell<u64>,
    /// Those of the window.
    waiting: Cell<u64>,
    /// The latest end of a transaction of the window so far.
    settled: Cell<Instant>,
    /// In the order of arrival; `None` for one that has not ended.
    records: RefCell<Vec<Option<Record>>>,
    arrivals: RefCell<Vec<(Instant, Kind)>>,
    /// The runtime of each.
    runtimes: RefCell<Vec<Span>>,
    overwrites_decide: bool,
    /// The count of [`Underway::failed`].
    failed: Cell<u64>,
}

/// The process number that stands for the source of arrivals.
const SOURCE: u64 = 0;

/// Simulates a point. The same point, seed and mode give the same outcome; with the protocol `catalog-file` both modes
/// do.
///
/// With protocols whose handles [share](Design::SHARES) what they know of the catalog, all transactions share it, like
/// long-lived clients, and every operation is an event in both modes, so that no transaction sees knowledge from its
/// future.
#[must_use]
pub fn simulate(point: &Point, seed: u64, mode: Mode) -> SimulatedRun {
    simulate_while(point, seed, mode, &mut |_| true)
}

/// The same, but sometimes asks whether to continue; if not, the run ends, and the outcome covers that part only.
pub fn simulate_while(point: &Point, seed: u64, mode: Mode, go_on: &mut dyn FnMut(Underway) -> bool) -> SimulatedRun {
    point.config.catalog.protocol.visit(Simulated { point, seed, mode, go_on })
}

struct Simulated<'a> {
    point: &'a Point,
    seed: u64,
    mode: Mode,
    go_on: &'a mut dyn FnMut(Underway) -> bool,
}

impl Visitor for Simulated<'_> {
    type Output = SimulatedRun;

    fn visit<D: Design>(self) -> SimulatedRun {
        let Self { point, seed, mode, go_on } = self;
        let mode = if D::SHARES { Mode::EveryOperation } else { mode };
        let process = || {
            let shared_state = Arc::new(D::shared_state(PREFIX, &settings(point)));
            move |env, store| D::open(env, store, Arc::clone(&shared_state))
        };
        let Some(way) = point.config.catalog.server else {
            let open = process();
            return run(point, seed, mode, go_on, move |env, store, _| open(env, store), Vec::new());
        };
        let count = point.config.catalog.servers();
        let servers: Vec<_> =
            (0..count).map(|_| (Server::new(way, count == 1, point.served_tables()), process())).collect();
        let leads = servers.iter().map(|(server, open)| server.leader(open.clone())).collect();
        let balance = point.config.catalog.balance;
        let open = move |env: SimEnv, store, intent: &Intent| {
            let number = match balance {
                Balance::InTurn => env.process(),
                Balance::ByTable => intent.table().0,
            };
            let (server, open) = &servers[number as usize % servers.len()];
            server.client(env.clone(), open(env.clone(), store), env.store(TABLES), intent.kind)
        };
        run(point, seed, Mode::EveryOperation, go_on, open, leads)
    }
}

fn settings(point: &Point) -> Settings {
    Settings { metadata_per_table: point.filler_per_table(), ..Settings::default() }
}

fn run<C: Catalog + 'static>(
    point: &Point,
    seed: u64,
    mode: Mode,
    go_on: &mut dyn FnMut(Underway) -> bool,
    open: impl Fn(SimEnv, SimStore, &Intent) -> C + 'static,
    leads: Vec<Lead>,
) -> SimulatedRun {
    let (stores, catalog_store, table_store) = stores(point);
    let scene = Rc::new(Scene::new(point));
    let horizon = scene.horizon;
    let mut simulation = Simulation::new(Setup { seed, horizon, mode, stores });
    put_in_place(&simulation, point, catalog_store, table_store);
    let (mut luck, open) = (Stream::keyed(seed, SOURCE, 0), Rc::new(open));
    let arrivals = ArrivalTimes::new(&point.config.arrivals, move || luck.draw());
    let arrivals = arrivals.inspect(|next| {
        scene.next_arrival.set(next.at);
        scene.complete.set(next.at > scene.last_arrival);
    });
    let clients = arrivals.take_while(|next| next.at <= horizon).map(|Arrival { at, table }| {
        let (scene, open) = (Rc::clone(&scene), Rc::clone(&open));
        let start = move |env: SimEnv| {
            let intent = Intent::draw(&env, &scene.workload, &scene.picker, table);
            let catalog = open(env.clone(), env.store(catalog_store), &intent);
            let tables = env.store(table_store);
            transact(env, scene, catalog, tables, intent)
        };
        (at, Start::Client(start))
    });
    let servers = leads.into_iter().map(|lead| (Instant::ZERO, Start::Server(lead, catalog_store)));
    let starts = servers.chain(clients).map(|(at, start)| (at, move |env: SimEnv| start.run(env)));
    let counts = simulation.run_while(starts, |events| {
        let (at_once, failed, reached) = (scene.at_once.get(), scene.failed.get(), scene.next_arrival.get());
        go_on(Underway { events, at_once, failed, reached })
    });
    drop(simulation);
    let ended = scene.end().unwrap_or(horizon);
    // Transactions that end after the run count as not ended.
    let (arrivals, mut records, mut open) = (scene.arrivals.take(), Vec::new(), Vec::new());
    records.reserve_exact(arrivals.len());
    for ((record, &(arrived, kind)), runtime) in
        scene.records.take().into_iter().zip(&arrivals).zip(scene.runtimes.take())
    {
        match record.filter(|record| record.ended <= ended) {
            Some(record) => records.push(record),
            None => open.push(Open { arrived, work_done: arrived + runtime, kind }),
        }
    }
    SimulatedRun { records, arrivals, open, ended, counts }
}

impl Scene {
    fn new(point: &Point) -> Self {
        let workload = point.config.workload();
        // A growing list is temporarily in memory twice, and there is a run on every core.
        let expected = (1.01 * expected_arrivals(point)).min(1e6) as usize;
        let last_arrival = Instant::ZERO + point.config.duration;
        Self {
            requests: Requests::new(&workload),
            workload,
            picker: TablePicker::new(&point.config.tables),
            window: window(point.config.duration),
            last_arrival,
            horizon: last_arrival + point.config.run_on,
            next_arrival: Cell::new(Instant::ZERO),
            complete: Cell::new(false),
            at_once: Cell::new(0),
            waiting: Cell::new(0),
            settled: Cell::new(Instant::ZERO),
            records: RefCell::new(Vec::with_capacity(expected)),
            arrivals: RefCell::new(Vec::with_capacity(expected)),
            runtimes: RefCell::new(Vec::with_capacity(expected)),
            overwrites_decide: point.overwrites_decide(),
            failed: Cell::new(0),
        }
    }

    /// When the run ends, if all that arrived in the window have ended.
    fn end(&self) -> Option<Instant> {
        let settled = self.settled.get().max(self.last_arrival);
        (self.complete.get() && self.waiting.get() == 0 && settled <= self.horizon).then_some(settled)
    }

    /// Records an arrival, and returns its index.
    fn arrive(&self, at: Instant, kind: Kind, runtime: Span) -> usize {
        self.waiting.set(self.waiting.get() + u64::from(self.window.contains(&at)));
        self.arrivals.borrow_mut().push((at, kind));
        self.runtimes.borrow_mut().push(runtime);
        let mut records = self.records.borrow_mut();
        records.push(None);
        records.len() - 1
    }

    /// Records how it ended.
    fn leave(&self, place: usize, record: Record) {
        if self.window.contains(&record.arrived) {
            self.waiting.set(self.waiting.get() - 1);
            self.settled.set(self.settled.get().max(record.ended));
        }
        if self.window.contains(&record.work_done) {
            let decides = !self.overwrites_decide || record.kind == Kind::ValidatedOverwrite;
            let failed = decides && record.end != End::Committed && record.ended <= self.horizon;
            self.failed.set(self.failed.get() + u64::from(failed));
        }
        self.records.borrow_mut()[place] = Some(record);
    }
}

/// The number of arrivals in the window of a run, exactly as in the simulation.
pub fn arrivals_in_window(point: &Point, seed: u64) -> u64 {
    let (mut luck, window) = (Stream::keyed(seed, SOURCE, 0), window(point.config.duration));
    let arrivals = ArrivalTimes::new(&point.config.arrivals, move || luck.draw());
    let before_its_end = arrivals.take_while(|arrival| arrival.at < window.end);
    before_its_end.filter(|arrival| arrival.at >= window.start).count() as u64
}

/// One transaction. (Not an async fn, which would store its arguments twice.)
#[expect(clippy::manual_async_fn)]
fn transact<C: Catalog>(
    env: SimEnv,
    scene: Rc<Scene>,
    catalog: C,
    tables: SimStore,
    intent: Intent,
) -> impl Future<Output = ()> {
    async move {
        let Scene { workload, requests, .. } = &*scene;
        let client = Client { env: &env, catalog: &catalog, store: &tables, workload, requests };
        let now = glidepath_env::Env::now(&env);
        let place = (now <= scene.last_arrival).then(|| scene.arrive(now, intent.kind, intent.runtime));
        scene.at_once.set(scene.at_once.get() + 1);
        let record = client.run(intent).await;
        scene.at_once.set(scene.at_once.get() - 1);
        if let Some(place) = place {
            scene.leave(place, record);
        }
        if let Some(end) = scene.end() {
            env.end_run_after(end);
        }
    }
}

/// The process of a transaction, or that of a server.
enum Start<F> {
    Client(F),
    Server(Lead, StoreId),
}

impl<F: FnOnce(SimEnv) -> T, T: Future<Output = ()>> Start<F> {
    fn run(self, env: SimEnv) -> Either<T, Life> {
        match self {
            Self::Client(start) => Either::Left(start(env)),
            Self::Server(lead, store) => Either::Right(lead(env.clone(), env.store(store))),
        }
    }
}

/// The stores of a point: which has the catalog, and which the tables.
fn stores(point: &Point) -> (Vec<StoreModel>, StoreId, StoreId) {
    let effect = point.config.catalog.effect;
    let of = |profile: Profile| StoreModel { effect, ..StoreModel::of(profile) };
    let tables = of(point.profile.clone());
    let latency = point.config.catalog.latency.map(Profile::constant);
    match latency.or_else(|| point.catalog_profile.clone()) {
        None => (vec![tables], TABLES, TABLES),
        Some(catalog) => (vec![tables, of(catalog)], StoreId(1), TABLES),
    }
}

/// Writes the objects that exist before the first transaction.
fn put_in_place(simulation: &Simulation, point: &Point, catalog: StoreId, tables: StoreId) {
    let spec = &point.config.tables;
    for (key, payload) in fresh_catalog(point) {
        simulation.seed_object(catalog, &key, payload);
    }
    if point.appends_to_lists() {
        for id in 0..spec.count {
            let list = Payload { filler: spec.manifest_list_size, ..Payload::default() };
            simulation.seed_object(tables, &manifest_list_key(TableId(id)), list);
        }
    }
}

/// The objects of a catalog with the point's tables, created by the protocol in a separate simulation.
fn fresh_catalog(point: &Point) -> BTreeMap<Key, Payload> {
    let spec = &point.config.tables;
    let tables = (0..spec.count).map(|id| (TableId(id), TableState::new(spec.partitions as usize))).collect();
    point.config.catalog.protocol.visit(Fresh { settings: settings(point), tables })
}

struct Fresh {
    settings: Settings,
    tables: Vec<(TableId, TableState)>,
}

impl Visitor for Fresh {
    type Output = BTreeMap<Key, Payload>;

    fn visit<D: Design>(self) -> BTreeMap<Key, Payload> {
        let store = StoreId(0);
        let stores = vec![StoreModel::of(Profile::constant(Span::from_millis(1)))];
        let horizon = Instant::ZERO + Span::from_secs(3600);
        let mut simulation = Simulation::new(Setup { seed: SOURCE, horizon, mode: Mode::EveryOperation, stores });
        let create = move |env: SimEnv| async move {
            let shared_state = Arc::new(D::shared_state(PREFIX, &self.settings));
            let catalog = D::open(env.clone(), env.store(store), shared_state);
            let created = D::create(&catalog, Creation { tables: self.tables, ..Creation::default() }).await;
            assert!(matches!(created, Committed(_)), "creating a catalog in a store without faults succeeds");
        };
        assert_eq!(simulation.run([(Instant::ZERO, create)]).unfinished, 0, "the creation of a catalog came to no end");
        simulation.objects(store)
    }
}
