//! Reading registers, records and rosters.

use std::collections::BTreeSet;
use std::sync::Arc;

use glidepath_env::{Cause, Env, Key, Object, ObjectStore, ReadError, together_until};
use glidepath_model::{CommitId, Entry, Name};

use super::keys::{numbered, slot_number};
use super::object::{Held, Record, Roster, Slot, TxnId};
use super::{Fate, Tickets};
use crate::AT_ONCE;
use crate::catalog::LoadError;
use crate::first_of;
use crate::mutant::{self, Mutant};
use crate::wire::DecodeError;

/// How often a read that fails is made.
const TRIES: u32 = 3;

/// How often names are looked at again before a snapshot of them fails.
const LOOKS: u32 = 8;

/// After this many slots in a row, a listing may show a newer one.
const WALK: u32 = 8;

/// A register as it was at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    /// The newest slot; `None` if there is none.
    pub(super) slot: Option<Arc<Slot>>,
    /// What became of the transaction whose intent is in it.
    pub(super) fate: Fate,
}

impl Seen {
    /// The number of the newest slot.
    pub(super) fn number(&self) -> u64 {
        self.slot.as_ref().map_or(0, |slot| slot.number)
    }

    /// What the name stands for.
    pub(super) fn now(&self) -> Option<&Entry> {
        let slot = self.slot.as_ref()?;
        match &slot.intent {
            Some(intent) if self.fate == Fate::Committed => intent.after.as_ref(),
            _ => slot.settled.as_ref(),
        }
    }

    /// The commit that made it so.
    pub(super) fn commit(&self) -> CommitId {
        let Some(slot) = &self.slot else { return CommitId(0) };
        match &slot.intent {
            Some(intent) if self.fate == Fate::Committed => intent.txn.commit(),
            _ => slot.commit,
        }
    }

    /// Whether the name may have been taken off its roster.
    pub(super) fn is_retired(&self) -> bool {
        self.slot.as_ref().is_some_and(|slot| slot.retired)
    }

    /// The transaction whose intent stands and is not decided.
    pub(super) fn undecided(&self) -> Option<TxnId> {
        let intent = self.slot.as_ref()?.intent.as_ref()?;
        (self.fate == Fate::Undecided).then_some(intent.txn)
    }
}

/// What a slot's object is.
pub(super) enum Got {
    Absent,
    Emptied(u64),
    Slot(Arc<Slot>),
}

impl<E: Env> Tickets<E> {
    /// An object; `None` if there is none. Reads may be repeated.
    pub(super) async fn object(&self, key: &Key) -> Result<Option<Object>, LoadError> {
        let mut tries = 1;
        loop {
            match self.store.get(key).await {
                Ok(object) => return Ok(Some(object)),
                Err(ReadError::NotFound) => return Ok(None),
                Err(ReadError::Failed(_)) if tries < TRIES => tries += 1,
                Err(ReadError::Failed(cause)) => return Err(LoadError::Failed(cause)),
            }
        }
    }

    pub(super) async fn slot(&self, name: &Name, number: u64) -> Result<Got, LoadError> {
        let key = self.shared_state.keys.slot(name, number);
        let Some(object) = self.object(&key).await? else { return Ok(Got::Absent) };
        match Held::decode(&object.payload.bytes).map_err(|error| undecodable(&key, error))? {
            Held::Emptied(newer) => Ok(Got::Emptied(newer)),
            Held::Slot(slot) if slot.name == *name && slot.number == number => Ok(Got::Slot(Arc::new(slot))),
            Held::Slot(slot) => {
                // Not of which: whoever reads this name may not be allowed to know others.
                let words = if slot.name == *name { "another slot of this name" } else { "a slot of another name" };
                Err(damaged(&key, &format!("it is {words}")))
            }
        }
    }

