//! How many commits per second can be had, and how does that grow with the number of tables?

use glidepath_picture::{Axis as Ruled, LineChart, Point, Series};

use super::view::{Cell, Slice, View};
use super::words::{CATALOG_LATENCY, FAST_APPEND, PROVIDER, TABLES, axis_noun, capital};
use super::{Picture, Section, note, seeds_words, side_by_side};
use crate::summary::{SUSTAINED, knee_on_grid};

/// The highest load that is sustained, on the loads that were simulated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Knee<'c, 'a> {
    pub(crate) cell: &'c Cell<'a>,
    /// No higher load was simulated: the true knee may be higher.
    pub(crate) is_the_highest_load: bool,
}

/// The knee of a slice, along the load where that is swept; none if no load is sustained.
pub(crate) fn grid_knee<'c, 'a>(view: &'c View<'a>, slice: &Slice) -> Option<Knee<'c, 'a>> {
    let cells = view.along(slice, view.load());
    let best = knee_on_grid(cells.iter().map(|cell| cell.summary), SUSTAINED)?;
    let cell = *cells.iter().find(|cell| std::ptr::eq(cell.summary, best))?;
    // The time between arrivals grows along the axis.
    let is_the_highest_load = cells.first().is_some_and(|first| first.place == cell.place);
    Some(Knee { cell, is_the_highest_load })
}

/// The axis along which usable throughput is drawn: the number of tables, or another that has numbers.
fn drawn_axis(view: &View<'_>, load: usize) -> Option<usize> {
    let known = [TABLES, CATALOG_LATENCY, FAST_APPEND].into_iter().find_map(|key| view.axis(key));
    let other = || view.axes_without(&[load]).into_iter().find(|&axis| view.axes[axis].is_numeric());
    known.or_else(other)
}

/// Usable throughput: a panel per share of fast appends, a line per provider (or what else is swept). None unless the
/// load and something with numbers are swept.
pub(super) fn usable_throughput(view: &View<'_>) -> Vec<Picture> {
    let Some(load) = view.load() else { return Vec::new() };
    let Some(x) = drawn_axis(view, load) else { return Vec::new() };
    let panels = view.axis(FAST_APPEND).filter(|&axis| axis != x);
    let others = view.axes_without(&[&[load, x], panels.as_slice()].concat());
    let lines = view.axis(PROVIDER).filter(|axis| others.contains(axis)).or(others.first().copied());
    let rest: Vec<usize> = others.into_iter().filter(|&axis| Some(axis) != lines).collect();
    let drawing = Drawing { view, x, lines };
    view.slices(&rest).iter().filter_map(|slice| drawing.picture(slice, panels)).collect()
}

/// The charts with the same vertical axis, so that they can be compared.
fn on_one_scale(mut charts: Vec<LineChart>) -> Vec<LineChart> {
    let points = || charts.iter().flat_map(|chart| &chart.series).flat_map(|series| &series.points);
    let ends = points().map(|point| point.y).filter(|y| *y > 0.0);
    let (low, high) = ends.fold((f64::INFINITY, 0.0_f64), |(low, high), y| (low.min(y), high.max(y)));
    if charts.len() > 1 && low <= high {
        charts.iter_mut().for_each(|chart| chart.y.range = Some((low / 1.3, high * 1.5)));
    }
    charts
}

struct Drawing<'a> {
    view: &'a View<'a>,
    x: usize,
    lines: Option<usize>,
}

impl Drawing<'_> {
    fn picture(&self, slice: &Slice, panels: Option<usize>) -> Option<Picture> {
        let Self { view, .. } = self;
        let title = format!("Usable throughput by {}", axis_noun(&view.axes[self.x].key));
        let words = slice.words(view);
        let whole = if words.is_empty() { title.clone() } else { format!("{title}: {words}") };
        let charts: Vec<LineChart> = match panels {
            None => vec![self.chart(&title, slice, &words)],
            // The most fast appends first.
            Some(axis) => (0..view.axes[axis].values.len())
                .rev()
                .map(|value| self.chart(&capital(&view.axes[axis].phrase(value)), &slice.with(axis, value), ""))
                .collect(),
        };
        let shown = charts.iter().flat_map(|chart| &chart.series).any(|series| !series.points.is_empty());
        let key = view.axes[self.x].key.replace('.', "-");
        shown.then(|| Picture {
            file_stem: format!("usable-throughput-by-{}{}", super::words::slug(&key), slice.stem(view)),
            section: Section::Usable,
            group: slice.group(view),
            caption:
                "Each point is the highest throughput of all transactions at which more than 95 % succeed (of the \
                      validated overwrites, where there are any), on the loads simulated; \u{2265} marks those where \
                      even the highest load was sustained. A missing point: no load was."
                    .to_owned(),
            chart: side_by_side(&whole, on_one_scale(charts)),
        })
    }

    fn chart(&self, title: &str, slice: &Slice, words: &str) -> LineChart {
        let Self { view, x, lines, .. } = *self;
        let series = match lines {
            None => vec![Series { marks: true, points: self.points(slice), ..Series::default() }],
            Some(axis) => (0..view.axes[axis].values.len())
                .map(|value| Series {
                    name: view.axes[axis].phrase(value),
                    points: self.points(&slice.with(axis, value)),
                    marks: true,
                    slot: Some(view.axes[axis].slot(value)),
                    ..Series::default()
                })
                .collect(),
        };
        let axis = &view.axes[x];
        let positive = (0..axis.values.len()).all(|index| axis.number(index).is_some_and(|number| number > 0.0));
        LineChart {
            title: title.to_owned(),
            subtitle: note([words.to_owned(), "success above 95 %".to_owned(), seeds_words(view.seeds)]),
            x: Ruled { label: axis.label(), logarithmic: positive && axis.key != FAST_APPEND, range: None },
            y: Ruled { label: "Usable throughput (commits/s)".to_owned(), logarithmic: true, range: None },
            series,
            rules: Vec::new(),
        }
    }

    fn points(&self, slice: &Slice) -> Vec<Point> {
        let Self { view, x, .. } = *self;
        let point = |index| {
            let knee = grid_knee(view, &slice.with(x, index))?;
            Some(Point {
                x: view.axes[x].number(index)?,
                y: knee.cell.throughput_per_s(),
                spread: None,
                note: knee.is_the_highest_load.then(|| "\u{2265}".to_owned()),
            })
        };
        (0..view.axes[x].values.len()).filter_map(point).collect()
    }
}
