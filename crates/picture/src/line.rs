//! What is a line chart made of?

use crate::chart::{Chart, Plot};
use crate::geometry::Spot;
use crate::line_drawing::{Layout, draw_legend, legend};
use crate::sheet::{Drawn, Sheet};

/// Lines and points over two numeric axes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LineChart {
    /// The title.
    pub title: String,
    /// The subtitle.
    pub subtitle: Option<String>,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines. By default colours repeat after ten lines, shapes of marks after six.
    pub series: Vec<Series>,
    /// Straight lines across the plot, such as limits.
    pub rules: Vec<Rule>,
}

impl LineChart {
    /// The same with ticks at the values of the points only ([`Axis::ticks`]).
    #[must_use]
    pub fn at_values(mut self) -> Self {
        self.x.ticks = Some(self.series.iter().flat_map(|series| &series.points).map(|point| point.x).collect());
        self
    }
}

/// A numeric axis.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Axis {
    /// The label, with the unit.
    pub label: String,
    /// Logarithmic: values that are not positive are left out.
    pub logarithmic: bool,
    /// The lowest and the highest value shown; lines are cut there. None, or an invalid range, means one that shows all
    /// points, error bars and rules.
    pub range: Option<(f64, f64)>,
    /// The values of the points: there are the ticks, as far as their labels have room, and series stand a little
    /// beside each other. None: the ticks are at round numbers.
    pub ticks: Option<Vec<f64>>,
}

impl Axis {
    /// An axis that shows all values, and whose label says so if it is logarithmic.
    #[must_use]
    pub fn of(label: &str, logarithmic: bool) -> Self {
        let suffix = if logarithmic { ", log scale" } else { "" };
        Self { label: format!("{label}{suffix}"), logarithmic, range: None, ticks: None }
    }

    /// The same for points at these values only.
    #[must_use]
    pub fn marked(self, ticks: Vec<f64>) -> Self {
        Self { ticks: Some(ticks), ..self }
    }
}

/// One line with its points.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Series {
    /// The name in the legend.
    pub name: String,
    /// The points in the order in which the line connects them.
    pub points: Vec<Point>,
    /// Whether each point gets a mark. A lone point always does.
    pub marks: bool,
    /// How the line is drawn.
    pub line: LineStyle,
    /// Whether the line keeps the value of a point until the next one. The last point keeps its
    /// value for as long as the one before it.
    pub step: bool,
    /// The colour (of ten) and the shape of marks (of six), so that a series looks alike in several charts. None for
    /// those of its place in the chart.
    pub slot: Option<usize>,
}

/// One point of a line.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Point {
    /// Place on the horizontal axis.
    pub x: f64,
    /// Place on the vertical axis.
    pub y: f64,
    /// Low and high end of an error bar.
    pub spread: Option<(f64, f64)>,
    /// A word or two beside the point. Notes do not overlap; a note without room, and any beyond the first 150 of a
    /// chart, is left out.
    pub note: Option<String>,
}

impl Point {
    /// A point without error bar and note.
    #[must_use]
    pub fn at(x: f64, y: f64) -> Self {
        Self { x, y, ..Self::default() }
    }
}

/// How a line is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LineStyle {
    /// Without gaps.
    #[default]
    Solid,
    /// As dashes.
    Dashed,
    /// As dots.
    Dotted,
    /// No line: only marks.
    None,
}

/// A straight line across the plot.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Rule {
    /// Value at which the line is drawn.
    pub at: f64,
    /// Axis on which that value lies.
    pub axis: RuleAxis,
    /// A word or two beside the line; empty for none.
    pub label: String,
}

/// The axis that a [`Rule`] belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RuleAxis {
    /// A value of x: the line is vertical.
    X,
    /// A value of y: the line is horizontal.
    #[default]
    Y,
}

impl Plot for LineChart {
    fn title(&self) -> &str {
        &self.title
    }

    fn subtitle(&self) -> Option<&str> {
        self.subtitle.as_deref()
    }

    fn natural_width(&self, in_panel: bool) -> f64 {
        if in_panel { 560.0 } else { 920.0 }
    }

    fn height(&self, width: f64) -> f64 {
        Layout::new(self, (0.0, 0.0), width).height()
    }

    fn draw(&self, sheet: &Sheet<'_>, at: Spot, width: f64) -> Drawn {
        Layout::new(self, at, width).draw(sheet)
    }

    fn without_legend(&self) -> Option<Chart> {
        let mut chart = self.clone();
        chart.series.iter_mut().for_each(|series| series.name.clear());
        Some(Chart::LineChart(chart))
    }

    fn legend_height(&self, width: f64) -> f64 {
        legend(self).room_below(width)
    }

    fn draw_legend(&self, sheet: &Sheet<'_>, at: Spot, width: f64) -> Drawn {
        let legend = legend(self);
        draw_legend(sheet, self, &legend, &legend.spots_below(at, width))
    }
}
