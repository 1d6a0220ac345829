//! Which kinds of chart are there, and what can each of them do?

use crate::bars::StackedBars;
use crate::error::PictureError;
use crate::geometry::Spot;
use crate::heat::HeatMap;
use crate::line::LineChart;
use crate::named_bars::NamedBars;
use crate::panels::Panels;
use crate::sheet::{Drawn, Sheet, compose};
use crate::tornado::Tornado;

/// White margin in pixels around every picture.
const MARGIN: f64 = 20.0;

/// Pictures narrower than this are drawn compactly: smaller titles and plots, legends below.
pub(crate) const COMPACT: f64 = 760.0;

/// A chart of any kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Chart {
    /// Coloured cells over two named axes.
    HeatMap(HeatMap),
    /// Lines and points over two numeric axes.
    LineChart(LineChart),
    /// Bars one below the other, each with its value.
    NamedBars(NamedBars),
    /// Bars made of parts.
    StackedBars(StackedBars),
    /// Bars to either side of one value.
    Tornado(Tornado),
    /// Several charts in one picture.
    Panels(Panels),
}

/// What every kind of chart can do. All sizes are in pixels and exclude the margin.
pub(crate) trait Plot {
    /// The title.
    fn title(&self) -> &str;
    /// The subtitle.
    fn subtitle(&self) -> Option<&str> {
        None
    }
    /// The description for screen readers.
    fn label(&self) -> String {
        match self.subtitle() {
            Some(subtitle) => format!("{} ({subtitle})", self.title()),
            None => self.title().to_owned(),
        }
    }
    /// The width the chart would choose, alone or as one of several panels.
    fn natural_width(&self, in_panel: bool) -> f64;
    /// The height the chart needs when it is `width` wide.
    fn height(&self, width: f64) -> f64;
    /// Draws the chart from its upper left corner.
    fn draw(&self, sheet: &Sheet<'_>, at: Spot, width: f64) -> Drawn;
    /// The chart without its legend; None if its legend cannot be removed.
    fn without_legend(&self) -> Option<Chart> {
        None
    }
    /// The height of the legend alone when it is `width` wide.
    fn legend_height(&self, _width: f64) -> f64 {
        0.0
    }
    /// Draws the legend alone from its upper left corner.
    fn draw_legend(&self, _sheet: &Sheet<'_>, _at: Spot, _width: f64) -> Drawn {
        Ok(())
    }
}

impl Chart {
    pub(crate) fn plot(&self) -> &dyn Plot {
        match self {
            Self::HeatMap(chart) => chart,
            Self::LineChart(chart) => chart,
            Self::NamedBars(chart) => chart,
            Self::StackedBars(chart) => chart,
            Self::Tornado(chart) => chart,
            Self::Panels(chart) => chart,
        }
    }

    /// What the picture shows, in words.
    #[must_use]
    pub fn title(&self) -> &str {
        self.plot().title()
    }

    /// Draws the chart as an SVG document on a white background.
    ///
    /// Axis labels should contain units: nothing is added to them.
    ///
    /// # Errors
    ///
    /// When the drawing library fails, which no data is known to cause.
    pub fn svg(&self) -> Result<String, PictureError> {
        let plot = self.plot();
        let width = plot.natural_width(false);
        let size = (width + 2.0 * MARGIN, plot.height(width) + 2.0 * MARGIN);
        compose(size, &plot.label(), |sheet| plot.draw(sheet, (MARGIN, MARGIN), width))
    }
}

/// Size in pixels of the title of a chart of this width.
pub(crate) fn title_size(width: f64) -> f64 {
    if width < COMPACT { 15.0 } else { 17.0 }
}
