//! What is in a catalog, and when do two changes conflict?
//!
//! Only values and rules: no input or output, no clock, no randomness. All other crates use these types. Not here: how
//! a root is stored, how long anything takes, who commits.
//!
//! Start with [`Root`] (the state), then [`Changes`] (what a commit does to it) and [`Changes::overlap`] (the conflict
//! rule). Changes are the compact form of actions on numbered tables. Everything else that can be done to names is an
//! [`Action`], decided by [`Root::decide`] or, if the catalog is not in memory, by a [`View`] of the entries concerned.

mod change;
mod directory;
mod entries;
mod ids;
mod quantity;
mod root;
mod runs;
mod visible;

pub use change::{Advance, Changes, Edit, NotApplicable, Overlap, TableChange, Touched};
pub use directory::{Action, Assertion, AtHand, Entry, Field, InvalidName, Kind, Name, Need, Refusal, View};
pub use entries::Entries;
pub use ids::{CommitId, MetadataId, PartitionId, TableId, Version};
pub use quantity::{ByteSize, Instant, ParseQuantityError, Span};
pub use root::{PartitionVersions, Root, TableState};
pub use visible::visible;
