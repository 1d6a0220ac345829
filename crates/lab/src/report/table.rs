//! The results of every point, in numbers.

use maud::{Markup, html};

use glidepath_run::statistics::Spread;

use crate::pictures::{Axis, Cell, View, Who, percent, rounded_percent, significant};
use crate::summary::GroupSummary;

/// The section of all results.
pub(super) fn section(view: &View<'_>) -> Markup {
    let kinds = View::kinds(view.cells());
    let count = view.cells().count();
    html! {
        section #results {
            h2 { "Results" }
            p {
                "A row for each point; means over seeds, of the window. A click on a heading sorts by that column. FA: \
                 fast appends, VO: validated overwrites. A dash: none committed, or too few for this percentile."
            }
            details open[count <= 100] {
                summary { (super::counted(count, "point")) }
                div.scroll tabindex="0" {
                    table.sortable {
                        (head(view, &kinds))
                        tbody { @for cell in view.cells() { (row(view, &kinds, cell)) } }
                    }
                }
            }
        }
    }
}

fn short(who: Who) -> &'static str {
    match who {
        Who::All => "All",
        Who::FastAppend => "FA",
        Who::ValidatedOverwrite => "VO",
    }
}

const OF_KIND: [&str; 6] = ["success (%)", "mean (s)", "P50 (s)", "P95 (s)", "P99 (s)", "retries"];

fn head(view: &View<'_>, kinds: &[Who]) -> Markup {
    html! {
        thead { tr {
            @for axis in &view.axes { th scope="col" { (axis.label()) } }
            th scope="col" { "Load (1/s)" }
            th scope="col" { "Throughput (commits/s)" }
            @for who in kinds { @for name in OF_KIND { th scope="col" { (short(*who)) " " (name) } } }
            th scope="col" { "Not ended (%)" }
        } }
    }
}

fn row(view: &View<'_>, kinds: &[Who], cell: &Cell<'_>) -> Markup {
    html! {
        tr {
            @for (axis, &value) in view.axes.iter().zip(&cell.place) { (coordinate(axis, value)) }
            td { (significant(cell.offered_per_s())) }
            td { (significant(cell.throughput_per_s())) }
            @for who in kinds { (of_kind(cell.of(*who))) }
            (number(cell.summary.all.not_ended, &rounded_percent))
        }
    }
}

fn of_kind(group: Option<&GroupSummary>) -> Markup {
    let of = |value: fn(&GroupSummary) -> Option<Spread>| group.and_then(value);
    html! {
        (number(of(|group| group.success), &percent))
        (number(of(|group| group.latency_mean_s), &significant))
        (number(of(|group| group.latency_p50_s), &significant))
        (number(group.and_then(GroupSummary::told_p95_s), &significant))
        (number(group.and_then(GroupSummary::told_p99_s), &significant))
        (number(of(|group| group.retries_mean), &significant))
    }
}

fn number(value: Option<Spread>, written: &dyn Fn(f64) -> String) -> Markup {
    html! {
        @match value {
            Some(spread) => { td { (written(spread.mean)) } }
            None => { td { "\u{2013}" } }
        }
    }
}

/// The cell of a value on an axis, which is sorted by size and not as text.
pub(super) fn coordinate(axis: &Axis, value: usize) -> Markup {
    let tick = axis.ticks().get(value).cloned().unwrap_or_default();
    html! {
        @if axis.is_numeric() {
            td data-sort=[axis.number(value)] { (tick) }
        } @else {
            td.name { (tick) }
        }
    }
}
