//! How is work spread over threads, kept, and summed up?
//!
//! It knows nothing of catalogs, stores or simulations: [`parallel`] runs independent pieces of work and can be
//! stopped, a [`Journal`] keeps results, and [`statistics`] defines the figures that several reports share.

mod journal;
pub mod parallel;
pub mod statistics;

pub use journal::{Journal, JournalError};
