//! The results of an experiment as a grid of cells over the axes with two values or more.

use std::collections::BTreeMap;

use glidepath_point::Config;

use super::offered;
use super::words::{self, LOAD, Size, phrase};
use crate::experiment::{ALTERNATIVE, Experiment, PlannedPoint};
use crate::summary::{GroupSummary, PointSummary, RunSummary};

/// One value of an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    /// As in the experiment's file.
    pub(crate) text: String,
    pub(crate) size: Size,
}

/// A setting that takes several values, in order: numbers by size, names as in the file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    pub(crate) key: String,
    pub(crate) values: Vec<Value>,
    /// The load of an experiment that has bursts: it is that outside them.
    pub(crate) outside_bursts: bool,
}

/// The kind of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    All,
    FastAppend,
    ValidatedOverwrite,
}

/// One point of an experiment, with its results.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell<'a, T = PointSummary> {
    /// Per axis of the view, the index of its value.
    pub(crate) place: Vec<usize>,
    pub(crate) config: &'a Config,
    pub(crate) summary: &'a T,
}

/// All points of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct View<'a, T = PointSummary> {
    /// Axes with two values or more: the load if it is swept, then the others by interest.
    pub(crate) axes: Vec<Axis>,
    pub(crate) seeds: usize,
    cells: BTreeMap<Vec<usize>, Cell<'a, T>>,
}

impl Who {
    /// In the plural, in the middle of a sentence.
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::All => "all transactions",
            Self::FastAppend => "fast appends",
            Self::ValidatedOverwrite => "validated overwrites",
        }
    }

    /// At the start of a sentence.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::All => "All transactions",
            Self::FastAppend => "Fast appends",
            Self::ValidatedOverwrite => "Validated overwrites",
        }
    }

    pub(crate) fn slug(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::FastAppend => "fast-append",
            Self::ValidatedOverwrite => "validated-overwrite",
        }
    }
}

impl<'a> Cell<'a> {
    pub(crate) fn of(&self, who: Who) -> Option<&'a GroupSummary> {
        match who {
            Who::All => Some(&self.summary.all),
            Who::FastAppend => self.summary.fast_append.as_ref(),
            Who::ValidatedOverwrite => self.summary.validated_overwrite.as_ref(),
        }
    }

    /// Commits of all kinds per second.
    pub(crate) fn throughput_per_s(&self) -> f64 {
        self.summary.all.throughput_per_s.mean
    }

    /// Mean arrivals per second over the run.
    pub(crate) fn offered_per_s(&self) -> f64 {
        offered::mean_per_s(&self.config.arrivals, self.config.duration)
    }
}

impl Axis {
    /// Whether its values are numbers, so that a line may connect them.
    pub(crate) fn is_numeric(&self) -> bool {
        self.values.iter().all(|value| value.size != Size::Name)
    }

    pub(crate) fn label(&self) -> String {
        let times = self.values.iter().all(|value| matches!(value.size, Size::Time(_)));
        let label = words::axis_label(&self.key, times);
        if self.outside_bursts { format!("{label}, outside bursts") } else { label }
    }

    /// Values as labels of the axis.
    pub(crate) fn ticks(&self) -> Vec<String> {
        let times = self.values.iter().all(|value| matches!(value.size, Size::Time(_)));
        let mixed = |value: &Value| !times && matches!(value.size, Size::Time(_));
        let tick = |value: &Value| match mixed(value) {
            true => value.text.clone(),
            false => words::tick(&self.key, &value.text),
        };
        self.values.iter().map(tick).collect()
    }

    /// The place of a value on a numeric axis, in the unit of the label.
    pub(crate) fn number(&self, index: usize) -> Option<f64> {
        let value = self.values.get(index)?;
        match value.size {
            Size::Time(seconds) => Some(seconds * 1e3),
            Size::Number(share) if self.key == words::FAST_APPEND => Some(share * 100.0),
            size => size.value(),
        }
    }

    /// The colours and marks of lines for its values: fixed for known providers.
    pub(crate) fn slot(&self, index: usize) -> usize {
        match self.values.get(index) {
            Some(value) if self.key == words::PROVIDER => words::provider_slot(&value.text, index),
            _ => index,
        }
    }

    pub(crate) fn phrase(&self, index: usize) -> String {
        self.values.get(index).map(|value| phrase(&self.key, &value.text)).unwrap_or_default()
    }

