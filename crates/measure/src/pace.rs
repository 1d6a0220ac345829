//! Which operations of a trial count? All that began while every writer was at work, from the warm-up until counting is
//! *closed*; each is waited for however long it takes, and the others go on meanwhile, so that none of them ends in less
//! company than it began in. To count only those that also end in time would leave out the slow ones.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use glidepath_model::{Instant, Span};

use crate::plan::{LEAST_ROUND_TRIP, Plan};

/// Counting goes on for at least so many times the longest operation: of those longer than a trial, a trial shows too few.
const LONGEST_FITS: u64 = 10;

/// But for no more than so many times the duration that was asked for.
pub(crate) const MOST_DURATIONS: u64 = 10;

/// What the writers of a trial share.
#[derive(Debug)]
pub(crate) struct Pace<'a> {
    /// The end of the warm-up.
    from: Instant,
    duration: Span,
    most: usize,
    /// Writers of which no counted operation has ended yet.
    awaited: AtomicU32,
    /// Writers of which a counted operation may still be under way.
    counting: AtomicU32,
    /// The longest counted operation so far, in nanoseconds.
    longest: AtomicU64,
    /// When counting was closed, in nanoseconds.
    closed: AtomicU64,
    /// Once it is set, no operation begins.
    stop: &'a AtomicBool,
}

impl<'a> Pace<'a> {
    pub(crate) fn new(plan: &Plan, writers: u32, from: Instant, stop: &'a AtomicBool) -> Self {
        Self {
            from,
            duration: plan.duration,
            most: plan.most_per_writer,
            awaited: AtomicU32::new(writers),
            counting: AtomicU32::new(writers),
            longest: AtomicU64::new(0),
            closed: AtomicU64::new(u64::MAX),
            stop,
        }
    }

    /// When counting was closed; the end of time as long as it is not.
    pub(crate) fn closed(&self) -> Instant {
        Instant::from_nanos(self.closed.load(Ordering::SeqCst))
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Whether what a writer begins now counts, as far as it can know; it has had so many that did.
    pub(crate) fn counts(&self, now: Instant, had: usize) -> bool {
        if self.is_enough(now, had) || self.stopped() {
            self.closed.fetch_min(now.as_nanos(), Ordering::SeqCst);
        }
        now >= self.from && now < self.closed()
    }

    fn is_enough(&self, now: Instant, had: usize) -> bool {
        if now < self.from || self.awaited.load(Ordering::SeqCst) > 0 {
            return false;
        }
        let counted = now.since(self.from);
        let longest = self.longest.load(Ordering::SeqCst);
        // What a cloud's bill was said to be at most stays so: see `Plan::estimate`.
        let paid = self.duration.as_nanos() / LEAST_ROUND_TRIP.as_nanos();
        let stretched = counted >= self.duration;
        let shown = counted.as_nanos() >= LONGEST_FITS.saturating_mul(longest);
        let too_long = counted.as_nanos() >= MOST_DURATIONS.saturating_mul(self.duration.as_nanos());
        had >= self.most || stretched && (shown || too_long || had as u64 >= paid)
    }

    /// Takes note of a writer's operation that counts.
    pub(crate) fn ended(&self, latency: Span, first: bool) {
        self.longest.fetch_max(latency.as_nanos(), Ordering::SeqCst);
        if first {
            self.awaited.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Takes note that no counted operation of a writer is under way any more, nor ever will be.
    pub(crate) fn leave(&self) {
        self.counting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether all have.
    pub(crate) fn is_over(&self) -> bool {
        self.counting.load(Ordering::SeqCst) == 0 || self.stopped()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn counting_goes_on_until_the_longest_operation_fits_in_often() {
        let never = AtomicBool::new(false);
        let plan = Plan { duration: Span::from_millis(1000), ..Plan::full() };
        let pace = Pace::new(&plan, 2, at(100), &never);
        assert!(!pace.counts(at(50), 0), "the warm-up");
        assert!(pace.counts(at(100), 0));
        pace.ended(Span::from_millis(300), true);
        assert!(pace.counts(at(5000), 1), "the other writer has done none yet");
        pace.ended(Span::from_millis(200), true);
        assert!(pace.counts(at(3000), 20));
        assert!(!pace.counts(at(3100), 20), "ten times 300 ms are over");
        assert_eq!(pace.closed(), at(3100));
        assert!(!pace.counts(at(3100), 0) && !pace.is_over());
        pace.leave();
        assert!(!pace.is_over());
        pace.leave();
        assert!(pace.is_over());
    }

    #[test]
    fn no_more_requests_are_made_than_were_paid_for() {
        let never = AtomicBool::new(false);
        let plan = Plan { duration: Span::from_millis(1000), ..Plan::full() };
        let pace = Pace::new(&plan, 1, at(0), &never);
        pace.ended(Span::from_secs(5), true);
        assert!(pace.counts(at(1500), 99));
        assert!(!pace.counts(at(1500), 100), "100 of them take a second at ten milliseconds each");
    }

    #[test]
    fn a_stop_closes_it() {
        let stop = AtomicBool::new(false);
        let pace = Pace::new(&Plan::full(), 1, at(0), &stop);
        assert!(pace.counts(at(10), 0));
        stop.store(true, Ordering::Relaxed);
        assert!(!pace.counts(at(20), 1) && pace.is_over());
        assert_eq!(pace.closed(), at(20));
    }
}
