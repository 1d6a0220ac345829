//! How are many searches spread over few threads? All runs that any search needs next stand in one queue, so that no
//! thread idles while another search could use it. What is found depends on no timing: a search sees its own runs only,
//! and those of one load all together.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use glidepath_sim::Mode;

use super::hunt::{Found, Hunt, Job, RunResult};
use super::{KneeError, Progress};
use crate::simulate::simulate;

struct Queue<'a> {
    state: Mutex<State>,
    changed: Condvar,
    watch: &'a (dyn Fn(Progress) + Sync),
}

struct State {
    hunts: Vec<Result<Hunt, KneeError>>,
    waiting: VecDeque<(usize, Job)>,
    running: usize,
    progress: Progress,
}

/// Runs hunts to their ends; what each found, in the order given. `watch` is called after each run.
pub(super) fn run_all(
    hunts: Vec<Hunt>,
    threads: NonZeroUsize,
    watch: &(dyn Fn(Progress) + Sync),
) -> Vec<Result<Found, KneeError>> {
    let count = hunts.len();
    let progress = Progress { searches: count, ..Progress::default() };
    let hunts = hunts.into_iter().map(Ok).collect();
    let mut state = State { hunts, waiting: VecDeque::new(), running: 0, progress };
    (0..count).for_each(|hunt| state.advance(hunt));
    let queue = Queue { state: Mutex::new(state), changed: Condvar::new(), watch };
    std::thread::scope(|scope| {
        for _ in 1..threads.get() {
            scope.spawn(|| queue.work());
        }
        queue.work();
    });
    let state = queue.state.into_inner().unwrap_or_else(PoisonError::into_inner);
    state.hunts.into_iter().map(|hunt| hunt?.found().ok_or(KneeError::NothingTried)).collect()
}

impl State {
    /// Puts the next runs of a hunt into the queue.
    fn advance(&mut self, index: usize) {
        let Ok(hunt) = &mut self.hunts[index] else { return };
        match hunt.next() {
            Ok(Some(jobs)) => self.waiting.extend(jobs.into_iter().map(|job| (index, job))),
            Ok(None) => self.progress.searches_done += 1,
            Err(error) => self.fail(index, error.into()),
        }
    }

    fn fail(&mut self, index: usize, error: KneeError) {
        self.hunts[index] = Err(error);
        self.progress.searches_done += 1;
        self.waiting.retain(|(hunt, _)| *hunt != index);
    }

    fn take(&mut self, index: usize, run: usize, result: RunResult) {
        let Ok(hunt) = &mut self.hunts[index] else { return };
        let before = hunt.work();
        let taken = hunt.take(run, result);
        let after = hunt.work();
        self.progress.events += after.events - before.events;
        self.progress.simulated_s += after.seconds - before.seconds;
        match taken {
            Ok(true) => self.advance(index),
            Ok(false) => {}
            Err(error) => self.fail(index, error),
        }
    }
}

impl Queue<'_> {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until nothing waits and nobody is at work who could add to it.
    fn work(&self) {
        while let Some((hunt, job)) = self.next_job() {
            // Should the run panic, the others must not wait for it.
            let running = Running(self);
            let result = RunResult::new(&job, simulate(&job.point, job.seed, Mode::LocalClocks));
            let mut state = self.lock();
            state.take(hunt, job.run, result);
            let progress = state.progress;
            drop(state);
            drop(running);
            (self.watch)(progress);
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
