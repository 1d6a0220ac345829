//! What does an experiment look like to a picture: a grid of cells over the axes that were really swept?

use std::collections::BTreeMap;

use super::words::{self, LOAD, Size, phrase};

/// Success that counts as sustained.
pub(crate) const SUSTAINED: f64 = 0.95;

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
}

/// Whose numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Who {
    All,
    FastAppend,
    ValidatedOverwrite,
}

/// Mean over seeds, and how far these lie apart.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Spread {
    pub(crate) mean: f64,
    /// Standard deviation; 0 for one seed.
    pub(crate) deviation: f64,
}

/// The numbers of the transactions of one kind, means over seeds. Shares are 0 to 1.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Measures {
    pub(crate) success: Option<Spread>,
    pub(crate) run_success: Option<Spread>,
    pub(crate) throughput_per_s: Spread,
    pub(crate) mean_s: Option<Spread>,
    pub(crate) p50_s: Option<Spread>,
    pub(crate) p95_s: Option<Spread>,
    pub(crate) p99_s: Option<Spread>,
    pub(crate) retries: Option<Spread>,
    pub(crate) middle_mean_s: Option<Spread>,
    pub(crate) not_ended: Option<f64>,
    pub(crate) offered_per_s: f64,
    /// Mean seconds per transaction that ended, in the order of [`SPENT`].
    pub(crate) spent_s: [f64; SPENT.len()],
}

/// What time between the end of a transaction's work and its own end goes to.
pub(crate) const SPENT: [&str; 5] = ["catalog reads", "prepare", "conflict reads", "install", "back-off"];

/// Conflicts at one table, per transaction that ended.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RankConflicts {
    pub(crate) catalog: f64,
    pub(crate) table: f64,
}

/// One point of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cell {
    /// Per axis of the view, which of its values.
    pub(crate) place: Vec<usize>,
    pub(crate) all: Measures,
    pub(crate) fast_append: Option<Measures>,
    pub(crate) validated_overwrite: Option<Measures>,
    pub(crate) tables: u32,
    pub(crate) duration_s: f64,
    pub(crate) ranks: Vec<RankConflicts>,
    /// In equal parts of the run.
    pub(crate) commits_per_s: Vec<f64>,
    /// In the same parts, as the arrivals are configured.
    pub(crate) offered_per_s: Vec<f64>,
}

/// All points of an experiment that were run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct View {
    /// Axes with two values or more, the load first if it is swept.
    pub(crate) axes: Vec<Axis>,
    pub(crate) seeds: usize,
    cells: BTreeMap<Vec<usize>, Cell>,
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

impl Cell {
    pub(crate) fn of(&self, who: Who) -> Option<&Measures> {
        match who {
            Who::All => Some(&self.all),
            Who::FastAppend => self.fast_append.as_ref(),
            Who::ValidatedOverwrite => self.validated_overwrite.as_ref(),
        }
    }

    /// Whose success decides whether a load is sustained.
    pub(crate) fn deciding(&self) -> &Measures {
        self.validated_overwrite.as_ref().unwrap_or(&self.all)
    }

    /// Whether the load is sustained.
    pub(crate) fn is_sustained(&self) -> bool {
        self.deciding().success.is_some_and(|success| success.mean > SUSTAINED)
    }
}

impl Axis {
    /// Whether its values are numbers, so that a line may connect them.
    pub(crate) fn is_numeric(&self) -> bool {
        self.values.iter().all(|value| value.size != Size::Name)
    }

    pub(crate) fn label(&self) -> String {
        let times = self.values.iter().all(|value| matches!(value.size, Size::Time(_)));
        words::axis_label(&self.key, times)
    }

    /// Values as they stand beside the axis.
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
}

/// How well an axis tells the story: lines and rows are made of the one that does it best.
fn interest(key: &str) -> usize {
    let order = [words::ALTERNATIVE, words::PROVIDER, words::TABLES, words::CATALOG_LATENCY, words::FAST_APPEND];
    order.iter().position(|known| *known == key).unwrap_or(order.len())
}

/// Values by size where all have one of the same kind, else as they come.
fn ordered(mut values: Vec<Value>) -> Vec<Value> {
    let first = values.first().map(|value| std::mem::discriminant(&value.size));
    let alike = values.iter().all(|value| Some(std::mem::discriminant(&value.size)) == first);
    if alike {
        let number = |value: &Value| value.size.value().unwrap_or(0.0);
        values.sort_by(|a, b| number(a).total_cmp(&number(b)));
    }
    values
}

