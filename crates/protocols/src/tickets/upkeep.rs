//! Maintenance: emptying old slots, and checking every object.

use std::collections::{BTreeMap, BTreeSet};

use glidepath_env::{Cause, Env, Guard, Key, Listed, Object, ObjectStore, Payload, PutError};
use glidepath_model::{Kind, Name, Version};

use super::keys::{Place, numbered};
use super::object::{Held, Roster, Slot};
use super::read::Seen;
use super::{EMPTIED_BYTES, Tickets};
use crate::catalog::{Catalog, LoadError};
use crate::mutant::{self, Mutant};
use crate::upkeep::{Count, Finding, Removed, Report, Severity, VacuumError};

/// Keys listed at a time.
pub(super) const PAGE: usize = 1000;

const RESTORE: &str = "restore the object from a backup or an older version that the store kept";

const REPLACED: &str = "nothing: a newer slot has all of it, and a vacuum empties this one";

/// Slots of one register as listed: the number and the size of each.
type Slots = Vec<(u64, u64)>;

impl<E: Env> Tickets<E> {
    /// Slots by the prefix of their register, newest first.
    async fn registers(&self) -> Result<BTreeMap<String, Slots>, LoadError> {
        self.slots_below(&self.shared_state.keys.names()).await
    }

    /// Slots by their prefix, newest first.
    async fn slots_below(&self, prefix: &Key) -> Result<BTreeMap<String, Slots>, LoadError> {
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
            // On a disk a listing may show a name that a power cut undoes; what was read is durable. Behind a slot that is
            // damaged the older ones may be all that is left.
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
        let removed = vec![Count::of("slots", "old slots", emptied)];
        Ok(Removed { before: none, oldest: none, newest: none, removed, kept: 0 })
    }

    /// Whether an object is the slot that its key says: not a copy of another one, say from a mixed-up backup.
    fn is_slot_of(&self, key: &Key, number: u64, object: &Object) -> bool {
        match Held::decode(&object.payload.bytes) {
            Ok(Held::Slot(slot)) => slot.number == number && self.shared_state.keys.slot(&slot.name, number) == *key,
            _ => false,
        }
    }

    /// Checks every record; every register: its slots, the records of its intents, its name on the roster, its namespace; and
    /// every slot of the rosters. Nothing can be wrong that a repair could prove.
    pub(super) async fn checked(&self, _: bool) -> Result<Report, LoadError> {
        let (mut check, mut names) = (Check::default(), BTreeMap::new());
        match self.load().await {
            Ok(_) => {}
            Err(LoadError::Undecodable(cause)) => {
                let found = (cause.to_string(), RESTORE.to_owned());
                check.find(Severity::Damage, "undecodable", self.shared_state.keys.format(), found);
            }
            Err(error) => return Err(error),
        }
        // Before the slots are listed: those of a transaction stand before its record does.
        let named = self.check_records(&mut check).await?;
        for (roster, slots) in self.slots_below(&self.shared_state.keys.rosters()).await? {
            let checked = self.check_roster(&roster, &slots, &mut check).await;
            check.goes_on(newest_of(&roster, &slots), checked)?;
        }
        for (register, slots) in self.registers().await? {
            let checked = self.check_slots(&register, &slots, &mut names, &mut check).await;
            check.goes_on(newest_of(&register, &slots), checked)?;
        }
        let newest = names.iter().map(|(name, seen)| (name.clone(), seen.number())).collect();
        let checked = self.check_named(&named, &newest, &mut check).await;
        check.goes_on(self.shared_state.keys.names(), checked)?;
        let checked = self.check_namespaces(&names, &mut check).await;
        check.goes_on(self.shared_state.keys.names(), checked)?;
        for (name, seen) in &names {
            check.entries += u64::from(seen.now().is_some());
            if seen.undecided().is_some() {
                let found = format!("an intent of a transaction without a record stands in {name}");
                let advice =
                    "nothing, unless objects of this store were lost: the record of a transaction that committed \
                              may be among them, and should be put back before the next writer of the name decides"
                        .to_owned();
                check.find(Severity::Note, "undecided", self.place_of(name, seen), (found, advice));
            }
            if seen.now().is_some() {
                let checked = self.check_place(name, seen, &mut check).await;
                check.goes_on(self.place_of(name, seen), checked)?;
            }
        }
        let Check { mut findings, entries, slots, .. } = check;
        findings.sort_by_key(|finding| finding.severity);
        let looked_at = vec![Count::of("slots", "slots", slots), Count::of("entries", "entries", entries)];
        Ok(Report { findings, looked_at, ..Report::default() })
    }

