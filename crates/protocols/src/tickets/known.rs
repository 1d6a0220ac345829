//! What the handles of a process to one catalog share: what they have read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use glidepath_model::Name;

use super::Fate;
use super::keys::{Hash, Keys};
use super::object::{ROSTER_BYTES, Roster, Slot, TxnId, lowest_bit, name_bytes};
use super::trim::LEAST_TRIMMED;
use crate::entry;

/// Registers and records that are remembered. With more, all are forgotten, and read again.
const MOST: usize = 100_000;

/// The bytes of the registers that are remembered, as they are encoded. With more, all are forgotten.
const MOST_BYTES: usize = 128 << 20;

/// With more processes that drop entries of one namespace, equally many each, names are taken off its roster later.
const MOST_SERVERS: usize = 8;

/// What all handles of a process to one catalog share. All of it is hints: a reader begins with the newest slot known,
/// and goes on from there.
pub struct SharedState {
    pub(super) keys: Keys,
    /// The most bytes of names in a slot of a roster that repeats others.
    pub(super) roster_bytes: usize,
    /// The fewest names that are taken off a roster at a time.
    pub(super) least_trimmed: usize,
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
    /// Rosters from the first slot that counts to the newest one known.
    rosters: BTreeMap<Option<Name>, Enrolled>,
}

/// A roster up to its newest known slot.
#[derive(Default)]
struct Enrolled {
    /// The number of that slot; 0 if none is known.
    end: u64,
    /// Slots up to this one do not count any more.
    floor: u64,
    /// How many entries this process has dropped since it looked how many of the names stand for nothing; `None` if it
    /// has not.
    dropped: Option<usize>,
    /// All names.
    names: Arc<BTreeSet<Name>>,
    /// The names that each slot added: those that it has, and none of the slots that it repeats.
    new: BTreeMap<u64, Vec<Name>>,
}

impl SharedState {
    /// Of the catalog below this prefix (empty, or ending in `/`).
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        Self {
            keys: Keys::below(prefix),
            roster_bytes: ROSTER_BYTES,
            least_trimmed: LEAST_TRIMMED,
            there: AtomicBool::new(false),
            known: Mutex::default(),
        }
    }

    /// With another limit of the bytes of names in a slot of a roster that repeats others.
    pub(super) fn with_roster_bytes(self, roster_bytes: usize) -> Self {
        Self { roster_bytes, ..self }
    }

    /// With another number of names that are taken off a roster at least.
    pub(super) fn with_least_trimmed(self, least_trimmed: usize) -> Self {
        Self { least_trimmed, ..self }
    }

    fn known_now(&self) -> MutexGuard<'_, Known> {
        // Each insertion is complete in itself.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn is_there(&self) -> bool {
        self.there.load(Ordering::Acquire)
    }

    /// The catalog exists, and will; and that is how its long names are hashed.
    pub(super) fn exists(&self, hash: Hash) {
        self.keys.hashed_with(hash);
        // Who sees it also sees the hash.
        self.there.store(true, Ordering::Release);
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

    /// This process has dropped an entry of a namespace.
    pub(super) fn dropped(&self, namespace: Option<&Name>) {
        if let Some(roster) = self.known_now().rosters.get_mut(&namespace.cloned()) {
            roster.dropped = roster.dropped.map(|dropped| dropped + 1);
        }
    }

    /// Whether many names of a roster may stand for nothing that did when this was last asked. Others drop entries too,
    /// so a part of that many is enough.
    pub(super) fn may_be_trimmed(&self, namespace: Option<&Name>) -> bool {
        let mut known = self.known_now();
        let roster = known.rosters.entry(namespace.cloned()).or_default();
        let looks = roster.dropped.is_none_or(|dropped| dropped * MOST_SERVERS * 2 >= roster.names.len().max(1));
        if looks {
            roster.dropped = Some(0);
        }
        looks
    }

    /// Slots of a roster up to this one are known not to count any more.
    pub(super) fn roster_floor(&self, namespace: Option<&Name>) -> u64 {
        self.known_now().rosters.get(&namespace.cloned()).map_or(0, |roster| roster.floor)
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

    /// Slot `number` of a roster, which adds these names. All slots before it must be known.
    ///
    /// With itself it has the names of as many slots as the lowest bit of its number says, of those that count. If
    /// these are too many names, it has those of half as many slots, and so on. So the names of twice the slots that a
    /// shortened one has would not have fitted: a cold reader makes about two reads for each [`ROSTER_BYTES`] of names,
    /// if slots add about equally many.
    pub(super) fn next_on_roster(&self, namespace: Option<&Name>, number: u64, own: Vec<Name>) -> Roster {
        let known = self.known_now();
        let none = Enrolled::default();
        let Enrolled { floor, new, .. } = known.rosters.get(&namespace.cloned()).unwrap_or(&none);
        // Another thread may know more slots by now, this one among them: then this one loses.
        let floor = (*floor).min(number - 1);
        let first_of = |width: u64| (number - width + 1).max(floor + 1);
        let mut width = lowest_bit(number);
        let mut bytes: usize = own.iter().map(name_bytes).sum();
        for (before, names) in new.range(first_of(width)..number).rev() {
            bytes += names.iter().map(name_bytes).sum::<usize>();
            if bytes > self.roster_bytes {
                while first_of(width) <= *before {
                    width /= 2;
                }
                break;
            }
        }
        let first = first_of(width);
        let mut names = own;
        names.extend(new.range(first..number).flat_map(|(_, names)| names).cloned());
        names.sort_unstable();
        names.dedup();
        Roster { number, first, floor, names }
    }
}

impl Enrolled {
    fn add(&mut self, slot: Roster) {
        if slot.floor > self.floor {
            self.floor = slot.floor;
            self.new = self.new.split_off(&(slot.floor + 1));
            self.names = Arc::new(self.new.values().flatten().cloned().collect());
        }
        self.end = slot.number;
        let new = slot.own(&self.new);
        // Copied if somebody reads them.
        Arc::make_mut(&mut self.names).extend(new.iter().cloned());
        self.new.insert(self.end, new);
    }
}

/// Roughly the bytes of a slot.
fn weight(slot: &Slot) -> usize {
    let entries = [slot.settled.as_ref(), slot.intent.as_ref().and_then(|intent| intent.after.as_ref())];
    let entries: usize = entries.into_iter().flatten().map(entry::length).sum();
    entries + slot.name.as_str().len() + 8 * slot.lineage.len()
}
