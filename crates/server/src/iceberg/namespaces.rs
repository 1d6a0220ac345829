//! Namespaces.

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use glidepath_service::{Namespace, NamespaceChange};
use serde::{Deserialize, Serialize};

use super::request::{Asked, InNamespace, Keyed, PageAsked, Sent, or_default, parts};
use crate::answer::{Problem, json};
use crate::security::check::{Asker, readable_namespaces, told_properties};
use crate::state::App;

#[derive(Serialize)]
struct Listed {
    namespaces: Vec<Vec<String>>,
    #[serde(rename = "next-page-token")]
    next: Option<String>,
}

pub(super) async fn list(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    Asked(asked): Asked<PageAsked>,
) -> Result<Response, Problem> {
    let parent = parts(asked.parent.as_deref().unwrap_or_default());
    let (namespaces, next) = readable_namespaces(&app, asker, parent, asked.page()).await?;
    Ok(json(StatusCode::OK, &Listed { namespaces, next }))
}

#[derive(Serialize, Deserialize)]
pub(super) struct WireNamespace {
    namespace: Vec<String>,
    #[serde(default, deserialize_with = "or_default")]
    properties: BTreeMap<String, String>,
}

impl WireNamespace {
    /// With the location in which new tables get their folders, if it has not said one itself: Trino asks for it.
    fn located(mut self, app: &App) -> Self {
        if !self.properties.contains_key("location") {
            let folder = app.service.folder_of_namespace(&self.namespace);
            self.properties.insert("location".to_owned(), folder);
        }
        self
    }
}

pub(super) async fn create(State(app): State<App>, sent: Sent<WireNamespace>) -> Result<Response, Problem> {
    let Sent { value: wire, key } = sent;
    let namespace = Namespace { parts: wire.namespace.clone(), properties: wire.properties.clone() };
    app.run(move |service| async move { service.create_namespace(&namespace, key.as_ref()).await }).await?;
    Ok(json(StatusCode::OK, &wire.located(&app)))
}

pub(super) async fn load(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    InNamespace(parts): InNamespace,
) -> Result<Response, Problem> {
    let found = app.run(move |service| async move { service.load_namespace(&parts).await }).await?;
    let Namespace { parts: namespace, properties } = told_properties(&app, &asker, found).await?;
    Ok(json(StatusCode::OK, &WireNamespace { namespace, properties }.located(&app)))
}

pub(super) async fn exists(State(app): State<App>, InNamespace(parts): InNamespace) -> Result<Response, Problem> {
    app.run(move |service| async move { service.load_namespace(&parts).await }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn remove(
    State(app): State<App>,
    InNamespace(parts): InNamespace,
    Keyed { key, .. }: Keyed,
) -> Result<Response, Problem> {
    app.run(move |service| async move { service.drop_namespace(&parts, key.as_ref()).await }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[derive(Deserialize)]
pub(super) struct Change {
    #[serde(default, deserialize_with = "or_default")]
    updates: BTreeMap<String, String>,
    #[serde(default, deserialize_with = "or_default")]
    removals: Vec<String>,
}

#[derive(Serialize)]
struct Changed {
    updated: Vec<String>,
    removed: Vec<String>,
    missing: Vec<String>,
}

pub(super) async fn change(
    State(app): State<App>,
    InNamespace(parts): InNamespace,
    sent: Sent<Change>,
) -> Result<Response, Problem> {
    let Sent { value: Change { updates, removals }, key } = sent;
    let change = NamespaceChange { updates, removals };
    let done =
        app.run(move |service| async move { service.change_namespace(&parts, &change, key.as_ref()).await }).await?;
    let changed = Changed { updated: done.updated, removed: done.removed, missing: done.missing };
    Ok(json(StatusCode::OK, &changed))
}
