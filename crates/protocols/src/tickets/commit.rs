//! Carrying out what was decided: steps 2 to 9 of a commit.

use std::collections::{BTreeMap, BTreeSet};

use glidepath_env::{Backoff, Denial, Env, Exponential, JitterRange, Purpose, together_until};
use glidepath_model::{CommitId, Entry, Instant, Kind, Name, Span};

use super::object::{Intent, LINEAGE, Record, Slot, TxnId};
use super::put::{Sent, Stood};
use super::read::Seen;
use super::{Fate, Snapshot, Tickets};
use crate::AT_ONCE;
use crate::catalog::{LoadError, Outcome};
use crate::mutant::{self, Mutant};

/// How long a writer waits for another transaction before it aborts it.
const PATIENCE: Span = Span::from_secs(1);

const WAIT: Backoff = Backoff::Exponential(Exponential {
    first: Span::from_millis(10),
    factor: 2.0,
    longest: Span::from_millis(200),
    jitter: JitterRange { low: 0.5, high: 1.0 },
});

/// What a commit does, decided on registers as they were seen.
#[derive(Debug, Default)]
pub(super) struct Plan {
    /// Names that change: as they were seen, and what they become.
    pub(super) writes: BTreeMap<Name, (Seen, Option<Entry>)>,
    /// Names that were read and must stay as they are until the commit.
    pub(super) holds: BTreeMap<Name, Seen>,
    /// Namespaces that must exist.
    pub(super) parents: BTreeSet<Name>,
    /// Namespaces in which nothing may be left but what is written here.
    pub(super) emptied: BTreeSet<Name>,
    /// Other transactions whose intents were seen in those namespaces, and are not decided.
    pub(super) in_the_way: BTreeSet<TxnId>,
}

/// Why a transaction ended without a commit.
enum Stop {
    Conflict,
    Refused(Denial),
}

impl From<LoadError> for Stop {
    fn from(error: LoadError) -> Self {
        Self::Refused(error.into())
    }
}

impl Stop {
    fn outcome(self) -> Outcome<Snapshot> {
        match self {
            Self::Conflict => Outcome::Conflict(None),
            Self::Refused(denial) => Outcome::Refused(denial),
        }
    }
}

/// Names to be put onto the roster of one namespace.
#[derive(Default)]
struct Entrants {
    names: Vec<Name>,
    /// Whether also those that are there: one was retired, and may have been taken off since the roster was read.
    anew: bool,
}

impl<E: Env> Tickets<E> {
    /// Steps 2 to 9.
    pub(super) async fn carry_out(&self, mut plan: Plan) -> Outcome<Snapshot> {
        if let Err(stop) = self.clear_the_way(&mut plan).await {
            return stop.outcome();
        }
        let late = mutant::is(Mutant::RosterAfterIntents);
        if !late && let Err(denial) = self.enroll_new(&plan).await {
            return Outcome::Refused(denial);
        }
        let alone = plan.holds.is_empty() && plan.parents.is_empty() && plan.emptied.is_empty();
        let outcome = match plan.writes.iter().next() {
            Some((name, (seen, after))) if plan.writes.len() == 1 && alone => {
                self.one_put(name, seen, after.clone()).await
            }
            _ => Box::pin(self.transaction(&plan)).await,
        };
        if late {
            let _ = self.enroll_new(&plan).await;
        }
        if matches!(outcome, Outcome::Committed(_)) {
            let dropped = plan.writes.iter().filter(|(_, (seen, after))| seen.now().is_some() && after.is_none());
            dropped.for_each(|(name, _)| self.shared_state.dropped(name.parent().as_ref()));
        }
        outcome
    }

    /// Step 2.
    async fn clear_the_way(&self, plan: &mut Plan) -> Result<(), Stop> {
        // For all of them together: a process that died may have left many.
        let until = self.env.now() + PATIENCE;
        for txn in &plan.in_the_way {
            self.wait_for(*txn, until).await?;
        }
        let written = plan.writes.values_mut().map(|(seen, _)| seen);
        for seen in written.chain(plan.holds.values_mut()) {
            let Some(txn) = seen.undecided() else { continue };
            match self.wait_for(txn, until).await? {
                // The name is not as it was decided on.
                Fate::Committed => return Err(Stop::Conflict),
                fate => seen.fate = fate,
            }
        }
        Ok(())
    }

