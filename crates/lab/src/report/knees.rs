//! The report of the knees of a sweep.

use std::path::Path;

use glidepath_page::document;
use glidepath_point::MODEL_VERSION;
use maud::{Markup, html};

use super::gallery::Gallery;
use super::{REPORT, ReportError, configuration, counted};
use crate::experiment::{Experiment, ONE_LOAD};
use crate::knee::{Bound, KindAtKnee, Knee, KneeOptions};
use crate::pictures::{Drawn, View, percent, plain, seconds, significant};
use crate::schema::Provenance;
use crate::setting;

/// Writes the report into a folder, as [`REPORT`]. `pictures` are those planned for it.
///
/// # Errors
/// The file cannot be written.
pub fn write_knees(
    folder: &Path,
    experiment: &Experiment,
    (knees, options): (&[Knee], &KneeOptions),
    pictures: &[Drawn],
    provenance: &Provenance,
) -> Result<(), ReportError> {
    let path = folder.join(REPORT);
    let page = knees_page(experiment, (knees, options), pictures, provenance);
    std::fs::write(&path, page).map_err(|source| ReportError { path, source })
}

/// The report as HTML: one knee for each point of the experiment, in order, with the options of the search. Equal
/// arguments give equal bytes.
#[must_use]
pub fn knees_page(
    experiment: &Experiment,
    (knees, options): (&[Knee], &KneeOptions),
    pictures: &[Drawn],
    provenance: &Provenance,
) -> String {
    let view = View::of(experiment, knees);
    let title = match experiment.title.as_str() {
        ONE_LOAD => "The knee at each point".to_owned(),
        title => format!("Knees: {title}"),
    };
    let facts = html! {
        p.facts {
            (counted(knees.len(), "knee")) ", one for each point of the experiment " strong { (experiment.name) }
            " without its loads. " (setting::without_load(experiment)) ". Model version " (MODEL_VERSION)
            ", revision " (provenance.git_revision) "."
        }
    };
    let body = html! {
        (super::header(&title, experiment, &facts))
        main {
            (findings(&view))
            (Gallery::new(pictures).markup())
            (table(&view))
            (configuration::section(experiment, provenance))
            (definitions(knees, options))
        }
    };
    document(&title, &body)
}

fn findings(view: &View<'_, Knee>) -> Markup {
    let held = || view.cells().filter(|cell| cell.summary.bound != Bound::NothingHolds);
    let [found, bounds] = [false, true]
        .map(|is_lower| held().filter(|cell| cell.summary.bound.is_lower() == is_lower).collect::<Vec<_>>());
    let by_rate = |a: &&&_, b: &&&_| rate_of(a).total_cmp(&rate_of(b));
    let all = view.axes_without(&[]);
    let words = |cell: &crate::pictures::Cell<'_, Knee>| {
        let places = all.iter().map(|&axis| view.axes[axis].phrase(cell.place[axis]));
        places.collect::<Vec<_>>().join(", ")
    };
    let with_place = |cell: &crate::pictures::Cell<'_, Knee>| {
        let place = Some(words(cell)).filter(|words| !words.is_empty()).map(|words| format!(" ({words})"));
        format!("{}{}", with_interval(cell.summary), place.unwrap_or_default())
    };
    let mut sentences = Vec::new();
    // Any of the others may be above or below.
    let which = if bounds.is_empty() { "knee" } else { "of the knees that were found" };
    let ends = [("highest", found.iter().max_by(by_rate)), ("lowest", found.iter().min_by(by_rate))];
    for (what, cell) in ends.into_iter().take(found.len()) {
        sentences.extend(cell.map(|cell| format!("The {what} {which} is {}.", with_place(cell))));
    }
    if let Some(best) = bounds.iter().max_by(by_rate) {
        let all = view.cells().count();
        sentences.push(format!(
            "{} of {all} are lower bounds, because no load was known to fail; the highest of these is {}. A larger --budget \
             may find them.",
            bounds.len(),
            with_place(best)
        ));
    }
    let none = view.cells().count() - held().count();
    if none > 0 {
        sentences.push(format!("{none} of {} settings have no load that holds.", view.cells().count()));
    }
    html! {
        section #findings {
            h2 { "Findings" }
            ul.findings { @for sentence in sentences { li { (sentence) } } }
        }
    }
}

fn rate_of(cell: &crate::pictures::Cell<'_, Knee>) -> f64 {
    cell.summary.knee_commits_per_s
}

fn with_interval(knee: &Knee) -> String {
    let least = if knee.bound.is_lower() { "at least " } else { "" };
    let interval = knee.knee_interval_commits_per_s;
    let interval =
        interval.map(|[low, high]| format!(", {} to {} with 95 % confidence", significant(low), significant(high)));
    format!("{least}{} commits per second{}", significant(knee.knee_commits_per_s), interval.unwrap_or_default())
}