    /// The same if the name of the axis is nearby.
    pub(crate) fn brief(&self, index: usize) -> String {
        self.values.get(index).map(|value| words::brief(&self.key, &value.text)).unwrap_or_default()
    }
}

/// The rank of an axis: lines and rows use the most interesting one.
fn interest(key: &str) -> usize {
    let order =
        [ALTERNATIVE, words::PROVIDER, words::PROTOCOL, words::TABLES, words::CATALOG_LATENCY, words::FAST_APPEND];
    order.iter().position(|known| *known == key).unwrap_or(order.len())
}

/// Values by size if all are of the same kind, otherwise in their given order.
fn ordered(mut values: Vec<Value>) -> Vec<Value> {
    let first = values.first().map(|value| std::mem::discriminant(&value.size));
    let alike = values.iter().all(|value| Some(std::mem::discriminant(&value.size)) == first);
    if alike {
        let number = |value: &Value| value.size.value().unwrap_or(0.0);
        values.sort_by(|a, b| number(a).total_cmp(&number(b)));
    }
    values
}

/// The axes of an experiment with two values or more, in the order of a view.
fn axes(experiment: &Experiment) -> Vec<Axis> {
    let mut axes: Vec<Axis> = Vec::new();
    let bursts = experiment.points.iter().any(|planned| planned.point.config.arrivals.burst.is_some());
    for (key, text) in experiment.points.iter().flat_map(|point| &point.coordinates) {
        let value = Value { text: text.clone(), size: Size::of(text) };
        match axes.iter_mut().find(|axis| axis.key == *key) {
            Some(axis) if axis.values.contains(&value) => {}
            Some(axis) => axis.values.push(value),
            None => axes.push(Axis { key: key.clone(), values: vec![value], outside_bursts: bursts && key == LOAD }),
        }
    }
    axes.retain(|axis| axis.values.len() > 1);
    axes.sort_by_key(|axis| if axis.key == LOAD { 0 } else { 1 + interest(&axis.key) });
    for axis in &mut axes {
        axis.values = ordered(std::mem::take(&mut axis.values));
    }
    axes
}

impl<'a> View<'a> {
    /// The points of an experiment, each with its summary.
    pub(crate) fn new(experiment: &'a Experiment, summary: &'a RunSummary) -> Self {
        Self::of(experiment, &summary.points)
    }

    /// The kinds of transactions that some of the cells have.
    pub(crate) fn kinds<'c>(cells: impl Iterator<Item = &'c Cell<'a>> + Clone) -> Vec<Who>
    where
        'a: 'c,
    {
        let kinds = [Who::FastAppend, Who::ValidatedOverwrite];
        kinds.into_iter().filter(|who| cells.clone().any(|cell| cell.of(*who).is_some())).collect()
    }
}

impl<'a, T> View<'a, T> {
    /// The points of an experiment, each with its result, in order.
    pub(crate) fn of(experiment: &'a Experiment, results: &'a [T]) -> Self {
        let axes = axes(experiment);
        let place = |planned: &PlannedPoint| -> Vec<usize> {
            let index = |axis: &Axis| {
                let text = planned.coordinate(&axis.key)?;
                axis.values.iter().position(|value| value.text == text)
            };
            axes.iter().map(|axis| index(axis).unwrap_or(0)).collect()
        };
        let cells = experiment.points.iter().zip(results).map(|(planned, summary)| {
            let place = place(planned);
            (place.clone(), Cell { place, config: &planned.point.config, summary })
        });
        let cells = cells.collect();
        Self { axes, seeds: experiment.seeds.len(), cells }
    }

