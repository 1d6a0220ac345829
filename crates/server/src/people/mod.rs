//! What does a person see of the server in a browser? Pages at `/`: namespaces and tables, commits over time,
//! conflicts, who waits, and each table's snapshots.
//!
//! The pages are HTML that works without a script and loads nothing from elsewhere. `frame` is around every page,
//! `overview` is `/` and the pages of namespaces, `table` and `view` are those of their kind, `graph` finds the lanes
//! of snapshots, `recent` counts commits over time. Where there are access rules, a request without a token gets a
//! form; the script keeps the token that is entered there and asks again with it. Everything in a page may come from a
//! client: `maud` escapes it.

mod chart;
mod frame;
mod graph;
mod overview;
pub(crate) mod recent;
mod schema;
mod snapshots;
mod table;
mod text;
mod tree;
mod view;

use std::collections::BTreeMap;

use axum::Router;
use axum::extract::{FromRequestParts, Path, Query};
use axum::http::request::Parts;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use glidepath_access::Access;
use glidepath_service::{Identifier, ServiceError};
use serde::Deserialize;

use crate::answer;
use crate::iceberg::request::parts;
use crate::state::App;

/// The route of the style sheet.
const STYLE: &str = "/page.css";

/// The route of the script.
const SCRIPT: &str = "/page.js";

/// The routes of pages.
pub(crate) const PAGES: [&str; 6] = [
    "/",
    "/namespaces/{namespace}",
    "/namespaces/{namespace}/tables/{table}",
    "/namespaces/{namespace}/views/{view}",
    "/tables/{table}",
    "/views/{view}",
];

pub(crate) fn routes() -> Router<App> {
    let [root, namespace, table, view, table_of_root, view_of_root] = PAGES;
    Router::new()
        .route(root, get(overview::root))
        .route(namespace, get(overview::namespace))
        .route(table, get(table::page))
        .route(view, get(view::page))
        .route(table_of_root, get(table::page))
        .route(view_of_root, get(view::page))
        .route(STYLE, get(async || style()))
        .route(SCRIPT, get(async || script()))
}

/// Whether a route is one of a page, so that its refusals are pages too.
pub(crate) fn is_page(route: &str) -> bool {
    PAGES.contains(&route)
}

/// What is told to somebody who has sent no token where one is needed: the form that asks for it, and what the form
/// needs. It is the same whatever exists. `None`: the request goes the way of all others.
pub(crate) fn before_token(access: &Access, route: &str, method: &Method, headers: &HeaderMap) -> Option<Response> {
    let reads = method == Method::GET || method == Method::HEAD;
    if access.is_open() || !reads || headers.contains_key(header::AUTHORIZATION) {
        return None;
    }
    match route {
        STYLE => Some(style()),
        SCRIPT => Some(script()),
        route => is_page(route).then(frame::form),
    }
}

fn style() -> Response {
    asset("text/css; charset=utf-8", include_str!("page.css"))
}

fn script() -> Response {
    asset("text/javascript; charset=utf-8", include_str!("page.js"))
}

fn asset(kind: &'static str, content: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        // They change with the server.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, content).into_response()
}

/// A failure, as a page.
pub(crate) struct Fault(ServiceError);

impl From<ServiceError> for Fault {
    fn from(error: ServiceError) -> Self {
        Self(error)
    }
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let (status, name) = answer::status(self.0.kind);
        failure(status, name, &self.0.message)
    }
}

/// A page that says why there is no other.
pub(crate) fn failure(status: StatusCode, name: &'static str, words: &str) -> Response {
    let mut response = frame::failure(status, words);
    answer::note(&mut response, name, words);
    response
}

/// What the path names. The root has no name.
pub(crate) struct Place(pub(crate) Identifier);

impl<S: Send + Sync> FromRequestParts<S> for Place {
    type Rejection = Fault;

    async fn from_request_parts(request: &mut Parts, state: &S) -> Result<Self, Fault> {
        let path = Path::<BTreeMap<String, String>>::from_request_parts(request, state).await;
        let Path(mut path) =
            path.map_err(|error| ServiceError::invalid(format!("the path of the request is wrong: {error}")))?;
        let namespace = parts(&path.remove("namespace").unwrap_or_default());
        let name = path.remove("table").or_else(|| path.remove("view")).unwrap_or_default();
        Ok(Self(Identifier { namespace, name }))
    }
}

/// The query of a page.
#[derive(Deserialize)]
pub(crate) struct Asked {
    /// Where the part of the listing before this one ended.
    pub(crate) after: Option<String>,
}

impl<S: Send + Sync> FromRequestParts<S> for Asked {
    type Rejection = Fault;

    async fn from_request_parts(request: &mut Parts, state: &S) -> Result<Self, Fault> {
        let query = Query::<Self>::from_request_parts(request, state).await;
        let wrong = |error| Fault(ServiceError::invalid(format!("the query of the request is wrong: {error}")));
        query.map(|Query(asked)| asked).map_err(wrong)
    }
}
