//! How tall are a title and a subtitle, and where do their lines go?

use crate::geometry::Spot;
use crate::palette::FAINT_INK;
use crate::sheet::{Drawn, Lettering, Sheet};
use crate::text::wrap;

use plotters::style::text_anchor::{HPos, VPos};

const TITLE_LINES: usize = 3;
const SUBTITLE_LINES: usize = 4;
const SUBTITLE_SIZE: f64 = 12.5;
const SUBTITLE_PITCH: f64 = 17.0;
const GAP_BELOW: f64 = 14.0;

/// A title and a subtitle broken into lines.
pub(crate) struct Heading {
    size: f64,
    title: Vec<String>,
    subtitle: Vec<String>,
}

impl Heading {
    /// Breaks the texts at `width` pixels; `size` is that of the title.
    pub(crate) fn new(title: &str, subtitle: Option<&str>, size: f64, width: f64) -> Self {
        let subtitle = subtitle.unwrap_or_default();
        Self {
            size,
            title: wrap(title, size, true, width, TITLE_LINES),
            subtitle: wrap(subtitle, SUBTITLE_SIZE, false, width, SUBTITLE_LINES),
        }
    }

    /// Height in pixels with the gap below it.
    pub(crate) fn height(&self) -> f64 {
        let lines = self.title_height() + self.subtitle.len() as f64 * SUBTITLE_PITCH;
        if lines > 0.0 { lines + GAP_BELOW } else { 0.0 }
    }

    fn title_height(&self) -> f64 {
        self.title.len() as f64 * self.pitch()
    }

    fn pitch(&self) -> f64 {
        (self.size * 1.4).round()
    }

    /// Draws from the upper left corner `at`.
    pub(crate) fn draw(&self, sheet: &Sheet<'_>, at: Spot) -> Drawn {
        let title = Lettering::new(self.size).bold().at(HPos::Left, VPos::Center);
        for (index, line) in self.title.iter().enumerate() {
            let y = at.1 + (index as f64 + 0.5) * self.pitch();
            sheet.text((at.0, y), line, title)?;
        }
        let subtitle = Lettering::new(SUBTITLE_SIZE).colour(FAINT_INK).at(HPos::Left, VPos::Center);
        for (index, line) in self.subtitle.iter().enumerate() {
            let y = at.1 + self.title_height() + (index as f64 + 0.5) * SUBTITLE_PITCH;
            sheet.text((at.0, y), line, subtitle)?;
        }
        Ok(())
    }
}
