//! Names of REST clients, and the names of the catalog that they stand for.
//!
//! The catalog escapes parts, so any text is a part and different paths have different names; only a namespace's part
//! cannot have the [`SEPARATOR`]. Names that begin with [`RESERVED`] are the service's own: clients neither see nor
//! make them.

use glidepath_model::{InvalidName, Name, Refusal};

use crate::error::{Kind, ServiceError};

/// The namespace of the root that the service keeps for itself.
pub const RESERVED: &str = ".glidepath";

/// A table or a view: its namespace and its name in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identifier {
    /// The parts of its namespace; empty for the root.
    pub namespace: Vec<String>,
    /// Its own name.
    pub name: String,
}

/// What stands between the parts of a namespace in paths of Iceberg's protocol.
pub const SEPARATOR: char = '\u{1F}';

impl Identifier {
    /// The name in the catalog.
    pub(crate) fn catalog_name(&self) -> Result<Name, ServiceError> {
        check_parts(&self.namespace)?;
        checked(self.namespace.iter().chain([&self.name]))
    }

    /// The identifier of a name in the catalog.
    pub(crate) fn of(name: &Name) -> Self {
        let mut namespace = name.parts();
        let name = namespace.pop().unwrap_or_default();
        Self { namespace, name }
    }

    /// The parts with dots between, for messages.
    #[must_use]
    pub fn dotted(&self) -> String {
        dotted(self.namespace.iter().chain([&self.name]))
    }
}

/// Parts with dots between, for messages.
pub(crate) fn dotted<'a>(parts: impl IntoIterator<Item = &'a String>) -> String {
    parts.into_iter().map(String::as_str).collect::<Vec<_>>().join(".")
}

/// The name of a namespace; `None` for the root.
pub(crate) fn namespace_name(parts: &[String]) -> Result<Option<Name>, ServiceError> {
    check_parts(parts)?;
    if parts.is_empty() { Ok(None) } else { checked(parts).map(Some) }
}

/// Refuses a namespace that no path could name.
fn check_parts(namespace: &[String]) -> Result<(), ServiceError> {
    if !namespace.iter().any(|part| part.contains(SEPARATOR)) {
        return Ok(());
    }
    let words = format!(
        "the namespace {:?} has the character U+001F, which separates the parts of namespaces in paths; leave it out",
        dotted(namespace)
    );
    Err(ServiceError::invalid(words))
}

fn checked<'a>(parts: impl IntoIterator<Item = &'a String> + Clone) -> Result<Name, ServiceError> {
    if parts.clone().into_iter().next().is_some_and(|first| first == RESERVED) {
        let words = format!("{} is not allowed: names in {RESERVED} are the server's own", dotted(parts));
        return Err(ServiceError::new(Kind::Invalid, words));
    }
    Name::of_parts(parts.into_iter().map(String::as_str)).map_err(|error: InvalidName| {
        let words = match error {
            InvalidName::EmptyPart(_) => "a name has an empty part; each part needs at least one character".to_owned(),
            error => error.to_string(),
        };
        ServiceError::invalid(words)
    })
}

/// A name of the service's own.
pub(crate) fn own_name<const PARTS: usize>(parts: [&str; PARTS]) -> Result<Name, ServiceError> {
    let parts = std::iter::once(RESERVED).chain(parts);
    Name::of_parts(parts).map_err(|error| ServiceError::invalid(error.to_string()))
}

/// Whether this is a name in that namespace of the service.
pub(crate) fn is_own(name: &Name, folder: &str) -> bool {
    name.parent().is_some_and(|parent| parent.parts() == [RESERVED, folder])
}

/// Whether a commit was refused because a namespace of the service is missing.
pub(crate) fn lacks_own(refusal: &Refusal) -> bool {
    match refusal {
        Refusal::NoParent { parent, .. } => parent.parts().first().is_some_and(|first| first == RESERVED),
        _ => false,
    }
}

/// Whether an entry of the root is hidden from clients.
pub(crate) fn is_hidden(name: &Name) -> bool {
    name.parent().is_none() && name.parts().first().is_some_and(|first| first == RESERVED)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identifier(parts: &[&str]) -> Identifier {
        let (name, namespace) = parts.split_last().unwrap();
        Identifier { namespace: namespace.iter().map(|part| (*part).to_owned()).collect(), name: (*name).to_owned() }
    }

    #[test]
    fn any_text_is_a_part() {
        for parts in [&["a", "b"][..], &["a.b"], &["a/b", "c"], &["%2F", "..", " x "]] {
            let identifier = identifier(parts);
            assert_eq!(Identifier::of(&identifier.catalog_name().unwrap()), identifier);
        }
        let error = identifier(&["a\u{1f}b", "c"]).catalog_name().unwrap_err();
        assert!(error.kind == Kind::Invalid && error.message.contains("U+001F"), "{error}");
        assert_eq!(namespace_name(&["\u{1f}".to_owned()]).unwrap_err().kind, Kind::Invalid);
        assert!(identifier(&["a", "b\u{1f}c"]).catalog_name().is_ok(), "paths name tables alone");
        assert_ne!(identifier(&["a/b"]).catalog_name().unwrap(), identifier(&["a", "b"]).catalog_name().unwrap());
    }

    #[test]
    fn the_names_of_the_service_are_refused() {
        assert_eq!(identifier(&[RESERVED, "keys"]).catalog_name().unwrap_err().kind, Kind::Invalid);
        assert!(identifier(&["a", RESERVED]).catalog_name().is_ok(), "only in the root");
        for parts in [&["a", ""][..], &["", RESERVED, "keys"], &["", "", RESERVED, "keys"], &["", "a"]] {
            assert_eq!(identifier(parts).catalog_name().unwrap_err().kind, Kind::Invalid, "{parts:?}");
        }
        assert_eq!(namespace_name(&[String::new(), RESERVED.to_owned()]).unwrap_err().kind, Kind::Invalid);
        assert!(is_hidden(&Name::of_parts([RESERVED]).unwrap()));
    }
}
