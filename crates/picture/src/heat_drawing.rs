//! Where are the parts of a heat map, and how are they drawn?

use plotters::style::text_anchor::{HPos, VPos};
use plotters::style::{Color, RGBColor};

use crate::axes::{Axes, LABEL_SIZE, room_below, room_left};
use crate::geometry::{Frame, Spot};
use crate::heading::Heading;
use crate::heat::{CELL_TEXT, Hatch, HeatMap};
use crate::legend::Legend;
use crate::names::Names;
use crate::palette::{AXIS, FAINT_INK, INK, PAPER, VOID, ink_on, viridis};
use crate::ruler::{Room, Ruler, TICK_SIZE};
use crate::sheet::{Drawn, Lettering, Sheet, stroke};
use crate::text::{ellipsize, width};

/// Distance in pixels from the cells to the colour bar.
const BAR_GAP: f64 = 24.0;
const BAR_WIDTH: f64 = 16.0;
const BAR_LEAST_HEIGHT: f64 = 170.0;
/// Between the bar and its numbers.
const BAR_TICK_GAP: f64 = 7.0;
/// For the label of the bar and the gap before it.
const BAR_LABEL_ROOM: f64 = LABEL_SIZE + 9.0;
/// Between cells.
const SEAM: f64 = 1.0;
const SWATCH: (f64, f64) = (28.0, 15.0);
const LONGEST_ROW_NAME: f64 = 280.0;

/// The places of all parts of one heat map.
pub(crate) struct Layout<'a> {
    map: &'a HeatMap,
    at: Spot,
    heading: Heading,
    plot: Frame,
    cell: (f64, f64),
    columns: Names,
    rows: Ruler,
    bar: Frame,
    ruler: Ruler,
    legend: Option<(Legend, Vec<Hatch>)>,
    legend_room: (f64, f64),
}

fn cell_height(rows: usize) -> f64 {
    (380.0 / rows.max(1) as f64).floor().clamp(30.0, 46.0)
}

fn row_ruler(map: &HeatMap, length: f64) -> Ruler {
    let names: Vec<String> =
        map.y_ticks.iter().map(|name| ellipsize(name, TICK_SIZE, false, LONGEST_ROW_NAME)).collect();
    Ruler::named(&names, Room::Along(length))
}

/// Room in pixels right of the cells.
fn bar_room(ruler: &Ruler) -> f64 {
    (BAR_GAP + BAR_WIDTH + BAR_TICK_GAP + ruler.widest() + BAR_LABEL_ROOM).ceil()
}

impl<'a> Layout<'a> {
    /// The width at which texts of cells and names of columns fit.
    pub(crate) fn natural_width(map: &HeatMap) -> f64 {
        let names = map.x_ticks.iter().map(|name| width(name, TICK_SIZE, false));
        let names = names.fold(0.0, f64::max) + 12.0;
        let columns = map.x_ticks.len().max(1) as f64;
        let (least, most) = if columns <= 12.0 { (58.0, 86.0) } else { (46.0, 60.0) };
        // Longer names are broken or turned, which needs no wider cells.
        let names = if names > most { least } else { names };
        let text = map.widest_text().min(100.0) + 20.0;
        let cell = names.max(text).max(least).ceil();
        let height = cell_height(map.y_ticks.len()) * map.y_ticks.len() as f64;
        let rows = row_ruler(map, height);
        let ruler = map.ruler(height.max(BAR_LEAST_HEIGHT));
        let sides = room_left(&rows, &map.y_label) + bar_room(&ruler);
        (cell * columns + sides).max(420.0)
    }

