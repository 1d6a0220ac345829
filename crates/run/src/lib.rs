//! How is much work spread over threads, kept, and summed up?
//!
//! It knows nothing of catalogs, stores or simulations: [`parallel`] runs independent pieces of work and can be stopped, a
//! [`Journal`] keeps what is done, and [`statistics`] has the few figures that several reports share, each defined once.

mod journal;
pub mod parallel;
pub mod statistics;

pub use journal::{Journal, JournalError};
