//! Maintenance: listing the slots, and emptying old ones.

use std::collections::BTreeMap;

use glidepath_env::{Cause, Env, Guard, Key, Listed, Object, ObjectStore, Payload, PutError};
use glidepath_model::Version;

use super::keys::{Place, numbered};
use super::object::Held;
use super::{EMPTIED_BYTES, Tickets};
use crate::catalog::{Catalog, LoadError};
use crate::mutant::{self, Mutant};
use crate::upkeep::{Count, Removed, VacuumError};

/// Keys listed at a time.
pub(super) const PAGE: usize = 1000;

/// Slots of one register as listed: the number and the size of each.
pub(super) type Slots = Vec<(u64, u64)>;

impl<E: Env> Tickets<E> {
    /// Slots by the prefix of their register, newest first.
    pub(super) async fn registers(&self) -> Result<BTreeMap<String, Slots>, LoadError> {
        self.slots_below(&self.shared_state.keys.names()).await
    }

    /// Slots by their prefix, newest first.
    pub(super) async fn slots_below(&self, prefix: &Key) -> Result<BTreeMap<String, Slots>, LoadError> {
        let (mut all, mut after) = (BTreeMap::<String, Slots>::new(), None::<Key>);
        loop {
            let page = self.store.list(prefix, after.as_ref(), PAGE).await;
            let page = page.map_err(|error| LoadError::Failed(Cause::from_error(error)))?;
            for Listed { key, size } in &page.objects {
                if let Some(Place::Slot(of, number) | Place::Roster(of, number)) = self.shared_state.keys.place(key) {
                    all.entry(of).or_default().push((number, size.as_bytes()));
                }
            }
            after = page.objects.last().map(|listed| listed.key.clone());
            if !page.more || after.is_none() {
                return Ok(all);
            }
        }
    }

    /// Empties all slots that have a successor. They stay, so that no late put can take their place.
    pub(super) async fn empty_old_slots(&self) -> Result<Removed, VacuumError> {
        self.load().await?;
        let (mut emptied, none) = (0, Version(0));
        for (register, slots) in self.registers().await? {
            let Some((newest, _)) = slots.first().copied() else { continue };
            if slots.iter().skip(1).all(|(_, size)| *size <= EMPTIED_BYTES as u64) {
                continue;
            }
            // On a disk a listing may show a name that a power cut undoes; what was read is durable. Behind a slot that
            // is damaged the older ones may be all that is left.
            let key = numbered(&register, newest);
            let object = self.object(&key).await?;
            if !object.is_some_and(|object| self.is_slot_of(&key, newest, &object)) {
                continue;
            }
            let least = if mutant::is(Mutant::NewestEmptied) { newest } else { newest - 1 };
            for (number, size) in slots.iter().filter(|(number, _)| *number <= least) {
                if *size <= EMPTIED_BYTES as u64 {
                    continue;
                }
                let key = numbered(&register, *number);
                if mutant::is(Mutant::SlotsDeleted) {
                    let _ = self.store.delete(&key).await;
                    continue;
                }
                match self.store.put(&key, Payload::from(Held::emptied(newest)), Guard::None).await {
                    Ok(_) => emptied += 1,
                    Err(error) => return Err(VacuumError::Stopped(stopped(error))),
                }
            }
        }
        let emptied = vec![Count::of("slots", ["old slot", "old slots"], emptied)];
        Ok(Removed { before: none, oldest: none, newest: none, deleted: Vec::new(), emptied, kept: 0 })
    }

    /// Whether an object is the slot that its key says: not a copy of another one, say from a mixed-up backup.
    fn is_slot_of(&self, key: &Key, number: u64, object: &Object) -> bool {
        match Held::decode(&object.payload.bytes) {
            Ok(Held::Slot(slot)) => slot.number == number && self.shared_state.keys.slot(&slot.name, number) == *key,
            _ => false,
        }
    }
}

fn stopped(error: PutError) -> Cause {
    Cause::from_error(error)
}
