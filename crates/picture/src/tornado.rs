//! What is a tornado chart, and how is it drawn? Bars to both sides of one value, the longest first.

use plotters::style::text_anchor::{HPos, VPos};
use plotters::style::{Color, RGBColor};

use crate::axes::{Axes, no_data, room_below};
use crate::chart::{COMPACT, Chart, Plot, title_size};
use crate::geometry::{Frame, Spot};
use crate::heading::Heading;
use crate::legend::{Legend, box_swatch};
use crate::palette::{FAINT_INK, INK, series};
use crate::ruler::{Room, Ruler};
use crate::sheet::{Drawn, Lettering, Sheet, stroke};
use crate::text::{ellipsize, width};

/// Side in pixels of a swatch in the legend.
const SWATCH: f64 = 13.0;
/// Height in pixels of the room for one pair of bars.
const ROW: f64 = 44.0;
/// Height in pixels of one bar.
const BAR: f64 = 13.0;
/// Sizes in pixels of a name and of the line below it.
const NAME: f64 = 13.0;
const NOTE: f64 = 11.5;

/// Pairs of bars that begin at one value, each for something that was varied down and up.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Tornado {
    /// The title.
    pub title: String,
    /// The subtitle.
    pub subtitle: Option<String>,
    /// The label of the axis, with the unit. It is logarithmic.
    pub x_label: String,
    /// The value at which all bars begin. Nothing is drawn if it is not positive.
    pub start: f64,
    /// The names of the two bars of a pair, for the legend.
    pub sides: [String; 2],
    /// From the top to the bottom.
    pub swings: Vec<Swing>,
}

/// A pair of bars.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Swing {
    /// The name of the varied quantity.
    pub name: String,
    /// A second, fainter line.
    pub note: String,
    /// The values at which the two bars end; `None` for no bar. Values that are not positive are left out.
    pub ends: [Option<SwingEnd>; 2],
}

/// The end of a bar.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SwingEnd {
    /// On the axis.
    pub value: f64,
    /// The interval of the value, drawn as a thin line.
    pub interval: Option<[f64; 2]>,
}

/// The places of all parts of one chart.
struct Layout {
    heading: Heading,
    plot: Frame,
    x: Ruler,
}

impl Tornado {
    fn values(&self) -> impl Iterator<Item = f64> {
        let ends = self.swings.iter().flat_map(|swing| swing.ends.into_iter().flatten());
        let all = ends.flat_map(|end| [end.value].into_iter().chain(end.interval.into_iter().flatten()));
        all.chain([self.start])
    }

    fn legend(&self) -> Legend {
        let named = self.sides.iter().any(|name| !name.is_empty());
        Legend::new(self.sides.iter().filter(|_| named).map(String::as_str), SWATCH)
    }

    fn layout(&self, at: Spot, wide: f64) -> Layout {
        let heading = Heading::new(&self.title, self.subtitle.as_deref(), title_size(wide), wide);
        let most = if wide < COMPACT { 0.4 } else { 0.5 } * wide;
        let texts = self.swings.iter().flat_map(|swing| [(&swing.name, NAME), (&swing.note, NOTE)]);
        let left = (texts.map(|(text, size)| width(text, size, false)).fold(0.0, f64::max) + 14.0).min(most).ceil();
        let across = (wide - left - 14.0).floor();
        let plot = Frame::new(at.0 + left, at.1 + heading.height(), across, ROW * self.swings.len().max(2) as f64);
        let x = Ruler::around(self.values(), true, false, Room::Across(across));
        Layout { heading, plot, x }
    }

    fn draw_swing(&self, sheet: &Sheet<'_>, layout: &Layout, index: usize) -> Drawn {
        let (plot, swing) = (layout.plot, &self.swings[index]);
        let middle = plot.top + ROW * (index as f64 + 0.5);
        let room = plot.left - 14.0;
        let line = |at: f64, text: &str, size: f64, colour: RGBColor| {
            let words = ellipsize(text, size, false, room);
            sheet.text(
                (plot.left - 10.0, at),
                &words,
                Lettering::new(size).colour(colour).at(HPos::Right, VPos::Center),
            )
        };
        if swing.note.is_empty() {
            line(middle, &swing.name, NAME, INK)?;
        } else {
            line(middle - 8.5, &swing.name, NAME, INK)?;
            line(middle + 8.5, &swing.note, NOTE, FAINT_INK)?;
        }
        let pixel = |value: f64| layout.x.pixel(value, plot.left, plot.right());
        for (side, end) in swing.ends.iter().enumerate() {
            let Some(end) = end.filter(|end| layout.x.shows(end.value) && layout.x.shows(self.start)) else { continue };
            let top = middle + if side == 0 { -BAR - 1.0 } else { 1.0 };
            let (from, to) = (pixel(self.start), pixel(end.value));
            sheet.fill(Frame::new(from.min(to), top, (to - from).abs().max(1.0), BAR), series(side).mix(0.75))?;
            let Some([low, high]) = end.interval.filter(|ends| ends.iter().all(|end| layout.x.shows(*end))) else {
                continue;
            };
            let (low, high, y) = (pixel(low), pixel(high), top + BAR / 2.0);
            let thin = || stroke(INK.to_rgba(), 1.2);
            sheet.line(&[(low, y), (high, y)], thin())?;
            for x in [low, high] {
                sheet.line(&[(x, y - 3.5), (x, y + 3.5)], thin())?;
            }
        }
        Ok(())
    }
}

impl Plot for Tornado {
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
        let layout = self.layout((0.0, 0.0), width);
        layout.plot.bottom() + room_below(&self.x_label) + 8.0 + self.legend().room_below(layout.plot.width)
    }

    fn draw(&self, sheet: &Sheet<'_>, at: Spot, width: f64) -> Drawn {
        let layout = self.layout(at, width);
        layout.heading.draw(sheet, at)?;
        let (x, y) = (&layout.x, &Ruler::named(&[], Room::Along(layout.plot.height)));
        let (plot, x_label, y_label) = (layout.plot, &self.x_label, "");
        Axes { plot, x, y, x_label, y_label, x_grid: true, y_grid: false, extra_below: 0.0 }.draw(sheet)?;
        for index in 0..self.swings.len() {
            self.draw_swing(sheet, &layout, index)?;
        }
        if self.swings.is_empty() {
            no_data(sheet, plot)?;
        } else if layout.x.shows(self.start) {
            let start = layout.x.pixel(self.start, plot.left, plot.right());
            sheet.line(&[(start, plot.top), (start, plot.bottom())], stroke(INK.to_rgba(), 1.5))?;
        }
        self.draw_legend(sheet, (plot.left, plot.bottom() + room_below(&self.x_label) + 8.0), plot.width)
    }

    fn without_legend(&self) -> Option<Chart> {
        Some(Chart::Tornado(Self { sides: Default::default(), ..self.clone() }))
    }

    fn legend_height(&self, width: f64) -> f64 {
        self.legend().room_below(width)
    }

    fn draw_legend(&self, sheet: &Sheet<'_>, at: Spot, width: f64) -> Drawn {
        let legend = self.legend();
        let spots = legend.spots_below(at, width);
        legend.draw(sheet, &spots, |side, spot| box_swatch(sheet, spot, SWATCH, series(side)))
    }
}
