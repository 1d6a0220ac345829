//! The checkers against correct histories, and against the same histories with a defect.

mod corners;
mod objects;
mod right;
mod world;
mod wrong;
