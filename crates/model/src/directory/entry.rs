//! What a name stands for.

use std::collections::BTreeMap;
use std::fmt;

use crate::{Name, TableState};

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Holds tables, views and other namespaces.
    Namespace,
    /// Points to data.
    Table,
    /// A query kept under a name, as in Apache Iceberg. The catalog stores where its metadata is and does not read it.
    View,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Namespace, Self::Table, Self::View];

    /// This kind alone, as a slice.
    #[must_use]
    pub fn only(self) -> &'static [Self] {
        match self {
            Self::Namespace => &[Self::Namespace],
            Self::Table => &[Self::Table],
            Self::View => &[Self::View],
        }
    }

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Namespace => "namespace",
            Self::Table => "table",
            Self::View => "view",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A namespace, a table or a view.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which of them.
    pub kind: Kind,
    /// Where the data of a table is, or the files of a view; in any notation.
    pub location: Option<String>,
    /// Properties set by users.
    pub properties: BTreeMap<String, String>,
    /// The entries it was made from, such as the tables of a view.
    pub base_objects: Vec<Name>,
    /// The table's own chain: its version, and the metadata object it points to. Commits to the table advance it.
    pub state: Option<TableState>,
    /// Where the current metadata of a table or a view is: any text. It moves by compare-and-set, independently of the
    /// state.
    pub pointer: Option<String>,
    /// Fields that a newer version of Glidepath wrote and this one does not know, kept unchanged; tags in rising order.
    pub unknown: Vec<Field>,
}

/// A field of an entry, as stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its tag.
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
            pointer: None,
            unknown: Vec::new(),
        }
    }

    /// A table in this state, without properties.
    #[must_use]
    pub fn table(location: Option<String>, state: TableState) -> Self {
        Self { kind: Kind::Table, location, state: Some(state), ..Self::namespace() }
    }

    /// A view without properties.
    #[must_use]
    pub fn view() -> Self {
        Self { kind: Kind::View, ..Self::namespace() }
    }

    /// The state of a table that has nothing but a state. If its name is that of a numbered table, it is kept as a
    /// number.
    #[must_use]
    pub fn plain(&self) -> Option<&TableState> {
        let Self { kind, location, properties, base_objects, state, pointer, unknown } = self;
        let bare = location.is_none() && properties.is_empty() && base_objects.is_empty();
        let bare = bare && pointer.is_none() && unknown.is_empty();
        state.as_ref().filter(|_| *kind == Kind::Table && bare)
    }

    /// A feature that entries of its kind cannot have, in words; `None` for a valid entry. Such an entry is never
    /// written, and readers reject it.
    #[must_use]
    pub fn flaw(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Namespace if self.pointer.is_some() => Some("a namespace has no metadata pointer"),
            Kind::View if self.state.is_some() => Some("a view has no versions and no partitions"),
            Kind::Namespace | Kind::Table | Kind::View => None,
        }
    }
}
