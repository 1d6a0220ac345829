//! Which colours does a picture use?
//!
//! Values are shown with viridis, which grows evenly in lightness and survives colour blindness
//! and grey printing. Series use the colours of Okabe and Ito (without yellow, which is too faint
//! for a line on white), followed by three of Paul Tol's muted ones.

use plotters::style::RGBColor;

/// Background of every picture, also within a dark page.
pub(crate) const PAPER: RGBColor = RGBColor(255, 255, 255);
/// Titles, labels and annotations.
pub(crate) const INK: RGBColor = RGBColor(34, 34, 34);
/// Subtitles and other secondary text.
pub(crate) const FAINT_INK: RGBColor = RGBColor(95, 95, 95);
/// Axis lines and tick marks.
pub(crate) const AXIS: RGBColor = RGBColor(125, 125, 125);
/// Grid lines at labelled ticks.
pub(crate) const GRID: RGBColor = RGBColor(222, 222, 222);
/// Grid lines between labelled ticks.
pub(crate) const FAINT_GRID: RGBColor = RGBColor(240, 240, 240);
/// Cells of a heat map that have no value.
pub(crate) const VOID: RGBColor = RGBColor(236, 236, 236);

const SERIES: [RGBColor; 10] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(51, 51, 51),
    RGBColor(136, 34, 85),
    RGBColor(153, 153, 51),
    RGBColor(51, 34, 136),
];

/// The colour of the series with this index; colours repeat after ten.
pub(crate) fn series(index: usize) -> RGBColor {
    SERIES[index % SERIES.len()]
}

const VIRIDIS: [RGBColor; 11] = [
    RGBColor(0x44, 0x01, 0x54),
    RGBColor(0x48, 0x24, 0x75),
    RGBColor(0x41, 0x44, 0x87),
    RGBColor(0x35, 0x5f, 0x8d),
    RGBColor(0x2a, 0x78, 0x8e),
    RGBColor(0x21, 0x91, 0x8c),
    RGBColor(0x22, 0xa8, 0x84),
    RGBColor(0x44, 0xbf, 0x70),
    RGBColor(0x7a, 0xd1, 0x51),
    RGBColor(0xbd, 0xdf, 0x26),
    RGBColor(0xfd, 0xe7, 0x25),
];

/// The viridis colour of a share; shares beyond 0 and 1 take the end colours.
pub(crate) fn viridis(share: f64) -> RGBColor {
    let last = VIRIDIS.len() - 1;
    // NaN counts as zero.
    let share = if share > 0.0 { share.min(1.0) } else { 0.0 };
    let place = share * last as f64;
    let index = (place.floor() as usize).min(last - 1);
    let rest = (place - index as f64).clamp(0.0, 1.0);
    let (RGBColor(r0, g0, b0), RGBColor(r1, g1, b1)) = (VIRIDIS[index], VIRIDIS[index + 1]);
    let mix = |low: u8, high: u8| {
        let (low, high) = (f64::from(low), f64::from(high));
        (low + (high - low) * rest).round() as u8
    };
    RGBColor(mix(r0, r1), mix(g0, g1), mix(b0, b1))
}

/// Relative luminance as the Web Content Accessibility Guidelines define it, 0 to 1.
fn luminance(colour: RGBColor) -> f64 {
    let linear = |channel: u8| {
        let share = f64::from(channel) / 255.0;
        if share <= 0.040_45 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
    };
    let RGBColor(r, g, b) = colour;
    0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b)
}

/// Ink or paper, whichever reads better on the given background.
pub(crate) fn ink_on(background: RGBColor) -> RGBColor {
    let behind = luminance(background) + 0.05;
    let with_ink = behind / (luminance(INK) + 0.05);
    let with_paper = (luminance(PAPER) + 0.05) / behind;
    if with_ink > with_paper { INK } else { PAPER }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn viridis_grows_lighter() {
        let shades: Vec<f64> = (0..=40).map(|i| luminance(viridis(f64::from(i) / 40.0))).collect();
        assert!(shades.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn text_on_every_shade_has_enough_contrast() {
        for step in 0..=100 {
            let shade = viridis(f64::from(step) / 100.0);
            let (a, b) = (luminance(shade), luminance(ink_on(shade)));
            let contrast = (a.max(b) + 0.05) / (a.min(b) + 0.05);
            assert!(contrast > 3.9, "{contrast} at {step} %");
        }
    }

    #[test]
    fn odd_shares_have_a_colour() {
        assert_eq!(viridis(f64::NAN), VIRIDIS[0]);
        assert_eq!(viridis(7.0), VIRIDIS[10]);
    }
}
