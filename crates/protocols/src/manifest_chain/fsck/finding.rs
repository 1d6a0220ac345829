//! What can be wrong with a chain, what does it mean, and what is to be done?

use std::fmt;

use glidepath_env::{Cause, Key};
use glidepath_model::{CommitId, Name, Version};

pub use crate::upkeep::Severity;
use crate::wire::DecodeError;

/// Something that is not as it should be.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What.
    pub trouble: Trouble,
    /// The object it is in, or that is missing.
    pub object: Key,
    /// The newest version that is affected.
    pub version: Option<Version>,
}

/// What is not as it should be.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Trouble {
    /// An object of a version that cannot be decoded.
    Undecodable(DecodeError),
    /// A version that says that it is another.
    OtherVersion(Version),
    /// Versions that should be kept and are not there, first and last.
    Gap(Version, Version),
    /// The commit that a version says it follows is not the one that the version before was made by.
    BrokenChain {
        /// What it says.
        says: CommitId,
        /// What is there.
        found: CommitId,
    },
    /// A version says that older ones are kept than before it, or none at all.
    WrongOldest(Version),
    /// An object that pages are needed from is gone; the part that its first such page held.
    MissingObject(Extent),
    /// A page cannot be decoded.
    DamagedPage {
        /// Of its first byte in the object.
        offset_bytes: u32,
        /// Why.
        reason: DecodeError,
        /// What is lost with it.
        lost: Extent,
    },
    /// A page holds keys that belong elsewhere.
    Disorder {
        /// Of its first byte in the object.
        offset_bytes: u32,
    },
    /// A key that is not a name's, or an entry that makes no sense.
    BadItem(String),
    /// The number of entries.
    WrongCount {
        /// As the version says.
        says: u64,
        /// As found.
        found: u64,
    },
    /// An entry that an index does not have.
    NotIndexed(Name),
    /// A key of an index without an entry that it fits.
    StrayIndex(Name),
    /// An entry in a namespace that is not there.
    Orphan(Name),
    /// The hint names a version beyond the newest.
    HintAhead(Version),
    /// The hint is not a number.
    HintDamaged,
    /// The hint names a version that is long past, or there is none.
    HintBehind(Option<Version>),
    /// The store does not read an object.
    Unread(Cause),
    /// A pack or an old version that no kept version refers to.
    Unused,
    /// A pack for a version that is still to come.
    Pending,
    /// A pack for a version that could only be written once the next one, which is not there, was.
    PackAhead,
    /// An object that this protocol does not write.
    Foreign,
}

/// A part of the tree that is lost: from this key on, up to before that one, as far as they are known.
#[derive(Clone, Debug, Default)]
pub struct Extent {
    /// The first.
    pub from: Option<Name>,
    /// What comes after it.
    pub to: Option<Name>,
    /// Whether the index that it is in follows from the entries, so that none are lost.
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

    /// What is to be done about it.
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
                "restore the object from a backup, or from the store's own versions of objects; until then, stop all commits \
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
                "entries are complete, searches by type or base object are not: drop the entry and create it again"
            }
            Trouble::HintDamaged | Trouble::HintBehind(_) => {
                "harmless: opening takes longer; --mend writes a right one"
            }
            Trouble::Unread(_) => "try again; if it still fails, the object is damaged: restore it from a backup",
            Trouble::Unused => "harmless: `vacuum` deletes it when its version is older than the kept ones",
            Trouble::Pending => "a commit is under way, or its writer died: leave it, `vacuum` finds it later",
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
            Trouble::Gap(first, last) if first == last => write!(f, "{first} is missing between others that are kept"),
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
                    "the hint says {says}, beyond the newest version: newer versions have been lost, or the hint is wrong"
                )
            }
            Trouble::HintDamaged => f.write_str("the hint is not a number"),
            Trouble::HintBehind(Some(says)) => write!(f, "the hint says {says}, which is outdated"),
            Trouble::HintBehind(None) => f.write_str("there is no hint near the end of the chain"),
            Trouble::Unread(cause) => write!(f, "the store does not read this object: {cause}"),
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
