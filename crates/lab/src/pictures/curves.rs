//! How does latency grow with throughput?

use glidepath_picture::{Axis as Ruled, LineChart, LineStyle, Point, Rule, RuleAxis, Series};
use glidepath_run::statistics::Spread;

use super::knees::{Knee, grid_knee};
use super::view::{Cell, Slice, View, Who};
use super::words::{axis_noun, percent, short};
use super::{Picture, Section, note, seeds_words, side_by_side};
use crate::summary::{GroupSummary, SUSTAINED};

/// With more combinations than this, their curves share a chart.
const MOST_APART: usize = 12;

/// Success from this on gets no note.
const NOTEWORTHY: f64 = 0.995;

/// Curves along the load. None if the load is not swept.
pub(super) fn curves(view: &View<'_>) -> Vec<Picture> {
    let Some(load) = view.load() else { return Vec::new() };
    let others = view.axes_without(&[load]);
    let slices = view.slices(&others);
    if slices.len() <= MOST_APART {
        return slices.iter().filter_map(|slice| percentiles(view, load, slice)).collect();
    }
    let lines = others[0];
    let rest = view.chosen_slices(&view.axes_without(&[load, lines]), MOST_APART);
    rest.iter().filter_map(|slice| overlay(view, load, lines, slice)).collect()
}

const CAPTION: &str = "Each point is one load, from the lowest on the left end of a line on. Throughput is what all \
    transactions together commit per second, latency runs from the end of a transaction's work to the answer that it \
    is committed. ";

const KNEE_CAPTION: &str = "The vertical line is the highest of the loads simulated with a success above 95 %; the \
    knee lies between it and the next load. ";

/// P50, P95 and P99 of each kind of transactions.
fn percentiles(view: &View<'_>, load: usize, slice: &Slice) -> Option<Picture> {
    // From the lowest load on.
    let cells: Vec<&Cell<'_>> = view.along(slice, Some(load)).into_iter().rev().collect();
    let knee = grid_knee(view, slice);
    let kinds = View::kinds(cells.iter().copied());
    let of = |who: Who| {
        let points = |of: fn(&GroupSummary) -> Option<Spread>, noted: bool| -> Vec<Point> {
            cells.iter().filter_map(|cell| point(cell, who, of, noted)).collect()
        };
        let line = |name: &str, points: Vec<Point>, line: LineStyle| Series {
            name: name.to_owned(),
            points,
            marks: true,
            line,
            ..Series::default()
        };
        LineChart {
            title: format!("Commit latency of {} against throughput", who.noun()),
            subtitle: note([
                slice.words(view),
                "in per cent: success where it is below 99.5 %".to_owned(),
                seeds_words(view.seeds),
            ]),
            x: throughput_axis(false),
            y: latency_axis("Commit latency (s)"),
            series: vec![
                line("P50", points(|of| of.latency_p50_s, false), LineStyle::Solid),
                line("P95", points(GroupSummary::told_p95_s, false), LineStyle::Dashed),
                line("P99", points(GroupSummary::told_p99_s, true), LineStyle::Dotted),
            ],
            rules: knee.iter().map(knee_rule).collect(),
        }
    };
    let charts: Vec<LineChart> = kinds.iter().map(|who| with_headroom(of(*who))).collect();
    let shown = charts.iter().flat_map(|chart| &chart.series).any(|series| !series.points.is_empty());
    shown.then(|| Picture {
        file_stem: format!("latency-throughput{}", slice.stem(view)),
        section: Section::Curves,
        group: slice.group(view),
        caption: format!(
            "{CAPTION}{}{}A line that turns up or back is overload.",
            if view.seeds > 1 { "Bars: one standard deviation over seeds. " } else { "" },
            if knee.is_some() { KNEE_CAPTION } else { "" }
        ),
        chart: side_by_side("Commit latency against throughput", charts),
    })
}

