//! Does a commit protocol hold under every fault that a scenario makes?
//!
//! Simulated writers and readers of several processes commit against a store that loses answers, delays requests for
//! minutes and kills them in between; what each was told is compared with what the chain of versions became
//! (`glidepath_history`). The protocols are the very code that runs live. A run is a function of (protocol, scenario,
//! seed), so a seed that fails is a replay.
//!
//! Start with [`Scenario`], then [`Trial::check`] for one seed and [`explore`] for many.

mod explore;
mod library;
mod on_disk;
mod requests;
mod run;
mod scenario;
mod smallest;
mod subject;
mod tidy;
mod trace;
mod transactions;

pub use explore::{Explored, Found, explore};
pub use library::{LIBRARY, scenario};
pub use run::{Checked, Trial};
pub use scenario::{OnDisk, Scenario, ScenarioError, Writers};
pub use smallest::smallest;
pub use subject::Subject;
pub use transactions::check_transactions;
