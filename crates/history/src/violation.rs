//! Violations, described by the operations concerned.

use std::error::Error;
use std::fmt;

use glidepath_model::{CommitId, Instant, Span, Version};

use crate::record::{Ending, Expected, Item, Misled, Operation, OperationId, ProcessId, Reported, State, What};

/// Something that must not happen and did. Prints as a few lines: what is wrong, and the operations concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(Box<Fault>);

/// The kinds of violations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A version is missing in the sequence.
    Gap {
        /// The version that should follow.
        expected: Version,
        /// The version that does.
        found: Version,
    },
    /// One commit took effect twice.
    TwiceInChain {
        /// The commit id.
        commit: CommitId,
        /// The two versions.
        versions: [Version; 2],
    },
    /// Two operations were recorded with the same commit id.
    RecordedTwice(Witness, Witness),
    /// A commit in the chain that no recorded operation made.
    NobodyMade {
        /// The commit id.
        commit: CommitId,
        /// The version it is in.
        version: Version,
    },
    /// A commit was acknowledged and is not in the chain.
    AcknowledgedButMissing(Witness),
    /// A commit is in the chain in another version than its process was told.
    ToldAnotherVersion {
        /// The commit.
        commit: Witness,
        /// The version it is in.
        found: Version,
    },
    /// A process was told that its commit had not happened, but it is in the chain.
    DeniedButPresent {
        /// The commit.
        commit: Witness,
        /// The version it is in.
        found: Version,
    },
    /// A commit changed something other than intended, or only part of it.
    OtherChanges {
        /// The commit.
        commit: Witness,
        /// The version it is in.
        version: Version,
        /// The item that differs.
        item: Item,
    },
    /// A commit took effect when an item was not as the commit expected: it overwrote another update.
    ExpectationBroken {
        /// The commit.
        commit: Witness,
        /// The version it is in.
        version: Version,
        /// The item.
        item: Item,
        /// The expected state.
        expected: Expected,
        /// The state found.
        found: State,
        /// The commit that left that state.
        by: Option<Witness>,
    },
    /// A commit was answered with a conflict, but nothing was in conflict at any time meanwhile.
    BaselessConflict(Witness),
    /// A commit was acknowledged before another began, but follows it in the chain.
    OutOfOrder {
        /// The one acknowledged first.
        earlier: Witness,
        /// The one begun after that.
        later: Witness,
    },
    /// A load returned a version that is not in the chain.
    NoSuchVersion(Witness),
    /// A load returned a version older than one that was known before it began.
    StaleLoad {
        /// The load.
        load: Witness,
        /// The oldest version that it was allowed to return.
        least: Version,
        /// The operation that knew it.
        known_by: Witness,
    },
    /// A process saw an older version than it had seen before.
    WentBackwards {
        /// What it saw first.
        before: Witness,
        /// What it saw after that.
        after: Witness,
    },
    /// A load returned a version with a commit that had not begun.
    FromTheFuture {
        /// The load.
        load: Witness,
        /// The commit.
        commit: Witness,
    },
    /// A load saw an item in another state than it has in that version.
    WrongContent {
        /// The load.
        load: Witness,
        /// The item.
        item: Item,
        /// The state that was seen.
        seen: State,
        /// The state in that version.
        actual: State,
    },
    /// No order of the operations on one item explains their answers.
    NotLinearizable {
        /// The item.
        item: Item,
        /// The first operation, by its end, that no order explains together with all that ended before.
        operation: Witness,
        /// The possible states of the item at that end, without that operation.
        possible: Vec<State>,
    },
    /// The operations on one item have so many possible orders that the checker stopped. Nothing is proven.
    TooManyOrders {
        /// The item.
        item: Item,
        /// The operation at which it stopped.
        operation: Witness,
    },
    /// A process was told that the catalog, which is there and whole, is missing or damaged.
    Misled(Misled),
    /// An item exists in a version in which its parent does not.
    Orphan {
        /// The child.
        item: Item,
        /// The parent.
        parent: Item,
        /// The first such version.
        version: Version,
        /// The commit that caused it; `None` for the base.
        by: Option<CommitId>,
    },
    /// A readable version refers to a missing object.
    MissingObject {
        /// Its key.
        key: String,
        /// How many are missing.
        count: u64,
    },
    /// No readable version refers to an object, and it is older than the grace period.
    Leftover {
        /// Its key.
        key: String,
        /// Its age.
        age: Span,
        /// The grace period that it exceeds.
        grace: Span,
        /// How many such objects there are.
        count: u64,
    },
    /// Keys were not given in rising order, so nothing was checked.
    OutOfKeyOrder {
        /// The first key out of order.
        key: String,
    },
}

/// An operation as it is shown in a violation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// Its id in the history.
    pub operation: OperationId,
    /// The process that made it.
    pub process: ProcessId,
    /// When it began.
    pub began: Instant,
    /// When it was answered.
    pub ended: Option<Instant>,
    /// A description of what it did and how it ended.
    pub words: String,
}

impl Violation {
    pub(crate) fn new(fault: Fault) -> Self {
        Self(Box::new(fault))
    }

    /// What is wrong.
    #[must_use]
    pub fn fault(&self) -> &Fault {
        &self.0
    }
}

impl Error for Violation {}

impl From<Fault> for Violation {
    fn from(fault: Fault) -> Self {
        Self::new(fault)
    }
}

