//! Deleting the files of dropped tables.
//!
//! The commit that drops a table also notes its location and its last metadata file, so the purge survives the server.
//! Any server runs it later. Nothing that a table refers to is deleted, because
//!
//! * new tables get folders of their own, and a table can neither be created in nor registered from a location that is
//!   noted: its commit asserts that there is no such note;
//! * before deleting, the purge looks through the catalog for tables that have files in or around the noted location
//!   ([places](crate::placing)). If there is one, nothing is deleted, and the note is removed;
//! * only files that the dropped metadata names, and that are in the table's own folder, are deleted; with
//!   `gc.enabled=false` none of data;
//! * the files of a Lance table are found by listing its folder instead. So no table can be created in a folder below a
//!   noted location either; only those files are deleted that are where Lance puts them; and because another server may
//!   be at the same purge, and have slept, the location is marked for a day, in which nobody can name it.
//!
//! `sweep` says in which order. The note is removed after the last file, in a commit that ends the
//! [claims](crate::claims) of who may have found the files before. A purge that is cut off is begun again.

mod sweep;

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt as _;
use glidepath_env::Env;
use glidepath_model::{Action, Assertion, Entry, Kind as EntryKind, Name, Refusal};
use glidepath_protocols::group::{CommitError, Grouped};
use glidepath_table::Files;
use iceberg::spec::TableMetadata;
use sha2::{Digest as _, Sha256};

use crate::cleaning::{AT, written};
use crate::error::{Kind, ServiceError};
use crate::locations::{is_within, unslashed};
use crate::mutant::{self, Mutant};
use crate::names::{is_own, lacks_own, own_name};
use crate::{Inner, Service, claims};
use sweep::{Kept, Sweep};

/// The namespace of notes, in that of the service.
pub(crate) const FOLDER: &str = "purges";

/// Those of marks of purges that have ended: of all, and of those that found what to delete by listing a folder.
pub(crate) const MARKS: [&str; 2] = [PURGED, EMPTIED];
const PURGED: &str = "purged";
const EMPTIED: &str = "emptied";

/// How long a mark is kept: longer than a write, or a server that has stopped, is under way.
pub(crate) const MARKED_MS: u64 = 24 * 60 * 60 * 1000;

const LOCATION: &str = "location";
const POINTER: &str = "metadata";
/// The format of a table whose files are found by listing.
const FORMAT: &str = "format";

/// How long after the drop the files stay, by the clock of the server that purges: commits in flight are over by then,
/// and short readers have finished. A longer read fails.
pub(crate) const GRACE_MS: u64 = 60 * 1000;

/// The note of a purge: it is found by the location, so that a creation there can see it.
fn name(location: &str) -> Result<Name, ServiceError> {
    own_name([FOLDER, &digest(location)])
}

