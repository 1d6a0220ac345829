//! Appends that are rebased, and commits that must not be.

#![allow(clippy::unwrap_used, reason = "a test fails by a panic")]

mod fixture;
mod fulfil;
mod random;
mod reading;
mod rules;
mod world;
