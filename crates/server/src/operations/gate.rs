//! What every request passes before its handler: its name in the log, the limits, the token, the rights.
//!
//! Steps:
//!
//! 1. Too many requests: 503, as soon as a small body has come. Nothing was done.
//! 2. No valid token: 401; for a page without any token, a form that asks for it. Without tokens, what a page of
//!    another site may have sent: 403. Nothing was done.
//! 3. The body: 415 if it is compressed, 413 if it is too long, 503 if all bodies together are, 408 if it does not come
//!    in time. Nothing was done.
//! 4. From here on the request runs in a task of its own, also if the client goes away: the rights, then the handler.
//! 5. Its time ends before the work: 504 for a request that changes something, since the work goes on and its outcome
//!    is unknown; 503 for others.
//! 6. The answers that clients have not read are too long together: 503, if it only reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use axum::body::Body;
use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use bytes::Bytes;
use glidepath_access::Access;
use glidepath_env::{Env, Purpose};
use glidepath_stores::LiveEnv;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant as Deadline, timeout_at};

use super::Limits;
use super::bodies::{Bodies, Room, SMALL, discard};
use super::metrics::Metrics;
use super::sending::Answers;
use crate::answer::{ErrorName, Why};
use crate::people;
use crate::security::check::{Asker, authenticate, authorize};
use crate::security::foreign;
use crate::security::refusal::{Refusal, Speech};
use crate::state::App;

/// The header with the name of a request in logs.
const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The most characters of a name that a client gives.
const LONGEST_ID: usize = 128;

/// The most characters of a path in a log.
const LONGEST_PATH: usize = 512;

/// What all requests pass.
pub(crate) struct Gate {
    pub(crate) access: Access,
    pub(crate) limits: Limits,
    bodies: Bodies,
    answers: Answers,
    pub(crate) metrics: Arc<Metrics>,
    /// One permit for each request that may still begin.
    free: Arc<Semaphore>,
    draining: AtomicBool,
    env: LiveEnv,
}

impl Gate {
    pub(crate) fn new(access: Access, limits: Limits, metrics: Arc<Metrics>) -> Self {
        let free = Arc::new(Semaphore::new(limits.most_requests));
        let bodies = Bodies::new(limits.most_body_bytes, limits.all_bodies_bytes);
        let (answers, env) = (Answers::new(limits.all_answers_bytes), LiveEnv::new());
        Self { access, limits, bodies, answers, metrics, free, draining: AtomicBool::new(false), env }
    }

    /// Requests at this moment, also those whose client has gone.
    pub(crate) fn running(&self) -> usize {
        self.limits.most_requests.saturating_sub(self.free.available_permits())
    }

    /// The server is about to end.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::SeqCst)
    }

    /// The name of a request: the client's if it is printable and short, or a new one.
    fn id_of(&self, headers: &HeaderMap) -> HeaderValue {
        let given = headers.get(&REQUEST_ID).filter(|given| {
            let bytes = given.as_bytes();
            !bytes.is_empty() && bytes.len() <= LONGEST_ID && bytes.iter().all(u8::is_ascii_graphic)
        });
        given.cloned().unwrap_or_else(|| {
            let drawn = format!("{:016x}", self.env.draw(Purpose::Names));
            HeaderValue::from_str(&drawn).unwrap_or_else(|_| HeaderValue::from_static("-"))
        })
    }
}

/// The methods that have names in metrics; others are rare, and a client can make up any number of them.
fn method_name(method: &Method) -> &'static str {
    match method.as_str() {
        "GET" => "GET",
        "HEAD" => "HEAD",
        "POST" => "POST",
        "PUT" => "PUT",
        "DELETE" => "DELETE",
        _ => "OTHER",
    }
}

/// The path of a request, as far as a log needs it.
fn shortened(path: &str) -> String {
    path.chars().take(LONGEST_PATH).collect()
}

/// Whether a method changes nothing.
pub(crate) fn is_read(method: &Method) -> bool {
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS)
}

/// The status of a request whose client went away before its answer.
const GONE: u16 = 499;

/// What is told of a request, once: when it is answered, or when its client goes away and nobody waits for the answer.
struct Line<'a> {
    gate: &'a Gate,
    begun: Instant,
    id: HeaderValue,
    method: &'static str,
    route: String,
    path: String,
    identity: Option<Asker>,
    is_told: bool,
}

impl Line<'_> {
    fn tell(&mut self, status: u16, error: Option<&'static str>) {
        self.is_told = true;
        let took = self.begun.elapsed();
        self.gate.metrics.request(&self.route, self.method, status, took, error);
        tracing::info!(
            id = self.id.to_str().unwrap_or_default(),
            method = self.method,
            route = self.route,
            path = self.path,
            status,
            ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            identity = self.identity.as_ref().map_or("-", |Asker(identity)| identity.name()),
            error,
            "request"
        );
    }
}

