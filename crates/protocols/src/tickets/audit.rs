//! The versions that a catalog has had, from everything written: each commit point makes one, in the order of their
//! effect. For checkers; a running catalog has no such numbers.

use std::collections::{BTreeMap, BTreeSet};

use glidepath_model::{CommitId, Entry, Name, Version};

use super::keys::Place;
use super::known::SharedState;
use super::object::{Held, Record, Roster, Slot, TxnId, decode_format};
use crate::afterwards::{Made, Write};

#[derive(Default)]
struct Audit {
    /// The newest slot of each register.
    registers: BTreeMap<Name, Slot>,
    /// The id of the put of each slot.
    slots: BTreeMap<(String, u64), u64>,
    fates: BTreeMap<TxnId, bool>,
    /// The names that each slot of each roster added.
    rosters: BTreeMap<String, BTreeMap<u64, BTreeSet<Name>>>,
    /// Up to which slot each roster does not count.
    floors: BTreeMap<String, u64>,
    versions: Vec<Made>,
}

pub(super) fn versions(shared_state: &SharedState, writes: &[Write]) -> Result<Vec<Made>, String> {
    let mut audit = Audit::default();
    for (write, Write { key, object }) in writes.iter().enumerate() {
        let Some(place) = shared_state.keys.place(key) else { continue };
        let object = object.as_ref().ok_or_else(|| format!("{key} was deleted"))?;
        let noted = match place {
            Place::Format => decode_format(&object.bytes).map_err(|error| format!("cannot be read: {error}")).and_then(
                |(_, hash)| {
                    shared_state.exists(hash);
                    audit.begin(write)
                },
            ),
            Place::Slot(register, number) => {
                let found = audit.slot((register, number), &object.bytes, write);
                found.and_then(|created| created.map_or(Ok(()), |name| audit.is_on_roster(shared_state, &name)))
            }
            Place::Txn(txn) => audit.record(txn, &object.bytes, write),
            Place::Roster(roster, number) => audit.roster(roster, number, &object.bytes),
        };
        noted.map_err(|words| format!("{key} {words}"))?;
    }
    Ok(audit.versions)
}

impl Audit {
    fn begin(&mut self, write: usize) -> Result<(), String> {
        self.made(CommitId(0), write, BTreeMap::new());
        Ok(())
    }

    fn made(&mut self, commit: CommitId, write: usize, changed: BTreeMap<Name, Option<Entry>>) {
        let version = Version(self.versions.len() as u64);
        self.versions.push(Made { version, write, commit: Some(commit), changed });
    }

    /// Returns the name, if the slot begins to create it.
    fn slot(&mut self, key: (String, u64), bytes: &[u8], write: usize) -> Result<Option<Name>, String> {
        let held = Held::decode(bytes).map_err(|error| format!("cannot be read: {error}"))?;
        let slot = match (held, self.slots.get(&key)) {
            (Held::Slot(slot), None) => slot,
            // A store in files writes an object once more if it may not be durable.
            (Held::Slot(slot), Some(id)) if slot.id() == *id => return Ok(None),
            (Held::Slot(slot), Some(id)) => {
                return Err(format!("was written twice, by put {id:016x} and by put {:016x}", slot.id()));
            }
            (Held::Emptied(_), None) => return Err("was emptied before it was written".to_owned()),
            (Held::Emptied(_), Some(_)) if self.slots.contains_key(&(key.0.clone(), key.1 + 1)) => {
                return Ok(None);
            }
            (Held::Emptied(_), Some(_)) => return Err("was emptied although it is the newest".to_owned()),
        };
        if slot.number != key.1 {
            return Err(format!("has slot {}", slot.number));
        }
        self.slots.insert(key, slot.id());
        let before = self.registers.get(&slot.name);
        if slot.number != before.map_or(0, |before| before.number) + 1 {
            return Err(format!("follows slot {:?}", before.map(|before| before.number)));
        }
        let (settled, commit) = match before {
            None => (None, CommitId(0)),
            Some(before) => self.resolved(before)?,
        };
        let after = slot.intent.as_ref().map_or(slot.settled.as_ref(), |intent| intent.after.as_ref());
        let creates = settled.is_none() && after.is_some();
        if before.is_some_and(|before| before.retired) && !slot.retired && !creates {
            return Err("is not retired any more, and does not create the name".to_owned());
        }
        let only_retires = slot.intent.is_none() && slot.retired;
        if slot.intent.is_none() && !only_retires {
            let changed = (slot.settled != settled).then(|| (slot.name.clone(), slot.settled.clone()));
            self.made(slot.commit, write, changed.into_iter().collect());
        } else if (&slot.settled, slot.commit) != (&settled, commit) {
            return Err("settles something else than what was there".to_owned());
        }
        let created = creates.then(|| slot.name.clone());
        self.registers.insert(slot.name.clone(), slot);
        Ok(created)
    }

