//! How many commits per second does a catalog really take on this store, and what does the simulation say?
//!
//! A cell is one case: so many entries, so many writers, shared commits or not. [`work`] runs it on a live store, [`predict`]
//! on the simulated one with a profile; both run the same writer over the same protocol code.
//!
//! Start with [`Cell`].

mod cell;
mod counted;
mod live;
mod predict;
mod scratch;
mod seed;
mod writer;

pub use cell::{Cell, Figures, Outcome};
pub use counted::{Counted, Counters};
pub use live::{LiveError, fill, work};
pub use predict::predict;
pub use scratch::{Scratch, ScratchError};
pub use seed::{SeedError, seed};
