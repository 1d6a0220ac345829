//! The page of a table.

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use glidepath_service::{Identifier, Kind, LanceTable, LanceVersion, Loaded, VersionPage};
use iceberg::spec::TableMetadata;
use maud::{Markup, html};

use super::frame::{Path, page as framed};
use super::overview::{now_ms, properties_table, reader, signed};
use super::text::{ago, bytes, grouped, shortened, utc};
use super::{Fault, Place, schema, snapshots};
use crate::security::check::Asker;
use crate::state::App;

/// Beginnings of the names of properties that say how a table is written and read. Others may be anything, also
/// secrets.
const OF_NOTE: [&str; 9] =
    ["write.", "read.", "commit.", "history.", "glidepath.", "schema.name-mapping", "gc.enabled", "comment", "owner"];

/// The most versions of a table of Lance that are shown.
const MOST_VERSIONS: usize = 50;

enum Found {
    Iceberg(Loaded<TableMetadata>),
    /// The versions only if the server orders them.
    Lance(LanceTable, Vec<LanceVersion>, bool),
}

pub(super) async fn page(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    Place(table): Place,
) -> Result<Response, Fault> {
    let asked = table.clone();
    let found = app
        .run(move |service| async move {
            match service.load_table(&asked).await {
                Ok(body) => return Ok(Found::Iceberg(body)),
                Err(error) if error.kind == Kind::NoTable => {}
                Err(error) => return Err(error),
            }
            let table = service.describe_lance(&asked).await?;
            if !table.is_managed() {
                return Ok(Found::Lance(table, Vec::new(), false));
            }
            let page = VersionPage { after: None, size: Some(MOST_VERSIONS) };
            let (versions, next) = service.list_lance_versions(&asked, &page).await?;
            Ok(Found::Lance(table, versions, next.is_some()))
        })
        .await?;
    let waiting = app.service.waiting().into_iter().find(|one| one.table == table).map_or(0, |one| one.commits);
    let content = match &found {
        Found::Iceberg(body) => of_iceberg(&table, body, waiting),
        Found::Lance(lance, versions, more) => of_lance(&table, lance, versions, *more),
    };
    Ok(framed(reader(&asker), &Path { namespace: &table.namespace, name: Some(&table.name) }, &content))
}

fn headline(table: &Identifier, kind: &str) -> Markup {
    html! { h1 { bdi { (shortened(&table.name, 200)) } span class={ "kind " (kind.to_lowercase()) } { (kind) } } }
}

fn fact(name: &str, value: &Markup) -> Markup {
    html! { div { dt { (name) } dd { (value) } } }
}

fn text(value: impl AsRef<str>) -> Markup {
    html! { (value.as_ref()) }
}

fn of_iceberg(table: &Identifier, body: &Loaded<TableMetadata>, waiting: usize) -> Markup {
    let (metadata, now) = (&body.metadata, signed(now_ms()));
    let refs = snapshots::references(&body.json, metadata);
    let columns = metadata.current_schema();
    let summary = metadata.current_snapshot().map(|current| &current.summary().additional_properties);
    let total = |key: &str| summary.and_then(|summary| summary.get(key));
    let size =
        total("total-files-size").and_then(|size| size.parse().ok()).map_or_else(|| "\u{2013}".to_owned(), bytes);
    let updated = metadata.last_updated_ms();
    let properties: BTreeMap<&str, &str> =
        metadata.properties().iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    let of_note: Vec<_> =
        properties.iter().filter(|(key, _)| OF_NOTE.iter().any(|start| key.starts_with(start))).collect();
    let others = properties.len() - of_note.len();
    html! {
        (headline(table, "Iceberg"))
        dl.cards {
            (fact("records in data files", &text(snapshots::value(total("total-records")))))
            @let deletes = snapshots::deletes(["total-position-deletes", "total-equality-deletes"], total);
            @if deletes > 0 { (fact("rows of delete files", &text(grouped(deletes)))) }
            (fact("data files", &text(snapshots::value(total("total-data-files")))))
            (fact("size", &text(size)))
            (fact("snapshots", &text(grouped(metadata.snapshots().len() as u64))))
            (fact("branches and tags", &text(grouped(refs.len() as u64))))
            (fact("commits waiting", &text(grouped(waiting as u64))))
        }
        // Fifty snapshots are taller than a screen.
        @if metadata.snapshots().len() > 10 {
            p.more { a href="#snapshots" { "Snapshots" } " \u{b7} " a href="#schema" { "Schema" } " \u{b7} " a href="#table" { "Table" } }
        }
        (snapshots::section(metadata, &refs, now))
        div.columns.even {
            section { h2 id="schema" { "Schema" } (schema::table(columns)) }
            section {
                h2 id="table" { "Table" }
                dl.facts {
                    (fact("updated", &html! { (utc(updated)) " UTC, " (ago(now, updated)) }))
                    (fact("format", &html! { "version " (metadata.format_version() as u8) }))
                    (fact("partitions", &text(schema::partitioning(metadata.default_partition_spec(), columns))))
                    (fact("order", &text(schema::order(metadata.default_sort_order(), columns))))
                    (fact("location", &html! { code { (shortened(metadata.location(), 400)) } }))
                    (fact("metadata file", &html! { code { (shortened(&body.location, 400)) } }))
                    (fact("UUID", &html! { code { (metadata.uuid()) } }))
                }
                h2 { "Properties" }
                (properties_table(of_note.iter().map(|(key, value)| (**key, **value))))
                @if others > 0 {
                    p.none { "And " (grouped(others as u64)) " that say nothing of how the table is read and written." }
                }
            }
        }
    }
}

fn of_lance(table: &Identifier, lance: &LanceTable, versions: &[LanceVersion], more: bool) -> Markup {
    let now = signed(now_ms());
    let at = |version: &LanceVersion| version.at_ms.map(signed);
    html! {
        (headline(table, "Lance"))
        dl.facts {
            (fact("location", &html! { code { (shortened(&lance.location, 400)) } }))
            (fact("commits ordered by", &text(if lance.is_managed() { "this catalog" } else { "the store" })))
        }
        h2 { "Versions" }
        @if !lance.is_managed() {
            p.none { "The catalog keeps the name and the folder of this table; its versions are known to Lance's clients." }
        } @else if versions.is_empty() { p.none { "Nothing has been written yet." } }
        @else {
            div.scroll { table.counts {
                thead { tr { th.number { "version" } th { "manifest" } th { "created (UTC)" } } }
                tbody {
                    @for version in versions {
                        tr {
                            td.number { (version.version) }
                            td { code { (shortened(&version.path, 200)) } }
                            td { @if let Some(at) = at(version) { (utc(at)) ", " (ago(now, at)) } }
                        }
                    }
                }
            } }
            @if more { p.none { "The newest " (versions.len()) " versions; older ones are not shown." } }
        }
        h2 { "Properties" }
        (properties_table(lance.properties.iter().map(|(key, value)| (key.as_str(), value.as_str()))))
    }
}
