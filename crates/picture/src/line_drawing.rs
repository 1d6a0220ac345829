//! Where are the parts of a line chart, and how are they drawn?

use plotters::style::text_anchor::{HPos, VPos};
use plotters::style::{Color, RGBColor};

use crate::axes::{Axes, no_data, room_below, room_left};
use crate::chart::{COMPACT, title_size};
use crate::geometry::{Frame, Spot};
use crate::heading::Heading;
use crate::legend::{Legend, Place};
use crate::line::{Axis, LineChart, LineStyle, Point, Rule, RuleAxis, Series};
use crate::marks::{line, mark};
use crate::palette::{FAINT_INK, PAPER, series};
use crate::place::Placer;
use crate::ruler::{Room, Ruler};
use crate::sheet::{Drawn, Lettering, Sheet, stroke};
use crate::text;

/// Width in pixels of a swatch in the legend.
const SWATCH: f64 = 32.0;
/// Size in pixels of notes and of labels of rules.
const NOTE: f64 = 11.5;
const MOST_NOTES: usize = 150;
/// Room in pixels right of the plot that notes of its last points may use.
const NOTE_MARGIN: f64 = 42.0;

/// The places of all parts of one chart.
pub(crate) struct Layout<'a> {
    chart: &'a LineChart,
    at: Spot,
    heading: Heading,
    legend: Legend,
    place: Place,
    plot: Frame,
    x: Ruler,
    y: Ruler,
}

/// Between the points of two series at one value, in pixels; less if all of them would take more than this share of the
/// way to the next value.
const SHIFT: f64 = 5.0;
const MOST_SPREAD: f64 = 0.3;

/// The room beside the lowest and the highest value for that, as a share of the axis.
const SIDE: f64 = 0.04;

/// The ruler of an axis that shows all the values, unless the axis has a range of its own.
fn ruler(axis: &Axis, values: impl Iterator<Item = f64>, room: Room) -> Ruler {
    let range = axis.range.filter(|(low, high)| {
        let finite = low.is_finite() && high.is_finite();
        finite && low < high && (!axis.logarithmic || *low > 0.0)
    });
    match (range, &axis.ticks) {
        (Some((low, high)), None) => Ruler::exact(low, high, axis.logarithmic, room),
        (Some((low, high)), Some(ticks)) => Ruler::exact(low, high, axis.logarithmic, room).marked(ticks, room),
        (None, None) => Ruler::around(values, axis.logarithmic, true, room),
        (None, Some(ticks)) => {
            let values: Vec<f64> = values.chain(ticks.iter().copied()).collect();
            let beside = room_beside(&values, axis.logarithmic);
            Ruler::around(values.into_iter().chain(beside), axis.logarithmic, false, room).marked(ticks, room)
        }
    }
}

/// Values a little beyond the lowest and the highest of these, so that there is room for what stands beside them.
fn room_beside(values: &[f64], logarithmic: bool) -> [f64; 2] {
    let shown = values.iter().copied().filter(|value| value.is_finite() && (!logarithmic || *value > 0.0));
    let (low, high) = shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), x| (low.min(x), high.max(x)));
    match logarithmic {
        true => [low / (high / low).powf(SIDE), high * (high / low).powf(SIDE)],
        false => [low - (high - low) * SIDE, high + (high - low) * SIDE],
    }
}

impl<'a> Layout<'a> {
    pub(crate) fn new(chart: &'a LineChart, at: Spot, width: f64) -> Self {
        let subtitle = chart.subtitle.as_deref();
        let heading = Heading::new(&chart.title, subtitle, title_size(width), width);
        let height = if width < COMPACT { 280.0 } else { 400.0 };
        let legend = legend(chart);
        let place = legend.place(width, height);
        let y = ruler(&chart.y, y_values(chart), Room::Along(height));
        let left = room_left(&y, &chart.y.label);
        let beside = match place {
            Place::Beside => legend.room_beside(),
            Place::Below => 0.0,
        };
        let room = width - left - beside - 8.0;
        let x = ruler(&chart.x, x_values(chart), Room::Across(room));
        let margin = x.overhang(room).min(60.0).max(note_margin(chart));
        let wide = (room - margin).floor();
        let plot = Frame::new(at.0 + left, at.1 + heading.height(), wide, height);
        Self { chart, at, heading, legend, place, plot, x, y }
    }

