//! Who is about to have files in a folder?
//!
//! A table or a view may get a folder that its client names: when it is created or registered there, or moves there.
//! Before the commit that gives it the folder, another one may get it too, or a purge may delete the files that a
//! registration has found, however long a server sleeps in between. So the folder is claimed first, in an entry of the
//! catalog that is found by the location; then the server looks whether another table is there. Its commit asserts that
//! the claim is still there, and removes it.
//!
//! * Who claims looks at all other claims afterwards. So of two that claim folders one of which is in the other, at
//!   least one sees the other, and is refused: try again later.
//! * A claim that is older than a minute holds up nobody: the commit of who sees it removes it, and so refuses the
//!   commit of whoever made it.
//! * A purge that has deleted files removes the claims in and around its location in the commit that ends it. So a
//!   registration that was claimed before then is refused, and one that is claimed later does not find the files.
//! * Without versions of the catalog the look for other tables reads names one after the other. So that it misses none
//!   that moves, a rename asserts that there is no claim of the table's location.
//! * A claim that its server has left behind is removed after an hour.

use std::collections::{BTreeMap, BTreeSet};

use glidepath_env::Env;
use glidepath_model::{Action, Assertion, Entry, Kind as EntryKind, Name, Refusal};
use glidepath_protocols::group::{CommitError, Grouped};
use glidepath_table::Files;

use crate::cleaning::{AT, written};
use crate::error::{Kind, Proof, ServiceError};
use crate::locations::meet;
use crate::mutant::{self, Mutant};
use crate::names::{is_own, lacks_own, own_name};
use crate::purge::{self, digest};
use crate::{Inner, Service, leaving};

/// The namespace of claims, in that of the service.
pub(crate) const FOLDER: &str = "claims";

const LOCATION: &str = "folder";

/// How long others wait for a claim: who made it may read every entry of a large catalog.
const PATIENCE_MS: u64 = 60 * 1000;

/// How long a claim is kept at least.
const LIFETIME_MS: u64 = 60 * 60 * 1000;

/// The most parts of a location that is claimed: its commit asserts something of the folder of each.
const MOST_PARTS: usize = 100;

/// The most claims that are looked at. Each takes its client a look at the whole catalog, so there are few.
const MOST: usize = 10_000;

/// A claim of one folder or several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    names: BTreeSet<Name>,
    /// Tells it from others of the same locations.
    mark: String,
    /// Old claims in or around the locations, with their marks.
    old: BTreeMap<Name, Option<String>>,
}

impl Claim {
    /// The actions of the commit that gives the folders to a table: the claim must still be there, and is no longer.
    pub(crate) fn ends(&self) -> Vec<Action> {
        if mutant::is(Mutant::ClaimNotAsserted) {
            return Vec::new();
        }
        let old = self.old.iter().flat_map(|(name, mark)| removed(name, mark.clone()));
        self.removal().into_iter().chain(old).collect()
    }

    fn removal(&self) -> Vec<Action> {
        self.names.iter().flat_map(|name| removed(name, Some(self.mark.clone()))).collect()
    }
}

fn name(location: &str) -> Result<Name, ServiceError> {
    own_name([FOLDER, &digest(location)])
}

/// Removes a claim, if it is this one.
pub(crate) fn removed(name: &Name, mark: Option<String>) -> [Action; 2] {
    let same = Action::Assert { name: name.clone(), holds: Assertion::Pointer(mark) };
    [same, Action::Drop { name: name.clone(), kind: EntryKind::Table, expected: None }]
}

/// An entry of this time, with a location if one is given.
pub(crate) fn timed(now_ms: u64, location: Option<&str>, pointer: Option<String>) -> Entry {
    let location = location.map(|location| (LOCATION.to_owned(), location.to_owned()));
    let properties = [(AT.to_owned(), now_ms.to_string())].into_iter().chain(location).collect();
    Entry { kind: EntryKind::Table, properties, pointer, ..Entry::namespace() }
}

/// The change of an entry of [`timed`] to this time.
pub(crate) fn timed_again(name: Name, now_ms: u64) -> Action {
    Action::SetProperties { name, changes: [(AT.to_owned(), Some(now_ms.to_string()))].into() }
}

/// The answer to a request that is refused by a claim.
pub(crate) fn told(refusal: &Refusal) -> Option<ServiceError> {
    match refusal {
        Refusal::Exists(name) | Refusal::NotFound(name) | Refusal::PointerMoved { name, .. }
            if is_own(name, FOLDER) =>
        {
            Some(claimed())
        }
        _ => None,
    }
}

