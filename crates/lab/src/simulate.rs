//! Runs one point with one seed.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use glidepath_env::{Key, Payload};
use glidepath_model::{CommitId, Instant, Root, TableId, TableState, Version};
use glidepath_protocols::catalog_file::{CatalogFile, File, Place};
use glidepath_sim::{Counts, Mode, Profile, Setup, SimEnv, Simulation, StoreId, StoreModel, Stream};
use glidepath_workload::{Arrival, ArrivalTimes, Client, Kind, Record, TablePicker, Workload, manifest_list_key};

use crate::config::Point;

/// What came of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Transactions that ended within the run, in the order of their arrival.
    pub records: Vec<Record>,
    /// When each transaction arrived and what kind it was, ended or not.
    pub arrivals: Vec<(Instant, Kind)>,
    /// What the engine did.
    pub counts: Counts,
}

/// What all processes of a run share.
struct Scene {
    workload: Workload,
    picker: TablePicker,
    place: Arc<Place>,
    horizon: Instant,
    records: RefCell<Vec<(u32, Record)>>,
    arrivals: RefCell<Vec<(Instant, Kind)>>,
}

const CATALOG_KEY: &str = "catalog";
/// The process number that stands for the source of arrivals.
const SOURCE: u64 = 0;

/// Simulates a point. The same point, seed and mode give the same outcome; so do both modes.
#[must_use]
pub fn simulate(point: &Point, seed: u64, mode: Mode) -> Outcome {
    let horizon = Instant::ZERO + point.config.duration;
    let (stores, catalog_store, table_store) = stores(point);
    let mut simulation = Simulation::new(Setup { seed, horizon, mode, stores });
    let scene = Rc::new(Scene {
        workload: point.config.workload(),
        picker: TablePicker::new(&point.config.tables),
        place: Arc::new(Place::new(Key::new(CATALOG_KEY), point.filler_per_table())),
        horizon,
        records: RefCell::default(),
        arrivals: RefCell::default(),
    });
    furnish(&simulation, point, &scene, catalog_store, table_store);
    let mut luck = Stream::keyed(seed, SOURCE, 0);
    let arrivals = ArrivalTimes::new(&point.config.arrivals, move || luck.draw());
    let starts = arrivals.take_while(|arrival| arrival.at <= horizon).map(|Arrival { at, table }| {
        let scene = Rc::clone(&scene);
        (at, move |env: SimEnv| transact(env, scene, catalog_store, table_store, table))
    });
    let counts = simulation.run(starts);
    drop(simulation);
    let mut records = scene.records.take();
    records.sort_unstable_by_key(|(process, _)| *process);
    let records = records.into_iter().map(|(_, record)| record).collect();
    Outcome { records, arrivals: scene.arrivals.take(), counts }
}

async fn transact(env: SimEnv, scene: Rc<Scene>, catalog: StoreId, tables: StoreId, aimed: Option<TableId>) {
    let catalog = CatalogFile::new(env.clone(), env.store(catalog), Arc::clone(&scene.place));
    let client = Client {
        env: &env,
        catalog: &catalog,
        store: &env.store(tables),
        workload: &scene.workload,
        picker: &scene.picker,
    };
    let intent = client.intend(aimed);
    scene.arrivals.borrow_mut().push((glidepath_env::Env::now(&env), intent.kind));
    let record = client.run(intent).await;
    // What ends after the run has not ended.
    if record.ended <= scene.horizon {
        scene.records.borrow_mut().push((env.process(), record));
    }
}

/// The stores of a point, and which of them has the catalog and which the tables.
fn stores(point: &Point) -> (Vec<StoreModel>, StoreId, StoreId) {
    let effect = point.config.catalog.effect;
    let of = |profile: Profile| StoreModel { effect, ..StoreModel::of(profile) };
    let tables = of(point.profile.clone());
    match point.config.catalog.latency {
        None => (vec![tables], StoreId(0), StoreId(0)),
        Some(latency) => (vec![tables, of(Profile::constant(latency))], StoreId(1), StoreId(0)),
    }
}

/// Puts in place what exists before the first transaction.
fn furnish(simulation: &Simulation, point: &Point, scene: &Scene, catalog: StoreId, tables: StoreId) {
    let spec = &point.config.tables;
    let states = (0..spec.count).map(|id| (TableId(id), TableState::new(spec.partitions as usize))).collect();
    let root = Root::from_parts(Version(0), CommitId(0), states);
    let root = root.unwrap_or_else(|| panic!("tables numbered from 0 are in order"));
    simulation.seed_object(catalog, &Key::new(CATALOG_KEY), scene.place.payload(&File::first(root)));
    if point.appends_to_lists() {
        for id in 0..spec.count {
            let list = Payload { filler: spec.manifest_list_size, ..Payload::default() };
            simulation.seed_object(tables, &manifest_list_key(TableId(id)), list);
        }
    }
}
