//! Deciding requests on registers, each read at a moment of its own. What is committed on them is guarded; what is only
//! answered (refusals, requests that change nothing) is looked at again.

use std::collections::{BTreeMap, BTreeSet};

use glidepath_env::Env;
use glidepath_model::{Action, Entry, Kind, Name, Need, View};

use super::commit::Plan;
use super::list::PAGE;
use super::read::Seen;
use super::{Snapshot, Tickets};
use crate::catalog::{LoadError, Outcome};
use crate::entry;
use crate::group::{GroupAttempt, Verdict};
use crate::mutant::{self, Mutant};

/// The most names of a commit of several requests.
const MOST_NAMES: usize = 256;

/// How often requests are decided again because something changed while they were.
const LOOKS: u32 = 4;

/// Requests decided one after another.
#[derive(Default)]
pub(super) struct Draft {
    /// What was read and is not used yet.
    ahead: BTreeMap<Name, Seen>,
    verdicts: Vec<Verdict>,
    view: View,
    /// The names in actions, and their namespaces.
    seen: BTreeMap<Name, Seen>,
    /// Those that are only namespaces of names in actions.
    only_parents: BTreeSet<Name>,
    /// Entries in namespaces to be dropped.
    inside: BTreeMap<Name, Seen>,
    /// Rosters that were read, with their ends.
    rosters: BTreeMap<Name, u64>,
    /// Namespaces that were dropped, perhaps to be created again.
    dropped: BTreeSet<Name>,
    /// Those of them that were dropped because nothing was in them.
    bare: BTreeSet<Name>,
    /// Names that were created, perhaps to be dropped again.
    created: BTreeSet<Name>,
    /// Whether something has come into one of the bare ones since that was decided.
    pub(super) is_late: bool,
}

impl<E: Env> Tickets<E> {
    pub(super) async fn attempt(&self, requests: &[&[Action]]) -> GroupAttempt<Snapshot> {
        let mut requests = requests;
        let mut looks = 0;
        loop {
            let (draft, plan) = match self.drafted(requests).await {
                Ok(drafted) => drafted,
                Err(error) => return GroupAttempt::NotMade(error),
            };
            let asks = |verdict: &Verdict, actions: &[Action]| {
                !matches!(verdict, Verdict::Fits) || Action::only_assert(actions)
            };
            // Requests that undo each other are committed, with intents that change nothing: each took effect.
            let undone = || draft.verdicts.iter().zip(requests).any(|(verdict, actions)| !asks(verdict, actions));
            let idle = plan.writes.is_empty() && (requests.len() == 1 || !undone());
            if requests.len() > 1 && plan.writes.len() > MOST_NAMES {
                requests = &requests[..requests.len() / 2];
                continue;
            }
            let answers = idle || draft.verdicts.iter().any(|verdict| !matches!(verdict, Verdict::Fits));
            if answers || draft.is_late {
                match self.still_holds(&draft).await {
                    Ok(true) => {}
                    Ok(false) if looks < LOOKS => {
                        looks += 1;
                        continue;
                    }
                    Ok(false) => {
                        let outcome = Some(Outcome::Conflict(None));
                        return GroupAttempt::Decided { verdicts: draft.verdicts, outcome };
                    }
                    Err(error) => return GroupAttempt::NotMade(error),
                }
            }
            let verdicts = draft.verdicts;
            // Nothing to send; decided since the call, so there is nothing to decide again.
            let outcome = if idle { Outcome::Committed(Snapshot::default()) } else { self.carry_out(plan).await };
            return GroupAttempt::Decided { verdicts, outcome: Some(outcome) };
        }
    }

    async fn drafted(&self, requests: &[&[Action]]) -> Result<(Draft, Plan), LoadError> {
        let mut draft = Draft { ahead: self.look_ahead(requests).await?, ..Draft::default() };
        self.decide_on(&mut draft, requests).await?;
        let plan = self.planned(&mut draft).await?;
        Ok((draft, plan))
    }

