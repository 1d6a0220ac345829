//! How many requests per second does a catalog server answer?
//!
//! A [`Cell`] is one case: a workload, a number of connections, a time. `live` runs it against any server of Iceberg
//! REST, with clients that do little more than send and receive; [`predicted`] simulates our server with such clients.
//! Start with [`Cell`] and [`Measuring`]; [`page`] is the report.

mod answers;
mod cell;
mod live;
pub mod predicted;
mod report;
mod start;

pub use answers::{after_conflicts, answers, tries};
pub use cell::{Cell, Checked, FIRST_WAIT, Figures, Line, Outcome, Predicted, RETRIES, Samples, Workload};
pub use live::{Measuring, Responder, ServedError, Target, check_url, processor_of};
pub use report::{Measured, page};
pub use start::{Start, fill_tables, first_of};
