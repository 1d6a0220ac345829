//! Which transactions arrive, and when? Arrivals, the choice of tables, and the transaction client with its retries.
//!
//! The client behaves like Iceberg's: fast appends and validated overwrites, which prepare metadata, try to commit, and
//! after a conflict repair their changes and try again. It runs over any [`glidepath_protocols::Catalog`] in any world.
//! Its behaviour is data ([`Workload`]), so that a preset is a file and not a code path.
//!
//! Start with [`Workload`], then `client.rs`.

mod arrivals;
mod client;
mod distribution;
mod record;
mod requests;
mod spec;
mod tables;

pub use arrivals::{Arrival, ArrivalTimes};
pub use client::{Client, Intent, manifest_list_key};
pub use distribution::{Distribution, Shape};
pub use record::{End, Kind, Record, Spent};
pub use requests::Requests;
pub use spec::{
    Appends, Arrivals, Burst, Choice, Commit, History, ManifestList, Refresh, Retry, SpecError, Step, TableMetadata,
    Tables, Transaction, Workload, whole_range,
};
pub use tables::TablePicker;
