//! Taking names off rosters that stand for nothing, so that rosters do not grow with everything that ever was.
//!
//! 1. Read the roster to its end, slot m.
//! 2. Retire each name that stands for nothing: put its next slot, which says so. Who creates the name has read that
//!    slot, or loses its own; and who has read it adds the name to the roster, in a slot after m, before it creates it.
//! 3. Add all other names once more.
//! 4. Say in the last of these slots that those up to m do not count any more.
//!
//! All that stands between any two steps is true: names that are on the roster twice, or retired and still on it. A put
//! that arrives late takes a slot that is free, so no other name was added meanwhile.

use glidepath_env::{Cause, Denial, Env, Guard, Key, ObjectStore, Payload, Purpose, PutError, together_until};
use glidepath_model::Name;

use super::Tickets;
use super::commit::next;
use super::object::{Roster, Slot, name_bytes};
use super::put::{Sent, Stood};
use super::read::Seen;
use crate::AT_ONCE;
use crate::catalog::LoadError;
use crate::mutant::{self, Mutant};
use crate::settling;

/// The fewest names that are taken off a roster at a time; and at least half of it, so that each name is added again
/// for another one that is taken off.
pub(super) const LEAST_TRIMMED: usize = 256;

/// The names of a long roster that are looked at first. If less than a third of them stand for nothing, those that do
/// are hardly half of all.
const SAMPLE: usize = 256;

impl<E: Env> Tickets<E> {
    /// Takes the names that stand for nothing off the roster of a namespace, if they are most of it. Returns how many.
    pub(super) async fn trimmed(&self, namespace: Option<&Name>) -> Result<u64, LoadError> {
        // Step 1.
        let (mut end, names) = self.roster(namespace).await?;
        if names.len() < self.shared_state.least_trimmed {
            return Ok(0);
        }
        if names.len() > 2 * SAMPLE {
            let sample = self.are_dead(names.iter().step_by(names.len() / SAMPLE)).await?;
            if 3 * sample.iter().filter(|dead| **dead).count() < sample.len() {
                return Ok(0);
            }
        }
        let dead = self.are_dead(names.iter()).await?;
        let (dead, mut rest): (Vec<_>, Vec<_>) = names.iter().zip(dead).partition(|(_, dead)| *dead);
        if dead.len() < rest.len().max(self.shared_state.least_trimmed) {
            return Ok(0);
        }
        // Step 2.
        let retired = together_until(AT_ONCE, &dead, |(name, _)| self.retire(name), Result::is_err).await;
        let retired = retired.into_iter().collect::<Result<Vec<bool>, LoadError>>()?;
        rest.extend(dead.into_iter().zip(retired).filter(|(_, retired)| !*retired).map(|(name, _)| name));
        let count = names.len() - rest.len();
        if count == 0 {
            return Ok(0);
        }
        if mutant::is(Mutant::TrimmedTooFar) {
            (end, _) = self.roster(namespace).await?;
        }
        // Steps 3 and 4.
        let mut rest = chunks(rest.into_iter().map(|(name, _)| name.clone()), self.shared_state.roster_bytes);
        let last = rest.pop().unwrap_or_default();
        for names in rest {
            self.enroll_anew(namespace, names, 0).await.map_err(failed)?;
        }
        self.enroll_anew(namespace, last, end).await.map_err(failed)?;
        Ok(count as u64)
    }

    async fn are_dead<'a>(&self, names: impl Iterator<Item = &'a Name>) -> Result<Vec<bool>, LoadError> {
        let dead = together_until(AT_ONCE, names, |name| self.is_dead(name), Result::is_err).await;
        dead.into_iter().collect()
    }

    /// Whether a name stands for nothing, and nobody is about to change that. One that cannot be read may stand for
    /// something.
    async fn is_dead(&self, name: &Name) -> Result<bool, LoadError> {
        match self.look(name).await {
            Ok(seen) => Ok(is_nothing(&seen)),
            Err(LoadError::Undecodable(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Puts a slot that retires a name, if that still stands for nothing. Returns whether a slot that was put since the
    /// call retires it: this one, or another's.
    pub(super) async fn retire(&self, name: &Name) -> Result<bool, LoadError> {
        if mutant::is(Mutant::TrimmedUnretired) {
            return Ok(true);
        }
        let seen = self.look(name).await?;
        if !is_nothing(&seen) {
            return Ok(false);
        }
        let slot = Slot { retired: true, ..next(name, &seen, self.env.draw(Purpose::Names)) };
        match self.put_once(Sent::Slot(&slot)).await {
            Stood::Yes => Ok(true),
            Stood::Lost => {
                let seen = self.look(name).await?;
                Ok(is_nothing(&seen) && seen.is_retired())
            }
            // If it is put after all, who creates the name adds it to the roster once more.
            Stood::Unknown(_) => Ok(false),
            Stood::Refused(denial) => Err(failed(denial)),
        }
    }

    /// Puts these names onto a roster, also those that are there, in a slot that repeats no other one. Slots up to
    /// `floor` do not count afterwards.
    ///
    /// # Errors
    /// Some names may not be on it.
    pub(super) async fn enroll_anew(
        &self,
        namespace: Option<&Name>,
        mut names: Vec<Name>,
        floor: u64,
    ) -> Result<(), Denial> {
        names.sort_unstable();
        let mut unsettled = None;
        for round in 0..settling::ROUNDS * 8 {
            let (end, _) = self.roster(namespace).await?;
            let number = end + 1;
            // As in `next_on_roster`.
            let floor = floor.max(self.shared_state.roster_floor(namespace)).min(end);
            let slot = Roster { number, first: number, floor, names: names.clone() };
            let key: Key = self.shared_state.keys.roster_slot(namespace, number);
            let error = match self.store.put(&key, Payload::from(slot.encode()), Guard::Absent).await {
                Ok(_) => return Ok(()),
                Err(PutError::Refused(denial)) if denial.certain && !denial.passing => return Err(denial),
                Err(error) => error,
            };
            // Whoever put the same, before or now: it was put after the call.
            if self.roster_slot(namespace, number).await?.is_some_and(|found| found == slot) {
                return Ok(());
            }
            if !matches!(error, PutError::Lost) {
                unsettled = Some(Cause::from_error(error));
                settling::wait(&self.env, round.min(4)).await;
            }
        }
        let first = || Cause::words("other creations in this namespace came first every time");
        Err(Denial::certain(unsettled.unwrap_or_else(first)).passing())
    }
}

fn is_nothing(seen: &Seen) -> bool {
    seen.now().is_none() && seen.undecided().is_none()
}

fn failed(denial: Denial) -> LoadError {
    LoadError::Failed(denial.cause)
}

/// Names in parts of at most so many bytes each, or of one name.
fn chunks(names: impl Iterator<Item = Name>, most: usize) -> Vec<Vec<Name>> {
    let (mut all, mut bytes) = (Vec::<Vec<Name>>::new(), 0);
    for name in names {
        bytes += name_bytes(&name);
        match all.last_mut() {
            Some(last) if bytes <= most => last.push(name),
            _ => {
                bytes = name_bytes(&name);
                all.push(vec![name]);
            }
        }
    }
    all
}
