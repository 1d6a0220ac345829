//! At which loads do commits succeed, and how long do they take? Heat maps over the window, like the tables; or over
//! the whole run, as in the published work, if runs do not continue until all transactions of the window have ended.

use glidepath_model::Span;
use glidepath_picture::{Cell as Square, Chart, Hatch, HatchLegend, HeatMap, Scale};
use glidepath_point::Config;
use glidepath_run::statistics::Spread;

use super::view::{Axis, Cell, Slice, View, Who};
use super::words::{LOAD, axis_noun, percent, seconds};
use super::{Picture, Section, note};
use crate::experiment::ALTERNATIVE;
use crate::summary::{GroupSummary, SUSTAINED};

/// Below this success a cell is hatched densely.
const POOR: f64 = 0.8;

/// Which number a map shows.
#[derive(Clone, Copy, PartialEq)]
enum Shown {
    Success,
    Latency,
}

/// The maps of a view: of success and of latency, for each kind of transactions, one per combination of the axes that
/// are not drawn. None if fewer than two axes are swept.
pub(super) fn maps(view: &View<'_>) -> Vec<Picture> {
    let Some((x, y)) = drawn_axes(view) else { return Vec::new() };
    let mut pictures = Vec::new();
    for shown in [Shown::Success, Shown::Latency] {
        for who in View::kinds(view.cells()) {
            let map = Map { view, x, y, shown, who, scale: scale(view, shown, who) };
            for slice in view.slices(&view.axes_without(&[x, y])) {
                pictures.extend(map.picture(&slice));
            }
        }
    }
    pictures
}

/// The axes of a map: the load, otherwise the most interesting axis, against alternatives, otherwise the most
/// interesting other axis with numbers.
fn drawn_axes(view: &View<'_>) -> Option<(usize, usize)> {
    let best = |without: &[usize]| {
        let axes = view.axes_without(without);
        let drawn = |axis: usize| view.axes[axis].is_numeric() || view.axes[axis].key == ALTERNATIVE;
        axes.iter().copied().find(|&axis| drawn(axis)).or(axes.first().copied())
    };
    match view.load() {
        Some(load) => Some((load, best(&[load])?)),
        None => {
            let y = best(&[])?;
            Some((best(&[y])?, y))
        }
    }
}

/// The colours, which are the same in all maps of one kind.
fn scale(view: &View<'_>, shown: Shown, who: Who) -> Scale {
    if shown == Shown::Success {
        return Scale { label: "Success (%)".to_owned(), low: 0.0, high: 100.0, ..Scale::default() };
    }
    let latencies = view.cells().filter_map(|cell| Some(latency(cell.config, cell.of(who)?)?.mean));
    let (low, high) = latencies.fold((f64::INFINITY, 0.0_f64), |(low, high), s| (low.min(s), high.max(s)));
    // A small margin, and some width if all are equal.
    let (low, high) = (low / 1.05, high.max(low * 1.5) * 1.05);
    Scale { label: "Mean commit latency (s)".to_owned(), low, high, logarithmic: true, reversed: true }
}

/// Whether the window is shown.
fn of_window(config: &Config) -> bool {
    config.run_on > Span::ZERO
}

fn success(config: &Config, measures: &GroupSummary) -> Option<Spread> {
    if of_window(config) { measures.success } else { measures.run_success }
}

fn latency(config: &Config, measures: &GroupSummary) -> Option<Spread> {
    if of_window(config) { measures.latency_mean_s } else { measures.middle_latency_mean_s }
}

struct Map<'a> {
    view: &'a View<'a>,
    x: usize,
    y: usize,
    shown: Shown,
    who: Who,
    scale: Scale,
}

impl Map<'_> {
    fn picture(&self, slice: &Slice) -> Option<Picture> {
        let (x, y) = (&self.view.axes[self.x], &self.view.axes[self.y]);
        let row = |row: usize| -> Vec<Option<Square>> {
            let cell = |column| self.view.cell(slice, &[(self.x, column), (self.y, row)]);
            (0..x.values.len()).map(|column| self.square(cell(column)?)).collect()
        };
        let cells: Vec<Vec<Option<Square>>> = (0..y.values.len()).map(row).collect();
        cells.iter().flatten().any(Option::is_some).then(|| {
            let what = if self.shown == Shown::Success { "success" } else { "latency" };
            let order = if x.key == LOAD { "highest load left" } else { "" };
            Picture {
                file_stem: format!("{what}-{}{}", self.who.slug(), slice.stem(self.view)),
                section: if self.shown == Shown::Success { Section::Success } else { Section::Latency },
                group: slice.group(self.view),
                caption: self.caption(x),
                chart: Chart::HeatMap(HeatMap {
                    title: self.title(x, y),
                    subtitle: note([slice.words(self.view), self.basis(), order.to_owned()]),
                    x_label: x.label(),
                    y_label: y.label(),
                    x_ticks: x.ticks(),
                    y_ticks: y.ticks(),
                    cells,
                    scale: self.scale.clone(),
                    hatch_legend: Some(HatchLegend {
                        light: "success below 95 %".to_owned(),
                        dense: "success below 80 %".to_owned(),
                    }),
                }),
            }
        })
    }

    fn square(&self, cell: &Cell<'_>) -> Option<Square> {
        let measures = cell.of(self.who)?;
        let success = success(cell.config, measures).map(|success| success.mean);
        let hatch = match success {
            Some(success) if success < POOR => Hatch::Dense,
            Some(success) if success < SUSTAINED => Hatch::Light,
            _ => Hatch::None,
        };
        match self.shown {
            Shown::Success => success.map(|share| Square { value: share * 100.0, text: percent(share), hatch }),
            Shown::Latency => {
                let Spread { mean, .. } = latency(cell.config, measures)?;
                Some(Square { value: mean, text: seconds(mean), hatch })
            }
        }
    }

    fn title(&self, x: &Axis, y: &Axis) -> String {
        let by = format!("by {} and {}", axis_noun(&x.key), axis_noun(&y.key));
        match self.shown {
            Shown::Success => format!("{} that succeed, {by}", self.who.title()),
            Shown::Latency => format!("Mean commit latency of {}, {by}", self.who.noun()),
        }
    }

    fn basis(&self) -> String {
        let seeds = super::seeds_words(self.view.seeds);
        match self.shown {
            _ if self.view.cells().all(|cell| of_window(cell.config)) => format!("window, {seeds}"),
            Shown::Success => format!("whole run, {seeds}"),
            Shown::Latency => format!("commits in the middle 80 % of the run, {seeds}"),
        }
    }

    fn caption(&self, x: &Axis) -> String {
        let read = match self.shown {
            Shown::Success => {
                "Each cell is the share of transactions that committed, of those that ended within the run."
            }
            Shown::Latency => {
                "Each cell is the mean time from the end of a transaction's work to the answer that it is committed; \
                 failed transactions are left out, so hatched cells look better than they are. Colours are \
                 logarithmic, and the same in all maps of this kind of transactions."
            }
        };
        let load = if x.key == LOAD { " The highest load is on the left." } else { "" };
        format!("{read} Hatched: success below 95 %; cross-hatched: below 80 %.{load} Grey: no data.")
    }
}
