//! The layer under the client library, which sees every exchange with a server. It counts exchanges, and records how
//! each one of an operation ended, because the library's own errors are not exact enough (it reports every 409 as
//! "already exists", and does not distinguish most broken connections).

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use glidepath_model::Span;
use http::{HeaderMap, Uri};
use http_body_util::{BodyExt, Limited};
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody, HttpService,
};

use super::counts::{Operation, Tally};
use super::outcome::{Answer, Ending};
use crate::open::Options;

/// A connection that was idle for longer is not reused. Azurite closes idle connections after 5 s and S3 after a few
/// more; a request on a connection that is being closed is of unknown outcome, which costs more than a new connection.
const IDLE_LIMIT: Duration = Duration::from_secs(4);

/// The maximum number of bytes read from an error's body.
const ERROR_BODY_LIMIT: usize = 64 * 1024;

/// The maximum number of characters quoted from a server's message.
const WORDS_LIMIT: usize = 200;

/// The trace of one operation: its kind, and how its last exchange ended. Attached to the request.
#[derive(Debug)]
pub(crate) struct Trace {
    operation: Operation,
    ending: Mutex<Option<Ending>>,
    sent: AtomicBool,
}

impl Trace {
    pub(crate) fn new(operation: Operation) -> Arc<Self> {
        Arc::new(Self { operation, ending: Mutex::new(None), sent: AtomicBool::new(false) })
    }

    /// The extensions that attach it to a request.
    pub(crate) fn extensions(self: &Arc<Self>) -> http::Extensions {
        let mut extensions = http::Extensions::new();
        extensions.insert(Arc::clone(self));
        extensions
    }

    /// How the exchange ended. `error` is the library's error, or `None` for a success.
    pub(crate) fn ending(&self, error: Option<&(dyn Error + 'static)>) -> Ending {
        let seen = self.ending.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match (seen, error) {
            // A success that the library could not use: the body broke off, or a header is missing.
            (Some(Ending::Answered(answer)), Some(error)) if (200..300).contains(&answer.status) => {
                Ending::Broken { why: chain(error) }
            }
            (Some(ending), _) => ending,
            (None, Some(error)) => Ending::NotTried { why: chain(error) },
            (None, None) => Ending::Answered(Answer { status: 200, ..Answer::default() }),
        }
    }

    /// Whether the server answered with success, whatever the library reports.
    pub(crate) fn succeeded(&self) -> bool {
        let seen = self.ending.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(&*seen, Some(Ending::Answered(answer)) if (200..300).contains(&answer.status))
    }

    /// The kind of operation.
    pub(crate) fn operation(&self) -> Operation {
        self.operation
    }

    /// Whether bytes of the request can have left this process, in any exchange.
    pub(crate) fn was_sent(&self) -> bool {
        self.sent.load(Ordering::Relaxed)
    }

    /// Records how an exchange ended. Only the last ending counts, but whether bytes were sent accumulates.
    pub(crate) fn note(&self, ending: Ending) {
        self.sent.fetch_or(ending.was_sent(), Ordering::Relaxed);
        *self.ending.lock().unwrap_or_else(PoisonError::into_inner) = Some(ending);
    }
}

/// Creates the clients that the library uses; all share one pool of connections.
#[derive(Clone, Debug)]
pub(crate) struct Connector {
    client: HttpClient,
    tally: Arc<Tally>,
}

impl Connector {
    /// `rewrite` may insert a client between the counting and the network.
    pub(crate) fn new(
        options: &Options,
        tally: &Arc<Tally>,
        rewrite: impl FnOnce(HttpClient) -> HttpClient,
    ) -> Result<Self, reqwest::Error> {
        let client = HttpClient::new(Network(network(options)?));
        Ok(Self { client: rewrite(client), tally: Arc::clone(tally) })
    }

    /// The counters that its clients share.
    pub(crate) fn tally(&self) -> Arc<Tally> {
        Arc::clone(&self.tally)
    }

    pub(crate) fn client(&self) -> HttpClient {
        HttpClient::new(Wire { client: self.client.clone(), tally: Arc::clone(&self.tally) })
    }
}

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(self.client())
    }
}

fn network(options: &Options) -> Result<reqwest::Client, reqwest::Error> {
    // Fails if the program has chosen another one, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let duration = |span: Span| Duration::from_nanos(span.as_nanos());
    reqwest::Client::builder()
        .timeout(duration(options.request_timeout))
        .connect_timeout(duration(options.connect_timeout))
        .pool_idle_timeout(IDLE_LIMIT)
        // A redirected PUT may arrive as a GET, whose success would be wrong.
        .redirect(reqwest::redirect::Policy::none())
        // Only this crate repeats requests.
        .retry(reqwest::retry::never())
        .http1_only()
        .tcp_nodelay(true)
        .user_agent(concat!("glidepath/", env!("CARGO_PKG_VERSION")))
        .build()
}

/// The network itself.
#[derive(Debug)]
struct Network(reqwest::Client);

#[async_trait]
impl HttpService for Network {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let (parts, body) = request.into_parts();
        let length = body.content_length();
        let url = reqwest::Url::parse(&parts.uri.to_string())
            .map_err(|error| HttpError::new(HttpErrorKind::Connect, error))?;
        let mut request = reqwest::Request::new(parts.method, url);
        *request.headers_mut() = parts.headers;
        *request.body_mut() = (length > 0).then(|| reqwest::Body::wrap(body));
        let response = self.0.execute(request).await.map_err(of_network)?;
        let (parts, body) = http::Response::<reqwest::Body>::from(response).into_parts();
        Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(body.map_err(of_network))))
    }
}

