//! Who commits to a table next, where several tasks or servers want to?
//!
//! Used by the catalog server, and by the simulation of one.

pub mod line;
mod priority;
mod readers;

use glidepath_env::{Backoff, Exponential, JitterRange};
use glidepath_model::Span;

pub use priority::{HOLD, Hold, Priority};
pub use readers::{Reader, Readers};

/// The most commits in one version of a table.
pub const TOGETHER: usize = 64;

/// How often a commit is tried that other servers overtake, if nothing else is said.
pub const ATTEMPTS: u32 = 30;

/// The wait between these tries.
pub const RETRY: Backoff = Backoff::Exponential(Exponential {
    first: Span::from_millis(5),
    factor: 2.0,
    longest: Span::from_millis(500),
    jitter: JitterRange { low: 0.0, high: 1.0 },
});

/// The longest wait for others that read: a store that does not answer must not hold up the table.
pub const LONGEST_READ: Span = Span::from_secs(1);

/// The wait after a lost attempt, counted from 0, at a commit over several tables that has no place in line.
#[must_use]
pub const fn retry_over_several(attempt: u32) -> Span {
    Span::from_millis(5 << if attempt < 6 { attempt } else { 6 })
}
