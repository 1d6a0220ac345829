//! Listings: all names of a roster, looked at twice.
//!
//! At first all must be as it was seen, so that all of it was current together. Where commits move tables all the time that may
//! never be. So after [`EXACT`] looks a name may have changed if it stood for a table, a view or a namespace all the time: then
//! these are the names of one moment, and what each stands for was current at a moment of its own.

use std::ops::Bound;

use glidepath_env::{Env, together_until};
use glidepath_model::{Entry, Kind, Name};

use super::Tickets;
use super::object::Slot;
use super::read::{Got, Seen, restless};
use crate::AT_ONCE;
use crate::catalog::LoadError;
use crate::mutant::{self, Mutant};

/// How often a listing is made again because something changed meanwhile.
const LOOKS: u32 = 8;

/// The looks in which nothing at all may change.
const EXACT: u32 = 2;

/// The most slots that a name may have got between two looks.
const MOST_SLOTS: u64 = 1000;

/// Names read before it is clear that more are needed.
const PAGE: usize = 128;

/// Names as they were seen, and the rosters that name them, with their ends.
#[derive(Default)]
struct Scan {
    seen: Vec<(Name, Seen)>,
    rosters: Vec<(Option<Name>, u64)>,
}

impl<E: Env> Tickets<E> {
    pub(super) async fn listed_children(
        &self,
        namespace: Option<&Name>,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, LoadError> {
        for look in 0..LOOKS {
            let mut scan = Scan::default();
            let (end, names) = self.roster(namespace).await?;
            scan.rosters.push((namespace.cloned(), end));
            let first = after.map_or(Bound::Unbounded, Bound::Excluded);
            let (mut names, mut found) = (names.range((first, Bound::Unbounded)), Vec::new());
            while found.len() < limit {
                let some: Vec<Name> = names.by_ref().take(PAGE).cloned().collect();
                if some.is_empty() {
                    break;
                }
                for (name, seen) in some.iter().zip(self.look_at(&some).await?) {
                    found.extend(seen.now().map(|entry| (name.clone(), entry.clone())));
                    scan.seen.push((name.clone(), seen));
                }
            }
            if self.is_unchanged(&scan, look < EXACT).await? {
                found.truncate(limit);
                return Ok(found);
            }
        }
        Err(restless())
    }

    /// The names of all entries that `wanted` selects: by their kind alone, or by what may change.
    pub(super) async fn selected(
        &self,
        by_kind: bool,
        wanted: impl Fn(&Entry) -> bool,
    ) -> Result<Vec<Name>, LoadError> {
        for look in 0..LOOKS {
            let (mut scan, mut found, mut namespaces) = (Scan::default(), Vec::new(), vec![None]);
            while let Some(namespace) = namespaces.pop() {
                let (end, names) = self.roster(namespace.as_ref()).await?;
                let names: Vec<Name> = names.iter().cloned().collect();
                for (name, seen) in names.iter().zip(self.look_at(&names).await?) {
                    if let Some(entry) = seen.now() {
                        if wanted(entry) {
                            found.push(name.clone());
                        }
                        if entry.kind == Kind::Namespace {
                            namespaces.push(Some(name.clone()));
                        }
                    }
                    scan.seen.push((name.clone(), seen));
                }
                scan.rosters.push((namespace, end));
            }
            if self.is_unchanged(&scan, look < EXACT || !by_kind).await? {
                return Ok(found);
            }
        }
        Err(restless())
    }

    /// Whether all of it was current together, at a moment before this call; or the names were, if it need not be exact.
    async fn is_unchanged(&self, scan: &Scan, exact: bool) -> Result<bool, LoadError> {
        if mutant::is(Mutant::OneLook) {
            return Ok(true);
        }
        for (namespace, end) in &scan.rosters {
            if !self.roster_ends(namespace.as_ref(), *end).await? {
                return Ok(false);
            }
        }
        let seen = scan.seen.iter().map(|(name, seen)| (name, seen));
        if exact {
            return self.are_same(seen).await;
        }
        let gone = |there: &Result<bool, LoadError>| !matches!(there, Ok(true));
        let there = together_until(AT_ONCE, seen, |(name, seen)| self.was_there(name, seen), gone).await;
        there.into_iter().find(gone).unwrap_or(Ok(true))
    }

    /// Whether a name stood for the same kind of entry, or for none, from when it was seen until now. Each slot in between must be
    /// readable, and none may be of a drop, also of one that is not decided.
    async fn was_there(&self, name: &Name, seen: &Seen) -> Result<bool, LoadError> {
        if self.is_same(name, seen).await? {
            return Ok(true);
        }
        let (Some(first), Some(entry)) = (&seen.slot, seen.now()) else { return Ok(false) };
        let is_kind = |entry: &Option<Entry>, kind| entry.as_ref().is_some_and(|entry| entry.kind == kind);
        let intended = |slot: &Slot| slot.intent.as_ref().is_none_or(|intent| is_kind(&intent.after, entry.kind));
        let stays = |slot: &Slot| is_kind(&slot.settled, entry.kind) && intended(slot);
        let now = self.look(name).await?;
        if !intended(first) || now.number() - first.number > MOST_SLOTS {
            return Ok(false);
        }
        let slots = first.number + 1..=now.number();
        let other = |got: &Result<Got, LoadError>| !matches!(got, Ok(Got::Slot(slot)) if stays(slot));
        let got = together_until(AT_ONCE, slots, |number| self.slot(name, number), other).await;
        match got.into_iter().find(other) {
            Some(Err(error)) => Err(error),
            Some(Ok(_)) => Ok(false),
            None => Ok(true),
        }
    }
}
