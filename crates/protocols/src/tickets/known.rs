//! What the handles of a process to one catalog share: what they have read.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use glidepath_model::Name;

use super::Fate;
use super::keys::Keys;
use super::object::{Roster, Slot, TxnId};

/// Registers and records that are remembered. With more, all are forgotten, and read again.
const MOST: usize = 100_000;

/// What all handles of a process to one catalog share. All of it is hints: a reader begins with the newest slot known,
/// and goes on from there.
pub struct SharedState {
    pub(super) keys: Keys,
    there: AtomicBool,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    /// The newest known slot of each name.
    slots: BTreeMap<Name, Arc<Slot>>,
    /// Transactions that have ended.
    fates: BTreeMap<TxnId, Fate>,
    /// Slots of rosters: each with the names that it repeats.
    rosters: BTreeMap<Option<Name>, BTreeMap<u64, Vec<Name>>>,
}

impl SharedState {
    /// Of the catalog below this prefix (empty, or ending in `/`).
    #[must_use]
    pub fn new(prefix: &str) -> Self {
        Self { keys: Keys::below(prefix), there: AtomicBool::new(false), known: Mutex::default() }
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
        if known.slots.len() >= MOST {
            known.slots.clear();
        }
        let newest = known.slots.entry(slot.name.clone()).or_insert_with(|| Arc::clone(slot));
        if newest.number < slot.number {
            *newest = Arc::clone(slot);
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

    /// The newest known slot of a roster; 0 if none is known.
    pub(super) fn roster_end(&self, namespace: Option<&Name>) -> u64 {
        let known = self.known_now();
        let parts = known.rosters.get(&namespace.cloned());
        parts.and_then(|parts| parts.last_key_value()).map_or(0, |(end, _)| *end)
    }

    /// Adds slots. If none was known before, they must be all that make up the roster.
    pub(super) fn enrolled(&self, namespace: Option<&Name>, rosters: Vec<Roster>) {
        let mut known = self.known_now();
        let parts = known.rosters.entry(namespace.cloned()).or_default();
        parts.extend(rosters.into_iter().map(|roster| (roster.number, roster.names)));
    }

    /// The names on a roster up to this slot, each once, in order.
    pub(super) fn roster_names(&self, namespace: Option<&Name>, end: u64) -> Vec<Name> {
        self.roster_range(namespace, 1, end)
    }

    /// The names that were added by these slots, and perhaps some from before.
    pub(super) fn roster_range(&self, namespace: Option<&Name>, first: u64, end: u64) -> Vec<Name> {
        let known = self.known_now();
        let parts = known.rosters.get(&namespace.cloned()).into_iter();
        let parts = parts.flat_map(|parts| parts.range(first..=end.max(first)));
        let mut names: Vec<Name> = parts.flat_map(|(_, names)| names).cloned().collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}