const OF_KIND: [&str; 4] = ["success (%)", "P50 (s)", "P95 (s)", "P99 (s)"];

fn table(view: &View<'_, Knee>) -> Markup {
    let overwrites = view.cells().any(|cell| cell.summary.validated_overwrite.is_some());
    html! {
        section #results {
            h2 { "Results" }
            p { "A row for each setting. A click on a heading sorts by that column. VO: validated overwrites." }
            div.scroll tabindex="0" {
                table.sortable {
                    thead { tr {
                        @for axis in &view.axes { th scope="col" { (axis.label()) } }
                        th scope="col" { "Knee (commits/s)" }
                        th scope="col" { "95 % from" }
                        th scope="col" { "to" }
                        @for name in OF_KIND { th scope="col" { "All " (name) } }
                        @if overwrites { @for name in OF_KIND { th scope="col" { "VO " (name) } } }
                        th scope="col" { "Not ended (%)" }
                        th scope="col" { "Simulated (h)" }
                    } }
                    tbody { @for cell in view.cells() { tr {
                        @for (axis, &value) in view.axes.iter().zip(&cell.place) { (super::table::coordinate(axis, value)) }
                        (row(cell.summary, overwrites))
                    } } }
                }
            }
        }
    }
}

fn row(knee: &Knee, overwrites: bool) -> Markup {
    let sign = if knee.bound.is_lower() { "\u{2265} " } else { "" };
    let end = |index: usize| knee.knee_interval_commits_per_s.map(|interval| interval[index]);
    html! {
        @if knee.bound == Bound::NothingHolds {
            td data-sort="-1" { "none" }
        } @else {
            td data-sort=(knee.knee_commits_per_s) { (sign) (significant(knee.knee_commits_per_s)) }
        }
        (number(end(0), &significant))
        (number(end(1), &significant))
        (kind(Some(&knee.all)))
        @if overwrites { (kind(knee.validated_overwrite.as_ref())) }
        (number(knee.all.not_ended, &percent))
        td { (plain((knee.simulated_s / 360.0).round() / 10.0)) }
    }
}

fn kind(kind: Option<&KindAtKnee>) -> Markup {
    html! {
        (number(kind.and_then(|kind| kind.success), &percent))
        (number(kind.and_then(|kind| kind.latency_p50_s), &significant))
        (number(kind.and_then(|kind| kind.latency_p95_s), &significant))
        (number(kind.and_then(|kind| kind.latency_p99_s), &significant))
    }
}

fn number(value: Option<f64>, written: &dyn Fn(f64) -> String) -> Markup {
    html! {
        @match value {
            Some(value) => { td data-sort=(value) { (written(value)) } }
            None => { td { "\u{2013}" } }
        }
    }
}

fn definitions(knees: &[Knee], options: &KneeOptions) -> Markup {
    let KneeOptions { threshold, tolerance, commit_within, .. } = *options;
    let run = knees.iter().map(|knee| knee.run_duration_s).fold(0.0, f64::max);
    html! {
        section #definitions {
            h2 { "How numbers are defined" }
            dl {
                dt { "Knee, usable throughput" }
                dd {
                    "Commits per second at the load at which " (plain(100.0 * threshold))
                    " % of the deciding transactions succeed: of the validated overwrites if there are any, otherwise \
                     of all. "
                    @if let Some(most) = commit_within {
                        "A commit counts as failed unless it lands within " (most.to_string()) ". "
                    }
                    "A bisection over loads finds the highest that held and the lowest that failed; a curve \
                     through the successes of the loads near them gives the knee. The other figures of a row are \
                     those of the highest load that held. The bracket around the load is at most "
                    (plain(100.0 * tolerance)) " %."
                }
                dt { "95 % from, to" }
                dd {
                    "An interval that contains the knee with 95 % confidence. It comes from the spread between parts \
                     of the runs (delete-one jackknife) and the distance between the loads that held and failed. It \
                     covers the error of the simulation, not how well its profile fits a store."
                }
                dt { "\u{2265}" }
                dd { "No simulated load failed: the knee is higher." }
                dt { "Success, latency" }
                dd {
                    "Of the transactions that arrived in the middle half of a run (of at most " (seconds(run))
                    ") and ended before it did; latency from the end of a transaction\u{2019}s own work to the answer \
                     that it is committed."
                }
                dt { "Simulated" } dd { "Virtual time of all runs of the search." }
                dt { "arrivals.scale" }
                dd { "The search varied it; the value in the configuration above was not used." }
            }
        }
    }
}
