//! How is a legend laid out beside or below a plot?

use plotters::style::RGBColor;
use plotters::style::text_anchor::{HPos, VPos};

use crate::geometry::Spot;
use crate::sheet::{Drawn, Lettering, Sheet};
use crate::text::{ellipsize, width};

const SIZE: f64 = 12.5;
const PITCH: f64 = 21.0;
/// Between swatch and name.
const GAP: f64 = 8.0;
/// Between entries of one row.
const SPACE: f64 = 22.0;
/// Names wider than this are cut.
const WIDEST: f64 = 420.0;
/// Legends wider than this go below the plot.
const WIDEST_BESIDE: f64 = 230.0;
/// Distance from the plot to a legend beside it.
const MARGIN: f64 = 20.0;

/// Names in a row or a column, each with a swatch that the chart draws.
pub(crate) struct Legend {
    names: Vec<String>,
    swatch: f64,
}

/// Where a legend goes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Place {
    /// Right of the plot.
    Beside,
    /// Below the plot, in rows.
    Below,
}

impl Legend {
    /// A legend whose swatches are `swatch` pixels wide.
    pub(crate) fn new<'n>(names: impl Iterator<Item = &'n str>, swatch: f64) -> Self {
        let names = names.map(|name| ellipsize(name, SIZE, false, WIDEST)).collect();
        Self { names, swatch }
    }

    fn entry_width(&self, name: &str) -> f64 {
        self.swatch + GAP + width(name, SIZE, false)
    }

    fn widest(&self) -> f64 {
        self.names.iter().map(|name| self.entry_width(name)).fold(0.0, f64::max)
    }

    /// The better place next to a plot of this height in a picture of this width.
    pub(crate) fn place(&self, picture_width: f64, plot_height: f64) -> Place {
        let tall = self.names.len() as f64 * PITCH > plot_height;
        if picture_width < 760.0 || tall || self.widest() > WIDEST_BESIDE { Place::Below } else { Place::Beside }
    }

    /// Room in pixels that the legend takes beside a plot, with the margin.
    pub(crate) fn room_beside(&self) -> f64 {
        if self.names.is_empty() { 0.0 } else { (MARGIN + self.widest()).ceil() }
    }

    /// Room in pixels that the legend takes below a plot within `room` pixels of width.
    pub(crate) fn room_below(&self, room: f64) -> f64 {
        match self.spots_below((0.0, 0.0), room).last() {
            Some(last) => last.1 + PITCH / 2.0,
            None => 0.0,
        }
    }

    /// Left ends of the entries in a column with the upper left corner `at`.
    pub(crate) fn spots_beside(&self, at: Spot) -> Vec<Spot> {
        (0..self.names.len()).map(|index| (at.0 + MARGIN, at.1 + (index as f64 + 0.5) * PITCH)).collect()
    }

    /// Left ends of the entries in rows with the upper left corner `at`. Entries of several rows
    /// stand in columns.
    pub(crate) fn spots_below(&self, at: Spot, room: f64) -> Vec<Spot> {
        let widths = || self.names.iter().map(|name| self.entry_width(name) + SPACE);
        let one_row = widths().sum::<f64>() - SPACE <= room;
        let column = self.widest() + SPACE;
        // At least one; a float cast saturates.
        let columns = (((room + SPACE) / column).floor() as usize).max(1);
        let (mut x, mut spots) = (at.0, Vec::new());
        for (index, wide) in widths().enumerate() {
            if one_row {
                spots.push((x, at.1 + PITCH / 2.0));
                x += wide;
            } else {
                let (row, place) = (index / columns, index % columns);
                let y = at.1 + (row as f64 + 0.5) * PITCH;
                spots.push((at.0 + place as f64 * column, y));
            }
        }
        spots
    }

    /// Draws the names at the spots, and lets `swatch` draw each swatch, given the index of the
    /// entry and the middle of the swatch's left side.
    pub(crate) fn draw(&self, sheet: &Sheet<'_>, spots: &[Spot], swatch: impl Fn(usize, Spot) -> Drawn) -> Drawn {
        let lettering = Lettering::new(SIZE).at(HPos::Left, VPos::Center);
        for (index, (name, &spot)) in self.names.iter().zip(spots).enumerate() {
            swatch(index, spot)?;
            let x = spot.0 + self.swatch + GAP;
            sheet.text((x, spot.1), name, lettering)?;
        }
        Ok(())
    }
}

/// A filled box as a swatch.
pub(crate) fn box_swatch(sheet: &Sheet<'_>, at: Spot, side: f64, colour: RGBColor) -> Drawn {
    use plotters::style::Color;
    let frame = crate::geometry::Frame::new(at.0, at.1 - side / 2.0, side, side);
    sheet.fill(frame, colour.to_rgba())
}
