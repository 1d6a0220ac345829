//! Every protocol on a simulated store; and for each mutant, the points that it breaks.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use glidepath_env::Key;
use glidepath_model::{ByteSize, Instant, Span};
use glidepath_sim::{Mode, Profile, Setup, SimEnv, Simulation, StoreId, StoreModel};

use super::*;
use crate::append_log::{self, AppendLog, Limits};
use crate::catalog::Outcome;
use crate::catalog_file::{self, CatalogFile};
use crate::manifest_chain::{self, Layout, ManifestChain};
use crate::mutant::{self, Mutant};
use crate::tickets::{self, Tickets};

const STORE: StoreId = StoreId(0);

/// The protocols, and the two layouts of a chain.
#[derive(Clone, Copy, Debug)]
enum Which {
    File,
    Log,
    Chain(Layout),
    Tickets,
}

const ALL: [Which; 5] =
    [Which::File, Which::Log, Which::Chain(Layout::Paged), Which::Chain(Layout::Whole), Which::Tickets];

fn file(env: &SimEnv) -> CatalogFile<SimEnv> {
    let shared_state = catalog_file::SharedState::new(Key::new("catalog"), ByteSize::default());
    CatalogFile::new(env.clone(), env.store(STORE), Arc::new(shared_state))
}

/// With segments of few records, so that what is read has also been in a checkpoint.
fn log(env: &SimEnv) -> AppendLog<SimEnv> {
    let limits = Limits { records: 3, ..Limits::default() };
    AppendLog::new(env.clone(), env.store(STORE), Arc::new(append_log::SharedState::new("log", limits)))
}

fn chain(env: &SimEnv) -> ManifestChain<SimEnv> {
    let shared_state = manifest_chain::SharedState::new("chain/", 1 << 20).pages_of(512);
    ManifestChain::new(env.clone(), env.store(STORE), Arc::new(shared_state))
}

fn tickets(env: &SimEnv) -> Tickets<SimEnv> {
    Tickets::new(env.clone(), env.store(STORE), Arc::new(tickets::SharedState::new("")))
}

async fn broken(env: SimEnv, which: Which) -> Vec<Violation> {
    match which {
        Which::File => {
            assert!(matches!(file(&env).create(Vec::new()).await, Outcome::Committed(_)));
            run_all(&file(&env), &file(&env)).await
        }
        Which::Log => {
            assert!(matches!(log(&env).create(Vec::new()).await, Outcome::Committed(_)));
            run_all(&log(&env), &log(&env)).await
        }
        Which::Chain(layout) => {
            assert!(matches!(chain(&env).create(layout, true).await, Outcome::Committed(_)));
            run_all(&chain(&env), &chain(&env)).await
        }
        Which::Tickets => {
            assert!(matches!(tickets(&env).create(Vec::new()).await, Outcome::Committed(_)));
            run_all(&tickets(&env), &tickets(&env)).await
        }
    }
}

fn violations(which: Which) -> Vec<Violation> {
    let model = StoreModel::of(Profile::constant(Span::from_millis(10)));
    let horizon = Instant::ZERO + Span::from_secs(100_000);
    let mut simulation = Simulation::new(Setup { seed: 1, horizon, mode: Mode::EveryOperation, stores: vec![model] });
    let found = Rc::new(RefCell::new(None));
    let told = Rc::clone(&found);
    simulation.run([(Instant::ZERO, move |env: SimEnv| async move {
        *told.borrow_mut() = Some(broken(env, which).await);
    })]);
    drop(simulation);
    found.take().expect("the suite came to its end")
}

#[test]
fn every_protocol_holds_names() {
    for which in ALL {
        assert_eq!(violations(which), [], "{which:?}");
    }
}

#[test]
fn mistakes_break_points() {
    let (chains, fetching) = (&ALL[2..4], &ALL[2..]);
    let mistakes: [(Mutant, &[Which], &str); 8] = [
        (Mutant::UnsetIgnored, &ALL, "properties"),
        (Mutant::ExpectedIgnored, &ALL, "expected-version"),
        (Mutant::PartitionForgotten, &ALL, "advance"),
        (Mutant::AssertionIgnored, &ALL, "assertions"),
        (Mutant::PointerStays, &ALL, "pointer"),
        (Mutant::EmptinessIgnored, fetching, "drop"),
        (Mutant::GrandchildrenStay, chains, "drop-all"),
        (Mutant::RenameLosesProperties, chains, "rename"),
    ];
    for (mutant, those, point) in mistakes {
        for which in those {
            let broken = mutant::with(mutant, || violations(*which));
            let names: Vec<&str> = broken.iter().map(|violation| violation.point.name).collect();
            assert!(names.contains(&point), "{mutant:?} in {which:?} breaks {names:?}");
        }
    }
}
