//! What does a sender learn whose request the store did not answer, or turned away?

use glidepath_env::{Cause, ConditionError, DeleteError, Denial, KvReadError, PutError, ReadError, WriteError};

/// Why there is no answer of the store. Each operation has its own error for it.
pub(super) enum Failure {
    Unknown(Cause),
    Refused(Denial),
}

impl From<Failure> for ReadError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unknown(cause) | Failure::Refused(Denial { cause, .. }) => Self::Failed(cause),
        }
    }
}

impl From<Failure> for KvReadError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unknown(cause) | Failure::Refused(Denial { cause, .. }) => Self::Failed(cause),
        }
    }
}

impl From<Failure> for DeleteError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unknown(cause) => Self::Unknown(cause),
            Failure::Refused(denial) => Self::Refused(denial.cause),
        }
    }
}

/// The writes that tell a denial as it is.
macro_rules! from_failure {
    ($($error:ty),*) => {
        $(impl From<Failure> for $error {
            fn from(failure: Failure) -> Self {
                match failure {
                    Failure::Unknown(cause) => Self::Unknown(cause),
                    Failure::Refused(denial) => Self::Refused(denial),
                }
            }
        })*
    };
}

from_failure!(PutError, ConditionError, WriteError);
