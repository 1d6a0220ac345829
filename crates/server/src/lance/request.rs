//! What requests have in common: what they are about, pages, bodies.
//!
//! The name in a path is the parts of an id with the delimiter between: the query's `delimiter`, or `$`. The delimiter
//! alone is the root. Of a part in a path, after the usual decoding of URLs, the percent-encoding of the delimiter
//! stands for the delimiter and `%25` for `%`; any other `%` is itself. A client that encodes both writes different ids
//! differently. Those that encode neither send the id in the body, too, wherever there is a body: then that one counts,
//! and it must have the same text, encoded or not, as the path.

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use bytes::Bytes;
use glidepath_service::{Identifier, Page, ServiceError};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::answer::Fault;
use crate::objects::plain;

const DELIMITER: &str = "$";

/// The most bytes of a delimiter.
const LONGEST_DELIMITER: usize = 8;

/// A request: what it is about, and what its body says. An empty body is an empty object.
pub(crate) struct Call<T> {
    pub(crate) id: Vec<String>,
    pub(crate) value: T,
}

impl<T> Call<T> {
    /// The table that it is about.
    pub(super) fn table(&self) -> Result<Identifier, ServiceError> {
        identifier(self.id.clone())
    }
}

pub(super) fn identifier(mut id: Vec<String>) -> Result<Identifier, ServiceError> {
    match id.pop() {
        Some(name) => Ok(Identifier { namespace: id, name }),
        None => Err(ServiceError::invalid("the id of a table is empty; it needs at least one part")),
    }
}

/// A body that says nothing but the id.
#[derive(Deserialize)]
pub(super) struct Nothing {}

#[derive(Deserialize)]
struct WithId {
    id: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct WithDelimiter {
    delimiter: Option<String>,
}

/// The query of a request.
pub(super) struct Asked<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Fault;

    async fn from_request_parts(request: &mut Parts, state: &S) -> Result<Self, Fault> {
        let query = Query::<T>::from_request_parts(request, state).await;
        query
            .map(|Query(query)| Self(query))
            .map_err(|error| ServiceError::invalid(format!("the query of the request is wrong: {error}")).into())
    }
}

/// The page of a listing. Empty values count as missing.
#[derive(Deserialize)]
pub(super) struct PageAsked {
    page_token: Option<String>,
    limit: Option<String>,
    pub(super) include_declared: Option<String>,
}

impl PageAsked {
    pub(super) fn token(&self) -> Option<String> {
        self.page_token.clone().filter(|token| !token.is_empty())
    }

    pub(super) fn size(&self) -> Result<Option<usize>, ServiceError> {
        let Some(limit) = self.limit.as_deref().filter(|limit| !limit.is_empty()) else { return Ok(None) };
        match limit.parse() {
            Ok(size) if size > 0 => Ok(Some(size)),
            _ => Err(ServiceError::invalid(format!("limit is {limit:?}; a whole number from 1 is allowed"))),
        }
    }

