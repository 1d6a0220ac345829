//! What does a name stand for?

use std::collections::BTreeMap;

use crate::{Name, TableState};

/// Which of the two a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Holds tables and other namespaces.
    Namespace,
    /// Points to data.
    Table,
}

/// A namespace or a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which of the two.
    pub kind: Kind,
    /// Where the data of a table is; anything its format understands.
    pub location: Option<String>,
    /// What users keep with it.
    pub properties: BTreeMap<String, String>,
    /// What it was made from, such as the tables of a view.
    pub base_objects: Vec<Name>,
    /// The table's own chain: its version, and the metadata object it points to. Commits to a table move it.
    pub state: Option<TableState>,
    /// What a newer version of Glidepath wrote and this one does not know, kept as it is; rising tags.
    pub unknown: Vec<Field>,
}

/// A field of an entry, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Which field.
    pub tag: u64,
    /// Its content.
    pub bytes: Vec<u8>,
}

impl Entry {
    /// A namespace without properties.
    #[must_use]
    pub fn namespace() -> Self {
        Self {
            kind: Kind::Namespace,
            location: None,
            properties: BTreeMap::new(),
            base_objects: Vec::new(),
            state: None,
            unknown: Vec::new(),
        }
    }

    /// A table in this state, without properties.
    #[must_use]
    pub fn table(location: Option<String>, state: TableState) -> Self {
        Self { kind: Kind::Table, location, state: Some(state), ..Self::namespace() }
    }

    /// The state of a table that has nothing else. One with the name of a number is kept as that number.
    #[must_use]
    pub fn plain(&self) -> Option<&TableState> {
        let Self { kind, location, properties, base_objects, state, unknown } = self;
        let bare = location.is_none() && properties.is_empty() && base_objects.is_empty() && unknown.is_empty();
        state.as_ref().filter(|_| *kind == Kind::Table && bare)
    }
}
