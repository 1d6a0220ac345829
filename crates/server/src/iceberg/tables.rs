//! Tables, and commits.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{Hash as _, Hasher as _};

use ::iceberg::spec::{Schema, SortOrder, TableMetadata, UnboundPartitionSpec};
use ::iceberg::{TableRequirement, TableUpdate};
use axum::Extension;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use glidepath_service::{Identifier, Kind, Loaded, NewTable, Registration, ServiceError, TableCommit};
use serde::{Deserialize, Serialize};

use super::request::{Asked, InNamespace, Keyed, Named, Names, PageAsked, Rename, Sent, WireName, or_default};
use crate::answer::{Problem, json, no_store, with_metadata};
use crate::credentials::{Placed, Said, Vended, wanted};
use crate::objects::{object, object_or_none, objects, objects_or_none};
use crate::operations::sending::IsShared;
use crate::security::check::Asker;
use crate::state::App;

pub(super) async fn list(
    State(app): State<App>,
    InNamespace(parts): InNamespace,
    Asked(asked): Asked<PageAsked>,
) -> Result<Response, Problem> {
    let (found, next) = app.run(move |service| async move { service.list_tables(&parts, &asked.page()).await }).await?;
    let identifiers = found.into_iter().map(WireName::from).collect();
    Ok(json(StatusCode::OK, &Names { identifiers, next }))
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Create {
    name: String,
    location: Option<String>,
    #[serde(deserialize_with = "object")]
    schema: Schema,
    #[serde(default, deserialize_with = "object_or_none")]
    partition_spec: Option<UnboundPartitionSpec>,
    #[serde(default, deserialize_with = "object_or_none")]
    write_order: Option<SortOrder>,
    #[serde(default, deserialize_with = "or_default")]
    stage_create: bool,
    #[serde(default, deserialize_with = "or_default")]
    properties: HashMap<String, String>,
}

pub(super) async fn create(
    State(app): State<App>,
    InNamespace(namespace): InNamespace,
    Extension(asker): Extension<Asker>,
    headers: HeaderMap,
    sent: Sent<Create>,
) -> Result<Response, Problem> {
    let Sent { value: Create { name, location, schema, partition_spec, write_order, stage_create, properties }, key } =
        sent;
    let identifier = Identifier { namespace, name };
    let table = identifier.clone();
    let new = NewTable { identifier, schema, location, partition_spec, sort_order: write_order, properties };
    if stage_create {
        let metadata = app.run(move |service| async move { service.stage_table(new).await }).await?;
        app.prepare_folder(metadata.location()).await;
        let placed = placed(&table, &metadata);
        let vended = if wanted(&headers) { app.vended(&asker, placed).await? } else { None };
        let storage = Storage::of(&app, vended.as_ref());
        let metadata = glidepath_table::commit::to_json(&metadata).map_err(|misfit| Problem(misfit.into()))?;
        return Ok(no_store(json(StatusCode::OK, &Staged { metadata, storage })));
    }
    let body = app.run(move |service| async move { service.create_table(new, key.as_ref()).await }).await?;
    Ok(made(&app, &asker, &table, &headers, &body).await)
}

fn placed<'a>(table: &'a Identifier, metadata: &'a TableMetadata) -> Placed<'a> {
    Placed { table, location: metadata.location(), said: Said::ByMetadata }
}

/// What a client is told about the storage of a table.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Storage<'a> {
    config: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    storage_credentials: Option<[Credential<'a>; 1]>,
}

impl<'a> Storage<'a> {
    /// Credentials are in both places: some clients look in one, some in the other, and some of them only for a staged
    /// table.
    fn of(app: &'a App, vended: Option<&'a Vended>) -> Self {
        let storage_credentials = vended.map(|Vended { prefix, config, .. }| [Credential { prefix, config }]);
        Self { config: vended.map_or(&*app.storage, |vended| &vended.config), storage_credentials }
    }
}

/// Settings, among them secrets, for the locations that begin with a prefix.
#[derive(Serialize)]
struct Credential<'a> {
    prefix: &'a str,
    config: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Staged<'a> {
    metadata: serde_json::Value,
    #[serde(flatten)]
    storage: Storage<'a>,
}

/// The fields of an answer beside the metadata.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Beside<'a> {
    metadata_location: &'a str,
    #[serde(flatten)]
    storage: Storage<'a>,
}

/// A table as clients load it.
fn loaded(body: &Loaded<TableMetadata>, metadata: Bytes, storage: Storage<'_>) -> Response {
    no_store(with_metadata(&Beside { metadata_location: &body.location, storage }, metadata))
}

