//! Does a protocol hold under every fault? Under every one that a scenario makes.
//!
//! Simulated processes commit and read against a store that loses answers and delays requests for minutes; processes
//! die in between. The checkers compare each answer with the chain of versions (`glidepath_history`). The protocols are
//! the code that runs live. A run is a function of (protocol, scenario, seed), so a failed seed can be replayed.
//!
//! Start with [`Scenario`], then [`Trial::check`] for one seed and [`explore`] for many.

mod explore;
mod library;
mod on_disk;
mod on_rows;
mod process;
mod promised;
mod remains;
mod requests;
mod run;
mod scenario;
#[cfg(feature = "serve")]
mod serve;
mod shrink;
mod stranger;
mod subject;
mod tidy;
mod trace;
mod transactions;

pub use explore::{Explored, FailedSeed, explore};
pub use library::{LIBRARY, scenario};
pub use run::{Checked, Trial};
pub use scenario::{OnDisk, Scenario, ScenarioError, Writers};
pub use shrink::shrink;
pub use subject::{CatalogKind, Clients, Subject};
