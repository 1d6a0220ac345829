//! The routes of the Iceberg REST catalog.

mod namespaces;
pub(crate) mod request;
mod tables;
mod views;

use axum::Router;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post};
use serde::Serialize;

use crate::answer::json;
use crate::state::App;
use glidepath_service::LIFETIME_MS;

/// What the server offers, as `config` lists it. Only what is real: clients use what is here.
pub(crate) const ENDPOINTS: &[&str] = &[
    "GET /v1/{prefix}/namespaces",
    "POST /v1/{prefix}/namespaces",
    "GET /v1/{prefix}/namespaces/{namespace}",
    "HEAD /v1/{prefix}/namespaces/{namespace}",
    "DELETE /v1/{prefix}/namespaces/{namespace}",
    "POST /v1/{prefix}/namespaces/{namespace}/properties",
    "GET /v1/{prefix}/namespaces/{namespace}/tables",
    "POST /v1/{prefix}/namespaces/{namespace}/tables",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics",
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials",
    "POST /v1/{prefix}/namespaces/{namespace}/register",
    "POST /v1/{prefix}/tables/rename",
    "POST /v1/{prefix}/transactions/commit",
    "GET /v1/{prefix}/namespaces/{namespace}/views",
    "POST /v1/{prefix}/namespaces/{namespace}/views",
    "GET /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "HEAD /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "POST /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "DELETE /v1/{prefix}/namespaces/{namespace}/views/{view}",
    "POST /v1/{prefix}/namespaces/{namespace}/register-view",
    "POST /v1/{prefix}/views/rename",
];

pub(crate) fn routes() -> Router<App> {
    let namespace = "/v1/namespaces/{namespace}";
    let at = |rest: &str| format!("{namespace}{rest}");
    Router::new()
        .route("/v1/config", get(config))
        .route("/v1/namespaces", get(namespaces::list).post(namespaces::create))
        .route(namespace, get(namespaces::load).head(namespaces::exists).delete(namespaces::remove))
        .route(&at("/properties"), post(namespaces::change))
        .route(&at("/tables"), get(tables::list).post(tables::create))
        .route(
            &at("/tables/{table}"),
            get(tables::load).head(tables::exists).post(tables::commit).delete(tables::remove),
        )
        .route(&at("/tables/{table}/metrics"), post(tables::metrics))
        .route(&at("/tables/{table}/credentials"), get(tables::credentials))
        .route(&at("/register"), post(tables::register))
        .route("/v1/tables/rename", post(tables::rename))
        .route("/v1/transactions/commit", post(tables::transaction))
        .route(&at("/views"), get(views::list).post(views::create))
        .route(&at("/views/{view}"), get(views::load).head(views::exists).post(views::commit).delete(views::remove))
        .route(&at("/register-view"), post(views::register))
        .route("/v1/views/rename", post(views::rename))
}

#[derive(Serialize)]
struct ConfigAnswer {
    defaults: Nothing,
    overrides: Nothing,
    endpoints: &'static [&'static str],
    #[serde(rename = "idempotency-key-lifetime")]
    key_lifetime: String,
}

#[derive(Serialize)]
struct Nothing {}

async fn config() -> Response {
    let key_lifetime = format!("PT{}M", LIFETIME_MS / 60_000);
    json(
        StatusCode::OK,
        &ConfigAnswer { defaults: Nothing {}, overrides: Nothing {}, endpoints: ENDPOINTS, key_lifetime },
    )
}