/// A table that has been created or registered. It is there, whether or not there are credentials.
async fn made(
    app: &App,
    asker: &Asker,
    table: &Identifier,
    headers: &HeaderMap,
    body: &Loaded<TableMetadata>,
) -> Response {
    let placed = placed(table, &body.metadata);
    let vended = if wanted(headers) { app.vended_if_possible(asker, placed).await } else { None };
    let mark = vended.as_ref().map_or("", |vended| &vended.mark);
    with_tag(app, loaded(body, body.json.clone(), Storage::of(app, vended.as_ref())), body, mark)
}

/// The tag of a table's answer: its metadata file, of which registration it is, the settings for clients, which
/// snapshots were asked for, and which credentials it has. So "not modified" is never said to a client whose settings
/// or credentials have been replaced.
fn tag(app: &App, body: &Loaded<TableMetadata>, asked: &str) -> String {
    let location = &body.location;
    let mut digest = fnv::FnvHasher::default();
    (location, &body.registered, &*app.storage).hash(&mut digest);
    let file = location.rsplit('/').next().unwrap_or_default();
    let plain: String = file.chars().filter(|c| c.is_ascii_graphic() && *c != '"' && *c != '\\').collect();
    format!("\"{plain}-{:016x}{asked}\"", digest.finish())
}

/// Whether the client has the answer with this tag: it names the tag, or `*` for any.
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let named = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
    named.flat_map(|line| line.split(',')).map(str::trim).any(|one| one == "*" || one.trim_start_matches("W/") == tag)
}

