//! Commits over time: a bounded record of what the counters of the service did in the last hour.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use glidepath_service::Counts;

/// The time of one entry of the record.
const STEP_MS: u64 = 5000;

/// How many entries are kept: an hour.
const MOST: u64 = 720;

/// How many bars a chart has.
pub(super) const BARS: usize = 60;

/// Entries in a bar: the chart shows 5, 15 or 60 minutes.
const STEPS_OF_A_BAR: [u64; 3] = [1, 3, 12];

/// What commits did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Did {
    pub(super) committed: u64,
    pub(super) conflicts: u64,
    pub(super) unknown: u64,
}

impl Did {
    fn of(counts: &Counts) -> Self {
        let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Self { committed: read(&counts.committed), conflicts: read(&counts.conflicts), unknown: read(&counts.unknown) }
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            committed: self.committed.saturating_sub(earlier.committed),
            conflicts: self.conflicts.saturating_sub(earlier.conflicts),
            unknown: self.unknown.saturating_sub(earlier.unknown),
        }
    }

    fn add(&mut self, more: Self) {
        self.committed += more.committed;
        self.conflicts += more.conflicts;
        self.unknown += more.unknown;
    }

    pub(super) fn all(self) -> u64 {
        self.committed + self.conflicts + self.unknown
    }
}

/// What the server did in the last hour.
pub(crate) struct Recent {
    pub(super) started_ms: u64,
    record: Mutex<Record>,
}

#[derive(Default)]
struct Record {
    /// The number of a step since 1970, and what was done in it. Steps in which nothing was done are left out.
    steps: VecDeque<(u64, Did)>,
    noted: Did,
}

/// A chart's content.
pub(super) struct Bars {
    pub(super) bars: [Did; BARS],
    /// When the first bar begins.
    pub(super) from_ms: u64,
    pub(super) width_ms: u64,
}

impl Recent {
    pub(crate) fn new(now_ms: u64) -> Self {
        Self { started_ms: now_ms, record: Mutex::default() }
    }

    /// Notes what was done since the last call. What happens between two calls counts at the time of the second.
    pub(crate) fn note(&self, counts: &Counts, now_ms: u64) {
        let mut record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Did::of(counts);
        let did = now.since(record.noted);
        record.noted = now;
        let step = now_ms / STEP_MS;
        if did.all() > 0 {
            match record.steps.back_mut() {
                // Also if the clock was set back.
                Some((last, sum)) if *last >= step => sum.add(did),
                _ => record.steps.push_back((step, did)),
            }
        }
        while record.steps.front().is_some_and(|(first, _)| first + MOST <= step) {
            record.steps.pop_front();
        }
    }

    /// The shortest time that a chart can show and that has everything since the start, or the last hour.
    pub(super) fn bars(&self, now_ms: u64) -> Bars {
        let record = self.record.lock().unwrap_or_else(PoisonError::into_inner);
        let lived = now_ms.saturating_sub(self.started_ms) / STEP_MS + 1;
        let fits = |steps: &u64| steps * (BARS as u64 - 1) >= lived;
        let width = STEPS_OF_A_BAR.into_iter().find(fits).unwrap_or(MOST / BARS as u64);
        let last = now_ms / STEP_MS / width;
        let first = (last + 1).saturating_sub(BARS as u64);
        let mut bars = [Did::default(); BARS];
        for (step, did) in &record.steps {
            let at = (step / width).min(last);
            if let Some(bar) = at.checked_sub(first).and_then(|index| bars.get_mut(usize::try_from(index).ok()?)) {
                bar.add(*did);
            }
        }
        Bars { bars, from_ms: first * width * STEP_MS, width_ms: width * STEP_MS }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit(counts: &Counts, amount: u64) {
        counts.committed.fetch_add(amount, Ordering::Relaxed);
    }

    #[test]
    fn what_was_done_is_in_the_bar_of_its_time() {
        let (counts, start) = (Counts::default(), 1_000_000_000);
        let recent = Recent::new(start);
        commit(&counts, 3);
        recent.note(&counts, start + 1000);
        commit(&counts, 2);
        recent.note(&counts, start + 20_000);
        recent.note(&counts, start + 21_000);
        let bars = recent.bars(start + 21_000);
        assert_eq!((bars.width_ms, bars.from_ms + 60 * bars.width_ms), (5000, start + 25_000));
        assert_eq!((bars.bars[55].committed, bars.bars[59].committed), (3, 2));
        // Wider bars have the same commits.
        let bars = recent.bars(start + 600_000);
        assert_eq!(bars.width_ms, 15_000);
        assert_eq!(bars.bars.iter().map(|bar| bar.committed).sum::<u64>(), 5);
    }

    #[test]
    fn the_record_is_bounded_whatever_the_clock_does() {
        let (counts, start) = (Counts::default(), 10_000_000_000);
        let recent = Recent::new(start);
        for second in 0..10_000 {
            commit(&counts, 1);
            recent.note(&counts, start + second * 1000);
        }
        commit(&counts, 1);
        recent.note(&counts, start);
        assert_eq!(recent.record.lock().unwrap().steps.len() as u64, MOST);
        let bars = recent.bars(start + 9_999_000);
        assert_eq!(bars.width_ms, 60_000);
        let seen: u64 = bars.bars.iter().map(|bar| bar.committed).sum();
        assert!((3500..=3601).contains(&seen), "{seen}");
        assert_eq!(recent.bars(0).bars.iter().filter(|bar| bar.all() > 0).count(), 1, "a clock that was set back");
    }
}
