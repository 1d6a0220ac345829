//! Names of namespaces, tables and views: paths whose parts are escaped, so that different paths have different names.

use std::fmt;
use std::sync::Arc;

use crate::TableId;

/// The maximum length of an escaped name in bytes: it must fit into a page beside others.
const LONGEST: usize = 1024;

/// The path of a namespace or table: one part or more, written with `/` between them. The root of a catalog has no
/// name.
///
/// A part may be any text, as Iceberg's and Lance's clients allow. Characters that are ambiguous or invisible are
/// escaped: each byte of their UTF-8 is written as `%` and two hexadecimal digits. These are
///
/// * `/` and `%`, control characters, and all white space but the space;
/// * spaces at either end of a part;
/// * characters that change the direction of text, and those without width that join nothing (U+200B, U+2060, U+FEFF);
/// * the dots of the parts `.` and `..`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

/// Why a text is not a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    /// A part is empty, or there is no part.
    #[error("{0:?} has an empty part; every part between slashes needs at least one character")]
    EmptyPart(String),
    /// Longer than names may be.
    #[error("the name has {found} bytes, more than the {LONGEST} allowed")]
    TooLong {
        /// Its length, escaped.
        found: usize,
    },
    /// A part is not escaped as it must be.
    #[error("{found:?} is not escaped as names are; if these are its unescaped parts, write {allowed}")]
    Unescaped {
        /// As given.
        found: String,
        /// The correctly escaped name.
        allowed: String,
    },
}

impl Name {
    /// The name of these parts, which are not escaped yet.
    ///
    /// # Errors
    /// Where a part is empty or the whole is too long.
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidName> {
        let mut escaped = String::new();
        for (place, part) in parts.into_iter().enumerate() {
            // Also behind an empty part, so that it is seen.
            if place > 0 {
                escaped.push('/');
            }
            escape(part, &mut escaped);
        }
        Self::checked(escaped)
    }

    /// Parses an escaped name.
    ///
    /// # Errors
    /// If it is not escaped as [`Display`](fmt::Display) would write it.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        if text.len() <= LONGEST && text.split('/').all(is_plain) {
            return Ok(Self(text.into()));
        }
        let name = Self::checked(text.to_owned())?;
        let parts = text.split('/').map(|part| unescape(part).unwrap_or_else(|| part.to_owned()));
        let parts: Vec<String> = parts.collect();
        let again = Self::of_parts(parts.iter().map(String::as_str))?;
        if again == name {
            return Ok(name);
        }
        Err(InvalidName::Unescaped { found: text.to_owned(), allowed: again.0.as_ref().to_owned() })
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

    /// The escaped name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parts, unescaped.
    #[must_use]
    pub fn parts(&self) -> Vec<String> {
        self.0.split('/').map(|part| unescape(part).unwrap_or_default()).collect()
    }

    /// The namespace it is in; `None` if that is the root.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        self.0.rsplit_once('/').map(|(parent, _)| Self(parent.into()))
    }

    /// Whether it is in this namespace, at any depth. A name is not within itself.
    #[must_use]
    pub fn is_within(&self, namespace: &Self) -> bool {
        self.0.strip_prefix(&*namespace.0).is_some_and(|rest| rest.starts_with('/'))
    }

    /// The last part, escaped.
    #[must_use]
    pub fn last(&self) -> &str {
        self.place().1
    }

    /// The namespace it is in and its last part, both escaped; listings are sorted by these. The root is the empty
    /// string.
    #[must_use]
    pub fn place(&self) -> (&str, &str) {
        self.0.rsplit_once('/').unwrap_or(("", &self.0))
    }

    /// The name of a numbered table: an entry of the root like any other.
    #[must_use]
    pub fn numbered(table: TableId) -> Self {
        Self(format!("t{:08x}", table.0).into())
    }

    /// The table with this name, if it is the name of a numbered table.
    #[must_use]
    pub fn number(&self) -> Option<TableId> {
        let digits = self.0.strip_prefix('t').filter(|digits| digits.len() == 8)?;
        let written = digits.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'));
        written.then(|| u32::from_str_radix(digits, 16).ok().map(TableId))?
    }

    /// The name with this last part (escaped), in a namespace or in the root.
    ///
    /// # Errors
    /// If that is not a valid name.
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

/// Whether a part has nothing to escape. A fast test: `false` may be wrong. Most parts pass it, and decoding a catalog
/// parses every name.
fn is_plain(part: &str) -> bool {
    let visible = |byte: u8| byte.is_ascii_graphic() && byte != b'%';
    !part.is_empty() && !part.starts_with('.') && part.bytes().all(visible)
}

fn needs_escape(character: char) -> bool {
    match character {
        '/' | '%' | '\u{200B}' | '\u{2060}' | '\u{FEFF}' => true,
        // Those with the property Bidi_Control: Unicode Standard Annex 9, "Unicode Bidirectional Algorithm", table 1.
        '\u{061C}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => true,
        ' ' => false,
        other => other.is_control() || other.is_whitespace(),
    }
}

fn escape(part: &str, to: &mut String) {
    let dots = matches!(part, "." | "..");
    let (inner, last) = (part.trim_start_matches(' '), part.trim_end_matches(' ').len());
    let first = part.len() - inner.len();
    for (at, character) in part.char_indices() {
        if needs_escape(character) || dots || at < first || at >= last {
            let mut bytes = [0; 4];
            for byte in character.encode_utf8(&mut bytes).bytes() {
                to.push_str(&format!("%{byte:02X}"));
            }
        } else {
            to.push(character);
        }
    }
}

/// `None` if an escape is incomplete or the unescaped bytes are not UTF-8.
fn unescape(part: &str) -> Option<String> {
    let mut plain = Vec::with_capacity(part.len());
    let mut rest = part;
    while let Some((before, after)) = rest.split_once('%') {
        plain.extend_from_slice(before.as_bytes());
        let digits = after.get(..2).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
        plain.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &after[2..];
    }
    plain.extend_from_slice(rest.as_bytes());
    String::from_utf8(plain).ok()
}
