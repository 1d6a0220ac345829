//! A client that does not give up: it sends a request with its key again, to any server, until its outcome is known.
//!
//! Some requests are delivered to two servers at once, and some clients go away before the answer and come back.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::time::Duration;

use reqwest::{Method, StatusCode};
use serde_json::Value;

use crate::luck::Luck;
use crate::{Anyhow, sleep_ms};

/// The most deliveries of a request: more than a minute, while servers are away for less than a second.
const PATIENCE: u32 = 200;

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done(Value),
    /// 409: certainly not done.
    Conflict,
    /// The client stopped asking.
    Unknown,
}

/// What one delivery told.
enum Told {
    Done(Value),
    Conflict,
    /// Not done by this delivery, and it may be sent again.
    NotNow,
    /// It may have been done.
    Perhaps,
    /// An answer that a right request never gets.
    Wrong(String),
}

pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) body: Value,
    /// Without one, a client gives up when it does not know the outcome.
    pub(crate) key: Option<String>,
}

impl Request {
    pub(crate) fn get(path: String) -> Self {
        Self { method: Method::GET, path, body: Value::Null, key: None }
    }

    pub(crate) fn post(path: String, body: Value, key: String) -> Self {
        Self { method: Method::POST, path, body, key: Some(key) }
    }
}

/// Counts of what happened on the way.
#[derive(Default)]
pub(crate) struct Events {
    pub(crate) sent: Cell<u64>,
    /// Deliveries after which it was not known whether the request was done.
    pub(crate) perhaps: Cell<u64>,
    /// Requests that were acknowledged after such a delivery.
    pub(crate) acknowledged_later: Cell<u64>,
    /// Requests that were refused after such a delivery.
    pub(crate) refused_later: Cell<u64>,
    /// Requests that were delivered to two servers at once.
    pub(crate) twice: Cell<u64>,
    /// Requests whose client went away.
    pub(crate) left: Cell<u64>,
    /// What 409 was answered with, without numbers.
    conflicts: RefCell<BTreeMap<String, u64>>,
}

impl Events {
    fn conflict(&self, words: &str) {
        let plain: String = words.chars().filter(|c| !c.is_ascii_digit() && *c != '-').take(160).collect();
        *self.conflicts.borrow_mut().entry(plain).or_default() += 1;
    }

    /// The most frequent.
    pub(crate) fn conflicts(&self) -> Vec<(String, u64)> {
        let mut all: Vec<_> = self.conflicts.borrow().clone().into_iter().collect();
        all.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        all.truncate(8);
        all
    }
}

pub(crate) struct Client {
    http: reqwest::Client,
    servers: Vec<String>,
    pub(crate) luck: Luck,
    pub(crate) events: Events,
    wrong: RefCell<Vec<String>>,
}

pub(crate) fn count(cell: &Cell<u64>) {
    cell.set(cell.get() + 1);
}

impl Client {
    pub(crate) fn new(servers: Vec<String>, seed: u64) -> Anyhow<Self> {
        let http = reqwest::Client::builder().timeout(Duration::from_secs(60)).build()?;
        let (luck, events) = (Luck::new(seed), Events::default());
        Ok(Self { http, servers, luck, events, wrong: RefCell::default() })
    }

    /// What answers contradicted.
    pub(crate) fn take_wrong(&self) -> Vec<String> {
        self.wrong.take()
    }

