//! How is a chart drawn?
//!
//! A [`Chart`] is plain data: [`HeatMap`], [`LineChart`], [`NamedBars`], [`StackedBars`], [`Tornado`], or several of
//! them as [`Panels`]. [`Chart::svg`] draws it as a self-contained SVG document, and [`png`] renders that document with
//! a bundled font, so that no font needs to be installed.
//!
//! * The same chart gives the same bytes.
//! * The SVG has neither ids, styles, scripts nor links: many may stand inline in one HTML page.
//!   It states its size in pixels; `max-width: 100%; height: auto` makes it fit a narrow page.
//! * No data makes drawing fail: values that cannot be shown (NaN, infinite, or not positive on a
//!   logarithmic axis) are left out, and lists of different lengths are drawn as far as they go.
//! * Texts are one line: line ends count as spaces. Long titles are broken into lines, other long
//!   texts are cut with an ellipsis.
//!
//! ```
//! use glidepath_picture::{Axis, Chart, LineChart, Point, Series, png};
//!
//! let chart = Chart::LineChart(LineChart {
//!     title: "Latency grows with load".into(),
//!     x: Axis { label: "Throughput (commits/s)".into(), ..Axis::default() },
//!     y: Axis { label: "Latency (ms)".into(), logarithmic: true, ..Axis::default() },
//!     series: vec![Series {
//!         name: "P95".into(),
//!         points: vec![Point::at(10.0, 45.0), Point::at(20.0, 80.0)],
//!         marks: true,
//!         ..Series::default()
//!     }],
//!     ..LineChart::default()
//! });
//! let svg = chart.svg()?;
//! assert!(png(&svg, 2.0)?.starts_with(b"\x89PNG"));
//! # Ok::<(), glidepath_picture::PictureError>(())
//! ```

mod axes;
mod bars;
mod canvas;
mod chart;
mod error;
mod geometry;
mod heading;
mod heat;
mod heat_drawing;
mod legend;
mod line;
mod line_drawing;
mod marks;
mod named_bars;
mod names;
mod numbers;
mod palette;
mod panels;
mod place;
mod raster;
mod ruler;
mod sheet;
mod text;
mod tornado;

pub use bars::StackedBars;
pub use chart::Chart;
pub use error::PictureError;
pub use heat::{Cell, Hatch, HatchLegend, HeatMap, Scale};
pub use line::{Axis, LineChart, LineStyle, Point, Rule, RuleAxis, Series};
pub use named_bars::{NamedBar, NamedBars};
pub use panels::Panels;
pub use raster::png;
pub use tornado::{Swing, SwingEnd, Tornado};
