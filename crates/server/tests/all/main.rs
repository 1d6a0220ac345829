//! The server over sockets. One binary: each would be over a hundred megabytes.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may panic, and runs in real time")]

mod access;
mod credentials;
mod fuzz;
mod operations;
mod people;
mod support;
mod tls;