    pub(crate) fn new(map: &'a HeatMap, at: Spot, total: f64) -> Self {
        let heading = map.heading(total);
        let count = (map.x_ticks.len().max(1), map.y_ticks.len().max(1));
        let high = cell_height(count.1);
        let height = high * count.1 as f64;
        let rows = row_ruler(map, height);
        let ruler = map.ruler(height.max(BAR_LEAST_HEIGHT));
        let left = room_left(&rows, &map.y_label);
        let wide = (total - left - bar_room(&ruler)) / count.0 as f64;
        let wide = wide.floor().clamp(16.0, 120.0);
        let plot = Frame::new(at.0 + left, at.1 + heading.height(), wide * count.0 as f64, height);
        let columns = Names::new(&map.x_ticks, plot.width, usize::MAX);
        let bar = Frame::new(plot.right() + BAR_GAP, plot.top, BAR_WIDTH, height.max(BAR_LEAST_HEIGHT));
        let legend = legend(map);
        let room = total - left;
        let below = legend.as_ref().map_or(0.0, |(l, _)| l.room_below(room));
        Self {
            map,
            at,
            heading,
            plot,
            cell: (wide, high),
            columns,
            rows,
            bar,
            ruler,
            legend,
            legend_room: (room, below),
        }
    }

    /// Where the legend starts.
    fn foot(&self) -> f64 {
        let axis = room_below(&self.map.x_label) + self.columns.extra_below();
        let foot = (self.plot.bottom() + axis).max(self.bar.bottom() + 8.0);
        if self.legend.is_some() { foot + 8.0 } else { foot }
    }

    pub(crate) fn height(&self) -> f64 {
        self.foot() + self.legend_room.1 - self.at.1
    }

    pub(crate) fn draw(&self, sheet: &Sheet<'_>) -> Drawn {
        self.heading.draw(sheet, self.at)?;
        Axes {
            plot: self.plot,
            x: &self.columns.ruler,
            y: &self.rows,
            x_label: &self.map.x_label,
            y_label: &self.map.y_label,
            x_grid: false,
            y_grid: false,
            extra_below: self.columns.extra_below(),
        }
        .draw(sheet)?;
        self.columns.draw_long(sheet, self.plot)?;
        for row in 0..self.map.y_ticks.len() {
            for column in 0..self.map.x_ticks.len() {
                self.draw_cell(sheet, row, column)?;
            }
        }
        self.draw_bar(sheet)?;
        self.draw_legend(sheet)
    }

    fn colour(&self, value: f64) -> RGBColor {
        if !self.ruler.shows(value) {
            return VOID;
        }
        let share = self.ruler.share(value).clamp(0.0, 1.0);
        viridis(if self.map.scale.reversed { 1.0 - share } else { share })
    }

    fn draw_cell(&self, sheet: &Sheet<'_>, row: usize, column: usize) -> Drawn {
        let (wide, high) = self.cell;
        let frame =
            Frame::new(self.plot.left + column as f64 * wide, self.plot.bottom() - (row + 1) as f64 * high, wide, high)
                .grown(-SEAM / 2.0);
        let Some(cell) = self.map.cell(row, column) else {
            sheet.fill(frame, VOID.to_rgba())?;
            let dash = Lettering::new(CELL_TEXT).colour(FAINT_INK);
            return sheet.text(frame.center(), "–", dash.at(HPos::Center, VPos::Center));
        };
        let colour = self.colour(cell.value);
        let ink = ink_on(colour);
        sheet.fill(frame, colour.to_rgba())?;
        hatch(sheet, frame, cell.hatch, ink)?;
        let size = self.text_size();
        let words = ellipsize(&cell.text, size, false, wide - 4.0);
        if cell.hatch != Hatch::None && !words.is_empty() {
            let (x, y) = frame.center();
            let half = (width(&words, size, false) / 2.0 + 4.0).min(frame.width / 2.0);
            let behind = Frame::new(x - half, y - size * 0.7, 2.0 * half, size * 1.4);
            sheet.fill(behind, colour.to_rgba())?;
        }
        let lettering = Lettering::new(size).colour(ink);
        sheet.text(frame.center(), &words, lettering.at(HPos::Center, VPos::Center))
    }

    /// Size of the text in all cells: smaller when the widest one would not fit.
    fn text_size(&self) -> f64 {
        let share = (self.cell.0 - 6.0) / self.map.widest_text().max(1.0);
        // Quarters of a pixel keep the SVG short.
        ((CELL_TEXT * share.min(1.0)).max(8.0) * 4.0).floor() / 4.0
    }

