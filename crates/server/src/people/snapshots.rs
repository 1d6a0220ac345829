//! The snapshots of a table: a graph with a row for each, newest first.

use std::collections::BTreeMap;

use iceberg::spec::{Operation, SnapshotRef, SnapshotReference, TableMetadata};
use maud::{Markup, html};
use serde::Deserialize;

use super::graph::{Line, Node, Row, rows};
use super::text::{ago, counted, grouped, shortened, utc};

/// The most snapshots that are shown.
pub(super) const MOST: usize = 50;

/// The most branches and tags that are shown at one snapshot, and of those whose snapshots are not shown.
const MOST_LABELS: usize = 5;
const MOST_OTHER_LABELS: usize = 30;

/// The most lanes that have a place of their own.
const MOST_LANES: usize = 12;

/// The size of the drawing of a row, and the distance of lanes.
const HEIGHT: usize = 40;
const MIDDLE: usize = HEIGHT / 2;
const LANE: usize = 16;

/// Branches and tags, by name. The crate `iceberg` does not list them.
#[derive(Deserialize)]
struct Named {
    #[serde(default)]
    refs: BTreeMap<String, SnapshotReference>,
}

/// The branches and tags of a table, from its metadata as JSON.
pub(super) fn references(json: &[u8], metadata: &TableMetadata) -> BTreeMap<String, SnapshotReference> {
    // It was decoded before, with the same fields.
    let mut refs = serde_json::from_slice::<Named>(json).map(|named| named.refs).unwrap_or_default();
    if let Some(current) = metadata.current_snapshot_id() {
        let retention = iceberg::spec::SnapshotRetention::branch(None, None, None);
        refs.entry("main".to_owned()).or_insert_with(|| SnapshotReference::new(current, retention));
    }
    refs
}

/// The section of the page of a table.
pub(super) fn section(metadata: &TableMetadata, refs: &BTreeMap<String, SnapshotReference>, now_ms: i64) -> Markup {
    let mut all: Vec<&SnapshotRef> = metadata.snapshots().collect();
    let order = |one: &&SnapshotRef| std::cmp::Reverse((one.sequence_number(), one.timestamp_ms(), one.snapshot_id()));
    all.sort_by_key(order);
    let nodes: Vec<Node> =
        all.iter().map(|one| Node { id: one.snapshot_id(), parent: one.parent_snapshot_id() }).collect();
    let rows = rows(&nodes, metadata.current_snapshot_id(), MOST);
    let lanes = rows.iter().map(widest).max().unwrap_or(0).min(MOST_LANES - 1) + 1;
    let mut labels: BTreeMap<i64, Vec<(&str, bool)>> = BTreeMap::new();
    for (name, one) in refs {
        labels.entry(one.snapshot_id).or_default().push((name, one.is_branch()));
    }
    let older = all.len().saturating_sub(MOST);
    html! {
        h2 id="snapshots" { "Snapshots" }
        @if all.is_empty() { p.none { "The table has no snapshot: nothing has been written to it." } }
        @else {
            div.scroll { table.graph {
                thead { tr {
                    th { span.hidden { "graph" } } th { "snapshot" } th { "operation" } th.number { "records added" }
                    th.number { "records removed" } th.number { "records in all" } th.number { "files added" }
                    th.number { "files in all" }
                    th.number { "committed (UTC)" } th {}
                } }
                tbody {
                    @for (snapshot, row) in all.iter().zip(&rows) {
                        @let labels = labels.get(&snapshot.snapshot_id()).map_or(&[][..], Vec::as_slice);
                        @let is_current = metadata.current_snapshot_id() == Some(snapshot.snapshot_id());
                        tr.current[is_current] { td.drawing { (drawing(row, lanes, is_current)) } (cells(snapshot, labels, now_ms)) }
                    }
                }
            } }
            @if older > 0 {
                p.none { "The newest " (MOST) " of " (counted(all.len(), "snapshot")) "; " (grouped(older as u64)) " more are older." }
            }
            (elsewhere(refs, &all))
        }
    }
}

fn widest(row: &Row) -> usize {
    let lanes = row.lines.iter().filter_map(|line| match line {
        Line::Through(lane) | Line::Into(lane) => Some(*lane),
        Line::Down | Line::Lost => None,
    });
    lanes.chain([row.lane]).max().unwrap_or(0)
}

fn x(lane: usize) -> usize {
    LANE / 2 + 2 + lane.min(MOST_LANES - 1) * LANE
}

