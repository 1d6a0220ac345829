//! Tables.

use std::collections::BTreeMap;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use glidepath_service::{Identifier, LanceTable, NewLanceTable, ServiceError};
use serde::{Deserialize, Serialize};

use super::answer::{Fault, done, unsupported_because};
use super::request::{Asked, Call, Nothing, PageAsked, identifier};
use crate::answer::{json, no_store};
use crate::credentials::words::of_lance;
use crate::credentials::{Placed, Said, Vended};
use crate::security::check::Asker;
use crate::state::App;

/// A table as clients open it.
#[derive(Default, Serialize)]
struct Described {
    location: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    table_uri: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    storage_options: BTreeMap<String, String>,
    properties: BTreeMap<String, String>,
    /// Left out unless it is true: then clients commit by `version/create`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    managed_versioning: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    is_only_declared: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    table: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<Vec<String>>,
}

fn described(app: &App, table: LanceTable, vended: Option<Vended>) -> Described {
    let managed_versioning = table.is_managed();
    let LanceTable { location, properties, .. } = table;
    let storage_options = of_lance(vended.as_ref().map_or(&*app.storage, |vended| &vended.config));
    Described { location, properties, storage_options, managed_versioning, ..Described::default() }
}

fn placed<'a>(name: &'a Identifier, table: &'a LanceTable) -> Placed<'a> {
    Placed { table: name, location: &table.location, said: Said::ByCatalog }
}

/// A table that has been declared or registered.
async fn made(app: &App, asker: &Asker, name: &Identifier, table: LanceTable, vends: Option<bool>) -> Response {
    // Whoever does not say that it wants none gets credentials: older clients cannot say it.
    let vended = match vends {
        Some(false) => None,
        _ => app.vended_if_possible(asker, placed(name, &table)).await,
    };
    no_store(json(StatusCode::OK, &described(app, table, vended)))
}

#[derive(Deserialize)]
pub(super) struct Declare {
    location: Option<String>,
    vend_credentials: Option<bool>,
    properties: Option<BTreeMap<String, String>>,
}

pub(super) async fn declare(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    call: Call<Declare>,
) -> Result<Response, Fault> {
    let identifier = call.table()?;
    let Declare { location, vend_credentials, properties } = call.value;
    let name = identifier.clone();
    let new = NewLanceTable { identifier, location, properties: properties.unwrap_or_default() };
    let table = app.run(move |service| async move { service.declare_lance(new).await }).await?;
    Ok(made(&app, &asker, &name, table, vend_credentials).await)
}

#[derive(Deserialize)]
pub(super) struct Describe {
    #[serde(default)]
    with_table_uri: Option<bool>,
    #[serde(default)]
    load_detailed_metadata: Option<bool>,
    #[serde(default)]
    check_declared: Option<bool>,
    #[serde(default)]
    vend_credentials: Option<bool>,
}

/// The same as in the body: some clients put it into the query.
#[derive(Deserialize)]
pub(super) struct DescribeAsked {
    with_table_uri: Option<bool>,
    load_detailed_metadata: Option<bool>,
    check_declared: Option<bool>,
    vend_credentials: Option<bool>,
}

pub(super) async fn describe(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    Asked(asked): Asked<DescribeAsked>,
    call: Call<Describe>,
) -> Result<Response, Fault> {
    let Describe { with_table_uri, load_detailed_metadata, check_declared, vend_credentials } = &call.value;
    let either = |body: Option<bool>, query: Option<bool>| body.or(query).unwrap_or(false);
    let detailed = either(*load_detailed_metadata, asked.load_detailed_metadata);
    let checks = detailed || either(*check_declared, asked.check_declared);
    let with_uri = either(*with_table_uri, asked.with_table_uri);
    let vends = vend_credentials.or(asked.vend_credentials).unwrap_or(true);
    let identifier = call.table()?;
    let wanted = identifier.clone();
    let (table, written) = app
        .run(move |service| async move {
            let table = service.describe_lance(&wanted).await?;
            let written = if checks { Some(service.is_lance_written(&table).await?) } else { None };
            Ok((table, written))
        })
        .await?;
    let vended = if vends { app.vended(&asker, placed(&identifier, &table)).await? } else { None };
    let mut answer = described(&app, table, vended);
    answer.table_uri = with_uri.then(|| answer.location.clone());
    answer.is_only_declared = written.map(|written| !written);
    if detailed {
        (answer.table, answer.namespace) = (Some(identifier.name), Some(identifier.namespace));
    }
    Ok(no_store(json(StatusCode::OK, &answer)))
}

