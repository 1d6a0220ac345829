//! How long does a protocol look for what became of a write of unknown outcome?

use glidepath_env::{Backoff, Cause, Denial, Env, Exponential, JitterRange, Purpose, PutError};
use glidepath_model::Span;

use crate::mutant::{self, Mutant};

/// Read-backs before an outcome is left unknown: about 25 s of waiting in all.
pub(crate) const ROUNDS: u32 = 8;

/// So often a write may be turned away for a reason that does not pass by itself (403, say) before it is left at that.
const DENIALS: u32 = 3;

/// What a guarded write was told that did not return a tag, over all times that it was sent.
#[derive(Default)]
pub(crate) struct Doubt {
    cause: Option<Cause>,
    denials: u32,
}

impl Doubt {
    /// Takes in one more bad end. A denial comes back where it proves that nothing of the write is or will be there; nothing
    /// else proves it.
    pub(crate) fn take(&mut self, error: PutError, delivers_once: bool) -> Option<Denial> {
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
                        "the store answered that the guard did not hold, perhaps because of an earlier delivery of this write",
                    )
                };
                self.cause.get_or_insert_with(words);
            }
        }
        None
    }

    /// Whether every time that it was sent it lost to somebody else.
    pub(crate) fn none(&self) -> bool {
        self.cause.is_none()
    }

    pub(crate) fn note(&mut self, cause: Cause) {
        self.cause = Some(cause);
    }

    /// Whether to send it again is of no use.
    pub(crate) fn hopeless(&self) -> bool {
        self.denials >= DENIALS
    }

    /// Why its outcome is not known.
    pub(crate) fn cause(self) -> Cause {
        self.cause
            .unwrap_or_else(|| Cause::words("the store answered that the guard did not hold, but shows no other write"))
    }
}

/// Of what is put before a commit and nothing refers to yet: where that fails, the commit has not been sent.
pub(crate) fn not_staged(error: PutError) -> Denial {
    match error {
        PutError::Refused(denial) => Denial { certain: true, ..denial },
        PutError::Unknown(cause) => Denial::certain(cause).passing(),
        PutError::Lost => Denial::words("a write without a condition was lost").passing(),
    }
}

const WAIT: Backoff = Backoff::Exponential(Exponential {
    first: Span::from_millis(100),
    factor: 2.0,
    longest: Span::from_secs(10),
    jitter: JitterRange { low: 0.5, high: 1.0 },
});

/// Waits before the read-back of a round.
pub(crate) async fn wait<E: Env>(env: &E, round: u32) {
    let wait = WAIT.wait(round, || env.draw(Purpose::Backoff));
    env.sleep_until(env.now() + wait).await;
}