fn drawing(row: &Row, lanes: usize, is_current: bool) -> Markup {
    let own = x(row.lane);
    let path = |line: &Line| match line {
        Line::Through(lane) => (*lane, format!("M{0} 0V{HEIGHT}", x(*lane))),
        Line::Into(lane) if x(*lane) == own => (*lane, format!("M{own} 0V{MIDDLE}")),
        Line::Into(lane) => (*lane, format!("M{0} 0C{0} {MIDDLE} {own} 4 {own} {MIDDLE}", x(*lane))),
        Line::Down => (row.lane, format!("M{own} {MIDDLE}V{HEIGHT}")),
        Line::Lost => (row.lane, format!("M{own} {MIDDLE}V{}", HEIGHT - 4)),
    };
    html! {
        svg viewBox={ "0 0 " (lanes * LANE + 4) " " (HEIGHT) } aria-hidden="true" {
            @for line in &row.lines {
                @let (lane, d) = path(line);
                // One attribute: a browser ignores the second of two.
                path class={ "lane" (lane % 6) @if *line == Line::Lost { " lost" } } d=(d) {}
            }
            circle class={ "lane" (row.lane % 6) } cx=(own) cy=(MIDDLE) r=(if is_current { 6 } else { 4 }) {}
        }
    }
}

fn cells(snapshot: &SnapshotRef, labels: &[(&str, bool)], now_ms: i64) -> Markup {
    let summary = &snapshot.summary().additional_properties;
    let operation = match snapshot.summary().operation {
        Operation::Append => "append",
        Operation::Replace => "replace",
        Operation::Overwrite => "overwrite",
        Operation::Delete => "delete",
    };
    html! {
        td {
            code { (snapshot.snapshot_id()) }
            @for (name, is_branch) in labels.iter().take(MOST_LABELS) { (label(name, *is_branch)) }
            @if labels.len() > MOST_LABELS { span.none { "and " (labels.len() - MOST_LABELS) " more" } }
        }
        td { span class={ "operation " (operation) } { (operation) } }
        td.number { (value(summary.get("added-records"))) }
        td.number {
            (value(summary.get("deleted-records")))
            @let deletes = deletes(["added-position-deletes", "added-equality-deletes"], |key| summary.get(key));
            @if deletes > 0 { " + " (grouped(deletes)) " in delete files" }
        }
        @for key in ["total-records", "added-data-files", "total-data-files"] { td.number { (value(summary.get(key))) } }
        td.number { (utc(snapshot.timestamp_ms())) }
        td.ago { (ago(now_ms, snapshot.timestamp_ms())) }
    }
}

/// The rows of delete files. Each stands for a record by its position, or for any number of them by their values.
pub(super) fn deletes<'a>(keys: [&str; 2], of: impl Fn(&str) -> Option<&'a String>) -> u64 {
    let numbers = keys.iter().filter_map(|key| of(key)?.parse::<u64>().ok());
    numbers.fold(0, u64::saturating_add)
}

/// A number of a summary. Clients write summaries, so it may be anything.
pub(super) fn value(text: Option<&String>) -> String {
    match text.map(|text| (text, text.parse::<u64>())) {
        None => "\u{2013}".to_owned(),
        Some((_, Ok(number))) => grouped(number),
        Some((text, Err(_))) => shortened(text, 20),
    }
}

fn label(name: &str, is_branch: bool) -> Markup {
    let kind = if is_branch { "branch" } else { "tag" };
    html! { span class={ "label " (kind) } title=(kind) { bdi { (shortened(name, 40)) } } }
}

/// Branches and tags whose snapshots are not among the shown ones.
fn elsewhere(refs: &BTreeMap<String, SnapshotReference>, all: &[&SnapshotRef]) -> Markup {
    let mut shown: Vec<i64> = all.iter().take(MOST).map(|one| one.snapshot_id()).collect();
    shown.sort_unstable();
    let others: Vec<_> = refs.iter().filter(|(_, one)| shown.binary_search(&one.snapshot_id).is_err()).collect();
    html! {
        @if !others.is_empty() {
            p.labels {
                "At older snapshots: "
                @for (name, one) in others.iter().take(MOST_OTHER_LABELS) { (label(name, one.is_branch())) " " }
                @if others.len() > MOST_OTHER_LABELS { "and " (grouped((others.len() - MOST_OTHER_LABELS) as u64)) " more" }
            }
        }
    }
}
