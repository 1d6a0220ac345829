//! The server over sockets. One binary: each would be over a hundred megabytes.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test may panic, and runs in real time")]

mod access;
mod answers;
mod creation;
mod credentials;
mod forms;
mod fuzz;
mod iceberg_rust;
mod operations;
mod people;
mod replays;
mod support;
mod tls;
mod version3;
