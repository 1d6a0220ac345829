//! A cell on a live store: threads of this process.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use glidepath_env::Env;
use glidepath_protocols::group::{Committer, Group, Persistence};
use glidepath_protocols::manifest_chain::{ManifestChain, Place};
use glidepath_stores::{LiveEnv, Store};
use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Runtime;

use crate::cell::{Cell, Outcome};
use crate::counted::Counted;
use crate::scratch::ScratchError;
use crate::seed::{SeedError, seed};
use crate::writer::write;

/// Pages kept at hand by a process.
const CACHE_BYTES: usize = 128 << 20;

/// Why a cell could not be run.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The machine refuses threads or timers.
    #[error("cannot start: {0}")]
    Start(#[from] std::io::Error),
    /// The catalog could not be filled.
    #[error(transparent)]
    Seed(#[from] SeedError),
    /// It could not be copied or removed.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
}

pub(crate) fn runtime() -> std::io::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()
}

/// Fills a catalog at `prefix` (ending in `/`) with the rows of a cell.
///
/// # Errors
/// [`LiveError`]
pub fn fill(store: &Store, prefix: &str, cell: &Cell, progress: impl FnMut(u64)) -> Result<(), LiveError> {
    let chain = ManifestChain::new(LiveEnv::new(), store.clone(), Arc::new(Place::new(prefix, CACHE_BYTES)));
    Ok(runtime()?.block_on(seed(&chain, cell.rows, cell.indexed, progress))?)
}

/// Runs the writers of a cell against the catalog at `prefix`. `tag` goes into the names that they create, so that several
/// processes are not in each other's way.
///
/// # Errors
/// [`LiveError::Start`]; what goes wrong with commits is part of the outcome.
pub fn work(store: &Store, prefix: &str, cell: &Cell, tag: &str) -> Result<Outcome, LiveError> {
    let runtime = runtime()?;
    let live = LiveEnv::new();
    let env = Counted::new(live, store.clone(), cell.added_latency);
    let place = Arc::new(Place::new(prefix, CACHE_BYTES));
    let group: Arc<Group<ManifestChain<Counted<LiveEnv>>>> = Arc::default();
    let committer = || {
        let chain = ManifestChain::new(env.clone(), env.clone(), Arc::clone(&place));
        match cell.grouped {
            true => Committer::grouped(env.clone(), chain, Arc::clone(&group), Persistence::default()),
            false => Committer::alone(env.clone(), chain, Persistence::default()),
        }
    };
    let (began, processor) = (env.now(), processor_ns());
    let until = began + cell.duration;
    let outcomes = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..cell.writers)
            .map(|writer| {
                let (handle, env, committer) = (runtime.handle(), &env, committer());
                let tag = format!("{tag}-{writer:04}");
                scope.spawn(move || handle.block_on(write(env, &committer, &tag, until)))
            })
            .collect();
        writers.into_iter().map(|writer| writer.join().unwrap_or_default()).collect()
    });
    let mut outcome = Outcome::joined(outcomes);
    outcome.took_ns = env.now().since(began).as_nanos();
    outcome.processor_ns = processor_ns() - processor;
    outcome.requests = env.counters().requests.load(Ordering::Relaxed);
    outcome.sent_bytes = env.counters().sent_bytes.load(Ordering::Relaxed);
    outcome.received_bytes = env.counters().received_bytes.load(Ordering::Relaxed);
    Ok(outcome)
}

fn processor_ns() -> u64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    u64::try_from(time.tv_sec).unwrap_or_default() * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or_default()
}
