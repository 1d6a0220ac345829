//! How is one shape or one line of text put at a place given in pixels?

use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, IntoDrawingArea};
use plotters::element::{Circle, DashedPathElement, PathElement, Polygon, Rectangle};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{
    Color, FontDesc, FontFamily, FontStyle, FontTransform, RGBAColor, RGBColor, ShapeStyle, TextStyle,
};

use crate::canvas::{Canvas, UNIT, document};
use crate::error::PictureError;
use crate::geometry::{Frame, Spot};
use crate::palette::{INK, PAPER};
use crate::text::FAMILY;

/// The result of drawing.
pub(crate) type Drawn = Result<(), PictureError>;

/// A plotters drawing area on our canvas.
pub(crate) type Area<'a> = DrawingArea<Canvas<'a>, Shift>;

/// Pixels as plotters units.
pub(crate) fn units(pixels: f64) -> i32 {
    // The cast saturates, which is what a far-away coordinate needs.
    (pixels * UNIT).round() as i32
}

/// Any plotters error as ours.
pub(crate) fn failed(error: impl std::fmt::Display) -> PictureError {
    PictureError::Drawing(error.to_string())
}

/// How one line of text is set, and which of its points is put at the given place.
#[derive(Clone, Copy)]
pub(crate) struct Lettering {
    pub(crate) size: f64,
    pub(crate) bold: bool,
    pub(crate) colour: RGBColor,
    pub(crate) h: HPos,
    pub(crate) v: VPos,
    /// Reads from bottom to top.
    pub(crate) turned: bool,
}

impl Lettering {
    /// Plain text in the ink colour: left end, baseline.
    pub(crate) fn new(size: f64) -> Self {
        Self { size, bold: false, colour: INK, h: HPos::Left, v: VPos::Bottom, turned: false }
    }

    pub(crate) fn at(self, h: HPos, v: VPos) -> Self {
        Self { h, v, ..self }
    }

    pub(crate) fn bold(self) -> Self {
        Self { bold: true, ..self }
    }

    pub(crate) fn colour(self, colour: RGBColor) -> Self {
        Self { colour, ..self }
    }

    pub(crate) fn turned(self) -> Self {
        Self { turned: true, ..self }
    }

    /// The same as a plotters style, in plotters units.
    pub(crate) fn style(&self) -> TextStyle<'static> {
        let weight = if self.bold { FontStyle::Bold } else { FontStyle::Normal };
        let turn = if self.turned { FontTransform::Rotate270 } else { FontTransform::None };
        let font = FontDesc::new(FontFamily::Name(FAMILY), self.size * UNIT, weight);
        font.color(&self.colour).transform(turn).pos(Pos::new(self.h, self.v))
    }
}

/// A colour and a width in pixels.
pub(crate) fn stroke(colour: RGBAColor, width: f64) -> ShapeStyle {
    colour.stroke_width(units(width).unsigned_abs())
}

/// A surface to draw on in pixels.
pub(crate) struct Sheet<'a> {
    area: Area<'a>,
}

impl<'a> Sheet<'a> {
    /// The plotters area behind the sheet, of which axes make parts.
    pub(crate) fn area(&self) -> &Area<'a> {
        &self.area
    }

    pub(crate) fn fill(&self, frame: Frame, colour: RGBAColor) -> Drawn {
        let corners = [(units(frame.left), units(frame.top)), (units(frame.right()), units(frame.bottom()))];
        let shape = Rectangle::new(corners, colour.filled());
        self.area.draw(&shape).map_err(failed)
    }

    pub(crate) fn outline(&self, frame: Frame, colour: RGBAColor, width: f64) -> Drawn {
        let corners = [(units(frame.left), units(frame.top)), (units(frame.right()), units(frame.bottom()))];
        let shape = Rectangle::new(corners, stroke(colour, width));
        self.area.draw(&shape).map_err(failed)
    }

    pub(crate) fn line(&self, path: &[Spot], style: ShapeStyle) -> Drawn {
        let shape = PathElement::new(in_units(path), style);
        self.area.draw(&shape).map_err(failed)
    }

    /// A line of dashes, both lengths in pixels.
    pub(crate) fn dashed(&self, path: &[Spot], style: ShapeStyle, dash: (f64, f64)) -> Drawn {
        let mut path = in_units(path);
        path.dedup();
        let (dash, gap) = (units(dash.0), units(dash.1));
        let shape = DashedPathElement::new(path, dash, gap, style);
        self.area.draw(&shape).map_err(failed)
    }

    pub(crate) fn polygon(&self, corners: &[Spot], colour: RGBAColor) -> Drawn {
        let shape = Polygon::new(in_units(corners), colour.filled());
        self.area.draw(&shape).map_err(failed)
    }

    pub(crate) fn disc(&self, center: Spot, radius: f64, colour: RGBAColor) -> Drawn {
        let center = (units(center.0), units(center.1));
        let shape = Circle::new(center, units(radius), colour.filled());
        self.area.draw(&shape).map_err(failed)
    }

    pub(crate) fn text(&self, at: Spot, words: &str, lettering: Lettering) -> Drawn {
        let at = (units(at.0), units(at.1));
        self.area.draw_text(words, &lettering.style(), at).map_err(failed)
    }
}

fn in_units(path: &[Spot]) -> Vec<(i32, i32)> {
    path.iter().map(|&(x, y)| (units(x), units(y))).collect()
}

/// An SVG document of the given size in pixels, with what `draw` puts on its white sheet.
pub(crate) fn compose(
    size: (f64, f64),
    label: &str,
    draw: impl FnOnce(&Sheet<'_>) -> Drawn,
) -> Result<String, PictureError> {
    let (width, height) = (size.0.ceil(), size.1.ceil());
    let mut elements = String::new();
    {
        let extent = (units(width).unsigned_abs(), units(height).unsigned_abs());
        let canvas = Canvas::new(&mut elements, extent);
        let sheet = Sheet { area: canvas.into_drawing_area() };
        sheet.fill(Frame::new(0.0, 0.0, width, height), PAPER.to_rgba())?;
        draw(&sheet)?;
    }
    Ok(document((width, height), label, &elements))
}
