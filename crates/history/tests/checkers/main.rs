//! The checkers against histories that are right, and against the same histories spoilt.

mod corners;
mod objects;
mod right;
mod world;
mod wrong;
