//! The versions of tables whose commits the server orders.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use glidepath_service::{LanceVersion, NewLanceVersion, ServiceError, VersionPage};
use serde::{Deserialize, Serialize};

use super::answer::{Fault, unsupported_because};
use super::request::{Asked, Call, PageAsked};
use crate::answer::json;
use crate::objects::objects;
use crate::state::App;

#[derive(Serialize)]
struct WireVersion {
    version: u64,
    manifest_path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp_millis: Option<u64>,
}

impl From<LanceVersion> for WireVersion {
    fn from(LanceVersion { version, path, bytes, at_ms }: LanceVersion) -> Self {
        Self { version, manifest_path: path, manifest_size: bytes, timestamp_millis: at_ms }
    }
}

#[derive(Serialize)]
struct One {
    version: WireVersion,
}

#[derive(Serialize)]
struct Listed {
    versions: Vec<WireVersion>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page_token: Option<String>,
}

fn no_branches(branch: Option<&str>) -> Result<(), Fault> {
    match branch {
        None | Some("" | "main") => Ok(()),
        Some(branch) => Err(unsupported_because(format!(
            "branch is {branch:?}; a table whose commits the server orders has the branch main only"
        ))),
    }
}

/// What may be about a branch.
#[derive(Deserialize)]
pub(super) struct Branch {
    branch: Option<String>,
}

/// Always newest first, which the specification allows whatever was asked for.
pub(super) async fn list(
    State(app): State<App>,
    Asked(asked): Asked<PageAsked>,
    Asked(Branch { branch }): Asked<Branch>,
    call: Call<Branch>,
) -> Result<Response, Fault> {
    no_branches(branch.as_deref())?;
    no_branches(call.value.branch.as_deref())?;
    let after = match asked.token().map(|token| token.parse()) {
        None => None,
        Some(Ok(after)) => Some(after),
        Some(Err(_)) => return Err(ServiceError::invalid("page_token: not a token of this server").into()),
    };
    let (table, page) = (call.table()?, VersionPage { after, size: asked.size()? });
    let (found, next) = app.run(move |service| async move { service.list_lance_versions(&table, &page).await }).await?;
    let versions = found.into_iter().map(WireVersion::from).collect();
    Ok(json(StatusCode::OK, &Listed { versions, page_token: next.map(|next| next.to_string()) }))
}

#[derive(Deserialize)]
pub(super) struct Create {
    version: u64,
    manifest_path: String,
    manifest_size: Option<u64>,
    naming_scheme: Option<String>,
    branch: Option<String>,
}

pub(super) async fn create(State(app): State<App>, call: Call<Create>) -> Result<Response, Fault> {
    let table = call.table()?;
    let Create { version, manifest_path, manifest_size, naming_scheme, branch } = call.value;
    no_branches(branch.as_deref())?;
    match naming_scheme.as_deref() {
        None | Some("V2") => {}
        Some(other) => {
            let words = format!("naming_scheme is {other:?}; a table whose commits the server orders has V2");
            return Err(unsupported_because(words));
        }
    }
    let new = NewLanceVersion { version, staged: manifest_path, bytes: manifest_size };
    let created = app.run(move |service| async move { service.create_lance_version(&table, &new).await }).await?;
    Ok(json(StatusCode::OK, &One { version: created.into() }))
}

#[derive(Deserialize)]
pub(super) struct Describe {
    version: Option<u64>,
    branch: Option<String>,
}

pub(super) async fn describe(State(app): State<App>, call: Call<Describe>) -> Result<Response, Fault> {
    no_branches(call.value.branch.as_deref())?;
    let (table, version) = (call.table()?, call.value.version);
    let found = app.run(move |service| async move { service.describe_lance_version(&table, version).await }).await?;
    Ok(json(StatusCode::OK, &One { version: found.into() }))
}

#[derive(Deserialize)]
pub(super) struct Delete {
    #[serde(deserialize_with = "objects")]
    ranges: Vec<Range>,
    branch: Option<String>,
}

/// The end is not part of it; -1 is after the newest version.
#[derive(Deserialize)]
struct Range {
    start_version: i64,
    end_version: i64,
}

#[derive(Serialize)]
struct Deleted {
    deleted_count: u64,
}

pub(super) async fn delete(State(app): State<App>, call: Call<Delete>) -> Result<Response, Fault> {
    let table = call.table()?;
    no_branches(call.value.branch.as_deref())?;
    let mut ranges = Vec::new();
    for Range { start_version, end_version } in call.value.ranges {
        let start = u64::try_from(start_version).ok();
        let end = if end_version == -1 { Some(u64::MAX) } else { u64::try_from(end_version).ok() };
        let (Some(start), Some(end)) = (start, end) else {
            let words = format!(
                "the range {start_version} to {end_version} is wrong; allowed are numbers from 0, and -1 as the end"
            );
            return Err(ServiceError::invalid(words).into());
        };
        ranges.push((start, end));
    }
    let count = app.run(move |service| async move { service.delete_lance_versions(&table, &ranges).await }).await?;
    Ok(json(StatusCode::OK, &Deleted { deleted_count: count }))
}
