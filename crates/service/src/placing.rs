//! In which folders are the files of a table or view?
//!
//! A new one gets a folder that the server makes up, which no other has, or one that the client names; and it may move
//! to one that the client names. That one may be another table's, also one's that the client may not see: a table keeps
//! its folder when it is renamed. Two tables in one folder have the same credentials of the storage, and neither can be
//! purged. So a folder that a client names is [claimed](crate::claims), and looked for in the whole catalog.
//!
//! The entry of a table has the location that it was created or registered with. What it gets when it moves is noted in
//! properties of the entry, because its snapshots may still name files in the folders before; and so are the folders in
//! which the metadata names files when it is registered.
//!
//! A table that is created by its first commit has a folder that a server made up before, and that commit names it. A
//! large catalog is not read for that: if the folder is written as the server writes folders of this very name, only a
//! table that had this name before can be there, because nobody moves or declares one to such a folder; and a table of
//! Iceberg has its metadata file there, or one that says where it is.

use std::collections::BTreeSet;

use glidepath_env::Env;
use glidepath_model::{Action, Assertion, Entry, Kind as EntryKind, Name, Refusal};
use glidepath_protocols::group::Grouped;
use glidepath_table::Files;
use iceberg::TableUpdate;
use iceberg::spec::TableMetadata;

use crate::bodies::Loaded;
use crate::claims::{self, Claim};
use crate::error::ServiceError;
use crate::locations::{is_same, is_within, meet, unslashed};
use crate::mutant::{self, Mutant};
use crate::names::Identifier;
use crate::registering::IN_USE;
use crate::tables::exists;
use crate::{Inner, Service, lance, leaving, locations, purge};

/// The most requests that list a folder, and the files of each. Who writes more before the table is created waits for a
/// look at the whole catalog.
const REQUESTS: usize = 6;
const PAGE: usize = 1000;

/// The properties of an entry that name folders in which the table has files, besides its location.
const PLACE: &str = "glidepath.place.";

/// The properties of an entry that name folders in which a registered table has manifest lists or metadata files.
/// Tables may share such folders, but none is another one's.
const LISTS: &str = "glidepath.lists.";

/// The most of them.
const MOST_PLACES: usize = 64;

/// The property of a table, in its metadata, that lists its former locations (an array of JSON): data files in them may
/// be named where no registration looks. Only the server changes it.
pub(crate) const FORMER: &str = "glidepath.former-locations";

/// A folder for a table or view, before it is claimed.
#[derive(Clone, Debug)]
pub(crate) struct Folder {
    pub(crate) location: String,
    /// Whether another table may be there.
    may_be_used: bool,
    /// Whether a client named this folder or one around it; otherwise the server made it up.
    named: bool,
}

impl Folder {
    /// A folder that a client names.
    pub(crate) fn named(location: String) -> Self {
        Self { location, may_be_used: true, named: true }
    }

    /// A folder that the server has made up, in one that a client has named or not.
    pub(crate) fn made_up(location: String, named: bool) -> Self {
        Self { location, may_be_used: false, named }
    }

    /// The conditions of the commit that gives it to a table.
    pub(crate) fn conditions(&self, warehouse: &str, claim: Option<&Claim>) -> Result<Vec<Action>, ServiceError> {
        let mut conditions = purge::none_runs(&self.location, warehouse)?;
        let emptied = purge::none_emptied(&self.location, warehouse)?;
        // Nobody had a folder before that the server has made up, but the folders around it have names.
        conditions.extend(emptied.into_iter().skip(usize::from(!self.named)));
        conditions.extend(claim.map(Claim::ends).unwrap_or_default());
        Ok(conditions)
    }
}

/// The answer to a request that is refused because of the folder, or the file.
pub(crate) fn told(refusal: &Refusal) -> Option<ServiceError> {
    purge::told(refusal).or_else(|| claims::told(refusal)).or_else(|| leaving::told(refusal))
}

fn noted_as<'a>(entry: &'a Entry, prefix: &'static str) -> impl Iterator<Item = &'a String> {
    entry.properties.iter().filter(move |(key, _)| key.starts_with(prefix)).map(|(_, place)| place)
}

/// The folders that are a table's own.
pub(crate) fn places(entry: &Entry) -> impl Iterator<Item = &String> {
    entry.location.iter().chain(noted_as(entry, PLACE))
}

