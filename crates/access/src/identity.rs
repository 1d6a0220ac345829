//! Who asks, and why a token is no proof of it.

use std::borrow::Cow;
use std::collections::BTreeSet;

/// The longest name of a user or group, in bytes.
const MOST_BYTES: usize = 512;

/// Who sent a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    name: String,
    groups: BTreeSet<String>,
    /// Whether everything is allowed, since security is off.
    unchecked: bool,
}

impl Identity {
    /// A user with these groups.
    #[must_use]
    pub fn new(name: impl Into<String>, groups: impl IntoIterator<Item = String>) -> Self {
        Self { name: name.into(), groups: groups.into_iter().collect(), unchecked: false }
    }

    /// Everybody, if security is off: may do everything.
    #[must_use]
    pub fn anonymous_admin() -> Self {
        Self { name: "anonymous".to_owned(), groups: BTreeSet::new(), unchecked: true }
    }

    /// The name of the user: of the static token, or the subject of the JSON web token.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The groups, in order.
    pub fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(String::as_str)
    }

    /// Whether everything is allowed without grants.
    #[must_use]
    pub fn is_unchecked(&self) -> bool {
        self.unchecked
    }
}

/// Why nobody can be named for a request. No text of it contains a token or a part of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// No token came with the request.
    #[error("the request has no token; send the header `Authorization: Bearer TOKEN`")]
    Missing,
    /// The token is none that this server knows.
    #[error("the token is unknown to this server; ask its administrator for a valid one")]
    Unknown,
    /// The token is not valid.
    #[error("the token is refused: {why}")]
    Refused {
        /// What is wrong, and what to do about it.
        why: Cow<'static, str>,
    },
    /// Whether the token is valid cannot be told now.
    #[error("the token cannot be checked, since the keys of its issuer are not known yet; try again in a minute")]
    Unavailable {
        /// What went wrong. For the server's log only: it may name hosts of the inner network.
        why: String,
    },
}

impl Denied {
    pub(crate) fn refused(why: impl Into<Cow<'static, str>>) -> Self {
        Self::Refused { why: why.into() }
    }

    /// Whether the same token may be accepted later: answer 503, not 401.
    #[must_use]
    pub fn is_unavailable(&self) -> bool {
        matches!(self, Self::Unavailable { .. })
    }

    /// The value of the header `WWW-Authenticate` for an answer 401.
    #[must_use]
    pub fn challenge(&self) -> &'static str {
        match self {
            Self::Missing => "Bearer",
            _ => "Bearer error=\"invalid_token\"",
        }
    }
}

/// The token in the value of an `Authorization` header.
///
/// # Errors
/// [`Denied::Refused`] if it is no bearer token.
pub fn bearer(authorization: &str) -> Result<&str, Denied> {
    match authorization.trim().split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty() => Ok(token.trim()),
        _ => Err(Denied::refused("the Authorization header has another form than `Bearer TOKEN`; send that form")),
    }
}

/// What is wrong with the name of a user or group.
pub(crate) fn name_fault(name: &str) -> Option<String> {
    if name.is_empty() {
        Some("the name is empty; give one".to_owned())
    } else if name.len() > MOST_BYTES {
        Some(format!("the name has {} bytes; at most {MOST_BYTES} are allowed", name.len()))
    } else if name.chars().any(char::is_control) {
        Some("the name has a control character; remove it".to_owned())
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bearer_tokens_are_found_in_headers() {
        assert_eq!(bearer("Bearer abc"), Ok("abc"));
        assert_eq!(bearer("bearer   abc "), Ok("abc"));
        for wrong in ["", "Bearer", "Bearer ", "Basic abc", "abc", "Bearerabc x"] {
            assert!(matches!(bearer(wrong), Err(Denied::Refused { .. })), "{wrong}");
        }
    }

    #[test]
    fn no_text_of_a_refusal_shows_the_header() {
        let denied = bearer("Basic hunter2").unwrap_err();
        assert!(!format!("{denied} {denied:?}").contains("hunter2"));
    }

    #[test]
    fn names_are_short_and_printable() {
        assert_eq!(name_fault("Jörg @ sales"), None);
        for wrong in ["", "a\nb", "\u{7f}", &"x".repeat(513)] {
            assert!(name_fault(wrong).is_some(), "{wrong:?}");
        }
    }
}
