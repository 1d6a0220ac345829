//! How does an SVG become a PNG on a machine that has no fonts?

use std::sync::{Arc, LazyLock};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};

use crate::error::PictureError;
use crate::text::FAMILY;

/// Greatest allowed number of pixels on one side of a PNG.
const LIMIT: u32 = 16_000;

static FONTS: LazyLock<Arc<Database>> = LazyLock::new(|| {
    let mut fonts = Database::new();
    fonts.load_font_data(notosans::REGULAR_TTF.to_vec());
    fonts.load_font_data(notosans::BOLD_TTF.to_vec());
    fonts.set_sans_serif_family(FAMILY);
    Arc::new(fonts)
});

/// Renders an SVG picture, as [`Chart::svg`](crate::Chart::svg) makes it, into a PNG file.
///
/// `scale` is the number of PNG pixels per SVG pixel: 2 suits most screens and papers. All text is
/// set in the bundled Noto Sans; characters it lacks appear as empty boxes.
///
/// # Errors
///
/// When `svg` is not an SVG picture, or when the PNG would have a side of no pixels or of more
/// than 16,000 pixels.
pub fn png(svg: &str, scale: f32) -> Result<Vec<u8>, PictureError> {
    let options = Options { font_family: FAMILY.to_owned(), fontdb: Arc::clone(&FONTS), ..Options::default() };
    let tree = Tree::from_str(svg, &options).map_err(|e| PictureError::Svg(e.to_string()))?;
    let width = (tree.size().width() * scale).ceil();
    let height = (tree.size().height() * scale).ceil();
    let refused = PictureError::Size { width, height, limit: LIMIT };
    let allowed = 1.0..=LIMIT as f32;
    if !allowed.contains(&width) || !allowed.contains(&height) {
        return Err(refused);
    }
    // Both sides are whole numbers within 1..=LIMIT here.
    let mut pixels = Pixmap::new(width as u32, height as u32).ok_or(refused)?;
    let transform = Transform::from_scale(scale, scale);
    resvg::render(&tree, transform, &mut pixels.as_mut());
    pixels.encode_png().map_err(|e| PictureError::Png(e.to_string()))
}
