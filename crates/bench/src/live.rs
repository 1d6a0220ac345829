//! How does a cell run on a live store? Its clients are threads of this process.

use std::sync::atomic::{AtomicBool, Ordering};

use glidepath_env::Env;
use glidepath_model::Span;
use glidepath_protocols::group::{Group, Leader, RetryPolicy};
use glidepath_protocols::registry::Settings;
use glidepath_stores::{LiveEnv, Store};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;

use crate::cell::{Cell, CellSamples};
use crate::client::Client;
use crate::counted::CountedWorld;
use crate::design::Design;
use crate::rows::{self, FillError};
use crate::scratch::ScratchError;

/// Why a cell was not run.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The machine refuses threads or timers.
    #[error("cannot start: {0}")]
    Start(#[from] std::io::Error),
    /// The catalog could not be filled.
    #[error(transparent)]
    Fill(#[from] FillError),
    /// The catalog could not be copied or removed.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
}

pub(crate) fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
}

/// Fills a catalog at `prefix` (ending in `/`) with `rows` entries. `progress` gets the number of entries so far, and
/// returns whether to continue.
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
    // In the world of the clients, because protocols take long to compile for each.
    let world = CountedWorld::new(LiveEnv::new(), store.clone(), Span::ZERO);
    let catalog = design.protocol.open(world.clone(), world, prefix);
    Ok(runtime()?.block_on(rows::fill(&catalog, design, rows, progress))?)
}

/// Runs the clients of a cell against the catalog at `prefix`, until its time is over and each has done as many
/// operations as it must, or `stop` is set. They are threads of this process, numbered from `first` on; several
/// processes must choose disjoint numbers.
///
/// # Errors
/// [`LiveError::Start`]; errors of operations are part of the outcome.
pub fn work(store: &Store, prefix: &str, cell: &Cell, first: u32, stop: &AtomicBool) -> Result<CellSamples, LiveError> {
    let runtime = runtime()?;
    let env = CountedWorld::new(LiveEnv::new(), store.clone(), cell.added_latency);
    let (shared_state, group) = (cell.design.protocol.shared_state(prefix, &Settings::default()), Group::default());
    let catalog = shared_state.open(env.clone(), env.clone());
    let leader = Leader::new(env.clone(), catalog, &group, RetryPolicy::default());
    if cell.begins_warm() {
        // With counters of its own.
        let env = CountedWorld::new(LiveEnv::new(), store.clone(), cell.added_latency);
        let (prefix, shared_state, group) = (prefix.to_owned(), shared_state.clone(), Group::default());
        runtime.block_on(Client::<LiveEnv> { env, prefix, shared_state, group, number: first }.warm(cell));
    }
    let (began_ns, processor) = (machine_ns(), processor_ns());
    let until = env.now() + cell.duration;
    let outcomes = std::thread::scope(|scope| {
        let handle = runtime.handle().clone();
        scope.spawn(move || leader.map(|leader| handle.block_on(leader.lead())));
        let start = |number| {
            let (handle, env, prefix) = (runtime.handle(), env.clone(), prefix.to_owned());
            let (shared_state, group) = (shared_state.clone(), group.clone());
            scope.spawn(move || {
                let client = Client::<LiveEnv> { env, prefix, shared_state, group, number };
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
    let mut outcome = CellSamples::joined(outcomes);
    (outcome.began_ns, outcome.ended_ns) = (began_ns, machine_ns());
    outcome.processor_ns = processor_ns() - processor;
    env.counters().add_to(&mut outcome);
    Ok(outcome)
}

/// A clock that all processes of this machine share, and that nobody sets.
fn machine_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    u64::try_from(time.tv_sec).unwrap_or_default() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default()
}

/// Processor time of this process so far.
pub(crate) fn processor_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec).unwrap_or_default() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default()
}