    pub(super) async fn decide_on(&self, draft: &mut Draft, requests: &[&[Action]]) -> Result<(), LoadError> {
        for request in requests {
            let actions = mutant::actions(request);
            self.fetch(draft, &actions).await?;
            let allowed = |name: &Name, entry: &Entry| entry::can_be_kept(entry::MOST_BYTES, name, entry);
            let verdict = match draft.view.apply_where(&actions, allowed) {
                Ok(()) => {
                    draft.note(&actions);
                    Verdict::Fits
                }
                Err(refusal) => Verdict::Refused(refusal),
            };
            draft.verdicts.push(verdict);
        }
        Ok(())
    }

    /// Reads at once what several requests need at first, though they are decided one after another.
    async fn look_ahead(&self, requests: &[&[Action]]) -> Result<BTreeMap<Name, Seen>, LoadError> {
        if requests.len() < 2 {
            return Ok(BTreeMap::new());
        }
        let needs = requests.iter().flat_map(|request| View::default().needs(&mutant::actions(request)));
        let names: BTreeSet<Name> = needs
            .filter_map(|need| match need {
                Need::Entry(name) => Some(name),
                Need::Children(..) => None,
            })
            .collect();
        let names: Vec<Name> = names.into_iter().collect();
        let seen = self.look_at(&names).await?;
        Ok(names.into_iter().zip(seen).collect())
    }

    /// Reads what these actions need.
    async fn fetch(&self, draft: &mut Draft, actions: &[Action]) -> Result<(), LoadError> {
        let mut named: BTreeSet<&Name> = actions.iter().map(Action::name).collect();
        named.extend(actions.iter().filter_map(|action| match action {
            Action::Rename { to, .. } => Some(to),
            _ => None,
        }));
        draft.only_parents.retain(|name| !named.contains(name));
        let (mut entries, mut children) = (Vec::new(), Vec::new());
        for need in draft.view.needs(actions) {
            match need {
                Need::Entry(name) => entries.push(name),
                Need::Children(namespace, most) => children.push((namespace, most)),
            }
        }
        let unseen: Vec<Name> = entries.iter().filter(|name| !draft.ahead.contains_key(*name)).cloned().collect();
        draft.ahead.extend(unseen.iter().cloned().zip(self.look_at(&unseen).await?));
        for name in &entries {
            let Some(seen) = draft.ahead.remove(name) else { continue };
            if !named.contains(name) {
                draft.only_parents.insert(name.clone());
            }
            draft.view.insert(name.clone(), seen.now().cloned());
            draft.seen.insert(name.clone(), seen);
        }
        for (namespace, most) in children {
            let there = self.look_inside(draft, &namespace, most).await?;
            let there = if mutant::is(Mutant::EmptinessIgnored) { Vec::new() } else { there };
            draft.view.insert_children(namespace, there, most);
        }
        Ok(())
    }

    /// Names that stand for something in a namespace: `most` of them, or all if there are fewer. That there are so many
    /// is decided by these alone: it stays true whatever else comes and goes.
    async fn look_inside(&self, draft: &mut Draft, namespace: &Name, most: usize) -> Result<Vec<Name>, LoadError> {
        let (end, names) = self.roster(Some(namespace)).await?;
        let (mut names, mut looked, mut there) = (names.iter(), BTreeMap::new(), Vec::new());
        while there.len() < most {
            let some: Vec<&Name> = names.by_ref().take(PAGE).collect();
            if some.is_empty() {
                draft.rosters.insert(namespace.clone(), end);
                draft.inside.extend(looked);
                return Ok(there);
            }
            let new: Vec<Name> = some.iter().filter(|name| draft.known(name).is_none()).copied().cloned().collect();
            let seen = self.look_at(&new).await?;
            looked.extend(new.into_iter().zip(seen));
            let stands =
                |name: &Name| draft.known(name).or_else(|| looked.get(name)).is_some_and(|seen| seen.now().is_some());
            there.extend(some.into_iter().filter(|name| stands(name)).cloned());
        }
        there.truncate(most);
        looked.retain(|name, _| there.contains(name));
        draft.inside.extend(looked);
        Ok(there)
    }

