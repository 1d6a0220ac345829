//! How are the two axes, their ticks, their labels and the grid drawn around a plot?

use plotters::chart::{ChartBuilder, LabelAreaPosition};
use plotters::style::Color;
use plotters::style::text_anchor::{HPos, VPos};

use crate::geometry::Frame;
use crate::palette::{AXIS, FAINT_GRID, FAINT_INK, GRID};
use crate::ruler::{Ruler, TICK_SIZE};
use crate::sheet::{Drawn, Lettering, Sheet, failed, stroke, units};
use crate::text::{ellipsize, width};

/// Length in pixels of a tick mark; plotters puts tick labels twice as far from the axis.
const MARK: f64 = 4.0;
/// Size in pixels of axis labels.
pub(crate) const LABEL_SIZE: f64 = 13.0;
/// Room in pixels for an axis label and the gap between it and the tick labels.
const LABEL_ROOM: f64 = LABEL_SIZE + 11.0;

/// The axes around a plot.
pub(crate) struct Axes<'a> {
    pub(crate) plot: Frame,
    pub(crate) x: &'a Ruler,
    pub(crate) y: &'a Ruler,
    pub(crate) x_label: &'a str,
    pub(crate) y_label: &'a str,
    pub(crate) x_grid: bool,
    pub(crate) y_grid: bool,
    /// Room in pixels below the plot for tick labels that are drawn in another way.
    pub(crate) extra_below: f64,
}

/// Room in pixels that a y axis takes left of the plot.
pub(crate) fn room_left(y: &Ruler, y_label: &str) -> f64 {
    let label = if y_label.is_empty() { 0.0 } else { LABEL_ROOM };
    (y.widest() + 2.0 * MARK + label).ceil()
}

/// Room in pixels that an x axis with labels in one row takes below the plot.
pub(crate) fn room_below(x_label: &str) -> f64 {
    let label = if x_label.is_empty() { 4.0 } else { LABEL_ROOM };
    (TICK_SIZE + 2.0 * MARK + label).ceil()
}

/// Writes "no data" in the middle of an empty plot.
pub(crate) fn no_data(sheet: &Sheet<'_>, plot: Frame) -> Drawn {
    let lettering = Lettering::new(14.0).colour(FAINT_INK);
    let middle = lettering.at(HPos::Center, VPos::Center);
    sheet.text(plot.center(), "no data", middle)
}

impl Axes<'_> {
    /// Draws grid, axes, ticks and labels.
    pub(crate) fn draw(&self, sheet: &Sheet<'_>) -> Drawn {
        let plot = self.plot;
        let left = room_left(self.y, self.y_label);
        let below = room_below(self.x_label) + self.extra_below;
        let around = sheet
            .area()
            .clone()
            .shrink((units(plot.left - left), units(plot.top)), (units(plot.width + left), units(plot.height + below)));
        let mut chart = ChartBuilder::on(&around)
            .set_label_area_size(LabelAreaPosition::Left, units(left))
            .set_label_area_size(LabelAreaPosition::Bottom, units(below))
            .build_cartesian_2d(self.x.clone(), self.y.clone())
            .map_err(failed)?;
        let ticks = Lettering::new(TICK_SIZE).style();
        let mut mesh = chart.configure_mesh();
        mesh.axis_style(stroke(AXIS.to_rgba(), 1.0))
            .bold_line_style(stroke(GRID.to_rgba(), 1.0))
            .light_line_style(stroke(FAINT_GRID.to_rgba(), 1.0))
            .label_style(ticks)
            .set_all_tick_mark_size(units(MARK));
        if !self.x_grid {
            mesh.disable_x_mesh();
        }
        if !self.y_grid {
            mesh.disable_y_mesh();
        }
        mesh.draw().map_err(failed)?;
        self.draw_labels(sheet, left, below)
    }

    fn draw_labels(&self, sheet: &Sheet<'_>, left: f64, below: f64) -> Drawn {
        let plot = self.plot;
        let (x, y) = plot.center();
        let lettering = Lettering::new(LABEL_SIZE);
        let words = ellipsize(self.x_label, LABEL_SIZE, false, (plot.width + left).max(200.0));
        // Below the plot; a label that is wider also takes the room below the labels of the y axis.
        let is_wide = width(&words, LABEL_SIZE, false) > plot.width;
        let (x_foot, side) = if is_wide { (plot.right(), HPos::Right) } else { (x, HPos::Center) };
        let foot = (x_foot, plot.bottom() + below - 3.0);
        sheet.text(foot, &words, lettering.at(side, VPos::Bottom))?;
        let words = ellipsize(self.y_label, LABEL_SIZE, false, plot.height.max(150.0));
        let side = (plot.left - left, y);
        let turned = lettering.turned().at(HPos::Center, VPos::Top);
        sheet.text(side, &words, turned)
    }
}