pub(super) async fn exists(State(app): State<App>, call: Call<Nothing>) -> Result<Response, Fault> {
    let table = call.table()?;
    app.run(move |service| async move { service.describe_lance(&table).await }).await?;
    Ok(done())
}

#[derive(Serialize)]
struct Listed {
    tables: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page_token: Option<String>,
}

pub(super) async fn list(
    State(app): State<App>,
    Asked(asked): Asked<PageAsked>,
    call: Call<Nothing>,
) -> Result<Response, Fault> {
    if asked.include_declared.as_deref() == Some("false") {
        return Err(unsupported_because("include_declared=false is not supported; ask describe with check_declared"));
    }
    let (namespace, page) = (call.id, asked.page()?);
    let (found, page_token) =
        app.run(move |service| async move { service.list_lance(&namespace, &page).await }).await?;
    let tables = found.into_iter().map(|table| table.name).collect();
    Ok(json(StatusCode::OK, &Listed { tables, page_token }))
}

/// A table that has lost its name.
#[derive(Serialize)]
struct Removed {
    id: Vec<String>,
    location: String,
    properties: BTreeMap<String, String>,
}

fn removed(id: Vec<String>, table: LanceTable) -> Response {
    let LanceTable { location, properties, .. } = table;
    json(StatusCode::OK, &Removed { id, location, properties })
}

pub(super) async fn remove(State(app): State<App>, call: Call<Nothing>) -> Result<Response, Fault> {
    let table = call.table()?;
    let dropped = app.run(move |service| async move { service.drop_lance(&table).await }).await?;
    Ok(removed(call.id, dropped))
}

pub(super) async fn deregister(State(app): State<App>, call: Call<Nothing>) -> Result<Response, Fault> {
    let table = call.table()?;
    let deregistered = app.run(move |service| async move { service.deregister_lance(&table).await }).await?;
    Ok(removed(call.id, deregistered))
}

#[derive(Deserialize)]
pub(super) struct Register {
    location: String,
    mode: Option<String>,
    properties: Option<BTreeMap<String, String>>,
}

pub(super) async fn register(
    State(app): State<App>,
    Extension(asker): Extension<Asker>,
    call: Call<Register>,
) -> Result<Response, Fault> {
    let identifier = call.table()?;
    let Register { location, mode, properties } = call.value;
    match mode.as_deref().unwrap_or_default().to_ascii_lowercase().as_str() {
        "" | "create" => {}
        "overwrite" => return Err(unsupported_because("mode Overwrite is not supported; deregister the table first")),
        other => {
            return Err(ServiceError::invalid(format!("mode is {other:?}; allowed is Create")).into());
        }
    }
    let name = identifier.clone();
    let new = NewLanceTable { identifier, location: Some(location), properties: properties.unwrap_or_default() };
    let table = app.run(move |service| async move { service.register_lance(new).await }).await?;
    Ok(made(&app, &asker, &name, table, None).await)
}

#[derive(Deserialize)]
pub(super) struct Rename {
    new_table_name: String,
    new_namespace_id: Option<Vec<String>>,
}

pub(super) async fn rename(State(app): State<App>, call: Call<Rename>) -> Result<Response, Fault> {
    let from = call.table()?;
    let Rename { new_table_name, new_namespace_id } = call.value;
    let mut id = new_namespace_id.unwrap_or_else(|| from.namespace.clone());
    id.push(new_table_name);
    let to = identifier(id)?;
    app.run(move |service| async move { service.rename_lance(&from, &to).await }).await?;
    Ok(done())
}
