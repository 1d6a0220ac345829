//! Cells on live and simulated stores: the counts are right.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use glidepath_bench::{Cell, CellSamples, Design, Machine, Operation, Protocol, Scratch, Start, fill, predict, work};
use glidepath_env::{Key, ObjectStore};
use glidepath_model::Span;
use glidepath_protocols::Catalog;
use glidepath_protocols::manifest_chain::{Layout, ManifestChain, SharedState};
use glidepath_sim::Profile;
use glidepath_stores::{LiveEnv, Options, Store, open};

/// Never set.
static NEVER: AtomicBool = AtomicBool::new(false);

/// Limited by operations: how many fit into a time depends on the load of the machine.
const CELL: Cell = Cell {
    design: Design { protocol: Protocol::ManifestChain, layout: Some(Layout::Paged), indexed: Some(true) },
    operation: Operation::Commit,
    start: Start::Warm,
    rows: 300,
    writers: 8,
    grouped: true,
    processes: false,
    duration: Span::ZERO,
    least: 20,
    added_latency: Span::from_millis(5),
};

fn on_disk(folder: &tempfile::TempDir) -> Store {
    open(&format!("file://{}", folder.path().display()), &Options::default()).unwrap()
}

fn run(store: &Store, place: &str, cell: &Cell) -> CellSamples {
    work(store, place, cell, 0, &AtomicBool::new(false)).unwrap()
}

fn entries(store: &Store, prefix: &str) -> u64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let chain = ManifestChain::new(LiveEnv::new(), store.clone(), Arc::new(SharedState::new(prefix, 1 << 20)));
    runtime.block_on(chain.load()).unwrap().entries()
}

#[test]
fn every_commit_that_is_counted_is_in_the_catalog() {
    let folder = tempfile::tempdir().unwrap();
    let store = on_disk(&folder);
    let scratch = Scratch::new(store.clone());
    let origin = format!("{}origin/", scratch.prefix());
    let mut filled = 0;
    fill(&store, &origin, CELL.design, CELL.rows, |rows| {
        filled = rows;
        true
    })
    .unwrap();
    assert_eq!(filled, CELL.rows);
    // Eight clients that commit separately often conflict, and back off longer each time.
    for cell in [CELL, Cell { grouped: false, least: 4, ..CELL }] {
        let folder = format!("copy-{}", cell.grouped);
        let place = format!("{}{folder}/", scratch.prefix());
        scratch.copy("origin", &folder).unwrap();
        let outcome = run(&store, &place, &cell);
        let figures = outcome.figures();
        assert_eq!(figures.errors, 0, "{:?}", outcome.errors);
        assert_eq!(figures.operations, u64::from(cell.writers) * cell.least);
        assert_eq!(entries(&store, &place), cell.rows + figures.operations);
        // A shared commit takes less than one request per operation; a separate one at least one.
        assert_eq!(figures.requests_per_operation < 1.0, cell.grouped, "{figures:?}");
    }
    assert_eq!(entries(&store, &origin), CELL.rows);
    scratch.remove().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let left = runtime.block_on(store.list(&Key::new(""), None, 10)).unwrap();
    assert!(left.objects.is_empty(), "{left:?}");
}

#[test]
fn a_filled_place_is_not_filled_again() {
    let folder = tempfile::tempdir().unwrap();
    let store = on_disk(&folder);
    fill(&store, "here/", CELL.design, CELL.rows, |_| true).unwrap();
    let error = fill(&store, "here/", CELL.design, CELL.rows, |_| true).unwrap_err().to_string();
    assert!(error.contains("a catalog already"), "{error}");
}

#[test]
fn the_simulation_knows_what_shared_commits_are_worth() {
    let profile = Profile::constant(Span::from_millis(30));
    let cell = Cell { duration: Span::from_secs(10), added_latency: Span::ZERO, ..CELL };
    let rate = |writers: u32, grouped: bool, processes: bool| {
        let cell = Cell { writers, grouped, processes, ..cell };
        let figures = predict(&profile, &Machine::boundless(), &cell, 1, &NEVER).unwrap().figures();
        assert!(figures.operations > 100, "{figures:?}");
        figures.operations_per_s
    };
    let alone = rate(1, true, false);
    // A put of 30 ms for each, and a hint for every sixteenth.
    assert!((30.0..33.4).contains(&alone), "{alone}");
    let (shared, apart) = (rate(200, true, false), rate(16, true, true));
    assert!(shared > 50.0 * alone, "{shared}");
    assert!(apart < alone, "{apart}");
    let latencies = || predict(&profile, &Machine::boundless(), &cell, 7, &NEVER).unwrap().latencies_ns;
    assert_eq!(latencies(), latencies());
}