/// The mean latency, one line per value of an axis.
fn overlay(view: &View<'_>, load: usize, lines: usize, slice: &Slice) -> Option<Picture> {
    let axis = &view.axes[lines];
    let slices: Vec<Slice> = (0..axis.values.len()).map(|value| slice.with(lines, value)).collect();
    let cells: Vec<Vec<&Cell<'_>>> =
        slices.iter().map(|slice| view.along(slice, Some(load)).into_iter().rev().collect()).collect();
    let kinds = View::kinds(cells.iter().flatten().copied());
    let of = |who: Who| LineChart {
        title: format!("Mean commit latency of {} against throughput", who.noun()),
        subtitle: note([
            slice.words(view),
            "in per cent: success where it first falls below 95 %".to_owned(),
            seeds_words(view.seeds),
        ]),
        x: throughput_axis(true),
        y: latency_axis("Mean commit latency (s)"),
        series: cells
            .iter()
            .enumerate()
            .map(|(value, cells)| Series {
                name: axis.phrase(value),
                points: first_failure_noted(cells, who),
                marks: true,
                slot: Some(axis.slot(value)),
                ..Series::default()
            })
            .collect(),
        rules: Vec::new(),
    };
    let charts: Vec<LineChart> = kinds.iter().map(|who| with_headroom(of(*who))).collect();
    let shown = charts.iter().flat_map(|chart| &chart.series).any(|series| !series.points.is_empty());
    shown.then(|| Picture {
        file_stem: format!("latency-throughput{}", slice.stem(view)),
        section: Section::Curves,
        group: slice.group(view),
        caption: format!(
            "{CAPTION}One line per {}. The number beside a line is the success of these transactions at the first load \
             at which it is below 95 %.",
            axis_noun(&axis.key)
        ),
        chart: side_by_side("Commit latency against throughput", charts),
    })
}

fn first_failure_noted(cells: &[&Cell<'_>], who: Who) -> Vec<Point> {
    let mut points = Vec::new();
    let mut noted = false;
    for cell in cells {
        let Some(mut point) = point(cell, who, |of| of.latency_mean_s, false) else { continue };
        let success = cell.of(who).and_then(|of| of.success).map(|success| success.mean);
        if let Some(success) = success.filter(|success| *success < SUSTAINED && !noted) {
            point.note = Some(format!("{} %", percent(success)));
            noted = true;
        }
        points.push(Point { spread: None, ..point });
    }
    points
}

fn point(cell: &Cell<'_>, who: Who, of: fn(&GroupSummary) -> Option<Spread>, noted: bool) -> Option<Point> {
    let measures = cell.of(who)?;
    let Spread { mean, deviation } = of(measures)?;
    let low = success_below(measures, NOTEWORTHY).filter(|_| noted);
    Some(Point {
        x: cell.throughput_per_s(),
        y: mean,
        spread: deviation.map(|deviation| (mean - deviation, mean + deviation)),
        note: low.map(|success| format!("{} %", percent(success))),
    })
}

fn success_below(measures: &GroupSummary, limit: f64) -> Option<f64> {
    measures.success.map(|success| success.mean).filter(|success| *success < limit)
}

fn knee_rule(knee: &Knee<'_, '_>) -> Rule {
    let throughput = knee.cell.throughput_per_s();
    let sign = if knee.is_the_highest_load { "at least " } else { "" };
    Rule { at: throughput, axis: RuleAxis::X, label: format!("usable: {sign}{}/s", short(throughput)) }
}

pub(super) fn throughput_axis(logarithmic: bool) -> Ruled {
    Ruled::of("Throughput (commits/s)", logarithmic)
}

pub(super) fn latency_axis(label: &str) -> Ruled {
    Ruled::of(label, true)
}

/// The chart with room above its lines, so that notes are placed there and not between lines.
fn with_headroom(mut chart: LineChart) -> LineChart {
    let points = chart.series.iter().flat_map(|series| &series.points);
    let ends = points.flat_map(|point| {
        let (low, high) = point.spread.unwrap_or((point.y, point.y));
        [low, point.y, high]
    });
    let (low, high) =
        ends.filter(|end| *end > 0.0).fold((f64::INFINITY, 0.0_f64), |(low, high), end| (low.min(end), high.max(end)));
    let share = (high / low).powf(0.05);
    chart.y.range = (low <= high).then(|| (low / share.max(1.02), high * share.powf(2.5).max(1.1)));
    chart
}
