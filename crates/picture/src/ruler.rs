//! Where on an axis does a value lie, and which ticks does the axis have?

use std::ops::Range;

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};

use crate::numbers::{decade_ticks, labels, linear_ticks, round_step};
use crate::text;

/// Values beyond this size are drawn at it: their distances overflow.
const FAR: f64 = 1e200;

/// Shares beyond this size are drawn at it: their pixels would not be finite.
const FAR_SHARE: f64 = 1e6;

/// Size in pixels of tick labels.
pub(crate) const TICK_SIZE: f64 = 12.0;

/// Pixels between labels at given values.
const MARKED_AIR: f64 = 6.0;

/// How long an axis is in pixels, and which way its labels stand next to each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Room {
    /// Labels stand side by side.
    Across(f64),
    /// Labels stand above each other.
    Along(f64),
}

/// A labelled place on an axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Tick {
    pub(crate) value: f64,
    pub(crate) label: String,
}

/// The scale of one axis, and its ticks.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ruler {
    low: f64,
    high: f64,
    logarithmic: bool,
    ticks: Vec<Tick>,
    minor: Vec<f64>,
}

impl Ruler {
    /// A ruler over exactly `low..=high`, or over a close range that can be drawn.
    pub(crate) fn exact(low: f64, high: f64, logarithmic: bool, room: Room) -> Self {
        let (low, high) = drawable(low, high, logarithmic);
        let mut ruler = Self { low, high, logarithmic, ticks: Vec::new(), minor: Vec::new() };
        ruler.choose_ticks(room);
        ruler
    }

    /// A ruler that shows all the values with a small margin; values that it cannot show (not finite, or not positive
    /// on a logarithmic ruler) are skipped.
    pub(crate) fn around(values: impl Iterator<Item = f64>, logarithmic: bool, from_zero: bool, room: Room) -> Self {
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in values.filter(|v| is_shown(*v, logarithmic)) {
            low = low.min(value);
            high = high.max(value);
        }
        if low > high {
            let empty = if logarithmic { (1.0, 10.0) } else { (0.0, 1.0) };
            return Self::exact(empty.0, empty.1, logarithmic, room);
        }
        let (low, high) = drawable(low, high, logarithmic);
        let (low, high) = if logarithmic {
            let air = (high / low).powf(0.04);
            (low / air, high * air)
        } else {
            aired(low, high, from_zero)
        };
        Self::exact(low, high, logarithmic, room)
    }

    /// A ruler of named places, the first centred at 0.5, the second at 1.5 and so on. Where names
    /// would touch, only the first and every n-th are shown: 1, 5, 10 rather than 1, 6, 11.
    pub(crate) fn named(names: &[String], room: Room) -> Self {
        let mut ruler = Self {
            low: 0.0,
            high: names.len().max(1) as f64,
            logarithmic: false,
            ticks: Vec::new(),
            minor: Vec::new(),
        };
        for every in thinnings(names.len()) {
            ruler.ticks = names
                .iter()
                .enumerate()
                .filter(|(index, _)| (index + 1).is_multiple_of(every) || (*index == 0 && every > 2))
                .map(|(index, name)| Tick { value: index as f64 + 0.5, label: name.clone() })
                .collect();
            if ruler.fits(room, 8.0) {
                return ruler;
            }
        }
        ruler.ticks.truncate(1);
        ruler
    }

    pub(crate) fn ticks(&self) -> &[Tick] {
        &self.ticks
    }

    /// Whether a value has a place on this kind of ruler.
    pub(crate) fn shows(&self, value: f64) -> bool {
        is_shown(value, self.logarithmic)
    }

