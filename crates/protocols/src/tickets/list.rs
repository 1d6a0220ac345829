//! Listings: all names of a roster, looked at twice.
//!
//! What a listing makes of each name must be the same at both looks and in every slot between them. Then all of it was
//! so together, at the moment between the two. A commit that changes nothing of it is not in the way: where commits
//! move tables all the time, their names can be listed, and what is in the entries perhaps cannot.
//!
//! If it was not so together, only names that changed, and new ones, are looked at again.

use std::collections::BTreeMap;
use std::ops::Bound;

use glidepath_env::{Env, together_until};
use glidepath_model::{Entry, Name};

use super::Tickets;
use super::object::Slot;
use super::read::{Got, Seen, restless};
use crate::AT_ONCE;
use crate::catalog::{LoadError, found_or_inside};
use crate::mutant::{self, Mutant};

/// How often a listing looks at all its names, at most.
const LOOKS: u32 = 32;

/// Names read before it is clear that more are needed.
pub(super) const PAGE: usize = 128;

/// The most slots that a name may have got between two looks.
const MOST_SLOTS: u64 = 1000;

impl<E: Env> Tickets<E> {
    /// See [`Catalog::list`](crate::Catalog::list).
    pub(super) async fn listed<T: PartialEq>(
        &self,
        namespace: Option<&Name>,
        after: Option<&Name>,
        limit: usize,
        what: impl Fn(&Name, &Entry) -> Option<T>,
    ) -> Result<Vec<(Name, T)>, LoadError> {
        let first = after.map_or(Bound::Unbounded, Bound::Excluded);
        let mut seen = BTreeMap::new();
        for _ in 0..LOOKS {
            let (end, names) = self.roster(namespace).await?;
            let names = names.range((first, Bound::Unbounded));
            let found = self.first_of(names, limit, &what, &mut seen).await?;
            // Names behind a full page do not count.
            let last = if found.len() < limit { None } else { found.last().map(|(name, _)| name) };
            if self.held(&[(namespace.cloned(), end)], &mut seen, last, &what).await? {
                return Ok(found);
            }
        }
        Err(restless())
    }

