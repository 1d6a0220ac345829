//! What limits the knee, in words?

use glidepath_lab::knee::{Bottleneck, Factor, Relief, Resource};
use glidepath_point::Point;

use super::Found;
use super::report::{NOT_KNOWN, nothing_to_compare_with, time};

/// The limiting resource, in words.
pub(super) fn bound(bottleneck: &Bottleneck, found: &Found) -> String {
    if let Some(why) = nothing_to_compare_with(&found.answer.knee) {
        return format!("{NOT_KNOWN}, because {why}");
    }
    if let Some(resource) = bottleneck.binds {
        return name(resource).to_owned();
    }
    if !bottleneck.is_open() {
        return "nothing alone".to_owned();
    }
    let candidate = |relief: &Relief| format!("{} ({})", name(relief.resource), effect(relief));
    let tried: Vec<String> = bottleneck.candidates().map(candidate).collect();
    let untried: Vec<&str> = bottleneck.undecided.iter().map(|resource| name(*resource)).collect();
    let of = match (&tried[..], &untried[..]) {
        ([], _) => return format!("{NOT_KNOWN} within this --budget ({})", found.more()),
        (tried, []) => tried.join(", or "),
        (tried, untried) => format!("{}; not tried to the end: {}", tried.join(", or "), untried.join(", ")),
    };
    format!("not decided within this --budget ({}): {of}", found.more())
}

/// What a relief does to the knee.
fn effect(relief: &Relief) -> String {
    let seen = if relief.factor.no_difference_seen() { ", no difference seen" } else { "" };
    let factor = match relief.factor {
        Factor::Found { value, .. } => format!("x{value:.1}"),
        Factor::AtLeast(value) => format!("at least x{value:.1}"),
        Factor::AtMost(value) => format!("at most x{value:.1}"),
        Factor::Unknown => NOT_KNOWN.to_owned(),
    };
    factor + seen
}

/// What limits the knee, and the evidence.
pub(super) fn text(point: &Point, bottleneck: &Bottleneck, found: &Found) -> String {
    let measured = &bottleneck.measured;
    let percent = |share: f64| format!("{:.0} %", 100.0 * share);
    let relief = |relief: &Relief| format!("{} {}", without(relief.resource, point), effect(relief));
    let unknown = |resource: &Resource| format!("{} {NOT_KNOWN}", without(*resource, point));
    let reliefs = bottleneck.reliefs.iter().map(relief).chain(bottleneck.undecided.iter().map(unknown));
    let reliefs = match nothing_to_compare_with(&found.answer.knee) {
        None => format!("\n  The knee with {}.", reliefs.collect::<Vec<_>>().join("; with ")),
        Some(_) => String::new(),
    };
    let gave_up = match (measured.gave_up_table_conflicts_mean, measured.gave_up_catalog_conflicts_mean) {
        (Some(tables), Some(catalog)) => format!(
            "; transactions that ran out of retries met {tables:.1} commits to their tables and {catalog:.1} commits \
             elsewhere"
        ),
        _ => String::new(),
    };
    let unseen = match measured.unseen_conflict_share {
        share if share > 0.0 => {
            format!(", {} are the last before giving up, which read no more of what they met", percent(share))
        }
        _ => String::new(),
    };
    let refused = match measured.refused_share {
        share if share > 0.0 => format!(", {} are refused by the store", percent(share)),
        _ => String::new(),
    };
    format!(
        "What limits it: {}.{reliefs}\n  Attempts per transaction {:.2}: {} meet a commit to their \
         table, {} a commit elsewhere in the catalog{unseen}{refused}{gave_up}.\n  In flight on average, of those \
         that win: {:.2} preparations with their installs for the busiest table ({} each), {:.2} installs in the catalog \
         ({} each).\n  Time to commit: \
         {} preparing, {} reading after conflicts, {} installing, {} reading the catalog, {} waiting.\n  An install \
         counts until its answer. Others can commit from its effect on, so the longest part need not be what limits.",
        bound(bottleneck, found),
        measured.attempts_mean,
        percent(measured.table_conflict_share),
        percent(measured.catalog_conflict_share),
        measured.winning_passes_in_flight,
        time(measured.pass_mean_s),
        measured.winning_installs_in_flight,
        time(measured.install_mean_s),
        percent(measured.prepare_time_share),
        percent(measured.conflict_read_time_share),
        percent(measured.install_time_share),
        percent(measured.catalog_read_time_share),
        percent(measured.backoff_time_share),
    )
}

fn name(resource: Resource) -> &'static str {
    match resource {
        Resource::TableMetadata => "reading and writing table metadata with each attempt",
        Resource::Catalog => "reading and replacing the catalog",
        Resource::History => "reading the history that validated overwrites missed",
        Resource::RealConflicts => "real conflicts",
        Resource::Retries => "the number of retries",
    }
}

fn without(resource: Resource, point: &Point) -> &'static str {
    match resource {
        Resource::TableMetadata => "no table metadata I/O",
        Resource::Catalog => "a catalog that takes no time",
        Resource::History => "all history read at once",
        Resource::RealConflicts => "no real conflicts",
        Resource::Retries if point.config.retry.retries == 0 => "one retry instead of none",
        Resource::Retries => "twice the retries",
    }
}
