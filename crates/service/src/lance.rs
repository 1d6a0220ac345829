//! Tables of Lance: the catalog keeps their names and folders, and clients write their files.
//!
//! A table is an entry with the property [`FORMAT`](crate::reading::FORMAT) and a folder of its own. Its metadata
//! pointer tells it from every other table of the same name: it is the table's location, or, if the server orders the
//! table's commits, the newest version (`head.rs`). Whatever changes an entry asserts the pointer, so it changes the
//! table that was read and no successor. `versions.rs` has the commits; `docs/protocols/lance.md` has routes and
//! faults.

mod head;
mod paths;
mod versions;

use std::collections::BTreeMap;

use glidepath_env::Env;
use glidepath_model::{Action, Assertion, Entry, Kind as EntryKind, Name, Refusal};
use glidepath_protocols::group::Grouped;
use glidepath_table::Files;

use crate::claims::Claim;
use crate::error::{Kind, ServiceError};
use crate::keys::CommitFailure;
use crate::mutant::{self, Mutant};
use crate::names::Identifier;
use crate::namespaces::{Listing, Page, no_namespace};
use crate::placing::{self, Folder};
use crate::reading::{FORMAT, no_table};
use crate::tables::{created_told, exists, is_passing};
use crate::{Inner, Service, Settings, locations, purge};
use head::Head;

pub(crate) use paths::of_namespace;
pub use versions::{LanceVersion, NewLanceVersion, VersionPage};

const LANCE: &str = "lance";

/// How long one purge runs at most: much less than the mark is kept by which nobody can name the folder again.
const PURGES_FOR_MS: u64 = 60 * 60 * 1000;

/// Properties that begin with this are the server's own.
const OWN: &str = "glidepath.";

/// The property of a table, or of the namespace in which it is declared, by which the server orders its commits.
pub const MANAGED_VERSIONING: &str = "glidepath.managed-versioning";

/// A table of Lance, as the catalog knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LanceTable {
    /// Its folder.
    pub location: String,
    /// The properties that its users gave it.
    pub properties: BTreeMap<String, String>,
    /// The number of its newest version (0: it has none yet) if the server orders its commits; else `None`, because
    /// only the store knows its versions.
    pub newest: Option<u64>,
}

/// A table to declare or to register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewLanceTable {
    /// Where in the catalog.
    pub identifier: Identifier,
    /// Its folder; `None`: the server chooses one.
    pub location: Option<String>,
    /// Its properties.
    pub properties: BTreeMap<String, String>,
}

pub(crate) fn is_lance(entry: &Entry) -> bool {
    entry.kind == EntryKind::Table && entry.properties.get(FORMAT).is_some_and(|format| format == LANCE)
}

impl LanceTable {
    /// Whether the server orders its commits.
    #[must_use]
    pub fn is_managed(&self) -> bool {
        self.newest.is_some()
    }

    fn of(entry: Entry) -> Result<Self, ServiceError> {
        let newest = Head::of(&entry)?.map(|head| head.version);
        let Entry { location, mut properties, .. } = entry;
        properties.remove(FORMAT);
        let location = location.ok_or_else(|| ServiceError::new(Kind::Broken, "the table has no location"))?;
        Ok(Self { location, properties, newest })
    }
}

/// Whether properties ask that the server orders commits; `None` if they do not say.
fn asks_managed(properties: &BTreeMap<String, String>) -> Result<Option<bool>, ServiceError> {
    match properties.get(MANAGED_VERSIONING).map(|value| value.to_ascii_lowercase()).as_deref() {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(other) => {
            let words = format!("the property {MANAGED_VERSIONING} is {other:?}; allowed are true and false");
            Err(ServiceError::invalid(words))
        }
    }
}

fn check_properties(properties: &BTreeMap<String, String>) -> Result<(), ServiceError> {
    match properties.keys().find(|key| key.starts_with(OWN) && *key != MANAGED_VERSIONING) {
        None => Ok(()),
        Some(own) => {
            let words = format!(
                "the property {own:?} is not allowed: of those that begin with {OWN} only {MANAGED_VERSIONING} can be set"
            );
            Err(ServiceError::invalid(words))
        }
    }
}

