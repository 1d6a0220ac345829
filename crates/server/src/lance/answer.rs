//! Answers to Lance's clients: JSON, and the codes of errors.
//!
//! As with Iceberg, 409 is given only if the request certainly had no effect; one that may have had is answered 500.

use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use glidepath_service::{Kind, ServiceError};
use serde::Serialize;

use crate::answer::{json, note};

/// An error on its way to a client of Lance.
pub(crate) struct Fault {
    error: ServiceError,
    /// Whether the request is about a namespace: then the code of a taken name is another.
    of_namespace: bool,
}

impl From<ServiceError> for Fault {
    fn from(error: ServiceError) -> Self {
        Self { error, of_namespace: false }
    }
}

impl Fault {
    /// What went wrong.
    pub(crate) fn into_error(self) -> ServiceError {
        self.error
    }

    pub(super) fn of_namespace(error: ServiceError) -> Self {
        Self { error, of_namespace: true }
    }
}

pub(super) fn unsupported_because(words: impl Into<String>) -> Fault {
    ServiceError { kind: Kind::Unsupported, message: words.into() }.into()
}

/// The status and the code of Lance's specification.
fn code(kind: Kind, of_namespace: bool) -> (StatusCode, u32) {
    match kind {
        Kind::Unsupported => (StatusCode::NOT_ACCEPTABLE, 0),
        Kind::NoNamespace => (StatusCode::NOT_FOUND, 1),
        Kind::Exists if of_namespace => (StatusCode::CONFLICT, 2),
        Kind::NotEmpty => (StatusCode::CONFLICT, 3),
        Kind::NoTable | Kind::NoView => (StatusCode::NOT_FOUND, 4),
        Kind::Exists => (StatusCode::CONFLICT, 5),
        Kind::NoVersion => (StatusCode::NOT_FOUND, 11),
        Kind::Invalid | Kind::Illegal | Kind::KeyReused | Kind::Contradictory => (StatusCode::BAD_REQUEST, 13),
        Kind::Conflict => (StatusCode::CONFLICT, 14),
        Kind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, 17),
        Kind::Unknown | Kind::Broken | Kind::NoFile => (StatusCode::INTERNAL_SERVER_ERROR, 18),
    }
}

#[derive(Serialize)]
struct Told<'a> {
    error: &'a str,
    code: u32,
}

impl IntoResponse for Fault {
    fn into_response(self) -> Response {
        let (status, code) = code(self.error.kind, self.of_namespace);
        let mut response = json(status, &Told { error: &self.error.message, code });
        note(&mut response, crate::answer::status(self.error.kind).1, &self.error.message);
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// The answer to calls of Lance's specification that this server does not serve: clients do these on the storage.
pub(super) async fn unsupported(method: Method, uri: Uri) -> Response {
    let words = format!("{method} {} is not supported by this server", uri.path());
    unsupported_because(words).into_response()
}

/// Why a route has no answer for this method.
pub(crate) fn no_method_words(method: &Method, path: &str) -> String {
    format!("{path} has no method {method}; listings of namespaces and tables are GET, all others POST")
}

/// The answer to a call of a route by another method than its own.
pub(super) async fn no_method(method: Method, uri: Uri) -> Response {
    let words = no_method_words(&method, uri.path());
    json(StatusCode::METHOD_NOT_ALLOWED, &Told { error: &words, code: 0 })
}

/// A success with nothing to tell.
pub(super) fn done() -> Response {
    json(StatusCode::OK, &serde_json::Map::new())
}