    /// 0 at the low end, 1 at the high end; beyond these outside of the ruler.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            let value = value.clamp(1.0 / FAR, FAR);
            (value / self.low).ln() / (self.high / self.low).ln()
        } else {
            let value = value.clamp(-FAR, FAR);
            (value - self.low) / (self.high - self.low)
        };
        share.clamp(-FAR_SHARE, FAR_SHARE)
    }

    /// The pixel of a value on an axis that runs from pixel `start` to pixel `end`.
    pub(crate) fn pixel(&self, value: f64, start: f64, end: f64) -> f64 {
        start + (end - start) * self.share(value)
    }

    /// Width in pixels of the widest tick label.
    pub(crate) fn widest(&self) -> f64 {
        self.ticks.iter().map(|tick| text::width(&tick.label, TICK_SIZE, false)).fold(0.0, f64::max)
    }

    /// How far in pixels a label reaches beyond the high end of an axis of this length.
    pub(crate) fn overhang(&self, length: f64) -> f64 {
        self.ticks
            .iter()
            .map(|tick| {
                let half = text::width(&tick.label, TICK_SIZE, false) / 2.0;
                self.pixel(tick.value, 0.0, length) + half - length
            })
            .fold(0.0, f64::max)
    }

    /// Takes the densest ticks whose labels do not touch.
    fn choose_ticks(&mut self, room: Room) {
        let air = if self.logarithmic { 10.0 } else { 18.0 };
        for (values, step, minor) in self.choices() {
            let names = labels(&values, step);
            let pairs = values.into_iter().zip(names);
            self.ticks = pairs.map(|(value, label)| Tick { value, label }).collect();
            self.minor = minor;
            if self.fits(room, air) {
                return;
            }
        }
        self.ticks.truncate(1);
    }

    /// Has its ticks at these values, from the first one on, as far as their labels do not touch.
    pub(crate) fn marked(mut self, values: &[f64], room: Room) -> Self {
        let mut values: Vec<f64> = values
            .iter()
            .copied()
            .filter(|value| self.shows(*value) && (0.0..=1.0).contains(&self.share(*value)))
            .collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let names = labels(&values, None);
        self.ticks.clear();
        self.minor.clear();
        for (value, label) in values.into_iter().zip(names) {
            self.ticks.push(Tick { value, label });
            if !self.fits(room, MARKED_AIR) {
                self.ticks.pop();
            }
        }
        self
    }

    /// Ticks (with the step of linear ones, and minor ticks) from the densest to the sparsest.
    fn choices(&self) -> Vec<(Vec<f64>, Option<f64>, Vec<f64>)> {
        let (low, high) = (self.low, self.high);
        let linear = [10, 8, 6, 5, 4, 3, 2, 1].map(|count| {
            let (values, step) = linear_ticks(low, high, count);
            (values, Some(step), Vec::new())
        });
        let decades = (high / low).log10();
        if !self.logarithmic || decades < 0.8 {
            return linear.into();
        }
        let fine = decade_ticks(low, high, &[1, 2, 5], 1);
        let nines = decade_ticks(low, high, &[1, 2, 3, 4, 5, 6, 7, 8, 9], 1);
        let tens = decade_ticks(low, high, &[1], 1);
        let mut all = vec![(fine.clone(), None, nines.clone())];
        let thirds = decade_ticks(low, high, &[1, 3], 1);
        all.push((thirds, None, nines));
        if tens.len() < 2 {
            all.extend(linear);
            return all;
        }
        let faint = if decades < 12.0 { fine } else { Vec::new() };
        all.push((tens, None, faint));
        for every in [2, 3, 5, 10, 20, 50, 100, 200] {
            all.push((decade_ticks(low, high, &[1], every), None, Vec::new()));
        }
        all
    }

    fn fits(&self, room: Room, air: f64) -> bool {
        let (Room::Across(length) | Room::Along(length)) = room;
        let half = |tick: &Tick| match room {
            Room::Across(_) => text::width(&tick.label, TICK_SIZE, false) / 2.0 + air / 2.0,
            Room::Along(_) => TICK_SIZE * 0.9,
        };
        self.ticks.windows(2).all(|pair| {
            let apart = (self.share(pair[1].value) - self.share(pair[0].value)) * length;
            apart >= half(&pair[0]) + half(&pair[1])
        })
    }
}

/// Steps at which names may be left out, from none to almost all.
fn thinnings(count: usize) -> impl Iterator<Item = usize> {
    [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000]
        .into_iter()
        .filter(move |every| *every == 1 || every * 4 <= count)
        .filter(move |every| *every != 2 || count <= 30)
}

fn is_shown(value: f64, logarithmic: bool) -> bool {
    value.is_finite() && (!logarithmic || value > 0.0)
}

