//! fake-gcs-server takes uploads in Google's JSON dialect only, the client library sends them in the XML one. This
//! translates a conditional PUT into a media upload, and the answer back.

use async_trait::async_trait;
use glidepath_stores::cloud::HttpClient;
use http::{HeaderValue, Method, StatusCode, Uri};
use object_store::client::{HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService};
use serde_json::Value;

/// A client that speaks both dialects.
pub fn translate(client: HttpClient) -> HttpClient {
    HttpClient::new(Translator(client))
}

#[derive(Debug)]
struct Translator(HttpClient);

#[async_trait]
impl HttpService for Translator {
    async fn call(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        if request.method() != Method::PUT {
            return self.0.execute(request).await;
        }
        let uri = request.uri().clone();
        let (bucket, name) = uri.path().trim_start_matches('/').split_once('/').unwrap();
        let guard = request.headers_mut().remove("x-goog-if-generation-match");
        let guard = guard.map_or(String::new(), |value| format!("&ifGenerationMatch={}", value.to_str().unwrap()));
        let authority = uri.authority().unwrap();
        let upload = format!("http://{authority}/upload/storage/v1/b/{bucket}/o?uploadType=media&name={name}{guard}");
        *request.uri_mut() = upload.parse::<Uri>().unwrap();
        *request.method_mut() = Method::POST;
        let (mut parts, body) = self.0.execute(request).await?.into_parts();
        let body = body.bytes().await?;
        if parts.status == StatusCode::OK {
            let object: Value =
                serde_json::from_slice(&body).map_err(|error| HttpError::new(HttpErrorKind::Decode, error))?;
            let generation = HeaderValue::from_str(object["generation"].as_str().unwrap()).unwrap();
            parts.headers.insert("x-goog-generation", generation);
            parts.headers.insert("etag", HeaderValue::from_static("\"of no use\""));
        }
        Ok(HttpResponse::from_parts(parts, body.into()))
    }
}
