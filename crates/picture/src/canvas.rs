//! How do plotters' drawing orders become SVG text?
//!
//! We have our own backend, because that of plotters rounds to whole pixels and guesses text widths. Plotters' integer
//! coordinates are tenths of a pixel here, and text is measured with the bundled font, so that plotters places its
//! labels where they belong.

use std::fmt::Write as _;

use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind, FontStyle,
    FontTransform,
};

use crate::text;

/// Plotters' units per pixel.
pub(crate) const UNIT: f64 = 10.0;

/// Height of a capital letter, as a share of the font size.
pub(crate) const CAP: f64 = 0.714;

/// Fonts in order of preference: the bundled one, then ones of similar width.
const FAMILIES: &str = "'Noto Sans','Open Sans','Segoe UI','Helvetica Neue',Arial,sans-serif";

type Drawn = Result<(), DrawingErrorKind<std::fmt::Error>>;

/// Writes SVG elements into a text.
pub(crate) struct Canvas<'a> {
    out: &'a mut String,
    size: (u32, u32),
}

impl<'a> Canvas<'a> {
    /// A canvas of `size` plotters units that appends to `out`.
    pub(crate) fn new(out: &'a mut String, size: (u32, u32)) -> Self {
        Self { out, size }
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) -> Drawn {
        self.out.write_fmt(element).map_err(DrawingErrorKind::DrawingError)
    }
}

/// The whole SVG document around drawn elements. `size` in pixels, `label` for screen readers.
pub(crate) fn document(size: (f64, f64), label: &str, elements: &str) -> String {
    let (width, height) = size;
    let label = escape(&text::clean(label));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{label}\" \
         font-family=\"{FAMILIES}\" stroke-linejoin=\"round\">\n{elements}</svg>\n"
    )
}

fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// Plotters units as pixels with at most one decimal.
struct Px(i32);

impl std::fmt::Display for Px {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (whole, rest) = (self.0 / 10, self.0 % 10);
        match rest {
            0 => write!(f, "{whole}"),
            _ if self.0 < 0 => write!(f, "-{}.{}", whole.abs(), rest.abs()),
            _ => write!(f, "{whole}.{rest}"),
        }
    }
}

/// A colour as the value of an attribute, with its opacity attribute when it is translucent.
struct Paint(&'static str, BackendColor);

impl std::fmt::Display for Paint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (r, g, b) = self.1.rgb;
        write!(f, "{}=\"#{r:02x}{g:02x}{b:02x}\"", self.0)?;
        if self.1.alpha < 1.0 {
            write!(f, " {}-opacity=\"{:.2}\"", self.0, self.1.alpha)?;
        }
        Ok(())
    }
}

/// How a shape is painted: filled, or stroked with a width.
struct Brush<'s, S: BackendStyle> {
    style: &'s S,
    fill: bool,
}

impl<S: BackendStyle> std::fmt::Display for Brush<'_, S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.fill {
            return write!(f, "{}", Paint("fill", self.style.color()));
        }
        let width = Px(i32::try_from(self.style.stroke_width()).unwrap_or(i32::MAX));
        let stroke = Paint("stroke", self.style.color());
        write!(f, "fill=\"none\" {stroke} stroke-width=\"{width}\"")
    }
}

fn points(path: impl IntoIterator<Item = BackendCoord>) -> String {
    let mut out = String::new();
    for (x, y) in path {
        let gap = if out.is_empty() { "" } else { " " };
        // Writing into a String cannot fail.
        let _ = write!(out, "{gap}{},{}", Px(x), Px(y));
    }
    out
}