/// The closest range that can be drawn: of some width, and not so wide that it overflows.
fn drawable(low: f64, high: f64, logarithmic: bool) -> (f64, f64) {
    if logarithmic {
        let (low, high) = (low.clamp(1.0 / FAR, FAR), high.clamp(1.0 / FAR, FAR));
        if high / low > 1.0 + 1e-9 {
            return (low, high);
        }
        return (low / 2.0, low * 2.0);
    }
    let (low, high) = (low.clamp(-FAR, FAR), high.clamp(-FAR, FAR));
    let size = low.abs().max(high.abs()).max(1.0 / FAR);
    if high - low > size * 1e-9 {
        return (low, high);
    }
    if low == 0.0 && high == 0.0 {
        return (0.0, 1.0);
    }
    (low - size / 2.0, high + size / 2.0)
}

/// A range a little wider, which starts at zero when that wastes little room.
fn aired(low: f64, high: f64, from_zero: bool) -> (f64, f64) {
    let air = (high - low) * 0.04;
    if !from_zero {
        return (low - air, high + air);
    }
    let low = match low {
        low if low >= 0.0 && low < high * 0.6 => 0.0,
        low => low - air,
    };
    let step = round_step((high - low) / 5.0);
    let top = (high / step - 1e-9).ceil() * step;
    // Up to the next tick when it is near, so that the axis ends with a number.
    let high = if top - high < (high - low) * 0.1 { top } else { high + air };
    (low, high)
}

impl Ranged for Ruler {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let pixel = self.pixel(*value, f64::from(limit.0), f64::from(limit.1));
        // The cast saturates.
        pixel.round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            self.minor.clone()
        } else {
            self.ticks.iter().map(|tick| tick.value).collect()
        }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for Ruler {
    fn format_ext(&self, value: &f64) -> String {
        let tick = self.ticks.iter().find(|tick| tick.value == *value);
        tick.map(|tick| tick.label.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(ruler: &Ruler) -> Vec<&str> {
        ruler.ticks.iter().map(|t| t.label.as_str()).collect()
    }

    #[test]
    fn a_logarithmic_ruler_counts_one_two_five() {
        let ruler = Ruler::exact(1.0, 50.0, true, Room::Across(600.0));
        assert_eq!(names(&ruler), ["1", "2", "5", "10", "20", "50"]);
    }

    #[test]
    fn a_crowded_ruler_drops_labels() {
        let ruler = Ruler::exact(1.0, 1e5, true, Room::Across(200.0));
        assert_eq!(names(&ruler), ["1", "100", "10,000"]);
        let ruler = Ruler::exact(0.0, 1e5, false, Room::Across(200.0));
        assert!(ruler.ticks.len() <= 4);
    }

    #[test]
    fn ticks_at_given_values_drop_those_that_touch() {
        let ruler = |room| {
            Ruler::exact(0.5, 100.0, true, Room::Across(room)).marked(&[50.0, 1.0, 10.0, 11.0], Room::Across(room))
        };
        assert_eq!(names(&ruler(400.0)), ["1", "10", "50"]);
        assert_eq!(names(&ruler(4000.0)), ["1", "10", "11", "50"]);
    }

    #[test]
    fn degenerate_ranges_get_some_width() {
        for (low, high) in [(0.0, 0.0), (5.0, 5.0), (-3.0, -3.0), (1e300, 1e301)] {
            for logarithmic in [false, true] {
                let ruler = Ruler::exact(low, high, logarithmic, Room::Along(300.0));
                assert!(ruler.low < ruler.high && !ruler.ticks.is_empty());
                assert!(ruler.share(low).is_finite());
            }
        }
    }

    #[test]
    fn nearly_proportional_data_starts_at_zero() {
        let ruler = Ruler::around([20.0, 95.0].into_iter(), false, true, Room::Along(300.0));
        assert_eq!((ruler.low, ruler.high), (0.0, 100.0));
    }

    #[test]
    fn many_names_are_thinned_out() {
        let many: Vec<String> = (1..=50).map(|i| format!("t{i}")).collect();
        let ruler = Ruler::named(&many, Room::Across(500.0));
        assert_eq!(names(&ruler)[..4], ["t1", "t5", "t10", "t15"]);
    }
}
