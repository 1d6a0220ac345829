//! The page at `/`, and the pages of namespaces.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use glidepath_access::Right;
use glidepath_env::Env;
use glidepath_service::{ConflictOn, Counts, Namespace, ServiceError, Waiting};
use glidepath_stores::LiveEnv;
use maud::{Markup, html};

use super::chart::chart;
use super::frame::{Path, Reader, page};
use super::text::{grouped, lasted, link, object_path, shortened, utc};
use super::tree::tree;
use super::{Asked, Fault, Place};
use crate::security::check::{Asker, may_read, right_on, told_properties};
use crate::state::App;

/// The most tables with waiting commits that are shown, and that are looked at.
const MOST_WAITING: usize = 20;
const MOST_WAITING_LOOKED: usize = 100;

/// The most properties of a namespace that are shown.
const MOST_PROPERTIES: usize = 50;

/// The time, in milliseconds since 1970.
pub(super) fn now_ms() -> u64 {
    LiveEnv::new().unix_ms()
}

pub(super) fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}

pub(super) fn reader(asker: &Asker) -> Reader<'_> {
    if asker.0.is_unchecked() { Reader::Anybody } else { Reader::Named(asker.0.name()) }
}

async fn reads(app: &App, asker: &Asker, on: &[String]) -> Result<bool, ServiceError> {
    Ok(asker.0.is_unchecked() || right_on(app, asker, on, Right::Read).await? >= Some(Right::Read))
}

pub(super) async fn root(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    asked: Asked,
) -> Result<Response, Fault> {
    let reads_all = reads(&app, &asker, &[]).await?;
    let first = asked.after.is_none();
    let levels = {
        let (asker, grants) = (asker.clone(), app.gate.access.grants());
        app.run(move |service| async move {
            let filter: Option<glidepath_service::Filter> = match reads_all {
                true => None,
                false => Some(Box::new(move |path: &[String], properties: &BTreeMap<String, String>| {
                    may_read(&asker, &grants, path, properties)
                })),
            };
            service.browse(&[], asked.after, filter).await
        })
        .await?
    };
    let waiting = readable_waiting(&app, &asker).await?;
    let (protocol, store) = &*app.about;
    let content = html! {
        div.columns {
            section.catalog {
                h2 { "Namespaces and tables" }
                @if reads_all { p.about { (protocol) " in " (store) } }
                (tree(&[], &levels, first))
            }
            div {
                @if reads_all { (activity(&app)) }
                @else {
                    p.none { "Counts of the whole server are shown to those who may read the whole catalog." }
                }
                (waits(&waiting, reads_all))
            }
        }
    };
    Ok(page(reader(&asker), &Path { namespace: &[], name: None }, &content))
}

/// What the server has done.
fn activity(app: &App) -> Markup {
    let (counts, now) = (app.service.counts(), now_ms());
    app.recent.note(&counts, now);
    let started = app.recent.started_ms;
    let read = |counter: &std::sync::atomic::AtomicU64| grouped(counter.load(Ordering::Relaxed));
    let bars = app.recent.bars(now);
    html! {
        section {
            h2 { "Commits" }
            dl.cards {
                div { dt { "committed" } dd { (read(&counts.committed)) } }
                div { dt { "conflicts" } dd { (read(&counts.conflicts)) } }
                div { dt { "waiting now" } dd { (read(&counts.waiting)) } }
                div { dt { "requests now" } dd { (grouped(app.gate.running() as u64)) } }
                div { dt { "running for" } dd { (lasted(signed(now.saturating_sub(started)))) } }
            }
            (chart(&bars))
            p.legend {
                span.good {} "committed"
                span.refused {} "conflict"
                span.unknown {} "outcome unknown"
                span.unit { "per " (bars.width_ms / 1000) " s" }
            }
            p.note {
                "Of this server since its start at " (utc(signed(started))) " UTC. Other servers of the catalog count their own."
            }
        }
        (conflicts(&counts))
    }
}

/// Conflicts by kind, and what else happens when commits meet.
fn conflicts(counts: &Counts) -> Markup {
    let words = |on| match on {
        ConflictOn::Branch => "the branch or tag had moved",
        ConflictOn::Schema => "the schema had changed",
        ConflictOn::Layout => "partitioning or order had changed",
        ConflictOn::Table => "the table was created, dropped or replaced",
        ConflictOn::Version => "the version of a Lance table was taken",
        ConflictOn::Other => "another reason",
    };
    let read = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
    let others = [
        ("rebased", "committed onto a newer snapshot instead", read(&counts.rebased)),
        ("overtaken", "another server came first; tried again", read(&counts.overtaken)),
        ("held", "waited for an overwrite that had conflicted", read(&counts.held)),
        ("unknown", "the outcome could not be told", read(&counts.unknown)),
        ("repeated", "sent again, and answered as the first time", read(&counts.replayed)),
    ];
    html! {
        section {
            h2 { "What commits met" }
            table.counts {
                thead { tr { th { "kind" } th { "what happened" } th.number { "commits" } } }
                tbody {
                    @for on in ConflictOn::ALL {
                        @let amount = counts.conflicts_on(on);
                        @if amount > 0 || on == ConflictOn::Branch {
                            tr { td { span.refused {} "refused" } td { (words(on)) } td.number { (grouped(amount)) } }
                        }
                    }
                    @for (kind, words, amount) in others {
                        tr.quiet[amount == 0] { td { (kind) } td { (words) } td.number { (grouped(amount)) } }
                    }
                }
            }
        }
    }
}

