//! How is a name given to the files of a table that exist already?
//!
//! A registration finds files that exist already, and a purge may delete them before it commits, however long it sleeps in
//! between; and two registrations at once would give the same files to two tables. So a registration first declares itself in
//! the catalog, in an entry that is found by the location; then it looks whether the files are there, and whether another table
//! has them. Its commit asserts that its own declaration is still there, and removes it.
//!
//! * A purge that has deleted the files removes the declaration in the commit that ends it. So a registration that was declared
//!   before then is refused, and one that is declared later does not find the files.
//! * It also marks the location for a day, which the commit of a registration asserts against: a write of a metadata file that
//!   the store does late, after the file was deleted, brings it back, and the files that it names are gone.
//! * Another registration of the same files answers that this one runs. After a minute it takes the place of the declaration,
//!   and the earlier one is refused.
//! * Without versions of the catalog the look for other tables reads names one after the other. So that it misses none that
//!   moves, a rename asserts that no registration is declared in the table's location.
//! * A declaration that its server has left behind is removed after an hour. If the server only slept, its registration is
//!   refused.

use glidepath_env::Env;
use glidepath_model::{Action, Assertion, Entry, Kind as EntryKind, Name, Refusal};
use glidepath_protocols::group::{CommitError, Grouped};
use glidepath_table::{Files, defaults};
use iceberg::spec::TableMetadata;

use crate::bodies::Loaded;
use crate::cells::Answer;
use crate::commit::LOSES_DEFAULTS;
use crate::error::{Kind, Proof, ServiceError};
use crate::keys::{Idempotency, Operation};
use crate::mutant::{self, Mutant};
use crate::names::{Identifier, RESERVED, lacks_own};
use crate::purge::{self, digest};
use crate::reading::is_iceberg;
use crate::tables::{created_told, table_entry};
use crate::{Inner, Service, locations, sound};

/// The namespace of declarations, in that of the service.
pub(crate) const FOLDER: &str = "registrations";

/// The namespace of marks of purges that have ended.
pub(crate) const PURGED: &str = "purged";

const AT: &str = "at";

/// How long others wait for a registration, which may read every entry of a large catalog.
const PATIENCE_MS: u64 = 60 * 1000;

/// How long a declaration is kept at least.
const LIFETIME_MS: u64 = 60 * 60 * 1000;

/// How long a mark is kept: longer than a write is under way.
const MARKED_MS: u64 = 24 * 60 * 60 * 1000;

/// The most entries that one commit removes.
const CLEANED_TOGETHER: usize = 100;

/// A table to register: its metadata exists already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Where in the catalog.
    pub identifier: Identifier,
    /// Its metadata file, in the warehouse.
    pub metadata_location: String,
    /// Whether a table of this name gets this metadata instead of its own.
    pub overwrite: bool,
}

/// A registration that has been declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    name: Name,
    /// Tells it from others in the same location.
    mark: String,
    /// The mark of a purge in this location.
    purged: Name,
}

impl Declared {
    /// The actions that a registration commits with: it must still be declared, and is no longer; and no purge has ended lately.
    pub(crate) fn ends(&self) -> Vec<Action> {
        if mutant::is(Mutant::RegistrationNotAsserted) {
            return Vec::new();
        }
        let unmarked = Action::Assert { name: self.purged.clone(), holds: Assertion::Absent };
        removed(&self.name, Some(self.mark.clone())).into_iter().chain([unmarked]).collect()
    }

    /// The answer to a registration that these actions refuse.
    pub(crate) fn told(&self, refusal: &Refusal) -> Option<ServiceError> {
        match refusal {
            Refusal::NotFound(name) | Refusal::PointerMoved { name, .. } if *name == self.name => Some(overtaken()),
            Refusal::Exists(name) if *name == self.purged => {
                let words = "the files of a dropped table at this location have been deleted within the last day; not done: use \
                             another location, or try again later";
                Some(ServiceError::new(Kind::Unavailable, words))
            }
            _ => None,
        }
    }
}

/// The name of the declaration of a registration in a location, or of the mark of a purge there.
fn name(folder: &str, location: &str) -> Result<Name, ServiceError> {
    Name::of_parts([RESERVED, folder, &digest(location)]).map_err(|error| ServiceError::invalid(error.to_string()))
}

/// An entry of this time.
fn timed(now_ms: u64, pointer: Option<String>) -> Entry {
    let properties = [(AT.to_owned(), now_ms.to_string())].into();
    Entry { kind: EntryKind::Table, properties, pointer, ..Entry::namespace() }
}