    fn draw_bar(&self, sheet: &Sheet<'_>) -> Drawn {
        let bar = self.bar;
        let slices = 80;
        for slice in 0..slices {
            // Every slice reaches down to the bottom, so that no gaps show between them.
            let share = f64::from(slice) / f64::from(slices);
            let middle = 1.0 - share - 0.5 / f64::from(slices);
            let reversed = self.map.scale.reversed;
            let shade = viridis(if reversed { 1.0 - middle } else { middle });
            let top = bar.top + share * bar.height;
            let frame = Frame::new(bar.left, top, bar.width, bar.bottom() - top);
            sheet.fill(frame, shade.to_rgba())?;
        }
        let lettering = Lettering::new(TICK_SIZE).at(HPos::Left, VPos::Center);
        for tick in self.ruler.ticks() {
            let y = self.ruler.pixel(tick.value, bar.bottom(), bar.top);
            let right = bar.right();
            let mark = [(right, y), (right + 4.0, y)];
            sheet.line(&mark, stroke(AXIS.to_rgba(), 1.0))?;
            sheet.text((right + BAR_TICK_GAP, y), &tick.label, lettering)?;
        }
        let label = ellipsize(&self.map.scale.label, LABEL_SIZE, false, bar.height + 30.0);
        let x = bar.right() + BAR_TICK_GAP + self.ruler.widest() + BAR_LABEL_ROOM;
        let turned = Lettering::new(LABEL_SIZE).turned();
        let at = (x - 4.0, bar.center().1);
        sheet.text(at, &label, turned.at(HPos::Center, VPos::Bottom))
    }

    fn draw_legend(&self, sheet: &Sheet<'_>) -> Drawn {
        let Some((legend, kinds)) = &self.legend else {
            return Ok(());
        };
        let spots = legend.spots_below((self.plot.left, self.foot()), self.legend_room.0);
        legend.draw(sheet, &spots, |index, spot| {
            let frame = Frame::new(spot.0, spot.1 - SWATCH.1 / 2.0, SWATCH.0, SWATCH.1);
            sheet.fill(frame, PAPER.to_rgba())?;
            hatch(sheet, frame, kinds[index], INK)?;
            sheet.outline(frame, AXIS.to_rgba(), 1.0)
        })
    }
}

fn legend(map: &HeatMap) -> Option<(Legend, Vec<Hatch>)> {
    let words = map.hatch_legend.as_ref()?;
    let both = [(&words.light, Hatch::Light), (&words.dense, Hatch::Dense)];
    let used: Vec<_> = both.into_iter().filter(|(w, _)| !w.is_empty()).collect();
    let names = used.iter().map(|(words, _)| words.as_str());
    let legend = Legend::new(names, SWATCH.0);
    let kinds: Vec<Hatch> = used.iter().map(|(_, kind)| *kind).collect();
    (!kinds.is_empty()).then_some((legend, kinds))
}

/// Draws slanted lines over a frame.
fn hatch(sheet: &Sheet<'_>, frame: Frame, kind: Hatch, ink: RGBColor) -> Drawn {
    let (pitch, both) = match kind {
        Hatch::None => return Ok(()),
        Hatch::Light => (11.0, false),
        Hatch::Dense => (8.0, true),
    };
    let style = stroke(ink.mix(0.5), 0.9);
    let (left, top, bottom) = (frame.left, frame.top, frame.bottom());
    let mut offset = pitch / 2.0;
    while offset < frame.width + frame.height {
        // Rises to the right; the second one is its mirror image.
        let rising = ((left + offset, top), (left + offset - frame.height, bottom));
        let falling = ((left + offset, bottom), (left + offset - frame.height, top));
        let lines = [Some(rising), both.then_some(falling)];
        for (from, to) in lines.into_iter().flatten() {
            if let Some((from, to)) = frame.clip(from, to) {
                sheet.line(&[from, to], style)?;
            }
        }
        offset += pitch;
    }
    Ok(())
}
