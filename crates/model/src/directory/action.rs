//! Actions on the entries of a catalog, and the reasons to refuse them.

use std::collections::BTreeMap;

use super::{Entry, Kind, Name};
use crate::{Advance, Version};

/// A requested change to what a name stands for. It does not contain the earlier state of the catalog, so after a
/// conflict it is decided again on the current one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Creates an entry under this name.
    Create {
        /// Must not exist; its parent must.
        name: Name,
        /// A namespace, a table or a view.
        entry: Entry,
    },
    /// Removes the entry of this name.
    Drop {
        /// Must exist. A namespace must be empty.
        name: Name,
        /// What it must be.
        kind: Kind,
        /// For a table: drop it only at this version.
        expected: Option<Version>,
    },
    /// Removes a namespace and everything in it, at all depths.
    DropAll {
        /// A namespace; must exist.
        name: Name,
    },
    /// Gives a table or a view another name. Nothing else of it changes.
    Rename {
        /// A table or a view.
        from: Name,
        /// Must not exist; its parent must.
        to: Name,
    },
    /// Some properties change; all others stay.
    SetProperties {
        /// Must exist.
        name: Name,
        /// New values; `None` removes the property.
        changes: BTreeMap<String, Option<String>>,
    },
    /// Moves the table to a new version, if every partition that this writes is at the version that was read.
    Advance {
        /// A table.
        name: Name,
        /// Its new metadata, and the partition versions that this was prepared against.
        advance: Advance,
    },
    /// Moves the metadata pointer of a table or a view, if it is where the writer last saw it.
    SetPointer {
        /// A table or a view.
        name: Name,
        /// Where it must be; `None`: the entry must have no pointer yet.
        expected: Option<String>,
        /// The new metadata pointer.
        pointer: String,
    },
    /// Changes nothing; refuses the whole request if this does not hold.
    Assert {
        /// The name that it is about.
        name: Name,
        /// The condition.
        holds: Assertion,
    },
}

/// A condition on what a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assertion {
    /// It stands for something of this kind.
    Exists(Kind),
    /// It stands for nothing.
    Absent,
    /// It stands for a table or a view with this metadata pointer; `None`: without one.
    Pointer(Option<String>),
    /// It stands for a table that is at this version.
    Version(Version),
    /// It stands for something with this value of a property; `None`: without the property.
    Property {
        /// The property.
        key: String,
        /// Its value.
        value: Option<String>,
    },
}

/// Why an action cannot be applied to the current catalog.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The entry to create exists already.
    #[error("{0} exists already")]
    Exists(Name),
    /// The entry does not exist.
    #[error("there is no {0}")]
    NotFound(Name),
    /// The namespace that the entry should be in does not exist.
    #[error("{name} cannot be created: there is no namespace {parent}")]
    NoParent {
        /// The entry to create.
        name: Name,
        /// The missing namespace.
        parent: Name,
    },
    /// The namespace to drop is not empty.
    #[error("namespace {0} is not empty: drop what is in it first")]
    NotEmpty(Name),
    /// The entry is not of a kind that the action applies to.
    #[error("{name} is a {found}, not a {}", either(.needed))]
    WrongKind {
        /// The name.
        name: Name,
        /// Its kind.
        found: Kind,
        /// The kinds that the action applies to.
        needed: &'static [Kind],
    },
    /// No entry of this kind may be like that.
    #[error("{name} cannot be created like that: {why}")]
    Flawed {
        /// The entry to create.
        name: Name,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A table to create has a state without partitions.
    #[error("{0} cannot be created without partitions: a table has at least one")]
    NoPartitions(Name),
    /// Another commit has changed the table since this was prepared.
    #[error("{0} has changed since this was prepared: read it again")]
    Changed(Name),
    /// The metadata pointer is not where the action expects it.
    #[error("the metadata pointer of {name} is {}, not {}: read it again", told(.found), told(.expected))]
    PointerMoved {
        /// A table or a view.
        name: Name,
        /// Where the action expects it.
        expected: Option<String>,
        /// Where it is.
        found: Option<String>,
    },
    /// The table is not at the version that the action expects.
    #[error("{name} is at {}, not at {expected}: read it again", .found.map_or("no version".to_owned(), |at| at.to_string()))]
    VersionMoved {
        /// A table.
        name: Name,
        /// The expected version.
        expected: Version,
        /// Its version; `None` if it has no state.
        found: Option<Version>,
    },
    /// A property is not what the action expects.
    #[error("the property {key:?} of {name} is {}, not {}: read it again", told(.found), told(.expected))]
    PropertyChanged {
        /// The entry.
        name: Name,
        /// The property.
        key: String,
        /// The expected value.
        expected: Option<String>,
        /// Its value.
        found: Option<String>,
    },
    /// Among the fields stored as unknown, one has a known tag or is out of order: readers could not decode the entry.
    #[error("{name} cannot have an unknown field with the tag {tag}: the tag is known, or follows a greater one")]
    UnknownField {
        /// The entry to create or change.
        name: Name,
        /// The field's tag.
        tag: u64,
    },
    /// The entry is larger than this catalog allows.
    #[error("{name} would take {bytes} bytes; an entry has at most {most}: give it fewer or shorter properties")]
    TooLarge {
        /// The entry to create or change.
        name: Name,
        /// Its encoded size.
        bytes: usize,
        /// The largest size allowed.
        most: usize,
    },
}

fn either(kinds: &[Kind]) -> String {
    kinds.iter().map(|kind| kind.word()).collect::<Vec<_>>().join(" or a ")
}

fn told(pointer: &Option<String>) -> String {
    pointer.as_ref().map_or("none".to_owned(), |pointer| format!("{pointer:?}"))
}

impl Action {
    /// Whether these are all assertions.
    #[must_use]
    pub fn only_assert(actions: &[Self]) -> bool {
        actions.iter().all(|action| matches!(action, Self::Assert { .. }))
    }

    /// Whether it removes an entry from its name.
    pub(super) fn removes(&self) -> bool {
        matches!(self, Self::Drop { .. } | Self::DropAll { .. } | Self::Rename { .. })
    }

    /// The name that it is about; of a rename, the old one.
    #[must_use]
    pub fn name(&self) -> &Name {
        match self {
            Self::Create { name, .. }
            | Self::Drop { name, .. }
            | Self::DropAll { name }
            | Self::Rename { from: name, .. }
            | Self::SetProperties { name, .. }
            | Self::Advance { name, .. }
            | Self::SetPointer { name, .. }
            | Self::Assert { name, .. } => name,
        }
    }
}
