//! How is a namespace or a table named? By the parts of its path; the parts are escaped, so that no two paths meet.

use std::fmt;
use std::sync::Arc;

/// The most bytes a name may have, escaped: it must fit into a page beside others.
const LONGEST: usize = 1024;

/// The path of a namespace or table: one part or more, written with `/` between them. Within a part, `/`, `%` and control
/// characters are written as `%` and two hexadecimal digits. The root of a catalog has no name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

/// Why a text is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// A part has no characters, or there is no part.
    #[error("{0:?} has an empty part; every part between slashes needs at least one character")]
    EmptyPart(String),
    /// Longer than a page may hold.
    #[error("the name has {found} bytes, more than the {LONGEST} allowed")]
    TooLong {
        /// Its length, escaped.
        found: usize,
    },
    /// A `%` that escapes nothing.
    #[error("{0:?} has a % without two hexadecimal digits of a character that needs it; write % itself as %25")]
    Escape(String),
}

impl Name {
    /// The name of these parts, taken as they are.
    ///
    /// # Errors
    /// Where a part is empty or the whole is too long.
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidName> {
        let mut escaped = String::new();
        for part in parts {
            if !escaped.is_empty() {
                escaped.push('/');
            }
            escape(part, &mut escaped);
        }
        Self::checked(escaped)
    }

    /// The name that is written like this.
    ///
    /// # Errors
    /// Where it is not written as [`Display`](fmt::Display) would write it.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let name = Self::checked(text.to_owned())?;
        let parts = name.parts();
        let again = Self::of_parts(parts.iter().map(String::as_str))?;
        if again == name { Ok(name) } else { Err(InvalidName::Escape(text.to_owned())) }
    }

    fn checked(escaped: String) -> Result<Self, InvalidName> {
        if escaped.len() > LONGEST {
            return Err(InvalidName::TooLong { found: escaped.len() });
        }
        if escaped.split('/').any(str::is_empty) {
            return Err(InvalidName::EmptyPart(escaped));
        }
        Ok(Self(escaped.into()))
    }

    /// As written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parts, as they were before escaping.
    #[must_use]
    pub fn parts(&self) -> Vec<String> {
        self.0.split('/').map(unescape).collect()
    }

    /// The namespace it is in; `None` if that is the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('/').map(|(parent, _)| Self(parent.into()))
    }

    /// Whether it is in this namespace, however deep. No name is within itself.
    #[must_use]
    pub fn is_within(&self, namespace: &Self) -> bool {
        self.0.strip_prefix(&*namespace.0).is_some_and(|rest| rest.starts_with('/'))
    }

    /// The last part, as written.
    #[must_use]
    pub fn last(&self) -> &str {
        self.0.rsplit_once('/').map_or(&self.0, |(_, last)| last)
    }

    /// The name with this last part, as written, in a namespace or the root.
    ///
    /// # Errors
    /// Where that is not a name.
    pub fn in_namespace(parent: Option<&Self>, last: &str) -> Result<Self, InvalidName> {
        match parent {
            Some(parent) => Self::parse(&format!("{parent}/{last}")),
            None => Self::parse(last),
        }
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

fn needs_escape(character: char) -> bool {
    matches!(character, '/' | '%') || character.is_ascii_control()
}

fn escape(part: &str, to: &mut String) {
    for character in part.chars() {
        if needs_escape(character) {
            to.push_str(&format!("%{:02X}", character as u32));
        } else {
            to.push(character);
        }
    }
}

fn unescape(part: &str) -> String {
    let mut plain = String::new();
    let mut rest = part;
    while let Some((before, after)) = rest.split_once('%') {
        plain.push_str(before);
        match after.get(..2).and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                plain.push(char::from(byte));
                rest = &after[2..];
            }
            None => {
                plain.push('%');
                rest = after;
            }
        }
    }
    plain + rest
}
