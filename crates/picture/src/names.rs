//! How is an axis of names labelled: side by side, thinned out, in several lines, or turned?

use plotters::style::text_anchor::{HPos, VPos};

use crate::geometry::Frame;
use crate::ruler::{Room, Ruler, TICK_SIZE};
use crate::sheet::{Drawn, Lettering, Sheet};
use crate::text::{ellipsize_middle, width, wrap};

/// Longest turned name in pixels.
const LONGEST: f64 = 170.0;
/// Most lines of a broken name, and their distance in pixels.
const LINES: usize = 3;
const PITCH: f64 = 15.0;
/// Distance in pixels from the axis to the names.
const GAP: f64 = 8.0;

/// A horizontal axis of names.
pub(crate) struct Names {
    /// The places of the names, and those names that stand side by side.
    pub(crate) ruler: Ruler,
    long: Long,
}

/// Names that do not fit side by side.
enum Long {
    None,
    Broken(Vec<Vec<String>>),
    Turned(Vec<Vec<String>>),
}

impl Names {
    /// Names for an axis of `length` pixels. If they do not fit side by side, at most `most` names are broken into
    /// lines or turned; more are thinned out.
    pub(crate) fn new(names: &[String], length: f64, most: usize) -> Self {
        let room = Room::Across(length);
        let ruler = Ruler::named(names, room);
        if ruler.ticks().len() == names.len() || names.len() > most {
            let long = Long::None;
            return Self { ruler, long };
        }
        // Ticks without names.
        let ruler = Ruler::named(&vec![String::new(); names.len()], room);
        let slot = length / names.len() as f64 - 8.0;
        let broken: Vec<Vec<String>> = names.iter().map(|name| wrap(name, TICK_SIZE, false, slot, LINES)).collect();
        if !broken.iter().flatten().any(|line| line.ends_with('…')) {
            let long = Long::Broken(broken);
            return Self { ruler, long };
        }
        let long = Long::Turned(turned(names, slot));
        Self { ruler, long }
    }

    /// Room in pixels below the plot beyond one row of labels.
    pub(crate) fn extra_below(&self) -> f64 {
        match &self.long {
            Long::None => 0.0,
            Long::Broken(names) => {
                let lines = names.iter().map(Vec::len).max().unwrap_or(1);
                lines.saturating_sub(1) as f64 * PITCH
            }
            Long::Turned(names) => {
                let widths = names.iter().flatten().map(|line| width(line, TICK_SIZE, false));
                (widths.fold(0.0, f64::max) - TICK_SIZE).max(0.0).ceil()
            }
        }
    }

    /// Draws the names that are broken or turned; the others are drawn with the axes.
    pub(crate) fn draw_long(&self, sheet: &Sheet<'_>, plot: Frame) -> Drawn {
        let lettering = Lettering::new(TICK_SIZE);
        let x = |index: usize| {
            let place = index as f64 + 0.5;
            self.ruler.pixel(place, plot.left, plot.right())
        };
        let top = plot.bottom() + GAP;
        match &self.long {
            Long::None => {}
            Long::Broken(names) => {
                let below = lettering.at(HPos::Center, VPos::Top);
                for (index, lines) in names.iter().enumerate() {
                    for (row, line) in lines.iter().enumerate() {
                        sheet.text((x(index), top + row as f64 * PITCH), line, below)?;
                    }
                }
            }
            Long::Turned(names) => {
                let turned = lettering.turned().at(HPos::Right, VPos::Center);
                for (index, lines) in names.iter().enumerate() {
                    let first = x(index) - (lines.len().saturating_sub(1)) as f64 * PITCH / 2.0;
                    for (row, line) in lines.iter().enumerate() {
                        sheet.text((first + row as f64 * PITCH, top), line, turned)?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Turned names, in as many lines as have room in `slot` pixels. Names that are still too long are cut at the end, or
/// in the middle if different names would look alike otherwise.
fn turned(names: &[String], slot: f64) -> Vec<Vec<String>> {
    let most = ((slot / PITCH) as usize).clamp(1, LINES);
    let mut broken: Vec<Vec<String>> = names.iter().map(|name| wrap(name, TICK_SIZE, false, LONGEST, most)).collect();
    for (index, name) in names.iter().enumerate() {
        let alike = |other: usize| names[other] != *name && broken[other] == broken[index];
        if (0..names.len()).any(alike) {
            let same: Vec<usize> = (0..names.len()).filter(|&other| broken[other] == broken[index]).collect();
            for other in same {
                broken[other] = vec![ellipsize_middle(&names[other], TICK_SIZE, false, LONGEST)];
            }
        }
    }
    broken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_differ_do_not_look_alike() {
        let names = ["manifest-chain", "append-log"].map(|end| format!("Azure Premium Block Storage, protocol {end}"));
        let [wide, narrow] = [60.0, 10.0].map(|slot| turned(&names, slot));
        for broken in [&wide, &narrow] {
            assert_ne!(broken[0], broken[1]);
            assert!(broken.iter().flatten().all(|line| width(line, TICK_SIZE, false) <= LONGEST));
        }
        assert_eq!(wide[0].join(" "), names[0]);
        assert_eq!(narrow.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1]);
    }
}
