//! What would happen, in which order? A world on a virtual clock.
//!
//! One [`Simulation`] is one run in one thread: processes (plain futures over [`SimEnv`]), object stores whose
//! latencies come from a [`Profile`], and an agenda of events in virtual time. The same seed gives the same run, byte
//! for byte. It knows no protocol and no workload, reads no wall clock, and uses no randomness except its seed.
//!
//! Start with [`Simulation::run`]; then `store.rs`, which says when a request takes effect; then `agenda.rs` and
//! `clock.rs`, which make it fast.

mod agenda;
mod alternatives;
mod clock;
mod contention;
mod disk;
mod distribution;
mod fault;
mod host;
mod latency;
mod luck;
mod machine;
mod profile;
mod quantiles;
mod simulation;
mod store;
mod sum;

pub use alternatives::{Alternative, Alternatives};
pub use clock::SimEnv;
pub use disk::{Disk, DiskFaults, DiskFile, SimFiles};
pub use distribution::{Component, Distribution};
pub use fault::{Faults, Mishap};
pub use host::{Envelope, Host, Slot};
pub use latency::Latency;
pub use luck::Stream;
pub use profile::{ContendedProfile, Measured, OperationProfile, Profile, ProfileError, RateCap};
pub use simulation::{Counts, Mode, Setup, Simulation};
pub use store::{CellWritten, EffectPoint, SimStore, StoreId, StoreModel, Written};
