//! The results of cells, for people.

use glidepath_page::{Picture, ReportPage, Section, Table, counted, digits, signed};
use glidepath_picture::{Axis, Chart, LineChart, PictureError, Point, Series};

use super::answers::{after_conflicts, answers, tries};
use super::cell::{Checked, Figures, Line, Workload};

/// How it was measured, as in the report.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// The server's URL.
    pub server: &'a str,
    /// The profile of the store, if the server is simulated.
    pub simulated: Option<&'a str>,
    /// The day, as in 2026-11-21.
    pub date: &'a str,
    /// The machine of the clients.
    pub machine: &'a str,
    /// The measuring program: name and version.
    pub program: &'a str,
    /// Planned cells.
    pub planned: usize,
}

/// The report.
///
/// # Errors
/// A picture cannot be drawn.
pub fn page(how: &Measured<'_>, lines: &[Line]) -> Result<ReportPage, PictureError> {
    let Measured { server, simulated, date, machine, program, planned } = how;
    let mut facts = match simulated {
        Some(profile) => format!("A server on this store, simulated {date} by {program}: {profile}."),
        None => format!("{server}, measured {date} from {machine} by {program}."),
    };
    facts.push_str(" Closed loop: each client sends its next request when the last one is answered.");
    if let Some(Line { cell, .. }) = lines.first() {
        facts.push_str(&format!(" Each cell takes {}, in a namespace of its own.", cell.duration));
    }
    if lines.len() < *planned {
        facts.push_str(&format!(" It was stopped: the report has {} of {planned} cells.", lines.len()));
    }
    let mut sections = Vec::new();
    if let Some(picture) = picture(lines).transpose()? {
        sections.push(Section::Pictures(vec![picture]));
    }
    sections.push(Section::Table(table(lines)));
    let title = match simulated {
        Some(_) => "A simulated catalog server".to_owned(),
        None => format!("A catalog server at {server}"),
    };
    Ok(ReportPage { title, facts, findings: findings(lines), sections })
}

fn findings(lines: &[Line]) -> Vec<String> {
    let mut found: Vec<String> = Workload::ALL.into_iter().filter_map(|workload| highest(workload, lines)).collect();
    let (mut acknowledged, mut wrong) = (0, 0);
    for checked in lines.iter().filter_map(|line| line.checked.as_ref()) {
        acknowledged += checked.acknowledged;
        wrong += checked.lost + checked.twice + checked.refused_there;
    }
    if acknowledged > 0 {
        found.push(match wrong {
            0 => format!("All {acknowledged} acknowledged changes that were looked for are there, once."),
            wrong => format!(
                "{wrong} of {acknowledged} acknowledged changes are lost or there twice, or refused ones are there."
            ),
        });
    }
    let busy = lines.iter().filter(|line| line.busiest_client > 0.9).count();
    if busy > 0 {
        found.push(format!("In {busy} cells a thread of the clients was busy for more than 90 % of the time: the clients may be the limit."));
    }
    if let Some((words, count)) = answers(lines).first() {
        let tries = tries(*count);
        found.push(format!("Most frequent answer other than success ({tries}; # is a number or a name): {words}"));
    }
    found.extend(after_conflicts(lines));
    found
}

/// The sentence about the highest rate of a workload, if it was run.
fn highest(workload: Workload, lines: &[Line]) -> Option<String> {
    let of = lines.iter().filter(|line| line.cell.workload == workload && line.figures.per_s > 0.0);
    let most = of.max_by(|a, b| a.figures.per_s.total_cmp(&b.figures.per_s))?;
    let (rate, clients) = (digits(most.figures.per_s), counted(most.cell.connections, "connection"));
    Some(format!("Highest rate of {}: {rate} a second, with {clients}.", workload.name()))
}

fn table(lines: &[Line]) -> Table {
    let or_none = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), digits);
    let mut rows = Vec::new();
    for line in lines {
        let mut row =
            |what: String, clients: u32, figures: &Figures, predicted: Option<&Figures>, checked: Option<String>| {
                rows.push(vec![
                    what,
                    clients.to_string(),
                    digits(figures.per_s),
                    or_none(figures.p50_ms),
                    or_none(figures.p99_ms),
                    or_none(figures.longest_ms),
                    figures.conflicts.to_string(),
                    figures.given_up.to_string(),
                    (figures.busy + figures.unknown).to_string(),
                    or_none(line.client_processor_us),
                    or_none(line.server_processor_us),
                    checked.unwrap_or_else(|| "-".to_owned()),
                    or_none(predicted.map(|predicted| predicted.per_s)),
                    predicted
                        .and_then(|predicted| figures.error_of(predicted))
                        .map_or_else(|| "-".to_owned(), |error| format!("{} %", signed(100.0 * error, 0))),
                ]);
            };
        let checked = line.checked.as_ref().map(Checked::words);
        let predicted = line.predicted.as_ref();
        let appends = predicted.map(|predicted| &predicted.figures);
        row(line.cell.workload.name().to_owned(), line.cell.connections, &line.figures, appends, checked);
        if let Some(overwrites) = &line.overwrites {
            let predicted = predicted.and_then(|predicted| predicted.overwrites.as_ref());
            row(
                format!("{}: overwrites", line.cell.workload.name()),
                line.cell.overwrites,
                overwrites,
                predicted,
                None,
            );
        }
    }
    let table = Table {
        title: "Cells",
        note: "own: each client sets a property of a table of its own; hot: all append files to one table, each with a manifest and \
               a list, so a single client is slower there than in own too; fair: the same beside clients that overwrite; \
               load: loads of one table, load-304 with If-None-Match. Latencies run from the first try to the \
               acknowledgement. Processor time is for one operation.",
        head: vec![
            "workload",
            "connections",
            "rate (1/s)",
            "p50 (ms)",
            "p99 (ms)",
            "longest (ms)",
            "conflicts",
            "given up",
            "put off or unknown",
            "client (us)",
            "server (us)",
            "acknowledged changes",
            "predicted (1/s)",
            "error",
        ],
        rows,
    };
    without_empty_columns(table)
}

/// Leaves out columns that say nothing.
fn without_empty_columns(mut table: Table) -> Table {
    let says: Vec<bool> = (0..table.head.len()).map(|column| table.rows.iter().any(|row| row[column] != "-")).collect();
    let kept = |column: &usize| says[*column];
    table.head = (0..table.head.len()).filter(kept).map(|column| table.head[column]).collect();
    for row in &mut table.rows {
        *row = (0..row.len()).filter(kept).map(|column| row[column].clone()).collect();
    }
    table
}

fn picture(lines: &[Line]) -> Option<Result<Picture, PictureError>> {
    let mut series = Vec::new();
    for (slot, workload) in Workload::ALL.into_iter().enumerate() {
        let of = lines.iter().filter(|line| line.cell.workload == workload && line.figures.per_s > 0.0);
        let points: Vec<Point> = of.map(|line| Point::at(line.cell.connections.into(), line.figures.per_s)).collect();
        if points.len() > 1 {
            let name = workload.name().to_owned();
            series.push(Series { name, points, marks: true, slot: Some(slot), ..Series::default() });
        }
    }
    if series.is_empty() {
        return None;
    }
    let chart = LineChart {
        title: "Requests against connections".to_owned(),
        x: Axis::of("Connections", true),
        y: Axis::of("Acknowledged per second", true),
        series,
        ..LineChart::default()
    };
    Some(Picture::of("Rate by number of connections.".to_owned(), &Chart::LineChart(chart.at_values())))
}
