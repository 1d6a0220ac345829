//! Two measurements side by side: two stores, two machines, two ways to authenticate.

use glidepath_page::Table;

use super::digits;
use crate::measurement::{Measurement, Numbers};

/// What both measured, as Markdown; names are of the first and the second.
#[must_use]
pub fn comparison(names: [&str; 2], first: &[Measurement], second: &[Measurement]) -> String {
    let mut rows = Vec::new();
    for one in first {
        let same = |other: &&Measurement| other.operation == one.operation && other.writers == one.writers;
        let Some(two) = second.iter().find(same) else { continue };
        let (Some(a), Some(b)) = (Numbers::of(&one.success_ms), Numbers::of(&two.success_ms)) else { continue };
        let pair = |a: f64, b: f64| [digits(a), digits(b), format!("{:.2}", b / a)];
        let mut row = vec![one.operation.name(), one.writers.to_string()];
        row.extend(pair(a.median, b.median));
        row.extend(pair(a.p99, b.p99));
        row.extend(pair(one.throughput_per_s.mean, two.throughput_per_s.mean));
        row.extend([one, two].map(|found| format!("{:.1}", 100.0 * found.failure_rate())));
        rows.push(row);
    }
    let [one, two] = names;
    let note = "Latencies of successes. Ratios are of the second to the first.";
    let head = vec![
        "operation",
        "writers",
        "median 1 (ms)",
        "median 2 (ms)",
        "ratio",
        "p99 1 (ms)",
        "p99 2 (ms)",
        "ratio",
        "successes 1 (1/s)",
        "successes 2 (1/s)",
        "ratio",
        "failures 1 (%)",
        "failures 2 (%)",
    ];
    format!("# 1: {one}\n# 2: {two}\n\n{}", Table { title: "Side by side", note, head, rows }.markdown())
}
