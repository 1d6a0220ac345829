//! Checks every record; every register: its slots, the records of its intents, its name on the roster, its namespace;
//! and every slot of the rosters. Nothing can be wrong that a repair could prove.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use glidepath_env::{Env, Key, Object, together_until};
use glidepath_model::{Kind, Name};

use super::keys::numbered;
use super::object::{Held, Roster, Slot};
use super::proofs::{Intents, Records};
use super::read::Seen;
use super::upkeep::Slots;
use super::{EMPTIED_BYTES, Tickets};
use crate::AT_ONCE;
use crate::catalog::{Catalog, LoadError};
use crate::upkeep::{Count, Finding, Report, Severity};

const RESTORE: &str = "restore the object from a backup or an older version that the store kept";

const REPLACED: &str = "nothing: a newer slot has all of it, and a vacuum empties this one";

const UNDECIDED: &str = "nothing, unless objects of this store were lost: the record of a transaction that committed may be among \
                         them, and should be put back before the next writer of the name decides";

const TRY_AGAIN: &str =
    "try again; if it still fails, restore it from a backup or from older versions that the store kept";

/// The most objects that may be unreadable: with more, the store does not answer, and each costs the time of several
/// tries.
const MOST_UNREAD: u32 = 100;

/// What was found so far.
#[derive(Default)]
pub(super) struct Check {
    findings: Vec<Finding>,
    unread: u32,
}

/// A name with its newest slot, or nothing if that cannot be read.
type Register = Option<(Name, Seen)>;

impl<E: Env> Tickets<E> {
    pub(super) async fn checked(&self) -> Result<Report, LoadError> {
        let mut check = Check::default();
        match self.load().await {
            Ok(_) => {}
            Err(LoadError::Undecodable(cause)) => {
                let found = (cause.to_string(), RESTORE.to_owned());
                check.find(Severity::Damage, "undecodable", self.shared_state.keys.format(), found);
            }
            Err(error) => return Err(error),
        }
        // Before the slots are listed: those of a transaction stand before its record does.
        let records = self.check_records(&mut check).await?;
        let rosters = self.slots_below(&self.shared_state.keys.rosters()).await?;
        let parts = together_until(AT_ONCE, &rosters, |(roster, slots)| self.check_roster(roster, slots), check.full());
        check.add_all(parts.await)?;
        let registers = self.registers().await?;
        let one = |(register, slots)| self.check_register(register, slots, &records);
        let listed = registers.iter().map(|(register, slots)| (register.as_str(), slots));
        let parts = together_until(AT_ONCE, listed, one, check.full()).await;
        let names: BTreeMap<Name, Seen> = check.add_all(parts)?.into_iter().flatten().collect();
        let checked = self.check_unseen(&records, &names, &mut check).await;
        check.goes_on(self.shared_state.keys.names(), checked)?;
        let checked = self.check_namespaces(&names, &mut check).await;
        check.goes_on(self.shared_state.keys.names(), checked)?;
        let parts = together_until(AT_ONCE, &names, |(name, seen)| self.check_name(name, seen), check.full());
        check.add_all(parts.await)?;
        let mut findings = check.findings;
        findings.sort_by_key(|finding| finding.severity);
        let slots = rosters.values().chain(registers.values()).map(|slots| slots.len() as u64).sum();
        let entries = names.values().filter(|seen| seen.now().is_some()).count() as u64;
        let looked_at = vec![Count::of("slots", ["slot", "slots"], slots), Count::of_entries(entries)];
        Ok(Report { findings, looked_at, ..Report::default() })
    }

    /// Reads all slots of a roster.
    async fn check_roster(&self, roster: &str, slots: &Slots) -> Part<()> {
        let mut check = Check::default();
        let checked = self.read_roster(roster, slots, &mut check).await;
        check.part(newest_of(roster, slots), checked)
    }

