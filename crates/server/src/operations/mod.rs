//! What do operators see and set? Health, metrics, logs, limits, and the end of a server.
//!
//! `gate` is what every request passes, `bodies` reads what they send, `listen` accepts connections and ends them,
//! `routes` has the routes of operators, `probe` looks whether the catalog can be read, `sending` is about clients that
//! do not read, `metrics` counts, `timed` measures the store, `log` writes.

pub(crate) mod bodies;
pub(crate) mod gate;
pub(crate) mod listen;
pub(crate) mod log;
pub(crate) mod metrics;
pub(crate) mod probe;
pub(crate) mod routes;
pub(crate) mod sending;
pub(crate) mod timed;

use std::net::SocketAddr;
use std::time::Duration;

/// What a request may cost.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The longest time of a request.
    pub request_timeout: Duration,
    /// The most requests at once.
    pub most_requests: usize,
    /// The most bytes in the body of a request.
    pub most_body_bytes: usize,
    /// The most bytes in the bodies of all requests at once, at least those of one.
    pub all_bodies_bytes: usize,
    /// The most bytes of answers that are not sent yet, without the first 64 KB of each, and without the metadata of
    /// tables and views.
    pub all_answers_bytes: usize,
    /// The most bytes of a request's headers, at least 8192.
    pub most_header_bytes: usize,
    /// The longest time in which a connection may be silent between requests, send the headers of one, or take nothing
    /// of its answers.
    pub idle_timeout: Duration,
    /// The most connections at once; further ones wait.
    pub most_connections: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_timeout: Duration::from_secs(60),
            most_requests: 1024,
            most_body_bytes: 16 << 20,
            all_bodies_bytes: 32 << 20,
            all_answers_bytes: 256 << 20,
            most_header_bytes: 32 << 10,
            idle_timeout: Duration::from_secs(75),
            most_connections: 8192,
        }
    }
}

/// How a server is watched, and how it ends.
#[derive(Clone, Debug)]
pub struct Operations {
    /// Where health and metrics are served without a token; `None`: with the catalog.
    pub listen: Option<SocketAddr>,
    /// How long the server goes on to accept requests after it says that it is not ready.
    pub drain_delay: Duration,
    /// How long it then waits for requests that have arrived.
    pub drain_timeout: Duration,
}

impl Default for Operations {
    fn default() -> Self {
        Self { listen: None, drain_delay: Duration::ZERO, drain_timeout: Duration::from_secs(60) }
    }
}
