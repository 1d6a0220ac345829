//! The times at which transactions arrive.

use glidepath_env::unit_interval;
use glidepath_model::{Instant, Span, TableId};

use crate::distribution::Distribution;
use crate::spec::{Arrivals, Burst};

/// One arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it happens.
    pub at: Instant,
    /// The table it must write, if a burst is aimed at one.
    pub table: Option<TableId>,
}

/// Arrivals in order of time, without end.
pub struct ArrivalTimes<F> {
    between: Distribution,
    burst: Option<Burst>,
    now: Instant,
    draw: F,
}

impl<F: FnMut() -> u64> ArrivalTimes<F> {
    /// Arrivals from time zero on.
    pub fn new(spec: &Arrivals, draw: F) -> Self {
        let Arrivals { kind, scale, sigma, floor, burst } = *spec;
        Self { between: Distribution { kind, scale, sigma, floor }, burst, now: Instant::ZERO, draw }
    }
}

impl<F: FnMut() -> u64> Iterator for ArrivalTimes<F> {
    type Item = Arrival;

    fn next(&mut self) -> Option<Arrival> {
        let wait = self.between.sample(&mut self.draw);
        let Some(burst) = self.burst else {
            self.now += wait;
            return Some(Arrival { at: self.now, table: None });
        };
        self.now = burst.pass(self.now, wait);
        // The share of the arrivals in a burst that exceeds the usual rate.
        let extra = 1.0 - 1.0 / burst.rate(self.now).0;
        let aimed = burst.table.filter(|_| unit_interval((self.draw)()) < extra);
        Some(Arrival { at: self.now, table: aimed.map(TableId) })
    }
}

impl Burst {
    /// The time since a burst began, or would have begun before the first one.
    #[must_use]
    pub fn phase(&self, at: Instant) -> Span {
        Span::from_nanos(at.as_nanos() % self.every.as_nanos().max(1))
    }

    /// Whether there is a burst at this time.
    #[must_use]
    pub fn is_on(&self, at: Instant) -> bool {
        at.as_nanos() >= self.every.as_nanos() && self.phase(at) < self.lasts
    }

    /// The average number of bursts in a span of time.
    #[must_use]
    pub fn count_in(&self, time: Span) -> f64 {
        time.as_secs_f64() / self.every.as_secs_f64().max(1e-9)
    }

    /// The factor of the arrival rate at this time, and when that factor ends.
    fn rate(&self, at: Instant) -> (f64, Instant) {
        let (every, lasts) = (self.every.as_nanos(), self.lasts.as_nanos());
        let phase = at.as_nanos() % every;
        let period = Instant::from_nanos(at.as_nanos() - phase);
        if at.as_nanos() >= every && phase < lasts {
            (self.factor, period + self.lasts)
        } else {
            (1.0, period + self.every)
        }
    }

    /// When a wait ends that takes `wait` at the usual rate: during a burst, time counts `factor` times.
    /// (For exponential waits this is exactly a Poisson process of changing rate.)
    fn pass(&self, mut now: Instant, mut wait: Span) -> Instant {
        loop {
            let (rate, until) = self.rate(now);
            let left = Span::from_nanos_f64(until.since(now).as_nanos() as f64 * rate);
            if wait < left {
                return now + Span::from_nanos_f64(wait.as_nanos() as f64 / rate);
            }
            wait = wait - left;
            now = until;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::Shape;

    fn arrivals(burst: Option<Burst>) -> impl Iterator<Item = Arrival> {
        let spec =
            Arrivals { kind: Shape::Exponential, scale: Span::from_millis(100), sigma: 0.0, floor: Span::ZERO, burst };
        let mut state = 0_u64;
        let draw = move || {
            // Weyl sequence through a multiply: random enough for a mean.
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed ^ (mixed >> 32)
        };
        ArrivalTimes::new(&spec, draw).take_while(|arrival| arrival.at.as_secs_f64() < 3600.0)
    }

    #[test]
    fn exponential_arrivals_have_the_stated_mean() {
        let count = arrivals(None).count() as f64;
        assert!((count / 36_000.0 - 1.0).abs() < 0.03, "{count}");
    }

    #[test]
    fn a_burst_multiplies_the_rate_and_aims_the_surplus() {
        let burst = Burst { every: Span::from_secs(600), lasts: Span::from_secs(60), factor: 5.0, table: Some(2) };
        let (inside, outside): (Vec<_>, Vec<_>) = arrivals(Some(burst)).partition(|arrival| {
            let secs = arrival.at.as_secs_f64();
            secs >= 600.0 && secs % 600.0 < 60.0
        });
        // Five bursts of a minute at 50/s, and 55 minutes at 10/s.
        assert!((inside.len() as f64 / 15_000.0 - 1.0).abs() < 0.04, "{}", inside.len());
        assert!((outside.len() as f64 / 33_000.0 - 1.0).abs() < 0.04, "{}", outside.len());
        assert!(outside.iter().all(|arrival| arrival.table.is_none()));
        let aimed = inside.iter().filter(|arrival| arrival.table == Some(TableId(2))).count() as f64;
        assert!((aimed / inside.len() as f64 - 0.8).abs() < 0.03, "{aimed}");
    }
}
