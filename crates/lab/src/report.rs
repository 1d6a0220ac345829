//! The report of an experiment, which must be sufficient years later without other files.
//!
//! [`page`] is one self-contained HTML document: findings, pictures, the table of results, the exact configuration, and
//! definitions. It loads nothing (its content security policy forbids it) and can be printed. `maud` escapes all text
//! of users.

mod configuration;
mod findings;
mod gallery;
mod knees;
mod table;

use std::path::{Path, PathBuf};

use glidepath_model::Span;
use glidepath_page::document;
use glidepath_point::MODEL_VERSION;
use maud::{Markup, html};

use crate::experiment::Experiment;
use crate::pictures::{Drawn, View};
use crate::schema::Provenance;
use crate::setting;
use crate::summary::RunSummary;
pub use configuration::experiment_file;
pub use knees::{knees_page, write_knees};

/// The name of the report in the folder of a run.
pub const REPORT: &str = "report.html";

/// The report could not be written.
#[derive(Debug, thiserror::Error)]
#[error("{}: cannot write this file: {source}", path.display())]
pub struct ReportError {
    /// Which.
    pub path: PathBuf,
    /// Why.
    pub source: std::io::Error,
}

/// Writes the report of a run into its folder, as [`REPORT`]. `pictures` are those planned for it.
///
/// # Errors
/// The file cannot be written.
pub fn write(
    folder: &Path,
    experiment: &Experiment,
    (summary, pictures): (&RunSummary, &[Drawn]),
    provenance: &Provenance,
) -> Result<(), ReportError> {
    let path = folder.join(REPORT);
    let page = page(experiment, (summary, pictures), provenance);
    std::fs::write(&path, page).map_err(|source| ReportError { path, source })
}

/// The report as HTML. `summary` is that of this experiment, `pictures` are those planned for it. Equal arguments give
/// equal bytes.
#[must_use]
pub fn page(experiment: &Experiment, (summary, pictures): (&RunSummary, &[Drawn]), provenance: &Provenance) -> String {
    let view = View::new(experiment, summary);
    let gallery = gallery::Gallery::new(pictures);
    let body = html! {
        (header(&experiment.title, experiment, &facts(experiment, provenance)))
        (contents(&gallery))
        main {
            (findings::section(&view))
            (gallery.markup())
            (table::section(&view))
            (configuration::section(experiment, provenance))
            (definitions())
        }
    };
    document(&experiment.title, &body)
}

fn header(title: &str, experiment: &Experiment, facts: &Markup) -> Markup {
    html! {
        header {
            h1 { (title) }
            @for paragraph in experiment.description.split("\n\n").filter(|text| !text.trim().is_empty()) {
                p.lead { (paragraph) }
            }
            (facts)
            @for note in &experiment.notes { p.warning role="note" { (note) } }
        }
    }
}

fn facts(experiment: &Experiment, provenance: &Provenance) -> Markup {
    let (points, seeds) = (experiment.points.len(), experiment.seeds.len());
    let run_s = experiment.points.iter().map(|point| point.point.config.duration.as_secs_f64()).sum::<f64>();
    html! {
        p.facts {
            "Experiment " strong { (experiment.name) } ": " (counted(points, "point")) ", "
            (counted(seeds, "seed")) " each, "
            (crate::pictures::plain((run_s * seeds as f64 / 360.0).round() / 10.0)) " simulated hours. "
            (setting::of(experiment)) ". " (ending(experiment)) " Model version " (MODEL_VERSION)
            ", revision " (provenance.git_revision) "."
        }
    }
}

/// The warning about a run that had not settled; among several, so many of so many points.
#[must_use]
pub fn unsettled(among: Option<(usize, usize)>) -> String {
    let begin = among.map_or("The".to_owned(), |(count, all)| format!("At {count} of {all} points, the"));
    format!(
        "{begin} run had not settled when its window began: transactions take long to end compared with the time before \
         it. Success is too high or commits are too few by more than the intervals say: choose a longer --duration."
    )
}

/// When the runs of an experiment end, as a sentence.
#[must_use]
pub fn ending(experiment: &Experiment) -> String {
    let mut limits: Vec<Span> = experiment.points.iter().map(|point| point.point.config.run_on).collect();
    limits.sort_unstable();
    limits.dedup();
    match limits[..] {
        [limit] if limit == Span::ZERO => {
            "Transactions that have not ended when a run ends are left out, as in the published runs.".to_owned()
        }
        [limit] => format!("Runs continue until all transactions of the window have ended, for at most {limit}."),
        _ => "Runs continue until all transactions of the window have ended, for at most run_on.".to_owned(),
    }
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

fn contents(gallery: &gallery::Gallery) -> Markup {
    html! {
        nav aria-label="Contents" {
            h2 { "Contents" }
            ol {
                li { a href="#findings" { "Findings" } }
                @for (section, count) in gallery.sections() {
                    li { a href=(format!("#{}", gallery::anchor(section))) { (section.title()) } " (" (counted(count, "picture")) ")" }
                }
                li { a href="#results" { "Results" } }
                li { a href="#configuration" { "Configuration" } }
                li { a href="#definitions" { "How numbers are defined" } }
            }
        }
    }
}

fn definitions() -> Markup {
    let entry = |name: &str, text: &str| html! { dt { (name) } dd { (text) } };
    html! {
        section #definitions {
            h2 { "How numbers are defined" }
            dl {
                (entry("Window", "Transactions that arrived in the middle half of the duration (minutes 15 to 45 of an \
                    hour) and ended within the run. With run_on the run continues after the duration. Tables, knees \
                    and line charts are of the window."))
                (entry("Not ended",
                    "The share of the transactions that arrived in the window and had not ended when the \
                    run did. They count neither as success nor as failure, and their latency is unknown. If this share \
                    is large, success and latency look better than they are."))
                (entry("Success", "Committed transactions divided by ended ones: in the window, or (heat maps, if \
                    run_on is zero) in the whole run. The deciding success is that of validated overwrites if there \
                    are any, otherwise that of all."))
                (entry("Throughput", "Commits of the window's transactions, per second of the window."))
                (entry("Commit latency",
                    "From the end of a transaction's own work to the answer that it is committed, for \
                    committed transactions: in the window, or (heat maps, if run_on is zero) in the middle 80 % of \
                    the run."))
                (entry("Usable throughput, knee",
                    "The highest throughput at which the deciding success is above 95 %, among the \
                    simulated loads. The true knee may be higher, between two loads; \u{201c}glidepath knee\u{201d} \
                    searches for it."))
                (entry("Load", "Transactions that arrive per second, as configured, whether or not they commit. \
                    Arrivals do not wait for commits."))
                (entry("Time between arrivals",
                    "The scale of their distribution: its mean or, for \u{201c}lognormal\u{201d}, its \
                    median, which is lower than the mean. The load is computed from the mean."))
                (entry("Retries", "Attempts after the first, of transactions that committed."))
                (entry("Catalog conflict, table conflict",
                    "A failed attempt. Table conflict: something that this transaction writes \
                    has changed. Catalog conflict: only something else has changed."))
                (entry("Means over seeds", "Every number is the mean over the seeds that have a value. Error bars \
                    in charts are one standard deviation (n \u{2212} 1) up and down."))
            }
        }
    }
}

#[cfg(test)]
mod tests;