    /// Reads all slots of a roster.
    async fn check_roster(&self, roster: &str, slots: &Slots, check: &mut Check) -> Result<(), LoadError> {
        check.slots += slots.len() as u64;
        for (number, _) in slots {
            let key = numbered(roster, *number);
            let Some(object) = self.object(&key).await? else { continue };
            let here = |name: &Name| self.shared_state.keys.roster_slot(name.parent().as_ref(), *number) == key;
            let found = match Roster::decode(&object.payload.bytes) {
                Ok(slot) if slot.number == *number && slot.names.iter().all(here) => continue,
                Ok(slot) => format!("it is slot {} of a roster, and perhaps of another one", slot.number),
                Err(error) => error.to_string(),
            };
            check.find(Severity::Damage, "undecodable", key, (found, RESTORE.to_owned()));
        }
        if let Some((missing, newest)) = self.first_missing(roster, slots).await? {
            let found = format!("slot {missing} of {newest} of a roster is missing: listings may lack names");
            check.find(Severity::Damage, "missing", numbered(roster, missing), (found, RESTORE.to_owned()));
        }
        Ok(())
    }

    /// The first slot that is not there, and the number of the newest.
    async fn first_missing(&self, of: &str, slots: &Slots) -> Result<Option<(u64, u64)>, LoadError> {
        let newest = slots.first().map_or(0, |(number, _)| *number);
        let there: BTreeSet<u64> = slots.iter().map(|(number, _)| *number).collect();
        let Some(missing) = (1..=newest).find(|number| !there.contains(number)) else { return Ok(None) };
        // A listing may lag.
        Ok(self.object(&numbered(of, missing)).await?.is_none().then_some((missing, newest)))
    }

    fn place_of(&self, name: &Name, seen: &Seen) -> Key {
        self.shared_state.keys.slot(name, seen.number())
    }

    /// Reads the newest slot; older ones must be there.
    async fn check_slots(
        &self,
        register: &str,
        slots: &Slots,
        names: &mut BTreeMap<Name, Seen>,
        check: &mut Check,
    ) -> Result<(), LoadError> {
        check.slots += slots.len() as u64;
        let newest = slots.first().map_or(0, |(number, _)| *number);
        let key = |number: u64| numbered(register, number);
        if let Some((missing, newest)) = self.first_missing(register, slots).await? {
            let found = format!("slot {missing} of {newest} is missing: a put from long ago could take its place");
            check.find(Severity::Damage, "missing", key(missing), (found, RESTORE.to_owned()));
        }
        let object = self.object(&key(newest)).await?;
        let held = object.map(|object| Held::decode(&object.payload.bytes));
        let found = match held {
            Some(Ok(Held::Slot(slot))) if self.shared_state.keys.slot(&slot.name, slot.number) != key(newest) => {
                format!("it is slot {} of {}", slot.number, slot.name)
            }
            Some(Ok(Held::Slot(slot))) => match self.look(&slot.name).await {
                Ok(seen) => {
                    let above = seen.slot.clone();
                    names.insert(slot.name.clone(), seen);
                    return self.check_older(register, slots, (slot, above.as_deref()), check).await;
                }
                Err(LoadError::Undecodable(cause)) => cause.to_string(),
                Err(error) => return Err(error),
            },
            // Emptied since it was listed: there is a newer one.
            Some(Ok(Held::Emptied(newer))) if newer > newest && self.object(&key(newer)).await?.is_some() => {
                return Ok(());
            }
            Some(Ok(Held::Emptied(newer))) if newer > newest => {
                format!("it was emptied because there is a slot {newer}, which is missing")
            }
            Some(Ok(Held::Emptied(_))) => "it was emptied, and is the newest".to_owned(),
            Some(Err(error)) => error.to_string(),
            None => "it was listed, and is not there".to_owned(),
        };
        check.find(Severity::Damage, "undecodable", key(newest), (found, RESTORE.to_owned()));
        Ok(())
    }

