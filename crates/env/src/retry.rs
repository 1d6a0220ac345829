//! Waits of a client between attempts.

use glidepath_model::Span;
use serde::{Deserialize, Serialize};

use crate::unit_interval;

/// The wait before the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Backoff {
    /// No wait.
    Immediate,
    /// Longer each time.
    Exponential(Exponential),
}

/// Waits that grow by a factor up to a limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Exponential {
    /// The wait before the first retry.
    pub first: Span,
    /// Growth from one wait to the next; at least 1.
    pub factor: f64,
    /// The longest wait, before jitter.
    pub longest: Span,
    /// The range of the random multiplier of each wait.
    #[serde(default)]
    pub jitter: JitterRange,
}

/// The wait is multiplied by a number drawn uniformly from this range. `[0, 1]` is full jitter; `[1, 1]` is none.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "[f64; 2]", into = "[f64; 2]")]
pub struct JitterRange {
    /// Not negative.
    pub low: f64,
    /// Not below `low`.
    pub high: f64,
}

impl Default for JitterRange {
    fn default() -> Self {
        Self { low: 1.0, high: 1.0 }
    }
}

impl From<[f64; 2]> for JitterRange {
    fn from([low, high]: [f64; 2]) -> Self {
        Self { low, high }
    }
}

impl From<JitterRange> for [f64; 2] {
    fn from(range: JitterRange) -> Self {
        [range.low, range.high]
    }
}

impl Backoff {
    /// The wait before retry `repeat`, counted from 0. Calls `draw` at most once.
    pub fn wait(&self, repeat: u32, draw: impl FnOnce() -> u64) -> Span {
        let Self::Exponential(Exponential { first, factor, longest, jitter }) = self else {
            return Span::ZERO;
        };
        let grown = first.as_nanos() as f64 * factor.powi(repeat.min(i32::MAX as u32) as i32);
        let base = grown.min(longest.as_nanos() as f64);
        let multiplier = if jitter.low < jitter.high {
            jitter.low + (jitter.high - jitter.low) * unit_interval(draw())
        } else {
            jitter.low
        };
        Span::from_nanos_f64(base * multiplier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn doubling(jitter: JitterRange) -> Backoff {
        let (first, longest) = (Span::from_millis(100), Span::from_secs(60));
        Backoff::Exponential(Exponential { first, factor: 2.0, longest, jitter })
    }

    #[test]
    fn waits_double_up_to_the_longest() {
        let waits: Vec<_> = (0..12).map(|n| doubling(JitterRange::default()).wait(n, || 0).as_millis_f64()).collect();
        assert_eq!(&waits[..4], &[100.0, 200.0, 400.0, 800.0]);
        assert_eq!(waits[11], 60_000.0);
        assert_eq!(doubling(JitterRange::default()).wait(u32::MAX, || 0), Span::from_secs(60));
    }

    #[test]
    fn jitter_spans_its_range() {
        let full = doubling(JitterRange { low: 0.0, high: 1.0 });
        assert_eq!(full.wait(0, || 0), Span::ZERO);
        assert_eq!(full.wait(0, || u64::MAX).as_millis_f64().round(), 100.0);
        assert_eq!(Backoff::Immediate.wait(5, || 7), Span::ZERO);
    }
}
