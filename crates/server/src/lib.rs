//! How does the service speak HTTP? Routes, JSON, status codes; starting and stopping.
//!
//! Start with [`Server::start`]. `iceberg` has the routes of the Iceberg REST catalog, `lance` those of Lance
//! namespaces; `answer` turns errors into status codes, which are the contract with clients. `credentials` has what
//! clients are told about the storage. `operations` has what every request passes, `security` says who may send it,
//! `people` has the pages for a browser.

#![allow(clippy::disallowed_methods, reason = "a server reads real clocks and spawns tasks")]

mod answer;
mod credentials;
mod frames;
mod iceberg;
mod lance;
mod objects;
mod operations;
mod pace;
mod people;
mod places;
mod security;
mod start;
mod state;
mod tasks;
mod workers;

pub use glidepath_stores::cloud::StsOptions;
pub use operations::log::{LogFormat, LogLevel, log_to_stderr};
pub use operations::{Limits, Operations};
pub use security::{Security, TlsFiles};
pub use start::{Config, Handle, Server, Serves, StartError};