impl From<Operation<'_>> for Witness {
    fn from(operation: Operation<'_>) -> Self {
        let words = words(&operation);
        let Operation { id, process, began, ended, .. } = operation;
        Self { operation: id, process, began, ended, words }
    }
}

fn words(operation: &Operation<'_>) -> String {
    match operation.what {
        What::Commit { commit, edits, ending } => {
            let items: Vec<String> = edits.iter().map(|edit| edit.item.to_string()).collect();
            let told = match ending {
                Ending::Committed(Reported::At(version)) => format!("committed as {version}"),
                Ending::Committed(Reported::By(version)) => format!("committed, in {version} or before"),
                Ending::Committed(Reported::Nothing) => "committed".to_owned(),
                Ending::Conflict => "conflict".to_owned(),
                Ending::Refused => "refused".to_owned(),
                Ending::Unknown => "outcome unknown".to_owned(),
                Ending::Open => "never answered".to_owned(),
            };
            format!("{commit} of {}: {told}", items.join(", "))
        }
        What::Load { version: Some(version), .. } => format!("load: {version}"),
        What::Sight { .. } => "load without a version".to_owned(),
        What::Load { version: None, .. } => "load: no answer".to_owned(),
    }
}

impl fmt::Display for Witness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\n  {}, from {:.9} s", self.process, self.began.as_secs_f64())?;
        match self.ended {
            Some(ended) => write!(f, " to {:.9} s", ended.as_secs_f64())?,
            None => f.write_str(" on")?,
        }
        write!(f, ", {}", self.words)
    }
}

/// A state, for printing.
struct Shown(State);

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(commit) => commit.fmt(f),
            None => f.write_str("absent"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap { expected, found } => write!(f, "the chain has {found} where {expected} should follow"),
            Self::TwiceInChain { commit, versions: [first, second] } => {
                write!(f, "{commit} is in the chain twice, in {first} and {second}")
            }
            Self::RecordedTwice(first, second) => write!(f, "two operations have one commit id:{first}{second}"),
            Self::NobodyMade { commit, version } => write!(f, "{commit} in {version} belongs to no recorded operation"),
            Self::AcknowledgedButMissing(commit) => write!(f, "acknowledged, but not in the chain:{commit}"),
            Self::ToldAnotherVersion { commit, found } => {
                write!(f, "the answer named another version than {found}:{commit}")
            }
            Self::DeniedButPresent { commit, found } => {
                write!(f, "reported as not done, but in the chain as {found}:{commit}")
            }
            Self::OtherChanges { commit, version, item } => {
                write!(f, "{version} does not change {item} as its commit should:{commit}")
            }
            Self::ExpectationBroken { commit, version, item, expected, found, by } => {
                write!(f, "{version} expected {item} to be: {expected}; it was: {}{commit}", Shown(*found))?;
                by.as_ref().map_or(Ok(()), |by| write!(f, "{by}"))
            }
            Self::BaselessConflict(commit) => {
                write!(f, "answered with a conflict, but nothing was in conflict:{commit}")
            }
            Self::OutOfOrder { earlier, later } => {
                write!(f, "the first was acknowledged before the second began, and follows it:{earlier}{later}")
            }
            _ => self.fmt_rest(f),
        }
    }
}

impl Fault {
    /// Faults of loads, items and objects.
    fn fmt_rest(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchVersion(load) => write!(f, "a version that is not in the chain was read:{load}"),
            Self::StaleLoad { load, least, known_by } => {
                write!(f, "a load missed {least}, which was known before it began:{known_by}{load}")
            }
            Self::WentBackwards { before, after } => write!(f, "a process went back in time:{before}{after}"),
            Self::FromTheFuture { load, commit } => write!(f, "a load saw a commit that had not begun:{load}{commit}"),
            Self::WrongContent { load, item, seen, actual } => {
                let (seen, actual) = (Shown(*seen), Shown(*actual));
                write!(f, "{item} was seen as: {seen}; in that version it is: {actual}{load}")
            }
            Self::NotLinearizable { item, operation, possible } => {
                let possible: Vec<String> = possible.iter().map(|state| Shown(*state).to_string()).collect();
                write!(f, "{item}: no order of the operations explains this one:{operation}")?;
                write!(f, "\n  at its end the item can have been: {}", possible.join(", "))
            }
            Self::TooManyOrders { item, operation } => {
                write!(f, "{item}: undecided, too many orders are possible by the end of:{operation}")
            }
            Self::Misled(Misled { process, at, words }) => {
                let at = at.as_secs_f64();
                write!(f, "{process} was told at {at:.9} s, of a catalog that is there and whole: {words}")
            }
            Self::Orphan { item, parent, version, by } => {
                write!(f, "{item} exists in {version}, and its parent, {parent}, does not")?;
                by.map_or(Ok(()), |by| write!(f, " (by {by})"))
            }
            Self::MissingObject { key, count } => {
                write!(f, "referred to, but missing: {count} objects, the first \"{key}\"")
            }
            Self::Leftover { key, age, grace, count } => {
                let (age, grace) = (age.as_secs_f64(), grace.as_secs_f64());
                write!(f, "left over: {count} objects that nothing refers to, the first \"{key}\", ")?;
                write!(f, "{age} s old where {grace} s are allowed")
            }
            Self::OutOfKeyOrder { key } => write!(f, "not checked: \"{key}\" came out of order"),
            _ => Ok(()),
        }
    }
}