    /// The end of another transaction, which is aborted if it has none by then.
    async fn wait_for(&self, txn: TxnId, until: Instant) -> Result<Fate, LoadError> {
        let mut round = 0;
        loop {
            let fate = self.fate(txn).await?;
            if fate != Fate::Undecided {
                return Ok(fate);
            }
            if self.env.now() >= until {
                return self.abort(txn).await;
            }
            let wait = WAIT.wait(round, || self.env.draw(Purpose::Backoff));
            self.env.sleep_until(self.env.now() + wait).await;
            round += 1;
        }
    }

    /// Step 3.
    async fn enroll_new(&self, plan: &Plan) -> Result<(), Denial> {
        let mut new: BTreeMap<Option<Name>, Entrants> = BTreeMap::new();
        for (name, (seen, after)) in &plan.writes {
            if after.is_some() && seen.now().is_none() {
                let entrants = new.entry(name.parent()).or_default();
                entrants.names.push(name.clone());
                entrants.anew |= seen.is_retired() && !mutant::is(Mutant::RetiredIgnored);
            }
        }
        for (namespace, Entrants { names, anew }) in new {
            match anew {
                true => self.enroll_anew(namespace.as_ref(), names, 0).await?,
                false => self.enroll(namespace.as_ref(), &names).await?,
            }
        }
        Ok(())
    }

    /// Step 4.
    async fn one_put(&self, name: &Name, seen: &Seen, after: Option<Entry>) -> Outcome<Snapshot> {
        let commit = CommitId(self.env.draw(Purpose::Names));
        let retired = seen.is_retired() && after.is_none();
        let slot = Slot { commit, settled: after, retired, ..next(name, seen, commit.0) };
        match self.put_once(Sent::Slot(&slot)).await {
            Stood::Yes => {
                let seen = Seen { slot: Some(slot.into()), fate: Fate::Undecided };
                Outcome::Committed(Snapshot::committed(commit, [(name.clone(), seen)]))
            }
            Stood::Lost => Outcome::Conflict(None),
            Stood::Refused(denial) => Outcome::Refused(denial),
            Stood::Unknown(cause) => Outcome::Unknown(cause),
        }
    }

    /// Steps 5 to 9.
    async fn transaction(&self, plan: &Plan) -> Outcome<Snapshot> {
        let held = |seen: &Seen| (seen.clone(), seen.now().cloned());
        let mut all: BTreeMap<&Name, (Seen, Option<Entry>)> =
            plan.writes.iter().map(|(name, write)| (name, write.clone())).collect();
        if !mutant::is(Mutant::ReadsNotHeld) {
            all.extend(plan.holds.iter().map(|(name, seen)| (name, held(seen))));
        }
        // Step 5.
        match self.are_same(all.iter().map(|(name, (seen, _))| (*name, seen))).await {
            Ok(true) => {}
            Ok(false) => return Outcome::Conflict(None),
            Err(error) => return Stop::from(error).outcome(),
        }
        let (high, low) = (self.env.draw(Purpose::Names), self.env.draw(Purpose::Names));
        let txn = TxnId(u128::from(high) << 64 | u128::from(low));
        if mutant::is(Mutant::NeedsBeforeIntents)
            && let Err(stop) = self.needs_hold(plan, txn).await
        {
            return stop.outcome();
        }
        let slots: Vec<Slot> = all
            .into_iter()
            .map(|(name, (seen, after))| {
                let retired = seen.is_retired() && after.is_none() && !mutant::is(Mutant::RetiredForgotten);
                Slot { intent: Some(Intent { txn, after }), retired, ..next(name, &seen, low) }
            })
            .collect();
        let stood = match self.stand(&slots).await {
            Ok(()) if mutant::is(Mutant::NeedsBeforeIntents) => Ok(()),
            Ok(()) => self.needs_hold(plan, txn).await,
            Err(stop) => Err(stop),
        };
        if let Err(stop) = stood {
            // Step 9. Nobody else puts this record `committed`, so it is not needed to be sure.
            let _ = self.abort(txn).await;
            return stop.outcome();
        }
        self.decide(txn, slots).await
    }

