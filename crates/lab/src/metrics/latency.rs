//! Percentiles of latencies, and the interval of the highest.

use glidepath_model::Span;
use glidepath_run::statistics::quantile_by;

use super::{Batch, Latency};
use crate::interval::{self, Interval, Part};

/// The percentiles over all batches; absent if nothing committed.
pub(super) fn of(batches: &[Batch]) -> Option<Latency> {
    let mut spans: Vec<Span> = batches.iter().flat_map(|batch| &batch.latencies).copied().collect();
    if spans.is_empty() {
        return None;
    }
    let mean_s = spans.iter().map(|span| span.as_secs_f64()).sum::<f64>() / spans.len() as f64;
    spans.sort_unstable();
    let p99_s = percentile(&spans, 0.99);
    Some(Latency {
        mean_s,
        p50_s: percentile(&spans, 0.50),
        p95_s: percentile(&spans, 0.95),
        p99_s,
        p99_interval_s: p99_interval(batches, &spans, p99_s),
    })
}

/// The interval of the 99th percentile. Absent if its upper end is beyond the longest latency.
fn p99_interval(batches: &[Batch], sorted: &[Span], p99_s: f64) -> Option<Interval> {
    let below = |batch: &Batch| Part {
        of: batch.latencies.len() as u64,
        counted: batch.latencies.iter().filter(|span| span.as_secs_f64() <= p99_s).count() as u64,
    };
    let ends = interval::share(&batches.iter().map(below).collect::<Vec<_>>())?;
    let known = ends[1] <= 1.0 - 1.0 / sorted.len() as f64;
    known.then(|| ends.map(|share| percentile(sorted, share)))
}

/// The percentile of sorted spans, in seconds. There must be at least one.
fn percentile(sorted: &[Span], share: f64) -> f64 {
    quantile_by(sorted, share, |span| span.as_secs_f64())
}