impl<E: Env, C: Grouped, F: Files> Service<E, C, F> {
    /// Gives a name and a folder to a table whose files a client is about to write.
    ///
    /// # Errors
    /// [`Kind::Exists`], also for a table of Iceberg or a view; [`Kind::NoNamespace`]; [`Kind::Invalid`] if the folder
    /// that is asked for is another table's; or what the commit proves.
    pub async fn declare_lance(&self, new: NewLanceTable) -> Result<LanceTable, ServiceError> {
        let NewLanceTable { identifier, location: asked, properties } = new;
        check_properties(&properties)?;
        let at = self.head().await?;
        let namespace = self.namespace_at(&at, &identifier.namespace).await?;
        let managed = match asks_managed(&properties)? {
            Some(managed) => managed,
            None => asks_managed(&namespace.properties)?.unwrap_or(false),
        };
        let folder = match asked {
            Some(_) if managed => {
                let words = format!("with {MANAGED_VERSIONING} the server chooses the location: leave it out");
                return Err(ServiceError::invalid(words));
            }
            Some(asked) => {
                let allowed = self.allowed(&identifier.namespace);
                let location = locations::with_room(paths::checked(&asked, &allowed)?)?;
                self.inner.check_beside_namespace(&location, &identifier.catalog_name()?).await?;
                locations::check_not_made_up(&location)?;
                locations::check_not_in_made_up(&location, &self.inner.settings.warehouse)?;
                Folder::named(location)
            }
            None => {
                let base = match namespace.properties.get("location") {
                    Some(base) => {
                        let folder = paths::checked_folder(base, &self.allowed(&identifier.namespace));
                        locations::of_property(&identifier.namespace, folder)?
                    }
                    None => paths::of_namespace(&self.inner.settings.warehouse, &identifier.namespace),
                };
                let fresh = paths::fresh(&base, &identifier.name, self.inner.fresh_uuid());
                Folder::made_up(locations::with_room(fresh)?, namespace.properties.contains_key("location"))
            }
        };
        let pointer = if managed { Head::none(&folder.location).text()? } else { folder.location.clone() };
        let claim = match self.inner.claim_unused(&folder, &identifier.catalog_name()?).await {
            Ok(claim) => claim,
            Err(error) => return Err(self.taken(error, &identifier, EntryKind::Table).await),
        };
        let conditions = self.inner.conditions(&folder, claim.as_ref()).await?;
        let answer = self.create_lance(&identifier, (folder.location, pointer), properties, conditions).await;
        self.inner.settle_claim(claim, &answer).await;
        answer
    }

    /// Gives a name to the table in a folder.
    ///
    /// # Errors
    /// As [`declare_lance`](Self::declare_lance); [`Kind::Invalid`] also if there is no table in the folder.
    pub async fn register_lance(&self, new: NewLanceTable) -> Result<LanceTable, ServiceError> {
        let NewLanceTable { identifier, location, properties } = new;
        check_properties(&properties)?;
        if asks_managed(&properties)? == Some(true) {
            let words = format!(
                "{MANAGED_VERSIONING} is not allowed for a table that exists already, as clients may be writing to it; \
                 declare a table with it"
            );
            return Err(ServiceError::invalid(words));
        }
        let asked = location.unwrap_or_default();
        let is_whole = asked.contains(':') || asked.starts_with('/');
        let whole = if is_whole { asked } else { format!("{}/{asked}", self.inner.settings.warehouse) };
        let location = paths::checked(&whole, &self.allowed(&identifier.namespace))?;
        if !paths::has_versions(&self.inner.files, &location).await? {
            return Err(ServiceError::invalid(format!("there is no table of Lance in {location}")));
        }
        self.inner.check_beside_namespace(&location, &identifier.catalog_name()?).await?;
        locations::check_not_in_made_up(&location, &self.inner.settings.warehouse)?;
        let claim = self.inner.claim(&[&location]).await?;
        let answer = self.register_claimed_lance(&identifier, &location, properties, &claim).await;
        self.inner.settle_claim(Some(claim), &answer).await;
        answer
    }

