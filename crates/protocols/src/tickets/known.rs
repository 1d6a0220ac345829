//! What the handles of a process to one catalog share: what they have read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use glidepath_model::Name;

use super::Fate;
use super::keys::Keys;
use super::object::{ROSTER_BYTES, Roster, Slot, TxnId, lowest_bit, name_bytes};
use crate::entry;

/// Registers and records that are remembered. With more, all are forgotten, and read again.
const MOST: usize = 100_000;

/// The bytes of the registers that are remembered, as they are encoded. With more, all are forgotten.
const MOST_BYTES: usize = 128 << 20;

/// What all handles of a process to one catalog share. All of it is hints: a reader begins with the newest slot known,
/// and goes on from there.
pub struct SharedState {
    pub(super) keys: Keys,
    /// The most bytes of names in a slot of a roster that repeats others.
    pub(super) roster_bytes: usize,
    there: AtomicBool,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The newest known slot of each name.
    slots: BTreeMap<Name, Arc<Slot>>,
    /// What these slots take.
    slot_bytes: usize,
    /// Transactions that have ended.
    fates: BTreeMap<TxnId, Fate>,
    /// Rosters from their beginning to the newest slot known.
    rosters: BTreeMap<Option<Name>, Enrolled>,
}

/// A roster up to its newest known slot.
#[derive(Default)]
struct Enrolled {
    /// The number of that slot; 0 if none is known.
    end: u64,
    /// All names.
    names: Arc<BTreeSet<Name>>,
    /// The names that no slot before had.
    new: BTreeMap<u64, Vec<Name>>,
}

impl SharedState {
    /// Of the catalog below this prefix (empty, or ending in `/`).
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        Self {
            keys: Keys::below(prefix),
            roster_bytes: ROSTER_BYTES,
            there: AtomicBool::new(false),
            known: Mutex::default(),
        }
    }

    /// With another limit of the bytes of names in a slot of a roster that repeats others.
    pub(super) fn with_roster_bytes(self, roster_bytes: usize) -> Self {
        Self { roster_bytes, ..self }
    }

    fn known_now(&self) -> MutexGuard<'_, Known> {
        // Each insertion is complete in itself.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_there(&self) -> bool {
        self.there.load(Ordering::Relaxed)
    }

    /// The catalog exists, and will.
    pub(super) fn exists(&self) {
        self.there.store(true, Ordering::Relaxed);
    }

    pub(super) fn known(&self, name: &Name) -> Option<Arc<Slot>> {
        self.known_now().slots.get(name).cloned()
    }

    pub(super) fn learn(&self, slot: &Arc<Slot>) {
        let mut known = self.known_now();
        let forgotten = match known.slots.get(&slot.name) {
            Some(newest) if newest.number >= slot.number => return,
            Some(older) => weight(older),
            None => 0,
        };
        known.slot_bytes = known.slot_bytes - forgotten + weight(slot);
        known.slots.insert(slot.name.clone(), Arc::clone(slot));
        if known.slots.len() > MOST || known.slot_bytes > MOST_BYTES {
            known.slots.clear();
            known.slot_bytes = 0;
        }
    }

    pub(super) fn fate(&self, txn: TxnId) -> Option<Fate> {
        self.known_now().fates.get(&txn).copied()
    }

    pub(super) fn decided(&self, txn: TxnId, fate: Fate) {
        let mut known = self.known_now();
        if known.fates.len() >= MOST {
            known.fates.clear();
        }
        known.fates.insert(txn, fate);
    }

    /// The number of the newest known slot of a roster; 0 if none is known.
    pub(super) fn roster_end(&self, namespace: Option<&Name>) -> u64 {
        self.known_now().rosters.get(&namespace.cloned()).map_or(0, |roster| roster.end)
    }

    /// Adds slots, oldest first. If none was known before, they must be all that make up the roster.
    pub(super) fn enrolled(&self, namespace: Option<&Name>, slots: Vec<Roster>) {
        let mut known = self.known_now();
        let roster = known.rosters.entry(namespace.cloned()).or_default();
        for slot in slots {
            if slot.number > roster.end {
                roster.add(slot);
            }
        }
    }

    /// All names on a roster, and where it ends.
    pub(super) fn roster(&self, namespace: Option<&Name>) -> (u64, Arc<BTreeSet<Name>>) {
        let known = self.known_now();
        let roster = known.rosters.get(&namespace.cloned());
        roster.map(|roster| (roster.end, Arc::clone(&roster.names))).unwrap_or_default()
    }

    /// The first slot that slot `number` of a roster is to repeat, and the names that the slots from there to itself
    /// added, in no order; `own` are those that it adds itself. All slots before it must be known.
    ///
    /// With itself it has the names of as many slots as the lowest bit of its number says. If these are too many names,
    /// it has those of half as many slots, and so on. So the names of twice the slots that a shortened one has would
    /// not have fitted: a cold reader makes about two reads for each [`ROSTER_BYTES`] of names, if slots add about
    /// equally many.
    pub(super) fn repeated(&self, namespace: Option<&Name>, number: u64, own: Vec<Name>) -> (u64, Vec<Name>) {
        let known = self.known_now();
        let none = BTreeMap::new();
        let new = known.rosters.get(&namespace.cloned()).map_or(&none, |roster| &roster.new);
        let mut width = lowest_bit(number);
        let mut bytes: usize = own.iter().map(name_bytes).sum();
        for (before, names) in new.range(number - width + 1..number).rev() {
            bytes += names.iter().map(name_bytes).sum::<usize>();
            if bytes > self.roster_bytes {
                while number - width < *before {
                    width /= 2;
                }
                break;
            }
        }
        let first = number - width + 1;
        let mut all = own;
        all.extend(new.range(first..number).flat_map(|(_, names)| names).cloned());
        (first, all)
    }
}

impl Enrolled {
    fn add(&mut self, slot: Roster) {
        let new: Vec<Name> = slot.names.into_iter().filter(|name| !self.names.contains(name)).collect();
        // Copied if somebody reads them.
        Arc::make_mut(&mut self.names).extend(new.iter().cloned());
        self.new.insert(slot.number, new);
        self.end = slot.number;
    }
}

/// Roughly the bytes of a slot.
fn weight(slot: &Slot) -> usize {
    let entries = [slot.settled.as_ref(), slot.intent.as_ref().and_then(|intent| intent.after.as_ref())];
    let entries: usize = entries.into_iter().flatten().map(entry::length).sum();
    entries + slot.name.as_str().len() + 8 * slot.lineage.len()
}