    pub(super) async fn planned(&self, draft: &mut Draft) -> Result<Plan, LoadError> {
        let mut plan = Plan::default();
        let mut namespaces = draft.view.gone().to_vec();
        while let Some(namespace) = namespaces.pop() {
            let known = draft.bare.contains(&namespace).then(|| draft.all_known());
            for name in self.look_inside(draft, &namespace, usize::MAX).await? {
                draft.is_late |= known.as_ref().is_some_and(|known| !known.contains(&name));
                let Some(seen) = draft.known(&name).cloned() else { continue };
                if seen.now().is_some_and(|entry| entry.kind == Kind::Namespace) {
                    draft.dropped.insert(name.clone());
                    namespaces.push(name.clone());
                }
                plan.writes.insert(name, (seen, None));
            }
        }
        for (name, _, now) in draft.view.changes() {
            let Some(seen) = draft.known(name).cloned() else { continue };
            plan.writes.insert(name.clone(), (seen, now.cloned()));
        }
        let is_namespace = |seen: &Seen| seen.now().is_some_and(|entry| entry.kind == Kind::Namespace);
        let written_over = plan.writes.iter().filter(|(_, (seen, after))| {
            is_namespace(seen) && after.as_ref().is_none_or(|entry| entry.kind != Kind::Namespace)
        });
        plan.emptied = written_over.map(|(name, _)| name.clone()).collect();
        let dropped = draft.dropped.iter().filter(|name| draft.known(name).is_some_and(is_namespace));
        plan.emptied.extend(dropped.cloned());
        // What came and went again leaves no intent in its namespace that who drops that would see.
        let is_left =
            |name: &Name| plan.writes.contains_key(name) || draft.known(name).is_some_and(|seen| seen.now().is_some());
        let passed = draft.created.iter().filter(|name| !is_left(name) && !mutant::is(Mutant::PassedNotHeld));
        let passed: BTreeSet<Name> = passed.filter_map(Name::parent).collect();
        for (name, seen) in &draft.seen {
            let parent = draft.only_parents.contains(name) && is_namespace(seen) && !passed.contains(name);
            if !parent && !plan.writes.contains_key(name) {
                plan.holds.insert(name.clone(), seen.clone());
            }
        }
        let created = plan.writes.iter().filter(|(_, (seen, after))| seen.now().is_none() && after.is_some());
        let parents = created.filter_map(|(name, _)| name.parent());
        let needed = |name: &Name| !plan.writes.contains_key(name) && !plan.holds.contains_key(name);
        plan.parents = parents.filter(needed).collect();
        let around = draft.seen.iter().filter(|(name, _)| plan.parents.contains(*name)).map(|(_, seen)| seen);
        let others = around.chain(draft.inside.values()).filter_map(Seen::undecided);
        plan.in_the_way = others.collect();
        Ok(plan)
    }

    /// Whether everything that was read was current together; of what is in namespaces, only what was decided by:
    /// whether there is something, of what kind.
    async fn still_holds(&self, draft: &Draft) -> Result<bool, LoadError> {
        if draft.is_late {
            return Ok(false);
        }
        if draft.seen.len() + draft.inside.len() + draft.rosters.len() <= 1 || mutant::is(Mutant::OneLook) {
            return Ok(true);
        }
        for (namespace, end) in &draft.rosters {
            if !self.roster_ends(Some(namespace), *end).await? {
                return Ok(false);
            }
        }
        Ok(self.remain(&draft.inside, &|_, entry| Some(entry.kind)).await? && self.are_same(&draft.seen).await?)
    }
}

impl Draft {
    fn known(&self, name: &Name) -> Option<&Seen> {
        self.seen.get(name).or_else(|| self.inside.get(name))
    }

    fn all_known(&self) -> BTreeSet<Name> {
        self.seen.keys().chain(self.inside.keys()).cloned().collect()
    }

    fn note(&mut self, actions: &[Action]) {
        for action in actions {
            if let Action::Drop { name, kind: Kind::Namespace, .. } = action {
                self.bare.insert(name.clone());
            }
            match action {
                Action::Drop { name, kind: Kind::Namespace, .. } | Action::DropAll { name } => {
                    self.dropped.insert(name.clone());
                }
                Action::Create { name, .. } | Action::Rename { to: name, .. } => {
                    self.created.insert(name.clone());
                }
                _ => {}
            }
        }
    }
}