fn key(prefix: &str, place: &str) -> String {
    format!("{prefix}{}", purge::digest(place))
}

/// The action that notes that a table has files in a folder.
fn noted(name: &Name, place: &str) -> Option<Action> {
    let changes = [(key(PLACE, place), Some(place.to_owned()))].into();
    (!mutant::is(Mutant::MoveNotNoted)).then(|| Action::SetProperties { name: name.clone(), changes })
}

/// The action that notes where a table may have lists, when its metadata goes elsewhere from a folder that is not its
/// own.
pub(crate) fn lists_left(name: &Name, on: &Loaded<TableMetadata>, next: &str) -> Option<Action> {
    let (left, now) = (folder_of(&on.location), folder_of(next));
    let changes = || [(key(LISTS, left), Some(left.to_owned()))].into();
    (left != now && !is_within(&on.location, on.metadata.location()))
        .then(|| Action::SetProperties { name: name.clone(), changes: changes() })
}

/// The entry of a table of Iceberg.
pub(crate) fn table_entry(location: &str, pointer: &str) -> Entry {
    Entry {
        kind: EntryKind::Table,
        location: Some(location.to_owned()),
        pointer: Some(pointer.to_owned()),
        ..Entry::namespace()
    }
}

/// The former locations of a table.
pub(crate) fn former(metadata: &TableMetadata) -> BTreeSet<String> {
    let noted = metadata.properties().get(FORMER).and_then(|noted| serde_json::from_str(noted).ok());
    noted.unwrap_or_default()
}

/// The updates of a commit, which note where the table was if they move it. A client cannot change that.
pub(crate) fn with_former(now: &TableMetadata, updates: Vec<TableUpdate>) -> Vec<TableUpdate> {
    let moves = |update: &TableUpdate| match update {
        TableUpdate::SetLocation { location } => !is_same(location, now.location()),
        _ => false,
    };
    let mut all = former(now);
    let moved = updates.iter().any(moves) && all.insert(now.location().to_owned());
    with_former_of(all, moved, updates)
}

/// The updates, after which the former locations are these if they `changed` or an update would change them.
pub(crate) fn with_former_of(all: BTreeSet<String>, changed: bool, mut updates: Vec<TableUpdate>) -> Vec<TableUpdate> {
    let touches = |update: &TableUpdate| match update {
        TableUpdate::SetProperties { updates } => updates.contains_key(FORMER),
        TableUpdate::RemoveProperties { removals } => removals.iter().any(|key| key == FORMER),
        _ => false,
    };
    if changed || updates.iter().any(touches) {
        updates.push(match all.is_empty() {
            true => TableUpdate::RemoveProperties { removals: vec![FORMER.to_owned()] },
            false => {
                let noted = serde_json::Value::from_iter(all).to_string();
                TableUpdate::SetProperties { updates: [(FORMER.to_owned(), noted)].into() }
            }
        });
    }
    updates
}

/// Where a table that is registered has files.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Past {
    /// Its former locations.
    former: BTreeSet<String>,
    /// Other folders in which its metadata names manifest lists and metadata files.
    lists: BTreeSet<String>,
}

impl Past {
    /// What the metadata says, as far as it is in the warehouse.
    ///
    /// # Errors
    /// If a folder is not in `allowed`, or there are too many.
    pub(crate) fn of(metadata: &TableMetadata, warehouse: &str, allowed: &str) -> Result<Self, ServiceError> {
        let lists = metadata.snapshots().map(|snapshot| snapshot.manifest_list());
        let files = lists.chain(metadata.metadata_log().iter().map(|log| log.metadata_file.as_str()));
        let is_other = |folder: &String| is_within(folder, warehouse) && !is_same(folder, metadata.location());
        let mut past = Self { former: former(metadata).into_iter().filter(is_other).collect(), ..Self::default() };
        check_places(past.former.len())?;
        for folder in files.map(|file| folder_of(file).to_owned()).filter(is_other) {
            past.lists.insert(folder);
            check_places(past.lists.len())?;
        }
        if let Some(outside) = past.folders().find(|folder| !is_within(folder, allowed)) {
            let words = format!("the metadata names files in {outside}, which is not in {allowed}: not allowed here");
            return Err(ServiceError::invalid(words));
        }
        Ok(past)
    }

    /// All the folders.
    pub(crate) fn folders(&self) -> impl Iterator<Item = &str> {
        self.former.iter().chain(&self.lists).map(String::as_str)
    }