    fn foot(&self) -> f64 {
        self.plot.bottom() + room_below(&self.chart.x.label)
    }

    pub(crate) fn height(&self) -> f64 {
        let legend = match self.place {
            Place::Beside => 0.0,
            Place::Below => 8.0 + self.legend.room_below(self.plot.width),
        };
        self.foot() + legend - self.at.1
    }

    pub(crate) fn draw(&self, sheet: &Sheet<'_>) -> Drawn {
        self.heading.draw(sheet, self.at)?;
        Axes {
            plot: self.plot,
            x: &self.x,
            y: &self.y,
            x_label: &self.chart.x.label,
            y_label: &self.chart.y.label,
            x_grid: true,
            y_grid: true,
            extra_below: 0.0,
        }
        .draw(sheet)?;
        let Frame { left, top, width, height } = self.plot;
        let wide = width + (note_margin(self.chart) - 2.0).max(0.0);
        let mut placer = Placer::new(Frame::new(left, top, wide, height));
        let rules = self.draw_rules(sheet)?;
        for (index, lines) in self.chart.series.iter().enumerate() {
            self.draw_spreads(sheet, (index, lines), &mut placer)?;
        }
        // Dashed and dotted lines are drawn last, because they hide nothing.
        for style in [LineStyle::Solid, LineStyle::Dashed, LineStyle::Dotted] {
            let lines = self.chart.series.iter().enumerate().filter(|(_, lines)| lines.line == style);
            lines.into_iter().try_for_each(|(index, lines)| self.draw_line(sheet, (index, lines), &mut placer))?;
        }
        for (index, lines) in self.chart.series.iter().enumerate() {
            self.draw_marks(sheet, (index, lines), &mut placer)?;
        }
        self.draw_rule_labels(sheet, &rules, &mut placer)?;
        self.draw_notes(sheet, &mut placer)?;
        self.draw_legend(sheet)?;
        if self.chart.series.iter().all(|series| self.shown((0, series)).is_empty()) {
            no_data(sheet, self.plot)?;
        }
        Ok(())
    }

    fn spot(&self, x: f64, y: f64) -> Spot {
        let plot = self.plot;
        (self.x.pixel(x, plot.left, plot.right()), self.y.pixel(y, plot.bottom(), plot.top))
    }

