//! What is a heat map made of?

use crate::chart::{Plot, title_size};
use crate::geometry::Spot;
use crate::heading::Heading;
use crate::heat_drawing::Layout;
use crate::ruler::{Room, Ruler};
use crate::sheet::{Drawn, Sheet};
use crate::text;

/// Size in pixels of the text in a cell that has room.
pub(crate) const CELL_TEXT: f64 = 12.0;

/// Coloured cells over two named axes, with a colour bar.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct HeatMap {
    /// The title.
    pub title: String,
    /// The subtitle.
    pub subtitle: Option<String>,
    /// The label of the columns, with the unit.
    pub x_label: String,
    /// The label of the rows, with the unit.
    pub y_label: String,
    /// Names of the columns, left to right. They decide how many columns there are.
    pub x_ticks: Vec<String>,
    /// Names of the rows, the first one at the bottom. They decide how many rows there are.
    pub y_ticks: Vec<String>,
    /// Rows in the order of `y_ticks`, each with its cells in the order of `x_ticks`. None, as
    /// well as a missing cell, is drawn grey with a dash.
    pub cells: Vec<Vec<Option<Cell>>>,
    /// How values become colours.
    pub scale: Scale,
    /// The meaning of hatching, shown below the map; None for no explanation.
    pub hatch_legend: Option<HatchLegend>,
}

/// One cell of a heat map.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Cell {
    /// Decides the colour; grey when the scale cannot show it.
    pub value: f64,
    /// The text of the cell; usually the value.
    pub text: String,
    /// Marks the cell without changing its colour.
    pub hatch: Hatch,
}

/// Lines over a cell that mark it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hatch {
    /// No lines.
    #[default]
    None,
    /// Lines of one direction.
    Light,
    /// Lines of two directions.
    Dense,
}

/// What the two kinds of hatching mean.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HatchLegend {
    /// Meaning of [`Hatch::Light`]; empty when it is not used.
    pub light: String,
    /// Meaning of [`Hatch::Dense`]; empty when it is not used.
    pub dense: String,
}

/// How values become colours: from dark violet (low) over green to yellow (high).
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scale {
    /// The label of the colour bar, with the unit.
    pub label: String,
    /// The low end of the scale. An invalid range (not finite, empty, or not positive on a logarithmic scale) is
    /// replaced by that of the cells.
    pub low: f64,
    /// The high end of the scale.
    pub high: f64,
    /// Logarithmic: equal ratios have equal distances.
    pub logarithmic: bool,
    /// Low values are yellow and high ones dark, for values where less is better.
    pub reversed: bool,
}

impl HeatMap {
    /// The cell in a row (from the bottom) and a column, if it has a value.
    pub(crate) fn cell(&self, row: usize, column: usize) -> Option<&Cell> {
        self.cells.get(row)?.get(column)?.as_ref()
    }

    fn all_cells(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().flatten().flatten()
    }

    /// The scale of the colour bar of this height.
    pub(crate) fn ruler(&self, height: f64) -> Ruler {
        let Scale { low, high, .. } = self.scale;
        let logarithmic = self.scale.logarithmic;
        let room = Room::Along(height);
        let sensible = low.is_finite() && high.is_finite() && low < high;
        if sensible && (!logarithmic || low > 0.0) {
            return Ruler::exact(low, high, logarithmic, room);
        }
        let values = self.all_cells().map(|cell| cell.value);
        Ruler::around(values, logarithmic, false, room)
    }

    /// Width in pixels of the widest text in a cell.
    pub(crate) fn widest_text(&self) -> f64 {
        self.all_cells().map(|cell| text::width(&text::clean(&cell.text), CELL_TEXT, false)).fold(0.0, f64::max)
    }

    pub(crate) fn heading(&self, width: f64) -> Heading {
        let subtitle = self.subtitle.as_deref();
        Heading::new(&self.title, subtitle, title_size(width), width)
    }
}

impl Plot for HeatMap {
    fn title(&self) -> &str {
        &self.title
    }

    fn subtitle(&self) -> Option<&str> {
        self.subtitle.as_deref()
    }

    fn natural_width(&self, _in_panel: bool) -> f64 {
        Layout::natural_width(self)
    }

    fn height(&self, width: f64) -> f64 {
        Layout::new(self, (0.0, 0.0), width).height()
    }

    fn draw(&self, sheet: &Sheet<'_>, at: Spot, width: f64) -> Drawn {
        Layout::new(self, at, width).draw(sheet)
    }
}
