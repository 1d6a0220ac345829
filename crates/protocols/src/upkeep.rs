//! Maintenance of a catalog, for all protocols: which versions can be read, what each changed, whether everything is
//! there, and what may be removed.

use std::fmt;

use glidepath_env::{Cause, Env, Key};
use glidepath_model::{CommitId, Entry, Kind, Name, Root, Span, Version};

use crate::afterwards;
use crate::catalog::{Catalog, LoadError};
use crate::manifest_chain::{Grace, Layout};
use crate::registry::Design;

/// What is known of a version besides its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The commit that made it.
    pub commit: CommitId,
    /// When it was written, by its writer's clock; `None` if the protocol keeps no times.
    pub written_ms: Option<u64>,
    /// The oldest kept version that it names, if versions do so.
    pub oldest_kept: Option<Version>,
    /// The number of its entries, if known without counting.
    pub entries: Option<u64>,
    /// Its layout, if there are several.
    pub layout: Option<Layout>,
    /// Whether there are indices by kind and by base object, if there can be.
    pub indexed: Option<bool>,
}

impl Facts {
    /// For a protocol that keeps only entries.
    #[must_use]
    pub fn of(commit: CommitId) -> Self {
        Self { commit, written_ms: None, oldest_kept: None, entries: None, layout: None, indexed: None }
    }
}

/// A name whose entries at two versions differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The name.
    pub name: Name,
    /// The entry before.
    pub before: Option<Entry>,
    /// The entry now.
    pub now: Option<Entry>,
}

/// Up to `limit` names in which two roots differ.
pub(crate) fn changed(before: Option<&Root>, now: &Root, limit: usize) -> Vec<Changed> {
    let nothing = Root::empty();
    let before = before.unwrap_or(&nothing);
    let all = afterwards::changed(before, now).into_iter().take(limit);
    all.map(|(name, now)| Changed { before: glidepath_model::AtHand::entry(before, &name), name, now }).collect()
}

/// The old versions that a vacuum keeps: those that at least one rule keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// This many versions before the newest.
    pub versions: u64,
    /// A version for this long after the next one was written. Only for protocols that keep times; by default as short
    /// as is safe.
    pub age: Option<Span>,
}

impl Keep {
    /// As little as possible: for checkers.
    pub const LEAST: Self = Self { versions: Grace::LEAST.versions, age: Some(Grace::LEAST.age) };
}

/// A count of one kind of thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// The kind, for programs: "packs", for example.
    pub key: &'static str,
    /// The kind, for people: one, and several.
    words: [&'static str; 2],
    /// The count.
    pub count: u64,
}

impl Count {
    pub(crate) fn of(key: &'static str, words: [&'static str; 2], count: u64) -> Self {
        Self { key, words, count }
    }

    pub(crate) fn of_entries(count: u64) -> Self {
        Self::of("entries", ["entry", "entries"], count)
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.count, self.words[usize::from(self.count != 1)])
    }
}

/// What a vacuum did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The oldest version that could be read before.
    pub before: Version,
    /// The oldest version kept now.
    pub oldest: Version,
    /// The newest version when the vacuum began to delete.
    pub newest: Version,
    /// Objects that were deleted.
    pub deleted: Vec<Count>,
    /// Objects that were overwritten by short ones, which stay.
    pub emptied: Vec<Count>,
    /// What is remembered no more.
    pub retired: Vec<Count>,
    /// Old objects that are still needed, or may be.
    pub kept: u64,
}

/// Why a vacuum stopped. Everything removed before was not needed; run it again.
#[derive(Clone, Debug, thiserror::Error)]
pub enum VacuumError {
    /// The request is not possible; the text says why.
    #[error("{0}")]
    Mistake(String),
    /// Nothing proves that anything is old, and nothing was removed; the text says why, and what to do.
    #[error("{0}")]
    Unproven(String),
    /// The catalog could not be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// A request to the store failed.
    #[error("the vacuum stopped: {0}; what it removed before was not needed: run it again")]
    Stopped(Cause),
}

/// The severity of a finding; the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Something acknowledged is lost, or cannot be read.
    Damage,
    /// The store did not answer.
    Unread,
    /// Something unneeded.
    Garbage,
    /// Something to know.
    Note,
}

impl Severity {
    /// The word for people.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Damage => "damage",
            Self::Unread => "unread",
            Self::Garbage => "garbage",
            Self::Note => "note",
        }
    }
}

/// A finding of a check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// A word for programs.
    pub trouble: &'static str,
    /// The object.
    pub object: Key,
    /// The version.
    pub version: Option<Version>,
    /// What was found.
    pub found: String,
    /// What to do.
    pub advice: String,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The findings, the worst first. If there are more, at least one of damage is here if there is any.
    pub findings: Vec<Finding>,
    /// The protocol has no versions of a catalog, so the fields about versions say nothing.
    pub unversioned: bool,
    /// How many more there are.
    pub more_findings: u64,
    /// The newest version.
    pub newest: Version,
    /// The oldest version that should be kept.
    pub oldest: Version,
    /// The newest version that can be read completely.
    pub whole: Option<Version>,
    /// What was checked.
    pub looked_at: Vec<Count>,
    /// What was repaired.
    pub mended: Vec<String>,
}

impl Report {
    /// Whether something is damaged, or may be.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity <= Severity::Unread)
    }
}

/// A check of a catalog that is one object, or is checked as if it were.
pub(crate) async fn look_at_newest<D: Design, E: Env>(
    catalog: &D::Catalog<E>,
    object: Key,
) -> Result<Report, LoadError> {
    let head = match catalog.load().await {
        Ok(head) => head,
        Err(error @ LoadError::NotFound) => return Err(error),
        Err(error) => {
            let restore = "restore the object from a backup or an older version that the store kept";
            let (severity, trouble, found, advice) = match error {
                LoadError::Undecodable(cause) => {
                    (Severity::Damage, "undecodable", cause.to_string(), restore.to_owned())
                }
                error => {
                    (Severity::Unread, "unread", error.to_string(), format!("try again; if it still fails, {restore}"))
                }
            };
            let finding = Finding { severity, trouble, object, version: None, found, advice };
            return Ok(Report { findings: vec![finding], ..Report::default() });
        }
    };
    let (version, mut entries) = (catalog.version(&head).unwrap_or_default(), 0);
    for kind in Kind::ALL {
        entries += catalog.of_kind(&head, kind).await?.len() as u64;
    }
    let looked_at = vec![Count::of("versions", ["version", "versions"], 1), Count::of_entries(entries)];
    Ok(Report { newest: version, oldest: version, whole: Some(version), looked_at, ..Report::default() })
}