    /// Folders that must be nobody else's, and files and folders that must not be in another table's folder.
    pub(crate) fn looked_for<'a>(&'a self, location: &'a str, file: &'a str) -> (Vec<&'a str>, Vec<&'a str>) {
        let own = [location].into_iter().chain(self.former.iter().map(String::as_str)).collect();
        (own, [file].into_iter().chain(self.lists.iter().map(String::as_str)).collect())
    }

    /// The entry of the table.
    pub(crate) fn entry(&self, location: &str, pointer: &str) -> Entry {
        let former = self.former.iter().map(|place| (key(PLACE, place), place.clone()));
        let lists = self.lists.iter().map(|place| (key(LISTS, place), place.clone()));
        Entry { properties: former.chain(lists).collect(), ..table_entry(location, pointer) }
    }

    /// With what the entry of the same table knew.
    pub(crate) fn and_of(mut self, before: &Entry, location: &str) -> Self {
        let is_other = |place: &&String| !is_same(place, location);
        self.former.extend(places(before).filter(is_other).cloned());
        self.lists.extend(noted_as(before, LISTS).filter(is_other).cloned());
        self
    }
}

/// The folder of a file; without the last part if that is usual, so that it is the table's.
pub(crate) fn folder_of(file: &str) -> &str {
    let folder = file.rsplit_once('/').map(|(folder, _)| folder).unwrap_or_default();
    folder.strip_suffix("/metadata").unwrap_or(folder)
}

fn check_places(places: usize) -> Result<(), ServiceError> {
    if places <= MOST_PLACES {
        return Ok(());
    }
    let words =
        format!("the table has files in more than {MOST_PLACES} folders besides its first; no more are allowed");
    Err(ServiceError::invalid(words))
}

/// A table or view that is about to move.
#[derive(Debug)]
pub(crate) struct Moving {
    pub(crate) claim: Claim,
    /// What its commit does besides moving the pointer.
    pub(crate) actions: Vec<Action>,
}

impl<E: Env, C: Grouped, F: Files> Service<E, C, F> {
    /// The folder of a new table or view: as asked if it is in the warehouse, or one of its own.
    pub(crate) async fn folder_of(
        &self,
        identifier: &Identifier,
        asked: Option<String>,
    ) -> Result<Folder, ServiceError> {
        let at = self.head().await?;
        let namespace = self.namespace_at(&at, &identifier.namespace).await?;
        let settings = &self.inner.settings;
        let allowed = settings.folder_of(&identifier.namespace);
        let named = namespace.properties.contains_key("location");
        let base = match namespace.properties.get("location") {
            Some(location) => {
                locations::of_property(&identifier.namespace, locations::checked_folder(location, &allowed))
            }
            None => Ok(locations::of_namespace(&settings.warehouse, &identifier.namespace)),
        };
        let Some(asked) = asked else {
            let fresh = locations::fresh(&base?, &identifier.name, self.inner.fresh_uuid());
            return Ok(Folder::made_up(locations::with_room(fresh)?, named));
        };
        let location = locations::with_room(locations::checked(&asked, &allowed)?)?;
        let made_up = base.as_ref().is_ok_and(|base| locations::is_fresh(&location, base, &identifier.name));
        if !made_up {
            let base = base.as_ref().ok().filter(|base| is_within(&location, base));
            locations::check_not_made_up(&location)?;
            locations::check_not_in_made_up(&location, base.unwrap_or(&settings.warehouse))?;
        }
        self.inner.check_beside_namespace(&location, &identifier.catalog_name()?).await?;
        // Two namespaces may have one location, and a table of one name each.
        let shared = named || locations::is_cut(&identifier.name);
        let may_be_used = !made_up || shared || self.inner.may_have_table(&location).await;
        Ok(Folder { location, may_be_used, named: true })
    }

