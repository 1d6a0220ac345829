//! Maintenance: listing the slots, emptying old ones, and taking names off rosters.

use std::collections::BTreeMap;

use glidepath_env::{Cause, Env, Guard, Key, Listed, Object, ObjectStore, Payload, PutError};
use glidepath_model::Version;

use super::keys::{Place, numbered};
use super::object::{Held, Roster};
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

    /// Takes names that stand for nothing off the rosters, and empties all slots that have a successor. They stay, so
    /// that no late put can take their place.
    pub(super) async fn cleaned(&self) -> Result<Removed, VacuumError> {
        self.load().await?;
        // A roster to which names are added all the time is trimmed another time, and holds up nothing else.
        let (retired, emptied) = (self.trim_all().await, self.empty_old_slots().await?);
        let retired = retired?;
        let emptied = vec![Count::of("slots", ["old slot", "old slots"], emptied)];
        let retired =
            vec![Count::of("names", ["name that stands for nothing", "names that stand for nothing"], retired)];
        let none = Version(0);
        Ok(Removed { before: none, oldest: none, newest: none, deleted: Vec::new(), emptied, retired, kept: 0 })
    }

    /// Trims all rosters. Returns how many names were taken off.
    async fn trim_all(&self) -> Result<u64, LoadError> {
        let mut retired = 0;
        for (roster, slots) in self.slots_below(&self.shared_state.keys.rosters()).await? {
            let Some((newest, _)) = slots.first() else { continue };
            // Each name takes two bytes at least.
            let bytes: u64 = slots.iter().map(|(_, size)| size).sum();
            if bytes < 2 * self.shared_state.least_trimmed as u64 {
                continue;
            }
            // What cannot be read is left alone: a check finds it.
            let Some(object) = self.object(&numbered(&roster, *newest)).await? else { continue };
            let Ok(Roster { names, .. }) = Roster::decode(&object.payload.bytes) else { continue };
            // If it has none, all have just been taken off.
            let Some(name) = names.first() else { continue };
            match self.trimmed(name.parent().as_ref()).await {
                Ok(names) => retired += names,
                Err(LoadError::Undecodable(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(retired)
    }

    async fn empty_old_slots(&self) -> Result<u64, VacuumError> {
        let mut emptied = 0;
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
        Ok(emptied)
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