    /// Reads the slots that the newest listed one replaced, and the records of all intents. `above` is the newest of all.
    async fn check_older(
        &self,
        register: &str,
        slots: &Slots,
        (newest, above): (Slot, Option<&Slot>),
        check: &mut Check,
    ) -> Result<(), LoadError> {
        self.check_intent(&newest, above, check).await?;
        let mut above = newest;
        for (number, _) in slots.iter().skip(1).filter(|(_, size)| *size > EMPTIED_BYTES as u64) {
            let key = numbered(register, *number);
            let object = self.object(&key).await?;
            match object.map(|object| Held::decode(&object.payload.bytes)) {
                Some(Ok(Held::Slot(slot))) if slot.name == above.name && slot.number == *number => {
                    self.check_intent(&slot, Some(&above), check).await?;
                    above = slot;
                }
                Some(Ok(Held::Slot(slot))) => {
                    let found = format!("it is slot {} of {}", slot.number, slot.name);
                    check.find(Severity::Note, "other-slot", key, (found, REPLACED.to_owned()));
                }
                Some(Err(error)) => {
                    check.find(Severity::Note, "undecodable", key, (error.to_string(), REPLACED.to_owned()));
                }
                Some(Ok(Held::Emptied(_))) | None => {}
            }
        }
        Ok(())
    }

    /// Whether a name is on the roster of its namespace, which exists. If not, looks again: it may just be changing.
    async fn check_place(&self, name: &Name, seen: &Seen, check: &mut Check) -> Result<(), LoadError> {
        let parent = name.parent();
        let roster = match self.roster(parent.as_ref()).await {
            Ok((_, roster)) => Some(roster),
            // Found when the rosters were read.
            Err(LoadError::Undecodable(_)) => None,
            Err(error) => return Err(error),
        };
        if roster.is_some_and(|roster| !roster.contains(name)) {
            let found = format!("{name} exists, and is not on the roster of its namespace: no listing shows it");
            check.find(Severity::Damage, "unlisted", self.place_of(name, seen), (found, RESTORE.to_owned()));
        }
        let Some(parent) = parent else { return Ok(()) };
        let above = match self.look(&parent).await {
            Ok(above) => above,
            // Found when the slots were read.
            Err(LoadError::Undecodable(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let alive = above.now().is_some_and(|entry| entry.kind == Kind::Namespace);
        if !alive && self.is_same(name, seen).await? && self.is_same(&parent, &above).await? {
            let found = format!("{name} exists, and its namespace does not");
            check.find(Severity::Damage, "orphan", self.place_of(name, seen), (found, RESTORE.to_owned()));
        }
        Ok(())
    }
}

#[derive(Default)]
pub(super) struct Check {
    findings: Vec<Finding>,
    entries: u64,
    slots: u64,
    unread: u32,
}

/// The most objects that may be unreadable: with more, the store does not answer, and each costs the time of several tries.
const MOST_UNREAD: u32 = 100;

fn newest_of(register: &str, slots: &Slots) -> Key {
    numbered(register, slots.first().map_or(0, |(number, _)| *number))
}

impl Check {
    /// Makes a finding of what cannot be read, so that the rest is checked too.
    pub(super) fn goes_on(&mut self, object: Key, checked: Result<(), LoadError>) -> Result<(), LoadError> {
        let cause = match checked {
            Err(LoadError::Failed(cause)) => cause,
            Err(LoadError::Undecodable(cause)) => {
                self.find(Severity::Damage, "undecodable", object, (cause.to_string(), RESTORE.to_owned()));
                return Ok(());
            }
            other => return other,
        };
        self.unread += 1;
        if self.unread > MOST_UNREAD {
            return Err(LoadError::Failed(cause));
        }
        let advice =
            "try again; if it still fails, restore it from a backup or from older versions that the store kept";
        self.find(Severity::Unread, "unread", object, (cause.to_string(), advice.to_owned()));
        Ok(())
    }

    pub(super) fn damage(&mut self, trouble: &'static str, object: Key, found: String) {
        self.find(Severity::Damage, trouble, object, (found, RESTORE.to_owned()));
    }

    /// The prefixes of the objects that something was found in.
    pub(super) fn registers(&self) -> BTreeSet<String> {
        let objects = self.findings.iter().map(|finding| finding.object.as_str());
        objects.filter_map(|object| Some(object[..=object.rfind('/')?].to_owned())).collect()
    }

    fn find(&mut self, severity: Severity, trouble: &'static str, object: Key, (found, advice): (String, String)) {
        self.findings.push(Finding { severity, trouble, object, version: None, found, advice });
    }
}

fn stopped(error: PutError) -> Cause {
    Cause::from_error(error)
}
