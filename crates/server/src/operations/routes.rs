//! Routes for operators: health, readiness, metrics.

use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use glidepath_access::{Right, Verdict, decide};
use glidepath_protocols::registry::AnyCatalog;
use glidepath_service::ServiceError;
use glidepath_stores::LiveEnv;

use crate::security::check::{authenticate, right_on};
use crate::security::refusal::{Refusal, Speech};
use crate::state::App;

/// How long the catalog may take to answer while the server counts as ready.
const PATIENCE: Duration = Duration::from_secs(2);

/// The routes next to those of the catalog: metrics need the right to read the whole catalog.
pub(crate) fn with_catalog() -> Router<App> {
    health().route("/metrics", get(checked_metrics))
}

/// The routes on an address of their own, which only operators reach.
pub(crate) fn alone() -> Router<App> {
    health().route("/metrics", get(metrics))
}

fn health() -> Router<App> {
    Router::new().route("/healthz", get(alive)).route("/readyz", get(ready))
}

/// Not alive is a server that could do its work again only after another start.
async fn alive(State(app): State<App>) -> Response {
    match app.store.stopped() {
        None => "up\n".into_response(),
        Some(why) => {
            tracing::error!(why, "the server has to be started again");
            (
                StatusCode::SERVICE_UNAVAILABLE,
                "the store takes no more writes; the log says why: start the server again\n",
            )
                .into_response()
        }
    }
}

async fn ready(State(app): State<App>) -> Response {
    let unready = |why: &'static str| (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    if app.gate.is_draining() {
        return unready("the server is ending\n");
    }
    if app.store.stopped().is_some() {
        return unready("the store takes no more writes: start the server again\n");
    }
    let look = || {
        let (app, store) = (app.clone(), app.store.clone());
        async move {
            app.run(|service| async move {
                service.ping().await?;
                // What a service knows may be all in its memory.
                AnyCatalog::find(LiveEnv::new(), store, "").await.map(drop).map_err(ServiceError::from)
            })
            .await
        }
    };
    match app.probe.ask(look, PATIENCE).await {
        Some(Ok(())) => "ready\n".into_response(),
        Some(Err(error)) => {
            tracing::warn!(why = %error, "not ready: the catalog cannot be read");
            unready("the catalog cannot be read; the log says why\n")
        }
        None => unready("the catalog did not answer within 2 s\n"),
    }
}

async fn checked_metrics(State(app): State<App>, headers: HeaderMap) -> Response {
    let allowed = async {
        let asker = authenticate(&app.gate.access, &headers).await?;
        if asker.0.is_unchecked() {
            return Ok(());
        }
        match decide(right_on(&app, &asker, &[], Right::Read).await?, Right::Read) {
            Verdict::Allowed => Ok(()),
            _ => Err(Refusal::Forbidden("metrics need the right read on the whole catalog".to_owned())),
        }
    };
    match allowed.await {
        Ok(()) => metrics(State(app)).await,
        Err(refusal) => refusal.answer(Speech::Iceberg),
    }
}

async fn metrics(State(app): State<App>) -> Response {
    let text = app.gate.metrics.text(&app.service.counts(), app.gate.running(), app.gate.is_draining());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}