/// The condition that no registration runs in a location.
pub(crate) fn none_runs(location: &str) -> Result<Action, ServiceError> {
    Ok(Action::Assert { name: name(FOLDER, location)?, holds: Assertion::Absent })
}

/// Whether this is the name of a declaration.
pub(crate) fn is_declaration(name: &Name) -> bool {
    name.parent().is_some_and(|parent| parent.parts() == [RESERVED, FOLDER])
}

/// Removes a declaration, if it is this one.
fn removed(name: &Name, mark: Option<String>) -> [Action; 2] {
    let same = Action::Assert { name: name.clone(), holds: Assertion::Pointer(mark) };
    [same, Action::Drop { name: name.clone(), kind: EntryKind::Table, expected: None }]
}

pub(crate) fn overtaken() -> ServiceError {
    let words = "another registration of the same files runs, or they have been deleted; not done: try again later";
    ServiceError::new(Kind::Unavailable, words)
}

impl<E: Env, C: Grouped, F: Files> Service<E, C, F> {
    /// Gives a name to metadata that exists already.
    ///
    /// # Errors
    /// [`Kind::Exists`], [`Kind::NoNamespace`]; [`Kind::Invalid`] if the file is not in the warehouse, or is not the
    /// metadata of a table whose files are in it.
    pub async fn register_table(&self, new: Registration, key: Option<&Idempotency>) -> Answer {
        let at = self.head().await?;
        if let Some(noted) = self.inner.replayed(&at, key).await? {
            return self.inner.done_before(&new.identifier.catalog_name()?, &noted).await;
        }
        self.namespace_at(&at, &new.identifier.namespace).await?;
        let allowed = self.inner.settings.folder_of(&new.identifier.namespace);
        let file = locations::checked(&new.metadata_location, &allowed)?;
        let location = self.registered(&file, &allowed).await?.1;
        let declared = self.inner.declare(&location).await?;
        let answer = self.register_declared(&new.identifier, new.overwrite, (&file, &location), &declared, key).await;
        match answer {
            Ok((Operation::Done, body)) => Ok(body),
            Err(error) if error.kind.proof() == Proof::Unknown => Err(error),
            other => {
                self.inner.undeclare(declared).await;
                other.map(|(_, body)| body)
            }
        }
    }

    /// The metadata in a file to register, and its location. Read from the store: what is in memory may have been deleted long
    /// ago.
    async fn registered(&self, file: &str, allowed: &str) -> Result<(Loaded<TableMetadata>, String), ServiceError> {
        let body = self.inner.read_table_body(file).await.map_err(|error| match error.kind {
            Kind::Broken | Kind::NoFile => ServiceError::new(Kind::Invalid, error.message),
            _ => error,
        })?;
        sound::check_metadata(&body.metadata)?;
        if !defaults::are_kept(&body.json) {
            return Err(ServiceError::invalid(LOSES_DEFAULTS));
        }
        let location = locations::checked(body.metadata.location(), allowed)?;
        Ok((body, location))
    }

    /// Registers a metadata file, whose location is known, after the registration was declared.
    async fn register_declared(
        &self,
        identifier: &Identifier,
        overwrite: bool,
        (file, location): (&str, &str),
        declared: &Declared,
        key: Option<&Idempotency>,
    ) -> Result<(Operation, Loaded<TableMetadata>), ServiceError> {
        let allowed = self.inner.settings.folder_of(&identifier.namespace);
        // Again, after the declaration: it may have been deleted, and another file have come in its place.
        let (body, found) = self.registered(file, &allowed).await?;
        if found != location {
            return Err(overtaken());
        }
        let (at, name) = (self.head().await?, identifier.catalog_name()?);
        let before = self.entry(&at, &name).await?;
        // Two tables with the same files: what one deletes, the other would miss.
        let looks = !mutant::is(Mutant::RegisteredInUse);
        if looks && self.inner.is_in_use(&[location, file], Some(&name)).await? {
            let words =
                "the metadata file, or the location in it, is another table's; drop that table first, without a purge";
            return Err(ServiceError::invalid(words));
        }
        let mut actions = Vec::new();
        if let Some(entry) = before.filter(|entry| overwrite && is_iceberg(entry)) {
            let same = Assertion::Pointer(entry.pointer);
            actions.push(Action::Assert { name: name.clone(), holds: same });
            actions.push(Action::Drop { name: name.clone(), kind: EntryKind::Table, expected: None });
        }
        // A new entry, so that its location is that of its files.
        actions.push(Action::Create { name, entry: table_entry(location, file) });
        actions.extend(purge::none_runs(location, &self.inner.settings.warehouse)?);
        actions.extend(declared.ends());
        match self.inner.commit_once(key, actions, file).await {
            Ok(operation) => Ok((operation, body)),
            Err(failure) => {
                let told = |refusal: &Refusal| declared.told(refusal).or_else(|| created_told(refusal, identifier));
                Err(self.taken(failure.told(told), identifier, EntryKind::Table).await)
            }
        }
    }

