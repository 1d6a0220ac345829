//! How much processor time do clients need?
//!
//! A profile has the latencies of a client with its own processor. Many clients on one machine also wait for its
//! processors. So two processor times are measured, without running the cell on the store: that of a bare request to
//! this store, and that of an operation of this cell on a store in memory.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::available_parallelism;

use bytes::Bytes;
use glidepath_env::{Cause, Env, Guard, Key, ObjectStore, Payload};
use glidepath_model::{Instant, Span};
use glidepath_stores::{Options, Store, open};

use crate::cell::Cell;
use crate::live::{LiveError, fill, processor_ns, runtime, work};
use crate::scratch::ScratchError;

/// Rounds of a put, a get and a delete that measure the processor time of a request.
const ROUNDS: u32 = 100;

/// How long operations run to measure the processor time of one.
const TRIAL: Span = Span::from_millis(400);

/// The processors of the clients' machine, and the demand for them.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct Machine {
    /// How many clients can compute at once.
    pub processors: u32,
    /// Processor time per request. The profile's latency includes it already.
    pub per_request: Span,
    /// Processor time per operation, without its requests.
    pub per_operation: Span,
}

impl Machine {
    /// A machine without waits for a processor.
    #[must_use]
    pub fn boundless() -> Self {
        Self { processors: u32::MAX, per_request: Span::ZERO, per_operation: Span::ZERO }
    }

    /// This machine, with the measured processor time of bare requests to this store. Writes under `prefix` (which ends
    /// in `/`), and removes what it wrote.
    ///
    /// # Errors
    /// A request failed.
    pub fn here(store: &Store, prefix: &str) -> Result<Self, LiveError> {
        let processors = available_parallelism().map_or(1, |count| u32::try_from(count.get()).unwrap_or(u32::MAX));
        let runtime = runtime()?;
        let before = processor_ns();
        let requests = runtime.block_on(async {
            for number in 0..ROUNDS {
                let key = Key::new(&format!("{prefix}{number}"));
                let failed = |cause| ScratchError::new(prefix, "written", cause);
                let payload = Payload::from(Bytes::from_static(&[7; 300]));
                let put = store.put(&key, payload, Guard::Absent).await;
                put.map_err(|error| failed(Cause::from_error(error)))?;
                store.get(&key).await.map_err(|error| failed(Cause::from_error(error)))?;
                store.delete(&key).await.map_err(|error| failed(Cause::from_error(error)))?;
            }
            Ok::<_, LiveError>(3 * u64::from(ROUNDS))
        })?;
        let per_request = Span::from_nanos((processor_ns() - before) / requests);
        Ok(Self { processors, per_request, per_operation: Span::ZERO })
    }

    /// Adds the processor time of an operation of this cell, measured briefly on a store in memory that answers each
    /// request after `latency`; ends early if `stop` is set.
    ///
    /// # Errors
    /// [`LiveError`]
    pub fn working(self, cell: &Cell, latency: Span, stop: &AtomicBool) -> Result<Self, LiveError> {
        let memory = open("memory:", &Options::default()).map_err(|error| std::io::Error::other(error.to_string()))?;
        fill(&memory, "trial/", cell.design, cell.rows, |_| !stop.load(Ordering::Relaxed))?;
        // Processes do not share commits.
        let writers = if cell.processes { 1 } else { cell.writers };
        let trial = Cell { duration: TRIAL, added_latency: latency, writers, ..*cell };
        let outcome = work(&memory, "trial/", &trial, 0, stop)?;
        let per_operation = Span::from_nanos(outcome.processor_ns / (outcome.latencies_ns.len() as u64).max(1));
        Ok(Self { per_operation, ..self })
    }
}

/// A machine's processors on the virtual clock, first come, first served.
#[derive(Clone, Debug)]
pub(crate) struct Processors {
    /// When each is free.
    free: Arc<Mutex<Vec<Instant>>>,
    machine: Machine,
}

impl Processors {
    pub(crate) fn of(machine: Machine) -> Self {
        let count = if machine.processors == u32::MAX { 0 } else { machine.processors as usize };
        Self { free: Arc::new(Mutex::new(vec![Instant::ZERO; count])), machine }
    }

    /// The same processors, with this demand of each request.
    #[cfg(feature = "serve")]
    pub(crate) fn with_requests_of(&self, per_request: Span) -> Self {
        Self { free: Arc::clone(&self.free), machine: Machine { per_request, ..self.machine } }
    }

    /// Occupies the processor that is free first for this time. Returns when it begins.
    pub(crate) fn take(&self, now: Instant, time: Span) -> Instant {
        // The content is replaced as a whole, so a panic elsewhere cannot have left it inconsistent.
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(first) = free.iter_mut().min().filter(|_| time > Span::ZERO) else { return now };
        let begin = now.max(*first);
        *first = begin + time;
        begin
    }

    /// Waits for a processor to send a request.
    pub(crate) async fn request(&self, env: &impl Env) {
        let begin = self.take(env.now(), self.machine.per_request);
        if begin > env.now() {
            env.sleep_until(begin).await;
        }
    }

    /// Waits until an operation's own work is done.
    pub(crate) async fn operation(&self, env: &impl Env) {
        self.spend(env, self.machine.per_operation).await;
    }

    /// Waits until work of this time is done.
    pub(crate) async fn spend(&self, env: &impl Env, time: Span) {
        if time > Span::ZERO {
            let begin = self.take(env.now(), time);
            env.sleep_until(begin + time).await;
        }
    }
}
