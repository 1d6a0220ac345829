//! Views.

use std::collections::{BTreeMap, HashMap};

use ::iceberg::ViewUpdate;
use ::iceberg::spec::{Schema, ViewMetadata, ViewVersion};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use glidepath_service::{Identifier, Loaded, NewView, ViewCommit};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::request::{Asked, InNamespace, Keyed, Named, Names, PageAsked, Rename, Sent, WireName, or_default};
use crate::answer::{Problem, json, with_metadata};
use crate::objects::{object, objects_or_none};
use crate::state::App;

pub(super) async fn list(
    State(app): State<App>,
    InNamespace(parts): InNamespace,
    Asked(asked): Asked<PageAsked>,
) -> Result<Response, Problem> {
    let (found, next) = app.run(move |service| async move { service.list_views(&parts, &asked.page()).await }).await?;
    let identifiers = found.into_iter().map(WireName::from).collect();
    Ok(json(StatusCode::OK, &Names { identifiers, next }))
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Beside<'a> {
    metadata_location: &'a str,
    config: BTreeMap<String, String>,
}

fn loaded(body: &Loaded<ViewMetadata>) -> Response {
    let beside = Beside { metadata_location: &body.location, config: BTreeMap::new() };
    with_metadata(&beside, body.json.clone())
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Create {
    name: String,
    location: Option<String>,
    #[serde(deserialize_with = "object")]
    schema: Schema,
    #[serde(deserialize_with = "object")]
    view_version: ViewVersion,
    #[serde(default, deserialize_with = "or_default")]
    properties: HashMap<String, String>,
}

pub(super) async fn create(
    State(app): State<App>,
    InNamespace(namespace): InNamespace,
    sent: Sent<Create>,
) -> Result<Response, Problem> {
    let Sent { value: Create { name, location, schema, view_version, properties }, key } = sent;
    let identifier = Identifier { namespace, name };
    let new = NewView { identifier, location, schema, version: view_version, properties };
    let body = app.run(move |service| async move { service.create_view(new, key.as_ref()).await }).await?;
    Ok(loaded(&body))
}

pub(super) async fn load(State(app): State<App>, Named(view): Named) -> Result<Response, Problem> {
    Ok(loaded(&app.run(move |service| async move { service.load_view(&view).await }).await?))
}

pub(super) async fn exists(State(app): State<App>, Named(view): Named) -> Result<Response, Problem> {
    app.run(move |service| async move { service.load_view(&view).await }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum Requirement {
    #[serde(rename = "assert-view-uuid")]
    Uuid { uuid: Uuid },
    #[serde(rename = "assert-create")]
    Create,
}

#[derive(Deserialize)]
pub(super) struct Commit {
    #[serde(default, deserialize_with = "objects_or_none")]
    requirements: Vec<Requirement>,
    #[serde(default, deserialize_with = "objects_or_none")]
    updates: Vec<ViewUpdate>,
}

pub(super) async fn commit(
    State(app): State<App>,
    Named(view): Named,
    sent: Sent<Commit>,
) -> Result<Response, Problem> {
    let Sent { value: Commit { requirements, updates }, key } = sent;
    let mut commit = ViewCommit { uuids: Vec::new(), creates: false, updates };
    for requirement in requirements {
        match requirement {
            Requirement::Uuid { uuid } => commit.uuids.push(uuid),
            Requirement::Create => commit.creates = true,
        }
    }
    let body = app.run(move |service| async move { service.commit_view(&view, commit, key.as_ref()).await }).await?;
    Ok(loaded(&body))
}

pub(super) async fn remove(
    State(app): State<App>,
    Named(view): Named,
    Keyed { key, .. }: Keyed,
) -> Result<Response, Problem> {
    app.run(move |service| async move { service.drop_view(&view, key.as_ref()).await }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn rename(State(app): State<App>, sent: Sent<Rename>) -> Result<Response, Problem> {
    let Sent { value: Rename { source, destination }, key } = sent;
    let (from, to) = (source.into(), destination.into());
    app.run(move |service| async move { service.rename_view(&from, &to, key.as_ref()).await }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Register {
    name: String,
    metadata_location: String,
}

pub(super) async fn register(
    State(app): State<App>,
    InNamespace(namespace): InNamespace,
    sent: Sent<Register>,
) -> Result<Response, Problem> {
    let Sent { value: Register { name, metadata_location }, key } = sent;
    app.check_registered(&metadata_location)?;
    let view = Identifier { namespace, name };
    let body = app
        .run(move |service| async move { service.register_view(&view, &metadata_location, key.as_ref()).await })
        .await?;
    Ok(loaded(&body))
}
