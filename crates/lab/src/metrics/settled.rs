//! Had a run settled when its window began?
//!
//! A run begins with no transaction under way. Until the first transactions have ended, fewer commits conflict than
//! later on, so success in the window is too high, and too few commits land.

use glidepath_model::Span;
use glidepath_point::{Point, SimulatedRun, window};
use glidepath_workload::{Kind, Record};

/// The most time until a transaction ends, as a share of the time before the window.
const SHARE: f64 = 0.5;

/// The share of transactions that must meet it, from arrival to end.
const ENDED: f64 = 0.9;

/// The share that must meet it from the end of the work to the end. (If one in twenty fails, that is the time of a
/// failure.)
const DECIDED: f64 = 0.99;

/// Whether a run had settled. Published runs are not checked.
pub(super) fn is_settled(point: &Point, outcome: &SimulatedRun) -> bool {
    let all = [Kind::FastAppend, Kind::ValidatedOverwrite];
    let apart = point.config.transaction.overwrite_runtime.is_some();
    // Overwrites that work for longer are few among all.
    let kinds = if apart { vec![&all[..], &all[1..]] } else { vec![&all[..]] };
    point.config.run_on == Span::ZERO || kinds.into_iter().all(|kinds| have_settled(kinds, point, outcome))
}

fn have_settled(kinds: &[Kind], point: &Point, outcome: &SimulatedRun) -> bool {
    let window = window(point.config.duration);
    let most = SHARE * window.start.since(glidepath_model::Instant::ZERO).as_secs_f64();
    let records = || outcome.records.iter().filter(|record| kinds.contains(&record.kind));
    let arrived = records().filter(|record| window.contains(&record.arrived));
    let worked = records().filter(|record| window.contains(&record.work_done));
    let open = |inside: &dyn Fn(&glidepath_point::Open) -> bool| {
        outcome.open.iter().filter(|open| kinds.contains(&open.kind) && inside(open)).count()
    };
    let ended = quick(
        arrived.map(|record| record.ended.since(record.arrived)).collect(),
        open(&|open| window.contains(&open.arrived)),
        (ENDED, most),
    );
    let decided = quick(
        worked.map(Record::commit_latency).collect(),
        open(&|open| window.contains(&open.work_done)),
        (DECIDED, most),
    );
    ended && decided
}

/// Whether this share of the given times, and of a number of longer ones, is at most this many seconds.
fn quick(spans: Vec<Span>, longer: usize, (share, most): (f64, f64)) -> bool {
    let within = spans.iter().filter(|span| span.as_secs_f64() <= most).count();
    let all = (spans.len() + longer) as f64;
    // Up to three standard deviations are random.
    within as f64 + 3.0 * (share * (1.0 - share) * all).sqrt() >= share * all
}
