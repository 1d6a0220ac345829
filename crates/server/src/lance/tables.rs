//! Tables.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use glidepath_service::{Identifier, LanceTable, NewLanceTable, ServiceError};
use serde::{Deserialize, Serialize};

use super::answer::{Fault, done, unsupported_because};
use super::request::{Asked, Call, Nothing, PageAsked, identifier};
use crate::answer::json;
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

fn described(app: &App, table: LanceTable) -> Described {
    let LanceTable { location, properties, managed } = table;
    let storage_options = storage_options(&app.storage);
    Described { location, properties, storage_options, managed_versioning: managed, ..Described::default() }
}

/// The settings that clients of Iceberg get, in the words of Lance.
fn storage_options(settings: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let mut options = BTreeMap::new();
    for (key, value) in settings {
        let name = match key.as_str() {
            "s3.endpoint" => "aws_endpoint",
            "s3.region" | "client.region" => "aws_region",
            "s3.access-key-id" => "aws_access_key_id",
            "s3.secret-access-key" => "aws_secret_access_key",
            "s3.session-token" => "aws_session_token",
            "s3.path-style-access" => {
                let by_host = if value == "true" { "false" } else { "true" };
                options.insert("aws_virtual_hosted_style_request".to_owned(), by_host.to_owned());
                continue;
            }
            // Those with a dot or a hyphen are Iceberg's.
            own if !own.contains(['.', '-']) => own,
            _ => continue,
        };
        options.insert(name.to_owned(), value.clone());
    }
    if options.get("aws_endpoint").is_some_and(|endpoint| endpoint.starts_with("http://")) {
        options.insert("allow_http".to_owned(), "true".to_owned());
    }
    options
}

#[derive(Deserialize)]
pub(super) struct Declare {
    location: Option<String>,
    properties: Option<BTreeMap<String, String>>,
}

pub(super) async fn declare(State(app): State<App>, call: Call<Declare>) -> Result<Response, Fault> {
    let identifier = call.table()?;
    let Declare { location, properties } = call.value;
    let new = NewLanceTable { identifier, location, properties: properties.unwrap_or_default() };
    let table = app.run(move |service| async move { service.declare_lance(new).await }).await?;
    Ok(json(StatusCode::OK, &described(&app, table)))
}

#[derive(Deserialize)]
pub(super) struct Describe {
    #[serde(default)]
    with_table_uri: Option<bool>,
    #[serde(default)]
    load_detailed_metadata: Option<bool>,
    #[serde(default)]
    check_declared: Option<bool>,
}

/// The same as in the body: some clients put it into the query.
#[derive(Deserialize)]
pub(super) struct DescribeAsked {
    with_table_uri: Option<bool>,
    load_detailed_metadata: Option<bool>,
    check_declared: Option<bool>,
}

pub(super) async fn describe(
    State(app): State<App>,
    Asked(asked): Asked<DescribeAsked>,
    call: Call<Describe>,
) -> Result<Response, Fault> {
    let Describe { with_table_uri, load_detailed_metadata, check_declared } = &call.value;
    let either = |body: Option<bool>, query: Option<bool>| body.or(query).unwrap_or(false);
    let detailed = either(*load_detailed_metadata, asked.load_detailed_metadata);
    let checks = detailed || either(*check_declared, asked.check_declared);
    let with_uri = either(*with_table_uri, asked.with_table_uri);
    let identifier = call.table()?;
    let (wanted, Identifier { namespace, name }) = (identifier.clone(), identifier);
    let (table, written) = app
        .run(move |service| async move {
            let table = service.describe_lance(&wanted).await?;
            let written = if checks { Some(service.is_lance_written(&table).await?) } else { None };
            Ok((table, written))
        })
        .await?;
    let mut answer = described(&app, table);
    answer.table_uri = with_uri.then(|| answer.location.clone());
    answer.is_only_declared = written.map(|written| !written);
    if detailed {
        (answer.table, answer.namespace) = (Some(name), Some(namespace));
    }
    Ok(json(StatusCode::OK, &answer))
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

pub(super) async fn register(State(app): State<App>, call: Call<Register>) -> Result<Response, Fault> {
    let identifier = call.table()?;
    let Register { location, mode, properties } = call.value;
    match mode.as_deref().unwrap_or_default().to_ascii_lowercase().as_str() {
        "" | "create" => {}
        "overwrite" => return Err(unsupported_because("mode Overwrite is not supported; deregister the table first")),
        other => {
            return Err(ServiceError::invalid(format!("mode is {other:?}; allowed is Create")).into());
        }
    }
    let new = NewLanceTable { identifier, location: Some(location), properties: properties.unwrap_or_default() };
    let table = app.run(move |service| async move { service.register_lance(new).await }).await?;
    Ok(json(StatusCode::OK, &described(&app, table)))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_of_iceberg_are_told_in_the_words_of_lance() {
        let settings = [
            ("s3.endpoint", "http://127.0.0.1:9000"),
            ("s3.path-style-access", "true"),
            ("client.region", "eu"),
            ("s3.access-key-id", "me"),
            ("aws_unsigned_payload", "true"),
            ("py-io-impl", "x"),
        ];
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let told: Vec<_> =
            storage_options(&settings).into_iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(
            told,
            [
                "allow_http=true",
                "aws_access_key_id=me",
                "aws_endpoint=http://127.0.0.1:9000",
                "aws_region=eu",
                "aws_unsigned_payload=true",
                "aws_virtual_hosted_style_request=false",
            ]
        );
    }
}