    /// The newest slot of a name.
    pub(super) async fn newest(&self, name: &Name) -> Result<Option<Arc<Slot>>, LoadError> {
        let mut newest = match self.shared_state.known(name) {
            Some(known) => Some(known),
            None => match self.hinted(&self.shared_state.keys.register(name)).await? {
                0 => None,
                hint => Some(self.full(name, hint).await?),
            },
        };
        let mut walked = 0;
        loop {
            let next = newest.as_ref().map_or(0, |slot| slot.number) + 1;
            newest = match self.slot(name, next).await? {
                Got::Absent => break,
                Got::Emptied(newer) => Some(self.full(name, newer).await?),
                Got::Slot(slot) => Some(slot),
            };
            walked += 1;
            if walked % WALK == 0 {
                let hint = self.hinted(&self.shared_state.keys.register(name)).await?;
                if hint > next {
                    newest = Some(self.full(name, hint).await?);
                }
            }
        }
        if let Some(slot) = &newest {
            self.shared_state.learn(slot);
        }
        Ok(newest)
    }

    /// This slot, or a newer one if it was emptied.
    async fn full(&self, name: &Name, mut number: u64) -> Result<Arc<Slot>, LoadError> {
        loop {
            match self.slot(name, number).await? {
                Got::Slot(slot) => return Ok(slot),
                Got::Emptied(newer) if newer > number => number = newer,
                Got::Emptied(_) | Got::Absent => {
                    let key = self.shared_state.keys.slot(name, number);
                    return Err(damaged(&key, "it is missing, or was emptied although it is the newest"));
                }
            }
        }
    }

    /// The number of the newest slot that a listing shows; 0 if it shows none.
    async fn hinted(&self, prefix: &Key) -> Result<u64, LoadError> {
        let number = |key: &Key| slot_number(key).filter(|number| numbered(prefix.as_str(), *number) == *key);
        let first = first_of(&self.store, prefix, number).await;
        Ok(first.map_err(|error| LoadError::Failed(Cause::from_error(error)))?.unwrap_or(0))
    }

    /// A register, with the fate of the intent in it.
    pub(super) async fn look(&self, name: &Name) -> Result<Seen, LoadError> {
        let slot = self.newest(name).await?;
        let fate = match slot.as_ref().and_then(|slot| slot.intent.as_ref()) {
            Some(intent) => self.fate(intent.txn).await?,
            None => Fate::Undecided,
        };
        Ok(Seen { slot, fate })
    }

    /// Many registers, each at a moment of its own.
    pub(super) async fn look_at(&self, names: &[Name]) -> Result<Vec<Seen>, LoadError> {
        together_until(AT_ONCE, names, |name| self.look(name), |_| false).await.into_iter().collect()
    }

    /// Whether a register is as it was seen.
    pub(super) async fn is_same(&self, name: &Name, seen: &Seen) -> Result<bool, LoadError> {
        if !matches!(self.slot(name, seen.number() + 1).await?, Got::Absent) {
            return Ok(false);
        }
        match seen.undecided() {
            Some(txn) => Ok(self.fate(txn).await? != Fate::Committed),
            None => Ok(true),
        }
    }