    /// Removes declarations that were left behind, and old marks.
    pub(crate) async fn clean_registrations(&self) -> Result<(), ServiceError> {
        self.clean(FOLDER, LIFETIME_MS).await?;
        self.clean(PURGED, MARKED_MS).await
    }

    async fn clean(&self, folder: &str, lifetime_ms: u64) -> Result<(), ServiceError> {
        let at = self.head().await?;
        let folder = Name::of_parts([RESERVED, folder]).map_err(|error| ServiceError::invalid(error.to_string()))?;
        let now = self.inner.env.unix_ms();
        let is_old = |_: &Name, entry: &Entry| {
            (written(entry).saturating_add(lifetime_ms) < now).then(|| entry.properties.get(AT).cloned())
        };
        let old = self.inner.committer.catalog().list(&at, Some(&folder), None, CLEANED_TOGETHER, is_old).await?;
        if old.is_empty() {
            return Ok(());
        }
        let actions = old.into_iter().flat_map(|(name, value)| {
            let holds = Assertion::Property { key: AT.to_owned(), value };
            let same = Action::Assert { name: name.clone(), holds };
            [same, Action::Drop { name, kind: EntryKind::Table, expected: None }]
        });
        let actions = actions.collect();
        match self.inner.committer.commit(actions).await {
            // Another server cleans too, or one was replaced.
            Ok(_) | Err(CommitError::Refused(Refusal::NotFound(_) | Refusal::PropertyChanged { .. })) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// Declares a registration of the files in a location. Who calls this looks at the files afterwards, commits with the
    /// actions of [`Declared::ends`], and calls [`undeclare`](Self::undeclare) if that was not done.
    pub(crate) async fn declare(&self, location: &str) -> Result<Declared, ServiceError> {
        let (name, purged) = (name(FOLDER, location)?, name(PURGED, location)?);
        let now = self.env.unix_ms();
        let mark = self.fresh_uuid().to_string();
        let at = self.head().await?;
        let mut actions = Vec::new();
        if let Some(other) = self.committer.catalog().entry(&at, &name).await? {
            // A clock that is wrong keeps nobody out for longer.
            if written(&other).abs_diff(now) < PATIENCE_MS {
                return Err(overtaken());
            }
            actions.extend(removed(&name, other.pointer));
        }
        actions.push(Action::Create { name: name.clone(), entry: timed(now, Some(mark.clone())) });
        match self.committer.commit(actions).await {
            Ok(_) => Ok(Declared { name, mark, purged }),
            Err(CommitError::Refused(refusal)) if !lacks_own(&refusal) => Err(overtaken()),
            // Nothing that the client asked for was done.
            Err(error) => Err(ServiceError::new(Kind::Unavailable, format!("not done, try again later: {error}"))),
        }
    }

    /// Removes a declaration whose registration was not done. If this fails, it is removed later.
    pub(crate) async fn undeclare(&self, declared: Declared) {
        let _ = self.committer.commit(removed(&declared.name, Some(declared.mark)).into()).await;
    }

    /// The actions of the end of a purge in a location. They end all registrations that were declared there until now, and mark
    /// it. A commit with them is refused if one was declared or has ended since they were made.
    pub(crate) async fn ends_of_registrations(&self, location: &str) -> Result<Vec<Action>, ServiceError> {
        if mutant::is(Mutant::PurgeForgotten) {
            return Ok(Vec::new());
        }
        let (name, purged) = (name(FOLDER, location)?, name(PURGED, location)?);
        let (at, now) = (self.head().await?, self.env.unix_ms());
        let mut actions = match self.committer.catalog().entry(&at, &name).await? {
            Some(declared) => removed(&name, declared.pointer).into(),
            None => vec![none_runs(location)?],
        };
        actions.push(match self.committer.catalog().entry(&at, &purged).await? {
            // Another table was purged there before.
            Some(_) => Action::SetProperties { name: purged, changes: [(AT.to_owned(), Some(now.to_string()))].into() },
            None => Action::Create { name: purged, entry: timed(now, None) },
        });
        Ok(actions)
    }
}

/// When an entry was made, in milliseconds since 1970.
fn written(entry: &Entry) -> u64 {
    entry.properties.get(AT).and_then(|at| at.parse().ok()).unwrap_or(0)
}
