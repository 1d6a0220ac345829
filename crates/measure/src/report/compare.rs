//! How do two measurements compare: of two stores, two machines, or two ways to authenticate?

use glidepath_page::Table;

use super::{digits, with_interval};
use crate::measurement::{Measurement, Numbers, percentile_interval};

/// The operations that both measured, as Markdown; `names` are those of the first and the second.
#[must_use]
pub fn comparison(names: [&str; 2], first: &[Measurement], second: &[Measurement]) -> String {
    let mut rows = Vec::new();
    for one in first {
        let same = |other: &&Measurement| other.operation == one.operation && other.writers == one.writers;
        let Some(two) = second.iter().find(same) else { continue };
        let (Some(a), Some(b)) = (Numbers::of(&one.success_ms), Numbers::of(&two.success_ms)) else { continue };
        let pair = |a: f64, b: f64| [digits(a), digits(b), digits(b / a)];
        let mut row = vec![one.operation.name(), one.writers.to_string()];
        let percentile = |share: f64, a: f64, b: f64| {
            let both = [one, two].iter().all(|found| percentile_interval(&found.success_ms, share).is_some());
            let ratio = if both { digits(b / a) } else { "-".to_owned() };
            [with_interval(&one.success_ms, (share, a)), with_interval(&two.success_ms, (share, b)), ratio]
        };
        row.extend(percentile(0.5, a.median, b.median));
        row.extend(percentile(0.99, a.p99, b.p99));
        row.extend(pair(one.throughput_per_s.mean, two.throughput_per_s.mean));
        row.extend([one, two].map(|found| format!("{:.1}", 100.0 * found.failure_rate())));
        rows.push(row);
    }
    let [one, two] = names;
    let note = "Latencies of successes. Next to each is the interval that contains it with 95 % confidence if samples \
                are independent; none if fewer than three samples lie above it (of 300 for p99). Ratios are the second \
                divided by the first.";
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

#[cfg(test)]
mod tests {
    use super::*;
    use glidepath_run::statistics::Spread;

    use crate::plan::Operation;

    #[test]
    fn a_percentile_of_too_few_is_not_printed() {
        let of = |count: u32| Measurement {
            operation: Operation::Cas,
            writers: 2,
            trials: 2,
            success_ms: (1..=count).map(f64::from).collect(),
            failure_ms: Vec::new(),
            refused: 0,
            unknown: 0,
            throughput_per_s: Spread { mean: 10.0, deviation: Some(1.0) },
            failure_rate_error: None,
        };
        let few = comparison(["a", "b"], &[of(1000)], &[of(200)]);
        assert!(few.contains("| 990 (983 to 998) | - | - |"), "{few}");
        let many = comparison(["a", "b"], &[of(1000)], &[of(2000)]);
        assert!(many.contains("| 1980 (1971 to 1990) | 2.00 |"), "{many}");
    }
}
