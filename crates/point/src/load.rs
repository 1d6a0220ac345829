//! Does a run of this load fit into memory?

use glidepath_model::Span;
use glidepath_workload::SpecError;

use crate::config::{Config, Point};

/// The most arrivals in a run: each is recorded.
const MOST_ARRIVALS: f64 = 2e7;

/// The most transactions under way at once: each takes 2.2 KiB (the peak of `glidepath simulate --inter-arrival 1us
/// --set run_on=0s` with `--duration 1s` and with `4s`, without this limit), and there is a run on every core.
pub const MOST_AT_ONCE: u64 = 2_000_000;

/// Refuses a load that memory does not suffice for.
///
/// # Errors
/// The time between arrivals is too short.
pub(crate) fn check_load(config: &Config) -> Result<(), SpecError> {
    let (arrivals, duration) = (expected(config), config.duration);
    let wrong = |count: String, allowed: String| {
        Err(SpecError { field: "arrivals.scale", found: format!("{} ({count})", config.arrivals.scale), allowed })
    };
    if arrivals > MOST_ARRIVALS {
        return wrong(
            format!("about {arrivals:.0} arrivals in {duration}"),
            format!("at most {MOST_ARRIVALS} arrivals in a run: a larger scale, a shorter duration or smaller bursts"),
        );
    }
    let runtime = mean_runtime(config);
    let shorter = runtime.as_secs_f64().min(duration.as_secs_f64() + config.run_on.as_secs_f64());
    let at_once = arrivals / duration.as_secs_f64() * shorter;
    if at_once > MOST_AT_ONCE as f64 {
        return wrong(
            format!("about {at_once:.0} transactions under way at once"),
            format!(
                "at most {MOST_AT_ONCE}, which are the arrivals of {runtime}, the mean of transaction.runtime, or \
                 of the whole run, if that is shorter: a larger scale, a shorter runtime, or a shorter run (duration \
                 and run_on)"
            ),
        );
    }
    Ok(())
}

/// The expected number of transactions of a run, which determines its work.
#[must_use]
pub fn expected_arrivals(point: &Point) -> f64 {
    expected(&point.config)
}

/// The expected arrivals within the duration.
fn expected(config: &Config) -> f64 {
    let (arrivals, duration) = (&config.arrivals, config.duration);
    let usual = duration.as_secs_f64() / arrivals.scale.max(arrivals.floor).as_secs_f64().max(1e-9);
    // On average over whole cycles, but a run may have little more than a burst.
    usual
        * arrivals.burst.map_or(1.0, |burst| {
            let cycle = burst.every.min(duration).as_secs_f64();
            1.0 + (burst.lasts.as_secs_f64() / cycle).min(1.0) * (burst.factor - 1.0)
        })
}

/// The mean time that a transaction works, without its commit.
fn mean_runtime(config: &Config) -> Span {
    let transaction = &config.transaction;
    let mean = |(kind, share): (_, f64)| share * transaction.runtime_of(kind).mean().as_secs_f64();
    match transaction.overwrite_runtime {
        None => transaction.runtime.mean(),
        Some(_) => Span::from_secs_f64(transaction.kinds().map(mean).sum()),
    }
}
