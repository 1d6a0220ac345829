//! What are the fewest writers and commits that fail?

use std::sync::atomic::{AtomicBool, Ordering};

use crate::explore::FailedSeed;
use crate::run::Trial;

/// Seeds tried for each smaller scenario.
const SEEDS: u64 = 200;

/// A trial with fewer writers, or fewer commits of each, that also fails, and its failing seed. Runs at most some
/// thousands of seeds, from the found one on; fewer if `stop` is set.
#[must_use]
pub fn shrink(trial: &Trial, found: &FailedSeed, stop: &AtomicBool) -> Option<(Trial, FailedSeed)> {
    let mut best: Option<(Trial, FailedSeed)> = None;
    loop {
        let (writers, commits) = {
            let writers = best.as_ref().map_or(trial, |(trial, _)| trial).scenario().writers;
            (writers.count, writers.commits)
        };
        let steps = [(writers / 2, commits), (writers, commits / 2), (writers - 1, commits), (writers, commits - 1)];
        let fails = |(writers, commits): (u32, u32)| {
            let mut scenario = trial.scenario().clone();
            (scenario.writers.count, scenario.writers.commits) = (writers, commits);
            let smaller = Trial::new(trial.subject(), &scenario);
            // Of two successive seeds, one is a run of requests.
            (0..SEEDS).map(|number| found.seed.wrapping_add(2 * number)).find_map(|seed| {
                let violation = (!stop.load(Ordering::Relaxed)).then(|| smaller.check(seed).violation)??;
                Some((smaller.clone(), FailedSeed { seed, violation }))
            })
        };
        match steps.into_iter().filter(|(writers, commits)| *writers > 0 && *commits > 0).find_map(fails) {
            Some(smaller) => best = Some(smaller),
            None => return best,
        }
    }
}
