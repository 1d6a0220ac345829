//! What records and slots prove of each other: a check finds by it what was lost or changed places.
//!
//! A transaction that committed has put an intent into the register of each of its names, which its record lists: that
//! slot is there, or a vacuum has emptied it. A slot on top of an intent was put by one who had read the record of that
//! intent; if it has an intent too, its commit tells what the record said. A name that something settled was in a
//! namespace, which has a register.

use std::collections::{BTreeMap, BTreeSet};

use glidepath_env::{Cause, Env, Key, ObjectStore, together_until};
use glidepath_model::Name;

use super::Tickets;
use super::fsck::Check;
use super::keys::Place;
use super::object::{Record, Slot, TxnId};
use super::read::Seen;
use super::upkeep::PAGE;
use crate::AT_ONCE;
use crate::catalog::LoadError;

/// What the records say.
#[derive(Default)]
pub(super) struct Records {
    /// What became of each transaction; `None` if its record cannot be read.
    ends: BTreeMap<TxnId, Option<End>>,
    /// The committed transactions that named each name.
    named: BTreeMap<Name, BTreeSet<TxnId>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Committed,
    Aborted,
}

/// The intents in the slots of a register.
#[derive(Default)]
pub(super) struct Intents {
    txns: BTreeSet<TxnId>,
    /// The slots that can be read.
    slots: BTreeSet<u64>,
}

impl Intents {
    pub(super) fn add(&mut self, slot: &Slot) {
        self.txns.extend(slot.intent.as_ref().map(|intent| intent.txn));
        self.slots.insert(slot.number);
    }
}

impl Records {
    fn add(&mut self, txn: TxnId, record: Option<Record>) {
        let end = record.as_ref().map(|record| if record.committed { End::Committed } else { End::Aborted });
        self.ends.insert(txn, end);
        for name in record.into_iter().filter(|record| record.committed).flat_map(|record| record.names) {
            self.named.entry(name).or_default().insert(txn);
        }
    }
}

impl<E: Env> Tickets<E> {
    /// Reads all records.
    pub(super) async fn check_records(&self, check: &mut Check) -> Result<Records, LoadError> {
        let (mut records, mut after, prefix) = (Records::default(), None::<Key>, self.shared_state.keys.txns());
        loop {
            let page = self.store.list(&prefix, after.as_ref(), PAGE).await;
            let page = page.map_err(|error| LoadError::Failed(Cause::from_error(error)))?;
            let txn = |key: &Key| match self.shared_state.keys.place(key) {
                Some(Place::Txn(txn)) => Some(txn),
                _ => None,
            };
            let txns: Vec<TxnId> = page.objects.iter().filter_map(|listed| txn(&listed.key)).collect();
            let read = together_until(AT_ONCE, &txns, |txn| self.record(*txn), |_| false).await;
            for (txn, read) in txns.into_iter().zip(read) {
                let read = read.map(|record| {
                    // What was listed and is not there is a name that a power cut undid.
                    if record.is_some() {
                        records.add(txn, record);
                    }
                });
                if read.is_err() {
                    records.add(txn, None);
                }
                check.goes_on(self.shared_state.keys.txn(txn), read)?;
            }
            after = page.objects.last().map(|listed| listed.key.clone());
            if !page.more || after.is_none() {
                return Ok(records);
            }
        }
    }

    async fn record(&self, txn: TxnId) -> Result<Option<Record>, LoadError> {
        let Some(object) = self.object(&self.shared_state.keys.txn(txn)).await? else { return Ok(None) };
        let record = Record::decode(&object.payload.bytes, txn);
        record.map(Some).map_err(|error| LoadError::Undecodable(Cause::from_error(error)))
    }

    /// Whether the intent of each committed transaction that named a name is in its slots, as far as they can be read.
    pub(super) async fn check_named(
        &self,
        name: &Name,
        seen: &Seen,
        (intents, records): (&Intents, &Records),
        check: &mut Check,
    ) -> Result<(), LoadError> {
        let (Some(named), Some(newest)) = (records.named.get(name), &seen.slot) else { return Ok(()) };
        // The newest slot has the ids of the last puts, and the id of the put of an intent is that of its commit.
        let is_put = |txn: &TxnId| newest.lineage.contains(&txn.commit().0);
        let lost: Vec<&TxnId> = named.difference(&intents.txns).filter(|txn| !is_put(txn)).collect();
        let older = newest.number.saturating_sub(newest.lineage.len() as u64);
        let unreadable = older.saturating_sub(intents.slots.range(..=older).count() as u64);
        let Some(txn) = lost.last().filter(|_| lost.len() as u64 > unreadable) else { return Ok(()) };
        let count = lost.len();
        let found = format!(
            "{count} transactions that committed put slots of {name}, {:032x} among them; they are not in those that can be read, \
             the newest of which is {}, and {unreadable} others were emptied",
            txn.0,
            seen.number(),
        );
        self.check_missing(name, seen.number(), found, check).await
    }

