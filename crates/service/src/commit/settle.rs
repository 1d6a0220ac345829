//! Step 7: what became of a commit of the catalog whose outcome is unknown.
//!
//! The new metadata file has a fresh name, and the pointer moves to it from the old file only. So
//!
//! * if the pointer is at the new file, or the log of the current metadata has it, the commit took effect;
//! * if the log has the old file, and something else follows it, the pointer has left the old file for ever: the commit
//!   did not take effect and never will;
//! * if the pointer is still at the old file, it may yet take effect. The same commit is sent again: it moves the
//!   pointer to the same file, so it does not matter which of the two lands. (Without what it says about turns: another
//!   server may have asked for the next one);
//! * otherwise (the table was dropped, or the log was cut) it is not known.

use glidepath_env::{Cause, Env};
use glidepath_model::{Action, Name, Refusal, Span};
use glidepath_protocols::group::{CommitError, Grouped};
use glidepath_table::Files;
use iceberg::spec::TableMetadata;

use super::Attempt;
use crate::Inner;
use crate::bodies::Loaded;
use crate::error::{Kind, ServiceError};

/// How often an unknown commit is looked for.
const LOOKS: u32 = 4;

/// What became of a commit of the catalog.
pub(crate) enum Settled {
    /// It took effect.
    Landed,
    /// It did not, and never will.
    Not(Attempt),
    /// The key of this request is there: the request was done before.
    Replayed(usize),
    /// It may have taken effect, or may still do so.
    Unknown(ServiceError),
}

/// What a refusal says about the commit that moves the pointer to `pointer`.
pub(crate) fn refused(refusal: &Refusal, pointer: &str) -> Settled {
    match refusal {
        Refusal::PointerMoved { found: Some(found), .. } if found == pointer => Settled::Landed,
        Refusal::PointerMoved { .. } => Settled::Not(Attempt::Overtaken),
        Refusal::PropertyChanged { .. } => Settled::Not(Attempt::NotItsTurn),
        Refusal::NotFound(_) | Refusal::WrongKind { .. } => Settled::Not(Attempt::Gone),
        refusal => Settled::Not(Attempt::Failed(refusal.clone().into())),
    }
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    pub(super) async fn settle(
        &self,
        name: &Name,
        on: &Loaded<TableMetadata>,
        pointer: &str,
        actions: Vec<Action>,
        mut cause: Cause,
    ) -> Settled {
        for look in 0..LOOKS {
            self.env.sleep_until(self.env.now() + Span::from_millis(20 << (2 * look))).await;
            let now = match self.current(name).await {
                Ok(now) => now,
                Err(error) => {
                    cause = Cause::from_error(error);
                    continue;
                }
            };
            let Some(now) = now else { break };
            if now.location != on.location {
                match followed(&now, &on.location, pointer) {
                    Some(true) => return Settled::Landed,
                    Some(false) => return Settled::Not(Attempt::Overtaken),
                    None => break,
                }
            }
            match self.committer.commit(actions.clone()).await {
                Ok(_) => return Settled::Landed,
                // What refuses this one may be the first one's effect: look again.
                Err(CommitError::Refused(refusal)) => cause = Cause::from_error(refusal),
                Err(CommitError::Unknown(again) | CommitError::Failed(again)) => cause = again,
                Err(error) => cause = Cause::from_error(error),
            }
        }
        Settled::Unknown(ServiceError::new(Kind::Unknown, format!("it is not known whether it was committed: {cause}")))
    }
}

/// Whether `pointer` followed the file `old` in the history of the table; `None` if its log does not say.
fn followed(now: &Loaded<TableMetadata>, old: &str, pointer: &str) -> Option<bool> {
    if now.location == pointer {
        return Some(true);
    }
    let log: Vec<&str> = now.metadata.metadata_log().iter().map(|entry| entry.metadata_file.as_str()).collect();
    if log.contains(&pointer) {
        return Some(true);
    }
    log.contains(&old).then_some(false)
}
