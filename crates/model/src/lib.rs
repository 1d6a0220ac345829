//! What is in a catalog, and when do two changes to it conflict?
//!
//! Pure values and rules: no input or output, no clock, no randomness. Every other crate speaks in these types.
//! It refuses to know how a root is stored, how long anything takes, or who commits.
//!
//! Start with [`Root`] (the state), then [`Changes`] (what a commit does to it) and [`Changes::overlap`] (the one
//! conflict rule). Catalogs of named namespaces and tables: [`Entry`], [`Action`], and [`View`], which decides actions.

mod change;
mod directory;
mod ids;
mod quantity;
mod root;

pub use change::{Advance, Changes, Edit, NotApplicable, Overlap, TableChange, Touched};
pub use directory::{Action, Entry, Field, InvalidName, Kind, Name, Need, Refusal, View};
pub use ids::{CommitId, MetadataId, PartitionId, TableId, Version};
pub use quantity::{ByteSize, Instant, ParseQuantityError, Span};
pub use root::{PartitionVersions, Root, TableState};