    /// A finding if there is no slot behind this one. (There is if a listing lagged.)
    async fn check_missing(&self, name: &Name, last: u64, found: String, check: &mut Check) -> Result<(), LoadError> {
        let key = self.shared_state.keys.slot(name, last + 1);
        if self.object(&key).await?.is_none() {
            check.damage("missing", key, found);
        }
        Ok(())
    }

    /// Whether each name that a committed transaction named has a register.
    pub(super) async fn check_unseen(
        &self,
        records: &Records,
        names: &BTreeMap<Name, Seen>,
        check: &mut Check,
    ) -> Result<(), LoadError> {
        let found = check.registers();
        for (name, named) in &records.named {
            if names.contains_key(name) || found.contains(self.shared_state.keys.register(name).as_str()) {
                continue;
            }
            let count = named.len();
            let found = format!("{count} transactions that committed put slots of {name}, and there is none");
            self.check_missing(name, 0, found, check).await?;
        }
        Ok(())
    }

    /// Whether there is a register of each namespace in which something was before the last commit to it. (What came
    /// and went in one commit proves nothing: so may its namespace have.)
    pub(super) async fn check_namespaces(
        &self,
        names: &BTreeMap<Name, Seen>,
        check: &mut Check,
    ) -> Result<(), LoadError> {
        let (found, mut told) = (check.registers(), BTreeSet::new());
        for (name, seen) in names {
            // What is there now is an orphan if its namespace is lost.
            let was = seen.slot.as_ref().is_some_and(|slot| slot.settled.is_some()) && seen.now().is_none();
            let Some(parent) = name.parent().filter(|parent| was && !names.contains_key(parent)) else { continue };
            if found.contains(self.shared_state.keys.register(&parent).as_str()) || !told.insert(parent.clone()) {
                continue;
            }
            let found = format!("{name} was in {parent}, of which there is no slot");
            self.check_missing(&parent, 0, found, check).await?;
        }
        Ok(())
    }

    /// Whether the record of the intent in a slot names the slot's name, and says what the slot above it says.
    pub(super) async fn check_intent(
        &self,
        slot: &Slot,
        above: Option<&Slot>,
        records: &Records,
        check: &mut Check,
    ) -> Result<(), LoadError> {
        let Some(intent) = &slot.intent else { return Ok(()) };
        let (name, number, txn) = (&slot.name, slot.number, intent.txn);
        let (end, names_it) = match records.ends.get(&txn) {
            // Found when the records were read.
            Some(None) => return Ok(()),
            Some(Some(end)) => (Some(*end), records.named.get(name).is_some_and(|named| named.contains(&txn))),
            // It may have been put since.
            None => match self.record(txn).await? {
                None => (None, false),
                Some(Record { committed: true, names }) => (Some(End::Committed), names.contains(name)),
                Some(Record { .. }) => (Some(End::Aborted), false),
            },
        };
        let above = above.filter(|above| above.number == number + 1);
        // A slot without an intent is a commit by itself, and has its own commit, unless it only retires the name.
        let folded = above.filter(|above| above.intent.is_some() || above.retired);
        let folded = folded.map(|above| if above.commit == txn.commit() { End::Committed } else { End::Aborted });
        let found = match (end, folded) {
            (None, _) if above.is_some() => format!("it is missing: slot {} of {name} was put after it", number + 1),
            (Some(End::Committed), _) if !names_it => {
                format!(
                    "it does not name {name}, which has an intent of its transaction in slot {number}: it is another's"
                )
            }
            (Some(end), Some(folded)) if end != folded => {
                let [says, said] = [end, folded].map(|end| if end == End::Committed { "committed" } else { "aborted" });
                format!("it says {says}, and said {said} when slot {} of {name} was put", number + 1)
            }
            _ => return Ok(()),
        };
        check.damage("other-record", self.shared_state.keys.txn(txn), found);
        Ok(())
    }
}
