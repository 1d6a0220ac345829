//! Settling writes of unknown outcome: how often a protocol reads back.

pub(crate) use glidepath_env::settling::{ROUNDS, wait, wait_after};
use glidepath_env::{Cause, Denial, PutError};

use crate::mutant::{self, Mutant};

/// How often a write may be refused for a reason that does not pass by itself (403, say) before the protocol stops.
const DENIALS: u32 = 3;

/// The failures of a guarded write, over all requests sent for it.
#[derive(Default)]
pub(crate) struct Doubt {
    cause: Option<Cause>,
    denials: u32,
}

impl Doubt {
    /// Adds a failure. Returns the denial if it proves that the write has had no effect and never will; nothing else
    /// proves that.
    pub(crate) fn record(&mut self, error: PutError, delivers_once: bool) -> Option<Denial> {
        match error {
            PutError::Refused(denial)
                if self.cause.is_none() && (denial.certain || mutant::is(Mutant::RefusedIsProof)) =>
            {
                return Some(denial);
            }
            PutError::Refused(denial) => {
                self.denials += u32::from(!denial.passing);
                self.cause = Some(denial.cause);
            }
            PutError::Unknown(cause) => self.cause = Some(cause),
            PutError::Lost if delivers_once => {}
            PutError::Lost => {
                let words = || {
                    Cause::words(
                        "the store answered that the guard did not hold, perhaps because of an earlier delivery of \
                         this write",
                    )
                };
                self.cause.get_or_insert_with(words);
            }
        }
        None
    }

    /// Whether every request was lost to another writer.
    pub(crate) fn all_lost(&self) -> bool {
        self.cause.is_none()
    }

    pub(crate) fn note(&mut self, cause: Cause) {
        self.cause = Some(cause);
    }

    /// Whether sending it again is useless.
    pub(crate) fn hopeless(&self) -> bool {
        self.denials >= DENIALS
    }

    /// Why its outcome is unknown.
    pub(crate) fn cause(self) -> Cause {
        self.cause
            .unwrap_or_else(|| Cause::words("the store answered that the guard did not hold, but shows no other write"))
    }
}

/// The failure of an object put before the commit: nothing refers to it yet, so the commit has not been sent.
pub(crate) fn not_staged(error: PutError) -> Denial {
    match error {
        PutError::Refused(denial) => Denial { certain: true, ..denial },
        PutError::Unknown(cause) => Denial::certain(cause).passing(),
        PutError::Lost => Denial::words("a put without a guard was lost").passing(),
    }
}
