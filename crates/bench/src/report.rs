//! The results of a sweep, for people and for programs.

use glidepath_model::Span;
use glidepath_page::{ReportPage, Section, Table, counted, digits, signed};
use glidepath_picture::PictureError;
use glidepath_run::statistics::quantile;
use serde::Serialize;

use crate::cell::{Cell, CellSamples, Figures};
use crate::rows::FillError;

mod pictures;

/// A cell and its results.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// The cell.
    pub cell: Cell,
    /// The outcome on the live store, of all trials.
    pub measured: Figures,
    /// Successful operations per second in each trial.
    pub trials: Vec<f64>,
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
    pub fn new(cell: Cell, trials: &[CellSamples], predicted: Option<Result<CellSamples, FillError>>) -> Self {
        let measured = CellSamples::one_after_another(trials);
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
            trials: trials.iter().map(|trial| trial.figures().operations_per_s).collect(),
            first_error: measured.errors.first().map(|(words, _)| words.clone()),
            predicted,
            not_predicted,
            prediction_error: error,
        }
    }

    /// The lowest and the highest rate of a trial, in words.
    #[must_use]
    pub fn in_trials(&self) -> String {
        let (least, most) = self.range();
        if self.trials.len() > 1 { format!("{} to {}", digits(least), digits(most)) } else { "-".to_owned() }
    }

    /// The error bar, if there are several trials and none of them is 0.
    fn spread(&self) -> Option<(f64, f64)> {
        Some(self.range()).filter(|(least, _)| self.trials.len() > 1 && *least > 0.0)
    }

    /// The lowest and the highest rate of a trial.
    fn range(&self) -> (f64, f64) {
        let least = self.trials.iter().copied().fold(f64::INFINITY, f64::min);
        (least, self.trials.iter().copied().fold(0.0, f64::max))
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
    /// Planned trials of all cells.
    pub planned: usize,
}

impl Measured<'_> {
    fn facts(&self, lines: &[Line]) -> String {
        let Self { store, date, machine, program, profile, planned } = self;
        let mut facts = format!("{store}, measured {date} from {machine} by {program}.");
        if let Some(Line { cell, .. }) = lines.first() {
            facts.push_str(&format!(
                " A trial of a cell takes {}, in its own catalog; trials of different cells take turns. Closed loop: each \
                 client sends its next operation when the last one is answered.",
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
        let done = trials(lines);
        if done < *planned {
            facts.push_str(&format!(" The sweep was stopped: the report has {done} of {planned} trials."));
        }
        facts
    }
}

/// The number of trials of these cells.
#[must_use]
pub fn trials(lines: &[Line]) -> usize {
    lines.iter().map(|line| line.trials.len()).sum()
}

/// The report with its charts.
///
/// # Errors
/// A picture cannot be drawn.
pub fn page(how: &Measured<'_>, lines: &[Line]) -> Result<ReportPage, PictureError> {
    let (reads, commits): (Vec<&Line>, Vec<&Line>) = lines.iter().partition(|line| line.cell.operation.reads());
    let mut drawn = Vec::new();
    for (what, lines) in [("Commits", &commits), ("Reads", &reads)] {
        drawn.extend(pictures::of(what, lines)?);
    }
    Ok(ReportPage {
        title: format!("A catalog on {}", how.store),
        facts: how.facts(lines),
        findings: findings(lines),
        sections: vec![
            Section::Pictures(drawn),
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
    found.extend(apart(lines));
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

/// Trials of one cell that differ by more than this factor are told. On an idle machine with a local disk, most differ
/// by less than 1.2.
const APART: f64 = 1.5;

/// How far apart the trials of a cell are at most, if that is far: so uncertain are the figures.
#[must_use]
pub fn apart(lines: &[Line]) -> Option<String> {
    let ratio = |line: &Line| {
        let (least, most) = line.range();
        if most > 0.0 { most / least } else { 1.0 }
    };
    let line = lines.iter().max_by(|a, b| ratio(a).total_cmp(&ratio(b)))?;
    let ((least, most), Line { cell, .. }) = (line.range(), line);
    (ratio(line) > APART).then(|| {
        let below = if least > 0.0 { format!(" below a factor of {}", digits(most / least)) } else { String::new() };
        format!(
            "Trials of one cell made {} to {} operations a second ({}, {}). Do not trust differences between cells{below}: give \
             more trials (--trials), or longer ones (--duration).",
            digits(least),
            digits(most),
            cell.kind(),
            counted(cell.writers, "client"),
        )
    })
}

fn percent(share: f64) -> String {
    format!("{} %", signed(100.0 * share, 0))
}

fn measured(title: &'static str, lines: &[&Line]) -> Table {
    let row = |line: &&Line| {
        let Figures { operations, errors, operations_per_s, p50_ms, p99_ms, .. } = line.measured;
        let mut row =
            vec![line.cell.kind(), line.cell.rows.to_string(), line.cell.writers.to_string(), operations.to_string()];
        row.extend([errors.to_string(), digits(operations_per_s), line.in_trials()]);
        row.extend([p50_ms, p99_ms, line.measured.requests_per_operation].map(digits));
        row.extend([
            digits(line.measured.sent_bytes_per_operation / 1024.0),
            digits(line.measured.received_bytes_per_operation / 1024.0),
            digits(line.measured.processor_ms_per_operation),
        ]);
        row
    };
    Table {
        title,
        note: "In trials: the lowest and the highest rate of a trial; all other figures are of all trials together. \
               Requests, bytes and processor time are per operation. Processor time is that of the clients, including \
               the kernel; a store that is a server uses processor time of its own.",
        head: vec![
            "catalog",
            "entries",
            "clients",
            "done",
            "failed",
            "rate (1/s)",
            "in trials",
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
