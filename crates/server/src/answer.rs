//! Answers: JSON, and the status codes of errors.
//!
//! A status code is a promise about the effect of the request: 409 is given only if it certainly had none, since
//! clients then delete the files that they wrote; a commit that may have taken effect is answered 500.

use axum::body::Body;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use glidepath_service::{Kind, ServiceError};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::frames;
use crate::objects::Object;
use crate::operations::sending::IsShared;

/// An error on its way to a client of Iceberg.
pub(crate) struct Problem(pub(crate) ServiceError);

impl From<ServiceError> for Problem {
    fn from(error: ServiceError) -> Self {
        Self(error)
    }
}

/// The status code, and the name that Iceberg's clients know.
pub(crate) fn status(kind: Kind) -> (StatusCode, &'static str) {
    match kind {
        Kind::Invalid => (StatusCode::BAD_REQUEST, "BadRequestException"),
        Kind::Illegal => (StatusCode::BAD_REQUEST, "IllegalArgumentException"),
        Kind::NoFile => (StatusCode::NOT_FOUND, "NotFoundException"),
        Kind::NoNamespace => (StatusCode::NOT_FOUND, "NoSuchNamespaceException"),
        Kind::NoTable => (StatusCode::NOT_FOUND, "NoSuchTableException"),
        Kind::NoView => (StatusCode::NOT_FOUND, "NoSuchViewException"),
        Kind::NoVersion => (StatusCode::NOT_FOUND, "NotFoundException"),
        Kind::Exists => (StatusCode::CONFLICT, "AlreadyExistsException"),
        Kind::NotEmpty => (StatusCode::CONFLICT, "NamespaceNotEmptyException"),
        Kind::Conflict => (StatusCode::CONFLICT, "CommitFailedException"),
        Kind::KeyReused | Kind::Contradictory => (StatusCode::UNPROCESSABLE_ENTITY, "UnprocessableEntityException"),
        Kind::Unsupported => (StatusCode::NOT_ACCEPTABLE, "UnsupportedOperationException"),
        Kind::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailableException"),
        Kind::Unknown => (StatusCode::INTERNAL_SERVER_ERROR, "CommitStateUnknownException"),
        Kind::Broken => (StatusCode::INTERNAL_SERVER_ERROR, "InternalServerError"),
    }
}

#[derive(Serialize)]
struct Wrapped<'a> {
    error: Told<'a>,
}

#[derive(Serialize)]
struct Told<'a> {
    message: &'a str,
    r#type: &'a str,
    code: u16,
}

/// The name of an error, for metrics: among the extensions of its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorName(pub(crate) &'static str);

/// Why the server failed, for the log: among the extensions of an answer from 500 on.
#[derive(Clone, Debug)]
pub(crate) struct Why(pub(crate) String);

/// Notes an error in its answer, for metrics and the log.
pub(crate) fn note(response: &mut Response, name: &'static str, message: &str) {
    response.extensions_mut().insert(ErrorName(name));
    if response.status().is_server_error() {
        response.extensions_mut().insert(Why(message.to_owned()));
    }
}

/// An error as Iceberg's clients expect it.
pub(crate) fn error(code: StatusCode, name: &'static str, message: &str) -> Response {
    let mut response = json(code, &Wrapped { error: Told { message, r#type: name, code: code.as_u16() } });
    note(&mut response, name, message);
    if code == StatusCode::SERVICE_UNAVAILABLE || code == StatusCode::TOO_MANY_REQUESTS {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    response
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let (code, name) = status(self.0.kind);
        error(code, name, &self.0.message)
    }
}

/// A value as JSON.
pub(crate) fn json(code: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(bytes) => as_json(code, bytes),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// A table or a view: these fields, at least one, and its metadata, which is JSON already, and stays in memory.
pub(crate) fn with_metadata(beside: &impl Serialize, metadata: Bytes) -> Response {
    let Ok(mut before) = serde_json::to_vec(beside) else { return StatusCode::INTERNAL_SERVER_ERROR.into_response() };
    before.pop();
    before.extend_from_slice(b",\"metadata\":");
    let mut response = as_json(StatusCode::OK, frames::body([before.into(), metadata, Bytes::from_static(b"}")]));
    response.extensions_mut().insert(IsShared);
    response
}

fn as_json(code: StatusCode, body: impl Into<Body>) -> Response {
    (code, [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], body.into()).into_response()
}

/// An answer that may have secrets: nothing between the server and its client may keep it.
pub(crate) fn no_store(mut response: Response) -> Response {
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The value in the body of a request, which must be an object.
pub(crate) fn parsed<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    glidepath_table::json::decode(body).map(|Object(value)| value).map_err(|error| {
        let why = glidepath_table::unreadable::explained(body, &error);
        Problem(ServiceError::invalid(format!("the body of the request is wrong: {why}")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_told_why_the_server_failed_and_not_what_clients_did_wrong() {
        let why = |code| error(code, "Name", "words").extensions().get().map(|Why(words)| words.clone());
        assert_eq!(why(StatusCode::SERVICE_UNAVAILABLE).as_deref(), Some("words"));
        assert_eq!(why(StatusCode::NOT_FOUND), None);
    }
}
