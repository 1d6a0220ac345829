//! How do transactions spend the time between the end of their work and their own end?

use glidepath_picture::{Chart, Panels, StackedBars};

use super::view::{Cell, View, Who};
use super::words::short;
use super::{Picture, Section, note, seeds_words};
use crate::metrics::SpentMeans;

/// More pictures than this are thinned out.
const MOST: usize = 6;

/// Stacked bars of the mean time per transaction, from the lowest load to the highest.
pub(super) fn times(view: &View<'_>) -> Vec<Picture> {
    let others = view.axes_without(view.load().as_slice());
    let slices = view.chosen_slices(&others, MOST);
    let pictures = slices.iter().filter_map(|slice| {
        let cells: Vec<&Cell<'_>> = view.along(slice, view.load()).into_iter().rev().collect();
        let kinds = View::kinds(cells.iter().copied());
        let subtitle = note([slice.words(view), seeds_words(view.seeds)]);
        let mut charts: Vec<Chart> =
            kinds.iter().map(|who| Chart::StackedBars(bars(&cells, *who, subtitle.clone()))).collect();
        if cells.is_empty() || charts.is_empty() {
            return None;
        }
        Some(Picture {
            file_stem: format!("time-spent{}", slice.stem(view)),
            section: Section::Spent,
            group: slice.group(view),
            caption:
                "Means over all transactions that ended in the run, committed or not, summed over their attempts. \
                      Prepare: reading and writing table metadata and manifest lists. Conflict reads: what is read \
                      after a failed attempt to see what changed. Install: the conditional write of the catalog."
                    .to_owned(),
            chart: match charts.len() {
                1 => charts.remove(0),
                _ => Chart::Panels(Panels {
                    title: "Where time goes".to_owned(),
                    columns: 2,
                    charts,
                    one_legend: true,
                    ..Panels::default()
                }),
            },
        })
    });
    pictures.collect()
}

/// The parts of the time between the end of a transaction's work and its own end.
fn parts(spent: &SpentMeans) -> [(&'static str, f64); 5] {
    [
        ("catalog reads", spent.catalog_reads_s),
        ("prepare", spent.prepare_s),
        ("conflict reads", spent.conflict_reads_s),
        ("install", spent.install_s),
        ("back-off", spent.backoff_s),
    ]
}

fn bars(cells: &[&Cell<'_>], who: Who, subtitle: Option<String>) -> StackedBars {
    let shown: Vec<(String, [(&str, f64); 5])> =
        cells.iter().filter_map(|cell| Some((short(cell.offered_per_s()), parts(&cell.of(who)?.spent)))).collect();
    // All parts in every chart, also those of zero time, so that each keeps its colour.
    let part = |(index, (name, _)): (usize, (&str, f64))| {
        (name.to_owned(), shown.iter().map(|(_, spent)| spent[index].1).collect())
    };
    StackedBars {
        title: format!("Where the time of {} goes", who.noun()),
        subtitle,
        x_label: "Load (transactions/s)".to_owned(),
        y_label: "Mean time per transaction (s)".to_owned(),
        categories: shown.iter().map(|(load, _)| load.clone()).collect(),
        parts: parts(&SpentMeans::default()).into_iter().enumerate().map(part).collect(),
    }
}
