//! The results of a sweep, for people and for programs.

use std::collections::BTreeSet;

use glidepath_model::Span;
use glidepath_page::{Picture, ReportPage, Section, Table, counted, digits, signed};
use glidepath_picture::{Axis, Chart, LineChart, LineStyle, PictureError, Point, Series};
use glidepath_run::statistics::quantile;
use serde::Serialize;

use crate::cell::{Cell, CellSamples, Figures};
use crate::rows::FillError;

/// A cell and its results.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The cell.
    pub cell: Cell,
    /// The outcome on the live store.
    pub measured: Figures,
    /// The first error, if an operation failed.
    pub first_error: Option<String>,
    /// The outcome on the simulated store.
    pub predicted: Option<Figures>,
    /// Why a requested prediction is missing.
    pub not_predicted: Option<String>,
    /// Predicted divided by measured operations per second, minus 1; if both are above 0.
    pub prediction_error: Option<f64>,
}

impl Line {
    /// Combines measurement and prediction.
    #[must_use]
    pub fn new(cell: Cell, measured: &CellSamples, predicted: Option<Result<CellSamples, FillError>>) -> Self {
        let figures = measured.figures();
        let (predicted, not_predicted) = match predicted {
            Some(Ok(outcome)) => (Some(outcome.figures()), None),
            Some(Err(error)) => (None, Some(error.to_string())),
            None => (None, None),
        };
        let both = predicted.as_ref().filter(|predicted| predicted.operations > 0 && figures.operations > 0);
        let error = both.map(|predicted| predicted.operations_per_s / figures.operations_per_s - 1.0);
        Self {
            cell,
            measured: figures,
            first_error: measured.errors.first().map(|(words, _)| words.clone()),
            predicted,
            not_predicted,
            prediction_error: error,
        }
    }
}

/// How it was measured, as in the report.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    /// The store's URL, without credentials.
    pub store: &'a str,
    /// The day, as in 2026-11-21.
    pub date: &'a str,
    /// The machine of the clients.
    pub machine: &'a str,
    /// The measuring program: name and version.
    pub program: &'a str,
    /// The profile of the predictions, by name.
    pub profile: Option<&'a str>,
    /// Planned cells.
    pub planned: usize,
}

impl Measured<'_> {
    fn facts(&self, lines: &[Line]) -> String {
        let Self { store, date, machine, program, profile, planned } = self;
        let mut facts = format!("{store}, measured {date} from {machine} by {program}.");
        if let Some(Line { cell, .. }) = lines.first() {
            facts.push_str(&format!(
                " Each cell takes {}, in its own catalog; closed loop: each client sends its next operation when the \
                 last one is answered.",
                cell.duration
            ));
            if cell.added_latency > Span::ZERO {
                let added = format!(" Each request was delayed by {} before it was sent.", cell.added_latency);
                facts.push_str(&added);
            }
        }
        if let Some(profile) = profile {
            facts.push_str(&format!(" Predicted with the profile {profile}."));
        }
        if lines.len() < *planned {
            let done = lines.len();
            facts.push_str(&format!(" The sweep was stopped: the report has {done} of {planned} cells."));
        }
        facts
    }
}

/// The report with its charts.
///
/// # Errors
/// A picture cannot be drawn.
pub fn page(how: &Measured<'_>, lines: &[Line]) -> Result<ReportPage, PictureError> {
    let (reads, commits): (Vec<&Line>, Vec<&Line>) = lines.iter().partition(|line| line.cell.operation.reads());
    let mut pictures = Vec::new();
    for (what, lines) in [("Commits", &commits), ("Reads", &reads)] {
        pictures.extend(over_clients(what, lines)?);
        pictures.extend(over_rows(what, lines).transpose()?);
    }
    Ok(ReportPage {
        title: format!("A catalog on {}", how.store),
        facts: how.facts(lines),
        findings: findings(lines),
        sections: vec![
            Section::Pictures(pictures),
            Section::Table(measured("Commits", &commits)),
            Section::Table(measured("Reads", &reads)),
            Section::Table(predictions(lines)),
        ],
    })
}

