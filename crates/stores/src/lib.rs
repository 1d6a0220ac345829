//! How are real stores accessed? Live object stores, chosen by URL. They implement the same traits as the simulated
//! stores, so protocols run on them unchanged.
//!
//! | URL | store |
//! |---|---|
//! | `memory:` | in this process ([`memory`]) |
//! | `file:///directory` | local disk ([`local`]) |
//! | `s3://bucket/prefix`, `az://container/prefix`, `gs://bucket/prefix` | object stores of a cloud ([`cloud`]) |
//! | `kv+file:///directory`, `postgres://...`, `cassandra://...` | the cells of a key-value store ([`rows`]) |
//!
//! Start with [`open`]. Files that other programs read and write under their plain names are in a warehouse:
//! [`open_plain`]. This crate knows no protocol, and never repeats a guarded write whose outcome is unknown: it
//! reports the outcome as unknown.

#![allow(clippy::disallowed_methods, reason = "live stores read real clocks")]

mod bulk;
pub mod cloud;
mod live;
pub mod local;
pub mod memory;
mod open;
pub mod plain;
pub mod rows;
mod shown;
mod slow;
mod store;
mod warehouse;

pub use bulk::SCRATCH;
pub use live::LiveEnv;
pub use open::{OpenError, Options, is_rows, is_there, open};
pub use shown::shown;
// Whoever compares the scheme of a URL compares that of this one.
pub use glidepath_kv::with_small_scheme;
pub use slow::SlowStore;
pub use store::Store;
pub use warehouse::{base_location, open_plain};
