//! Listings: all names of a roster, looked at twice.

use std::ops::Bound;

use glidepath_env::Env;
use glidepath_model::{Entry, Kind, Name};

use super::Tickets;
use super::read::{Seen, restless};
use crate::catalog::LoadError;
use crate::mutant::{self, Mutant};

/// How often a listing is made again because something changed meanwhile.
const LOOKS: u32 = 8;

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
        for _ in 0..LOOKS {
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
            if self.is_unchanged(&scan).await? {
                found.truncate(limit);
                return Ok(found);
            }
        }
        Err(restless())
    }

    /// The names of all entries that `wanted` selects.
    pub(super) async fn selected(&self, wanted: impl Fn(&Entry) -> bool) -> Result<Vec<Name>, LoadError> {
        for _ in 0..LOOKS {
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
            if self.is_unchanged(&scan).await? {
                return Ok(found);
            }
        }
        Err(restless())
    }

    /// Whether all of it was current together, at a moment before this call.
    async fn is_unchanged(&self, scan: &Scan) -> Result<bool, LoadError> {
        if mutant::is(Mutant::OneLook) {
            return Ok(true);
        }
        for (namespace, end) in &scan.rosters {
            if !self.roster_ends(namespace.as_ref(), *end).await? {
                return Ok(false);
            }
        }
        self.are_same(scan.seen.iter().map(|(name, seen)| (name, seen))).await
    }
}