fn findings(lines: &[Line]) -> Vec<String> {
    let mut found = Vec::new();
    let commits = lines.iter().filter(|line| !line.cell.operation.reads());
    let most = commits.max_by(|a, b| a.measured.operations_per_s.total_cmp(&b.measured.operations_per_s));
    if let Some(Line { cell, measured, .. }) = most {
        found.push(format!(
            "Most commits: {} a second, by {} with {} {} ({}).",
            digits(measured.operations_per_s),
            counted(cell.writers, "client"),
            cell.rows,
            if cell.rows == 1 { "entry" } else { "entries" },
            cell.kind()
        ));
    }
    let errors: u64 = lines.iter().map(|line| line.measured.errors).sum();
    let first = lines.iter().find_map(|line| line.first_error.as_ref());
    found.push(match first {
        Some(words) => format!("{errors} operations failed. The first one: {words}."),
        None => "No operation failed.".to_owned(),
    });
    if let Some((line, words)) = lines.iter().find_map(|line| Some((line, line.not_predicted.as_ref()?))) {
        found.push(format!("No prediction for {}: {words}.", line.cell.design.name()));
    }
    let mut off: Vec<f64> = lines.iter().filter_map(|line| line.prediction_error).collect();
    off.sort_unstable_by(f64::total_cmp);
    if let (Some(least), Some(most)) = (off.first(), off.last()) {
        found.push(format!(
            "Prediction error: {} to {}, median {}, over {}.",
            percent(*least),
            percent(*most),
            percent(quantile(&off, 0.5)),
            counted(off.len() as u32, "cell")
        ));
    }
    found
}

fn percent(share: f64) -> String {
    format!("{} %", signed(100.0 * share, 0))
}

fn measured(title: &'static str, lines: &[&Line]) -> Table {
    let row = |line: &&Line| {
        let Figures { operations, errors, operations_per_s, p50_ms, p99_ms, .. } = line.measured;
        let mut row =
            vec![line.cell.kind(), line.cell.rows.to_string(), line.cell.writers.to_string(), operations.to_string()];
        row.push(errors.to_string());
        row.extend([operations_per_s, p50_ms, p99_ms, line.measured.requests_per_operation].map(digits));
        row.extend([
            digits(line.measured.sent_bytes_per_operation / 1024.0),
            digits(line.measured.received_bytes_per_operation / 1024.0),
            digits(line.measured.processor_ms_per_operation),
        ]);
        row
    };
    Table {
        title,
        note: "Requests, bytes and processor time are per operation. Processor time is that of the clients, including \
               the kernel; a store that is a server uses processor time of its own.",
        head: vec![
            "catalog",
            "entries",
            "clients",
            "done",
            "failed",
            "rate (1/s)",
            "p50 (ms)",
            "p99 (ms)",
            "requests",
            "sent (KiB)",
            "received (KiB)",
            "processor (ms)",
        ],
        rows: lines.iter().map(row).collect(),
    }
}

fn predictions(lines: &[Line]) -> Table {
    let row = |line: &Line| {
        let predicted = line.predicted.as_ref()?;
        let mut row = vec![line.cell.kind(), line.cell.rows.to_string(), line.cell.writers.to_string()];
        row.extend([line.measured.operations_per_s, predicted.operations_per_s].map(digits));
        row.push(line.prediction_error.map_or("-".to_owned(), percent));
        row.extend([line.measured.p50_ms, predicted.p50_ms, line.measured.p99_ms, predicted.p99_ms].map(digits));
        row.extend([line.measured.errors, predicted.errors].map(|count| count.to_string()));
        Some(row)
    };
    Table {
        title: "Measured and predicted",
        note: "Predicted: the same clients and the same protocol code on the simulated store with the profile. The \
               error is the predicted rate divided by the measured rate, less 1.",
        head: vec![
            "catalog",
            "entries",
            "clients",
            "rate (1/s)",
            "predicted (1/s)",
            "error",
            "p50 (ms)",
            "predicted (ms)",
            "p99 (ms)",
            "predicted (ms)",
            "failed",
            "predicted",
        ],
        rows: lines.iter().filter_map(row).collect(),
    }
}

