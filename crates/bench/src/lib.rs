//! How many commits per second does a catalog really take, and what was predicted? Reads too, on any store.
//!
//! A cell is one case: a design, an operation, a number of entries, a number of clients. [`work`] runs it on a live
//! store, [`predict`] on the simulated one with a profile; both run the same client over the same protocol code.
//!
//! [`transactions`] is about the ends of transactions in key-value stores instead, `served` (with the feature `serve`)
//! about catalog servers.
//!
//! Start with [`Cell`]; [`Sweep`] makes many of them, [`run()`] runs these, and [`page`] is the report.

mod cell;
mod client;
mod counted;
mod design;
mod live;
mod machine;
mod predict;
mod report;
mod rows;
mod run;
mod scratch;
#[cfg(feature = "serve")]
pub mod served;
mod sweep;
pub mod transactions;

pub use cell::{Cell, CellSamples, Figures};
pub use counted::{CountedWorld, Counters};
pub use design::{Design, Operation, Start};
pub use glidepath_protocols::registry::Protocol;
pub use live::{LiveError, fill, work};
pub use machine::Machine;
pub use predict::predict;
pub use report::{Line, Measured, apart, page, trials};
pub use rows::{FillError, MOST_CLIENTS};
pub use run::{Ended, Progress, Running, Swept, run};
pub use scratch::{Scratch, ScratchError};
pub use sweep::{Sweep, SweepError};
