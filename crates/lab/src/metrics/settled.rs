//! Had a run settled when its window began?
//!
//! A run begins with no transaction under way. As long as those that arrived first have not ended, fewer commits meet each other than
//! later on, so success in the window is too high, and fewer land than would.

use glidepath_model::Span;
use glidepath_workload::Record;

use super::window;
use crate::config::Point;
use crate::simulate::SimulatedRun;

/// Of the time before the window, transactions may take at most this share to end.
const SHARE: f64 = 0.5;

/// This share of the transactions: from their arrival to their end.
const ENDED: f64 = 0.9;

/// And this share: from the end of their work to their end. (Where one in twenty fails, that is the time of a failure.)
const DECIDED: f64 = 0.99;

/// Whether a run had settled. The published runs are not asked.
pub(super) fn is_settled(point: &Point, outcome: &SimulatedRun) -> bool {
    let window = window(point.config.duration);
    let most = SHARE * window.start.since(glidepath_model::Instant::ZERO).as_secs_f64();
    let arrived = outcome.records.iter().filter(|record| window.contains(&record.arrived));
    let worked = outcome.records.iter().filter(|record| window.contains(&record.work_done));
    let open =
        |inside: &dyn Fn(&crate::simulate::Open) -> bool| outcome.open.iter().filter(|open| inside(open)).count();
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
    point.config.run_on == Span::ZERO || (ended && decided)
}

/// Whether this share of these, and of so many that take longer, takes at most so many seconds.
fn quick(spans: Vec<Span>, longer: usize, (share, most): (f64, f64)) -> bool {
    let within = spans.iter().filter(|span| span.as_secs_f64() <= most).count();
    let all = (spans.len() + longer) as f64;
    // Three standard deviations are chance.
    within as f64 + 3.0 * (share * (1.0 - share) * all).sqrt() >= share * all
}