    /// Refuses a folder for a table that is created later if it is another's now, or is being purged.
    pub(crate) async fn check_folder(&self, folder: &Folder, own: &Name) -> Result<(), ServiceError> {
        if folder.may_be_used {
            self.inner.is_free(&[folder.location.as_str()], &[], own).await?;
        }
        let at = self.head().await?;
        for condition in folder.conditions(&self.inner.settings.warehouse, None)? {
            if let Action::Assert { name, holds: Assertion::Absent } = condition
                && self.entry(&at, &name).await?.is_some()
                && let Some(error) = told(&Refusal::Exists(name))
            {
                return Err(error);
            }
        }
        Ok(())
    }
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// The conditions of the commit that gives a folder to a table. One that is not claimed, and could be named, nobody
    /// else has claimed.
    pub(crate) async fn conditions(&self, folder: &Folder, claim: Option<&Claim>) -> Result<Vec<Action>, ServiceError> {
        let mut conditions = folder.conditions(&self.settings.warehouse, claim)?;
        if claim.is_none() && folder.named {
            conditions.extend(self.nobody_claims(&folder.location).await?);
        }
        Ok(conditions)
    }

    /// Claims a folder in which another table may be, if it is not.
    pub(crate) async fn claim_unused(&self, folder: &Folder, own: &Name) -> Result<Option<Claim>, ServiceError> {
        match folder.may_be_used {
            true => self.claim_beside(folder, &[], own).await.map(Some),
            false => Ok(None),
        }
    }

    /// Claims a folder, if no other table is there, nor has one of these files.
    pub(crate) async fn claim_beside(
        &self,
        folder: &Folder,
        files: &[&str],
        own: &Name,
    ) -> Result<Claim, ServiceError> {
        let location = folder.location.as_str();
        let claim = self.claim(&[location]).await?;
        let looked = match self.is_free(&[location], files, own).await {
            Ok(true) => Ok(claim.clone()),
            // It may get another name before the commit, which would then not be refused.
            Ok(false) => Err(exists(&Identifier::of(own))),
            Err(error) => Err(error),
        };
        if looked.is_err() {
            self.release(&claim).await;
        }
        looked
    }

    /// Claims the folder to which a table or view moves, if no other one is there.
    async fn claim_beside_own(&self, folder: &Folder, own: &Name) -> Result<Claim, ServiceError> {
        let location = folder.location.as_str();
        let claim = self.claim(&[location]).await?;
        match self.is_free(&[location], &[], own).await {
            Ok(_) => Ok(claim),
            Err(error) => {
                self.release(&claim).await;
                Err(error)
            }
        }
    }

    /// Whether what has the name `own` has no files in or around these locations. Refuses them if any other table or
    /// view has some, or has one of these files, which are to be registered. Reads every entry of the catalog.
    pub(crate) async fn is_free(&self, locations: &[&str], files: &[&str], own: &Name) -> Result<bool, ServiceError> {
        let used = self.used_by(locations, files).await?;
        if used.iter().any(|name| name != own) {
            let Some(location) = locations.first().filter(|_| files.is_empty()) else {
                return Err(ServiceError::invalid(IN_USE));
            };
            // Not which one: the client may not know of it.
            let words = format!(
                "the location {location:?} is not allowed: another table or view has files in it or around it; leave the \
                 location out, so that the server chooses one, or name another"
            );
            return Err(ServiceError::invalid(words));
        }
        Ok(used.is_empty())
    }

    /// The tables and views that have files in, or around, one of these locations, or one of these files, or a folder
    /// of their own in or around one of them, at one moment. Reads every entry of the catalog.
    pub(crate) async fn used_by(&self, locations: &[&str], files: &[&str]) -> Result<Vec<Name>, ServiceError> {
        let at = self.head().await?;
        let meets = |place: &String| locations.iter().any(|location| meet(place, location));
        let holds = |place: &String| meets(place) || files.iter().any(|file| meet(place, file));
        let has_files = |_: &Name, entry: &Entry| {
            let is_at = |pointer: &String| meets(pointer) || files.iter().any(|file| is_same(pointer, file));
            entry.kind != EntryKind::Namespace
                && (places(entry).any(holds)
                    || entry.pointer.as_ref().is_some_and(is_at)
                    || noted_as(entry, LISTS).any(meets))
        };
        let seen = |namespace: &Name| !crate::names::is_hidden(namespace);
        Ok(self.committer.catalog().search(&at, seen, has_files).await?)
    }