    /// The points of a series that have a place, each with its place.
    fn shown<'s>(&self, (index, series): (usize, &'s Series)) -> Vec<(Spot, &'s Point)> {
        let shift = self.shift(index);
        let place = |point: &Point| {
            let (x, y) = self.spot(point.x, point.y);
            (x + shift, y)
        };
        let points = series.points.iter();
        points
            .filter(|point| self.x.shows(point.x) && self.y.shows(point.y))
            .map(|point| (place(point), point))
            .collect()
    }

    /// How far a series stands to the right of its values, in pixels. Where an axis has ticks at the values only, the
    /// series stand a little beside each other, so that none hides another, and none seems to be of another value.
    fn shift(&self, index: usize) -> f64 {
        let (Some(ticks), count) = (&self.chart.x.ticks, self.chart.series.len()) else { return 0.0 };
        let place = |value: &f64| self.x.pixel(*value, self.plot.left, self.plot.right());
        let mut places: Vec<f64> = ticks.iter().filter(|value| self.x.shows(**value)).map(place).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let nearest = places.windows(2).map(|pair| pair[1] - pair[0]).fold(f64::INFINITY, f64::min);
        let step = (MOST_SPREAD * nearest / count as f64).min(SHIFT);
        (index as f64 - (count as f64 - 1.0) / 2.0) * step
    }

    fn draw_line(&self, sheet: &Sheet<'_>, (index, lines): (usize, &Series), placer: &mut Placer) -> Drawn {
        let colour = series(slot(index, lines));
        let spots: Vec<Spot> = self.shown((index, lines)).iter().map(|(spot, _)| *spot).collect();
        let path = if lines.step {
            let end = step_end(self.chart, lines);
            let end = end.map(|x| self.x.pixel(x, self.plot.left, self.plot.right()));
            stepped(&spots, end)
        } else {
            spots
        };
        for run in self.plot.clip_path(&path) {
            line(sheet, &run, lines.line, colour)?;
            placer.avoid_path(&run);
        }
        Ok(())
    }

    fn draw_marks(&self, sheet: &Sheet<'_>, (index, lines): (usize, &Series), placer: &mut Placer) -> Drawn {
        let slot = slot(index, lines);
        let spots: Vec<Spot> = self.shown((index, lines)).iter().map(|(spot, _)| *spot).collect();
        let edge = self.plot.grown(0.5);
        for &spot in spots.iter().filter(|spot| edge.holds(**spot)) {
            if lines.marks || spots.len() == 1 {
                mark(sheet, slot, spot, series(slot))?;
                placer.avoid_point(spot);
            }
        }
        Ok(())
    }

    fn draw_spreads(&self, sheet: &Sheet<'_>, (index, lines): (usize, &Series), placer: &mut Placer) -> Drawn {
        let style = stroke(series(slot(index, lines)).mix(0.75), 1.3);
        for ((x, _), point) in self.shown((index, lines)) {
            let Some((low, high)) = point.spread else {
                continue;
            };
            if !self.y.shows(high) || !low.is_finite() {
                continue;
            }
            let (top, foot) = (self.plot.top, self.plot.bottom());
            // A low end that a logarithmic axis cannot show lies below the plot.
            let lowest = if self.y.shows(low) { self.y.pixel(low, foot, top) } else { foot + 1.0 };
            let bar = [(x, lowest), (x, self.y.pixel(high, foot, top))];
            if let Some((from, to)) = self.plot.clip(bar[0], bar[1]) {
                sheet.line(&[from, to], style)?;
                placer.avoid_spread([from, to]);
            }
            for (x, y) in bar.into_iter().filter(|end| self.plot.holds(*end)) {
                sheet.line(&[(x - 3.5, y), (x + 3.5, y)], style)?;
            }
        }
        Ok(())
    }

    /// Draws the rules within the plot, and returns them with their lines.
    fn draw_rules(&self, sheet: &Sheet<'_>) -> Result<Vec<(&'a Rule, [Spot; 2])>, crate::PictureError> {
        let plot = self.plot;
        let mut drawn = Vec::new();
        for rule in &self.chart.rules {
            let ruler = match rule.axis {
                RuleAxis::X => &self.x,
                RuleAxis::Y => &self.y,
            };
            let share = ruler.share(rule.at);
            if !ruler.shows(rule.at) || !(-1e-9..=1.0 + 1e-9).contains(&share) {
                continue;
            }
            let ends = match rule.axis {
                RuleAxis::X => {
                    let x = ruler.pixel(rule.at, plot.left, plot.right());
                    [(x, plot.bottom()), (x, plot.top)]
                }
                RuleAxis::Y => {
                    let y = ruler.pixel(rule.at, plot.bottom(), plot.top);
                    [(plot.left, y), (plot.right(), y)]
                }
            };
            sheet.dashed(&ends, stroke(FAINT_INK.to_rgba(), 1.3), (6.0, 4.0))?;
            drawn.push((rule, ends));
        }
        Ok(drawn)
    }

    fn draw_rule_labels(&self, sheet: &Sheet<'_>, rules: &[(&Rule, [Spot; 2])], placer: &mut Placer) -> Drawn {
        for (_, ends) in rules {
            placer.avoid_path(ends);
        }
        let plot = self.plot;
        for (rule, [(x, y), _]) in rules {
            let words = text::ellipsize(&rule.label, NOTE, false, plot.width * 0.6);
            let (wide, high) = note_size(&words);
            let places: Vec<Frame> = (0..16)
                .flat_map(|step| match rule.axis {
                    RuleAxis::X => {
                        let top = plot.top + 4.0 + f64::from(step) * (plot.height - high) / 16.0;
                        [x + 4.0, x - 4.0 - wide].map(|left| Frame::new(left, top, wide, high))
                    }
                    RuleAxis::Y => {
                        let right = plot.right() - 4.0 - f64::from(step) * plot.width / 16.0;
                        [y - high - 2.0, y + 2.0].map(|top| Frame::new(right - wide, top, wide, high))
                    }
                })
                .collect();
            if words.is_empty() {
                continue;
            }
            if let Some(frame) = placer.one_of(places.into_iter()) {
                note(sheet, frame, &words, FAINT_INK)?;
            }
        }
        Ok(())
    }

    fn draw_notes(&self, sheet: &Sheet<'_>, placer: &mut Placer) -> Drawn {
        let edge = self.plot.grown(0.5);
        // In the colour of its line, so that it is seen which one it belongs to.
        let noted: Vec<(Spot, String, RGBColor)> = self
            .chart
            .series
            .iter()
            .enumerate()
            .flat_map(|(index, lines)| {
                let colour = series(slot(index, lines));
                self.shown((index, lines)).into_iter().map(move |(spot, point)| (spot, point, colour))
            })
            .filter(|(spot, ..)| edge.holds(*spot))
            .filter_map(|(spot, point, colour)| Some((spot, point.note.as_ref()?, colour)))
            .map(|(spot, words, colour)| (spot, text::ellipsize(words, NOTE, false, 200.0), colour))
            .filter(|(_, words, _)| !words.is_empty())
            .take(MOST_NOTES)
            .collect();
        for (spot, words, colour) in noted {
            let Some((frame, leader)) = placer.beside(spot, note_size(&words)) else {
                continue;
            };
            if let Some(leader) = leader {
                sheet.line(&leader, stroke(FAINT_INK.mix(0.8), 0.8))?;
            }
            note(sheet, frame, &words, colour)?;
        }
        Ok(())
    }

    fn draw_legend(&self, sheet: &Sheet<'_>) -> Drawn {
        let plot = self.plot;
        let spots = match self.place {
            Place::Beside => self.legend.spots_beside((self.at.0 + plot_end(self), plot.top)),
            Place::Below => self.legend.spots_below((plot.left, self.foot() + 8.0), plot.width),
        };
        draw_legend(sheet, self.chart, &self.legend, &spots)
    }
}

