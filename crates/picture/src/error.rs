//! Which things can go wrong between a chart and its picture?

/// Why a picture could not be made.
#[derive(Debug, thiserror::Error)]
pub enum PictureError {
    /// The chart could not be drawn as SVG.
    #[error("the chart could not be drawn: {0}")]
    Drawing(String),
    /// The text handed to [`png`](crate::png) is not an SVG picture.
    #[error("the SVG text could not be read: {0}")]
    Svg(String),
    /// The requested PNG would have no pixels, or too many of them.
    #[error(
        "a PNG of {width:.0} x {height:.0} pixels cannot be made: \
         each side must be between 1 and {limit} pixels; choose another scale"
    )]
    Size {
        /// Requested width in pixels.
        width: f32,
        /// Requested height in pixels.
        height: f32,
        /// Greatest allowed number of pixels on one side.
        limit: u32,
    },
    /// The pixels could not be packed into a PNG file.
    #[error("the PNG could not be encoded: {0}")]
    Png(String),
}
