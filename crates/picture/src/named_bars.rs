//! What are named bars, and how are they drawn? One below the other, so that long names can be read, each with its
//! value.

use plotters::style::Color;
use plotters::style::text_anchor::{HPos, VPos};

use crate::axes::{Axes, no_data, room_below};
use crate::chart::{COMPACT, Chart, Plot, title_size};
use crate::geometry::{Frame, Spot};
use crate::heading::Heading;
use crate::palette::{INK, series};
use crate::ruler::{Room, Ruler};
use crate::sheet::{Drawn, Lettering, Sheet, stroke};
use crate::text::{ellipsize, width};

/// Height in pixels of the room for a bar, and of the bar.
const ROW: f64 = 30.0;
const BAR: f64 = 18.0;
/// Size in pixels of names and of the words at the ends of bars.
const NAME: f64 = 13.0;
/// The strength of the colour of a lower bound.
const PALE: f64 = 0.35;
/// Longest words at the end of a bar, in pixels.
const LONGEST_NOTE: f64 = 150.0;

/// Horizontal bars, which start at zero.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NamedBars {
    /// The title.
    pub title: String,
    /// The subtitle.
    pub subtitle: Option<String>,
    /// The label of the lengths, with the unit.
    pub x_label: String,
    /// From the top to the bottom.
    pub bars: Vec<NamedBar>,
}

/// A bar.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NamedBar {
    /// What it is.
    pub name: String,
    /// Its length; `None` for no bar, only the note. A length that is not finite or is negative counts as none.
    pub value: Option<f64>,
    /// Whether the length is only a lower bound: then the bar is pale.
    pub at_least: bool,
    /// The interval of the value, drawn as a thin line.
    pub interval: Option<[f64; 2]>,
    /// The words at its end: the value in digits, or why there is none.
    pub note: String,
}

/// The places of all parts of one chart.
struct Layout {
    heading: Heading,
    plot: Frame,
    x: Ruler,
}

impl NamedBar {
    fn length(&self) -> Option<f64> {
        self.value.filter(|value| value.is_finite() && *value >= 0.0)
    }

    /// The interval, if there is a bar that it belongs to.
    fn interval(&self) -> Option<[f64; 2]> {
        self.length()?;
        self.interval.filter(|[low, high]| low.is_finite() && high.is_finite() && *low >= 0.0 && low <= high)
    }

    /// Where its marks end.
    fn end(&self) -> f64 {
        let high = self.interval().map_or(0.0, |[_, high]| high);
        self.length().unwrap_or(0.0).max(high)
    }
}

impl NamedBars {
    fn layout(&self, at: Spot, wide: f64) -> Layout {
        let heading = Heading::new(&self.title, self.subtitle.as_deref(), title_size(wide), wide);
        let most = if wide < COMPACT { 0.4 } else { 0.5 } * wide;
        let widest = |words: &dyn Fn(&NamedBar) -> &str| {
            self.bars.iter().map(|bar| width(words(bar), NAME, false)).fold(0.0, f64::max)
        };
        let left = (widest(&|bar| &bar.name) + 14.0).min(most).ceil();
        let right = (widest(&|bar| &bar.note).min(LONGEST_NOTE) + 14.0).ceil();
        let across = (wide - left - right).floor();
        let plot = Frame::new(at.0 + left, at.1 + heading.height(), across, ROW * self.bars.len().max(2) as f64);
        let x = Ruler::around(self.bars.iter().map(NamedBar::end), false, true, Room::Across(across));
        Layout { heading, plot, x }
    }

    fn draw_bar(&self, sheet: &Sheet<'_>, layout: &Layout, index: usize) -> Drawn {
        let (plot, bar) = (layout.plot, &self.bars[index]);
        let middle = plot.top + ROW * (index as f64 + 0.5);
        let lettering = Lettering::new(NAME).colour(INK);
        let name = ellipsize(&bar.name, NAME, false, plot.left - 14.0);
        sheet.text((plot.left - 10.0, middle), &name, lettering.at(HPos::Right, VPos::Center))?;
        let pixel = |value: f64| layout.x.pixel(value, plot.left, plot.right());
        if let Some(length) = bar.length() {
            let long = (pixel(length) - plot.left).max(1.0);
            let strength = if bar.at_least { PALE } else { 1.0 };
            sheet.fill(Frame::new(plot.left, middle - BAR / 2.0, long, BAR), series(0).mix(strength))?;
        }
        if let Some([low, high]) = bar.interval().map(|ends| ends.map(pixel)) {
            let thin = || stroke(INK.to_rgba(), 1.2);
            sheet.line(&[(low, middle), (high, middle)], thin())?;
            for x in [low, high] {
                sheet.line(&[(x, middle - 4.0), (x, middle + 4.0)], thin())?;
            }
        }
        let note = ellipsize(&bar.note, NAME, false, LONGEST_NOTE);
        sheet.text((pixel(bar.end()) + 7.0, middle), &note, lettering.at(HPos::Left, VPos::Center))
    }
}

impl Plot for NamedBars {
    fn title(&self) -> &str {
        &self.title
    }

    fn subtitle(&self) -> Option<&str> {
        self.subtitle.as_deref()
    }

    fn natural_width(&self, in_panel: bool) -> f64 {
        if in_panel { 600.0 } else { 920.0 }
    }

    fn height(&self, width: f64) -> f64 {
        self.layout((0.0, 0.0), width).plot.bottom() + room_below(&self.x_label)
    }

    fn draw(&self, sheet: &Sheet<'_>, at: Spot, width: f64) -> Drawn {
        let layout = self.layout(at, width);
        layout.heading.draw(sheet, at)?;
        let (x, y) = (&layout.x, &Ruler::named(&[], Room::Along(layout.plot.height)));
        let (plot, x_label, y_label) = (layout.plot, &self.x_label, "");
        Axes { plot, x, y, x_label, y_label, x_grid: true, y_grid: false, extra_below: 0.0 }.draw(sheet)?;
        if self.bars.is_empty() {
            no_data(sheet, plot)?;
        }
        (0..self.bars.len()).try_for_each(|index| self.draw_bar(sheet, &layout, index))
    }

    fn without_legend(&self) -> Option<Chart> {
        Some(Chart::NamedBars(self.clone()))
    }
}
