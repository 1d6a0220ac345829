//! How many requests per second does a catalog server answer?
//!
//! A [`Cell`] is one case: a workload, a number of connections, a time. [`predicted`] simulates it. Start with [`Cell`].

mod cell;
pub mod predicted;

pub use cell::{Cell, Checked, FIRST_WAIT, Figures, Line, Outcome, RETRIES, Samples, Workload};
