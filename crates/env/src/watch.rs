//! A clock that shows how long ago something was, although machines sleep and clocks are set.
//!
//! A guard by time ("this was the newest version less than five minutes ago") fails if the clock stops while others
//! continue. So a process uses a clock that counts sleep, if the platform has one. That is not enough: all clocks of a
//! paused virtual machine stop, until its time of day is set. So if the time of day gets ahead of the clock by more
//! than clocks may differ, the clock follows: for a guard, too late is safe and too early is not.

use glidepath_model::Instant;

/// How far the time of day may get ahead of a clock between two readings if both are right, besides [`TOLERATED_SHARE`]
/// of the time between them.
const TOLERATED_NS: i128 = 1_000_000_000;

/// The greatest difference in speed between clocks, as a divisor: twice the largest change that time services make to
/// the speed of the time of day (adjtimex: 500 millionths).
const TOLERATED_SHARE: i128 = 1000;

/// The window over which the two are compared; over longer times clocks may drift apart.
const WINDOW_NS: i128 = 60_000_000_000;

/// The readings of a machine's clocks at one moment. Each clock may start at any value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Readings {
    /// Never goes back; stops while the machine sleeps.
    pub monotonic_ns: u64,
    /// Never goes back, and counts sleep; `None` where the platform has no such clock.
    pub counting_sleep_ns: Option<u64>,
    /// The time of day, since 1970. May be wrong, and may jump either way.
    pub unix_ns: u64,
}

/// The clock of one process, used for everything it measures: two such clocks may differ by hours.
///
/// It begins at [`Instant::ZERO`] with the first reading and never goes back.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watch {
    began: Option<Began>,
    /// The time that the clock missed, as the time of day showed.
    added_ns: i128,
    shown_ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Began {
    /// The clock at the first reading.
    zero_ns: i128,
    /// The least lead of the time of day over the clock in this window.
    lead_ns: i128,
    /// The clock at the beginning of the window.
    window_ns: i128,
}

impl Watch {
    /// The time now, by these readings.
    pub fn read(&mut self, readings: Readings) -> Instant {
        let clock = i128::from(readings.counting_sleep_ns.unwrap_or(readings.monotonic_ns));
        let lead = i128::from(readings.unix_ns) - clock;
        let began = self.began.get_or_insert(Began { zero_ns: clock, lead_ns: lead, window_ns: clock });
        let gained = lead - began.lead_ns;
        let tolerated = TOLERATED_NS + (clock - began.window_ns).max(0) / TOLERATED_SHARE;
        if gained > tolerated {
            self.added_ns += gained;
        }
        if !(0..=tolerated).contains(&gained) || clock - began.window_ns > WINDOW_NS {
            (began.lead_ns, began.window_ns) = (lead, clock);
        }
        let passed = u64::try_from((clock - began.zero_ns + self.added_ns).max(0)).unwrap_or(u64::MAX);
        self.shown_ns = self.shown_ns.max(passed);
        Instant::from_nanos(self.shown_ns)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// A machine, and the time that has really passed on it.
    #[derive(Clone, Copy)]
    struct Machine {
        readings: Readings,
        really_ns: u64,
        watch: Watch,
    }

    impl Machine {
        fn new(counts_sleep: bool) -> Self {
            let counting_sleep_ns = counts_sleep.then_some(77 * SECOND);
            let readings = Readings { monotonic_ns: 5 * SECOND, counting_sleep_ns, unix_ns: 1_000_000 * SECOND };
            Self { readings, really_ns: 0, watch: Watch::default() }
        }

        fn runs(&mut self, ns: u64) -> u64 {
            self.readings.monotonic_ns += ns;
            self.sleeps(ns);
            self.shows()
        }

        /// Suspended: the clock that counts sleep continues, and so does the time of day.
        fn sleeps(&mut self, ns: u64) {
            if let Some(counting) = &mut self.readings.counting_sleep_ns {
                *counting += ns;
            }
            self.readings.unix_ns += ns;
            self.really_ns += ns;
        }

        /// A virtual machine that its host pauses: its clocks stop; the time of day is set when it continues.
        fn is_paused(&mut self, ns: u64) {
            self.readings.unix_ns += ns;
            self.really_ns += ns;
        }

        fn shows(&mut self) -> u64 {
            self.watch.read(self.readings).as_nanos()
        }
    }

    /// The defect that this prevents: by `std::time::Instant` alone, two hours of suspend took no time.
    #[test]
    fn two_hours_of_sleep_are_two_hours() {
        for counts_sleep in [true, false] {
            let mut machine = Machine::new(counts_sleep);
            assert_eq!(machine.shows(), 0);
            assert_eq!(machine.runs(SECOND), SECOND);
            machine.sleeps(7200 * SECOND);
            assert_eq!(machine.shows(), 7201 * SECOND);
            assert_eq!(machine.runs(SECOND), 7202 * SECOND);
            machine.is_paused(7200 * SECOND);
            assert_eq!(machine.shows(), 14_402 * SECOND);
        }
    }

    #[test]
    fn a_time_of_day_that_is_set_back_does_not_hide_a_pause() {
        let mut machine = Machine::new(true);
        machine.shows();
        machine.readings.unix_ns -= 3600 * SECOND;
        assert_eq!(machine.runs(SECOND), SECOND);
        machine.is_paused(3600 * SECOND);
        assert_eq!(machine.shows(), 3601 * SECOND);
    }

    proptest! {
        /// The clock never goes back, and lags by at most the tolerance of each window.
        #[test]
        fn it_is_never_behind(
            counts_sleep in any::<bool>(),
            events in prop::collection::vec((0_u8..4, 0_u64..20_000, 0_i64..400), 1..60),
        ) {
            let mut machine = Machine::new(counts_sleep);
            let mut last = machine.shows();
            for (kind, seconds, drift) in events {
                match kind {
                    0 => machine.sleeps(seconds * SECOND),
                    1 => machine.is_paused(seconds * SECOND),
                    2 => machine.readings.unix_ns -= seconds * SECOND / 100,
                    _ => {
                        machine.runs(SECOND);
                        machine.readings.unix_ns = machine.readings.unix_ns.saturating_add_signed(drift * 1000);
                    }
                }
                let shown = machine.shows();
                prop_assert!(shown >= last);
                last = shown;
                let tolerated = 60 * TOLERATED_NS as u64 + machine.really_ns / TOLERATED_SHARE as u64;
                prop_assert!(shown + tolerated >= machine.really_ns, "{} behind {}", shown, machine.really_ns);
            }
        }
    }
}
