//! Do commits keep up with arrivals, through bursts and to the end of the run?

use glidepath_model::Span;
use glidepath_picture::{Axis as Ruled, Chart, LineChart, LineStyle, Panels, Point, Series};
use glidepath_workload::Burst;

use super::view::{Cell, View};
use super::{Picture, Section, note, seeds};

/// More pictures than this are thinned out.
const MOST: usize = 6;

/// The commit rate over time at a middle and at the highest load.
pub(super) fn timelines(view: &View) -> Vec<Picture> {
    let others = view.axes_without(view.load().as_slice());
    let slices = view.chosen_slices(&others, MOST);
    let pictures = slices.iter().filter_map(|slice| {
        let cells = view.along(slice, view.load());
        let (&highest, &middle) = (cells.first()?, cells.get((cells.len() - 1) / 2)?);
        let words = slice.words(view);
        let chosen: Vec<&Cell> = if cells.len() > 1 { vec![middle, highest] } else { vec![highest] };
        let names: &[&str] = if cells.len() > 1 { &["middle load", "highest load"] } else { &[""] };
        let charts = chosen.iter().zip(names).map(|(cell, name)| {
            let load = view.load().map(|load| view.axes[load].phrase(cell.place[load])).unwrap_or_default();
            let title = if name.is_empty() { "Commit rate over time".to_owned() } else { format!("Commit rate at a {name}") };
            let title = title.replace("a highest", "the highest");
            let at = [words.clone(), load].into_iter().filter(|words| !words.is_empty()).collect::<Vec<_>>().join(", ");
            Chart::LineChart(chart(cell, title, note([at, seeds(view.seeds)])))
        });
        let mut charts: Vec<Chart> = charts.collect();
        if charts.is_empty() {
            return None;
        }
        Some(Picture {
            file_stem: format!("commit-rate{}", slice.stem(view)),
            section: Section::Timeline,
            caption: "Commits per second in each sixtieth of the run. Dashed: what arrives, as it is configured. \
                      Transactions work before they commit, so commits follow arrivals at a distance; where they stay \
                      below for good, transactions fail or pile up."
                .to_owned(),
            chart: match charts.len() {
                1 => charts.remove(0),
                _ => Chart::Panels(Panels { title: "Commit rate over time".to_owned(), columns: 2, charts }),
            },
        })
    });
    pictures.collect()
}

fn chart(cell: &Cell, title: String, subtitle: Option<String>) -> LineChart {
    let count = cell.commits_per_s.len().max(1) as f64;
    let at = |index: usize| index as f64 / count * cell.duration_s / 60.0;
    let points = |rates: &[f64]| rates.iter().enumerate().map(|(index, rate)| Point::at(at(index), *rate)).collect();
    LineChart {
        title,
        subtitle,
        x: Ruled { label: "Simulated time (min)".to_owned(), ..Ruled::default() },
        y: Ruled { label: "Rate (1/s)".to_owned(), ..Ruled::default() },
        series: vec![
            Series { name: "commits".to_owned(), points: points(&cell.commits_per_s), step: true, ..Series::default() },
            Series {
                name: "arrivals".to_owned(),
                points: points(&cell.offered_per_s),
                line: LineStyle::Dashed,
                step: true,
                ..Series::default()
            },
        ],
        rules: Vec::new(),
    }
}

/// Arrivals per second in `parts` equal parts of a run, given the mean over all of it and the configured bursts.
pub(super) fn offered(mean_per_s: f64, duration: Span, burst: Option<Burst>, parts: usize) -> Vec<f64> {
    let part_s = duration.as_secs_f64() / parts.max(1) as f64;
    let weights = (0..parts).map(|part| match burst {
        None => 1.0,
        Some(burst) => {
            let busy = busy_seconds(&burst, part as f64 * part_s, (part + 1) as f64 * part_s);
            1.0 + (burst.factor - 1.0) * busy / part_s
        }
    });
    let weights: Vec<f64> = weights.collect();
    let mean = weights.iter().sum::<f64>() / weights.len().max(1) as f64;
    weights.iter().map(|weight| mean_per_s * weight / mean).collect()
}

/// How much of a stretch of time is within bursts: the k-th (from 1) starts at k times `every`.
fn busy_seconds(burst: &Burst, from: f64, to: f64) -> f64 {
    let (every, lasts) = (burst.every.as_secs_f64(), burst.lasts.as_secs_f64());
    // What lies in bursts before a time.
    let before = |at: f64| {
        let periods = (at / every).floor();
        if periods < 1.0 { 0.0 } else { (periods - 1.0) * lasts + (at - periods * every).min(lasts) }
    };
    before(to) - before(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_show_where_they_are() {
        let burst =
            Burst { every: Span::from_secs(600), lasts: Span::from_secs(60), factor: 10.0, table: None };
        let rates = offered(2.5, Span::from_secs(3600), Some(burst), 60);
        assert!((rates.iter().sum::<f64>() / 60.0 - 2.5).abs() < 1e-9);
        assert!((rates[10] / rates[9] - 10.0).abs() < 1e-6);
        assert_eq!(rates[0], rates[11]);
        // A burst of a minute within parts of 10 minutes.
        let rates = offered(1.0, Span::from_secs(3600), Some(burst), 6);
        assert!((rates[1] / rates[0] - 1.9).abs() < 1e-6);
    }
}
