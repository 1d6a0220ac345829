//! How is a plan carried out? Trial by trial.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::plan::Plan;
use crate::sample::TrialSamples;
use crate::site::{MeasureError, Site};

/// The result of a plan.
#[derive(Debug)]
pub struct PlanResult {
    /// Every trial that was begun; the last one may have been cut short.
    pub trials: Vec<TrialSamples>,
    /// Whether that is all of them.
    pub complete: bool,
    /// Whether latencies include reading the current state of an object.
    pub latency_includes_read: bool,
    /// Operations that the store does not support, in words.
    pub left_out: Vec<String>,
}

/// Carries out a plan until it is done or `stop` is set; `progress` gets the number of trials done and in all. Removes
/// what it wrote.
///
/// # Errors
/// [`MeasureError`] where the store cannot be measured at all.
pub fn run(
    site: &mut impl Site,
    plan: &Plan,
    stop: &AtomicBool,
    mut progress: impl FnMut(usize, usize),
) -> Result<PlanResult, MeasureError> {
    let left_out = site.left_out(plan);
    let able = |trial: &crate::plan::Trial| site.can(trial.operation);
    let trials: Vec<_> = plan.trials().filter(able).collect();
    let mut done = Vec::new();
    let outcome = (|| {
        for (number, trial) in trials.iter().enumerate() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            progress(number, trials.len());
            done.push(site.measure(plan, *trial, stop)?);
        }
        Ok(())
    })();
    // Also after a failure: nothing is left behind.
    let cleaned = site.clean();
    outcome?;
    cleaned?;
    let complete = done.len() == trials.len() && !stop.load(Ordering::Relaxed);
    Ok(PlanResult { trials: done, complete, latency_includes_read: site.latency_includes_read(), left_out })
}