/// One line of a chart per kind of cell, and a dashed one for its prediction.
fn series<K: Ord + Copy>(
    lines: &[&Line],
    key: impl Fn(&Cell) -> K,
    words: impl Fn(K) -> Option<String>,
    x: impl Fn(&Cell) -> f64,
) -> Vec<Series> {
    let mut names: Vec<(String, K)> = Vec::new();
    for line in lines {
        let name = (line.cell.kind(), key(&line.cell));
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut all = Vec::new();
    for (slot, (kind, value)) in names.into_iter().enumerate() {
        let of = |line: &&&Line| line.cell.kind() == kind && key(&line.cell) == value;
        let name = [Some(kind.clone()), words(value)].into_iter().flatten().collect::<Vec<_>>().join(", ");
        let point = |line: &&Line| Point::at(x(&line.cell), line.measured.operations_per_s);
        let points = lines.iter().filter(of).map(point).collect();
        all.push(Series { name: name.clone(), points, marks: true, slot: Some(slot), ..Series::default() });
        let predicted = |line: &&Line| Some(Point::at(x(&line.cell), line.predicted.as_ref()?.operations_per_s));
        let points: Vec<Point> = lines.iter().filter(of).filter_map(predicted).collect();
        if !points.is_empty() {
            let name = format!("{name}, predicted");
            all.push(Series { name, points, line: LineStyle::Dashed, slot: Some(slot), ..Series::default() });
        }
    }
    all
}

fn distinct<T: Ord>(lines: &[&Line], of: impl Fn(&Cell) -> T) -> usize {
    lines.iter().map(|line| of(&line.cell)).collect::<BTreeSet<T>>().len()
}

/// The most lines in a picture.
const LEGIBLE: usize = 8;

fn over_clients(what: &str, lines: &[&Line]) -> Result<Vec<Picture>, PictureError> {
    if distinct(lines, |cell| cell.writers) < 2 {
        return Ok(Vec::new());
    }
    let sizes: BTreeSet<u64> = lines.iter().map(|line| line.cell.rows).collect();
    let caption = "Rate by number of clients.";
    let draw = |lines: &[&Line], which: &str, words: &dyn Fn(u64) -> Option<String>| {
        let series = series(lines, |cell| cell.rows, words, |cell| f64::from(cell.writers));
        picture(caption, &format!("{what} against clients{which}"), "Concurrent clients", what, series)
    };
    if sizes.len() == 1 || sizes.len() * distinct(lines, Cell::kind) <= LEGIBLE {
        let several = sizes.len() > 1;
        return draw(lines, "", &|rows| several.then(|| format!("{rows} entries"))).map(|picture| vec![picture]);
    }
    let of = |rows: &u64| {
        let lines: Vec<&Line> = lines.iter().filter(|line| line.cell.rows == *rows).copied().collect();
        draw(&lines, &format!(", {rows} entries"), &|_| None)
    };
    sizes.iter().map(of).collect()
}

fn over_rows(what: &str, lines: &[&Line]) -> Option<Result<Picture, PictureError>> {
    if distinct(lines, |cell| cell.rows) < 2 {
        return None;
    }
    let several = distinct(lines, |cell| cell.writers) > 1;
    let words = |writers: u32| several.then(|| counted(writers, "client"));
    // An empty catalog needs a place on the logarithmic axis, too.
    let series = series(lines, |cell| cell.writers, words, |cell| cell.rows.max(1) as f64);
    let caption = match lines.iter().any(|line| line.cell.rows == 0) {
        true => "Rate by size of the catalog. An empty catalog is shown at 1 entry.",
        false => "Rate by size of the catalog.",
    };
    Some(picture(caption, &format!("{what} against entries"), "Entries in the catalog", what, series))
}

fn picture(caption: &str, title: &str, x: &str, what: &str, series: Vec<Series>) -> Result<Picture, PictureError> {
    let predicted = series.iter().any(|line| line.line == LineStyle::Dashed);
    let caption = format!("{caption}{}", if predicted { " Dashed: predicted." } else { "" });
    let chart = LineChart {
        title: title.to_owned(),
        x: Axis::of(x, true),
        y: Axis::of(&format!("{what} per second"), true),
        series,
        ..LineChart::default()
    };
    Picture::of(caption, &Chart::LineChart(chart))
}
