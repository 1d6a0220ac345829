//! What do people who look after a catalog ask of any protocol? Which versions can be read, what did each change, is all there, and what
//! may go.

use glidepath_env::{Cause, Env, Key};
use glidepath_model::{CommitId, Entry, Kind, Name, Root, Span, Version};

use crate::afterwards;
use crate::catalog::{Catalog, LoadError};
use crate::manifest_chain::{Grace, Layout};
use crate::registry::Design;

/// What is known of a version beside its entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The commit that made it.
    pub commit: CommitId,
    /// When it was written, by the clock of its writer; `None` where the protocol keeps no times.
    pub written_ms: Option<u64>,
    /// The oldest version that it says is kept, where versions say so.
    pub oldest_kept: Option<Version>,
    /// How many entries it has, where that is known without counting.
    pub entries: Option<u64>,
    /// How its entries lie in objects, where there are several ways.
    pub layout: Option<Layout>,
    /// Whether there are indices by kind and by base object, where there can be.
    pub indexed: Option<bool>,
}

impl Facts {
    /// Of a protocol that keeps nothing but entries.
    #[must_use]
    pub fn of(commit: CommitId) -> Self {
        Self { commit, written_ms: None, oldest_kept: None, entries: None, layout: None, indexed: None }
    }
}

/// A name that does not stand for the same at two versions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// The name.
    pub name: Name,
    /// What it stood for.
    pub before: Option<Entry>,
    /// What it stands for now.
    pub now: Option<Entry>,
}

/// Up to `limit` names that two roots differ in.
pub(crate) fn changed(before: Option<&Root>, now: &Root, limit: usize) -> Vec<Changed> {
    let nothing = Root::empty();
    let before = before.unwrap_or(&nothing);
    let all = afterwards::changed(before, now).into_iter().take(limit);
    all.map(|(name, now)| Changed { before: glidepath_model::AtHand::entry(before, &name), name, now }).collect()
}

/// Which old versions a vacuum keeps: those that either rule keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    /// So many versions before the newest.
    pub versions: u64,
    /// A version for so long after the next one was written. Only for protocols that keep times; where it is not given, as short as is
    /// safe.
    pub age: Option<Span>,
}

impl Keep {
    /// Next to nothing: for checkers.
    pub const LEAST: Self = Self { versions: Grace::LEAST.versions, age: Some(Grace::LEAST.age) };
}

/// How many of a sort there were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Which, for programs: "packs", say.
    pub key: &'static str,
    /// Which, for people.
    pub words: &'static str,
    /// How many.
    pub count: u64,
}

impl Count {
    pub(crate) fn of(key: &'static str, words: &'static str, count: u64) -> Self {
        Self { key, words, count }
    }
}

/// What a vacuum did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The oldest version that could be read before.
    pub before: Version,
    /// The oldest that is kept now.
    pub oldest: Version,
    /// The newest as the vacuum began to delete.
    pub newest: Version,
    /// What was removed.
    pub removed: Vec<Count>,
    /// Old objects that are still needed, or may be.
    pub kept: u64,
}

/// Why a vacuum stopped. What it removed until then was not needed; run it again.
#[derive(Clone, Debug, thiserror::Error)]
pub enum VacuumError {
    /// What was asked for is not possible, in words.
    #[error("{0}")]
    Mistake(String),
    /// The catalog could not be read.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The store failed it.
    #[error("the vacuum stopped: {0}; what it removed until then was not needed: run it again")]
    Stopped(Cause),
}

/// How bad a finding is; the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Something acknowledged is lost, or cannot be read.
    Damage,
    /// The store did not answer.
    Unread,
    /// Something that nobody needs.
    Garbage,
    /// Something to know.
    Note,
}

impl Severity {
    /// As people read it.
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

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// One word for programs.
    pub trouble: &'static str,
    /// Of which object.
    pub object: Key,
    /// Of which version.
    pub version: Option<Version>,
    /// What was found.
    pub found: String,
    /// What to do.
    pub advice: String,
}

/// What a look at all of a catalog found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// What is not as it should be, the worst first.
    pub findings: Vec<Finding>,
    /// How many more there are.
    pub more_findings: u64,
    /// The newest version.
    pub newest: Version,
    /// The oldest that should be kept.
    pub oldest: Version,
    /// The newest version all of which can be read.
    pub whole: Option<Version>,
    /// What was looked at.
    pub looked_at: Vec<Count>,
    /// What was mended.
    pub mended: Vec<String>,
}

impl Report {
    /// Whether something is damaged, or may be.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        self.more_findings > 0 || self.findings.iter().any(|finding| finding.severity <= Severity::Unread)
    }
}

/// A look at a catalog that is one object, or is looked at as if it were.
pub(crate) async fn look_at_newest<D: Design, E: Env>(
    catalog: &D::Catalog<E>,
    object: Key,
) -> Result<Report, LoadError> {
    let head = match catalog.load().await {
        Ok(head) => head,
        Err(LoadError::Undecodable(cause)) => {
            let finding = Finding {
                severity: Severity::Damage,
                trouble: "undecodable",
                object,
                version: None,
                found: cause.to_string(),
                advice: "restore the object from a backup or an older version that the store kept".to_owned(),
            };
            return Ok(Report { findings: vec![finding], ..Report::default() });
        }
        Err(error) => return Err(error),
    };
    let (version, mut entries) = (catalog.version(&head), 0);
    for kind in Kind::ALL {
        entries += catalog.of_kind(&head, kind).await?.len() as u64;
    }
    let looked_at = vec![Count::of("versions", "version", 1), Count::of("entries", "entries", entries)];
    Ok(Report { newest: version, oldest: version, whole: Some(version), looked_at, ..Report::default() })
}