    /// All cells in the order of their places.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &Cell<'a, T>> + Clone {
        self.cells.values()
    }

    /// The number of an axis by its key, if it is swept.
    pub(crate) fn axis(&self, key: &str) -> Option<usize> {
        self.axes.iter().position(|axis| axis.key == key)
    }

    /// The number of the load's axis, if the load is swept.
    pub(crate) fn load(&self) -> Option<usize> {
        self.axis(LOAD)
    }

    /// All axes but the given ones, the most interesting first.
    pub(crate) fn axes_without(&self, without: &[usize]) -> Vec<usize> {
        (0..self.axes.len()).filter(|axis| !without.contains(axis)).collect()
    }

    /// The cell of a slice, with some axes set.
    pub(crate) fn cell(&self, slice: &Slice, set: &[(usize, usize)]) -> Option<&Cell<'a, T>> {
        let mut place = slice.place.clone();
        for &(axis, value) in set {
            *place.get_mut(axis)? = value;
        }
        self.cells.get(&place)
    }

    /// The cells of a slice along an axis, in its order; one cell where there is no axis.
    pub(crate) fn along(&self, slice: &Slice, axis: Option<usize>) -> Vec<&Cell<'a, T>> {
        match axis {
            None => self.cell(slice, &[]).into_iter().collect(),
            Some(axis) => {
                let values = 0..self.axes[axis].values.len();
                values.filter_map(|value| self.cell(slice, &[(axis, value)])).collect()
            }
        }
    }

    /// One slice per combination of the values of these axes.
    pub(crate) fn slices(&self, fixed: &[usize]) -> Vec<Slice> {
        self.chosen_slices(fixed, usize::MAX)
    }

    /// The same, but if possible at most `most` slices: of numeric axes only the first, the middle and the last value
    /// are taken, beginning with the least interesting axis; then only the middle one; then the same for axes of names.
    pub(crate) fn chosen_slices(&self, fixed: &[usize], most: usize) -> Vec<Slice> {
        let mut chosen: Vec<Vec<usize>> =
            fixed.iter().map(|&axis| (0..self.axes[axis].values.len()).collect()).collect();
        let product = |chosen: &[Vec<usize>]| chosen.iter().map(Vec::len).fold(1, usize::saturating_mul);
        for (numeric, left) in [(true, 3), (true, 1), (false, 3), (false, 1)] {
            for (index, &axis) in fixed.iter().enumerate().rev() {
                if product(&chosen) > most && self.axes[axis].is_numeric() == numeric {
                    chosen[index] = thinned(&chosen[index], left);
                }
            }
        }
        let mut slices = vec![Slice { place: vec![0; self.axes.len()], fixed: fixed.to_vec() }];
        for (&axis, values) in fixed.iter().zip(&chosen) {
            let with = |slice: &Slice, value: usize| {
                let mut slice = slice.clone();
                slice.place[axis] = value;
                slice
            };
            slices = slices.iter().flat_map(|slice| values.iter().map(move |&value| with(slice, value))).collect();
        }
        slices
    }
}

/// At most `left` of the values: the first, the middle and the last, or only the middle one.
fn thinned(values: &[usize], left: usize) -> Vec<usize> {
    let (Some(&first), Some(&last)) = (values.first(), values.last()) else { return Vec::new() };
    let middle = values[values.len() / 2];
    match values.len() {
        count if count <= left => values.to_vec(),
        _ if left >= 3 => vec![first, middle, last],
        _ => vec![middle],
    }
}

/// A slice of the grid: some axes are fixed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slice {
    place: Vec<usize>,
    fixed: Vec<usize>,
}

impl Slice {
    /// Its fixed values in words; empty if there are none.
    pub(crate) fn words<T>(&self, view: &View<'_, T>) -> String {
        let phrases = self.fixed.iter().map(|&axis| view.axes[axis].phrase(self.place[axis]));
        phrases.collect::<Vec<_>>().join(", ")
    }

    /// Its fixed values as a part of a file's name; empty if there are none.
    pub(crate) fn stem<T>(&self, view: &View<'_, T>) -> String {
        let part = |&axis: &usize| {
            let Axis { key, values, .. } = &view.axes[axis];
            format!("--{}-{}", words::slug(&key.replace('.', "-")), words::slug(&values[self.place[axis]].text))
        };
        self.fixed.iter().map(part).collect()
    }

    /// The same slice with one more fixed axis.
    pub(crate) fn with(&self, axis: usize, value: usize) -> Self {
        let mut slice = self.clone();
        slice.place[axis] = value;
        slice
    }

    /// The value it has on an axis.
    pub(crate) fn value(&self, axis: usize) -> usize {
        self.place[axis]
    }

    /// The fixed value of its most interesting axis, in words; empty if there is none.
    pub(crate) fn group<T>(&self, view: &View<'_, T>) -> String {
        self.fixed.iter().min().map(|&axis| view.axes[axis].phrase(self.place[axis])).unwrap_or_default()
    }
}
