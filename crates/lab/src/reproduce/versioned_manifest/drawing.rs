//! The chart of commits per second by rows, published and simulated, for one process and for the most.

use glidepath_picture::{Axis, Chart, LineChart, LineStyle, Panels, Point, Series};

use super::{Ours, Simulated, Sweep};

/// Published against simulated, with indices and without, and our chain.
#[must_use]
pub fn chart(sweep: &Sweep, ours: &[Ours]) -> Chart {
    let most = sweep.published.concurrent(&sweep.extent).map(|cell| cell.writers).max().unwrap_or(1);
    Chart::Panels(Panels {
        title: "Commits per second to a versioned manifest on S3, by rows in the catalog".to_owned(),
        columns: 2,
        charts: vec![
            panel(sweep, ours, 1, "1 process".to_owned()),
            panel(sweep, ours, most, format!("{most} processes")),
        ],
        one_legend: true,
        ..Panels::default()
    })
}

fn panel(sweep: &Sweep, ours: &[Ours], writers: u32, title: String) -> Chart {
    let mut series = Vec::new();
    for (indexed, what, slot) in [(false, "without indices", 0), (true, "with indices", 1)] {
        let published = published(sweep, writers, indexed);
        series.push(drawn(format!("published, {what}"), published, LineStyle::Solid, slot));
        let simulated = |of: &Simulated| simulated(of, writers, indexed);
        series.push(drawn(format!("first principles, {what}"), simulated(&sweep.principles), LineStyle::Dashed, slot));
        series.push(drawn(format!("fitted, {what}"), simulated(&sweep.fitted), LineStyle::Dotted, slot));
    }
    let chain = ours.iter().filter(|cell| cell.writers == writers && !cell.shared);
    let chain = chain.map(|cell| Point::at(cell.rows as f64, cell.commits_per_s)).collect();
    series.push(drawn("our manifest chain, simulated".to_owned(), chain, LineStyle::Dashed, 2));
    let axis = |label: &str, range| Axis { label: label.to_owned(), logarithmic: true, range, ticks: None };
    Chart::LineChart(LineChart {
        title,
        x: axis("Rows", None),
        y: axis("Commits per second", Some((0.2, 30.0))),
        series,
        ..LineChart::default()
    })
}

fn drawn(name: String, points: Vec<Point>, line: LineStyle, slot: usize) -> Series {
    Series { name, points, marks: line == LineStyle::Solid, line, slot: Some(slot), ..Series::default() }
}

fn published(sweep: &Sweep, writers: u32, indexed: bool) -> Vec<Point> {
    if writers == 1 {
        let cells = sweep.published.continuous(&sweep.extent).filter(|cell| cell.indexed == indexed);
        return cells.map(|cell| Point::at(cell.rows as f64, cell.commits_per_s)).collect();
    }
    let cells = sweep.published.concurrent(&sweep.extent);
    let cells = cells.filter(|cell| cell.indexed == indexed && cell.writers == writers);
    cells.map(|cell| Point::at(cell.rows as f64, cell.commits_per_s)).collect()
}

fn simulated(of: &Simulated, writers: u32, indexed: bool) -> Vec<Point> {
    if writers == 1 {
        let cells = of.continuous.iter().filter(|cell| cell.indexed == indexed);
        return cells.map(|cell| Point::at(cell.rows as f64, cell.commits_per_s)).collect();
    }
    let cells = of.concurrent.iter().filter(|cell| cell.indexed == indexed && cell.writers == writers);
    cells.map(|cell| Point::at(cell.rows as f64, cell.commits_per_s)).collect()
}
