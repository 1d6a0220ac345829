//! What is in a catalog, and when do two changes to it conflict?
//!
//! Pure values and rules: no input or output, no clock, no randomness. Every other crate speaks in these types.
//! It refuses to know how a root is stored, how long anything takes, or who commits.
//!
//! Start with [`Root`] (the state), then [`Changes`] (what a commit does to it) and [`Changes::overlap`] (the one
//! conflict rule). Changes are the short spelling of what may be done to numbered tables; whatever may be done to names is an
//! [`Action`], decided by [`Root::decide`] or, where the catalog is not at hand, by a [`View`] of what it is about.

mod change;
mod directory;
mod entries;
mod ids;
mod quantity;
mod root;
mod runs;

pub use change::{Advance, Changes, Edit, NotApplicable, Overlap, TableChange, Touched};
pub use directory::{Action, Assertion, AtHand, Entry, Field, InvalidName, Kind, Name, Need, Refusal, View};
pub use entries::Entries;
pub use ids::{CommitId, MetadataId, PartitionId, TableId, Version};
pub use quantity::{ByteSize, Instant, ParseQuantityError, Span};
pub use root::{PartitionVersions, Root, TableState};
