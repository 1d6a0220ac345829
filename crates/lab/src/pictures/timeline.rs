//! Do commits keep up with arrivals, through bursts and to the end of the run?

use glidepath_picture::{Axis as Ruled, Chart, LineChart, LineStyle, Panels, Point, Series};

use super::view::{Cell, View};
use super::{Picture, Section, note, offered, seeds_words};

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
        let chosen: Vec<&Cell<'_>> = if cells.len() > 1 { vec![middle, highest] } else { vec![highest] };
        let names: &[&str] = if cells.len() > 1 { &["middle load", "highest load"] } else { &[""] };
        let charts = chosen.iter().zip(names).map(|(cell, name)| {
            let load = view.load().map(|load| view.axes[load].phrase(cell.place[load])).unwrap_or_default();
            let title =
                if name.is_empty() { "Commit rate over time".to_owned() } else { format!("Commit rate at a {name}") };
            let title = title.replace("a highest", "the highest");
            let at = [words.clone(), load].into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(", ");
            Chart::LineChart(chart(cell, title, note([at, seeds_words(view.seeds)])))
        });
        let mut charts: Vec<Chart> = charts.collect();
        if charts.is_empty() {
            return None;
        }
        Some(Picture {
            file_stem: format!("commit-rate{}", slice.stem(view)),
            section: Section::Timeline,
            group: slice.group(view),
            caption: "Commits per second in each sixtieth of the run. Dashed: what arrives, as it is configured. \
                      Transactions work before they commit, so commits follow arrivals at a distance; where they stay \
                      below for good, transactions fail or pile up."
                .to_owned(),
            chart: match charts.len() {
                1 => charts.remove(0),
                _ => Chart::Panels(Panels {
                    title: "Commit rate over time".to_owned(),
                    columns: 2,
                    charts,
                    one_legend: true,
                }),
            },
        })
    });
    pictures.collect()
}

fn chart(cell: &Cell<'_>, title: String, subtitle: Option<String>) -> LineChart {
    let commits = &cell.summary.commits_over_time;
    let duration = cell.config.duration;
    let part_s = duration.as_secs_f64() / commits.len().max(1) as f64;
    let commits_per_s: Vec<f64> = commits.iter().map(|commits| commits / part_s).collect();
    let offered_per_s = offered::over_time(&cell.config.arrivals, duration, commits.len());
    let highest = commits_per_s.iter().chain(&offered_per_s).fold(0.0, |highest: f64, rate| highest.max(*rate));
    let at = |index: usize| index as f64 * part_s / 60.0;
    let points = |rates: &[f64]| rates.iter().enumerate().map(|(index, rate)| Point::at(at(index), *rate)).collect();
    LineChart {
        title,
        subtitle,
        x: Ruled { label: "Simulated time (min)".to_owned(), ..Ruled::default() },
        // Some air, so that the tops of bursts can be seen.
        y: Ruled { label: "Rate (1/s)".to_owned(), range: Some((0.0, highest * 1.08)), logarithmic: false },
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
