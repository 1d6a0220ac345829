//! Grants as properties of the namespace that they hold on: `glidepath.grant.user:etl` = `write`.
//!
//! Names are percent-encoded in a key, so that a key has only printable ASCII characters. One principal has one key:
//! a key that encodes more or less than needed is refused.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};

use crate::grants::{Grant, Grants, Principal, Right};

/// How the keys of grants begin.
pub const GRANT_PREFIX: &str = "glidepath.grant.";

/// What is encoded in a name: all but letters, digits and these.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'@').remove(b'+');

/// Why a property of a namespace is no grant.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the property {key:?} = {value:?} is no grant: {why}")]
pub struct GrantError {
    /// The key of the property.
    pub key: String,
    /// Its value.
    pub value: String,
    /// What is wrong, and what is allowed.
    pub why: String,
}

/// Whether only an administrator of the namespace may set or remove this property. Includes keys that are no grants
/// but look like one, whatever their case.
#[must_use]
pub fn is_reserved(key: &str) -> bool {
    let stem = &GRANT_PREFIX.as_bytes()[..GRANT_PREFIX.len() - 1];
    match key.as_bytes().split_at_checked(stem.len()) {
        Some((start, rest)) => start.eq_ignore_ascii_case(stem) && matches!(rest.first(), None | Some(b'.')),
        None => false,
    }
}

/// The key of the property that grants a right to a principal.
#[must_use]
pub fn property_key(principal: &Principal) -> String {
    let encoded = |name| utf8_percent_encode(name, ENCODED);
    match principal {
        Principal::User(name) => format!("{GRANT_PREFIX}user:{}", encoded(name)),
        Principal::Group(name) => format!("{GRANT_PREFIX}group:{}", encoded(name)),
        Principal::Everyone => format!("{GRANT_PREFIX}everyone"),
    }
}

impl Grant {
    /// The property of the namespace `on` that stores this grant.
    #[must_use]
    pub fn property(&self) -> (String, String) {
        (property_key(&self.to), self.right.name().to_owned())
    }

    /// The grant in a property of a namespace; `None` if the property is about something else. For checking what a
    /// client wants to set.
    ///
    /// # Errors
    /// [`GrantError`] if the key is [reserved](is_reserved), but key or value is malformed.
    pub fn of_property(path: &[String], key: &str, value: &str) -> Result<Option<Self>, GrantError> {
        if !is_reserved(key) {
            return Ok(None);
        }
        let error = |why| GrantError { key: key.to_owned(), value: value.to_owned(), why };
        let to = principal_of(key).map_err(error)?;
        let right: Right = value.parse().map_err(error)?;
        Ok(Some(Self { to, on: path.to_vec(), right }))
    }
}

fn principal_of(key: &str) -> Result<Principal, String> {
    let form = || format!("a key is {GRANT_PREFIX}user:NAME, {GRANT_PREFIX}group:NAME or {GRANT_PREFIX}everyone");
    let encoded = key.strip_prefix(GRANT_PREFIX).ok_or_else(form)?;
    let decoded = percent_decode_str(encoded).decode_utf8().map_err(|_| "its name is not UTF-8".to_owned())?;
    let principal: Principal = decoded.parse()?;
    let proper = property_key(&principal);
    if proper == key { Ok(principal) } else { Err(format!("write its key {proper:?}")) }
}

impl Grants {
    /// The grants in the properties of a namespace. Skips what is malformed: it gives no right, and is refused when a
    /// client sets it ([`Grant::of_property`]).
    pub fn of_properties<'a>(path: &[String], properties: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let grants = properties.into_iter().map(|(key, value)| Grant::of_property(path, key, value));
        grants.filter_map(|grant| grant.ok().flatten()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_name_their_principal() {
        for (principal, key) in [
            (Principal::User("etl".to_owned()), "glidepath.grant.user:etl"),
            (Principal::Group("a b/ü".to_owned()), "glidepath.grant.group:a%20b%2F%C3%BC"),
            (Principal::User("x:y%".to_owned()), "glidepath.grant.user:x%3Ay%25"),
            (Principal::Everyone, "glidepath.grant.everyone"),
        ] {
            assert_eq!(property_key(&principal), key);
            let grant = Grant { to: principal, on: vec!["n".to_owned()], right: Right::Write };
            let (key, value) = grant.property();
            assert_eq!(Grant::of_property(&grant.on, &key, &value), Ok(Some(grant)));
        }
    }

    #[test]
    fn malformed_grants_are_refused_and_give_nothing() {
        for (key, value) in [
            ("glidepath.grant", "read"),
            ("glidepath.grant.", "read"),
            ("glidepath.grant.etl", "read"),
            ("glidepath.grant.user:", "read"),
            ("glidepath.grant.user:%65tl", "read"),
            ("glidepath.grant.user:a%2fb", "read"),
            ("glidepath.grant.user:a b", "read"),
            ("glidepath.grant.user:%FF", "read"),
            ("glidepath.grant.user:%", "read"),
            ("glidepath.grant.user:a%0Ab", "read"),
            ("Glidepath.Grant.user:etl", "read"),
            ("glidepath.grant.user:etl", "Read"),
            ("glidepath.grant.user:etl", ""),
            ("glidepath.grant.user:etl", "read,write"),
        ] {
            assert!(is_reserved(key), "{key}");
            let error = Grant::of_property(&[], key, value).unwrap_err();
            assert!(error.to_string().contains(key), "{error}");
            assert!(Grants::of_properties(&[], [(key, value)]).is_empty(), "{key} = {value}");
        }
    }

    #[test]
    fn other_properties_are_free() {
        for key in
            ["", "owner", "glidepath", "glidepath.", "glidepath.grants", "glidepath.granted.x", "x.glidepath.grant."]
        {
            assert!(!is_reserved(key), "{key}");
            assert_eq!(Grant::of_property(&[], key, "admin"), Ok(None));
        }
        assert!(!is_reserved("glidepath.gran\u{e9}"));
    }
}
