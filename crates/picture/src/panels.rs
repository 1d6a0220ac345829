//! How do several charts become one picture?

use std::borrow::Cow;

use crate::chart::{Chart, Plot};
use crate::geometry::Spot;
use crate::heading::Heading;
use crate::sheet::{Drawn, Sheet};

/// Distance in pixels between panels.
const GAP: f64 = 36.0;
const TITLE_SIZE: f64 = 20.0;

/// Several charts in a grid, filled row by row.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Panels {
    /// What all the charts show together; empty for none.
    pub title: String,
    /// Charts in one row; 0 counts as 1.
    pub columns: usize,
    /// The charts; each keeps its own title.
    pub charts: Vec<Chart>,
    /// Whether the legend of the first chart stands for all, below them: for charts of the same series or parts. Heat
    /// maps and panels within panels keep theirs.
    pub one_legend: bool,
    /// The width in pixels of each chart, 240 to 2000; None, or a value that is not finite, for the width that each
    /// would choose.
    pub width: Option<f64>,
}

/// Distance in pixels from the charts to their common legend.
const LEGEND_GAP: f64 = 16.0;

impl Panels {
    /// The charts as they are drawn.
    fn drawn(&self) -> Vec<Cow<'_, Chart>> {
        let bare = |chart| if self.one_legend { Chart::plot(chart).without_legend() } else { None };
        self.charts.iter().map(|chart| bare(chart).map_or(Cow::Borrowed(chart), Cow::Owned)).collect()
    }

    /// The chart whose legend stands for all, and the height of that.
    fn legend(&self, width: f64) -> Option<(&dyn Plot, f64)> {
        let first = self.charts.first().filter(|_| self.one_legend)?.plot();
        let height = first.legend_height(width);
        (height > 0.0).then_some((first, height))
    }

    /// Width of every column: that of its widest chart.
    fn columns(&self, charts: &[Cow<'_, Chart>]) -> Vec<f64> {
        let given = self.width.filter(|width| width.is_finite()).map(|width| width.clamp(240.0, 2000.0));
        let mut widths = Vec::new();
        for row in charts.chunks(self.columns.max(1)) {
            widths.resize(row.len().max(widths.len()), 0.0_f64);
            for (width, chart) in widths.iter_mut().zip(row) {
                *width = width.max(given.unwrap_or_else(|| chart.plot().natural_width(true)));
            }
        }
        widths
    }

    fn heading(&self, width: f64) -> Heading {
        Heading::new(&self.title, None, TITLE_SIZE, width)
    }

    fn row_height(row: &[Cow<'_, Chart>], columns: &[f64]) -> f64 {
        let pairs = row.iter().zip(columns);
        pairs.map(|(chart, width)| chart.plot().height(*width)).fold(0.0, f64::max)
    }
}

impl Plot for Panels {
    fn title(&self) -> &str {
        &self.title
    }

    fn label(&self) -> String {
        let charts: Vec<String> = self.charts.iter().map(|chart| chart.plot().label()).collect();
        let charts = charts.join("; ");
        if self.title.is_empty() { charts } else { format!("{}: {charts}", self.title) }
    }

    fn natural_width(&self, _in_panel: bool) -> f64 {
        let columns = self.columns(&self.drawn());
        let gaps = columns.len().saturating_sub(1) as f64 * GAP;
        (columns.iter().sum::<f64>() + gaps).max(300.0)
    }

    fn height(&self, width: f64) -> f64 {
        let charts = self.drawn();
        let columns = self.columns(&charts);
        let rows = charts.chunks(self.columns.max(1));
        let gaps = rows.len().saturating_sub(1) as f64 * GAP;
        let rows = rows.map(|row| Self::row_height(row, &columns)).sum::<f64>();
        let legend = self.legend(width).map_or(0.0, |(_, height)| LEGEND_GAP + height);
        (self.heading(width).height() + rows + gaps + legend).max(20.0)
    }

    fn draw(&self, sheet: &Sheet<'_>, at: Spot, width: f64) -> Drawn {
        let heading = self.heading(width);
        heading.draw(sheet, at)?;
        let charts = self.drawn();
        let columns = self.columns(&charts);
        let mut y = at.1 + heading.height();
        for row in charts.chunks(self.columns.max(1)) {
            let mut x = at.0;
            for (chart, width) in row.iter().zip(&columns) {
                chart.plot().draw(sheet, (x, y), *width)?;
                x += width + GAP;
            }
            y += Self::row_height(row, &columns) + GAP;
        }
        match self.legend(width) {
            Some((first, _)) => first.draw_legend(sheet, (at.0, y - GAP + LEGEND_GAP), width),
            None => Ok(()),
        }
    }
}
