//! Namespaces, tables and views by name, and the rules of every action on them. An action is decided from the entries
//! that it names alone.
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
