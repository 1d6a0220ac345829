//! Was a run correct? Records of what processes did and which answers they got, and checkers of these.
//!
//! Processes record their operations in a [`History`]. After the run a [`Chain`] is built: the versions that the
//! catalog had. [`check`] compares the two. This crate knows no protocol, no store and no clock. A commit is a set of
//! edits to numbered items, each with the state it expected and the state it left.
//!
//! Start with [`History`] and [`check`]; then [`Placement`] (the checks that use the chain), [`linearizable`] (the one
//! that does not), [`parents_exist`] (namespaces) and [`references`] (objects in the store). `docs/checking.md`
//! explains them.
//!
//! ```
//! use glidepath_history::{Chain, Change, Edit, Effect, Ending, Expected, Fault, History, Item, ProcessId, Reported};
//! use glidepath_model::{CommitId, Instant, Version};
//!
//! let (table, commit, at) = (Item(7), CommitId(1), Instant::from_nanos);
//! let mut history = History::new();
//! let edit = Edit { item: table, expected: Expected::Absent, effect: Effect::Put(commit) };
//! let operation = history.begin_commit(ProcessId(0), at(10), commit, [edit]);
//! history.end_commit(operation, at(20), Ending::Committed(Reported::At(Version(0))));
//!
//! let mut chain = Chain::new();
//! let violation = glidepath_history::check(&history, &chain).unwrap_err();
//! assert!(matches!(violation.fault(), Fault::AcknowledgedButMissing(_)));
//!
//! chain.begin_version(Version(0));
//! chain.push(commit, [Change { item: table, now: Some(commit) }]);
//! glidepath_history::check(&history, &chain).unwrap();
//! ```

mod chain;
mod linear;
mod loads;
mod placement;
mod record;
mod references;
mod sights;
mod tree;
mod violation;

pub use chain::{Chain, Change, Link};
pub use linear::linearizable;
pub use placement::Placement;
pub use record::{
    Edit, Effect, Ending, Expected, History, Item, Misled, Operation, OperationId, ProcessId, Reported, Seen, State,
    What,
};
pub use references::{Leftovers, References, merged, references};
pub use tree::parents_exist;
pub use violation::{Fault, Violation, Witness};

/// All checks that need only a history and a chain: what processes were told of the whole catalog, placement,
/// expectations, order, loads, linearizability; in this order, so that the simplest violation is reported.
///
/// # Errors
/// The first violation.
pub fn check(history: &History, chain: &Chain) -> Result<(), Violation> {
    if let Some(misled) = history.misled().first() {
        return Err(violation::Fault::Misled(misled.clone()).into());
    }
    let placement = Placement::new(history, chain)?;
    placement.expectations()?;
    placement.order()?;
    placement.loads()?;
    linearizable(history, chain.initial())
}
