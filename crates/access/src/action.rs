//! Which right an action needs, and where.

use crate::grants::Right;

/// What a client wants to do. "The namespace" is the one that the request names, or the one of its table or view.
///
/// | Action                      | Right | On                                |
/// |-----------------------------|-------|-----------------------------------|
/// | [`Action::List`]            | read  | the namespace, or the catalog     |
/// | [`Action::Load`]            | read  | the namespace                     |
/// | [`Action::CreateTable`]     | write | the namespace                     |
/// | [`Action::CommitTable`]     | write | the namespace                     |
/// | [`Action::RenameTable`]     | write | the old and the new namespace     |
/// | [`Action::DropTable`]       | write | the namespace                     |
/// | [`Action::CreateNamespace`] | write | the one above, or the catalog     |
/// | [`Action::SetProperties`]   | write | the namespace                     |
/// | [`Action::DropNamespace`]   | admin | the namespace                     |
/// | [`Action::ChangeGrants`]    | admin | the namespace                     |
///
/// A list leaves out the namespaces that the client cannot read. The tables and views of a namespace have no grants of
/// their own. A namespace takes its grants along when it is dropped, so this needs the right to change them. Who
/// creates a namespace gets no right on it besides those from above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// List the namespaces below one, or its tables or views.
    List,
    /// Load a namespace, a table or a view, ask whether it exists, or report metrics on it.
    Load,
    /// Create or register a table or a view.
    CreateTable,
    /// Commit a change of a table or a view.
    CommitTable,
    /// Rename a table or a view. Each of the two namespaces needs the right.
    RenameTable,
    /// Drop a table or a view, with or without its files.
    DropTable,
    /// Create a namespace below another one, or at the root.
    CreateNamespace,
    /// Set or remove properties of a namespace that are not [reserved](crate::is_reserved).
    SetProperties,
    /// Drop a namespace.
    DropNamespace,
    /// Set or remove [reserved](crate::is_reserved) properties, also when the namespace is created.
    ChangeGrants,
}

/// On which namespace the right is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// The namespace of the request, or of its table or view.
    Itself,
    /// The namespace above it; for one at the root, the whole catalog (the empty path).
    Above,
    /// The namespaces of the old and the new name.
    Both,
}

impl Action {
    /// The right that it needs.
    #[must_use]
    pub fn right(self) -> Right {
        match self {
            Self::List | Self::Load => Right::Read,
            Self::CreateTable
            | Self::CommitTable
            | Self::RenameTable
            | Self::DropTable
            | Self::CreateNamespace
            | Self::SetProperties => Right::Write,
            Self::DropNamespace | Self::ChangeGrants => Right::Admin,
        }
    }

    /// Where it needs the right.
    #[must_use]
    pub fn on(self) -> Where {
        match self {
            Self::CreateNamespace => Where::Above,
            Self::RenameTable => Where::Both,
            _ => Where::Itself,
        }
    }
}
