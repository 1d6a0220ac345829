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
        /// A namespace or a table.
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
    /// A table is called otherwise. It keeps all else.
    Rename {
        /// A table.
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
    /// A table where a namespace is needed, or the other way round.
    #[error("{name} is a {}", if *.found == Kind::Table { "table, not a namespace" } else { "namespace, not a table" })]
    WrongKind {
        /// The name.
        name: Name,
        /// What it stands for.
        found: Kind,
    },
    /// A table to be created that has a state, and in it no partition.
    #[error("{0} cannot be created without partitions: a table has at least one")]
    NoPartitions(Name),
    /// Somebody else has changed the table since this was prepared.
    #[error("{0} has changed since this was prepared: read it again")]
    Changed(Name),
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

impl Action {
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
            | Self::Advance { name, .. } => name,
        }
    }
}
