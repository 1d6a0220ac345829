//! How fast do requests come?

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// When the last request came.
#[derive(Debug)]
pub(crate) struct Pace {
    begun: Instant,
    /// In nanoseconds since then.
    last: AtomicU64,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self { begun: Instant::now(), last: AtomicU64::new(0) }
    }

    /// A request comes. Returns how long after the one before.
    pub(crate) fn after(&self) -> Duration {
        self.at(u64::try_from(self.begun.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    fn at(&self, now: u64) -> Duration {
        // Those that come at the same time may each take another for the one before.
        Duration::from_nanos(now.saturating_sub(self.last.swap(now, Ordering::Relaxed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_the_one_before_the_next() {
        let pace = Pace::new();
        let after: Vec<_> = [5, 7, 7, 6, 10].map(|now| pace.at(now)).to_vec();
        assert_eq!(after, [5, 2, 0, 0, 4].map(Duration::from_nanos));
    }
}
