//! Translates uploads for an emulator of Google Cloud Storage. fake-gcs-server, the only emulator, accepts uploads in
//! Google's JSON dialect only, but the client library sends them in the XML dialect. For plain `http://` endpoints a
//! PUT is translated into a media upload, and the answer into what the library expects. Requests to Google itself are
//! not changed. Nor does the emulator name an error by its code, as Google does: its 404 gets that of a missing object.

use async_trait::async_trait;
use bytes::Bytes;
use http::header::CONTENT_LENGTH;
use http::{HeaderValue, Method, StatusCode, Uri};
use object_store::client::{HttpClient, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService};

/// A client that translates.
pub(super) fn translated(client: HttpClient) -> HttpClient {
    HttpClient::new(Translator(client))
}

#[derive(Debug)]
struct Translator(HttpClient);

#[async_trait]
impl HttpService for Translator {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if request.method() != Method::PUT {
            return self.0.execute(request).await.map(named);
        }
        let guard = request.headers_mut().remove("x-goog-if-generation-match");
        let guard = guard.as_ref().and_then(|value| value.to_str().ok());
        *request.uri_mut() =
            upload(request.uri(), guard).map_err(|error| HttpError::new(HttpErrorKind::Request, error))?;
        *request.method_mut() = Method::POST;
        let (mut parts, body) = self.0.execute(request).await?.into_parts();
        let body = body.bytes().await?;
        if parts.status.is_success()
            && let Some(generation) = generation(&body)
        {
            parts.headers.insert("x-goog-generation", generation);
            // The library requires an ETag; our tags on this provider are generations.
            parts.headers.insert("etag", HeaderValue::from_static("\"none\""));
        }
        Ok(HttpResponse::from_parts(parts, body.into()))
    }
}

/// The answer, with the code of a missing object if it is a 404.
fn named(response: HttpResponse) -> HttpResponse {
    if response.status() != StatusCode::NOT_FOUND {
        return response;
    }
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    HttpResponse::from_parts(parts, Bytes::from_static(b"<Error><Code>NoSuchKey</Code></Error>").into())
}

/// The upload URL for a PUT to `/bucket/name`. The name is already percent-encoded, so a query can contain it
/// unchanged.
fn upload(uri: &Uri, guard: Option<&str>) -> Result<Uri, http::Error> {
    let (bucket, name) = uri.path().trim_start_matches('/').split_once('/').unwrap_or((uri.path(), ""));
    let guard = guard.map_or(String::new(), |generation| format!("&ifGenerationMatch={generation}"));
    // Characters that have a meaning in a query but not in a path.
    let name = name.replace('&', "%26").replace('+', "%2B").replace('=', "%3D");
    let mut parts = uri.clone().into_parts();
    parts.path_and_query =
        Some(format!("/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}{guard}").parse()?);
    Ok(Uri::from_parts(parts)?)
}

fn generation(body: &[u8]) -> Option<HeaderValue> {
    let object: serde_json::Value = serde_json::from_slice(body).ok()?;
    HeaderValue::from_str(object.get("generation")?.as_str()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uploads() {
        let uri = |text: &str| text.parse::<Uri>().unwrap();
        assert_eq!(
            upload(&uri("http://127.0.0.1:4443/b/a/b%20c+d&e"), Some("0")).unwrap(),
            uri(
                "http://127.0.0.1:4443/upload/storage/v1/b/b/o?uploadType=media&name=a/b%20c%2Bd%26e&ifGenerationMatch=0"
            )
        );
        assert_eq!(generation(br#"{"generation":"17"}"#).unwrap(), "17");
        assert_eq!(generation(b"{}"), None);
        assert_eq!(generation(b"<xml/>"), None);
    }
}