impl DrawingBackend for Canvas<'_> {
    type ErrorType = std::fmt::Error;

    fn get_size(&self) -> (u32, u32) {
        self.size
    }

    fn ensure_prepared(&mut self) -> Drawn {
        Ok(())
    }

    fn present(&mut self) -> Drawn {
        Ok(())
    }

    fn draw_pixel(&mut self, point: BackendCoord, color: BackendColor) -> Drawn {
        let (x, y) = (Px(point.0), Px(point.1));
        let fill = Paint("fill", color);
        self.put(format_args!("<rect x=\"{x}\" y=\"{y}\" width=\"0.1\" height=\"0.1\" {fill}/>\n"))
    }

    fn draw_line<S: BackendStyle>(&mut self, from: BackendCoord, to: BackendCoord, style: &S) -> Drawn {
        self.draw_path([from, to], style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        upper_left: BackendCoord,
        bottom_right: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn {
        let (x, y) = (Px(upper_left.0), Px(upper_left.1));
        let width = Px(bottom_right.0.saturating_sub(upper_left.0).max(0));
        let height = Px(bottom_right.1.saturating_sub(upper_left.1).max(0));
        let brush = Brush { style, fill };
        self.put(format_args!("<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" {brush}/>\n"))
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, path: I, style: &S) -> Drawn {
        let brush = Brush { style, fill: false };
        let points = points(path);
        self.put(format_args!("<polyline points=\"{points}\" {brush}/>\n"))
    }

    fn draw_circle<S: BackendStyle>(&mut self, center: BackendCoord, radius: u32, style: &S, fill: bool) -> Drawn {
        let (x, y) = (Px(center.0), Px(center.1));
        let radius = Px(i32::try_from(radius).unwrap_or(i32::MAX));
        let brush = Brush { style, fill };
        self.put(format_args!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{radius}\" {brush}/>\n"))
    }

    fn fill_polygon<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(&mut self, vertices: I, style: &S) -> Drawn {
        let brush = Brush { style, fill: true };
        let points = points(vertices);
        self.put(format_args!("<polygon points=\"{points}\" {brush}/>\n"))
    }

    fn draw_text<T: BackendTextStyle>(&mut self, text: &str, style: &T, pos: BackendCoord) -> Drawn {
        let words = text::clean(text);
        if words.is_empty() {
            return Ok(());
        }
        let size = style.size() / UNIT;
        let bold = matches!(style.style(), FontStyle::Bold);
        // Baselines are computed here: renderers disagree about `dominant-baseline`.
        let down = match style.anchor().v_pos {
            VPos::Top => size * CAP,
            VPos::Center => size * CAP / 2.0,
            VPos::Bottom => 0.0,
        };
        let (x, y) = (Px(pos.0), Px(pos.1));
        let anchor = match style.anchor().h_pos {
            HPos::Left => "",
            HPos::Center => " text-anchor=\"middle\"",
            HPos::Right => " text-anchor=\"end\"",
        };
        let weight = if bold { " font-weight=\"bold\"" } else { "" };
        let turn = match style.transform() {
            FontTransform::None => String::new(),
            FontTransform::Rotate90 => format!(" transform=\"rotate(90 {x} {y})\""),
            FontTransform::Rotate180 => format!(" transform=\"rotate(180 {x} {y})\""),
            FontTransform::Rotate270 => format!(" transform=\"rotate(-90 {x} {y})\""),
        };
        let length = if text::is_covered(&words) {
            format!(" textLength=\"{:.1}\" lengthAdjust=\"spacingAndGlyphs\"", text::width(&words, size, bold))
        } else {
            String::new()
        };
        let fill = Paint("fill", style.color());
        let words = escape(&words);
        self.put(format_args!(
            "<text x=\"{x}\" y=\"{y}\" dy=\"{down:.1}\" font-size=\"{size}\"\
             {weight}{anchor}{turn}{length} {fill}>{words}</text>\n"
        ))
    }

    fn estimate_text_size<T: BackendTextStyle>(
        &self,
        text: &str,
        style: &T,
    ) -> Result<(u32, u32), DrawingErrorKind<std::fmt::Error>> {
        let bold = matches!(style.style(), FontStyle::Bold);
        let width = text::width(&text::clean(text), style.size(), bold);
        // A float cast saturates, and sizes are small.
        Ok((width.ceil() as u32, (style.size() * CAP).ceil() as u32))
    }
}
