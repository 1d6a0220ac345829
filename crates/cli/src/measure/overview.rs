//! What does a measurement say, on one screen? The rest is in the report.

use glidepath_measure::{Measurement, Numbers, Provenance, percentile_interval};
use glidepath_page::{ReportPage, digits};

use crate::origin::ago;
use crate::output::{NONE, table};

/// A line for each operation and number of writers, and what the report found.
pub(super) fn text(page: &ReportPage, provenance: &Provenance, measurements: &[Measurement]) -> String {
    let header = ["operation", "writers", "successes/s", "failed %", "p50 ms", "p95 ms", "p99 ms"].map(str::to_owned);
    let rows = table(&header, 1, measurements.iter().map(row).collect());
    let findings: Vec<String> = page.findings.iter().map(|found| format!("- {found}")).collect();
    let Provenance { date, machine, .. } = provenance;
    let day = ago(date).unwrap_or_else(|| date.clone());
    format!("{}, from {machine}, {day}\n\n{rows}\nPercentiles are of successes.\n\n{}", page.title, findings.join("\n"))
}

fn row(measurement: &Measurement) -> Vec<String> {
    let failed = 100.0 * measurement.failure_rate();
    let failed = if measurement.operation.is_guarded() { format!("{failed:.1}") } else { NONE.to_owned() };
    let mut row = vec![
        measurement.operation.name(),
        measurement.writers.to_string(),
        digits(measurement.throughput_per_s.mean),
        failed,
    ];
    let sorted = &measurement.success_ms;
    let numbers = Numbers::of(sorted);
    // As in the report, a percentile above which too few samples lie is left out.
    let tail =
        |share, value: f64| percentile_interval(sorted, share).map_or_else(|| NONE.to_owned(), |_| digits(value));
    row.push(numbers.map_or_else(|| NONE.to_owned(), |numbers| digits(numbers.median)));
    row.push(numbers.map_or_else(|| NONE.to_owned(), |numbers| tail(0.95, numbers.p95)));
    row.push(numbers.map_or_else(|| NONE.to_owned(), |numbers| tail(0.99, numbers.p99)));
    row
}