/// A name for a location, which is longer than names may be: 128 bits of its SHA-256. Clients choose locations, and
/// nobody finds two that have the same name.
pub(crate) fn digest(location: &str) -> String {
    let location = unslashed(location.trim_end_matches('/'));
    Sha256::digest(location).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// The action that notes a purge.
pub(crate) fn noted(location: &str, pointer: &str, now_ms: u64) -> Result<Action, ServiceError> {
    noted_with(location, (POINTER, pointer), now_ms)
}

/// The action that notes a purge of a table whose files are found by listing.
pub(crate) fn noted_listed(location: &str, format: &str, now_ms: u64) -> Result<Action, ServiceError> {
    noted_with(location, (FORMAT, format), now_ms)
}

fn noted_with(location: &str, (key, value): (&str, &str), now_ms: u64) -> Result<Action, ServiceError> {
    let properties = [(LOCATION, location.to_owned()), (key, value.to_owned()), (AT, now_ms.to_string())];
    let properties = properties.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
    // The pointer tells this note from an earlier and a later one of the same location.
    let pointer = Some(format!("{now_ms} {value}"));
    let entry = Entry { kind: EntryKind::Table, properties, pointer, ..Entry::namespace() };
    Ok(Action::Create { name: name(location)?, entry })
}

/// The conditions that no purge runs at a location, nor at a folder of the warehouse that it is in.
pub(crate) fn none_runs(location: &str, warehouse: &str) -> Result<Vec<Action>, ServiceError> {
    if mutant::is(Mutant::CreatedBesidePurge) {
        return Ok(Vec::new());
    }
    absent(FOLDER, location, warehouse)
}

/// The conditions that no folder has lately been emptied by a purge that is, or has, this location. A server that slept
/// may still be deleting what is where Lance puts files, whoever has put it there.
pub(crate) fn none_emptied(location: &str, warehouse: &str) -> Result<Vec<Action>, ServiceError> {
    absent(EMPTIED, location, warehouse)
}

/// The condition that the files in a location have not been deleted lately.
pub(crate) fn none_ended(location: &str) -> Result<Action, ServiceError> {
    Ok(Action::Assert { name: own_name([PURGED, &digest(location)])?, holds: Assertion::Absent })
}

/// The conditions that nothing is there for a location, nor for a folder of the warehouse that it is in.
fn absent(folder: &str, location: &str, warehouse: &str) -> Result<Vec<Action>, ServiceError> {
    let whole = unslashed(location.trim_end_matches('/'));
    let warehouse = unslashed(warehouse.trim_end_matches('/'));
    let (mut conditions, mut place) = (Vec::new(), whole.as_str());
    loop {
        conditions.push(Action::Assert { name: own_name([folder, &digest(place)])?, holds: Assertion::Absent });
        match place.rsplit_once('/') {
            Some((outer, _)) if outer != warehouse && is_within(outer, &warehouse) => place = outer,
            _ => return Ok(conditions),
        }
    }
}

/// The conditions for a metadata file that is not in the folder of the one before: a table may move.
pub(crate) fn none_runs_where(before: &str, file: &str, warehouse: &str) -> Result<Vec<Action>, ServiceError> {
    let folder = |file: &str| file.rsplit_once('/').map(|(folder, _)| folder.to_owned()).unwrap_or_default();
    if folder(before) == folder(file) { Ok(Vec::new()) } else { none_runs(&folder(file), warehouse) }
}

/// The answer to a request that is refused by a purge.
pub(crate) fn told(refusal: &Refusal) -> Option<ServiceError> {
    let Refusal::Exists(name) = refusal else { return None };
    if is_own(name, FOLDER) {
        return Some(runs());
    }
    let words = "the files of a dropped table at this location have been deleted within the last day; not done: use another \
                 location, or try again later";
    MARKS.iter().any(|folder| is_own(name, folder)).then(|| ServiceError::new(Kind::Unavailable, words))
}

fn runs() -> ServiceError {
    let words = "the files of a dropped table at this location are being deleted; not done: use another location, or try again \
                 later";
    ServiceError::new(Kind::Unavailable, words)
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// Refuses locations in which the folder of a dropped table is being purged. What is asserted with [`none_runs`] is
    /// that they are not in such a folder.
    pub(crate) async fn none_runs_inside(&self, locations: &[&str]) -> Result<(), ServiceError> {
        let at = self.head().await?;
        let inside = |_: &Name, note: &Entry| {
            let of = note.properties.get(LOCATION)?;
            locations.iter().any(|location| is_within(of, location)).then_some(())
        };
        let notes = own_name([FOLDER])?;
        match self.committer.catalog().list(&at, Some(&notes), None, 1, inside).await?.is_empty() {
            true => Ok(()),
            false => Err(runs()),
        }
    }
}

/// What purges did.
#[derive(Clone, Debug, Default)]
pub struct Purged {
    /// How many purges ended.
    pub ended: usize,
    /// Files of the dropped tables that stay, with what they name: those that cannot be read, and those that lead to
    /// them. At most 1,000.
    pub kept: Vec<String>,
    /// The first failure: of a purge, or of what reads the notes of purges. Other purges went on.
    pub failed: Option<ServiceError>,
}

/// The files in [`Purged::kept`], at most.
const MOST_TOLD: usize = 1000;

impl<E: Env, C: Grouped, F: Files> Service<E, C, F> {
    /// Runs the purges that are due. It may be called again, also by several servers at once.
    pub async fn run_purges(&self) -> Purged {
        let mut purged = Purged::default();
        let ended = self.run_each(&mut purged).await;
        purged.failed = purged.failed.or(ended.err());
        purged
    }

    async fn run_each(&self, purged: &mut Purged) -> Result<(), ServiceError> {
        let at = self.head().await?;
        let notes = own_name([FOLDER])?;
        let catalog = self.inner.committer.catalog();
        let mut after = None;
        loop {
            let page = catalog.children(&at, Some(&notes), after.as_ref(), 100).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.clone());
            for (name, entry) in page {
                // One that fails each time holds up no other, also if the library for Iceberg panics at what it reads.
                let failed = match AssertUnwindSafe(self.run_purge(name, &entry)).catch_unwind().await {
                    Ok(Ok(None)) => continue,
                    Ok(Ok(Some(kept))) => {
                        purged.ended += 1;
                        purged.kept.extend(kept);
                        purged.kept.truncate(MOST_TOLD);
                        continue;
                    }
                    Ok(Err(error)) => error,
                    Err(_) => ServiceError::new(Kind::Broken, "a purge panicked"),
                };
                purged.failed.get_or_insert(failed);
            }
        }
        self.clean_claims().await
    }

    /// Runs a purge if it is due, and its note is still there: it was read before the purges of others, which may have
    /// taken days. Returns what it kept, if it ended.
    async fn run_purge(&self, note: Name, entry: &Entry) -> Result<Option<Kept>, ServiceError> {
        let (began, at) = (self.inner.env.unix_ms(), self.head().await?);
        let now = self.entry(&at, &note).await?;
        if now.is_none_or(|now| now.pointer != entry.pointer) {
            return Ok(None);
        }
        let due = written(entry).saturating_add(GRACE_MS) <= began;
        let (Some(location), true) = (entry.properties.get(LOCATION), due) else { return Ok(None) };
        if !self.end_claims(&note, entry, location).await? {
            return Ok(None);
        }
        let used = !self.inner.used_by(&[location.as_str()], &[]).await?.is_empty();
        // Metadata elsewhere may be another table's: this one has moved, or was registered.
        let moved = entry.properties.get(POINTER).is_some_and(|pointer| !is_within(pointer, location));
        let (mut marks, mut kept): (&[&str], _) = (&[], Kept::new());
        if !used && !moved {
            match (entry.properties.get(POINTER), entry.properties.get(FORMAT)) {
                (Some(pointer), _) => {
                    let sweep = Sweep::of(&self.inner, (&note, entry.pointer.as_deref()), (location, pointer));
                    match sweep.run().await? {
                        Some(left) => kept = left,
                        None => return Ok(None),
                    }
                    marks = &[PURGED];
                }
                (None, Some(_)) => {
                    self.inner.purge_lance(location, began).await?;
                    marks = &MARKS;
                }
                (None, None) => return Ok(None),
            }
        }
        self.end_purge(note, entry.pointer.clone(), (location, marks)).await?;
        Ok(Some(kept))
    }

    /// Ends the claims in and around a location whose files are about to be deleted: who claimed it before this purge
    /// was noted may not have seen the note. Who claims it later does. `false` if a claim or the note has ended
    /// meanwhile.
    async fn end_claims(&self, note: &Name, entry: &Entry, location: &str) -> Result<bool, ServiceError> {
        let ends = self.inner.ends_of_claims(location).await?;
        if ends.is_empty() || mutant::is(Mutant::PurgeForgotten) {
            return Ok(true);
        }
        let same = Action::Assert { name: note.clone(), holds: Assertion::Pointer(entry.pointer.clone()) };
        match self.inner.committer.commit([vec![same], ends].concat()).await {
            Ok(_) => Ok(true),
            Err(CommitError::Refused(refusal)) if !lacks_own(&refusal) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the note of a purge. If files were deleted, it ends the claims there, and marks the location. Not a note
    /// of a later purge: another server may be deleting files because of that.
    async fn end_purge(
        &self,
        note: Name,
        pointer: Option<String>,
        (location, marks): (&str, &[&str]),
    ) -> Result<(), ServiceError> {
        let same = Action::Assert { name: note.clone(), holds: Assertion::Pointer(pointer) };
        let drop = Action::Drop { name: note.clone(), kind: EntryKind::Table, expected: None };
        for _ in 0..self.inner.settings.attempts {
            let mut actions = vec![same.clone(), drop.clone()];
            if !marks.is_empty() && !mutant::is(Mutant::PurgeForgotten) {
                actions.extend(self.inner.ends_of_claims(location).await?);
                actions.extend(self.inner.marked(location, marks).await?);
            }
            match self.inner.committer.commit(actions).await {
                // Another server was faster.
                Err(CommitError::Refused(Refusal::NotFound(name) | Refusal::PointerMoved { name, .. }))
                    if name == note =>
                {
                    return Ok(());
                }
                // A claim or a mark came or went meanwhile.
                Err(CommitError::Refused(Refusal::NotFound(_) | Refusal::PointerMoved { .. } | Refusal::Exists(_))) => {
                }
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        // The note is still there, so the purge is run again.
        Err(ServiceError::new(Kind::Unavailable, "claims of its location came first every time at the end of a purge"))
    }
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// The actions that mark a location now.
    async fn marked(&self, location: &str, marks: &[&str]) -> Result<Vec<Action>, ServiceError> {
        let (at, now) = (self.head().await?, self.env.unix_ms());
        let mut actions = Vec::new();
        for folder in marks {
            let name = own_name([*folder, &digest(location)])?;
            actions.push(match self.committer.catalog().entry(&at, &name).await? {
                // Another table was purged there before.
                Some(_) => claims::timed_again(name, now),
                None => Action::Create { name, entry: claims::timed(now, None, None) },
            });
        }
        Ok(actions)
    }
}

/// Whether the files of data may be deleted: with `gc.enabled=false` they are, or may be, other tables' too.
fn collects(metadata: &TableMetadata) -> bool {
    // As Iceberg's library for Java reads it: everything but `true` is false.
    metadata.properties().get("gc.enabled").is_none_or(|value| value.eq_ignore_ascii_case("true"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lance::tests::World;

    /// A server that read the note, and slept until another one had ended the purge, and the mark of that was gone.
    #[tokio::test(start_paused = true)]
    async fn a_note_that_is_gone_purges_nothing() {
        let world = World::new().await;
        let server = world.server().await;
        let identifier = crate::Identifier { namespace: Vec::new(), name: "t".to_owned() };
        let location = "s3://b/lake/own";
        let new = crate::NewLanceTable {
            identifier: identifier.clone(),
            location: Some(location.to_owned()),
            properties: Default::default(),
        };
        server.declare_lance(new.clone()).await.unwrap();
        server.drop_lance(&identifier).await.unwrap();
        let at = server.head().await.unwrap();
        let read = server.entry(&at, &name(location).unwrap()).await.unwrap().unwrap();
        for _ in 0..2 {
            world.pass(25 * 60 * 60 * 1000);
            assert!(server.run_purges().await.failed.is_none());
        }
        server.declare_lance(new).await.unwrap();
        let file = format!("{location}/_versions/1.manifest");
        server.inner.files.write(&file, "m".into()).await.unwrap();
        server.deregister_lance(&identifier).await.unwrap();
        assert_eq!(server.run_purge(name(location).unwrap(), &read).await.unwrap(), None);
        assert!(server.inner.files.read(&file).await.is_ok());
    }

    /// A server that slept at the end of a purge, while another server ended it and a second table came and went.
    #[tokio::test(start_paused = true)]
    async fn the_end_of_a_purge_keeps_a_later_note() {
        let world = World::new().await;
        let server = world.server().await;
        let location = "s3://b/lake/t";
        let note = async |file: &str, at| {
            server.inner.committer.commit(vec![noted(location, file, at).unwrap()]).await.unwrap();
            let at = server.head().await.unwrap();
            server.entry(&at, &name(location).unwrap()).await.unwrap().unwrap()
        };
        let first = note("s3://b/lake/t/metadata/1.json", 1).await;
        let end = async |entry: &Entry| {
            server.end_purge(name(location).unwrap(), entry.pointer.clone(), (location, &MARKS)).await.unwrap();
        };
        end(&first).await;
        let second = note("s3://b/lake/t/metadata/2.json", 2).await;
        end(&first).await;
        let at = server.head().await.unwrap();
        assert_eq!(server.entry(&at, &name(location).unwrap()).await.unwrap(), Some(second.clone()));
        end(&second).await;
        let at = server.head().await.unwrap();
        assert_eq!(server.entry(&at, &name(location).unwrap()).await.unwrap(), None);
    }
}
