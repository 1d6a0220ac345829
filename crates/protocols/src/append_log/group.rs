//! Several writers' records in one append: all of them stand in the log or none does, in the order in which they were decided.

use bytes::Bytes;
use glidepath_env::{Cause, Env, Purpose};
use glidepath_model::{Changes, CommitId};

use super::record::Record;
use super::state::State;
use super::{AppendLog, Landing, Snapshot, checked, landed};
use crate::catalog::Outcome;
use crate::group::{GroupAttempt, Grouped};

/// Changes that do not fit the catalog as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tables have changed since this was prepared: read them again")]
pub struct Void;

impl<E: Env> Grouped for AppendLog<E> {
    type Request = Changes;
    type Refusal = Void;

    fn newest_known(&self) -> Option<Snapshot> {
        self.newest()
    }

    async fn attempt_group(&self, base: &Snapshot, requests: &[&Changes]) -> GroupAttempt<Snapshot, Void> {
        let at = self.newest().filter(|other| other.0.place() > base.0.place()).unwrap_or_else(|| base.clone());
        let (mut next, mut records) = (State::clone(&at.0), Vec::new());
        let mut verdicts = Vec::with_capacity(requests.len());
        for changes in requests {
            let commit = CommitId(self.env.draw(Purpose::Names));
            let fits = next.apply(changes, commit);
            verdicts.push(if fits { Ok(()) } else { Err(Void) });
            if fits {
                records.push(Record { commit, closes: false, changes: Some(Changes::clone(changes)) });
            }
        }
        let outcome = if records.is_empty() { None } else { Some(self.append_all(&at, next, records).await) };
        GroupAttempt::Decided { verdicts, outcome }
    }
}

impl<E: Env> AppendLog<E> {
    /// Appends records that lead from `at` to `next`.
    async fn append_all(&self, at: &Snapshot, mut next: State, mut records: Vec<Record>) -> Outcome<Snapshot> {
        let closes = match self.can_write() {
            Ok(()) => self.closes(&at.0).await,
            Err(cause) => Err(cause),
        };
        let closes = match closes {
            Ok(closes) => closes,
            Err(cause) => return Outcome::refused(cause),
        };
        let Some(last) = records.last_mut() else { return Outcome::Committed(at.clone()) };
        last.closes = closes;
        let commit = last.commit;
        let encoded = records.iter().map(checked).collect::<Result<Vec<_>, Cause>>();
        let payload = match encoded {
            Ok(encoded) => Bytes::from(at.0.with_header(encoded.concat())),
            Err(cause) => return Outcome::refused(cause),
        };
        // All but the last are counted here, the last one where it has landed.
        next.records += records.len() as u64 - 1;
        let now = match self.append(at, commit, payload.clone()).await {
            Landing::Ended(outcome) => return outcome,
            Landing::Passed(now) | Landing::Found(now, false) => return Outcome::Conflict(Some(now)),
            Landing::Found(now, true) => now,
            Landing::Taken => match landed(next, &payload, closes) {
                Ok(state) => self.keep(Snapshot(state.into())),
                Err(error) => return Outcome::Unknown(Cause::from_error(error)),
            },
        };
        if closes && now.0.segment.number == at.0.segment.number + 1 {
            drop(self.write_checkpoint(&now.0.segment).await);
        }
        Outcome::Committed(now)
    }
}
