//! What do the clocks of a simulated machine show, if it may be suspended and its clocks drift and jump?
//!
//! Only worlds with clock faults have machines; in all others a process's clock is the world's.

use std::cell::{Cell, RefCell};

use glidepath_env::{Readings, Watch, unit_interval};
use glidepath_model::{Instant, Span};

use crate::fault::Faults;
use crate::luck::Stream;

/// The time of day at which runs begin: 2026-01-01 00:00 UTC.
pub(crate) const EPOCH_MS: u64 = 1_767_225_600_000;

/// The time between two changes of the error of the time of day.
const BETWEEN_JUMPS: Span = Span::from_secs(600);

/// Keys of the random streams of clocks begin here, above those of every purpose: one for each interval between jumps,
/// and one more.
const JUMPS: u64 = 1 << 32;
const DRIFT: u64 = JUMPS - 1;

/// A machine, on which some processes run.
pub(crate) struct Machine {
    seed: u64,
    /// Counted from 1.
    number: u64,
    faults: Faults,
    /// Nanoseconds on its clocks per real nanosecond.
    speed: f64,
    /// The total sleep that has ended or begun.
    slept: Cell<Span>,
    awake_from: Cell<Instant>,
    watch: RefCell<Watch>,
}

impl Machine {
    pub(crate) fn new(seed: u64, number: u64, faults: Faults) -> Self {
        let speed = 1.0 + faults.clock_drift * (2.0 * unit_interval(Stream::keyed(seed, number, DRIFT).draw()) - 1.0);
        let (slept, awake_from) = (Cell::new(Span::ZERO), Cell::new(Instant::ZERO));
        let machine = Self { seed, number, faults, speed, slept, awake_from, watch: RefCell::default() };
        // Its clocks began with the world's.
        machine.now(Instant::ZERO);
        machine
    }

    /// Puts it to sleep for this time. Overlapping sleeps (of two processes at the same time) count once.
    pub(crate) fn suspend(&self, from: Instant, lasts: Span) {
        let (until, before) = (from + lasts, self.awake_from.get());
        self.slept.set(self.slept.get() + until.since(before.max(from)));
        self.awake_from.set(before.max(until));
    }

    /// Until when it sleeps; a moment in the past if it does not.
    pub(crate) fn awake_from(&self) -> Instant {
        self.awake_from.get()
    }

    /// What its processes' clock shows at this time of the world. Uses the code that runs live, on simulated readings.
    pub(crate) fn now(&self, at: Instant) -> Instant {
        let readings = self.readings(at);
        self.watch.borrow_mut().read(readings)
    }

    /// The span of the world's time that corresponds to a span on its clocks.
    pub(crate) fn really(&self, shown: Span) -> Span {
        // One nanosecond more, because rounding could otherwise keep the clock short of it for ever.
        Span::from_nanos_f64(shown.as_nanos() as f64 / self.speed) + Span::from_nanos(1)
    }

    fn readings(&self, at: Instant) -> Readings {
        // Excludes the rest of a sleep that has begun.
        let slept = self.slept.get().as_nanos() - self.awake_from.get().since(at).as_nanos();
        let scaled = |ns: u64| if self.speed == 1.0 { ns } else { (ns as f64 * self.speed) as u64 };
        let monotonic_ns = scaled(at.as_nanos() - slept);
        let counts_sleep = self.number.is_multiple_of(2) && !self.faults.clocks_stop;
        let unix_ns = match self.faults.clocks_stop {
            true => EPOCH_MS * 1_000_000 + monotonic_ns,
            false => self.unix_ms(at) * 1_000_000,
        };
        Readings { monotonic_ns, counting_sleep_ns: counts_sleep.then(|| monotonic_ns + slept), unix_ns }
    }

    /// Its time of day.
    pub(crate) fn unix_ms(&self, at: Instant) -> u64 {
        let right = EPOCH_MS + at.as_nanos() / 1_000_000;
        let most = self.faults.clock_skew.as_nanos() / 1_000_000;
        if most == 0 {
            return right;
        }
        let span = at.as_nanos() / BETWEEN_JUMPS.as_nanos();
        let luck = Stream::keyed(self.seed, self.number, JUMPS + span).draw();
        right - most + luck % (2 * most + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(count: u64) -> Instant {
        Instant::ZERO + Span::from_secs(count)
    }

    #[test]
    fn clocks_count_sleep_unless_they_are_told_to_stop() {
        for number in [1, 2] {
            for clocks_stop in [false, true] {
                let machine = Machine::new(7, number, Faults { clocks_stop, ..Faults::default() });
                assert_eq!(machine.now(second(10)), second(10));
                machine.suspend(second(10), Span::from_secs(3600));
                assert_eq!(machine.now(second(10)), second(10));
                let after = if clocks_stop { 15 } else { 3615 };
                assert_eq!(machine.now(second(3615)), second(after), "machine {number}");
                machine.suspend(second(4000), Span::from_secs(600));
                assert_eq!(machine.now(second(4600)), second(if clocks_stop { 400 } else { 4600 }));
            }
        }
    }

    /// Two processes of a machine send at the same time, and each puts the machine to sleep. (Seed 86 of manifest-chain
    /// under suspends.)
    #[test]
    fn sleeps_that_overlap_are_one() {
        for number in [1, 2] {
            let machine = Machine::new(7, number, Faults { clocks_stop: true, ..Faults::default() });
            machine.suspend(second(10), Span::from_secs(3600));
            machine.suspend(second(10), Span::from_secs(3600));
            machine.suspend(second(10), Span::from_secs(60));
            assert_eq!(machine.awake_from(), second(3610));
            assert_eq!(machine.now(second(3610)), second(10));
            machine.suspend(second(3615), Span::from_secs(100));
            machine.suspend(second(3620), Span::from_secs(100));
            assert_eq!(machine.now(second(3721)), second(16));
        }
    }

    #[test]
    fn clocks_drift_by_a_share_and_no_more() {
        let machine = |number| Machine::new(7, number, Faults { clock_drift: 0.01, ..Faults::default() });
        let shown = |number| {
            let machine = machine(number);
            // If read rarely, a clock this slow would be detected by the time of day.
            let times: Vec<Instant> = (1..=100).map(|n| machine.now(second(10 * n))).collect();
            times[99].since(Instant::ZERO).as_secs_f64()
        };
        let shown: Vec<f64> = (1..50).map(shown).collect();
        assert!(shown.iter().all(|shown| (989.0..=1011.0).contains(shown)), "{shown:?}");
        assert!(shown.iter().any(|shown| *shown < 998.0) && shown.iter().any(|shown| *shown > 1002.0), "{shown:?}");
    }
}
