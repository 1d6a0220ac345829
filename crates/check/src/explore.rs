//! Many seeds on all cores.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::atomic::AtomicBool;

use glidepath_model::Span;
use glidepath_run::parallel;

use crate::run::{Checked, Trial};

/// The totals of many runs.
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
    /// Requests with a fault.
    pub faults: u64,
    /// Simulated time until the last answer, summed over all runs.
    pub simulated: Span,
    /// How often situations occurred, in all runs; of the catalog server.
    pub situations: BTreeMap<&'static str, u64>,
    /// The lowest failed seed among those tried.
    pub found: Option<FailedSeed>,
}

/// A seed that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedSeed {
    /// Replays it.
    pub seed: u64,
    /// The violation.
    pub violation: String,
}

/// Checks `count` seeds from `first` on, on `threads` threads; stops early after a failure, or when `stop` is set.
/// Calls `progress` after each run.
pub fn explore(
    trial: &Trial,
    (first, count): (u64, u64),
    threads: usize,
    stop: &AtomicBool,
    mut progress: impl FnMut(&Checked),
) -> Explored {
    let mut explored = Explored::default();
    let check = |number: u64| trial.check(first.wrapping_add(number));
    // A failure ends the search; lower seeds that are running still count.
    let take = |number: u64, checked: Checked| {
        progress(&checked);
        explored.add(first.wrapping_add(number), checked);
        if explored.found.is_some() { Err(()) } else { Ok(()) }
    };
    let threads = NonZeroUsize::new(threads).unwrap_or(NonZeroUsize::MIN);
    let _ = parallel::each(count, threads, stop, check, take);
    explored
}

impl Explored {
    fn add(&mut self, seed: u64, checked: Checked) {
        self.seeds += 1;
        self.attempts += checked.attempts;
        self.committed += checked.committed;
        self.open += checked.open;
        self.faults += checked.faults;
        self.simulated += checked.simulated;
        for (situation, times) in checked.situations {
            *self.situations.entry(situation).or_default() += times;
        }
        if let Some(violation) = checked.violation
            && self.found.as_ref().is_none_or(|found| seed < found.seed)
        {
            self.found = Some(FailedSeed { seed, violation });
        }
    }
}