    /// Registers a table of Lance whose folder is claimed.
    async fn register_claimed_lance(
        &self,
        identifier: &Identifier,
        location: &str,
        properties: BTreeMap<String, String>,
        claim: &Claim,
    ) -> Result<LanceTable, ServiceError> {
        if !paths::has_versions(&self.inner.files, location).await? {
            return Err(ServiceError::invalid(format!("there is no table of Lance in {location}")));
        }
        // Its clients commit by what the store orders, and those of the other table may not.
        if !mutant::is(Mutant::RegisteredInUse) {
            let is_free = self.inner.is_free(&[location], &[], &identifier.catalog_name()?).await?;
            if !is_free {
                return Err(exists(identifier));
            }
        }
        let folder = Folder::named(location.to_owned());
        let mut conditions = folder.conditions(&self.inner.settings.warehouse, Some(claim))?;
        conditions.push(purge::none_ended(location)?);
        self.create_lance(identifier, (folder.location.clone(), folder.location), properties, conditions).await
    }

    /// The folder in which a client may choose locations for a namespace.
    fn allowed(&self, namespace: &[String]) -> String {
        let Settings { warehouse, own_folders, .. } = &self.inner.settings;
        if *own_folders { paths::of_namespace(warehouse, namespace) } else { warehouse.clone() }
    }

    async fn create_lance(
        &self,
        identifier: &Identifier,
        (location, pointer): (String, String),
        mut properties: BTreeMap<String, String>,
        mut actions: Vec<Action>,
    ) -> Result<LanceTable, ServiceError> {
        properties.insert(FORMAT.to_owned(), LANCE.to_owned());
        let (kind, location, pointer) = (EntryKind::Table, Some(location), Some(pointer));
        let entry = Entry { kind, properties, location, pointer, ..Entry::namespace() };
        actions.push(Action::Create { name: identifier.catalog_name()?, entry: entry.clone() });
        let done = self.inner.commit_once(None, actions, "").await;
        match done {
            Ok(_) => LanceTable::of(entry),
            Err(failure) => {
                let error = failure.told(|refusal| created_told(refusal, identifier));
                Err(self.taken(error, identifier, EntryKind::Table).await)
            }
        }
    }

    /// A table as it is now.
    ///
    /// # Errors
    /// [`Kind::NoTable`].
    pub async fn describe_lance(&self, table: &Identifier) -> Result<LanceTable, ServiceError> {
        LanceTable::of(self.inner.lance_entry(table).await?)
    }

    /// Whether the table has a version.
    ///
    /// # Errors
    /// If the store does not answer.
    pub async fn is_lance_written(&self, table: &LanceTable) -> Result<bool, ServiceError> {
        match table.newest {
            // What lies in its folder may be a manifest that is staged, and no version yet.
            Some(newest) => Ok(newest > 0),
            None => paths::has_versions(&self.inner.files, &table.location).await,
        }
    }

    /// The tables of Lance directly in a namespace.
    ///
    /// # Errors
    /// [`Kind::NoNamespace`].
    pub async fn list_lance(&self, namespace: &[String], page: &Page) -> Result<Listing<Identifier>, ServiceError> {
        let found = self.listed(namespace, page, |_, entry| is_lance(entry)).await?;
        Ok((found.0.iter().map(Identifier::of).collect(), found.1))
    }

    /// Gives a table another name.
    ///
    /// # Errors
    /// As [`rename_table`](Self::rename_table).
    pub async fn rename_lance(&self, from: &Identifier, to: &Identifier) -> Result<(), ServiceError> {
        let (old, new) = (from.catalog_name()?, to.catalog_name()?);
        // `change_lance` asserts the pointer of the entry.
        let rename = async |entry: &Entry| {
            let mut actions = self.no_search_runs(&self.head().await?, Some(entry)).await?;
            actions.push(Action::Rename { from: old.clone(), to: new.clone() });
            Ok(actions)
        };
        let told = |refusal: &Refusal| match refusal {
            refusal if placing::told(refusal).is_some() => placing::told(refusal),
            Refusal::Exists(_) => Some(exists(to)),
            Refusal::NoParent { parent, .. } => Some(no_namespace(&parent.parts())),
            Refusal::WrongKind { name, .. } if *name != old => Some(no_namespace(&name.parts())),
            _ => None,
        };
        match self.inner.change_lance(from, false, rename, told).await {
            Ok(_) => Ok(()),
            Err(error) => Err(self.taken(error, to, EntryKind::Table).await),
        }
    }

