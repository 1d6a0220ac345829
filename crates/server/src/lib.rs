//! How does the service speak HTTP? Routes, JSON, status codes; starting and stopping.
//!
//! Start with [`Server::start`]. `iceberg` has the routes of the Iceberg REST catalog; `answer` turns errors into status
//! codes, which are the contract with clients.

#![allow(clippy::disallowed_methods, reason = "a server reads real clocks and spawns tasks")]

mod answer;
mod iceberg;
mod start;
mod state;
mod workers;

pub use start::{Config, Server, StartError};
