//! Many seeds on all cores.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use glidepath_model::Span;

use crate::run::{Checked, Trial};

/// What many runs came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Explored {
    /// Runs.
    pub seeds: u64,
    /// Attempts to commit.
    pub attempts: u64,
    /// Of these, acknowledged.
    pub committed: u64,
    /// Of these, left unknown, or their writer died.
    pub open: u64,
    /// Requests that something went wrong with.
    pub faults: u64,
    /// Until the last answer of each run, together, by the simulated clock.
    pub simulated: Span,
    /// The lowest seed that failed, of those tried.
    pub found: Option<Found>,
}

/// A seed that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Replays it.
    pub seed: u64,
    /// What was not right.
    pub violation: String,
}

/// Checks `count` seeds from `first` on, on so many threads; stops early after a failure, or when `stop` is set. `progress`
/// is told of each run that is done.
pub fn explore(
    trial: &Trial,
    (first, count): (u64, u64),
    threads: usize,
    stop: &AtomicBool,
    progress: impl Fn(&Checked) + Sync,
) -> Explored {
    let (next, total) = (AtomicU64::new(0), Mutex::new(Explored::default()));
    thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                let mut mine = Explored::default();
                while !stop.load(Ordering::Relaxed) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    let seed = first.wrapping_add(number);
                    let checked = trial.check(seed);
                    progress(&checked);
                    mine.add(seed, checked);
                    if mine.found.is_some() {
                        // Lower seeds that others are at still end.
                        next.store(count, Ordering::Relaxed);
                    }
                }
                total.lock().unwrap_or_else(std::sync::PoisonError::into_inner).join(mine);
            });
        }
    });
    total.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
}

impl Explored {
    fn add(&mut self, seed: u64, checked: Checked) {
        self.seeds += 1;
        self.attempts += checked.attempts;
        self.committed += checked.committed;
        self.open += checked.open;
        self.faults += checked.faults;
        self.simulated += checked.simulated;
        if let Some(violation) = checked.violation {
            self.found = Some(Found { seed, violation });
        }
    }

    fn join(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.attempts += other.attempts;
        self.committed += other.committed;
        self.open += other.open;
        self.faults += other.faults;
        self.simulated += other.simulated;
        self.found = match (self.found.take(), other.found) {
            (Some(mine), Some(theirs)) => Some(if mine.seed <= theirs.seed { mine } else { theirs }),
            (mine, theirs) => mine.or(theirs),
        };
    }
}
