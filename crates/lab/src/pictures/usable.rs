//! How is usable throughput drawn where something with numbers is swept? A panel for each share of fast appends, a line
//! for each provider (or another swept axis).
//!
//! The knees come from [`knees`](super::knees); [`named`](super::named) draws them where only names are swept.

use glidepath_picture::{Axis as Ruled, Chart, LineChart, LineStyle, Panels, Point, Series};

use super::view::{Cell, Slice, View};
use super::words::{CATALOG_LATENCY, FAST_APPEND, PROVIDER, TABLES, axis_noun, capital, slug};
use super::{Picture, Section, named, note};

/// The knees to draw, and the axes.
pub(super) struct Drawing<'a, T> {
    pub(super) view: &'a View<'a, T>,
    /// The axis of the loads, if there is one; it is not drawn.
    pub(super) load: Option<usize>,
    /// The knee of a slice; its `x` is ignored.
    pub(super) knee: &'a dyn Fn(&Slice) -> Option<Point>,
    /// The subtitle for the points of one line.
    pub(super) subtitle: &'a dyn Fn(&[&Cell<'_, T>]) -> String,
    pub(super) caption: Caption,
}

/// How to read the knees.
pub(super) struct Caption {
    /// As points.
    pub(super) points: String,
    /// As bars.
    pub(super) bars: String,
}

/// The role of each axis.
struct Roles {
    x: usize,
    panels: Option<usize>,
    lines: Option<usize>,
    /// The remaining axes: one picture for each combination.
    rest: Vec<usize>,
}

/// The width of panels side by side, in pixels: three of them are legible on a page of 800.
const PANEL_WIDTH: f64 = 290.0;

const SHIFTED: &str = "Every point is of a value with a tick: lines are shifted sideways so that none hides another.";

/// Successive lines also differ in style. Dashes are drawn over solid lines.
const STYLES: [LineStyle; 3] = [LineStyle::Solid, LineStyle::Dashed, LineStyle::Dotted];

impl<T> Drawing<'_, T> {
    /// The pictures. None unless an axis is swept besides the load.
    pub(super) fn pictures(&self) -> Vec<Picture> {
        let Some(roles) = self.roles() else { return named::pictures(self) };
        self.view.slices(&roles.rest).iter().filter_map(|slice| self.picture(slice, &roles)).collect()
    }

    fn roles(&self) -> Option<Roles> {
        let Self { view, load, .. } = self;
        let without = |taken: &[usize]| view.axes_without(&[load.as_slice(), taken].concat());
        // The number of tables, or another axis that has numbers.
        let known = [TABLES, CATALOG_LATENCY, FAST_APPEND].into_iter().find_map(|key| view.axis(key));
        let x = known.or_else(|| without(&[]).into_iter().find(|&axis| view.axes[axis].is_numeric()))?;
        let panels = view.axis(FAST_APPEND).filter(|&axis| axis != x);
        let others = without(&[&[x], panels.as_slice()].concat());
        let lines = view.axis(PROVIDER).filter(|axis| others.contains(axis)).or(others.first().copied());
        let rest = others.into_iter().filter(|&axis| Some(axis) != lines).collect();
        Some(Roles { x, panels, lines, rest })
    }

    fn picture(&self, slice: &Slice, roles: &Roles) -> Option<Picture> {
        let Self { view, .. } = self;
        let title = format!("Usable throughput by {}", axis_noun(&view.axes[roles.x].key));
        let words = slice.words(view);
        let whole = if words.is_empty() { title.clone() } else { format!("{title}: {words}") };
        let charts: Vec<LineChart> = match roles.panels {
            None => vec![self.chart(&title, slice, &words, roles)],
            // The most fast appends first.
            Some(axis) => (0..view.axes[axis].values.len())
                .rev()
                .map(|value| self.chart(&capital(&view.axes[axis].phrase(value)), &slice.with(axis, value), "", roles))
                .collect(),
        };
        let shown = charts.iter().flat_map(|chart| &chart.series).any(|series| !series.points.is_empty());
        let key = view.axes[roles.x].key.replace('.', "-");
        shown.then(|| Picture {
            file_stem: format!("usable-throughput-by-{}{}", slug(&key), slice.stem(view)),
            section: Section::Usable,
            group: slice.group(view),
            caption: match roles.lines {
                Some(_) => format!("{} {SHIFTED}", self.caption.points),
                None => self.caption.points.clone(),
            },
            chart: side_by_side(&whole, on_one_scale(charts)),
        })
    }

    fn chart(&self, title: &str, slice: &Slice, words: &str, roles: &Roles) -> LineChart {
        let Self { view, .. } = *self;
        let axis = &view.axes[roles.x];
        let positive = (0..axis.values.len()).all(|index| axis.number(index).is_some_and(|number| number > 0.0));
        let logarithmic = positive && axis.key != FAST_APPEND;
        let places: Vec<f64> = (0..axis.values.len()).filter_map(|index| axis.number(index)).collect();
        let series = match roles.lines {
            None => vec![Series { marks: true, points: self.points(slice, roles.x), ..Series::default() }],
            Some(lines) => {
                let line = |value| Series {
                    name: view.axes[lines].phrase(value),
                    points: self.points(&slice.with(lines, value), roles.x),
                    marks: true,
                    line: STYLES[value % STYLES.len()],
                    slot: Some(view.axes[lines].slot(value)),
                    ..Series::default()
                };
                (0..view.axes[lines].values.len()).map(line).collect()
            }
        };
        LineChart {
            title: title.to_owned(),
            subtitle: note([words.to_owned(), (self.subtitle)(&view.along(slice, Some(roles.x)))]),
            x: Ruled::of(&axis.label(), logarithmic).marked(places),
            y: Ruled::of("Usable throughput (commits/s)", true),
            series,
            rules: Vec::new(),
        }
    }

    fn points(&self, slice: &Slice, x: usize) -> Vec<Point> {
        let axis = &self.view.axes[x];
        let point = |index| Some(Point { x: axis.number(index)?, ..(self.knee)(&slice.with(x, index))? });
        (0..axis.values.len()).filter_map(point).collect()
    }
}

/// Gives the charts the same vertical axis, so that they can be compared.
fn on_one_scale(mut charts: Vec<LineChart>) -> Vec<LineChart> {
    let points = || charts.iter().flat_map(|chart| &chart.series).flat_map(|series| &series.points);
    let ends = points().flat_map(|point| point.spread.map_or([point.y; 2], <[f64; 2]>::from));
    let ends = ends.filter(|end| *end > 0.0);
    let (low, high) = ends.fold((f64::INFINITY, 0.0_f64), |(low, high), y| (low.min(y), high.max(y)));
    if charts.len() > 1 && low <= high {
        charts.iter_mut().for_each(|chart| chart.y.range = Some((low / 1.3, high * 1.5)));
    }
    charts
}

/// One chart unchanged; several as narrow panels in rows of three, with one legend below.
fn side_by_side(title: &str, mut charts: Vec<LineChart>) -> Chart {
    if charts.len() == 1 {
        return Chart::LineChart(charts.remove(0));
    }
    // Only the first chart of a row has the label of the axis.
    charts.iter_mut().enumerate().filter(|(place, _)| place % 3 > 0).for_each(|(_, chart)| chart.y.label.clear());
    let charts = charts.into_iter().map(Chart::LineChart).collect();
    Chart::Panels(Panels { title: title.to_owned(), columns: 3, charts, one_legend: true, width: Some(PANEL_WIDTH) })
}