    /// Sends a request until its outcome is known, or the client may not or will not send it again.
    ///
    /// # Errors
    /// If an answer is one that a right request never gets, or no server answered for long.
    pub(crate) async fn deliver(&self, request: &Request) -> Anyhow<Outcome> {
        let mut server = self.luck.below(self.servers.len() as u64) as usize;
        // A few have no patience: what they leave may have been done.
        let patient = !self.luck.one_in(60);
        let mut perhaps = false;
        for turn in 0..PATIENCE {
            match self.once(server, request).await {
                Told::Done(answer) => {
                    if perhaps {
                        count(&self.events.acknowledged_later);
                    }
                    return Ok(Outcome::Done(answer));
                }
                Told::Conflict => {
                    if perhaps {
                        count(&self.events.refused_later);
                    }
                    return Ok(Outcome::Conflict);
                }
                Told::NotNow => {}
                Told::Perhaps => {
                    perhaps = true;
                    count(&self.events.perhaps);
                    let changes = request.method != Method::GET;
                    if changes && (request.key.is_none() || !patient) {
                        return Ok(Outcome::Unknown);
                    }
                }
                Told::Wrong(words) => return Err(format!("{} {}: {words}", request.method, request.path).into()),
            }
            server = (server + 1 + self.luck.below(2) as usize) % self.servers.len();
            sleep_ms(self.luck.below(20 << turn.min(5)) + 1).await;
        }
        Err(format!("{} {}: no answer after {PATIENCE} deliveries", request.method, request.path).into())
    }

    async fn once(&self, server: usize, request: &Request) -> Told {
        let changes = request.method != Method::GET && request.key.is_some();
        if changes && self.luck.one_in(50) {
            count(&self.events.twice);
            let other = (server + 1) % self.servers.len();
            let (one, two) = tokio::join!(self.send(server, request), self.send(other, request));
            return self.both(request, one, two);
        }
        if changes && self.luck.one_in(50) {
            count(&self.events.left);
            let moment = Duration::from_micros(self.luck.below(30_000));
            return tokio::time::timeout(moment, self.send(server, request)).await.unwrap_or(Told::Perhaps);
        }
        self.send(server, request).await
    }

    /// What two deliveries tell together.
    fn both(&self, request: &Request, one: Told, two: Told) -> Told {
        match (one, two) {
            (Told::Done(_), Told::Conflict) | (Told::Conflict, Told::Done(_)) => {
                let words = format!("{} was acknowledged to one delivery and refused to the other", request.path);
                self.wrong.borrow_mut().push(words);
                Told::Conflict
            }
            (wrong @ Told::Wrong(_), _) | (_, wrong @ Told::Wrong(_)) => wrong,
            (done @ Told::Done(_), _) | (_, done @ Told::Done(_)) => done,
            (Told::Conflict, _) | (_, Told::Conflict) => Told::Conflict,
            (Told::Perhaps, _) | (_, Told::Perhaps) => Told::Perhaps,
            (Told::NotNow, Told::NotNow) => Told::NotNow,
        }
    }

    async fn send(&self, server: usize, request: &Request) -> Told {
        count(&self.events.sent);
        let url = format!("http://{}/v1/{}", self.servers[server], request.path);
        let mut sent = self.http.request(request.method.clone(), url);
        if request.method != Method::GET {
            sent = sent.json(&request.body);
        }
        if let Some(key) = &request.key {
            sent = sent.header("idempotency-key", key);
        }
        let answered = match sent.send().await {
            Ok(answered) => answered,
            // The connection was not made, so nothing was sent.
            Err(error) if error.is_connect() => return Told::NotNow,
            Err(_) => return Told::Perhaps,
        };
        let status = answered.status();
        // The status is an answer, even if the rest is cut off; but then there is no metadata to go on with.
        let Ok(bytes) = answered.bytes().await else { return Told::Perhaps };
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let (kind, words) = (answer["error"]["type"].as_str(), answer["error"]["message"].as_str());
        match status {
            StatusCode::OK | StatusCode::NO_CONTENT => Told::Done(answer),
            StatusCode::CONFLICT => {
                self.events.conflict(words.unwrap_or("?"));
                Told::Conflict
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => Told::NotNow,
            StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => Told::Perhaps,
            StatusCode::INTERNAL_SERVER_ERROR if kind == Some("CommitStateUnknownException") => Told::Perhaps,
            status => Told::Wrong(format!("{status} {}: {}", kind.unwrap_or("?"), words.unwrap_or("?"))),
        }
    }
}