/// The tables with waiting commits that the client may read.
async fn readable_waiting(app: &App, asker: &Asker) -> Result<Vec<Waiting>, ServiceError> {
    let mut busy = app.service.waiting();
    // A right on a namespace may be a request to the store, so not for any number of them.
    busy.truncate(MOST_WAITING_LOOKED);
    let spaces: BTreeSet<_> = busy.iter().map(|one| one.table.namespace.clone()).collect();
    let mut readable = BTreeSet::new();
    for space in spaces {
        if reads(app, asker, &space).await? {
            readable.insert(space);
        }
    }
    busy.retain(|one| readable.contains(&one.table.namespace));
    Ok(busy)
}

fn waits(waiting: &[Waiting], reads_all: bool) -> Markup {
    html! {
        section {
            h2 { "Tables with waiting commits" }
            @if waiting.is_empty() { p.none { "No commit waits for a table." } }
            @else {
                table.counts {
                    thead { tr { th { "table" } th.number { "commits" } th.number { "in the queue" } } }
                    tbody {
                        @for one in waiting.iter().take(MOST_WAITING) {
                            tr {
                                td { (linked(one)) }
                                td.number { (grouped(one.commits as u64)) }
                                td.number { (grouped(one.queued as u64)) }
                            }
                        }
                    }
                }
                @if waiting.len() > MOST_WAITING && reads_all {
                    p.none { "The " (MOST_WAITING) " tables with the most waiting commits; there are more." }
                }
                p.note { "Commits that are not answered yet, and those of them that nobody has begun to commit." }
            }
        }
    }
}

fn linked(one: &Waiting) -> Markup {
    let parts: Vec<_> = one.table.namespace.iter().chain([&one.table.name]).map(String::as_str).collect();
    link(&object_path(&one.table, "tables"), &shortened(&parts.join(" / "), 80))
}

pub(super) async fn namespace(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    Place(place): Place,
    asked: Asked,
) -> Result<Response, Fault> {
    let parts = place.namespace;
    let first = asked.after.is_none();
    let path = parts.clone();
    let (found, levels) = app
        .run(move |service| async move {
            let found = service.load_namespace(&path).await?;
            Ok((found, service.browse(&path, asked.after, None).await?))
        })
        .await?;
    let Namespace { properties, .. } = told_properties(&app, &asker, found).await?;
    let waiting = app.service.waiting();
    let waiting: Vec<_> = waiting.into_iter().filter(|one| one.table.namespace.starts_with(&parts)).collect();
    let content = html! {
        h1 { bdi { (shortened(parts.last().map_or("", String::as_str), 200)) } span.kind.namespace { "namespace" } }
        div.columns {
            section.catalog { (tree(&parts, &levels, first)) }
            div {
                (waits(&waiting, true))
                section {
                    h2 { "Properties" }
                    (properties_table(properties.iter().map(|(key, value)| (key.as_str(), value.as_str()))))
                }
            }
        }
    };
    Ok(page(reader(&asker), &Path { namespace: &parts, name: None }, &content))
}

/// Properties by name, so many as a page can hold.
pub(super) fn properties_table<'a>(properties: impl ExactSizeIterator<Item = (&'a str, &'a str)>) -> Markup {
    let rest = properties.len().saturating_sub(MOST_PROPERTIES);
    html! {
        @if properties.len() == 0 { p.none { "None." } }
        @else {
            div.scroll { table.properties { tbody {
                @for (key, value) in properties.take(MOST_PROPERTIES) {
                    tr {
                    th scope="row" { (shortened(key, 120)) }
                    td { @if is_secret(key) { span.none { "not shown" } } @else { (shortened(value, 400)) } }
                }
                }
            } } }
            @if rest > 0 { p.none { "And " (grouped(rest as u64)) " more." } }
        }
    }
}

/// Whether the value of a property may be a secret, by its name. Clients that may read the table get it by the
/// protocol; a page may be looked at over a shoulder.
fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    ["secret", "token", "password", "credential", "access-key", "account-key", "private-key", "sas"]
        .iter()
        .any(|word| key.contains(word))
}
