//! What do the names of a catalog stand for, and what may be done to them? Namespaces, tables and views, and the rules of every
//! action, decided from the entries it names alone.
//!
//! Start with [`Action`], then [`View`], which decides.

mod action;
mod entry;
mod name;
mod view;

pub use action::{Action, Assertion, Refusal};
pub use entry::{Entry, Field, Kind};
pub use name::{InvalidName, Name};
pub use view::{AtHand, Need, View};

#[cfg(test)]
mod tests;