fn with_tag(app: &App, mut response: Response, body: &Loaded<TableMetadata>, asked: &str) -> Response {
    if let Ok(tag) = HeaderValue::from_str(&tag(app, body, asked)) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

#[derive(Deserialize)]
pub(super) struct LoadAsked {
    snapshots: Option<String>,
}

pub(super) async fn load(
    State(app): State<App>,
    Named(table): Named,
    Asked(asked): Asked<LoadAsked>,
    Extension(asker): Extension<Asker>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let refs = match asked.snapshots.as_deref() {
        None | Some("all" | "") => false,
        Some("refs") => true,
        Some(other) => {
            let words = format!("snapshots is {other:?}; allowed are all and refs");
            return Err(ServiceError::invalid(words).into());
        }
    };
    let body = app.load_table(&table).await?;
    let placed = placed(&table, &body.metadata);
    let vended = if wanted(&headers) { app.vended(&asker, placed).await? } else { None };
    let mark = vended.as_ref().map_or("", |vended| &vended.mark);
    let suffix = format!("{}{mark}", if refs { "-refs" } else { "" });
    if is_known(&headers, &tag(&app, &body, &suffix)) {
        return Ok(with_tag(&app, StatusCode::NOT_MODIFIED.into_response(), &body, &suffix));
    }
    let storage = Storage::of(&app, vended.as_ref());
    let response = match refs {
        true => {
            let mut own = loaded(&body, referenced(&body)?, storage);
            own.extensions_mut().remove::<IsShared>();
            own
        }
        false => loaded(&body, body.json.clone(), storage),
    };
    Ok(with_tag(&app, response, &body, &suffix))
}

/// The metadata with those snapshots only that a branch or a tag refers to.
fn referenced(body: &Loaded<TableMetadata>) -> Result<Bytes, Problem> {
    let read = serde_json::from_slice(&body.json);
    // What is in memory was read as metadata, so this is no mistake of the client.
    let broken = |error: serde_json::Error| ServiceError { kind: Kind::Broken, message: error.to_string() };
    let mut metadata: serde_json::Value = read.map_err(broken)?;
    let named = metadata["refs"].as_object().into_iter().flat_map(|refs| refs.values());
    let named = named.filter_map(|one| one["snapshot-id"].as_i64());
    // Files of other writers may have no refs.
    let refs: BTreeSet<i64> = named.chain(body.metadata.current_snapshot_id()).collect();
    if let Some(snapshots) = metadata["snapshots"].as_array_mut() {
        snapshots.retain(|snapshot| snapshot["snapshot-id"].as_i64().is_some_and(|id| refs.contains(&id)));
    }
    let bytes = serde_json::to_vec(&metadata).map_err(broken)?;
    Ok(bytes.into())
}

pub(super) async fn exists(State(app): State<App>, Named(table): Named) -> Result<Response, Problem> {
    let found = app.run(move |service| async move { service.table_exists(&table).await }).await?;
    Ok(if found { StatusCode::NO_CONTENT } else { StatusCode::NOT_FOUND }.into_response())
}

#[derive(Deserialize)]
pub(super) struct Commit {
    #[serde(default, deserialize_with = "object_or_none")]
    identifier: Option<WireName>,
    #[serde(default, deserialize_with = "objects_or_none")]
    requirements: Vec<TableRequirement>,
    #[serde(default, deserialize_with = "objects_or_none")]
    updates: Vec<TableUpdate>,
}

pub(super) async fn commit(
    State(app): State<App>,
    Named(table): Named,
    sent: Sent<Commit>,
) -> Result<Response, Problem> {
    let Sent { value: Commit { requirements, updates, .. }, key } = sent;
    let commit = TableCommit { requirements, updates, key };
    let body = app.run(move |service| async move { service.commit_table(&table, commit).await }).await?;
    Ok(with_tag(&app, loaded(&body, body.json.clone(), Storage::of(&app, None)), &body, ""))
}

#[derive(Deserialize)]
pub(super) struct Transaction {
    #[serde(rename = "table-changes", deserialize_with = "objects")]
    changes: Vec<Commit>,
}

pub(super) async fn transaction(State(app): State<App>, sent: Sent<Transaction>) -> Result<Response, Problem> {
    let Sent { value: Transaction { changes }, key } = sent;
    let mut commits = Vec::new();
    for Commit { identifier, requirements, updates } in changes {
        let Some(identifier) = identifier else {
            return Err(ServiceError::invalid("table-changes: each needs an identifier").into());
        };
        commits.push((identifier.into(), TableCommit { requirements, updates, key: None }));
    }
    app.run(move |service| async move { service.commit_transaction(commits, key.as_ref()).await }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[derive(Deserialize)]
pub(super) struct DropAsked {
    #[serde(rename = "purgeRequested")]
    purge: Option<String>,
}

pub(super) async fn remove(
    State(app): State<App>,
    Named(table): Named,
    Asked(asked): Asked<DropAsked>,
    Keyed { key, .. }: Keyed,
) -> Result<Response, Problem> {
    let purge = match asked.purge.as_deref().map(str::to_ascii_lowercase).as_deref() {
        None | Some("" | "false") => false,
        Some("true") => true,
        Some(other) => {
            return Err(
                ServiceError::invalid(format!("purgeRequested is {other:?}; allowed are true and false")).into()
            );
        }
    };
    app.run(move |service| async move { service.drop_table(&table, purge, key.as_ref()).await }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn rename(State(app): State<App>, sent: Sent<Rename>) -> Result<Response, Problem> {
    let Sent { value: Rename { source, destination }, key } = sent;
    let (from, to) = (source.into(), destination.into());
    app.run(move |service| async move { service.rename_table(&from, &to, key.as_ref()).await }).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct Register {
    name: String,
    metadata_location: String,
    #[serde(default, deserialize_with = "or_default")]
    overwrite: bool,
}

pub(super) async fn register(
    State(app): State<App>,
    InNamespace(namespace): InNamespace,
    Extension(asker): Extension<Asker>,
    headers: HeaderMap,
    sent: Sent<Register>,
) -> Result<Response, Problem> {
    let Sent { value: Register { name, metadata_location, overwrite }, key } = sent;
    app.check_registered(&metadata_location)?;
    let identifier = Identifier { namespace, name };
    let table = identifier.clone();
    let new = Registration { identifier, metadata_location, overwrite };
    let body = app.run(move |service| async move { service.register_table(new, key.as_ref()).await }).await?;
    Ok(made(&app, &asker, &table, &headers, &body).await)
}

pub(super) async fn metrics(
    State(app): State<App>,
    Named(table): Named,
    sent: Sent<serde_json::Value>,
) -> Result<Response, Problem> {
    if sent.value.get("report-type").is_none() {
        return Err(ServiceError::invalid("report-type is missing").into());
    }
    app.load_table(&table).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Credentials<'a> {
    storage_credentials: Vec<Credential<'a>>,
}

pub(super) async fn credentials(
    State(app): State<App>,
    Named(table): Named,
    Extension(asker): Extension<Asker>,
) -> Result<Response, Problem> {
    let body = app.load_table(&table).await?;
    let vended = app.vended(&asker, placed(&table, &body.metadata)).await?;
    let storage_credentials = match &vended {
        Some(Vended { prefix, config, .. }) => vec![Credential { prefix, config }],
        None if app.storage.is_empty() || app.vendor.is_some() => Vec::new(),
        None => vec![Credential { prefix: body.metadata.location(), config: &app.storage }],
    };
    Ok(no_store(json(StatusCode::OK, &Credentials { storage_credentials })))
}
