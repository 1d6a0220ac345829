//! How do several charts become one picture?

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
}

impl Panels {
    fn rows(&self) -> std::slice::Chunks<'_, Chart> {
        self.charts.chunks(self.columns.max(1))
    }

    /// Width of every column: that of its widest chart.
    fn columns(&self) -> Vec<f64> {
        let mut widths = Vec::new();
        for row in self.rows() {
            widths.resize(row.len().max(widths.len()), 0.0_f64);
            for (width, chart) in widths.iter_mut().zip(row) {
                *width = width.max(chart.plot().natural_width(true));
            }
        }
        widths
    }

    fn heading(&self, width: f64) -> Heading {
        Heading::new(&self.title, None, TITLE_SIZE, width)
    }

    fn row_height(row: &[Chart], columns: &[f64]) -> f64 {
        let pairs = row.iter().zip(columns);
        pairs.map(|(chart, width)| chart.plot().height(*width)).fold(0.0, f64::max)
    }
}

impl Plot for Panels {
    fn title(&self) -> &str {
        &self.title
    }

    fn natural_width(&self, _in_panel: bool) -> f64 {
        let columns = self.columns();
        let gaps = columns.len().saturating_sub(1) as f64 * GAP;
        (columns.iter().sum::<f64>() + gaps).max(300.0)
    }

    fn height(&self, width: f64) -> f64 {
        let columns = self.columns();
        let rows = self.rows().map(|row| Self::row_height(row, &columns));
        let gaps = self.rows().len().saturating_sub(1) as f64 * GAP;
        (self.heading(width).height() + rows.sum::<f64>() + gaps).max(20.0)
    }

    fn draw(&self, sheet: &Sheet<'_>, at: Spot, width: f64) -> Drawn {
        let heading = self.heading(width);
        heading.draw(sheet, at)?;
        let columns = self.columns();
        let mut y = at.1 + heading.height();
        for row in self.rows() {
            let mut x = at.0;
            for (chart, width) in row.iter().zip(&columns) {
                chart.plot().draw(sheet, (x, y), *width)?;
                x += width + GAP;
            }
            y += Self::row_height(row, &columns) + GAP;
        }
        Ok(())
    }
}
