//! How wide is a text, and how is it made to fit?
//!
//! Widths come from the font that is bundled for the PNG. The SVG states the same width for every
//! text (`textLength`), so a browser that must fall back to another font keeps the layout.

use std::borrow::Cow;
use std::sync::LazyLock;

use skrifa::charmap::Charmap;
use skrifa::instance::{LocationRef, Size};
use skrifa::metrics::GlyphMetrics;
use skrifa::{FontRef, MetadataProvider};

/// Family name of the bundled font.
pub(crate) const FAMILY: &str = "Noto Sans";

/// Width of a character that the bundled font lacks, as a share of the font size.
const UNKNOWN_ADVANCE: f64 = 1.0;

/// What measuring needs of a font.
struct Face {
    characters: Charmap<'static>,
    glyphs: GlyphMetrics<'static>,
    units_per_em: f64,
}

static REGULAR: LazyLock<Option<Face>> = LazyLock::new(|| Face::parse(notosans::REGULAR_TTF));
static BOLD: LazyLock<Option<Face>> = LazyLock::new(|| Face::parse(notosans::BOLD_TTF));

impl Face {
    fn parse(data: &'static [u8]) -> Option<Self> {
        let font = FontRef::new(data).ok()?;
        let (size, location) = (Size::unscaled(), LocationRef::default());
        let units_per_em = f64::from(font.metrics(size, location).units_per_em);
        Some(Self { characters: font.charmap(), glyphs: font.glyph_metrics(size, location), units_per_em })
    }
}

fn advance(character: char, bold: bool) -> Option<f64> {
    let face = if bold { &*BOLD } else { &*REGULAR };
    let face = face.as_ref()?;
    let glyph = face.characters.map(character)?;
    Some(f64::from(face.glyphs.advance_width(glyph)?) / face.units_per_em)
}

/// Whether the bundled font can show every character, so that its widths can be trusted.
pub(crate) fn is_covered(text: &str) -> bool {
    text.chars().all(|c| advance(c, false).is_some())
}

/// Width in pixels of one line of (clean) text.
pub(crate) fn width(text: &str, size: f64, bold: bool) -> f64 {
    let sum: f64 = text.chars().map(|c| advance(c, bold).unwrap_or(UNKNOWN_ADVANCE)).sum();
    sum * size
}

/// One line of valid XML text: runs of white space, line ends and control characters become one space, characters that
/// XML forbids become the replacement character.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    let odd = |c: char| c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}');
    if !text.contains(odd) && !text.contains("  ") && text.trim() == text {
        return Cow::Borrowed(text);
    }
    let mapped: String = text
        .chars()
        .map(|c| match c {
            '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
            c if c.is_control() => ' ',
            c => c,
        })
        .collect();
    Cow::Owned(mapped.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The text, cut and ended with an ellipsis when it is wider than `room` pixels.
pub(crate) fn ellipsize(text: &str, size: f64, bold: bool, room: f64) -> String {
    let text = clean(text);
    if width(&text, size, bold) <= room {
        return text.into_owned();
    }
    let mut left = room - width("…", size, bold);
    let mut kept = String::new();
    for character in text.chars() {
        left -= advance(character, bold).unwrap_or(UNKNOWN_ADVANCE) * size;
        if left < 0.0 {
            break;
        }
        kept.push(character);
    }
    format!("{}…", kept.trim_end())
}

/// The text with its middle replaced by an ellipsis when it is wider than `room` pixels: its end gets a little more
/// room than its beginning, because names more often differ at the end.
pub(crate) fn ellipsize_middle(text: &str, size: f64, bold: bool, room: f64) -> String {
    let text = clean(text);
    if width(&text, size, bold) <= room {
        return text.into_owned();
    }
    let left = room - width("…", size, bold);
    let of = |character: char| advance(character, bold).unwrap_or(UNKNOWN_ADVANCE) * size;
    let fitting = |characters: &mut dyn Iterator<Item = char>, room: f64| {
        let mut used = 0.0;
        characters
            .take_while(|character| {
                used += of(*character);
                used <= room
            })
            .collect::<Vec<char>>()
    };
    let start: String = fitting(&mut text.chars(), left * 0.4).into_iter().collect();
    let end: String = fitting(&mut text.chars().rev(), left * 0.6).into_iter().rev().collect();
    format!("{}…{}", start.trim_end(), end.trim_start())
}

/// The text broken at spaces into at most `most` lines; what does not fit is cut with an ellipsis.
pub(crate) fn wrap(text: &str, size: f64, bold: bool, room: f64, most: usize) -> Vec<String> {
    let text = clean(text);
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let full = lines.len() >= most;
        let longer = lines.last().map(|line| format!("{line} {word}"));
        match (lines.last_mut(), longer) {
            (Some(line), Some(longer)) if full || width(&longer, size, bold) <= room => *line = longer,
            _ => lines.push(word.to_owned()),
        }
    }
    for line in &mut lines {
        *line = ellipsize(line, size, bold, room);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_font_covers_what_charts_use() {
        assert!(is_covered("AZaz09 −…·×≤≥±µ°–—%/()[]<>&²³"));
    }

    #[test]
    fn bold_is_wider() {
        assert!(width("throughput", 12.0, true) > width("throughput", 12.0, false));
    }

    #[test]
    fn ellipsized_text_fits() {
        let short = ellipsize("a rather long label", 12.0, false, 60.0);
        assert!(short.ends_with('…') && width(&short, 12.0, false) <= 60.0);
        assert_eq!(ellipsize("short", 12.0, false, 60.0), "short");
    }

    #[test]
    fn wrapped_text_keeps_its_words() {
        let lines = wrap("one two three four five six", 12.0, false, 60.0, 9);
        assert!(lines.len() > 2);
        assert_eq!(lines.join(" "), "one two three four five six");
        assert_eq!(wrap("one two three four", 12.0, false, 30.0, 2).len(), 2);
        assert!(wrap(" \n ", 12.0, false, 30.0, 2).is_empty());
    }

    #[test]
    fn forbidden_characters_are_replaced() {
        assert_eq!(clean("a\u{0}b\n c\u{ffff}"), "a b c\u{fffd}");
    }
}
