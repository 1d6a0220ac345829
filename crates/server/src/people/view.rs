//! The page of a view.

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use glidepath_service::{Identifier, Loaded};
use iceberg::spec::{ViewMetadata, ViewRepresentation};
use maud::{Markup, html};

use super::frame::{Path, page as framed};
use super::overview::{now_ms, reader, signed};
use super::text::{ago, grouped, shortened, utc};
use super::{Fault, Place, schema};
use crate::security::check::Asker;
use crate::state::App;

/// The most characters of a query, and the most dialects.
const MOST_OF_A_QUERY: usize = 20_000;
const MOST_DIALECTS: usize = 10;

pub(super) async fn page(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    Place(view): Place,
) -> Result<Response, Fault> {
    let asked = view.clone();
    let body = app.run(move |service| async move { service.load_view(&asked).await }).await?;
    let content = content(&view, &body);
    Ok(framed(reader(&asker), &Path { namespace: &view.namespace, name: Some(&view.name) }, &content))
}

fn content(view: &Identifier, body: &Loaded<ViewMetadata>) -> Markup {
    let (metadata, now) = (&body.metadata, signed(now_ms()));
    let version = metadata.current_version();
    let changed = version.timestamp_ms();
    html! {
        h1 { bdi { (shortened(&view.name, 200)) } span.kind.view { "view" } }
        @for ViewRepresentation::Sql(query) in version.representations().iter().take(MOST_DIALECTS) {
            h2 { "Query in " (shortened(&query.dialect, 40)) }
            pre { code { (shortened(&query.sql, MOST_OF_A_QUERY)) } }
        }
        div.columns.even {
            section { h2 { "Schema" } (schema::table(metadata.current_schema())) }
            section {
                h2 { "View" }
                dl.facts {
                    div { dt { "version" } dd { (version.version_id()) " of " (grouped(metadata.versions().len() as u64)) } }
                    div { dt { "changed" } dd { (utc(changed)) " UTC, " (ago(now, changed)) } }
                    div { dt { "metadata file" } dd { code { (shortened(&body.location, 400)) } } }
                    div { dt { "UUID" } dd { code { (metadata.uuid()) } } }
                }
            }
        }
    }
}