    async fn read_roster(&self, roster: &str, slots: &Slots, check: &mut Check) -> Result<(), LoadError> {
        let mut namespace = None;
        for (number, _) in slots {
            let key = numbered(roster, *number);
            let Some(object) = self.object(&key).await? else { continue };
            // Two namespaces may have the same key where long names are hashed with FNV.
            let here = |name: &Name| {
                let (parent, keys) = (name.parent(), &self.shared_state.keys);
                keys.roster_slot(parent.as_ref(), *number) == key && parent == *namespace.get_or_insert(parent.clone())
            };
            let found = match Roster::decode(&object.payload.bytes) {
                Ok(slot) if slot.number == *number && slot.names.iter().all(here) => continue,
                Ok(slot) => format!("it is slot {} of a roster, and perhaps of another one", slot.number),
                Err(error) => error.to_string(),
            };
            check.damage("undecodable", key, found);
        }
        if let Some((missing, newest)) = self.first_missing(roster, slots).await? {
            let found = format!("slot {missing} of {newest} of a roster is missing: listings may lack names");
            check.damage("missing", numbered(roster, missing), found);
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

    /// Reads the slots of a register that have content; emptied ones must be there.
    async fn check_register(&self, register: &str, slots: &Slots, records: &Records) -> Part<Register> {
        let mut check = Check::default();
        let checked = self.read_register(register, slots, records, &mut check).await;
        check.part(newest_of(register, slots), checked)
    }

    async fn read_register(
        &self,
        register: &str,
        slots: &Slots,
        records: &Records,
        check: &mut Check,
    ) -> Result<Register, LoadError> {
        if let Some((missing, newest)) = self.first_missing(register, slots).await? {
            let found = format!("slot {missing} of {newest} is missing: a put from long ago could take its place");
            check.damage("missing", numbered(register, missing), found);
        }
        let newest = newest_of(register, slots);
        let listed = slots.first().map_or(0, |(number, _)| *number);
        let object = self.object(&newest).await?;
        let held = object.map(|object| Held::decode(&object.payload.bytes));
        let found = match held {
            Some(Ok(Held::Slot(slot))) if self.shared_state.keys.slot(&slot.name, slot.number) != newest => {
                format!("it is slot {} of {}", slot.number, slot.name)
            }
            Some(Ok(Held::Slot(slot))) => {
                let slot = Arc::new(slot);
                self.shared_state.learn(&slot);
                match self.look(&slot.name).await {
                    Ok(seen) => {
                        self.check_intents(&slot.name, &seen, slots, records, check).await?;
                        return Ok(Some((slot.name.clone(), seen)));
                    }
                    Err(LoadError::Undecodable(cause)) => cause.to_string(),
                    Err(error) => return Err(error),
                }
            }
            // Emptied since it was listed: there is a newer one.
            Some(Ok(Held::Emptied(newer)))
                if newer > listed && self.object(&numbered(register, newer)).await?.is_some() =>
            {
                return Ok(None);
            }
            Some(Ok(Held::Emptied(newer))) if newer > listed => {
                format!("it was emptied because there is a slot {newer}, which is missing")
            }
            Some(Ok(Held::Emptied(_))) => "it was emptied, and is the newest".to_owned(),
            Some(Err(error)) => error.to_string(),
            None => "it was listed, and is not there".to_owned(),
        };
        check.damage("undecodable", newest, found);
        Ok(None)
    }

    /// Reads all slots with content, and compares their intents with the records.
    async fn check_intents(
        &self,
        name: &Name,
        seen: &Seen,
        slots: &Slots,
        records: &Records,
        check: &mut Check,
    ) -> Result<(), LoadError> {
        let Some(newest) = &seen.slot else { return Ok(()) };
        // Those that were put since the listing, and those listed: what it did not show may be very much, and lost.
        let listed = slots.first().map_or(0, |(number, _)| *number);
        let full = slots.iter().filter(|(_, size)| *size != EMPTIED_BYTES as u64).map(|(number, _)| *number);
        let mut older_ones = (listed + 1..newest.number).rev().chain(full.filter(|number| *number < newest.number));
        let mut intents = Intents::default();
        intents.add(newest);
        self.check_intent(newest, None, records, check).await?;
        let mut above = Arc::clone(newest);
        loop {
            let batch: Vec<u64> = older_ones.by_ref().take(AT_ONCE).collect();
            if batch.is_empty() {
                break;
            }
            let key = |number: u64| self.shared_state.keys.slot(name, number);
            let read = |number: u64| {
                let key = key(number);
                async move { self.object(&key).await.map(|object| (number, object)) }
            };
            for object in together_until(AT_ONCE, batch, read, |_| false).await {
                let (number, object) = object?;
                let Some(slot) = older(name, number, (key(number), object), check) else { continue };
                intents.add(&slot);
                self.check_intent(&slot, Some(&above), records, check).await?;
                above = Arc::new(slot);
            }
        }
        self.check_named(name, seen, (&intents, records), check).await
    }

    /// Checks what other objects say of a name: whether it is on the roster of its namespace, and that exists.
    async fn check_name(&self, name: &Name, seen: &Seen) -> Part<()> {
        let mut check = Check::default();
        let place = self.shared_state.keys.slot(name, seen.number());
        if seen.undecided().is_some() {
            let found = format!("an intent of a transaction without a record stands in {name}");
            check.find(Severity::Note, "undecided", place.clone(), (found, UNDECIDED.to_owned()));
        }
        let checked = match seen.now() {
            Some(_) => self.check_place(name, seen, &place, &mut check).await,
            None => Ok(()),
        };
        check.part(place, checked)
    }

    /// What is found wrong with a name that was seen so.
    #[cfg(test)]
    pub(super) async fn findings_of(&self, name: &Name, seen: &Seen) -> Vec<Finding> {
        self.check_name(name, seen).await.check.findings
    }

    /// If something is wrong, looks again: it may just be changing.
    async fn check_place(&self, name: &Name, seen: &Seen, place: &Key, check: &mut Check) -> Result<(), LoadError> {
        let parent = name.parent();
        let roster = match self.roster(parent.as_ref()).await {
            Ok((_, roster)) => Some(roster),
            // Found when the rosters were read.
            Err(LoadError::Undecodable(_)) => None,
            Err(error) => return Err(error),
        };
        // It may have been dropped since, and taken off the roster.
        let is_off = roster.is_some_and(|roster| !roster.contains(name));
        if is_off && self.is_same(name, seen).await? {
            let found = format!("{name} exists, and is not on the roster of its namespace: no listing shows it");
            check.damage("unlisted", place.clone(), found);
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
            check.damage("orphan", place.clone(), format!("{name} exists, and its namespace does not"));
        }
        Ok(())
    }
}

/// A slot of a register, if it can be read.
fn older(name: &Name, number: u64, (key, object): (Key, Option<Object>), check: &mut Check) -> Option<Slot> {
    let note = match Held::decode(&object?.payload.bytes) {
        Ok(Held::Slot(slot)) if slot.name == *name && slot.number == number => return Some(slot),
        Ok(Held::Slot(slot)) => ("other-slot", format!("it is slot {} of {}", slot.number, slot.name)),
        Err(error) => ("undecodable", error.to_string()),
        Ok(Held::Emptied(_)) => return None,
    };
    check.find(Severity::Note, note.0, key, (note.1, REPLACED.to_owned()));
    None
}

fn newest_of(register: &str, slots: &Slots) -> Key {
    numbered(register, slots.first().map_or(0, |(number, _)| *number))
}

/// What was found in a part of the catalog, and what was read there.
struct Part<T> {
    check: Check,
    /// The error is about the object.
    read: Result<T, (Key, LoadError)>,
}

impl Check {
    fn part<T>(self, object: Key, read: Result<T, LoadError>) -> Part<T> {
        Part { check: self, read: read.map_err(|error| (object, error)) }
    }

    /// Whether so much is unreadable, with one part after the other, that `add_all` will end with an error.
    fn full<T>(&self) -> impl Fn(&Part<T>) -> bool + use<T> {
        let unread = Cell::new(self.unread);
        move |part| {
            let failed = matches!(part.read, Err((_, LoadError::Failed(_) | LoadError::NotFound)));
            unread.set(unread.get() + u32::from(failed));
            unread.get() > MOST_UNREAD
        }
    }

    fn add_all<T>(&mut self, parts: Vec<Part<T>>) -> Result<Vec<T>, LoadError> {
        let mut all = Vec::new();
        for Part { check, read } in parts {
            self.findings.extend(check.findings);
            match read {
                Ok(read) => all.push(read),
                Err((object, error)) => self.goes_on(object, Err(error))?,
            }
        }
        Ok(all)
    }

    /// Makes a finding of what cannot be read, so that the rest is checked too.
    pub(super) fn goes_on(&mut self, object: Key, checked: Result<(), LoadError>) -> Result<(), LoadError> {
        let cause = match checked {
            Err(LoadError::Failed(cause)) => cause,
            Err(LoadError::Undecodable(cause)) => {
                self.damage("undecodable", object, cause.to_string());
                return Ok(());
            }
            other => return other,
        };
        self.unread += 1;
        if self.unread > MOST_UNREAD {
            return Err(LoadError::Failed(cause));
        }
        self.find(Severity::Unread, "unread", object, (cause.to_string(), TRY_AGAIN.to_owned()));
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