    /// Whoever creates a name has put it onto the roster before.
    fn is_on_roster(&self, shared_state: &SharedState, name: &Name) -> Result<(), String> {
        let roster = shared_state.keys.roster(name.parent().as_ref());
        let slots = self.rosters.get(roster.as_str());
        let is_there = slots.is_some_and(|slots| slots.values().any(|names| names.contains(name)));
        // Of what was there before the run, all names come before all rosters.
        match is_there || self.rosters.is_empty() {
            true => Ok(()),
            false => Err(format!("creates {name}, which is not on the roster")),
        }
    }

    /// The entry in a slot, and its commit. It must be decided.
    fn resolved(&self, slot: &Slot) -> Result<(Option<Entry>, CommitId), String> {
        let Some(intent) = &slot.intent else { return Ok((slot.settled.clone(), slot.commit)) };
        match self.fates.get(&intent.txn) {
            None => Err("is on top of an intent that was not decided".to_owned()),
            Some(false) => Ok((slot.settled.clone(), slot.commit)),
            Some(true) => Ok((intent.after.clone(), intent.txn.commit())),
        }
    }

    /// A reader passes over the slots that a newer one repeats, so the newer one must have all that they added; and
    /// over those that do not count, so what they added and is not there again must be retired.
    fn roster(&mut self, roster: String, number: u64, bytes: &[u8]) -> Result<(), String> {
        let slot = Roster::decode(bytes).map_err(|error| format!("cannot be read: {error}"))?;
        if slot.number != number {
            return Err(format!("has slot {}", slot.number));
        }
        let slots = self.rosters.entry(roster.clone()).or_default();
        let floor = self.floors.entry(roster).or_default();
        // A store in files writes an object once more if it may not be durable.
        if number <= *floor || slots.contains_key(&number) {
            return Ok(());
        }
        let mut repeated = slots.range(slot.first..number).flat_map(|(_, names)| names);
        if let Some(lost) = repeated.find(|name| !slot.names.contains(name)) {
            return Err(format!("repeats slots from {} on, and lacks {lost}", slot.first));
        }
        if slot.floor < *floor {
            return Err(format!("says that slots after {} count, and those up to {floor} did not", slot.floor));
        }
        *floor = slot.floor;
        let own = slot.own(slots).into_iter().collect();
        slots.insert(number, own);
        let counted = slots.split_off(&(*floor + 1));
        let gone = std::mem::replace(slots, counted);
        let is_retired = |name: &Name| self.registers.get(name).is_some_and(|slot| slot.retired);
        let mut lost = gone.values().flatten().filter(|name| !slots.values().any(|names| names.contains(*name)));
        match lost.find(|name| !is_retired(name)) {
            Some(name) => Err(format!("takes {name} off, which is not retired")),
            None => Ok(()),
        }
    }

    fn record(&mut self, txn: TxnId, bytes: &[u8], write: usize) -> Result<(), String> {
        let record = Record::decode(bytes, txn).map_err(|error| format!("cannot be read: {error}"))?;
        let before = self.fates.insert(txn, record.committed);
        if before.is_some_and(|before| before != record.committed) {
            return Err("was decided twice".to_owned());
        }
        if !record.committed || before.is_some() {
            return Ok(());
        }
        let mut changed = BTreeMap::new();
        for name in record.names {
            let slot = self.registers.get(&name);
            let intent = slot.and_then(|slot| slot.intent.as_ref().filter(|intent| intent.txn == txn));
            let (Some(slot), Some(intent)) = (slot, intent) else {
                return Err(format!("commits without an intent in {name}"));
            };
            if slot.settled != intent.after {
                changed.insert(name, intent.after.clone());
            }
        }
        self.made(txn.commit(), write, changed);
        Ok(())
    }
}
