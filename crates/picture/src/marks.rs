//! How do the points and strokes of different series differ in more than colour?

use plotters::style::{Color, RGBColor};

use crate::geometry::Spot;
use crate::line::LineStyle;
use crate::palette::PAPER;
use crate::sheet::{Drawn, Sheet, stroke};

/// Width in pixels of the lines of series.
const LINE: f64 = 2.0;

/// Draws one connected line.
pub(crate) fn line(sheet: &Sheet<'_>, path: &[Spot], style: LineStyle, colour: RGBColor) -> Drawn {
    let pen = stroke(colour.to_rgba(), LINE);
    match style {
        LineStyle::Solid => sheet.line(path, pen),
        LineStyle::Dashed => sheet.dashed(path, pen, (8.0, 5.0)),
        LineStyle::Dotted => sheet.dashed(path, pen, (2.0, 3.5)),
        LineStyle::None => Ok(()),
    }
}

/// Draws the mark of the series with this index, with a white rim that separates it from the lines.
pub(crate) fn mark(sheet: &Sheet<'_>, index: usize, at: Spot, colour: RGBColor) -> Drawn {
    shape(sheet, index, at, 6.0, PAPER)?;
    shape(sheet, index, at, 4.6, colour)
}

/// Six shapes of about the same area.
fn shape(sheet: &Sheet<'_>, index: usize, at: Spot, radius: f64, colour: RGBColor) -> Drawn {
    let colour = colour.to_rgba();
    let corners = |angles: &[f64], radius: f64| -> Vec<Spot> {
        let spot = |angle: &f64| {
            let (sine, cosine) = angle.to_radians().sin_cos();
            (at.0 + radius * cosine, at.1 - radius * sine)
        };
        angles.iter().map(spot).collect()
    };
    let corners = match index % 6 {
        0 => return sheet.disc(at, radius, colour),
        1 => corners(&[45.0, 135.0, 225.0, 315.0], radius * 1.2),
        2 => corners(&[90.0, 210.0, 330.0], radius * 1.35),
        3 => corners(&[0.0, 90.0, 180.0, 270.0], radius * 1.3),
        4 => corners(&[270.0, 30.0, 150.0], radius * 1.35),
        _ => corners(&[90.0, 162.0, 234.0, 306.0, 18.0], radius * 1.2),
    };
    sheet.polygon(&corners, colour)
}
