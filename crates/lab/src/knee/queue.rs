//! How are many searches spread over few threads? The next runs of all searches are in one queue, so that no thread is
//! idle while a search has work. The results do not depend on timing: a search sees only its own runs, and all runs of
//! a load at once.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::hunt::Hunt;
use super::outcome::KneeSearch;
use super::trial::{Job, RunResult};
use super::{KneeError, Progress};

/// The budget spent, for progress only.
pub(super) struct Meter<'a> {
    watch: &'a (dyn Fn(Progress) + Sync),
    budget: u64,
    events: AtomicU64,
    searches: AtomicUsize,
    done: AtomicUsize,
}

/// Events between two calls for one run.
pub(super) const EVENTS_BETWEEN_CALLS: u64 = 100_000;

struct Queue<'a> {
    state: Mutex<State<'a>>,
    changed: Condvar,
    meter: &'a Meter<'a>,
}

struct State<'a> {
    hunts: Vec<Result<Hunt, KneeError>>,
    waiting: VecDeque<(usize, Job)>,
    running: usize,
    meter: &'a Meter<'a>,
}

impl<'a> Meter<'a> {
    /// A meter for this budget. All threads call `watch` repeatedly.
    pub(super) fn new(budget: u64, watch: &'a (dyn Fn(Progress) + Sync)) -> Self {
        let (searches, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Self { watch, budget, events: AtomicU64::new(0), searches, done }
    }

    /// Events so far; deterministic between two calls of [`run_all`].
    pub(super) fn spent(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    pub(super) fn add(&self, events: u64) {
        let events = self.events.fetch_add(events, Ordering::Relaxed) + events;
        let of = |count: &AtomicUsize| count.load(Ordering::Relaxed);
        let (searches, searches_done) = (of(&self.searches), of(&self.done));
        (self.watch)(Progress { events, budget: self.budget, searches, searches_done });
    }
}

/// Runs all hunts to the end; returns their results in the given order.
pub(super) fn run_all(
    hunts: Vec<Hunt>,
    threads: NonZeroUsize,
    meter: &Meter<'_>,
) -> Vec<Result<KneeSearch, KneeError>> {
    let count = hunts.len();
    meter.searches.fetch_add(count, Ordering::Relaxed);
    let hunts = hunts.into_iter().map(Ok).collect();
    let mut state = State { hunts, waiting: VecDeque::new(), running: 0, meter };
    (0..count).for_each(|hunt| state.advance(hunt));
    let queue = Queue { state: Mutex::new(state), changed: Condvar::new(), meter };
    std::thread::scope(|scope| {
        for _ in 1..threads.get() {
            scope.spawn(|| queue.work());
        }
        queue.work();
    });
    let state = queue.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    state.hunts.into_iter().map(|hunt| hunt?.found()).collect()
}

impl State<'_> {
    /// Adds the next runs of a hunt to the queue.
    fn advance(&mut self, index: usize) {
        let Ok(hunt) = &mut self.hunts[index] else { return };
        match hunt.next() {
            Ok(Some(jobs)) => self.waiting.extend(jobs.into_iter().map(|job| (index, job))),
            Ok(None) => self.done(),
            Err(error) => self.fail(index, error.into()),
        }
    }

    fn fail(&mut self, index: usize, error: KneeError) {
        self.hunts[index] = Err(error);
        self.done();
        self.waiting.retain(|(hunt, _)| *hunt != index);
    }

    fn done(&self) {
        self.meter.done.fetch_add(1, Ordering::Relaxed);
    }

    fn take(&mut self, index: usize, place: usize, result: RunResult) {
        let Ok(hunt) = &mut self.hunts[index] else { return };
        match hunt.take(place, result) {
            Ok(true) => self.advance(index),
            Ok(false) => {}
            Err(error) => self.fail(index, error),
        }
    }
}

impl<'a> Queue<'a> {
    fn lock(&self) -> MutexGuard<'_, State<'a>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until the queue is empty and no running thread can add to it.
    fn work(&self) {
        while let Some((hunt, job)) = self.next_job() {
            // If the run panics, the other threads must not wait for it.
            let running = Running(self);
            let mut untold = 0;
            let result = job.run(&mut |events| {
                untold += events;
                if untold >= EVENTS_BETWEEN_CALLS {
                    self.meter.add(std::mem::take(&mut untold));
                }
            });
            self.lock().take(hunt, job.place, result);
            drop(running);
            self.meter.add(untold);
        }
    }

    fn next_job(&self) -> Option<(usize, Job)> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.waiting.pop_front() {
                state.running += 1;
                return Some(job);
            }
            if state.running == 0 {
                return None;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

struct Running<'a, 'b>(&'a Queue<'b>);

impl Drop for Running<'_, '_> {
    fn drop(&mut self) {
        self.0.lock().running -= 1;
        self.0.changed.notify_all();
    }
}
