//! Requests that the client library does not offer: single deletes and appends, sent directly, with the library's
//! signing.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{AUTHORIZATION, CONTENT_LENGTH, HeaderName};
use http::{HeaderMap, HeaderValue, Method};
use object_store::aws::{AwsAuthorizer, AwsCredentialProvider};
use object_store::azure::{AzureAuthorizer, AzureCredentialProvider};
use object_store::client::{HttpClient, HttpRequest};
use object_store::gcp::GcpCredentialProvider;
use object_store::path::Path;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::outcome::Ending;
use super::wire::{Trace, chain};

/// Encodes everything that S3's signature requires to be encoded, except slashes.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The credentials of the sender.
#[derive(Clone)]
pub(crate) enum Credentials {
    Aws { provider: AwsCredentialProvider, region: String },
    Azure { provider: AzureCredentialProvider, account: String },
    Gcs(GcpCredentialProvider),
    None,
}

/// A client for one bucket.
#[derive(Clone)]
pub(crate) struct Signed {
    client: HttpClient,
    /// URL of the bucket, without a slash at its end.
    base: String,
    credentials: Credentials,
}

/// A request made without the library.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) method: Method,
    pub(crate) path: &'a Path,
    /// Includes its question mark, or is empty.
    pub(crate) query: &'static str,
    pub(crate) headers: Vec<(&'static str, String)>,
    pub(crate) body: Bytes,
}

impl Signed {
    pub(crate) fn new(client: HttpClient, base: String, credentials: Credentials) -> Self {
        Self { client, base, credentials }
    }

    /// The client that sends.
    pub(crate) fn client(&self) -> HttpClient {
        self.client.clone()
    }

    /// The credentials of the sender.
    pub(crate) fn credentials(&self) -> &Credentials {
        &self.credentials
    }

    /// Sends it once. Returns the ending and, for a success, the headers of the answer.
    pub(crate) async fn send(&self, request: Request<'_>, trace: &Arc<Trace>) -> (Ending, HeaderMap) {
        let mut message = match self.message(request) {
            Ok(message) => message,
            Err(error) => return (Ending::NotTried { why: chain(&error) }, HeaderMap::new()),
        };
        if let Err(error) = self.sign(&mut message).await {
            return (Ending::NotTried { why: chain(&error) }, HeaderMap::new());
        }
        message.extensions_mut().insert(Arc::clone(trace));
        match self.client.execute(message).await {
            // The outcome is in the headers; the body is read so that the connection can be reused.
            Ok(response) => {
                let (parts, body) = response.into_parts();
                let _ = body.bytes().await;
                (trace.ending(None), parts.headers)
            }
            Err(error) => (trace.ending(Some(&error)), HeaderMap::new()),
        }
    }

    fn message(&self, request: Request<'_>) -> Result<HttpRequest, http::Error> {
        let path = utf8_percent_encode(request.path.as_ref(), ENCODED);
        let mut builder = http::Request::builder()
            .method(request.method.clone())
            .uri(format!("{}/{path}{}", self.base, request.query));
        for (name, value) in request.headers {
            builder = builder.header(HeaderName::from_static(name), value);
        }
        // Azure's signature includes the length; an empty PUT must state that it is empty.
        if !request.body.is_empty() || request.method == Method::PUT {
            builder = builder.header(CONTENT_LENGTH, request.body.len());
        }
        builder.body(request.body.into())
    }

    async fn sign(&self, message: &mut HttpRequest) -> object_store::Result<()> {
        match &self.credentials {
            Credentials::Aws { provider, region } => {
                let credential = provider.get_credential().await?;
                AwsAuthorizer::new(&credential, "s3", region).try_authorize(message, None)
            }
            Credentials::Azure { provider, account } => {
                let credential = provider.get_credential().await?;
                AzureAuthorizer::new(&credential, account).try_authorize(message)
            }
            Credentials::Gcs(provider) => {
                let credential = provider.get_credential().await?;
                if let Ok(mut bearer) = HeaderValue::try_from(format!("Bearer {}", credential.bearer)) {
                    bearer.set_sensitive(true);
                    message.headers_mut().insert(AUTHORIZATION, bearer);
                }
                Ok(())
            }
            Credentials::None => Ok(()),
        }
    }
}