    /// Step 6.
    async fn stand(&self, slots: &[Slot]) -> Result<(), Stop> {
        let mut refused = None;
        let lost = |stood: &Stood| matches!(stood, Stood::Lost);
        for stood in together_until(AT_ONCE, slots, |slot| self.put_once(Sent::Slot(slot)), lost).await {
            match stood {
                Stood::Yes => {}
                Stood::Lost => return Err(Stop::Conflict),
                Stood::Refused(denial) => refused = Some(Denial { certain: true, ..denial }),
                Stood::Unknown(cause) => refused = Some(Denial::certain(cause).passing()),
            }
        }
        refused.map_or(Ok(()), |denial| Err(Stop::Refused(denial)))
    }

    /// Step 8.
    async fn decide(&self, txn: TxnId, slots: Vec<Slot>) -> Outcome<Snapshot> {
        let record = Record { committed: true, names: slots.iter().map(|slot| slot.name.clone()).collect() };
        match self.put_once(Sent::Record(txn, &record)).await {
            Stood::Yes => {
                let seen = |slot: Slot| (slot.name.clone(), Seen { slot: Some(slot.into()), fate: Fate::Committed });
                Outcome::Committed(Snapshot::committed(txn.commit(), slots.into_iter().map(seen)))
            }
            Stood::Lost => Outcome::Conflict(None),
            Stood::Refused(denial) => {
                let _ = self.abort(txn).await;
                Outcome::Refused(denial)
            }
            Stood::Unknown(cause) => Outcome::Unknown(cause),
        }
    }

    /// Step 7.
    async fn needs_hold(&self, plan: &Plan, txn: TxnId) -> Result<(), Stop> {
        for parent in &plan.parents {
            let seen = self.faced(parent, txn).await?;
            if seen.now().is_none_or(|entry| entry.kind != Kind::Namespace) {
                return Err(Stop::Conflict);
            }
        }
        if mutant::is(Mutant::EmptinessIgnored) {
            return Ok(());
        }
        for namespace in &plan.emptied {
            let (_, names) = self.roster(Some(namespace)).await?;
            let others: Vec<Name> = names.iter().filter(|name| !plan.writes.contains_key(name)).cloned().collect();
            let seen = self.look_at(&others).await?;
            for (name, seen) in others.iter().zip(seen) {
                let seen = if seen.undecided().is_some() { self.faced(name, txn).await? } else { seen };
                if seen.now().is_some() {
                    return Err(Stop::Conflict);
                }
            }
        }
        Ok(())
    }

    /// A register in which no other transaction's intent is undecided. The lower id goes on.
    async fn faced(&self, name: &Name, own: TxnId) -> Result<Seen, Stop> {
        loop {
            let seen = self.look(name).await?;
            match seen.undecided() {
                Some(other) if other == own => return Ok(seen),
                Some(other) if other < own => return Err(Stop::Conflict),
                Some(other) => drop(self.abort(other).await?),
                None => return Ok(seen),
            }
        }
    }
}

/// The next slot of a register, with what it holds so far and no intent.
pub(super) fn next(name: &Name, seen: &Seen, id: u64) -> Slot {
    let before = seen.slot.as_ref().map(|slot| slot.lineage.as_slice()).unwrap_or_default();
    let lineage = std::iter::once(id).chain(before.iter().copied()).take(LINEAGE).collect();
    Slot {
        name: name.clone(),
        number: seen.number() + 1,
        lineage,
        commit: seen.commit(),
        settled: seen.now().cloned(),
        intent: None,
        retired: seen.is_retired(),
    }
}
