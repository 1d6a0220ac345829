//! What requests have in common: names in paths, pages, keys.

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::Uri;
use axum::http::request::Parts;
use bytes::Bytes;
use glidepath_service::{Idempotency, Identifier, Page, SEPARATOR, ServiceError};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};
use sha2::{Digest as _, Sha256};

use crate::answer::{Problem, parsed};
use crate::objects::object;
use crate::security::check::Asker;

/// The parts of a namespace in a path or a query.
pub(crate) fn parts(text: &str) -> Vec<String> {
    if text.is_empty() { Vec::new() } else { text.split(SEPARATOR).map(str::to_owned).collect() }
}

/// The namespace of a path.
pub(crate) struct InNamespace(pub(crate) Vec<String>);

/// The table or view of a path.
pub(crate) struct Named(pub(crate) Identifier);

#[derive(Deserialize)]
struct Place {
    namespace: String,
    #[serde(alias = "view")]
    table: Option<String>,
}

async fn place<S: Send + Sync>(request: &mut Parts, state: &S) -> Result<Place, Problem> {
    let path = Path::<Place>::from_request_parts(request, state).await;
    path.map(|Path(place)| place)
        .map_err(|error| Problem(ServiceError::invalid(format!("the path of the request is wrong: {error}"))))
}

impl<S: Send + Sync> FromRequestParts<S> for InNamespace {
    type Rejection = Problem;

    async fn from_request_parts(request: &mut Parts, state: &S) -> Result<Self, Problem> {
        Ok(Self(parts(&place(request, state).await?.namespace)))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Named {
    type Rejection = Problem;

    async fn from_request_parts(request: &mut Parts, state: &S) -> Result<Self, Problem> {
        let Place { namespace, table } = place(request, state).await?;
        Ok(Self(Identifier { namespace: parts(&namespace), name: table.unwrap_or_default() }))
    }
}

/// The same request; in the path of a Java client, `+` stands for a space: up to Iceberg 1.10 it writes one so, and `+`
/// itself as `%2B`. Clients in other languages mean `+`. This comes before anything looks at the path, so that all see
/// the same name.
pub(crate) fn with_spaces<B>(mut request: axum::http::Request<B>) -> axum::http::Request<B> {
    let version = request.headers().get("x-client-version").and_then(|version| version.to_str().ok());
    let is_java = version.is_some_and(|version| version.starts_with("Apache Iceberg"));
    let spaced = request.uri().path_and_query().and_then(|whole| {
        let path = whole.path();
        let has_plus = is_java && path.starts_with("/v1/namespaces/") && path.contains('+');
        let query = whole.query().map(|query| format!("?{query}")).unwrap_or_default();
        has_plus.then(|| format!("{}{query}", path.replace('+', "%20")))
    });
    if let Some(spaced) = spaced.and_then(|spaced| spaced.parse().ok()) {
        let mut parts = request.uri().clone().into_parts();
        parts.path_and_query = Some(spaced);
        if let Ok(uri) = Uri::from_parts(parts) {
            *request.uri_mut() = uri;
        }
    }
    request
}

/// The query of a request.
pub(crate) struct Asked<T>(pub(crate) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Asked<T> {
    type Rejection = Problem;

    async fn from_request_parts(request: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = Query::<T>::from_request_parts(request, state).await;
        query
            .map(|Query(query)| Self(query))
            .map_err(|error| Problem(ServiceError::invalid(format!("the query of the request is wrong: {error}"))))
    }
}

/// The page of a listing.
#[derive(Deserialize)]
pub(crate) struct PageAsked {
    #[serde(rename = "pageToken")]
    token: Option<String>,
    #[serde(rename = "pageSize")]
    size: Option<usize>,
    /// The namespace whose namespaces are listed.
    pub(crate) parent: Option<String>,
}

impl PageAsked {
    /// Without a token, not even an empty one, the client does not know pages: it must get all.
    pub(crate) fn page(&self) -> Page {
        Page { token: self.token.clone(), size: self.size.filter(|_| self.token.is_some()) }
    }
}

/// The body of a request, and its key if it has one.
pub(crate) struct Sent<T> {
    pub(crate) value: T,
    pub(crate) key: Option<Idempotency>,
}

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Sent<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let Keyed { key, body } = Keyed::from_request(request, state).await?;
        Ok(Self { value: parsed(&body)?, key })
    }
}

/// The value of an optional field; `null` counts as missing. Clients in languages whose empty lists and maps are null
/// send it.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(field: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(field)?.unwrap_or_default())
}

/// A request whose body has no meaning, and its key if it has one.
pub(crate) struct Keyed {
    pub(crate) key: Option<Idempotency>,
    body: Bytes,
}

impl<S: Send + Sync> FromRequest<S> for Keyed {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let mut keys = request.headers().get_all("idempotency-key").iter().cloned();
        let given = keys.next();
        if keys.next().is_some() {
            return Err(Problem(ServiceError::invalid("Idempotency-Key: found two; allowed is one")));
        }
        let mut digest = given.is_some().then(Digest::default);
        if let Some(digest) = &mut digest {
            digest.add(request.method().as_str().as_bytes());
            // Two users who choose the same key do not get each other's answers.
            let asker = request.extensions().get::<Asker>().map_or("", |Asker(identity)| identity.name());
            digest.add(asker.as_bytes());
            digest.add(request.uri().path_and_query().map_or("", |path| path.as_str()).as_bytes());
        }
        let body = Bytes::from_request(request, state).await.map_err(|error| {
            Problem(ServiceError::invalid(format!("the body of the request cannot be read: {error}")))
        })?;
        let key = given.zip(digest).map(|(given, mut digest)| {
            digest.add(&body);
            Idempotency::new(given.to_str().unwrap_or_default(), digest.text())
        });
        let key = key.transpose()?;
        Ok(Self { key, body })
    }
}

/// Tells requests apart whose key is the same, by mistake or because somebody has learnt another's key: 128 bits of a
/// SHA-256.
#[derive(Default)]
struct Digest(Sha256);

impl Digest {
    fn add(&mut self, bytes: &[u8]) {
        self.0.update((bytes.len() as u64).to_be_bytes());
        self.0.update(bytes);
    }

    fn text(self) -> String {
        self.0.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
    }
}

/// A table or a view in a body.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WireName {
    pub(crate) namespace: Vec<String>,
    pub(crate) name: String,
}

impl From<WireName> for Identifier {
    fn from(WireName { namespace, name }: WireName) -> Self {
        Self { namespace, name }
    }
}

impl From<Identifier> for WireName {
    fn from(Identifier { namespace, name }: Identifier) -> Self {
        Self { namespace, name }
    }
}

/// A listing of tables or views.
#[derive(Serialize)]
pub(crate) struct Names {
    pub(crate) identifiers: Vec<WireName>,
    #[serde(rename = "next-page-token")]
    pub(crate) next: Option<String>,
}

/// The names of a rename.
#[derive(Deserialize)]
pub(crate) struct Rename {
    #[serde(deserialize_with = "object")]
    pub(crate) source: WireName,
    #[serde(deserialize_with = "object")]
    pub(crate) destination: WireName,
}
