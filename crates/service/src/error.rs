//! What went wrong, and what that proves. The status code of an answer follows from it.

use glidepath_env::Cause;
use glidepath_model::Refusal;
use glidepath_protocols::LoadError;
use glidepath_protocols::group::CommitError;
use glidepath_table::FileError;
use glidepath_table::commit::Misfit;

use crate::names::lacks_own;

/// Why a request did not succeed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct ServiceError {
    /// What is wrong.
    pub kind: Kind,
    /// For people.
    pub message: String,
}

/// What went wrong. Of all but [`Kind::Unknown`], the request certainly had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The request is wrong.
    Invalid,
    /// What the request describes cannot be.
    Illegal,
    /// A file that the catalog points to is missing.
    NoFile,
    /// There is no such namespace.
    NoNamespace,
    /// There is no such table.
    NoTable,
    /// There is no such view.
    NoView,
    /// The table has no such version.
    NoVersion,
    /// The name is taken.
    Exists,
    /// The namespace is not empty.
    NotEmpty,
    /// A requirement of the commit does not hold: refresh, and try again.
    Conflict,
    /// A key of another request was used for this one.
    KeyReused,
    /// One part of the request asks for the opposite of another.
    Contradictory,
    /// Not possible here, whatever the request says.
    Unsupported,
    /// Too much at once, or the store does not answer: certainly not done, try again later.
    Unavailable,
    /// It may have been done, or may still be.
    Unknown,
    /// Not done; something is broken that the client cannot mend.
    Broken,
}

/// What an answer proves about the request's effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// It had none and never will.
    NotDone,
    /// It may have been done, or may still be.
    Unknown,
}

impl Kind {
    /// What it proves.
    #[must_use]
    pub fn proof(self) -> Proof {
        if self == Self::Unknown { Proof::Unknown } else { Proof::NotDone }
    }
}

impl ServiceError {
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The request is wrong.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Kind::Invalid, message)
    }

    pub(crate) fn unavailable(cause: &Cause) -> Self {
        Self::new(Kind::Unavailable, format!("not done, try again later: {cause}"))
    }
}

impl From<LoadError> for ServiceError {
    fn from(error: LoadError) -> Self {
        match &error {
            LoadError::Failed(cause) => Self::unavailable(cause),
            LoadError::NotFound | LoadError::Undecodable(_) => Self::new(Kind::Broken, error.to_string()),
        }
    }
}

impl From<FileError> for ServiceError {
    fn from(error: FileError) -> Self {
        let kind = match &error {
            FileError::Outside { .. } => Kind::Invalid,
            FileError::NotFound(_) | FileError::TooLarge { .. } => Kind::Broken,
            FileError::Failed { .. } => Kind::Unavailable,
        };
        Self::new(kind, error.to_string())
    }
}

impl From<Misfit> for ServiceError {
    fn from(misfit: Misfit) -> Self {
        match misfit {
            Misfit::Conflict(words) => Self::new(Kind::Conflict, words),
            Misfit::Invalid(words) => Self::new(Kind::Invalid, words),
            Misfit::Missing => Self::new(Kind::NoTable, "the table does not exist"),
        }
    }
}

/// The meaning of a commit's error for a request about names: refusals become answers, the rest says what it proves.
impl From<CommitError> for ServiceError {
    fn from(error: CommitError) -> Self {
        let message = error.to_string();
        match error {
            CommitError::Refused(refusal) => refusal.into(),
            CommitError::Contention { .. } | CommitError::Full { .. } | CommitError::Failed(_) => {
                Self::new(Kind::Unavailable, format!("{message}; nothing was done: try again later"))
            }
            CommitError::Unknown(_) => Self::new(Kind::Unknown, message),
        }
    }
}

impl From<Refusal> for ServiceError {
    fn from(refusal: Refusal) -> Self {
        if lacks_own(&refusal) {
            let words = format!("not done, try again later: the server makes its own namespace again ({refusal})");
            return Self::new(Kind::Unavailable, words);
        }
        let kind = match &refusal {
            Refusal::Exists(_) => Kind::Exists,
            Refusal::NotFound(_) => Kind::NoTable,
            Refusal::NoParent { .. } => Kind::NoNamespace,
            Refusal::NotEmpty(_) => Kind::NotEmpty,
            Refusal::Changed(_)
            | Refusal::PointerMoved { .. }
            | Refusal::VersionMoved { .. }
            | Refusal::PropertyChanged { .. } => Kind::Conflict,
            Refusal::WrongKind { .. }
            | Refusal::Flawed { .. }
            | Refusal::NoPartitions(_)
            | Refusal::UnknownField { .. }
            | Refusal::TooLarge { .. } => Kind::Invalid,
        };
        Self::new(kind, refusal.to_string())
    }
}