impl View {
    /// A view of cells, each with its coordinates (key and value as text; all cells have the same keys in the same
    /// order). Their `place` is set here. Of two cells with the same coordinates the later one counts.
    pub(crate) fn new(cells: Vec<(Vec<(String, String)>, Cell)>, seeds: usize) -> Self {
        let mut axes: Vec<Axis> = Vec::new();
        for (key, text) in cells.iter().flat_map(|(coordinates, _)| coordinates) {
            let value = Value { text: text.clone(), size: Size::of(text) };
            match axes.iter_mut().find(|axis| axis.key == *key) {
                Some(axis) if axis.values.contains(&value) => {}
                Some(axis) => axis.values.push(value),
                None => axes.push(Axis { key: key.clone(), values: vec![value] }),
            }
        }
        axes.retain(|axis| axis.values.len() > 1);
        axes.sort_by_key(|axis| if axis.key == LOAD { 0 } else { 1 + interest(&axis.key) });
        for axis in &mut axes {
            axis.values = ordered(std::mem::take(&mut axis.values));
        }
        let place = |coordinates: &[(String, String)]| -> Vec<usize> {
            let index = |axis: &Axis| {
                let text = &coordinates.iter().find(|(key, _)| *key == axis.key)?.1;
                axis.values.iter().position(|value| value.text == *text)
            };
            axes.iter().map(|axis| index(axis).unwrap_or(0)).collect()
        };
        let placed = cells.into_iter().map(|(coordinates, cell)| {
            let place = place(&coordinates);
            (place.clone(), Cell { place, ..cell })
        });
        let cells = placed.collect();
        Self { axes, seeds, cells }
    }

    /// All cells in the order of their places.
    pub(crate) fn cells(&self) -> impl Iterator<Item = &Cell> {
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
    pub(crate) fn cell(&self, slice: &Slice, set: &[(usize, usize)]) -> Option<&Cell> {
        let mut place = slice.place.clone();
        for &(axis, value) in set {
            *place.get_mut(axis)? = value;
        }
        self.cells.get(&place)
    }

    /// The cells of a slice along an axis, in its order; one cell where there is no axis.
    pub(crate) fn along(&self, slice: &Slice, axis: Option<usize>) -> Vec<&Cell> {
        match axis {
            None => self.cell(slice, &[]).into_iter().collect(),
            Some(axis) => {
                let values = 0..self.axes[axis].values.len();
                values.filter_map(|value| self.cell(slice, &[(axis, value)])).collect()
            }
        }
    }

    /// The kinds of transactions that some of the cells have.
    pub(crate) fn kinds<'a>(cells: impl Iterator<Item = &'a Cell>) -> Vec<Who> {
        let (fast, slow) = cells.fold((false, false), |(fast, slow), cell| {
            (fast || cell.fast_append.is_some(), slow || cell.validated_overwrite.is_some())
        });
        [(fast, Who::FastAppend), (slow, Who::ValidatedOverwrite)].iter().filter(|(any, _)| *any).map(|(_, who)| *who).collect()
    }

    /// One slice per combination of the values of these axes.
    pub(crate) fn slices(&self, fixed: &[usize]) -> Vec<Slice> {
        self.chosen_slices(fixed, usize::MAX)
    }

    /// The same, but at most `most` slices where that can be had: of the values of numeric axes only the first, the
    /// middle and the last are taken, beginning with the least interesting axis; then only the middle one; then the
    /// same with names, which have no between.
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

/// Some axes held fast.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Slice {
    place: Vec<usize>,
    fixed: Vec<usize>,
}

impl Slice {
    /// What it is fixed to, in words; empty if nothing is.
    pub(crate) fn words(&self, view: &View) -> String {
        let phrases = self.fixed.iter().map(|&axis| view.axes[axis].phrase(self.place[axis]));
        phrases.collect::<Vec<_>>().join(", ")
    }

    /// What it is fixed to, as a part of a file's name; empty if nothing is.
    pub(crate) fn stem(&self, view: &View) -> String {
        let part = |&axis: &usize| {
            let Axis { key, values } = &view.axes[axis];
            format!("--{}-{}", words::slug(&key.replace('.', "-")), words::slug(&values[self.place[axis]].text))
        };
        self.fixed.iter().map(part).collect()
    }

    /// The same slice with one more axis held fast.
    pub(crate) fn with(&self, axis: usize, value: usize) -> Self {
        let mut slice = self.clone();
        slice.place[axis] = value;
        slice
    }

    /// The value it has on an axis.
    pub(crate) fn value(&self, axis: usize) -> usize {
        self.place[axis]
    }
}
