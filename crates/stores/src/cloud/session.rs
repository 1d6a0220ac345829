//! Sessions of directory buckets of S3 Express One Zone. `CreateSession`, signed with the client's own credentials,
//! returns an access key that is valid for five minutes; every other request is signed with that key.
//!
//! All requests on such a bucket are signed here, those of the client library and our own. (The library has sessions of
//! its own. They work with Amazon's address only, so they cannot be tested; and the library signs for the service `s3`,
//! Amazon's own tools for `s3express`.)
//!
//! Without a session nothing is sent, so the lack of a session never makes the outcome of a write unknown.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use chrono::DateTime;
use http::header::{DATE, HeaderName};
use http::{HeaderMap, HeaderValue, Method};
use http_body_util::BodyExt;
use object_store::ClientOptions;
use object_store::aws::{AwsAuthorizer, AwsCredential, AwsCredentialProvider};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse, HttpService,
};

use super::BACKOFF;
use super::counts::{Operation, Tally};
use super::outcome::{self, Ending, ReadMeaning};
use super::wire::{Trace, chain, element};

/// The service name in signatures for directory buckets.
const SERVICE: &str = "s3express";

/// The header for a session's token; the token of other temporary credentials has another header.
const TOKEN: HeaderName = HeaderName::from_static("x-amz-s3session-token");

/// The lifetime of a session if the answer does not give it (Amazon S3 API reference, `CreateSession`).
const USUAL_LIFETIME: Duration = Duration::from_secs(5 * 60);

/// The maximum lifetime, whatever a server says.
const LONGEST_LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

/// A session is replaced this long before its end, or a fifth of its lifetime before if that is less.
const MARGIN: Duration = Duration::from_secs(60);

/// The pause after a failure to create a new session, while the old one is still valid.
const PAUSE: Duration = Duration::from_secs(5);

/// Signs requests on one bucket, and holds its session. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Sessions(Arc<Inner>);

/// What is needed to request sessions.
#[derive(Debug)]
pub(crate) struct Source {
    pub(crate) wire: HttpClient,
    /// URL of the bucket, without a slash at its end.
    pub(crate) base: String,
    pub(crate) region: String,
    pub(crate) credentials: AwsCredentialProvider,
    /// How often `CreateSession` is repeated, which is always safe.
    pub(crate) repeats: u32,
    pub(crate) tally: Arc<Tally>,
}

#[derive(Debug)]
struct Inner {
    source: Source,
    current: Mutex<Option<Arc<Session>>>,
    /// Held while a session is requested, so that only one request runs at a time.
    renewal: tokio::sync::Mutex<Option<Failure>>,
}

/// Why the last renewal failed, for the requests that waited for it.
#[derive(Debug)]
struct Failure {
    at: Instant,
    why: String,
}

#[derive(Clone, Debug)]
struct Session {
    /// Without the token, which the library would put into the wrong header.
    key: Arc<AwsCredential>,
    token: HeaderValue,
    renew_from: Instant,
    ends: Instant,
}

impl Sessions {
    pub(crate) fn new(source: Source) -> Self {
        Self(Arc::new(Inner { source, current: Mutex::default(), renewal: tokio::sync::Mutex::default() }))
    }

