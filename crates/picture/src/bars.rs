//! What are stacked bars, and how are they drawn?

use plotters::style::Color;

use crate::axes::{Axes, no_data, room_below, room_left};
use crate::chart::{COMPACT, Chart, Plot, title_size};
use crate::geometry::{Frame, Spot};
use crate::heading::Heading;
use crate::legend::{Legend, Place, box_swatch};
use crate::names::Names;
use crate::palette::series;
use crate::ruler::{Room, Ruler};
use crate::sheet::{Drawn, Sheet};

/// Side in pixels of a swatch in the legend.
const SWATCH: f64 = 13.0;
/// More long names than this are thinned out rather than broken or turned.
const MOST_TURNED: usize = 24;

/// Bars made of parts, which start at zero.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct StackedBars {
    /// The title.
    pub title: String,
    /// The subtitle.
    pub subtitle: Option<String>,
    /// The label of the bars.
    pub x_label: String,
    /// The label of the heights, with the unit.
    pub y_label: String,
    /// Names of the bars, left to right. They decide how many bars there are; when they do not
    /// fit side by side, they are broken into lines or turned; of more than 24, every fifth, tenth
    /// or so is shown.
    pub categories: Vec<String>,
    /// Names of the parts from the bottom to the top, each with its height in every bar. Heights
    /// that are missing, not finite or negative count as zero.
    pub parts: Vec<(String, Vec<f64>)>,
}

/// The places of all parts of one chart.
struct Layout {
    heading: Heading,
    legend: Legend,
    place: Place,
    plot: Frame,
    names: Names,
    y: Ruler,
}

impl StackedBars {
    fn height_of(&self, part: usize, bar: usize) -> f64 {
        let heights = self.parts.get(part).map(|(_, heights)| heights);
        let height = heights.and_then(|heights| heights.get(bar).copied());
        height.filter(|h| h.is_finite() && *h > 0.0).unwrap_or(0.0)
    }

    fn total(&self, bar: usize) -> f64 {
        (0..self.parts.len()).map(|part| self.height_of(part, bar)).sum::<f64>().min(f64::MAX)
    }

    /// The legend: none when nothing has a name.
    fn legend(&self) -> Legend {
        let named = self.parts.iter().any(|(name, _)| !name.is_empty());
        Legend::new(self.parts.iter().filter(|_| named).map(|(name, _)| name.as_str()), SWATCH)
    }

    fn layout(&self, at: Spot, width: f64) -> Layout {
        let subtitle = self.subtitle.as_deref();
        let heading = Heading::new(&self.title, subtitle, title_size(width), width);
        let height = if width < COMPACT { 280.0 } else { 380.0 };
        let legend = self.legend();
        let place = legend.place(width, height);
        let totals = (0..self.categories.len()).map(|bar| self.total(bar));
        let y = Ruler::around(totals.chain([0.0]), false, true, Room::Along(height));
        let left = room_left(&y, &self.y_label);
        let right = match place {
            Place::Beside => legend.room_beside(),
            Place::Below => 8.0,
        };
        let plot = Frame::new(at.0 + left, at.1 + heading.height(), (width - left - right).floor(), height);
        let names = Names::new(&self.categories, plot.width, MOST_TURNED);
        Layout { heading, legend, place, plot, names, y }
    }

    fn foot(&self, layout: &Layout) -> f64 {
        let axis = room_below(&self.x_label) + layout.names.extra_below();
        layout.plot.bottom() + axis
    }

    fn draw_bar(&self, sheet: &Sheet<'_>, layout: &Layout, bar: usize) -> Drawn {
        let plot = layout.plot;
        let slot = plot.width / self.categories.len().max(1) as f64;
        let wide = (slot * 0.8).min(90.0);
        let left = plot.left + (bar as f64 + 0.5) * slot - wide / 2.0;
        let pixel = |height: f64| layout.y.pixel(height, plot.bottom(), plot.top);
        let mut sum = 0.0;
        for part in 0..self.parts.len() {
            let height = self.height_of(part, bar);
            if height == 0.0 {
                continue;
            }
            let (foot, top) = (pixel(sum), pixel((sum + height).min(f64::MAX)));
            sum += height;
            // A thin gap separates neighbours of similar lightness.
            let seam = if foot - top > 2.0 { 0.6 } else { 0.0 };
            let frame = Frame::new(left, top, wide, foot - top - seam);
            sheet.fill(frame, series(part).to_rgba())?;
        }
        Ok(())
    }

    fn draw_own_legend(&self, sheet: &Sheet<'_>, layout: &Layout) -> Drawn {
        let Layout { legend, plot, .. } = layout;
        let spots = match layout.place {
            // Reversed, so that the names are in the order of the stack.
            Place::Beside => legend.spots_beside((plot.right(), plot.top)).into_iter().rev().collect(),
            Place::Below => legend.spots_below((plot.left, self.foot(layout) + 8.0), plot.width),
        };
        legend.draw(sheet, &spots, |part, spot| box_swatch(sheet, spot, SWATCH, series(part)))
    }
}

impl Plot for StackedBars {
    fn title(&self) -> &str {
        &self.title
    }

    fn subtitle(&self) -> Option<&str> {
        self.subtitle.as_deref()
    }

    fn natural_width(&self, in_panel: bool) -> f64 {
        if in_panel { 560.0 } else { 920.0 }
    }

    fn height(&self, width: f64) -> f64 {
        let layout = self.layout((0.0, 0.0), width);
        let legend = match layout.place {
            Place::Beside => 0.0,
            Place::Below => 8.0 + layout.legend.room_below(layout.plot.width),
        };
        self.foot(&layout) + legend
    }

    fn draw(&self, sheet: &Sheet<'_>, at: Spot, width: f64) -> Drawn {
        let layout = self.layout(at, width);
        layout.heading.draw(sheet, at)?;
        Axes {
            plot: layout.plot,
            x: &layout.names.ruler,
            y: &layout.y,
            x_label: &self.x_label,
            y_label: &self.y_label,
            x_grid: false,
            y_grid: true,
            extra_below: layout.names.extra_below(),
        }
        .draw(sheet)?;
        layout.names.draw_long(sheet, layout.plot)?;
        for bar in 0..self.categories.len() {
            self.draw_bar(sheet, &layout, bar)?;
        }
        if self.categories.is_empty() || self.parts.is_empty() {
            no_data(sheet, layout.plot)?;
        }
        self.draw_own_legend(sheet, &layout)
    }

    fn without_legend(&self) -> Option<Chart> {
        let mut chart = self.clone();
        chart.parts.iter_mut().for_each(|(name, _)| name.clear());
        Some(Chart::StackedBars(chart))
    }

    fn legend_height(&self, width: f64) -> f64 {
        self.legend().room_below(width)
    }

    fn draw_legend(&self, sheet: &Sheet<'_>, at: Spot, width: f64) -> Drawn {
        let legend = self.legend();
        let spots = legend.spots_below(at, width);
        legend.draw(sheet, &spots, |part, spot| box_swatch(sheet, spot, SWATCH, series(part)))
    }
}
