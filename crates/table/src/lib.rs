//! What does a commit of an Iceberg client make of the metadata of a table?
//!
//! Metadata is kept and changed by the crate `iceberg`. This crate adds what a server needs around it: which requests
//! are conflicts ([`commit`]), and which appends may be rebased instead of refused ([`rebase`]).

#[cfg(feature = "clients")]
pub mod clients;
pub mod commit;
pub mod defaults;
pub mod files;
pub mod json;
pub mod mutant;
pub mod rebase;
pub mod unreadable;

pub use files::{FileError, Files};
