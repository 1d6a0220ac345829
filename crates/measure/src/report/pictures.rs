//! Which charts does a report have? Throughput and failures of the writers, latencies, and how well the fits follow the
//! data.

use glidepath_page::Picture;
use glidepath_picture::{Axis, Chart, LineChart, LineStyle, PictureError, Point, Series};

use super::{FittedLatencies, counted, turns};
use crate::fit::Fit;
use glidepath_run::statistics::quantile;

use crate::measurement::{Measurement, Numbers};

/// Failure rate and latency against writers, if any contended.
pub(super) fn overview(measurements: &[&Measurement]) -> Result<Vec<Picture>, PictureError> {
    let guarded: Vec<&Measurement> =
        measurements.iter().filter(|found| found.operation.is_guarded()).copied().collect();
    if guarded.is_empty() { Ok(Vec::new()) } else { Ok(vec![failures(&guarded)?, growth(&guarded)?]) }
}

/// A picture of each distribution.
pub(super) fn distributions(outcomes: &[FittedLatencies<'_>]) -> Result<Vec<Picture>, PictureError> {
    outcomes.iter().filter_map(distribution).collect()
}

fn lines(guarded: &[&Measurement], of: impl Fn(&Measurement) -> Option<Point>) -> Vec<Series> {
    let mut names: Vec<String> = guarded.iter().map(|found| found.operation.name()).collect();
    names.dedup();
    let line = |name: String| Series {
        points: guarded.iter().filter(|found| found.operation.name() == name).filter_map(|found| of(found)).collect(),
        name,
        marks: true,
        ..Series::default()
    };
    names.into_iter().map(line).collect()
}

fn failures(guarded: &[&Measurement]) -> Result<Picture, PictureError> {
    let mut series = lines(guarded, |found| Some(Point::at(f64::from(found.writers), 100.0 * found.failure_rate())));
    let mut counts: Vec<u32> = guarded.iter().map(|found| found.writers).collect();
    counts.sort_unstable();
    counts.dedup();
    series.push(Series {
        name: "1 - 1/N".into(),
        points: counts.iter().map(|count| Point::at(f64::from(*count), 100.0 * turns(*count))).collect(),
        line: LineStyle::Dotted,
        ..Series::default()
    });
    let caption =
        "The share of the attempts that failed. If writers took turns and one of each round won, it would be 1 - 1/N.";
    Picture::of(
        caption,
        &Chart::LineChart(LineChart {
            title: "Failure rate against writers".into(),
            x: Axis::of("Writers on one object", counts.len() > 1).marked(counts.into_iter().map(f64::from).collect()),
            y: Axis { label: "Failed attempts (%)".into(), range: Some((0.0, 100.0)), ..Axis::default() },
            series,
            ..LineChart::default()
        }),
    )
}

fn growth(guarded: &[&Measurement]) -> Result<Picture, PictureError> {
    let series = lines(guarded, |found| {
        let numbers = Numbers::of(&found.success_ms)?;
        let spread = Some((quantile(&found.success_ms, 0.05), numbers.p95));
        Some(Point { spread, ..Point::at(f64::from(found.writers), numbers.median) })
    });
    let counts: Vec<f64> = guarded.iter().map(|found| f64::from(found.writers)).collect();
    let several = counts.iter().any(|count| *count != counts[0]);
    Picture::of(
        "Latency of successes: the median, and from the 5th to the 95th percentile.",
        &Chart::LineChart(LineChart {
            title: "Latency of successes against writers".into(),
            x: Axis::of("Writers on one object", several).marked(counts),
            y: Axis::of("Latency (ms)", true),
            series,
            ..LineChart::default()
        }),
    )
}

/// Points of a curve: enough to look smooth.
const POINTS: usize = 160;

fn distribution(outcome: &FittedLatencies<'_>) -> Option<Result<Picture, PictureError>> {
    let fits = outcome.fits?;
    let share = |n: usize| (n as f64 + 0.5) / POINTS as f64;
    let measured = (0..POINTS).map(|n| Point::at(quantile(outcome.sorted, share(n)), 100.0 * share(n)));
    let (least, most) = (outcome.sorted[0] * 0.8, quantile(outcome.sorted, 0.999) * 1.1);
    let fitted = |fit: &Fit| -> Vec<Point> {
        let at = |n: usize| least * (most / least).powf(n as f64 / (POINTS - 1) as f64);
        (0..POINTS).map(|n| Point::at(at(n), 100.0 * fit.cumulative(at(n)))).collect()
    };
    let line = |name: String, points: Vec<Point>, line: LineStyle| Series { name, points, line, ..Series::default() };
    let mixture = Fit::Mixture(fits.mixture.0.clone());
    let (name, writers) = (outcome.measurement.operation.name(), outcome.measurement.writers);
    Some(Picture::of(
        format!("{} {} latencies.", outcome.numbers.count, outcome.name),
        &Chart::LineChart(LineChart {
            title: format!("{name}, {}, {}", counted(writers, "writer"), outcome.name),
            x: Axis { label: "Latency (ms)".into(), logarithmic: true, range: Some((least, most)), ticks: None },
            y: Axis { label: "Share at most this latency (%)".into(), range: Some((0.0, 100.0)), ..Axis::default() },
            series: vec![
                line("measured".into(), measured.collect(), LineStyle::Solid),
                line(format!("mixture, KS {:.3}", fits.mixture.1), fitted(&mixture), LineStyle::Dashed),
                line(format!("lognormal, KS {:.3}", fits.lognormal.1), fitted(&fits.lognormal.0), LineStyle::Dotted),
                line(format!("gamma, KS {:.3}", fits.gamma.1), fitted(&fits.gamma.0), LineStyle::Dotted),
            ],
            ..LineChart::default()
        }),
    ))
}
