//! How do alternatives compare, load by load?
//!
//! Four panels: success, throughput, mean latency and the 99th percentile (of what commits), one line per alternative;
//! or, with transactions of two kinds, success and mean latency of each kind.

use glidepath_picture::{Axis as Ruled, Chart, LineChart, Panels, Point, Rule, RuleAxis, Series, StackedBars};
use glidepath_run::statistics::Spread;

use super::curves::latency_axis;
use super::view::{Axis, Cell, Slice, View, Who};
use super::words::{LOAD, PROTOCOL, PROVIDER, axis_noun};
use super::{Picture, Section, seeds_words};
use crate::experiment::ALTERNATIVE;
use crate::summary::{GroupSummary, SUSTAINED};

/// More pictures than this are thinned out.
const MOST: usize = 12;

/// What one panel shows.
#[derive(Clone, Copy)]
struct Panel {
    title: &'static str,
    who: Who,
    label: &'static str,
    unit: Unit,
    of: fn(&GroupSummary) -> Option<Spread>,
}

#[derive(Clone, Copy, PartialEq)]
enum Unit {
    PerCent,
    PerSecond,
    Seconds,
}

const SUCCESS: Panel =
    Panel { title: "Success", who: Who::All, label: "Success (%)", unit: Unit::PerCent, of: |of| of.success };
const THROUGHPUT: Panel = Panel {
    title: "Throughput",
    who: Who::All,
    label: "Throughput (commits/s)",
    unit: Unit::PerSecond,
    of: |of| Some(of.throughput_per_s),
};
const MEAN: Panel = Panel {
    title: "Mean commit latency",
    who: Who::All,
    label: "Mean commit latency (s)",
    unit: Unit::Seconds,
    of: |of| of.latency_mean_s,
};
const P99: Panel = Panel {
    title: "99th percentile of commit latency",
    who: Who::All,
    label: "P99 commit latency (s)",
    unit: Unit::Seconds,
    of: GroupSummary::told_p99_s,
};

fn panels(kinds: &[Who], named: bool) -> Vec<Panel> {
    let of = |panel: Panel, who: Who, title: &'static str| Panel { who, title, ..panel };
    let (fast, slow) = (Who::FastAppend, Who::ValidatedOverwrite);
    match kinds {
        [_, _] => {
            let mut panels = vec![
                of(SUCCESS, fast, "Success of fast appends"),
                of(SUCCESS, slow, "Success of validated overwrites"),
                of(MEAN, fast, "Mean commit latency of fast appends"),
                of(MEAN, slow, "Mean commit latency of validated overwrites"),
            ];
            if named {
                panels.push(THROUGHPUT);
                panels.push(of(P99, slow, "99th percentile of validated overwrites"));
            }
            panels
        }
        _ => vec![SUCCESS, THROUGHPUT, MEAN, P99],
    }
}

/// Comparisons along the load, or, if it is not swept, along the most interesting axis.
pub(super) fn overviews(view: &View<'_>) -> Vec<Picture> {
    let others = view.axes_without(view.load().as_slice());
    let x = match view.load() {
        Some(load) => load,
        None => match others.iter().copied().find(|&axis| view.axes[axis].is_numeric()).or(others.first().copied()) {
            Some(axis) => axis,
            None => return Vec::new(),
        },
    };
    let others = view.axes_without(&[x]);
    let lines = others.first().copied();
    let rest: Vec<usize> = others.into_iter().skip(1).collect();
    let drawing = Drawing { view, x, lines };
    view.chosen_slices(&rest, MOST).iter().filter_map(|slice| drawing.picture(slice)).collect()
}

struct Drawing<'a> {
    view: &'a View<'a>,
    x: usize,
    lines: Option<usize>,
}

