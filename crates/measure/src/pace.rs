//! Which operations of a trial count? All that began while every writer was at work, from the warm-up until counting is
//! *closed*. The trial waits for each of them however long it takes, and the other writers go on meanwhile, so that the
//! number of writers does not fall before they end. Counting only operations that also end in time would leave out the
//! slow ones.
//!
//! A writer that has made the number of operations in the cost estimate makes no more, even while the trial waits for
//! others. It closes counting as soon as every writer has an operation that counts, and waits.
//!
//! A trial of a simulated store may have a bound on its operations, because a store in memory does millions of them in
//! the time of a trial. Half of them end the warm-up, all of them the trial.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use glidepath_model::{Instant, Span};

use crate::plan::{MOST_DURATIONS, Plan};

/// The least time of counting, as a multiple of the longest operation: a trial shows too few operations that are longer
/// than it.
const LONGEST_FITS: u64 = 10;

/// What the writers of a trial share.
#[derive(Debug)]
pub(crate) struct Pace<'a> {
    /// The end of the warm-up, in nanoseconds.
    from: AtomicU64,
    /// The operations that may still begin, of all writers.
    left: AtomicU64,
    /// Of these, those that are for the time after the warm-up.
    kept: u64,
    duration: Span,
    most: usize,
    /// The most operations of one writer, as announced in the estimate.
    paid: u64,
    /// Writers of which no counted operation has ended yet.
    awaited: AtomicU32,
    /// Writers with a counted operation that may still be in flight.
    counting: AtomicU32,
    /// The longest counted operation so far, in nanoseconds.
    longest: AtomicU64,
    /// When counting was closed, in nanoseconds.
    closed: AtomicU64,
    /// If set, no operation begins.
    stop: &'a AtomicBool,
    /// A writer has failed, or all operations that may begin have: later ones do not count.
    abandoned: AtomicBool,
}

/// The progress of a writer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Done {
    /// Its operations, including those of the warm-up.
    pub(crate) made: u64,
    /// Those that count.
    pub(crate) counted: usize,
}

/// Ends the trial if the thread panics: the other writers would wait for it for ever.
pub(crate) struct EndsForAll<'a>(pub(crate) &'a Pace<'a>);

impl Drop for EndsForAll<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abandoned.store(true, Ordering::SeqCst);
        }
    }
}

impl<'a> Pace<'a> {
    pub(crate) fn new(plan: &Plan, writers: u32, from: Instant, stop: &'a AtomicBool) -> Self {
        Self {
            from: AtomicU64::new(from.as_nanos()),
            left: AtomicU64::new(u64::MAX),
            kept: 0,
            duration: plan.duration,
            most: plan.most_per_writer,
            paid: plan.most_requests(),
            awaited: AtomicU32::new(writers),
            counting: AtomicU32::new(writers),
            longest: AtomicU64::new(0),
            closed: AtomicU64::new(u64::MAX),
            stop,
            abandoned: AtomicBool::new(false),
        }
    }

    /// The same, with at most this number of operations.
    pub(crate) fn at_most(mut self, operations: u64) -> Self {
        (self.left, self.kept) = (AtomicU64::new(operations), operations / 2);
        self
    }

    /// The operations that may still begin.
    pub(crate) fn left(&self) -> u64 {
        self.left.load(Ordering::SeqCst)
    }

    /// Records that an operation begins.
    pub(crate) fn begins(&self, now: Instant) {
        let left = self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        match left {
            Ok(left) if left > self.kept => {}
            Ok(left) if left > 1 => {
                self.from.fetch_min(now.as_nanos(), Ordering::SeqCst);
            }
            _ => self.abandoned.store(true, Ordering::SeqCst),
        }
    }

    fn from(&self) -> Instant {
        Instant::from_nanos(self.from.load(Ordering::SeqCst))
    }