fn claimed() -> ServiceError {
    let words = "another request is about to give this location, or one in or around it, to a table or a view, or the files in it \
                 have been deleted; not done: try again later";
    ServiceError::new(Kind::Unavailable, words)
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// Claims these folders, all at once. Who calls this looks for other tables and for files afterwards, commits with
    /// the actions of [`Claim::ends`], and then calls [`settle_claim`](Self::settle_claim).
    pub(crate) async fn claim(&self, locations: &[&str]) -> Result<Claim, ServiceError> {
        let now = self.env.unix_ms();
        let mark = self.fresh_uuid().to_string();
        let at = self.head().await?;
        let (mut actions, mut names) = (Vec::new(), BTreeSet::new());
        for location in locations {
            let parts = location.split('/').count();
            if parts > MOST_PARTS {
                let words = format!("the location {location:?} has {parts} parts; at most {MOST_PARTS} are allowed");
                return Err(ServiceError::invalid(words));
            }
            let name = name(location)?;
            if !names.insert(name.clone()) {
                continue;
            }
            if let Some(other) = self.committer.catalog().entry(&at, &name).await? {
                if is_young(&other, now) {
                    return Err(claimed());
                }
                actions.extend(removed(&name, other.pointer));
            }
            actions.push(Action::Create { name, entry: timed(now, Some(location), Some(mark.clone())) });
        }
        match self.committer.commit(actions).await {
            Ok(_) => {}
            Err(CommitError::Refused(refusal)) if !lacks_own(&refusal) => return Err(claimed()),
            // Nothing that the client asked for was done.
            Err(error) => {
                return Err(ServiceError::new(Kind::Unavailable, format!("not done, try again later: {error}")));
            }
        }
        let mut claim = Claim { names, mark, old: BTreeMap::new() };
        let looked = match self.none_runs_inside(locations).await {
            Ok(()) => self.others(locations).await,
            Err(error) => Err(error),
        };
        match looked {
            Ok(others) => {
                let others = others.into_iter().filter(|(name, _)| !claim.names.contains(name));
                let (young, old): (Vec<_>, Vec<_>) = others.partition(|(_, other)| is_young(other, now));
                if !young.is_empty() && !mutant::is(Mutant::ClaimsUnseen) {
                    self.release(&claim).await;
                    return Err(claimed());
                }
                claim.old.extend(old.into_iter().map(|(name, other)| (name, other.pointer)));
                Ok(claim)
            }
            Err(error) => {
                self.release(&claim).await;
                Err(error)
            }
        }
    }

    /// The conditions that nobody claims a location, in a commit that removes an old claim of it.
    pub(crate) async fn nobody_claims(&self, location: &str) -> Result<Vec<Action>, ServiceError> {
        let (at, name) = (self.head().await?, name(location)?);
        match self.committer.catalog().entry(&at, &name).await? {
            Some(claim) if is_young(&claim, self.env.unix_ms()) => Err(claimed()),
            Some(old) => Ok(removed(&name, old.pointer).into()),
            None => Ok(vec![Action::Assert { name, holds: Assertion::Absent }]),
        }
    }

    /// The claims of folders in or around these locations.
    async fn others(&self, locations: &[&str]) -> Result<Vec<(Name, Entry)>, ServiceError> {
        let at = self.head().await?;
        let which = |_: &Name, entry: &Entry| {
            let other = entry.properties.get(LOCATION)?;
            locations.iter().any(|location| meet(other, location)).then(|| entry.clone())
        };
        Ok(self.committer.catalog().list(&at, Some(&own_name([FOLDER])?), None, MOST, which).await?)
    }

    /// Removes a claim, unless its commit has done that or may still do it.
    pub(crate) async fn settle_claim<T>(&self, claim: Option<Claim>, answer: &Result<T, ServiceError>) {
        let unknown = answer.as_ref().is_err_and(|error| error.kind.proof() == Proof::Unknown);
        if let (Some(claim), false) = (claim, unknown) {
            self.release(&claim).await;
        }
    }

    /// Removes a claim if it is there. If this fails, it is removed later.
    pub(crate) async fn release(&self, claim: &Claim) {
        let Ok(at) = self.head().await else { return };
        // The end of a purge may have removed some of them.
        let mut left = Vec::new();
        for name in &claim.names {
            if let Ok(Some(entry)) = self.committer.catalog().entry(&at, name).await
                && entry.pointer.as_ref() == Some(&claim.mark)
            {
                left.extend(removed(name, entry.pointer));
            }
        }
        if !left.is_empty() {
            let _ = self.committer.commit(left).await;
        }
    }

    /// The actions of the end of a purge that deleted files in a location: they end the claims there, and in and around
    /// it. A commit with them is refused if one has ended since they were made.
    pub(crate) async fn ends_of_claims(&self, location: &str) -> Result<Vec<Action>, ServiceError> {
        let others = self.others(&[location]).await?;
        Ok(others.into_iter().flat_map(|(name, entry)| removed(&name, entry.pointer)).collect())
    }
}

/// Whether others wait for a claim. A clock that is wrong keeps nobody out for longer.
fn is_young(claim: &Entry, now_ms: u64) -> bool {
    written(claim).abs_diff(now_ms) < PATIENCE_MS
}

impl<E: Env, C: Grouped, F: Files> Service<E, C, F> {
    /// Removes claims that were left behind, old marks of purges, and old last files of tables.
    pub(crate) async fn clean_claims(&self) -> Result<(), ServiceError> {
        // Those have no lifetime: whoever does what they say removes them.
        self.inner.committer.catalog().trim(Some(&own_name([purge::FOLDER])?)).await?;
        self.clean(FOLDER, LIFETIME_MS).await?;
        for marks in purge::MARKS.into_iter().chain([leaving::FOLDER]) {
            self.clean(marks, purge::MARKED_MS).await?;
        }
        Ok(())
    }
}
