//! Records of several writers in one append: it adds all of them or none, in the order in which they were decided.

use bytes::Bytes;
use glidepath_env::{Cause, Env, Purpose};
use glidepath_model::{Action, CommitId};

use super::record::{HEADER, Intent, Record};
use super::state::State;
use super::{AppendLog, Landing, MOST_APPEND_BYTES, Snapshot, checked, landed};
use crate::catalog::Outcome;
use crate::group::{GroupAttempt, Grouped, Verdict};
use crate::mutant::{self, Mutant};

/// The content of one append.
struct Batch {
    /// The state after it, except the count of its last record and its offset.
    next: State,
    /// Its records, with their encodings.
    records: Vec<(Record, Vec<u8>)>,
    verdicts: Vec<Verdict>,
}

impl<E: Env> Grouped for AppendLog<E> {
    fn newest_known(&self) -> Option<Snapshot> {
        self.newest()
    }

    async fn attempt_group(&self, base: &Snapshot, requests: &[&[Action]]) -> GroupAttempt<Snapshot> {
        let at = self.newest().filter(|other| other.0.place() > base.0.place()).unwrap_or_else(|| base.clone());
        let Batch { next, records, verdicts } = self.decide(&at, requests);
        let holds = || verdicts.iter().any(|verdict| matches!(verdict, Verdict::Fits));
        let outcome = match records.is_empty() {
            false => Some(self.append_all(&at, next, records).await),
            // The assertions hold at `at`. The caller would report them as held at `base`, where they may not hold.
            true if at.0.place() > base.0.place() && holds() => Some(Outcome::Conflict(Some(at))),
            true => None,
        };
        GroupAttempt::Decided { verdicts, outcome }
    }
}

impl<E: Env> AppendLog<E> {
    /// Decides as many of these requests as fit into one append: at least one.
    fn decide(&self, at: &Snapshot, requests: &[&[Action]]) -> Batch {
        let mut room = MOST_APPEND_BYTES - HEADER;
        let (mut next, mut records, mut verdicts) = (State::clone(&at.0), Vec::new(), Vec::new());
        for actions in requests {
            let actions = &*mutant::actions(actions);
            let commit = CommitId(self.env.draw(Purpose::Names));
            let decided = match next.decide(actions) {
                Ok(decided) => decided,
                Err(refusal) => {
                    verdicts.push(Verdict::Refused(refusal));
                    continue;
                }
            };
            // Only assertions: nothing to append, and no position in the order of commits is needed.
            if Action::only_assert(actions) {
                verdicts.push(Verdict::Fits);
                continue;
            }
            let record = Record { commit, closes: false, intent: Some(Intent::of(actions)) };
            let encoded = match State::countable_now(&decided).and_then(|()| checked(&record)) {
                Ok(encoded) => encoded,
                Err(cause) => {
                    verdicts.push(Verdict::Failed(cause));
                    continue;
                }
            };
            if encoded.len() > room && !mutant::is(Mutant::BatchUnlimited) {
                break;
            }
            next.take(&decided, commit);
            verdicts.push(Verdict::Fits);
            room = room.saturating_sub(encoded.len());
            records.push((record, encoded));
        }
        Batch { next, records, verdicts }
    }

    /// Appends the records that lead from `at` to `next`.
    async fn append_all(
        &self,
        at: &Snapshot,
        mut next: State,
        mut records: Vec<(Record, Vec<u8>)>,
    ) -> Outcome<Snapshot> {
        let closes = match self.can_write() {
            Ok(()) => self.closes(&at.0).await,
            Err(cause) => Err(cause),
        };
        let closes = match closes {
            Ok(closes) => closes,
            Err(cause) => return Outcome::refused(cause),
        };
        let Some((last, encoded)) = records.last_mut() else { return Outcome::Committed(at.clone()) };
        let commit = last.commit;
        if closes {
            last.closes = true;
            *encoded = last.encode();
        }
        // All but the last are counted here, the last one when the append is known.
        next.records += records.len() as u64 - 1;
        let encoded: Vec<Vec<u8>> = records.into_iter().map(|(_, encoded)| encoded).collect();
        let payload = Bytes::from(at.0.with_header(encoded.concat()));
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
