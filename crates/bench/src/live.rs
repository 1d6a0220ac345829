//! How does a cell run on a live store? Its clients are threads of this process.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use glidepath_env::Env;
use glidepath_protocols::group::{Group, Leader, Persistence};
use glidepath_stores::{LiveEnv, Store};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;

use crate::cell::{Cell, Outcome};
use crate::client::Client;
use crate::counted::Counted;
use crate::design::Design;
use crate::scratch::ScratchError;
use crate::subject::{Chain, File, FillError, Log, Subject};

/// Why a cell could not be run.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The machine refuses threads or timers.
    #[error("cannot start: {0}")]
    Start(#[from] std::io::Error),
    /// The catalog could not be filled.
    #[error(transparent)]
    Fill(#[from] FillError),
    /// It could not be copied or removed.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
}

pub(crate) fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
}

/// Fills a catalog at `prefix` (ending in `/`) with so many entries. `progress` is told how many there are, and says whether
/// to go on.
///
/// # Errors
/// [`LiveError`]
pub fn fill(
    store: &Store,
    prefix: &str,
    design: Design,
    rows: u64,
    progress: impl FnMut(u64) -> bool,
) -> Result<(), LiveError> {
    match design {
        Design::CatalogFile => fill_one::<File>(store, prefix, design, rows, progress),
        Design::AppendLog => fill_one::<Log>(store, prefix, design, rows, progress),
        Design::ManifestChain { .. } => fill_one::<Chain>(store, prefix, design, rows, progress),
    }
}

fn fill_one<S: Subject>(
    store: &Store,
    prefix: &str,
    design: Design,
    rows: u64,
    progress: impl FnMut(u64) -> bool,
) -> Result<(), LiveError> {
    let catalog = S::catalog(LiveEnv::new(), store.clone(), Arc::new(S::place(prefix)));
    Ok(runtime()?.block_on(S::fill(&catalog, design, rows, progress))?)
}

/// Runs the clients of a cell against the catalog at `prefix`, until its time is over and each has done as many
/// operations as it must, or `stop` is set. They are threads of this process, numbered from `first` on, which several processes
/// must choose so that they are not in each other's way.
///
/// # Errors
/// [`LiveError::Start`]; what goes wrong with operations is part of the outcome.
pub fn work(store: &Store, prefix: &str, cell: &Cell, first: u32, stop: &AtomicBool) -> Result<Outcome, LiveError> {
    match cell.design {
        Design::CatalogFile => work_on::<File>(store, prefix, cell, first, stop),
        Design::AppendLog => work_on::<Log>(store, prefix, cell, first, stop),
        Design::ManifestChain { .. } => work_on::<Chain>(store, prefix, cell, first, stop),
    }
}

type Live = Counted<LiveEnv>;

fn work_on<S: Subject>(
    store: &Store,
    prefix: &str,
    cell: &Cell,
    first: u32,
    stop: &AtomicBool,
) -> Result<Outcome, LiveError>
where
    Group<S::Catalog<Live>>: Send + Sync,
    Leader<Live, S::Catalog<Live>>: Send,
{
    let runtime = runtime()?;
    let env = Counted::new(LiveEnv::new(), store.clone(), cell.added_latency);
    let (place, group) = (Arc::new(S::place(prefix)), Group::<S::Catalog<Live>>::default());
    let catalog = S::catalog(env.clone(), env.clone(), Arc::clone(&place));
    let leader = Leader::new(env.clone(), catalog, &group, Persistence::default());
    let (began_ns, processor) = (unix_ns(), processor_ns());
    let until = env.now() + cell.duration;
    let outcomes = std::thread::scope(|scope| {
        let handle = runtime.handle().clone();
        scope.spawn(move || leader.map(|leader| handle.block_on(leader.lead())));
        let start = |number| {
            let (handle, env, prefix) = (runtime.handle(), env.clone(), prefix.to_owned());
            let (place, group) = (Arc::clone(&place), group.clone());
            scope.spawn(move || {
                let client = Client::<S, LiveEnv> { env, prefix, place, group, number };
                handle.block_on(client.work(cell, until, || stop.load(Ordering::Relaxed)))
            })
        };
        let clients: Vec<_> = (first..first + cell.writers).map(start).collect();
        // The leader ends with the last client.
        drop(group);
        clients
            .into_iter()
            .map(|client| client.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    });
    let mut outcome = Outcome::joined(outcomes);
    (outcome.began_ns, outcome.ended_ns) = (began_ns, unix_ns());
    outcome.processor_ns = processor_ns() - processor;
    env.counters().add_to(&mut outcome);
    Ok(outcome)
}

fn unix_ns() -> u64 {
    let time = clock_gettime(ClockId::Realtime);
    u64::try_from(time.tv_sec).unwrap_or_default() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default()
}

/// Of this process, so far.
pub(crate) fn processor_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec).unwrap_or_default() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default()
}
