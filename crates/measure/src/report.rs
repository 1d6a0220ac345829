//! How does a person read a measurement? As a page with charts, and as the same tables in text.

use glidepath_page::{ReportPage, Section, Table};
use glidepath_picture::PictureError;

use crate::fit::{Fits, Fitted, GOOD_KS};
use crate::measurement::{Measurement, Numbers, percentile_interval};
use crate::plan::{Operation, Plan};
use crate::profile::Provenance;

mod compare;
mod pictures;

pub use compare::comparison;
pub(crate) use glidepath_page::{counted, digits};

/// A report, to be written as HTML or text.
pub struct Report<'a> {
    /// What was measured, where and by what.
    pub provenance: &'a Provenance,
    /// The plan.
    pub plan: &'a Plan,
    /// The fitted results.
    pub fitted: &'a [Fitted<'a>],
    /// What was not measured, and why.
    pub left_out: &'a [String],
    /// Whether the plan was carried out to its end.
    pub complete: bool,
}

/// A measurement's latencies of one outcome, fitted.
pub(crate) struct FittedLatencies<'a> {
    pub(crate) measurement: &'a Measurement,
    pub(crate) name: &'static str,
    pub(crate) sorted: &'a [f64],
    pub(crate) numbers: Numbers,
    pub(crate) fits: Option<&'a Fits>,
}

/// Success and failure separately; outcomes without samples are left out.
pub(crate) fn outcomes<'a>(fitted: &'a [Fitted<'a>]) -> Vec<FittedLatencies<'a>> {
    let both = fitted.iter().flat_map(|Fitted { measurement, success, failure }| {
        let Measurement { success_ms, failure_ms, .. } = measurement;
        [("success", success_ms, success), ("failure", failure_ms, failure)].map(|(name, sorted, fits)| {
            let (numbers, fits) = (Numbers::of(sorted)?, fits.as_ref());
            Some(FittedLatencies { measurement, name, sorted, numbers, fits })
        })
    });
    both.flatten().collect()
}

impl FittedLatencies<'_> {
    fn words(&self) -> String {
        let Measurement { operation, writers, .. } = *self.measurement;
        let distance = self.fits.map_or(0.0, |fits| fits.mixture.1);
        let (name, outcome, count) = (operation.name(), self.name, self.numbers.count);
        let writers = counted(writers, "writer");
        format!("{name} with {writers}, {outcome} ({count} samples, {distance:.3})")
    }
}

/// The failure rate if all writers took turns and one of each round won: 1 - 1/N.
pub(crate) fn turns(writers: u32) -> f64 {
    1.0 - 1.0 / f64::from(writers)
}

impl Report<'_> {
    /// The page.
    ///
    /// # Errors
    /// A picture cannot be drawn.
    pub fn page(&self) -> Result<ReportPage, PictureError> {
        let (measurements, outcomes) = (self.measurements(), outcomes(self.fitted));
        let tables = [rates(&measurements), latencies(&outcomes), growth(&measurements), fits(&outcomes)];
        let overview = Section::Pictures(pictures::overview(&measurements)?);
        let distributions = Section::Gallery {
            title: "Distributions",
            note: "Each chart shows the share of the operations that took at most this time, as measured and as \
                   fitted.",
            pictures: pictures::distributions(&outcomes)?,
        };
        Ok(ReportPage {
            title: format!("Conditional writes on {}", self.provenance.store),
            facts: self.facts(),
            findings: self.findings(&measurements, &outcomes),
            sections: std::iter::once(overview).chain(tables.map(Section::Table)).chain([distributions]).collect(),
        })
    }

    fn measurements(&self) -> Vec<&Measurement> {
        self.fitted.iter().map(|fitted| fitted.measurement).collect()
    }

    /// The findings, in sentences.
    fn findings(&self, measurements: &[&Measurement], outcomes: &[FittedLatencies<'_>]) -> Vec<String> {
        let mut found = Vec::new();
        for operation in [Operation::Cas, Operation::Create, Operation::Append] {
            let guarded: Vec<_> = measurements.iter().copied().filter(|found| found.operation == operation).collect();
            found.extend(of_writers(&guarded));
        }
        let unknown: u64 = measurements.iter().map(|found| found.unknown).sum();
        if unknown > 0 {
            found.push(format!("{unknown} operations have an unknown outcome; they are in no table."));
        }
        let poor = |outcome: &&FittedLatencies<'_>| outcome.fits.is_some_and(|fits| fits.mixture.1 > GOOD_KS);
        let poor: Vec<String> = outcomes.iter().filter(poor).map(FittedLatencies::words).collect();
        if !poor.is_empty() {
            found.push(format!(
                "No mixture comes within {GOOD_KS} of the data for {}: the profile has the data's own quantiles there. \
                 The usual causes are latencies that repeat exactly (a clock's tick, a floor) and few samples.",
                poor.join("; ")
            ));
        }
        found.extend(self.left_out.iter().cloned());
        if !self.complete {
            found
                .push("The measurement was stopped before its end: the tables have the results until then.".to_owned());
        }
        found
    }

    pub(crate) fn facts(&self) -> String {
        let Provenance { store, machine, date, program } = self.provenance;
        let Plan { trials, duration, warm_up, body, .. } = self.plan;
        let trials = counted(*trials, "trial");
        format!(
            "{store}, measured {date} from {machine} by {program}. {trials} of {duration} each after {warm_up} of \
             warm-up; guarded objects and appended pieces of {body}. Closed loop: each writer sends its next operation \
             when the last one is answered. Operations count if they began while all writers were at work, however \
             long they took. A trial lasts until the longest operation fits into it ten times, at most ten times as \
             long as planned, or until a writer has made its planned operations."
        )
    }
}