impl Drop for Line<'_> {
    fn drop(&mut self) {
        if !self.is_told {
            self.tell(GONE, None);
        }
    }
}

/// Lets a request pass, and notes how it ended.
pub(crate) async fn pass(State(app): State<App>, request: Request, next: Next) -> Response {
    let is_read = is_read(request.method());
    let route =
        request.extensions().get::<MatchedPath>().map_or_else(|| "none".to_owned(), |path| path.as_str().to_owned());
    let speech = Speech::of(&route);
    let mut line = Line {
        gate: &app.gate,
        begun: Instant::now(),
        id: app.gate.id_of(request.headers()),
        method: method_name(request.method()),
        route,
        // As it was sent, percent-encoded, so it keeps to its line; without the query, which may hold what is nobody's
        // business.
        path: shortened(request.uri().path()),
        identity: None,
        is_told: false,
    };
    let answer = admitted(&app, &line.route, request, next, &mut line.identity).await;
    let mut response = answer.unwrap_or_else(|refusal| refusal.answer(speech));
    // Step 6. What has changed something is answered in any case.
    if !app.gate.answers.hold(&mut response) && is_read {
        app.gate.metrics.turned_away.fetch_add(1, Ordering::Relaxed);
        let words = "too many answers are not read by their clients; nothing was done: try again later";
        response = Refusal::busy(words).answer(speech);
    }
    let status = response.status().as_u16();
    if let Some(Why(why)) = response.extensions().get() {
        tracing::warn!(id = line.id.to_str().unwrap_or_default(), status, why, "failed");
    }
    line.tell(status, response.extensions().get::<ErrorName>().map(|ErrorName(name)| *name));
    response.headers_mut().insert(REQUEST_ID, line.id.clone());
    response
}

async fn admitted(
    app: &App,
    route: &str,
    request: Request,
    next: Next,
    identity: &mut Option<Asker>,
) -> Result<Response, Refusal> {
    let gate = &app.gate;
    let deadline = Deadline::now() + gate.limits.request_timeout;
    // Step 1.
    let Ok(permit) = Arc::clone(&gate.free).try_acquire_owned() else {
        gate.metrics.turned_away.fetch_add(1, Ordering::Relaxed);
        discard(request.into_body(), SMALL, deadline).await;
        return Err(Refusal::busy("the server has too many requests; nothing was done: try again later"));
    };
    if let Some(form) = people::before_token(&gate.access, route, request.method(), request.headers()) {
        return Ok(form);
    }
    // Step 2.
    if gate.access.is_open() {
        foreign::check(&request)?;
    }
    let asker = timeout_at(deadline, authenticate(&gate.access, request.headers())).await;
    let asker = asker.unwrap_or_else(|_| {
        Err(Refusal::busy("the token could not be checked in time; nothing was done: try again later"))
    })?;
    *identity = Some(asker.clone());
    let (parts, body) = request.into_parts();
    // Step 3.
    let (body, room) = gate.bodies.read(&parts.headers, body, deadline, &gate.metrics).await?;
    // Steps 4 and 5.
    let changes = !is_read(&parts.method);
    let request = Request::from_parts(parts, Body::empty());
    let work = tokio::spawn(run(app.clone(), route.to_owned(), asker, request, body, next, (permit, room)));
    match timeout_at(deadline, work).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => {
            let words = "the server failed while it worked on this request; it may have taken effect";
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            Err(Refusal::Other(status, "CommitStateUnknownException", 18, words.to_owned()))
        }
        Err(_) => {
            gate.metrics.timed_out.fetch_add(1, Ordering::Relaxed);
            Err(late(changes, gate.limits.request_timeout.as_secs_f64()))
        }
    }
}

fn late(changes: bool, seconds: f64) -> Refusal {
    if !changes {
        return Refusal::busy(format!(
            "the request took longer than {seconds} s; nothing was changed: try again later"
        ));
    }
    let words = format!(
        "the request took longer than {seconds} s and goes on; whether it takes effect is unknown: read before you repeat \
         it"
    );
    Refusal::Other(StatusCode::GATEWAY_TIMEOUT, "CommitStateUnknownException", 18, words)
}

/// Step 4. Holds what the request takes of the server until the work has ended.
async fn run(
    app: App,
    route: String,
    asker: Asker,
    request: Request,
    body: Bytes,
    next: Next,
    _held: (OwnedSemaphorePermit, Room),
) -> Result<Response, Refusal> {
    let (mut parts, _) = request.into_parts();
    if route != "none" {
        authorize(&app, &asker, &route, &mut parts, &body).await?;
    }
    parts.extensions.insert(asker);
    Ok(next.run(Request::from_parts(parts, Body::from(body))).await)
}