/// Draws the names of the series with a stroke of each at these spots.
pub(crate) fn draw_legend(sheet: &Sheet<'_>, chart: &LineChart, legend: &Legend, spots: &[Spot]) -> Drawn {
    legend.draw(sheet, spots, |index, (x, y)| {
        let lines = &chart.series[index];
        let slot = slot(index, lines);
        let colour = series(slot);
        line(sheet, &[(x, y), (x + SWATCH, y)], lines.line, colour)?;
        if lines.marks {
            mark(sheet, slot, (x + SWATCH / 2.0, y), colour)?;
        }
        Ok(())
    })
}

/// Which colour and mark the series at this place of the chart takes.
fn slot(index: usize, series: &Series) -> usize {
    series.slot.unwrap_or(index)
}

/// Where the legend beside the plot starts, from the left side of the picture.
fn plot_end(layout: &Layout<'_>) -> f64 {
    let overhang = layout.x.overhang(layout.plot.width).min(60.0);
    let margin = (overhang - 12.0).max(note_margin(layout.chart) - 12.0);
    layout.plot.right() - layout.at.0 + margin.max(0.0)
}

/// Room in pixels right of the plot for notes: none when there are no notes.
fn note_margin(chart: &LineChart) -> f64 {
    let mut points = chart.series.iter().flat_map(|series| &series.points);
    if points.any(|point| point.note.is_some()) { NOTE_MARGIN } else { 0.0 }
}