#[test]
fn reads_find_what_is_there_live_and_simulated() {
    let store = open("memory:", &Options::default()).unwrap();
    let profile = Profile::constant(Span::from_millis(30));
    let whole = Design::chain(Layout::Whole, true);
    for design in [CELL.design, whole, Design::of(Protocol::AppendLog), Design::of(Protocol::CatalogFile)] {
        let place = format!("{design:?}/");
        fill(&store, &place, design, CELL.rows, |_| true).unwrap();
        for operation in [Operation::Describe, Operation::Exists, Operation::List] {
            let mut requests = Vec::new();
            for start in Start::ALL {
                let cell = Cell { design, operation, start, ..CELL };
                let live = run(&store, &place, &cell);
                let long = Cell { duration: Span::from_secs(10), added_latency: Span::ZERO, ..cell };
                let simulated = predict(&profile, &Machine::boundless(), &long, 1, &NEVER).unwrap();
                for outcome in [&live, &simulated] {
                    assert_eq!(outcome.figures().errors, 0, "{cell:?} {:?}", outcome.errors);
                    assert!(outcome.figures().operations >= 8 * cell.least, "{cell:?}");
                }
                requests.push(simulated.figures().requests_per_operation);
            }
            assert!(requests[0] <= requests[1], "{design:?} {operation:?}: {requests:?}");
        }
    }
}

#[test]
fn clients_wait_for_processors() {
    let profile = Profile::constant(Span::from_millis(1));
    let cell = Cell {
        writers: 20,
        grouped: false,
        processes: true,
        duration: Span::from_secs(10),
        operation: Operation::Describe,
        ..CELL
    };
    let cell = Cell { added_latency: Span::ZERO, ..cell };
    let rate = |machine: Machine| predict(&profile, &machine, &cell, 1, &NEVER).unwrap().figures().operations_per_s;
    // A read of 1 ms for each; then also half a millisecond of one of two processors.
    let free = rate(Machine::boundless());
    assert!((19_000.0..20_001.0).contains(&free), "{free}");
    let busy = Machine { processors: 2, per_request: Span::ZERO, per_operation: Span::from_nanos(500_000) };
    assert!((3_900.0..4_010.0).contains(&rate(busy)), "{}", rate(busy));
    let busy = Machine { processors: 2, per_request: Span::from_nanos(500_000), per_operation: Span::ZERO };
    assert!((3_900.0..4_010.0).contains(&rate(busy)), "{}", rate(busy));
    let ours = Machine::here(&open("memory:", &Options::default()).unwrap(), "here/").unwrap();
    let ours = ours.working(&CELL, Span::from_millis(1), &AtomicBool::new(false)).unwrap();
    assert!(ours.processors > 0 && ours.per_operation > Span::ZERO, "{ours:?}");
}

#[test]
fn what_a_store_cannot_do_is_not_predicted() {
    let profile = Profile { append: None, ..Profile::constant(Span::from_millis(1)) };
    let cell = Cell { design: Design::of(Protocol::AppendLog), ..CELL };
    let error = predict(&profile, &Machine::boundless(), &cell, 1, &NEVER).unwrap_err().to_string();
    assert!(error.contains("cannot append"), "{error}");
}

#[test]
fn who_says_stop_is_not_made_to_wait() {
    static NOW: AtomicBool = AtomicBool::new(true);
    let profile = Profile::constant(Span::from_millis(1));
    let long = Cell { duration: Span::from_secs(1_000_000), rows: 1_000_000, ..CELL };
    let error = predict(&profile, &Machine::boundless(), &long, 1, &NOW).unwrap_err().to_string();
    assert!(error.contains("stopped"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let error = fill(&on_disk(&folder), "here/", CELL.design, 1_000_000, |_| false).unwrap_err().to_string();
    assert!(error.contains("stopped"), "{error}");
    let few = Cell { rows: 0, ..long };
    assert!(predict(&profile, &Machine::boundless(), &few, 1, &NOW).unwrap().latencies_ns.is_empty());
}