/// The finding about one guarded operation: with the fewest writers, and with the most if there are several numbers.
fn of_writers(measured: &[&Measurement]) -> Option<String> {
    let (alone, crowd) = (measured.first()?, measured.last()?);
    let median = Numbers::of(&alone.success_ms).map_or(0.0, |numbers| numbers.median);
    let mut words = format!(
        "{}: with {} the median is {} ms, with {} successes/s",
        alone.operation.name(),
        counted(alone.writers, "writer"),
        digits(median),
        digits(alone.throughput_per_s.mean),
    );
    if measured.len() > 1 {
        let (writers, rate) = (counted(crowd.writers, "writer"), digits(crowd.throughput_per_s.mean));
        words.push_str(&format!("; with {writers} there are {rate} successes/s"));
    }
    // A writer that is alone does not lose.
    if crowd.writers > 1 {
        let (failed, in_turns) = (100.0 * crowd.failure_rate(), 100.0 * turns(crowd.writers));
        words.push_str(&format!(", and {failed:.1} % of the attempts fail (1 - 1/N would be {in_turns:.1} %)"));
    }
    words.push('.');
    Some(words)
}

fn rates(measurements: &[&Measurement]) -> Table {
    let row = |found: &&Measurement| {
        let guarded = found.operation.is_guarded();
        vec![
            found.operation.name(),
            found.writers.to_string(),
            found.success_ms.len().to_string(),
            found.failure_ms.len().to_string(),
            found.refused.to_string(),
            found.unknown.to_string(),
            if guarded { format!("{:.1}", 100.0 * found.failure_rate()) } else { "-".to_owned() },
            match found.failure_rate_error {
                Some(error) if guarded => format!("{:.1}", 100.0 * error),
                _ => "-".to_owned(),
            },
            if guarded { format!("{:.1}", 100.0 * turns(found.writers)) } else { "-".to_owned() },
            digits(found.throughput_per_s.mean),
            // A single trial has no deviation.
            found.throughput_per_s.deviation.map_or_else(|| "-".to_owned(), digits),
        ]
    };
    Table {
        title: "Operations",
        note: "Failures include refused operations (throttled, or another conditional write in flight). Throughput \
               counts successes that began in the window, with the standard deviation over trials. The error of a \
               failure rate is one standard error, from the spread between trials (or tenths of trials, if there are \
               fewer than four).",
        head: vec![
            "operation",
            "writers",
            "successes",
            "failures",
            "refused",
            "unknown",
            "failure rate (%)",
            "± (%)",
            "1 - 1/N (%)",
            "throughput (1/s)",
            "± (1/s)",
        ],
        rows: measurements.iter().map(row).collect(),
    }
}

fn latencies(outcomes: &[FittedLatencies<'_>]) -> Table {
    let row = |outcome: &FittedLatencies<'_>| {
        let Numbers { count, mean, median, p95, p99, p999, max } = outcome.numbers;
        let mut row = vec![
            outcome.measurement.operation.name(),
            outcome.measurement.writers.to_string(),
            outcome.name.to_owned(),
            count.to_string(),
        ];
        row.extend([mean, median].map(digits));
        row.extend(
            [(0.95, p95), (0.99, p99), (0.999, p999)].map(|percentile| with_interval(outcome.sorted, percentile)),
        );
        row.push(digits(max));
        row
    };
    Table {
        title: "Latency (ms)",
        note: "From request to answer, of successes and failures separately. Next to each percentile is the interval \
               that contains it with 95 % confidence if samples are independent. A percentile is left out if fewer than \
               three samples can lie above it: p99.9 needs 3,000 samples.",
        head: vec!["operation", "writers", "outcome", "count", "mean", "median", "p95", "p99", "p99.9", "max"],
        rows: outcomes.iter().map(row).collect(),
    }
}