    /// When counting was closed; the greatest time if it was not.
    pub(crate) fn closed(&self) -> Instant {
        Instant::from_nanos(self.closed.load(Ordering::SeqCst))
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed) || self.abandoned.load(Ordering::SeqCst)
    }

    /// Whether a writer with this progress must wait instead of sending more: the cost estimate was an upper bound.
    /// (Stores that are no clouds may answer faster than the estimate assumes; their writers continue until the trial
    /// ends.) A writer without an operation that counts never waits, because all others wait for it: an operation of
    /// its warm-up may have lasted beyond the end of the trial.
    pub(crate) fn is_spent(&self, now: Instant, done: Done) -> bool {
        done.made >= self.paid && done.counted > 0 && now.since(self.from().min(now)) >= self.duration
    }

    /// Whether an operation that a writer begins now counts, as far as it knows.
    pub(crate) fn counts(&self, now: Instant, done: Done) -> bool {
        if self.is_enough(now, done) || self.stopped() {
            self.closed.fetch_min(now.as_nanos(), Ordering::SeqCst);
        }
        now >= self.from() && now < self.closed()
    }

    fn is_enough(&self, now: Instant, done: Done) -> bool {
        if now < self.from() || self.awaited.load(Ordering::SeqCst) > 0 {
            return false;
        }
        let counted = now.since(self.from());
        let longest = self.longest.load(Ordering::SeqCst);
        let stretched = counted >= self.duration;
        let shown = counted.as_nanos() >= LONGEST_FITS.saturating_mul(longest);
        let too_long = counted.as_nanos() >= MOST_DURATIONS.saturating_mul(self.duration.as_nanos());
        done.counted >= self.most || stretched && (shown || too_long || self.is_spent(now, done))
    }

    /// Records an operation that counts.
    pub(crate) fn ended(&self, latency: Span, first: bool) {
        self.longest.fetch_max(latency.as_nanos(), Ordering::SeqCst);
        if first {
            self.awaited.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Records that a writer has no counted operation in flight and will have none.
    pub(crate) fn leave(&self) {
        self.counting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether this holds for all writers.
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

    fn had(counted: usize) -> Done {
        Done { made: counted as u64, counted }
    }

    #[test]
    fn counting_goes_on_until_the_longest_operation_fits_in_often() {
        let never = AtomicBool::new(false);
        let plan = Plan { duration: Span::from_millis(1000), ..Plan::full() };
        let pace = Pace::new(&plan, 2, at(100), &never);
        assert!(!pace.counts(at(50), had(0)), "the warm-up");
        assert!(pace.counts(at(100), had(0)));
        pace.ended(Span::from_millis(300), true);
        assert!(pace.counts(at(5000), had(1)), "the other writer has done none yet");
        pace.ended(Span::from_millis(200), true);
        assert!(pace.counts(at(3000), had(20)));
        assert!(!pace.counts(at(3100), had(20)), "ten times 300 ms are over");
        assert_eq!(pace.closed(), at(3100));
        assert!(!pace.counts(at(3100), had(0)) && !pace.is_over());
        pace.leave();
        assert!(!pace.is_over());
        pace.leave();
        assert!(pace.is_over());
    }

    #[test]
    fn no_more_requests_are_made_than_were_paid_for() {
        let never = AtomicBool::new(false);
        let plan = Plan { duration: Span::from_millis(1000), warm_up: Span::from_millis(500), ..Plan::full() };
        let pace = Pace::new(&plan, 2, at(500), &never);
        let done = |made| Done { made, counted: made as usize };
        pace.ended(Span::from_secs(5), true);
        assert!(!pace.is_spent(at(1400), done(200)), "a store that answers sooner may, as long as the trial lasts");
        assert!(!pace.is_spent(at(1500), done(149)) && pace.is_spent(at(1500), done(150)), "at ten milliseconds each");
        assert!(pace.counts(at(1600), done(150)), "the other writer has nothing that counts yet");
        pace.ended(Span::from_secs(1), true);
        assert!(pace.counts(at(1700), done(149)) && !pace.counts(at(1700), done(150)));
        assert!(pace.is_spent(at(60_000), done(150)), "after closing, too");
        let warmed_up = Done { made: 150, counted: 0 };
        assert!(!pace.is_spent(at(60_000), warmed_up), "the others wait for one that counts");
    }

    #[test]
    fn a_writer_that_panics_ends_it_for_all() {
        let never = AtomicBool::new(false);
        let pace = Pace::new(&Plan::full(), 2, at(0), &never);
        drop(EndsForAll(&pace));
        assert!(!pace.is_over());
        let panicked = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let _ends = EndsForAll(&pace);
                panic!("a bug in a driver");
            });
            writer.join().is_err()
        });
        assert!(panicked && pace.is_over());
    }

    #[test]
    fn so_many_operations_end_the_warm_up_and_then_the_trial() {
        let never = AtomicBool::new(false);
        let pace = Pace::new(&Plan::full(), 1, at(500), &never).at_most(10);
        for made in 0..5 {
            assert!(!pace.counts(at(made), had(0)), "the warm-up");
            pace.begins(at(made));
        }
        assert!(!pace.counts(at(5), had(0)));
        pace.begins(at(5));
        assert!(pace.counts(at(6), had(0)), "half of them are left");
        (6..10).for_each(|made| pace.begins(at(made)));
        assert!(pace.left() == 0 && pace.is_over() && !pace.counts(at(10), had(1)));
    }

    #[test]
    fn a_stop_closes_it() {
        let stop = AtomicBool::new(false);
        let pace = Pace::new(&Plan::full(), 1, at(0), &stop);
        assert!(pace.counts(at(10), had(0)));
        stop.store(true, Ordering::Relaxed);
        assert!(!pace.counts(at(20), had(1)) && pace.is_over());
        assert_eq!(pace.closed(), at(20));
    }
}
