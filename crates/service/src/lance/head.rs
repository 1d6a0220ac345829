//! The metadata pointer of a Lance table: what the catalog knows of its versions.

use glidepath_model::Entry;
use serde::{Deserialize, Serialize};

use crate::error::{Kind, ServiceError};

/// How many staged manifests are remembered, so that a repeated request is recognized.
const REMEMBERED: usize = 16;

/// The newest version of a table whose commits the server orders. It is the text of the entry's pointer, so it moves by
/// compare-and-set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Head {
    /// The folder of the table.
    pub(super) location: String,
    /// The number of the newest version; 0: there is none yet.
    pub(super) version: u64,
    /// The server's copy of the manifest of the newest version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) copy: Option<String>,
    /// The size of this manifest.
    pub(super) bytes: u64,
    /// When the version was created.
    pub(super) at_ms: u64,
    /// The names of the staged manifests of the newest versions, the newest first.
    pub(super) staged: Vec<String>,
}

impl Head {
    /// The head of a table without versions.
    pub(super) fn none(location: &str) -> Self {
        Self { location: location.to_owned(), version: 0, copy: None, bytes: 0, at_ms: 0, staged: Vec::new() }
    }

    pub(super) fn next(&self, copy: String, bytes: u64, at_ms: u64, staged: &str) -> Self {
        let earlier = self.staged.iter().take(REMEMBERED - 1).cloned();
        Self {
            location: self.location.clone(),
            version: self.version + 1,
            copy: Some(copy),
            bytes,
            at_ms,
            staged: std::iter::once(staged.to_owned()).chain(earlier).collect(),
        }
    }

    /// Whether a version was made of this staged manifest; `None`: that is no longer known.
    pub(super) fn is_of(&self, version: u64, staged: &str) -> Option<bool> {
        let back = usize::try_from(self.version.checked_sub(version)?).ok()?;
        self.staged.get(back).map(|known| known == staged)
    }

    pub(super) fn text(&self) -> Result<String, ServiceError> {
        serde_json::to_string(self)
            .map_err(|error| ServiceError::new(Kind::Broken, format!("the versions cannot be written: {error}")))
    }

    /// The head in an entry; `None` if the table's commits are ordered by its store.
    pub(super) fn of(entry: &Entry) -> Result<Option<Self>, ServiceError> {
        let Some(text) = entry.pointer.as_deref().filter(|text| text.starts_with('{')) else { return Ok(None) };
        serde_json::from_str(text).map(Some).map_err(|error| {
            ServiceError::new(Kind::Broken, format!("the pointer {text:?} of the table cannot be read: {error}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_staged_manifests_are_remembered() {
        let mut head = Head::none("s3://b/t");
        for version in 1..=40 {
            head = head.next(format!("copy-{version}"), 10, 0, &format!("staged-{version}"));
        }
        assert_eq!(head.is_of(40, "staged-40"), Some(true));
        assert_eq!(head.is_of(25, "staged-25"), Some(true));
        assert_eq!(head.is_of(25, "other"), Some(false));
        assert_eq!(head.is_of(24, "staged-24"), None);
        assert_eq!(head.is_of(41, "staged-41"), None);
        let entry = Entry { pointer: Some(head.text().unwrap()), ..Entry::view() };
        assert_eq!(Head::of(&entry).unwrap(), Some(head));
        assert_eq!(Head::of(&Entry { pointer: Some("s3://b/t".into()), ..Entry::view() }).unwrap(), None);
    }
}