    /// What is made of the first of these names. Those that were `seen` before are not looked at again.
    async fn first_of<'a, T>(
        &self,
        mut names: impl Iterator<Item = &'a Name>,
        limit: usize,
        what: &impl Fn(&Name, &Entry) -> Option<T>,
        seen: &mut BTreeMap<Name, Seen>,
    ) -> Result<Vec<(Name, T)>, LoadError> {
        let mut found = Vec::new();
        while found.len() < limit {
            let some: Vec<&Name> = names.by_ref().take(PAGE).collect();
            if some.is_empty() {
                break;
            }
            let new: Vec<Name> =
                some.iter().filter(|name| !seen.contains_key(**name)).map(|name| (*name).clone()).collect();
            let looked = self.look_at(&new).await?;
            seen.extend(new.into_iter().zip(looked));
            found.extend(some.into_iter().filter_map(|name| {
                let made = what(name, seen.get(name)?.now()?)?;
                Some((name.clone(), made))
            }));
        }
        found.truncate(limit);
        Ok(found)
    }

    /// See [`Catalog::search`](crate::Catalog::search).
    pub(super) async fn searched(
        &self,
        enters: impl Fn(&Name) -> bool,
        wanted: impl Fn(&Name, &Entry) -> bool,
    ) -> Result<Vec<Name>, LoadError> {
        let what = found_or_inside(enters, wanted);
        let mut seen = BTreeMap::new();
        for _ in 0..LOOKS {
            let (found, rosters) = self.walk(&what, &mut seen).await?;
            if self.held(&rosters, &mut seen, None, &what).await? {
                return Ok(found);
            }
        }
        Err(restless())
    }

    /// What is found in all namespaces, and their rosters with their ends. Names that were `seen` before are not looked
    /// at again.
    async fn walk(
        &self,
        what: &impl Fn(&Name, &Entry) -> Option<(bool, bool)>,
        seen: &mut BTreeMap<Name, Seen>,
    ) -> Result<(Vec<Name>, Vec<(Option<Name>, u64)>), LoadError> {
        let (mut all, mut rosters, mut namespaces) = (Vec::new(), Vec::new(), vec![None]);
        while let Some(namespace) = namespaces.pop() {
            let (end, names) = self.roster(namespace.as_ref()).await?;
            for (name, (found, inside)) in self.first_of(names.iter(), usize::MAX, what, seen).await? {
                if found {
                    all.push(name.clone());
                }
                if inside {
                    namespaces.push(Some(name));
                }
            }
            rosters.push((namespace, end));
        }
        Ok((all, rosters))
    }

    /// Whether all of it was so together: no roster has grown since it was read, and the same is made of each name, up
    /// to the `last` one. Names of which that does not hold are forgotten.
    async fn held<T: PartialEq>(
        &self,
        rosters: &[(Option<Name>, u64)],
        seen: &mut BTreeMap<Name, Seen>,
        last: Option<&Name>,
        what: &impl Fn(&Name, &Entry) -> Option<T>,
    ) -> Result<bool, LoadError> {
        if mutant::is(Mutant::OneLook) {
            return Ok(true);
        }
        if !self.all_end(rosters).await? {
            return Ok(false);
        }
        let asked = seen.range(..).take_while(|(name, _)| last.is_none_or(|last| *name <= last));
        let same = together_until(AT_ONCE, asked, |(name, seen)| self.remains(name, seen, what), Result::is_err).await;
        let same = same.into_iter().collect::<Result<Vec<bool>, LoadError>>()?;
        let changed = seen.keys().zip(same).filter(|(_, same)| !same);
        let changed: Vec<Name> = changed.map(|(name, _)| name.clone()).collect();
        for name in &changed {
            seen.remove(name);
        }
        Ok(changed.is_empty())
    }

    async fn all_end(&self, rosters: &[(Option<Name>, u64)]) -> Result<bool, LoadError> {
        for (namespace, end) in rosters {
            if !self.roster_ends(namespace.as_ref(), *end).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether the same was made of each name from when it was seen until this call.
    pub(super) async fn remain<T: PartialEq>(
        &self,
        seen: &BTreeMap<Name, Seen>,
        what: &impl Fn(&Name, &Entry) -> Option<T>,
    ) -> Result<bool, LoadError> {
        if mutant::is(Mutant::OneLook) {
            return Ok(true);
        }
        let changed = |same: &Result<bool, LoadError>| !matches!(same, Ok(true));
        let same = together_until(AT_ONCE, seen, |(name, seen)| self.remains(name, seen, what), changed).await;
        same.into_iter().find(changed).unwrap_or(Ok(true))
    }

    /// Each slot since then must be readable, and be the same whatever becomes of the intent in it.
    async fn remains<T: PartialEq>(
        &self,
        name: &Name,
        seen: &Seen,
        what: &impl Fn(&Name, &Entry) -> Option<T>,
    ) -> Result<bool, LoadError> {
        if self.is_same(name, seen).await? || mutant::is(Mutant::AnySlots) {
            return Ok(true);
        }
        let made = |entry: Option<&Entry>| entry.and_then(|entry| what(name, entry));
        let was = made(seen.now());
        let intends = |slot: &Slot| slot.intent.as_ref().is_none_or(|intent| made(intent.after.as_ref()) == was);
        let stays = |slot: &Slot| made(slot.settled.as_ref()) == was && intends(slot);
        let newest = self.look(name).await?.number();
        if !seen.slot.as_deref().is_none_or(intends) || newest.saturating_sub(seen.number()) > MOST_SLOTS {
            return Ok(false);
        }
        let other = |got: &Result<Got, LoadError>| !matches!(got, Ok(Got::Slot(slot)) if stays(slot));
        let slots = seen.number() + 1..=newest;
        let got = together_until(AT_ONCE, slots, |number| self.slot(name, number), other).await;
        match got.into_iter().find(other) {
            Some(Err(error)) => Err(error),
            Some(Ok(_)) => Ok(false),
            None => Ok(true),
        }
    }
}