/// The legend of a chart: none when nothing has a name.
pub(crate) fn legend(chart: &LineChart) -> Legend {
    let named = chart.series.iter().any(|series| !series.name.is_empty());
    let empty = |series: &Series| series.points.iter().all(|point| !shows(chart, point));
    let mixed = !chart.series.iter().all(empty);
    // A series that is only dots may be empty.
    let missing = |series: &Series| empty(series) && mixed && series.line != LineStyle::None;
    let names: Vec<String> = chart
        .series
        .iter()
        .filter(|_| named)
        .map(|series| match missing(series) {
            true => format!("{} (no data)", series.name),
            false => series.name.clone(),
        })
        .collect();
    Legend::new(names.iter().map(String::as_str), SWATCH)
}

/// Where the step of the last point ends: it is as long as the one before it.
fn step_end(chart: &LineChart, series: &Series) -> Option<f64> {
    let points = series.points.iter().rev();
    let mut shown = points.filter(|point| shows(chart, point)).map(|p| p.x);
    let (last, before) = (shown.next()?, shown.next()?);
    let end = last + (last - before);
    (series.step && end > last && end.is_finite()).then_some(end)
}

/// The step line, which keeps each value until the next point.
fn stepped(spots: &[Spot], end: Option<f64>) -> Vec<Spot> {
    let mut path: Vec<Spot> = Vec::with_capacity(spots.len() * 2);
    for &(x, y) in spots {
        if let Some(&(_, before)) = path.last() {
            path.push((x, before));
        }
        path.push((x, y));
    }
    if let (Some(end), Some(&(_, y))) = (end, path.last()) {
        path.push((end, y));
    }
    path
}

fn note_size(words: &str) -> (f64, f64) {
    (text::width(words, NOTE, false) + 4.0, NOTE * 1.25)
}

/// Text in a frame, on a translucent white background that keeps it legible over lines.
fn note(sheet: &Sheet<'_>, frame: Frame, words: &str, colour: RGBColor) -> Drawn {
    sheet.fill(frame, PAPER.mix(0.75))?;
    let lettering = Lettering::new(NOTE).colour(colour);
    let middle = lettering.at(HPos::Center, VPos::Center);
    sheet.text(frame.center(), words, middle)
}

fn x_values(chart: &LineChart) -> impl Iterator<Item = f64> {
    let rules = chart.rules.iter().filter(|rule| rule.axis == RuleAxis::X);
    let points = chart.series.iter().flat_map(|series| &series.points);
    points
        .filter(|point| shows(chart, point))
        .map(|point| point.x)
        .chain(chart.series.iter().filter_map(|s| step_end(chart, s)))
        .chain(rules.map(|rule| rule.at))
}

fn y_values(chart: &LineChart) -> impl Iterator<Item = f64> {
    let rules = chart.rules.iter().filter(|rule| rule.axis == RuleAxis::Y);
    let points = chart.series.iter().flat_map(|series| &series.points);
    points
        .filter(|point| shows(chart, point))
        .flat_map(|point| {
            let (low, high) = point.spread.unwrap_or((point.y, point.y));
            [point.y, low, high]
        })
        .chain(rules.map(|rule| rule.at))
}

/// Whether both coordinates of a point have a place on their axes.
fn shows(chart: &LineChart, point: &Point) -> bool {
    let shown = |value: f64, axis: &Axis| value.is_finite() && (!axis.logarithmic || value > 0.0);
    shown(point.x, &chart.x) && shown(point.y, &chart.y)
}
