//! The routes of Lance namespaces.
//!
//! A name in a path is its parts with a delimiter between; `request.rs` says how a part may contain the delimiter.
//! Every handler takes a [`request::Call`], whose `id` is what the request is about.

pub(crate) mod answer;
mod namespaces;
pub(crate) mod request;
mod tables;
mod versions;

use axum::Router;
use axum::routing::{any, get, post};

use crate::security::routes::{UNSUPPORTED_KINDS, UNSUPPORTED_RESTS};
use crate::state::App;

pub(crate) fn routes() -> Router<App> {
    let of = |kind: &str, rest: &str| format!("/v1/{kind}/{{id}}/{rest}");
    let (namespace, table) = (|rest: &str| of("namespace", rest), |rest: &str| of("table", rest));
    let mut routes = Router::new()
        .route(&namespace("create"), post(namespaces::create))
        .route(&namespace("list"), get(namespaces::list))
        .route(&namespace("describe"), post(namespaces::describe))
        .route(&namespace("drop"), post(namespaces::remove))
        .route(&namespace("exists"), post(namespaces::exists))
        .route(&namespace("table/list"), get(tables::list))
        .route(&table("declare"), post(tables::declare))
        .route(&table("describe"), post(tables::describe))
        .route(&table("exists"), post(tables::exists))
        .route(&table("drop"), post(tables::remove))
        .route(&table("deregister"), post(tables::deregister))
        .route(&table("register"), post(tables::register))
        .route(&table("rename"), post(tables::rename))
        .route(&table("version/list"), post(versions::list))
        .route(&table("version/create"), post(versions::create))
        .route(&table("version/describe"), post(versions::describe))
        .route(&table("version/delete"), post(versions::delete));
    for kind in UNSUPPORTED_KINDS {
        for rest in UNSUPPORTED_RESTS {
            routes = routes.route(&format!("/v1/{kind}{rest}"), any(answer::unsupported));
        }
    }
    routes.method_not_allowed_fallback(answer::no_method)
}