/// A percentile and its interval.
pub(crate) fn with_interval(sorted: &[f64], (share, found): (f64, f64)) -> String {
    match percentile_interval(sorted, share) {
        Some((low, high)) => format!("{} ({} to {})", digits(found), digits(low), digits(high)),
        None => "-".to_owned(),
    }
}

/// How latency grows with writers, and how long its tail is.
fn growth(measurements: &[&Measurement]) -> Table {
    let mut rows = Vec::new();
    for found in measurements.iter().filter(|found| found.operation.is_guarded()) {
        let alone = measurements.iter().find(|other| other.operation == found.operation);
        let (Some(alone), Some(numbers)) =
            (alone.and_then(|alone| Numbers::of(&alone.success_ms)), Numbers::of(&found.success_ms))
        else {
            continue;
        };
        let tail = |share, percentile: f64| match percentile_interval(&found.success_ms, share) {
            Some(_) => format!("{:.2}", percentile / numbers.median),
            None => "-".to_owned(),
        };
        rows.push(vec![
            found.operation.name(),
            found.writers.to_string(),
            format!("{:.2}", numbers.median / alone.median),
            format!("{:.2}", numbers.mean / alone.mean),
            tail(0.95, numbers.p95),
            tail(0.99, numbers.p99),
            tail(0.999, numbers.p999),
        ]);
    }
    Table {
        title: "Contention and tails",
        note: "Contention factor: the latency of successes divided by that with the fewest writers. Tail ratios: \
               percentiles of successes divided by their median.",
        head: vec![
            "operation",
            "writers",
            "contention (median)",
            "contention (mean)",
            "p95 / p50",
            "p99 / p50",
            "p99.9 / p50",
        ],
        rows,
    }
}

fn fits(outcomes: &[FittedLatencies<'_>]) -> Table {
    let row = |outcome: &FittedLatencies<'_>| {
        let fits = outcome.fits?;
        let (mixture, distance) = &fits.mixture;
        let words = |(fit, distance): &(crate::fit::Fit, f64)| match fit {
            crate::fit::Fit::Lognormal { mu, sigma } => {
                format!("median {} ms, σ {sigma:.3} (KS {distance:.3})", digits(mu.exp()))
            }
            crate::fit::Fit::Gamma { shape, scale } => {
                format!("shape {}, scale {} ms (KS {distance:.3})", digits(*shape), digits(*scale))
            }
            crate::fit::Fit::Mixture(_) => String::new(),
        };
        let chosen = if fits.mixture.1 <= GOOD_KS { "mixture" } else { "own quantiles" };
        Some(vec![
            outcome.measurement.operation.name(),
            outcome.measurement.writers.to_string(),
            outcome.name.to_owned(),
            words(&fits.lognormal),
            words(&fits.gamma),
            format!(
                "{} above {} ms (KS {distance:.3})",
                counted(mixture.mixture.len() as u32, "part"),
                digits(mixture.floor.as_millis_f64())
            ),
            chosen.to_owned(),
        ])
    };
    Table {
        title: "Fits",
        note: "KS: the Kolmogorov-Smirnov distance, the greatest difference between the measured and the fitted share. \
               The profile takes the mixture if the distance is at most 0.05, otherwise the data's own quantiles.",
        head: vec!["operation", "writers", "outcome", "lognormal", "gamma", "mixture of lognormals", "chosen"],
        rows: outcomes.iter().filter_map(row).collect(),
    }
}

#[cfg(test)]
mod tests {
    use glidepath_run::statistics::Spread;

    use super::*;

    fn measured(writers: u32, failures: usize) -> Measurement {
        Measurement {
            operation: Operation::Cas,
            writers,
            trials: 1,
            success_ms: vec![0.5; 100],
            failure_ms: vec![0.5; failures],
            refused: 0,
            unknown: 0,
            throughput_per_s: Spread { mean: 1700.0, deviation: None },
            failure_rate_error: None,
        }
    }

    #[test]
    fn one_number_of_writers_is_compared_with_no_other() {
        let (one, four) = (measured(1, 0), measured(4, 300));
        let alone = "cas: with 1 writer the median is 0.500 ms, with 1700 successes/s";
        assert_eq!(of_writers(&[&one]), Some(format!("{alone}.")));
        let fail = "and 75.0 % of the attempts fail (1 - 1/N would be 75.0 %).";
        let both = format!("{alone}; with 4 writers there are 1700 successes/s, {fail}");
        assert_eq!(of_writers(&[&one, &four]), Some(both));
        let crowd = format!("{}, {fail}", alone.replace("1 writer", "4 writers"));
        assert_eq!(of_writers(&[&four]), Some(crowd));
        assert_eq!(of_writers(&[]), None);
    }
}
