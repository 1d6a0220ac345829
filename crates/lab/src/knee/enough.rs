//! Which budget would have sufficed, if one did not?
//!
//! The work of a search is nearly that of its runs, and the runs of a variant cost about as much as those of the knee
//! itself, whose cost is known by then.

use glidepath_point::Point;
use glidepath_sim::Alternatives;

use super::factor::Factor;
use super::found::Knee;
use super::variants::FIRST_SHARE;
use super::{Answer, Bottleneck, weight};

/// A search of a variant ends within about this number of runs of the knee. (Seen on `s3-express`, with 1 and 10
/// tables, fast appends only and 90 %: with 5 to 6 runs each some searches remain open, with 5 to 7 none.)
const RUNS_OF_ONE: f64 = 7.0;

/// With many retries some searches take this much more.
const SPARE: f64 = 1.4;

/// With another protocol a search takes up to this many times as much: its transactions have other requests, and its
/// knee is often higher. (Seen on `s3-express`, with 10 tables and 90 %: with 3 times, six searches remain open.)
const OF_A_PROTOCOL: f64 = 5.0;

/// A larger budget also lets the search for the knee itself take longer runs.
const OF_THE_KNEE: f64 = 1.5;

/// The expected work of the search for one variant, in events.
pub(super) fn of_one(knee: &Knee) -> f64 {
    RUNS_OF_ONE * run_events(knee)
}

/// The events of a run of the knee.
pub(super) fn run_events(knee: &Knee) -> f64 {
    knee.events as f64 / knee.simulated_s.max(1.0) * knee.run_duration_s
}

/// A budget, in events, that probably suffices for the knee and this number of variants, of which so many have another
/// protocol.
pub(super) fn for_variants(point: &Point, knee: &Knee, variants: usize, protocols: usize) -> u64 {
    let searches = variants as f64 + (OF_A_PROTOCOL - 1.0) * protocols as f64;
    ((OF_THE_KNEE * knee.events as f64 + SPARE * searches * of_one(knee) / FIRST_SHARE) * weight(point)) as u64
}

/// A budget, in events, that probably suffices for [`with_measurement`](super::with_measurement).
#[must_use]
pub fn enough_for_measurement(point: &Point, knee: &Knee, alternatives: &Alternatives) -> u64 {
    let extremes = [&alternatives.earliest, &alternatives.latest].into_iter().flatten().count() as f64;
    let searches = alternatives.sampling.len() as f64 + super::measured::EXTREME as f64 * extremes;
    (SPARE * searches * of_one(knee) * weight(point)) as u64
}

impl Answer {
    /// Whether the budget left anything open that was asked for besides the knee.
    pub(super) fn leaves_open(&self) -> bool {
        let varied = self.sensitivity.iter().flat_map(|one| [&one.less, &one.more]).flatten();
        !self.undecided.is_empty()
            || self.bottleneck.as_ref().is_some_and(Bottleneck::is_open)
            || varied.into_iter().any(|varied| matches!(varied.factor, Factor::AtLeast(factor) if factor < 1.0))
    }
}
