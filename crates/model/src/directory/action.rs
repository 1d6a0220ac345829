//! What may be done to the entries of a catalog, and why it may be refused.

use std::collections::BTreeMap;

use super::{Entry, Kind, Name};
use crate::{Advance, Version};

/// What somebody wants to become of a name. It says what is wanted, not how the catalog looked before, so after a conflict
/// it is decided anew on what is there now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The name begins to stand for this entry.
    Create {
        /// Must not exist; its parent must.
        name: Name,
        /// A namespace, a table or a view.
        entry: Entry,
    },
    /// The name ceases to exist.
    Drop {
        /// Must exist. A namespace must have nothing in it.
        name: Name,
        /// What it must be.
        kind: Kind,
        /// For a table: only if it is at this version.
        expected: Option<Version>,
    },
    /// A namespace ceases to exist, and with it all that is in it, however deep.
    DropAll {
        /// A namespace; must exist.
        name: Name,
    },
    /// A table or a view is called otherwise. It keeps all else.
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
    /// The table moves to a new version, if every partition that this writes is at the version it was read at.
    Advance {
        /// A table.
        name: Name,
        /// Its new metadata, and what that was prepared against.
        advance: Advance,
    },
    /// The metadata pointer of a table or a view moves, if it is where it was last seen.
    SetPointer {
        /// A table or a view.
        name: Name,
        /// Where it must be; `None`: there must be none yet.
        expected: Option<String>,
        /// Where it is from then on.
        pointer: String,
    },
    /// Nothing changes; but the whole request is refused where this does not hold.
    Assert {
        /// What it is about.
        name: Name,
        /// What must be so.
        holds: Assertion,
    },
}

/// What must be so of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Assertion {
    /// It stands for something of this kind.
    Exists(Kind),
    /// It stands for nothing.
    Absent,
    /// It stands for a table or a view whose metadata pointer is this; `None`: that has none.
    Pointer(Option<String>),
    /// It stands for a table that is at this version.
    Version(Version),
}

/// Why an action cannot be done to the catalog as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// To be created, and there is one.
    #[error("{0} exists already")]
    Exists(Name),
    /// There is none.
    #[error("there is no {0}")]
    NotFound(Name),
    /// The namespace that it should be in is not there.
    #[error("{name} cannot be created: there is no namespace {parent}")]
    NoParent {
        /// What was to be created.
        name: Name,
        /// Where.
        parent: Name,
    },
    /// A namespace to be dropped has something in it.
    #[error("namespace {0} is not empty: drop what is in it first")]
    NotEmpty(Name),
    /// It is of another kind than is needed.
    #[error("{name} is a {found}, not a {}", either(.needed))]
    WrongKind {
        /// The name.
        name: Name,
        /// What it stands for.
        found: Kind,
        /// What it should stand for.
        needed: &'static [Kind],
    },
    /// Nothing of its kind can be like that.
    #[error("{name} cannot be created like that: {why}")]
    Flawed {
        /// What was to be created.
        name: Name,
        /// What is wrong with it.
        why: &'static str,
    },
    /// A table to be created that has a state, and in it no partition.
    #[error("{0} cannot be created without partitions: a table has at least one")]
    NoPartitions(Name),
    /// Somebody else has changed the table since this was prepared.
    #[error("{0} has changed since this was prepared: read it again")]
    Changed(Name),
    /// The metadata pointer is not where it should be.
    #[error("the metadata pointer of {name} is {}, not {}: read it again", told(.found), told(.expected))]
    PointerMoved {
        /// A table or a view.
        name: Name,
        /// Where it should be.
        expected: Option<String>,
        /// Where it is.
        found: Option<String>,
    },
    /// The table is not at the version that it should be at.
    #[error("{name} is at {}, not at {expected}: read it again", .found.map_or("no version".to_owned(), |at| at.to_string()))]
    VersionMoved {
        /// A table.
        name: Name,
        /// Where it should be.
        expected: Version,
        /// Where it is; `None` where it has no state.
        found: Option<Version>,
    },
    /// Among the fields that are not known there is one that is, or that is out of order: nobody could read it back.
    #[error("{name} cannot have an unknown field with the tag {tag}: the tag is known, or is behind a greater one")]
    UnknownField {
        /// What was to be created or changed.
        name: Name,
        /// Of the field.
        tag: u64,
    },
    /// More than an entry of such a catalog may have.
    #[error("{name} would take {bytes} bytes; an entry has at most {most}: give it fewer or shorter properties")]
    TooLarge {
        /// What was to be created or changed.
        name: Name,
        /// What it would take, encoded.
        bytes: usize,
        /// What is allowed.
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
    /// Whether these change nothing, whatever the catalog is like: they only say what must be so.
    #[must_use]
    pub fn only_assert(actions: &[Self]) -> bool {
        actions.iter().all(|action| matches!(action, Self::Assert { .. }))
    }

    /// Whether it takes an entry away from where it is.
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
