//! Do commits keep up with arrivals, through bursts and to the end of the run?

use glidepath_picture::{Axis as Ruled, LineChart, LineStyle, Point, Series};

use super::view::{Cell, View};
use super::{Picture, Section, joined, note, offered, seeds_words, side_by_side};

/// More pictures than this are thinned out.
const MOST: usize = 6;

/// The commit rate over time at a middle and at the highest load.
pub(super) fn timelines(view: &View<'_>) -> Vec<Picture> {
    let others = view.axes_without(view.load().as_slice());
    let slices = view.chosen_slices(&others, MOST);
    let pictures = slices.iter().filter_map(|slice| {
        let cells = view.along(slice, view.load());
        let (&highest, &middle) = (cells.first()?, cells.get((cells.len() - 1) / 2)?);
        let words = slice.words(view);
        let all = "Commit rate over time";
        let chosen: &[(&str, &Cell<'_>)] = match cells.len() {
            1 => &[(all, highest)],
            _ => &[("Commit rate at a middle load", middle), ("Commit rate at the highest load", highest)],
        };
        let charts = chosen.iter().map(|(title, cell)| {
            let load = view.load().map(|load| view.axes[load].phrase(cell.place[load])).unwrap_or_default();
            chart(cell, title, note([joined([words.clone(), load]), seeds_words(view.seeds)]))
        });
        let charts = charts.collect();
        Some(Picture {
            file_stem: format!("commit-rate{}", slice.stem(view)),
            section: Section::Timeline,
            group: slice.group(view),
            caption: "Commits per second in each sixtieth of the duration. Dashed: arrivals, as configured. \
                      Transactions work before they commit, so commits follow arrivals with a delay; if they stay \
                      below, transactions fail or accumulate."
                .to_owned(),
            chart: side_by_side(all, charts),
        })
    });
    pictures.collect()
}

fn chart(cell: &Cell<'_>, title: &str, subtitle: Option<String>) -> LineChart {
    let commits = &cell.summary.commits_over_time;
    let duration = cell.config.duration;
    let part_s = duration.as_secs_f64() / commits.len().max(1) as f64;
    let commits_per_s: Vec<f64> = commits.iter().map(|commits| commits / part_s).collect();
    let offered_per_s = offered::over_time(&cell.config.arrivals, duration, commits.len());
    let highest = commits_per_s.iter().chain(&offered_per_s).fold(0.0, |highest: f64, rate| highest.max(*rate));
    let at = |index: usize| index as f64 * part_s / 60.0;
    let points = |rates: &[f64]| rates.iter().enumerate().map(|(index, rate)| Point::at(at(index), *rate)).collect();
    LineChart {
        title: title.to_owned(),
        subtitle,
        x: Ruled { label: "Simulated time (min)".to_owned(), ..Ruled::default() },
        // A margin, so that the tops of bursts are visible.
        y: Ruled {
            label: "Rate (1/s)".to_owned(),
            range: Some((0.0, highest * 1.08)),
            logarithmic: false,
            ticks: None,
        },
        series: vec![
            Series { name: "commits".to_owned(), points: points(&commits_per_s), step: true, ..Series::default() },
            Series {
                name: "arrivals".to_owned(),
                points: points(&offered_per_s),
                line: LineStyle::Dashed,
                step: true,
                ..Series::default()
            },
        ],
        rules: Vec::new(),
    }
}