    /// Refuses a location that is, or is around, the folder in which tables of its namespace get theirs.
    pub(crate) async fn check_beside_namespace(&self, location: &str, name: &Name) -> Result<(), ServiceError> {
        let (at, parent) = (self.head().await?, name.parent());
        let namespace = match &parent {
            Some(parent) => self.committer.catalog().entry(&at, parent).await?,
            None => None,
        };
        let named = namespace.and_then(|namespace| namespace.properties.get("location").cloned());
        let parts = parent.map(|parent| parent.parts()).unwrap_or_default();
        let bases = match named {
            Some(named) => vec![named],
            None => {
                let warehouse = &self.settings.warehouse;
                vec![locations::of_namespace(warehouse, &parts), lance::of_namespace(warehouse, &parts)]
            }
        };
        if !bases.iter().any(|base| is_within(base, location)) {
            return Ok(());
        }
        let words = format!(
            "the location {location:?} is not allowed: the folder of its namespace is in it, where other tables get theirs; leave \
             the location out, so that the server chooses one, or name another"
        );
        Err(ServiceError::invalid(words))
    }

    /// Claims the folder to which a table or view moves; `None` if it stays. Reads every entry of the catalog.
    pub(crate) async fn moving(&self, name: &Name, now: &str, next: &str) -> Result<Option<Moving>, ServiceError> {
        if is_same(now, next) {
            return Ok(None);
        }
        let at = self.head().await?;
        let entry = self.committer.catalog().entry(&at, name).await?;
        let had = |entry: &Entry| places(entry).any(|place| is_same(place, next));
        if let Some(entry) = entry.filter(|entry| !had(entry)) {
            check_places(places(&entry).count())?;
            self.check_beside_namespace(next, name).await?;
            locations::check_not_made_up(next)?;
            if !places(&entry).any(|place| is_within(next, place)) {
                locations::check_not_in_made_up(next, &self.settings.warehouse)?;
            }
        }
        let folder = Folder::named(next.to_owned());
        let claim = self.claim_beside_own(&folder, name).await?;
        let mut actions = folder.conditions(&self.settings.warehouse, Some(&claim))?;
        actions.extend(noted(name, next));
        Ok(Some(Moving { claim, actions }))
    }

    /// Leaves a file in the folder of a table or view whose metadata file is elsewhere, by which
    /// [`may_have_table`](Self::may_have_table) knows of it. `before`: its location and its metadata file until now; if
    /// that was elsewhere already, there is such a file.
    pub(crate) async fn mark_elsewhere(
        &self,
        location: &str,
        before: Option<(&str, &str)>,
        file: &str,
    ) -> Result<(), ServiceError> {
        let was = |(at, file): (&str, &str)| is_same(at, location) && !is_within(file, location);
        if is_within(file, location) || before.is_some_and(was) {
            return Ok(());
        }
        let words = serde_json::json!({ "metadata": file }).to_string();
        Ok(self.files.write(&format!("{location}/metadata/elsewhere-{}.json", self.fresh_uuid()), words.into()).await?)
    }

    /// Whether a folder may be that of a table which has been written: `false` is certain. So it is not certain where
    /// the store does not list the folder.
    async fn may_have_table(&self, location: &str) -> bool {
        let mut after: Option<String> = None;
        for _ in 0..REQUESTS {
            let Ok(page) = self.files.list(location, after.as_deref(), PAGE).await else { return true };
            if page.iter().any(|file| is_of_table(file, location)) {
                return true;
            }
            // A page may be short before the last one.
            let Some(last) = page.into_iter().next_back() else { return false };
            after = Some(last);
        }
        true
    }
}

/// Whether a file may be the metadata of a table or view of Iceberg, or is of Lance: nobody writes these before a table
/// is created.
fn is_of_table(file: &str, location: &str) -> bool {
    let (file, location) = (unslashed(file), unslashed(location));
    let rest = file.strip_prefix(&location).unwrap_or_default().trim_start_matches('/');
    !is_within(&file, &location)
        || rest.split('/').any(|part| part.starts_with('_'))
        || rest.rsplit('/').next().unwrap_or_default().contains(".json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_tables_are_told_from_what_is_written_before() {
        let place = "file:///lake/n/t-0000000000000005";
        for of_table in ["metadata/00000-a.metadata.json", "m/v1.gz.metadata.json", "_versions/1.manifest"] {
            assert!(is_of_table(&format!("{place}/{of_table}"), place), "{of_table}");
        }
        for before in ["data/a.parquet", "metadata/snap-1.avro", "metadata/a-m0.avro", "data/x.json/a.parquet"] {
            assert!(!is_of_table(&format!("file:/lake/n/t-0000000000000005/{before}"), place), "{before}");
        }
    }
}
