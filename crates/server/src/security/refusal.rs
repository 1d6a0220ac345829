//! Refusals, in the words of the protocol that the client speaks.

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use glidepath_access::Denied;
use glidepath_service::ServiceError;
use serde::Serialize;

use crate::answer;
use crate::people;

/// The protocol of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speech {
    Iceberg,
    Lance,
    /// A page.
    People,
}

impl Speech {
    /// The protocol of a path: Lance's routes have the singular, Iceberg's the plural.
    pub(crate) fn of(path: &str) -> Self {
        let singular = ["/v1/namespace/", "/v1/table/", "/v1/transaction/", "/v1/materialized_view/"];
        match path {
            page if people::is_page(page) => Self::People,
            path if singular.iter().any(|start| path.starts_with(start)) => Self::Lance,
            _ => Self::Iceberg,
        }
    }
}

/// Why a request goes no further.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// It has no valid token.
    Denied(Denied),
    /// The client may see what it names, and not do this.
    Forbidden(String),
    /// What it names does not exist, or the client may not know of it; or the request is wrong.
    Failed(ServiceError),
    /// Anything else. The third is Lance's code.
    Other(StatusCode, &'static str, u32, String),
}

impl From<ServiceError> for Refusal {
    fn from(error: ServiceError) -> Self {
        Self::Failed(error)
    }
}

#[derive(Serialize)]
struct OfLance<'a> {
    error: &'a str,
    code: u32,
}

impl Refusal {
    pub(crate) fn busy(words: impl Into<String>) -> Self {
        Self::Other(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailableException", 17, words.into())
    }

    pub(crate) fn answer(self, speech: Speech) -> Response {
        let mut challenge = None;
        let (status, name, code, words) = match self {
            Self::Denied(denied) if denied.is_unavailable() => {
                tracing::warn!(why = ?denied, "a token could not be checked");
                (StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailableException", 17, denied.to_string())
            }
            Self::Denied(denied) => {
                challenge = Some(denied.challenge());
                (StatusCode::UNAUTHORIZED, "NotAuthorizedException", 16, denied.to_string())
            }
            Self::Forbidden(words) => (StatusCode::FORBIDDEN, "ForbiddenException", 15, words),
            Self::Failed(error) => {
                let (status, name) = answer::status(error.kind);
                (status, name, lance_code(status), error.message)
            }
            Self::Other(status, name, code, words) => (status, name, code, words),
        };
        let mut response = match speech {
            Speech::Iceberg => answer::error(status, name, &words),
            Speech::Lance => {
                let mut response = answer::json(status, &OfLance { error: &words, code });
                answer::note(&mut response, name, &words);
                response
            }
            Speech::People => people::failure(status, name, &words),
        };
        if let Some(challenge) = challenge {
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(challenge));
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// Lance's code of a failure of a check; those of handlers are their own.
fn lance_code(status: StatusCode) -> u32 {
    match status {
        StatusCode::NOT_FOUND => 1,
        StatusCode::BAD_REQUEST => 13,
        StatusCode::SERVICE_UNAVAILABLE => 17,
        _ => 18,
    }
}