    /// Whether all registers are as they were seen.
    pub(super) async fn are_same<'a>(
        &self,
        seen: impl IntoIterator<Item = (&'a Name, &'a Seen)>,
    ) -> Result<bool, LoadError> {
        let changed = |same: &Result<bool, LoadError>| !matches!(same, Ok(true));
        let same = together_until(AT_ONCE, seen, |(name, seen)| self.is_same(name, seen), changed).await;
        same.into_iter().find(changed).unwrap_or(Ok(true))
    }

    /// Registers as they were together at one moment since the call.
    pub(super) async fn look_together(&self, names: &[Name]) -> Result<Vec<Seen>, LoadError> {
        for _ in 0..LOOKS {
            let seen = self.look_at(names).await?;
            let one = names.len() <= 1 || mutant::is(Mutant::OneLook);
            if one || self.are_same(names.iter().zip(&seen)).await? {
                return Ok(seen);
            }
        }
        Err(restless())
    }

    /// What became of a transaction.
    pub(super) async fn fate(&self, txn: TxnId) -> Result<Fate, LoadError> {
        if let Some(fate) = self.shared_state.fate(txn) {
            return Ok(fate);
        }
        let key = self.shared_state.keys.txn(txn);
        let Some(object) = self.object(&key).await? else { return Ok(Fate::Undecided) };
        let record = Record::decode(&object.payload.bytes, txn).map_err(|error| undecodable(&key, error))?;
        let fate = if record.committed { Fate::Committed } else { Fate::Aborted };
        self.shared_state.decided(txn, fate);
        Ok(fate)
    }

    /// All names that may stand for something in a namespace, and the number of the newest slot of its roster.
    pub(super) async fn roster(&self, namespace: Option<&Name>) -> Result<(u64, Arc<BTreeSet<Name>>), LoadError> {
        let keys = &self.shared_state.keys;
        let mut end = self.shared_state.roster_end(namespace);
        if end == 0 {
            end = self.hinted(&keys.roster(namespace)).await?;
            // Learnt together: a part without those before it would look like the whole roster.
            self.shared_state.enrolled(namespace, self.roster_parts(namespace, end).await?);
        }
        while let Some(roster) = self.roster_slot(namespace, end + 1).await? {
            self.shared_state.enrolled(namespace, vec![roster]);
            end += 1;
        }
        Ok(self.shared_state.roster(namespace))
    }

    /// Slots that have all names of a roster up to this slot, oldest first: this one, the one before the first that it
    /// repeats, and so on, as long as they count.
    ///
    /// Usually each of them repeats more slots than the one read before it, and they are read one by one. Where names
    /// are too many for that, many in a row repeat equally many slots, so it is clear which come next. They are read
    /// together, as many more at a time as there were in that row so far: no more reads are in vain than were not.
    async fn roster_parts(&self, namespace: Option<&Name>, end: u64) -> Result<Vec<Roster>, LoadError> {
        let (mut parts, mut next, mut width, mut in_a_row, mut floor) = (Vec::new(), end, 0, 0_u64, 0);
        while next > floor {
            let ahead = in_a_row.min(AT_ONCE as u64 - 1);
            let batch: Vec<u64> = (0..=ahead).map_while(|step| next.checked_sub(step.saturating_mul(width))).collect();
            let batch = batch.into_iter().filter(|number| *number > 0);
            let read = |number: u64| async move { (number, self.roster_slot(namespace, number).await) };
            for (number, roster) in together_until(AT_ONCE, batch, read, |_| false).await {
                if number != next || next <= floor {
                    break;
                }
                let missing = || damaged(&self.shared_state.keys.roster_slot(namespace, number), "it is missing");
                let roster = roster?.ok_or_else(missing)?;
                in_a_row = if roster.width() == width { in_a_row + 1 } else { 0 };
                (width, next, floor) = (roster.width(), roster.first - 1, floor.max(roster.floor));
                parts.push(roster);
            }
        }
        parts.reverse();
        Ok(parts)
    }

    /// Whether the roster still ends there.
    pub(super) async fn roster_ends(&self, namespace: Option<&Name>, end: u64) -> Result<bool, LoadError> {
        Ok(self.roster_slot(namespace, end + 1).await?.is_none())
    }

    pub(super) async fn roster_slot(&self, namespace: Option<&Name>, number: u64) -> Result<Option<Roster>, LoadError> {
        let key = self.shared_state.keys.roster_slot(namespace, number);
        let Some(object) = self.object(&key).await? else { return Ok(None) };
        let roster = Roster::decode(&object.payload.bytes).map_err(|error| undecodable(&key, error))?;
        if roster.number != number || roster.names.iter().any(|name| name.parent().as_ref() != namespace) {
            return Err(damaged(&key, "it is of another roster"));
        }
        Ok(Some(roster))
    }
}

/// The names changed too often for a snapshot.
pub(super) fn restless() -> LoadError {
    LoadError::Failed(Cause::words("what was read changed meanwhile: load again, and read again"))
}

pub(super) fn undecodable(key: &Key, error: DecodeError) -> LoadError {
    damaged(key, &error.to_string())
}

pub(super) fn damaged(key: &Key, words: &str) -> LoadError {
    LoadError::Undecodable(Cause::words(format!("{key}: {words}")))
}
