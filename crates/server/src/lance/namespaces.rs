//! Namespaces.

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use glidepath_service::{Kind, Namespace, ServiceError};
use serde::{Deserialize, Serialize};

use super::answer::{Fault, done, unsupported_because};
use super::request::{Asked, Call, Nothing, PageAsked};
use crate::answer::json;
use crate::security::check::{Asker, readable_namespaces, told_properties};
use crate::state::App;

#[derive(Serialize)]
struct Properties {
    properties: BTreeMap<String, String>,
}

/// A mode of a request, without regard to case and underscores.
fn mode(given: Option<&str>) -> String {
    given.unwrap_or_default().chars().filter(|c| *c != '_').collect::<String>().to_ascii_lowercase()
}

fn wrong(what: &str, given: Option<&str>, allowed: &str) -> Fault {
    let words = format!("{what} is {:?}; allowed are {allowed}", given.unwrap_or_default());
    ServiceError::invalid(words).into()
}

#[derive(Deserialize)]
pub(super) struct Create {
    mode: Option<String>,
    properties: Option<BTreeMap<String, String>>,
}

pub(super) async fn create(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    call: Call<Create>,
) -> Result<Response, Fault> {
    let Call { id: parts, value: Create { mode: given, properties } } = call;
    let keeps = match mode(given.as_deref()).as_str() {
        "" | "create" => false,
        "existok" => true,
        "overwrite" => {
            return Err(unsupported_because("mode Overwrite is not supported; drop the namespace, then create it"));
        }
        _ => return Err(wrong("mode", given.as_deref(), "Create and ExistOk")),
    };
    let new = Namespace { parts: parts.clone(), properties: properties.unwrap_or_default() };
    let properties = new.properties.clone();
    let created = app.run(move |service| async move { service.create_namespace(&new, None).await }).await;
    let properties = match created {
        Ok(()) => properties,
        Err(error) if keeps && error.kind == Kind::Exists => {
            let found = app.run(move |service| async move { service.load_namespace(&parts).await }).await;
            // A table has the name.
            told_properties(&app, &asker, found.map_err(|_| Fault::of_namespace(error))?).await?.properties
        }
        Err(error) => return Err(Fault::of_namespace(error)),
    };
    Ok(json(StatusCode::OK, &Properties { properties }))
}

#[derive(Serialize)]
struct Listed {
    namespaces: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page_token: Option<String>,
}

pub(super) async fn list(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    Asked(asked): Asked<PageAsked>,
    call: Call<Nothing>,
) -> Result<Response, Fault> {
    let (found, page_token) = readable_namespaces(&app, asker, call.id, asked.page()?).await?;
    let namespaces = found.into_iter().filter_map(|mut parts| parts.pop()).collect();
    Ok(json(StatusCode::OK, &Listed { namespaces, page_token }))
}

pub(super) async fn describe(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    call: Call<Nothing>,
) -> Result<Response, Fault> {
    let found = app.run(move |service| async move { service.load_namespace(&call.id).await }).await?;
    let found = told_properties(&app, &asker, found).await?;
    Ok(json(StatusCode::OK, &Properties { properties: found.properties }))
}

pub(super) async fn exists(State(app): State<App>, call: Call<Nothing>) -> Result<Response, Fault> {
    app.run(move |service| async move { service.load_namespace(&call.id).await }).await?;
    Ok(done())
}

#[derive(Deserialize)]
pub(super) struct Remove {
    mode: Option<String>,
    behavior: Option<String>,
}

pub(super) async fn remove(State(app): State<App>, call: Call<Remove>) -> Result<Response, Fault> {
    let Call { id: parts, value: Remove { mode: given, behavior } } = call;
    let skips = match mode(given.as_deref()).as_str() {
        "" | "fail" => false,
        "skip" => true,
        _ => return Err(wrong("mode", given.as_deref(), "Fail and Skip")),
    };
    match mode(behavior.as_deref()).as_str() {
        "" | "restrict" => {}
        "cascade" => return Err(unsupported_because("behavior Cascade is not supported; drop what is in it first")),
        _ => return Err(wrong("behavior", behavior.as_deref(), "Restrict")),
    }
    match app.run(move |service| async move { service.drop_namespace(&parts, None).await }).await {
        Err(error) if skips && error.kind == Kind::NoNamespace => Ok(done()),
        dropped => dropped.map(|()| done()).map_err(Fault::of_namespace),
    }
}
