//! What records and slots prove of each other: a check finds by it what was lost or changed places.
//!
//! A transaction that committed has put a slot into the register of each of its names, which its record lists. A slot on top of an
//! intent was put by one who had read the record of that intent; if it has an intent too, its commit tells what the record said.
//! A name that something settled was in a namespace, which has a register.

use std::collections::{BTreeMap, BTreeSet};

use glidepath_env::{Cause, Env, Key, ObjectStore, together_until};
use glidepath_model::Name;

use super::Tickets;
use super::keys::Place;
use super::object::{Record, Slot, TxnId};
use super::read::Seen;
use super::upkeep::{Check, PAGE};
use crate::AT_ONCE;
use crate::catalog::LoadError;

/// How many committed transactions named each name.
pub(super) type Named = BTreeMap<Name, u64>;

impl<E: Env> Tickets<E> {
    /// Reads all records.
    pub(super) async fn check_records(&self, check: &mut Check) -> Result<Named, LoadError> {
        let (mut named, mut after, prefix) = (Named::new(), None::<Key>, self.shared_state.keys.txns());
        loop {
            let page = self.store.list(&prefix, after.as_ref(), PAGE).await;
            let page = page.map_err(|error| LoadError::Failed(Cause::from_error(error)))?;
            let txn = |key: &Key| match self.shared_state.keys.place(key) {
                Some(Place::Txn(txn)) => Some(txn),
                _ => None,
            };
            let txns: Vec<TxnId> = page.objects.iter().filter_map(|listed| txn(&listed.key)).collect();
            let records = together_until(AT_ONCE, &txns, |txn| self.record(*txn), |_| false).await;
            for (txn, read) in txns.into_iter().zip(records) {
                let counted = read.map(|record| {
                    for name in record.into_iter().filter(|record| record.committed).flat_map(|record| record.names) {
                        *named.entry(name).or_default() += 1;
                    }
                });
                check.goes_on(self.shared_state.keys.txn(txn), counted)?;
            }
            after = page.objects.last().map(|listed| listed.key.clone());
            if !page.more || after.is_none() {
                return Ok(named);
            }
        }
    }

    async fn record(&self, txn: TxnId) -> Result<Option<Record>, LoadError> {
        let Some(object) = self.object(&self.shared_state.keys.txn(txn)).await? else { return Ok(None) };
        let record = Record::decode(&object.payload.bytes, txn);
        record.map(Some).map_err(|error| LoadError::Undecodable(Cause::from_error(error)))
    }

    /// Whether each name that a committed transaction named has as many slots as there were such transactions.
    pub(super) async fn check_named(
        &self,
        named: &Named,
        newest: &BTreeMap<Name, u64>,
        check: &mut Check,
    ) -> Result<(), LoadError> {
        let found = check.registers();
        for (name, count) in named {
            let last = newest.get(name).copied().unwrap_or(0);
            if last >= *count || found.contains(self.shared_state.keys.register(name).as_str()) {
                continue;
            }
            let key = self.shared_state.keys.slot(name, last + 1);
            // A listing may lag.
            if self.object(&key).await?.is_none() {
                let found =
                    format!("{count} transactions that committed put slots of {name}, and the newest is {last}");
                check.damage("missing", key, found);
            }
        }
        Ok(())
    }

    /// Whether there is a register of each namespace in which something was before the last commit to it. (What came and went
    /// in one commit proves nothing: so may its namespace have.)
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
            let key = self.shared_state.keys.slot(&parent, 1);
            // A listing may lag.
            if self.object(&key).await?.is_none() {
                check.damage("missing", key, format!("{name} was in {parent}, of which there is no slot"));
            }
        }
        Ok(())
    }

    /// Whether the record of the intent in a slot names the slot's name, and says what the slot above it says.
    pub(super) async fn check_intent(
        &self,
        slot: &Slot,
        above: Option<&Slot>,
        check: &mut Check,
    ) -> Result<(), LoadError> {
        let Some(intent) = &slot.intent else { return Ok(()) };
        let record = match self.record(intent.txn).await {
            Ok(record) => record,
            // Found when the records were read.
            Err(LoadError::Undecodable(_)) => return Ok(()),
            Err(error) => return Err(error),
        };
        let (name, number) = (&slot.name, slot.number);
        let above = above.filter(|above| above.number == number + 1);
        // A slot without an intent is a commit by itself, and has its own commit.
        let folded = above.filter(|above| above.intent.is_some()).map(|above| above.commit == intent.txn.commit());
        let found = match (&record, folded) {
            (None, _) if above.is_some() => format!("it is missing: slot {} of {name} was put after it", number + 1),
            (Some(Record { committed: true, names }), _) if !names.contains(name) => {
                format!(
                    "it does not name {name}, which has an intent of its transaction in slot {number}: it is another's"
                )
            }
            (Some(Record { committed, .. }), Some(folded)) if *committed != folded => {
                let [says, said] = [*committed, folded].map(|done| if done { "committed" } else { "aborted" });
                format!("it says {says}, and said {said} when slot {} of {name} was put", number + 1)
            }
            _ => return Ok(()),
        };
        check.damage("other-record", self.shared_state.keys.txn(intent.txn), found);
        Ok(())
    }
}