    /// A valid session other than `refused`.
    async fn session(&self, refused: Option<&Arc<Session>>) -> Result<Arc<Session>, String> {
        let began = Instant::now();
        let held = || {
            let current = self.0.current.lock().unwrap_or_else(PoisonError::into_inner).clone();
            current.filter(|held| Instant::now() < held.ends && refused.is_none_or(|old| !Arc::ptr_eq(held, old)))
        };
        let mut renewal = match held() {
            Some(held) if began < held.renew_from => return Ok(held),
            // While the old session is valid, only one request waits for the new one.
            Some(held) => match self.0.renewal.try_lock() {
                Ok(renewal) => renewal,
                Err(_) => return Ok(held),
            },
            None => self.0.renewal.lock().await,
        };
        // Another request may have renewed it meanwhile, or failed to; one failure is enough for all that waited.
        let held = match (held(), &*renewal) {
            (Some(held), _) if Instant::now() < held.renew_from => return Ok(held),
            (None, Some(failure)) if failure.at >= began => return Err(failure.why.clone()),
            (held, _) => held,
        };
        let session = match (self.create().await, held) {
            (Ok(session), _) => Arc::new(session),
            (Err(_), Some(held)) => Arc::new(Session { renew_from: Instant::now() + PAUSE, ..(*held).clone() }),
            (Err(why), None) => {
                *renewal = Some(Failure { at: Instant::now(), why: why.clone() });
                return Err(why);
            }
        };
        *self.0.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&session));
        Ok(session)
    }

    async fn create(&self) -> Result<Session, String> {
        let mut repeated = 0;
        loop {
            let ending = match self.ask().await {
                Ok(session) => return Ok(session),
                Err(ending) => ending,
            };
            let later = matches!(outcome::of_read(&ending), ReadMeaning::Failed { later: true });
            if !later || repeated >= self.0.source.repeats {
                return Err(refusal(&ending));
            }
            let wait = BACKOFF.wait(repeated, rand::random);
            repeated += 1;
            tokio::time::sleep(Duration::from_nanos(wait.as_nanos())).await;
            self.0.source.tally.repeat(Operation::Credentials);
        }
    }

    /// Sends `CreateSession` once. Without a mode, the session has all permissions of the sender, even if only reading.
    async fn ask(&self) -> Result<Session, Ending> {
        let Source { wire, base, region, credentials, .. } = &self.0.source;
        let not_tried = |why: String| Ending::NotTried { why };
        let credential = credentials.get_credential().await.map_err(|error| not_tried(chain(&error)))?;
        let request = http::Request::builder().method(Method::GET).uri(format!("{base}/?session"));
        let mut request = request.body(HttpRequestBody::empty()).map_err(|error| not_tried(error.to_string()))?;
        let signed = AwsAuthorizer::new(&credential, SERVICE, region).try_authorize(&mut request, None);
        signed.map_err(|error| not_tried(chain(&error)))?;
        let trace = Trace::new(Operation::Credentials);
        request.extensions_mut().insert(Arc::clone(&trace));
        let began = Instant::now();
        let broken = |error: HttpError| trace.ending(Some(&error));
        let (parts, body) = wire.execute(request).await.map_err(broken)?.into_parts();
        let body = body.bytes().await.map_err(broken)?;
        if !parts.status.is_success() {
            return Err(trace.ending(None));
        }
        let session = read(&parts.headers, &String::from_utf8_lossy(&body), began);
        session.ok_or_else(|| Ending::Broken { why: "the answer contains no session".to_owned() })
    }

    async fn send(&self, session: &Session, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        request.headers_mut().insert(TOKEN, session.token.clone());
        let authorizer = AwsAuthorizer::new(&session.key, SERVICE, &self.0.source.region);
        let signed = authorizer.try_authorize(&mut request, None);
        signed.map_err(|error| HttpError::new(HttpErrorKind::Request, error))?;
        self.0.source.wire.execute(request).await
    }
}

#[async_trait]
impl HttpService for Sessions {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let trace = request.extensions().get::<Arc<Trace>>().cloned();
        let not_tried = |why: String| {
            if let Some(trace) = &trace {
                trace.note(Ending::NotTried { why: why.clone() });
            }
            HttpError::new(HttpErrorKind::Request, std::io::Error::other(why))
        };
        // In one piece, because only that can be signed; a body in one piece is not copied.
        let (parts, body) = request.into_parts();
        let request = HttpRequest::from_parts(parts, body.collect().await?.to_bytes().into());
        let session = self.session(None).await.map_err(not_tried)?;
        let response = self.send(&session, request.clone()).await?;
        // A session may end early (a wrong clock, a permission withdrawn and granted again). A request refused for this
        // reason had no effect, so it is repeated once, with a session that has not been refused yet.
        let refused = trace.as_ref().filter(|trace| outcome::may_be_the_session(&trace.ending(None)));
        let Some(refused) = refused else { return Ok(response) };
        self.0.source.tally.repeat(refused.operation());
        let session = self.session(Some(&session)).await.map_err(not_tried)?;
        self.send(&session, request).await
    }
}

impl HttpConnector for Sessions {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

fn refusal(ending: &Ending) -> String {
    let permission = match ending {
        Ending::Answered(answer) if answer.status == 403 => " (they need s3express:CreateSession)",
        _ => "",
    };
    format!("no session could be created, and a directory bucket needs one: {ending}{permission}")
}

/// The session in an answer. Its lifetime is computed from the server's own clock, so ours may be wrong.
fn read(headers: &HeaderMap, body: &str, began: Instant) -> Option<Session> {
    let mut token = HeaderValue::try_from(element(body, "SessionToken")?).ok()?;
    token.set_sensitive(true);
    let key_id = element(body, "AccessKeyId")?;
    let secret_key = element(body, "SecretAccessKey")?;
    let now = headers.get(DATE).and_then(|date| DateTime::parse_from_rfc2822(date.to_str().ok()?).ok());
    let end = element(body, "Expiration").and_then(|end| DateTime::parse_from_rfc3339(&end).ok());
    let lifetime = match (now, end) {
        (Some(now), Some(end)) => (end - now).to_std().unwrap_or_default().min(LONGEST_LIFETIME),
        _ => USUAL_LIFETIME,
    };
    Some(Session {
        key: Arc::new(AwsCredential { key_id, secret_key, token: None }),
        token,
        renew_from: began + lifetime - MARGIN.min(lifetime / 5),
        ends: began + lifetime,
    })
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