    /// Removes the name of a table. Its files stay, and can be registered again.
    ///
    /// # Errors
    /// [`Kind::NoTable`], or what the commit proves.
    pub async fn deregister_lance(&self, table: &Identifier) -> Result<LanceTable, ServiceError> {
        let name = table.catalog_name()?;
        let entry = self.inner.change_lance(table, true, async |_| Ok(vec![dropping(&name)]), |_| None).await?;
        LanceTable::of(entry)
    }

    /// Drops a table. Its files are deleted afterwards, by any server ([`run_purges`](Self::run_purges)).
    ///
    /// # Errors
    /// [`Kind::NoTable`], or what the commit proves.
    pub async fn drop_lance(&self, table: &Identifier) -> Result<LanceTable, ServiceError> {
        let name = table.catalog_name()?;
        let drop_and_note = async |entry: &Entry| {
            let mut actions = vec![dropping(&name)];
            if let Some(location) = &entry.location {
                actions.push(purge::noted_listed(location, LANCE, self.inner.env.unix_ms())?);
            }
            Ok(actions)
        };
        let told = |refusal: &Refusal| purge::told(refusal);
        LanceTable::of(self.inner.change_lance(table, false, drop_and_note, told).await?)
    }
}

fn dropping(name: &Name) -> Action {
    Action::Drop { name: name.clone(), kind: EntryKind::Table, expected: None }
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// The entry of a table of Lance, as it is now.
    async fn lance_entry(&self, table: &Identifier) -> Result<Entry, ServiceError> {
        let (at, name) = (self.head().await?, table.catalog_name()?);
        let entry = self.committer.catalog().entry(&at, &name).await?;
        entry.filter(is_lance).ok_or_else(|| no_table(table))
    }

    /// Commits what `actions` makes of the entry of a table, if it is still this entry, and reads it again otherwise.
    /// With `publish`, the newest version of the table is at its place before.
    async fn change_lance(
        &self,
        table: &Identifier,
        publish: bool,
        actions: impl AsyncFn(&Entry) -> Result<Vec<Action>, ServiceError>,
        told: impl Fn(&Refusal) -> Option<ServiceError>,
    ) -> Result<Entry, ServiceError> {
        let name = table.catalog_name()?;
        for _ in 0..self.settings.attempts {
            let entry = self.lance_entry(table).await?;
            if let (true, Some(head)) = (publish && !mutant::is(Mutant::DeregisteredUnpublished), Head::of(&entry)?) {
                self.publish(&head).await?;
            }
            let mut all = vec![Action::Assert { name: name.clone(), holds: Assertion::Pointer(entry.pointer.clone()) }];
            all.extend(actions(&entry).await?);
            match self.commit_once(None, all, "").await {
                Ok(_) => return Ok(entry),
                Err(CommitFailure::Refused(refusal)) if is_passing(&refusal, &name) => {}
                Err(failure) => {
                    return Err(failure.told(|refusal| match told(refusal) {
                        Some(error) => Some(error),
                        None => match refusal {
                            Refusal::NotFound(_) | Refusal::WrongKind { .. } => Some(no_table(table)),
                            _ => None,
                        },
                    }));
                }
            }
        }
        let words = "commits to the table came first every time; not done: try again later";
        Err(ServiceError::new(Kind::Unavailable, words))
    }

    /// Deletes the files of a dropped table: those that are where Lance puts them.
    ///
    /// `began`: a time at which the purge was still noted, in milliseconds since 1970.
    pub(crate) async fn purge_lance(&self, location: &str, began: u64) -> Result<(), ServiceError> {
        let mut after: Option<String> = None;
        loop {
            let page = self.files.list(location, after.as_deref(), 500).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.clone());
            let wanted = page.iter().filter(|file| paths::is_of_lance(file, location));
            let wanted = wanted.filter(|file| locations::is_within(file, location) && !paths::is_of_iceberg(file));
            // By then another server may have ended the purge, and its mark of the location be gone.
            if self.env.unix_ms().abs_diff(began) > PURGES_FOR_MS {
                let words = "the purge of a table of Lance has taken an hour; it is begun again for what is left";
                return Err(ServiceError::new(Kind::Unavailable, words));
            }
            for deleted in glidepath_env::together(crate::AT_ONCE, wanted.map(|file| self.files.delete(file))).await {
                deleted?;
            }
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