impl Drawing<'_> {
    fn picture(&self, slice: &Slice) -> Option<Picture> {
        let Self { view, x, lines } = *self;
        let slices: Vec<Slice> = match lines {
            None => vec![slice.clone()],
            Some(axis) => (0..view.axes[axis].values.len()).map(|value| slice.with(axis, value)).collect(),
        };
        let cells: Vec<Vec<&Cell<'_>>> = slices.iter().map(|slice| view.along(slice, Some(x))).collect();
        let kinds = View::kinds(cells.iter().flatten().copied());
        let named = lines.is_some_and(|axis| view.axes[axis].key == ALTERNATIVE);
        let chart = |panel: &Panel| match view.axes[x].is_numeric() {
            true => Chart::LineChart(self.lines(*panel, &cells)),
            false => Chart::StackedBars(self.bars(*panel, slice)),
        };
        let charts: Vec<Chart> = panels(&kinds, named).iter().map(chart).collect();
        let axis = &view.axes[x];
        let title = match lines {
            None => format!("Effect of the {}", axis_noun(&axis.key)),
            Some(lines) => format!("{} compared by {}", plural(&view.axes[lines]), axis_noun(&axis.key)),
        };
        let mut caption =
            format!("Transactions that arrived in the middle half of the run; {}.", seeds_words(view.seeds));
        if axis.is_numeric() {
            caption.push_str(" The dashed line is a success of 95 %.");
        }
        if axis.key == LOAD {
            caption.push_str(" Load counts all arrivals, committed or not.");
        }
        let words = slice.words(view);
        let title = if words.is_empty() { title } else { format!("{title}: {words}") };
        cells.iter().any(|cells| !cells.is_empty()).then(|| Picture {
            file_stem: format!("overview{}", slice.stem(view)),
            section: Section::Overview,
            group: slice.group(view),
            caption,
            chart: Chart::Panels(Panels { title, columns: 2, charts, one_legend: true, ..Panels::default() }),
        })
    }

    fn lines(&self, panel: Panel, cells: &[Vec<&Cell<'_>>]) -> LineChart {
        let axis = &self.view.axes[self.x];
        let is_load = axis.key == LOAD;
        let point = |cell: &&Cell| -> Option<Point> {
            let x = if is_load { cell.offered_per_s() } else { axis.number(cell.place[self.x])? };
            let Spread { mean, deviation } = (panel.of)(cell.of(panel.who)?)?;
            let factor = if panel.unit == Unit::PerCent { 100.0 } else { 1.0 };
            let spread = deviation.map(|deviation| ((mean - deviation) * factor, (mean + deviation) * factor));
            Some(Point { x, y: mean * factor, spread, note: None })
        };
        let series = cells.iter().enumerate().map(|(index, cells)| Series {
            name: self.lines.map(|axis| self.view.axes[axis].phrase(index)).unwrap_or_default(),
            points: cells.iter().filter_map(point).collect(),
            marks: true,
            slot: self.lines.map(|axis| self.view.axes[axis].slot(index)),
            ..Series::default()
        });
        let series = series.collect();
        let positive = (0..axis.values.len()).all(|index| axis.number(index).is_some_and(|number| number > 0.0));
        let success = panel.unit == Unit::PerCent;
        LineChart {
            title: panel.title.to_owned(),
            subtitle: None,
            x: match is_load {
                true => Ruled::of("Load (transactions/s)", true),
                false => Ruled::of(&axis.label(), positive),
            },
            y: match panel.unit {
                Unit::PerCent => {
                    Ruled { label: panel.label.to_owned(), range: Some((0.0, 105.0)), logarithmic: false, ticks: None }
                }
                _ => latency_axis(panel.label),
            },
            series,
            rules: if success {
                vec![Rule { at: SUSTAINED * 100.0, axis: RuleAxis::Y, label: String::new() }]
            } else {
                Vec::new()
            },
        }
    }

    /// For an axis of names.
    fn bars(&self, panel: Panel, slice: &Slice) -> StackedBars {
        let Self { view, x, lines } = *self;
        let axis = &view.axes[x];
        let factor = if panel.unit == Unit::PerCent { 100.0 } else { 1.0 };
        let height = |cell: &Cell| Some((panel.of)(cell.of(panel.who)?)?.mean * factor);
        let mut categories = Vec::new();
        let mut heights = Vec::new();
        for value in 0..axis.values.len() {
            let count = lines.map_or(1, |lines| view.axes[lines].values.len());
            for line in 0..count {
                let set = lines.map(|lines| (lines, line));
                let cell = view.cell(slice, &[&[(x, value)], set.as_slice()].concat());
                let line = lines.map(|lines| view.axes[lines].brief(line));
                let names = [Some(axis.brief(value)), line];
                categories.push(names.into_iter().flatten().collect::<Vec<_>>().join(", "));
                heights.push(cell.and_then(height).unwrap_or(f64::NAN));
            }
        }
        let labels = [Some(axis.label()), lines.map(|lines| axis_noun(&view.axes[lines].key).to_owned())];
        StackedBars {
            title: panel.title.to_owned(),
            subtitle: None,
            x_label: labels.into_iter().flatten().collect::<Vec<_>>().join(", "),
            y_label: panel.label.to_owned(),
            categories,
            parts: vec![(String::new(), heights)],
        }
    }
}

fn plural(axis: &Axis) -> String {
    match axis.key.as_str() {
        PROVIDER => "Providers".to_owned(),
        PROTOCOL => "Protocols".to_owned(),
        ALTERNATIVE => "Alternatives".to_owned(),
        "tables.count" => "Numbers of tables".to_owned(),
        "catalog.store" => "Stores of the catalog".to_owned(),
        "catalog.latency" => "Catalog latencies".to_owned(),
        "transaction.fast_append" => "Shares of fast appends".to_owned(),
        other => format!("Values of {other}"),
    }
}
