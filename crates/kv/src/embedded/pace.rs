//! How long does the writer wait for more requests, before it writes those that it has?
//!
//! Tasks that were answered together often come again together, a moment later. Without a wait, the first of them is written
//! alone and all others wait for its sync. So the writer waits until it has as many requests as the last batch had, for half the time
//! that the last batch took after that at most. A request that comes later than that, or alone after another one alone, waits for nobody.

use std::time::{Duration, Instant};

/// What the last batch says about the next.
#[derive(Debug)]
pub(super) struct Pace {
    /// Requests in the last batch.
    requests: usize,
    /// Until when it is waited for as many.
    until: Instant,
}

impl Pace {
    pub(super) fn from(now: Instant) -> Self {
        Self { requests: 0, until: now }
    }

    /// A batch of so many requests has ended, which took so long.
    pub(super) fn ended(&mut self, requests: usize, took: Duration, now: Instant) {
        *self = Self { requests, until: now + took / 2 };
    }

    /// Whether more than so many requests are waited for.
    pub(super) fn waits(&self, requests: usize, now: impl FnOnce() -> Instant) -> bool {
        requests < self.requests && now() < self.until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_waits_for_as_many_as_before_and_for_half_the_time() {
        #[expect(clippy::disallowed_methods, reason = "only a point to begin with")]
        let start = Instant::now();
        let after = |millis| move || start + Duration::from_millis(millis);
        let mut pace = Pace::from(start);
        assert!(!pace.waits(1, after(0)), "nothing was answered yet");
        pace.ended(3, Duration::from_millis(10), after(10)());
        assert!(pace.waits(2, after(14)));
        assert!(!pace.waits(3, after(14)), "as many as before are enough");
        assert!(!pace.waits(2, after(15)), "no longer than half of what the batch took");
        pace.ended(1, Duration::from_millis(10), after(20)());
        assert!(!pace.waits(1, after(20)), "one alone waits for nobody");
    }
}
