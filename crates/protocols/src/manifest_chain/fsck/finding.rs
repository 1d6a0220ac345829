//! Findings: what can be wrong with a chain, what it means, and what to do about it.

use std::fmt;

use glidepath_env::{Cause, Key};
use glidepath_model::{CommitId, Name, Version};

pub use crate::upkeep::Severity;
use crate::wire::DecodeError;

/// One finding of a check.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What is wrong.
    pub trouble: Trouble,
    /// The object that it is in, or that is missing.
    pub object: Key,
    /// The newest version that is affected.
    pub version: Option<Version>,
}

/// What is wrong with a chain.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Trouble {
    /// A version whose object cannot be decoded.
    Undecodable(DecodeError),
    /// A version whose object says that it is another one.
    OtherVersion(Version),
    /// The first and last of versions that should be kept and do not exist.
    Gap(Version, Version),
    /// A version names another commit as its predecessor than the one that made the version before it.
    BrokenChain {
        /// The commit that it names.
        says: CommitId,
        /// The commit that made the version before.
        found: CommitId,
    },
    /// A version says that older versions are kept than its predecessor says, or that no version is kept.
    WrongOldest(Version),
    /// An object with needed pages is missing; the extent is what its first such page held.
    MissingObject(Extent),
    /// A page cannot be decoded.
    DamagedPage {
        /// The offset of its first byte in the object.
        offset_bytes: u32,
        /// Why.
        reason: DecodeError,
        /// What is lost with it.
        lost: Extent,
    },
    /// A page holds keys that belong elsewhere.
    Disorder {
        /// The offset of its first byte in the object.
        offset_bytes: u32,
    },
    /// A key that is not that of a name, or an invalid entry.
    BadItem(String),
    /// A wrong number of entries.
    WrongCount {
        /// As the version says.
        says: u64,
        /// As found.
        found: u64,
    },
    /// An entry that is missing in an index.
    NotIndexed(Name),
    /// An index key without an entry that matches it.
    StrayIndex(Name),
    /// An entry in a namespace that does not exist.
    Orphan(Name),
    /// The hint names a version beyond the newest.
    HintAhead(Version),
    /// The hint is not a number.
    HintDamaged,
    /// The hint names a version long past, or there is no hint.
    HintBehind(Option<Version>),
    /// The store cannot read an object.
    Unread(Cause),
    /// A pack or an old version that no kept version refers to.
    Unused,
    /// A pack for a version that does not exist yet.
    Pending,
    /// A pack for a version whose predecessor does not exist either.
    PackAhead,
    /// An object that this protocol does not write.
    Foreign,
}

/// The lost part of a tree: from one key to before another, where these are known.
#[derive(Clone, Debug, Default)]
pub struct Extent {
    /// The first lost key.
    pub from: Option<Name>,
    /// The key after the lost ones.
    pub to: Option<Name>,
    /// Whether it is part of an index, which can be derived from the entries: then no entry is lost.
    pub only_index: bool,
}

impl Finding {
    /// How bad it is.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self.trouble {
            Trouble::Unread(_) => Severity::Unread,
            Trouble::Undecodable(DecodeError::Format { .. } | DecodeError::Features { .. }) => Severity::Unread,
            Trouble::Unused => Severity::Garbage,
            Trouble::Pending | Trouble::Foreign | Trouble::HintBehind(_) | Trouble::HintDamaged => Severity::Note,
            _ => Severity::Damage,
        }
    }

    /// Whether something is damaged, or could not be read and may be.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        self.severity() <= Severity::Unread
    }

    /// A word for programs.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self.trouble {
            Trouble::Undecodable(DecodeError::Format { .. } | DecodeError::Features { .. }) => "newer-format",
            Trouble::Undecodable(_) => "undecodable-version",
            Trouble::OtherVersion(_) => "other-version",
            Trouble::Gap(..) => "gap",
            Trouble::BrokenChain { .. } => "broken-chain",
            Trouble::WrongOldest(_) => "wrong-oldest",
            Trouble::MissingObject(_) => "missing-object",
            Trouble::DamagedPage { .. } => "damaged-page",
            Trouble::Disorder { .. } => "disorder",
            Trouble::BadItem(_) => "bad-item",
            Trouble::WrongCount { .. } => "wrong-count",
            Trouble::NotIndexed(_) => "not-indexed",
            Trouble::StrayIndex(_) => "stray-index",
            Trouble::Orphan(_) => "orphan",
            Trouble::HintAhead(_) => "hint-ahead",
            Trouble::HintDamaged => "hint-damaged",
            Trouble::HintBehind(_) => "hint-behind",
            Trouble::Unread(_) => "unread",
            Trouble::Unused => "unused",
            Trouble::Pending => "pending",
            Trouble::PackAhead => "pack-ahead",
            Trouble::Foreign => "foreign",
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn advice(&self) -> &'static str {
        match self.trouble {
            Trouble::Undecodable(DecodeError::Format { .. } | DecodeError::Features { .. }) => {
                "use a newer version of Glidepath"
            }
            Trouble::Undecodable(_)
            | Trouble::OtherVersion(_)
            | Trouble::MissingObject(_)
            | Trouble::DamagedPage { .. } => {
                "restore the object from a backup, or from the store's own versions of objects; until then, stop all \
                 commits \
                 and run no vacuum"
            }
            Trouble::Gap(..) => {
                "restore the objects; until then a reader may take an older version for the newest, so stop all commits"
            }
            Trouble::PackAhead => {
                "find out whether versions were deleted, and restore them; stop all commits until then"
            }
            Trouble::HintAhead(_) => {
                "find out whether versions were deleted, and restore them; if you know that none were, delete the hint"
            }
            Trouble::BrokenChain { .. }
            | Trouble::WrongOldest(_)
            | Trouble::Disorder { .. }
            | Trouble::BadItem(_)
            | Trouble::Orphan(_) => "another program wrote here: go back to a version without damage",
            Trouble::WrongCount { .. } => "only the number is wrong, no entry is lost; please report it",
            Trouble::NotIndexed(_) | Trouble::StrayIndex(_) => {
                "no entry is lost: only searches by type or base object are wrong about this one; please report it"
            }
            Trouble::HintDamaged | Trouble::HintBehind(_) => {
                "harmless: opening takes longer; --mend writes a right one"
            }
            Trouble::Unread(_) => "try again; if it still fails, the object is damaged: restore it from a backup",
            Trouble::Unused => "harmless: `vacuum` deletes it when its version is older than the kept ones",
            Trouble::Pending => "a commit is in progress, or its writer crashed: leave it, `vacuum` finds it later",
            Trouble::Foreign => "no action needed: fsck and vacuum ignore it",
        }
    }
}