/// Exact about the one fact that decides the meaning of a write: whether there was a connection.
fn of_network(error: reqwest::Error) -> HttpError {
    let kind = if error.is_connect() {
        HttpErrorKind::Connect
    } else if error.is_timeout() {
        HttpErrorKind::Timeout
    } else {
        HttpErrorKind::Interrupted
    };
    HttpError::new(kind, error.without_url())
}

/// Records and counts exchanges.
#[derive(Debug)]
struct Wire {
    client: HttpClient,
    tally: Arc<Tally>,
}

#[async_trait]
impl HttpService for Wire {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let trace = request.extensions().get::<Arc<Trace>>().cloned();
        // Only the library's own requests have no trace: those for credentials.
        let operation = trace.as_ref().map_or(Operation::Credentials, |trace| trace.operation);
        let note = |ending| {
            if let Some(trace) = &trace {
                trace.note(ending);
            }
        };
        self.tally.request(operation, request.body().content_length());
        // If it is dropped before there is an answer, it may have been sent.
        note(Ending::Broken { why: "given up".to_owned() });
        let server = server_of(request.uri());
        let response = match self.client.execute(request).await {
            Ok(response) => response,
            Err(error) => {
                self.tally.failure(operation);
                note(of_error(&error, server));
                return Err(error);
            }
        };
        let (parts, body) = response.into_parts();
        let status = parts.status.as_u16();
        if parts.status.is_success() {
            note(Ending::Answered(Answer { status, ..Answer::default() }));
            let tally = Arc::clone(&self.tally);
            let counted = body.map_frame(move |frame| {
                tally.received(operation, frame.data_ref().map_or(0, Bytes::len));
                frame
            });
            return Ok(HttpResponse::from_parts(parts, HttpResponseBody::new(counted)));
        }
        self.tally.failure(operation);
        // The status is enough if the body breaks off.
        let body = Limited::new(body, ERROR_BODY_LIMIT).collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        self.tally.received(operation, body.len());
        note(Ending::Answered(of_answer(status, &parts.headers, &String::from_utf8_lossy(&body))));
        Ok(HttpResponse::from_parts(parts, body.into()))
    }
}

/// The host and port of a request, for people.
fn server_of(uri: &Uri) -> String {
    let host = uri.host().unwrap_or_default();
    uri.port_u16().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

fn of_error(error: &HttpError, server: String) -> Ending {
    let why = chain(error);
    if error.kind() != HttpErrorKind::Connect {
        return Ending::Broken { why };
    }
    let network = error.source().and_then(|source| source.downcast_ref::<reqwest::Error>());
    Ending::NotConnected { timed_out: network.is_some_and(reqwest::Error::is_timeout), server, why }
}

fn of_answer(status: u16, headers: &HeaderMap, body: &str) -> Answer {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    Answer {
        status,
        code: header("x-ms-error-code").or_else(|| element(body, "Code")),
        // Only this element of the body: others quote what was signed.
        words: element(body, "Message").map(|words| words.chars().take(WORDS_LIMIT).collect()),
    }
}

/// The text of the first XML element of this name, on one line.
pub(crate) fn element(body: &str, name: &str) -> Option<String> {
    let (_, rest) = body.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    Some(text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// The first line of the text of the first XML element of this name, shortened.
pub(crate) fn element_line(body: &str, name: &str) -> Option<String> {
    let (_, rest) = body.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    let line = text.trim_start().lines().next().unwrap_or_default();
    Some(line.trim_end().chars().filter(|c| !c.is_control()).take(WORDS_LIMIT).collect())
}

/// An error and what caused it, in one line.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut words = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let cause = error.to_string();
        // Some libraries already print their causes.
        if !words.contains(&cause) {
            words.push_str(": ");
            words.push_str(&cause);
        }
        source = error.source();
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_come_from_the_header_or_the_body() {
        let body = "<?xml version=\"1.0\"?>\n<Error><Code>SlowDown</Code><Message>Reduce\n your rate</Message></Error>";
        let answer = of_answer(503, &HeaderMap::new(), body);
        assert_eq!(answer.code.as_deref(), Some("SlowDown"));
        assert_eq!(answer.words.as_deref(), Some("Reduce your rate"));
        let mut headers = HeaderMap::new();
        headers.insert("x-ms-error-code", http::HeaderValue::from_static("ServerBusy"));
        assert_eq!(of_answer(503, &headers, body).code.as_deref(), Some("ServerBusy"));
        assert_eq!(of_answer(503, &HeaderMap::new(), "<html>busy"), Answer { status: 503, ..Answer::default() });
    }

    #[test]
    fn a_success_that_the_library_cannot_use_is_not_taken_for_one() {
        let trace = Trace::new(Operation::Put);
        trace.note(Ending::Answered(Answer { status: 200, ..Answer::default() }));
        assert!(matches!(trace.ending(None), Ending::Answered(_)));
        let error = std::io::Error::other("no ETag");
        assert_eq!(trace.ending(Some(&error)), Ending::Broken { why: "no ETag".to_owned() });
        assert!(matches!(Trace::new(Operation::Put).ending(Some(&error)), Ending::NotTried { .. }));
        // A request that was refused, and then could not be repeated because no session could be created, has been
        // sent.
        let trace = Trace::new(Operation::Put);
        assert!(!trace.was_sent());
        trace.note(Ending::Answered(Answer { status: 403, ..Answer::default() }));
        trace.note(Ending::NotTried { why: "no session could be created".to_owned() });
        assert!(trace.was_sent() && matches!(trace.ending(None), Ending::NotTried { .. }));
    }
}
