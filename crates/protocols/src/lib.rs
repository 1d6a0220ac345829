//! How is a change committed? Each protocol is implemented once, in a folder of its own, for all worlds.
//!
//! A protocol is generic over [`glidepath_env::Env`] and knows neither the simulator nor any live store. Each folder's
//! `mod.rs` begins with the protocol in numbered steps; its design note with the fault table is in `docs/protocols/`.
//!
//! Writers of one process can share commits through [`group`], with every protocol.
//!
//! Start with [`Catalog`], the trait that all of them implement, then [`catalog_file`] (one object, replaced) and
//! [`append_log`] (records, folded). [`registry`] lists the protocols, and opens a catalog by its label.

pub mod afterwards;
pub mod append_log;
mod catalog;
pub mod catalog_file;
#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod entry;
pub mod group;
mod listing;
pub mod manifest_chain;
#[cfg(not(feature = "mutants"))]
#[allow(unreachable_pub, reason = "it can be reached with the feature")]
mod mutant;
#[cfg(feature = "mutants")]
pub mod mutant;
pub mod registry;
mod settling;
pub mod table_turn;
#[cfg(test)]
mod tests;
pub mod tickets;
#[cfg(feature = "toy")]
mod toy;
pub mod upkeep;
mod wire;

pub use catalog::{Catalog, LoadError, Outcome, TableStates};
use listing::first_of;
pub use wire::DecodeError;

/// Requests of one task at a time.
const AT_ONCE: usize = 16;
