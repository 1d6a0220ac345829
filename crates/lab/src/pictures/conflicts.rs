//! Which tables have which conflicts?

use glidepath_picture::{Chart, StackedBars};

use glidepath_workload::Choice;

use super::view::{Cell, View};
use super::words::TABLES;
use super::{Picture, Section, joined, note, seeds_words};
use crate::summary::RankSummary;

/// The fewest tables for a ranking.
const LEAST_TABLES: u32 = 5;

/// More pictures than this are thinned out.
const MOST: usize = 12;

/// Conflicts per transaction by table, at the most tables and a middle load, for the combinations of the other axes.
pub(super) fn by_rank(view: &View<'_>) -> Vec<Picture> {
    let along: Vec<usize> = [view.load(), view.axis(TABLES)].into_iter().flatten().collect();
    let slices = view.chosen_slices(&view.axes_without(&along), MOST);
    let pictures = slices.iter().filter_map(|slice| {
        let loads = view.load().map_or(1, |load| view.axes[load].values.len());
        let counts = view.axis(TABLES).map_or(1, |tables| view.axes[tables].values.len());
        let load = view.load().map(|load| (load, (loads - 1) / 2));
        let tables = view.axis(TABLES).map(|tables| (tables, counts - 1));
        let set: Vec<(usize, usize)> = load.into_iter().chain(tables).collect();
        let cell = view
            .cell(slice, &set)
            .filter(|cell| cell.config.tables.count >= LEAST_TABLES && !cell.summary.ranks.is_empty())?;
        let at = set.iter().map(|&(axis, value)| view.axes[axis].phrase(value));
        let words = joined([slice.words(view)].into_iter().chain(at));
        Some(Picture {
            file_stem: format!("conflicts-by-table{}", slice.stem(view)),
            section: Section::Conflicts,
            group: slice.group(view),
            caption: "Each bar is a table. A catalog conflict: another transaction has committed to another table (or \
                      partition) meanwhile, and only the install is tried again. A table conflict: what this \
                      transaction writes has changed, and it must be prepared again. For the last attempt of a \
                      transaction that gives up, the kind of conflict is unknown. Attempts of all transactions that \
                      ended in the run, divided by these."
                .to_owned(),
            chart: Chart::StackedBars(bars(cell, note([words, seeds_words(view.seeds)]))),
        })
    });
    pictures.collect()
}

fn bars(cell: &Cell<'_>, subtitle: Option<String>) -> StackedBars {
    let (ranks, tables) = (&cell.summary.ranks, cell.config.tables.count);
    let shown = ranks.len();
    let first = if shown < tables as usize { format!(" (the first {shown} of {tables})") } else { String::new() };
    let per_transaction = |count: fn(&RankSummary) -> f64| -> Vec<f64> {
        ranks.iter().map(|rank| count(rank) / rank.ended.max(1.0)).collect()
    };
    StackedBars {
        title: "Conflicts per transaction, by table".to_owned(),
        subtitle,
        x_label: match cell.config.tables.choice {
            Choice::Uniform => format!("Table{first}; all are equally popular"),
            Choice::Zipf(_) => format!("Table{first}; the most popular on the left"),
        },
        y_label: "Conflicts per transaction".to_owned(),
        categories: (1..=shown).map(|rank| rank.to_string()).collect(),
        parts: vec![
            ("catalog conflicts".to_owned(), per_transaction(|rank| rank.catalog_conflicts)),
            ("table conflicts".to_owned(), per_transaction(|rank| rank.table_conflicts)),
            ("unseen (last attempts)".to_owned(), per_transaction(|rank| rank.unseen_conflicts)),
        ],
    }
}