impl fmt::Display for Finding {
    /// What was found, and what it means.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.trouble {
            Trouble::Undecodable(error) => write!(f, "this version cannot be decoded: {error}"),
            Trouble::OtherVersion(says) => write!(f, "this version says that it is {says}"),
            Trouble::Gap(first, last) if first == last => {
                write!(f, "{first} is missing, and later versions are kept")
            }
            Trouble::Gap(first, last) => write!(f, "versions {} to {} are missing", first.0, last.0),
            Trouble::BrokenChain { says, found } => {
                write!(f, "this version says that it follows {says}, but the version before it was made by {found}")
            }
            Trouble::WrongOldest(says) => {
                write!(f, "this version says that the oldest kept version is {says}, which is impossible")
            }
            Trouble::MissingObject(lost) => write!(f, "this object is gone, and pages in it are needed: {lost}"),
            Trouble::DamagedPage { offset_bytes, reason, lost } => {
                write!(f, "the page at byte {offset_bytes} of this object cannot be decoded: {reason}; {lost}")
            }
            Trouble::Disorder { offset_bytes } => {
                write!(
                    f,
                    "the page at byte {offset_bytes} of this object has keys out of order: names may not be found"
                )
            }
            Trouble::BadItem(what) => write!(f, "an entry is invalid: {what}"),
            Trouble::WrongCount { says, found } => {
                write!(f, "this version says that it has {says} entries, but has {found}")
            }
            Trouble::NotIndexed(name) => write!(f, "{name} exists, but is missing in an index"),
            Trouble::StrayIndex(name) => write!(f, "an index has {name}, but no entry matches it"),
            Trouble::Orphan(name) => write!(f, "{name} is in a namespace that does not exist"),
            Trouble::HintAhead(says) => {
                write!(
                    f,
                    "the hint says {says}, beyond the newest version: newer versions have been lost, or the hint is \
                     wrong"
                )
            }
            Trouble::HintDamaged => f.write_str("the hint is not a number"),
            Trouble::HintBehind(Some(says)) => write!(f, "the hint says {says}, which is outdated"),
            Trouble::HintBehind(None) => f.write_str("there is no hint near the end of the chain"),
            Trouble::Unread(cause) => write!(f, "the store cannot read this object: {cause}"),
            Trouble::Unused => f.write_str("no kept version needs this object"),
            Trouble::Pending => f.write_str("this pack is for a version that does not exist yet"),
            Trouble::PackAhead => {
                f.write_str("this pack is for a version whose predecessor is missing: newer versions have been lost")
            }
            Trouble::Foreign => f.write_str("this object does not belong to this catalog"),
        }
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.only_index { "index keys" } else { "entries" };
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => write!(f, "{what} from about {from} to before {to} cannot be read"),
            (Some(from), None) => write!(f, "{what} from about {from} on cannot be read"),
            (None, Some(to)) => write!(f, "{what} up to {to} cannot be read"),
            (None, None) => write!(f, "its {what} cannot be read"),
        }
    }
}
