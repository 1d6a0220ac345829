//! What a service has done, for metrics and the page for people.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the start of the service. Each only grows.
#[derive(Debug, Default)]
pub struct Counts {
    /// Commits of tables that took effect.
    pub committed: AtomicU64,
    /// Commits that were rebased onto a newer snapshot before they took effect.
    pub rebased: AtomicU64,
    /// Commits that were refused because a requirement did not hold.
    pub conflicts: AtomicU64,
    /// Attempts repeated because another server moved the table first.
    pub overtaken: AtomicU64,
    /// Commits whose outcome could not be told.
    pub unknown: AtomicU64,
    /// Requests answered by what an earlier delivery of them did.
    pub replayed: AtomicU64,
    /// Versions of tables written: less than `committed` where commits shared one.
    pub versions: AtomicU64,
    /// Times that a branch was held for an overwrite that lost.
    pub priorities: AtomicU64,
    /// Those of them that the overwrite used: it landed meanwhile.
    pub priorities_used: AtomicU64,
    /// Commits that waited for such an overwrite.
    pub held: AtomicU64,
    /// How long they waited, in milliseconds.
    pub held_ms: AtomicU64,
    /// Commits that wait for a table at this moment.
    pub waiting: AtomicU64,
}

impl Counts {
    pub(crate) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }
}