    pub(super) fn page(&self) -> Result<Page, ServiceError> {
        Ok(Page { token: self.token(), size: self.size()? })
    }
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Call<T> {
    type Rejection = Fault;

    async fn from_request(request: Request, state: &S) -> Result<Self, Fault> {
        let (mut parts, body) = request.into_parts();
        let path = Path::<String>::from_request_parts(&mut parts, state).await;
        let Path(path) =
            path.map_err(|error| ServiceError::invalid(format!("the path of the request is wrong: {error}")))?;
        let Asked(WithDelimiter { delimiter }) = Asked::from_request_parts(&mut parts, state).await?;
        let delimiter = delimiter.filter(|delimiter| !delimiter.is_empty()).unwrap_or_else(|| DELIMITER.to_owned());
        if delimiter.len() > LONGEST_DELIMITER || delimiter.contains('%') {
            let words = format!("delimiter is {delimiter:?}; 1 to {LONGEST_DELIMITER} bytes without % are allowed");
            return Err(ServiceError::invalid(words).into());
        }
        let body = Bytes::from_request(Request::from_parts(parts, body), state)
            .await
            .map_err(|error| ServiceError::invalid(format!("the body of the request cannot be read: {error}")))?;
        let body: &[u8] = match body.trim_ascii() {
            b"" | b"null" => b"{}",
            body => body,
        };
        let WithId { id } = plain(body)?;
        Ok(Self { id: resolved(&path, id, &delimiter)?, value: plain(body)? })
    }
}

/// The id of a request from its path and its body.
fn resolved(path: &str, body: Option<Vec<String>>, delimiter: &str) -> Result<Vec<String>, ServiceError> {
    let of_path = || -> Vec<String> {
        if path.is_empty() || path == delimiter {
            return Vec::new();
        }
        path.split(delimiter).map(|part| decoded(part, delimiter)).collect()
    };
    let Some(id) = body else { return Ok(of_path()) };
    if id.join(delimiter) == path || id == of_path() {
        return Ok(id);
    }
    Err(ServiceError::invalid(format!("the id in the body is {id:?}, and the path says {path:?}; make them the same")))
}

fn percent_encoded(delimiter: &str) -> String {
    delimiter.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// A part of a path as its client meant it.
fn decoded(part: &str, delimiter: &str) -> String {
    let encoded = percent_encoded(delimiter);
    let (mut rest, mut text) = (part, String::with_capacity(part.len()));
    while let Some(at) = rest.find('%') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let begins = |with: &str| rest.get(..with.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(with));
        let (stands_for, length) = match () {
            () if begins(&encoded) => (delimiter, encoded.len()),
            () if begins("%25") => ("%", 3),
            () => ("%", 1),
        };
        text.push_str(stands_for);
        rest = &rest[length..];
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// As a client writes an id that encodes what must be.
    fn written(id: &[String], delimiter: &str) -> String {
        let encoded = percent_encoded(delimiter);
        let part = |part: &String| part.replace('%', "%25").replace(delimiter, &encoded);
        if id.is_empty() { delimiter.to_owned() } else { id.iter().map(part).collect::<Vec<_>>().join(delimiter) }
    }

    proptest! {
        #[test]
        fn an_encoded_path_says_its_id(
            id in prop::collection::vec("[a-c$%.24é ]{1,6}", 0..4),
            delimiter in prop::sample::select(vec!["$", ".", "::", "é"]),
        ) {
            // Parts that end with the beginning of a long delimiter cannot be told apart; one character can.
            prop_assume!(delimiter != "::" || !id.iter().any(|part| part.contains(':')));
            prop_assert_eq!(resolved(&written(&id, delimiter), None, delimiter).unwrap(), id);
        }

        #[test]
        fn the_id_in_the_body_counts(id in prop::collection::vec("[a-c$%24]{1,4}", 1..4)) {
            prop_assert_eq!(resolved(&id.join("$"), Some(id.clone()), "$").unwrap(), id.clone());
            prop_assert_eq!(resolved(&written(&id, "$"), Some(id.clone()), "$").unwrap(), id);
        }
    }

    #[test]
    fn names_that_the_delimiter_would_confuse_are_told_apart() {
        let id = |parts: &[&str]| parts.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>();
        assert_eq!(resolved("a$b", None, "$").unwrap(), id(&["a", "b"]));
        assert_eq!(resolved("a%24b", None, "$").unwrap(), id(&["a$b"]));
        assert_eq!(resolved("a$b", Some(id(&["a$b"])), "$").unwrap(), id(&["a$b"]));
        assert_eq!(resolved("per%cent", None, "$").unwrap(), id(&["per%cent"]));
        assert_eq!(resolved("$", Some(Vec::new()), "$").unwrap(), id(&[]));
        assert!(resolved("a$b", Some(id(&["a", "c"])), "$").is_err());
        assert!(resolved("a", Some(Vec::new()), "$").is_err());
    }
}
