//! Tables: create, stage, register, rename, drop.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use glidepath_env::Env;
use glidepath_model::{Action, Assertion, Entry, Kind as EntryKind, Name, Refusal};
use glidepath_protocols::group::Grouped;
use glidepath_protocols::table_turn::line::Line;
use glidepath_table::Files;
use glidepath_table::commit::{Creation, create, create_by_updates};
use iceberg::spec::{Schema, SortOrder, TableMetadata, UnboundPartitionSpec};

use crate::bodies::Body;
use crate::claims::Claim;
use crate::commit::TableCommit;
use crate::error::{Kind, ServiceError};
use crate::keys::{CommitFailure, Idempotency, Operation};
use crate::mutant::{self, Mutant};
use crate::names::Identifier;
use crate::namespaces::no_namespace;
use crate::placing::{self, Folder, table_entry};
use crate::reading::{FORMAT, is_iceberg, no_table};
use crate::table_queues::Answer;
use crate::transaction::lead;
use crate::{Counts, Service, leaving, purge};

/// A table to create.
#[derive(Clone, Debug)]
pub struct NewTable {
    /// Where in the catalog.
    pub identifier: Identifier,
    /// Its schema.
    pub schema: Schema,
    /// Where its files are to be; `None`: the server chooses.
    pub location: Option<String>,
    /// Its partitioning.
    pub partition_spec: Option<UnboundPartitionSpec>,
    /// Its order.
    pub sort_order: Option<SortOrder>,
    /// Its properties.
    pub properties: HashMap<String, String>,
}

/// What new tables get that do not say otherwise, as from Iceberg's own server: readers of tables without it go by an
/// older default, gzip, and Java's clients then write that.
const NEW_CODEC: (&str, &str) = ("write.parquet.compression-codec", "zstd");

/// How often a table is dropped only if it is still at the file that was seen. Afterwards commits of other servers
/// would keep it there for ever, so what is kept of it may be an earlier file ([`leaving`]).
const EXACT_DROPS: u32 = 5;

impl<E: Env, C: Grouped, F: Files> Service<E, C, F> {
    /// Creates a table.
    ///
    /// # Errors
    /// [`Kind::Exists`], [`Kind::NoNamespace`], or what the commit proves.
    pub async fn create_table(&self, new: NewTable, key: Option<&Idempotency>) -> Answer {
        self.inner.once(key, async || self.try_create(new.clone(), key).await).await
    }

    async fn try_create(&self, new: NewTable, key: Option<&Idempotency>) -> Answer {
        let identifier = new.identifier.clone();
        let at = self.head().await?;
        if let Some(noted) = self.inner.replayed(&at, key).await? {
            return self.inner.done_before(&identifier.catalog_name()?, &noted).await;
        }
        let answer = match self.entry(&at, &identifier.catalog_name()?).await? {
            // Before anything is written, because what is written stays.
            Some(_) => Err(self.taken(exists(&identifier), &identifier, EntryKind::Table).await),
            None => match self.new_metadata(new).await {
                Ok((folder, metadata)) => self.install(&identifier, (&folder, metadata), key).await,
                Err(error) => Err(error),
            },
        };
        match answer {
            Err(error) if matches!(error.kind, Kind::Invalid | Kind::Unavailable | Kind::Exists) => {
                self.inner.or_earlier_delivery(&identifier.catalog_name()?, key, error).await
            }
            answer => answer,
        }
    }

    /// The metadata that a table would have, without creating it: for a client that creates it by its first commit.
    ///
    /// # Errors
    /// As [`create_table`](Self::create_table).
    pub async fn stage_table(&self, new: NewTable) -> Result<TableMetadata, ServiceError> {
        let at = self.head().await?;
        let name = new.identifier.catalog_name()?;
        if self.entry(&at, &name).await?.is_some() {
            return Err(self.taken(exists(&new.identifier), &new.identifier, EntryKind::Table).await);
        }
        let (folder, metadata) = self.new_metadata(new).await?;
        self.check_folder(&folder, &name).await?;
        Ok(metadata)
    }

    async fn new_metadata(&self, new: NewTable) -> Result<(Folder, TableMetadata), ServiceError> {
        let NewTable { identifier, schema, location, partition_spec, sort_order, mut properties } = new;
        let (codec, zstd) = NEW_CODEC;
        properties.entry(codec.to_owned()).or_insert_with(|| zstd.to_owned());
        properties.remove(placing::FORMER);
        let uuid = self.inner.fresh_uuid();
        let folder = self.folder_of(&identifier, location).await?;
        let location = folder.location.clone();
        Ok((folder, create(Creation { schema, partition_spec, sort_order, location, properties }, uuid)?))
    }

    /// Writes the first metadata file of a table and creates its entry, in a folder that is claimed before if another
    /// table may be there.
    async fn install(
        &self,
        identifier: &Identifier,
        (folder, metadata): (&Folder, TableMetadata),
        key: Option<&Idempotency>,
    ) -> Answer {
        let claim = match self.inner.claim_unused(folder, &identifier.catalog_name()?).await {
            Ok(claim) => claim,
            Err(error) => return Err(self.taken(error, identifier, EntryKind::Table).await),
        };
        let answer = self.install_claimed(identifier, (folder, claim.as_ref()), metadata, key).await;
        self.inner.settle_claim(claim, &answer).await;
        answer
    }

    async fn install_claimed(
        &self,
        identifier: &Identifier,
        (folder, claim): (&Folder, Option<&Claim>),
        metadata: TableMetadata,
        key: Option<&Idempotency>,
    ) -> Answer {
        let name = identifier.catalog_name()?;
        let location = metadata.location().to_owned();
        let file = self.inner.metadata_file(&location, metadata.properties(), None)?;
        let body = Arc::new(Body::of(file, metadata)?);
        self.inner.mark_elsewhere(&location, None, &body.location).await?;
        self.inner.files.write(&body.location, body.json.clone()).await?;
        let create = Action::Create { name, entry: table_entry(&location, &body.location) };
        let mut actions = vec![create];
        let warehouse = &self.inner.settings.warehouse;
        actions.extend(self.inner.conditions(folder, claim).await?);
        actions.extend(purge::none_runs_where(&format!("{location}/metadata/"), &body.location, warehouse)?);
        match self.inner.commit_once(key, actions, &body.location).await {
            Ok(Operation::Done) => {
                Counts::add(&self.inner.counts.committed, 1);
                Counts::add(&self.inner.counts.versions, 1);
                Ok(body)
            }
            // Its file stays: somebody may have registered it.
            Ok(Operation::Before(noted)) => self.inner.done_before(&identifier.catalog_name()?, &noted).await,
            Err(failure) => {
                let error = failure.told(|refusal| created_told(refusal, identifier));
                Err(self.taken(error, identifier, EntryKind::Table).await)
            }
        }
    }

    /// The error that a name is taken, with what it is taken by if that is of another kind, or is nothing that a client
    /// sees.
    pub(crate) async fn taken(&self, error: ServiceError, by: &Identifier, wanted: EntryKind) -> ServiceError {
        let Some(entry) = self.taken_by(&error, by).await else { return error };
        let mut error = if entry.kind == wanted { error } else { same_name(entry.kind, by) };
        if is_bare(&entry) {
            error.message.push_str(&bare_words(by));
        }
        error
    }

    /// What has a name now, after the error that it is taken.
    async fn taken_by(&self, error: &ServiceError, name: &Identifier) -> Option<Entry> {
        if error.kind != Kind::Exists {
            return None;
        }
        let at = self.head().await.ok()?;
        self.entry(&at, &name.catalog_name().ok()?).await.ok()?
    }

    /// A commit that asserts that the table does not exist creates it.
    pub(crate) async fn create_by_commit(&self, identifier: &Identifier, commit: TableCommit) -> Answer {
        let (at, name) = (self.head().await?, identifier.catalog_name()?);
        if let Some(noted) = self.inner.replayed(&at, commit.key.as_ref()).await? {
            return self.inner.done_before(&name, &noted).await;
        }
        let answer = match self.created_by(identifier, commit.updates.clone()).await {
            Ok((folder, metadata)) => self.install(identifier, (&folder, metadata), commit.key.as_ref()).await,
            Err(error) => Err(error),
        };
        let error = match answer {
            Err(error) if error.kind == Kind::Exists => error,
            Err(error) if error.kind == Kind::Invalid => {
                if self.inner.current(&name).await?.is_none() {
                    // The table of an earlier delivery may have another name now, and this location.
                    let error = self.inner.unless_elsewhere(&name, &commit, error).await;
                    return self.inner.or_earlier_delivery(&name, commit.key.as_ref(), error).await;
                }
                error
            }
            answer => return answer,
        };
        // A view or a namespace has the name: a retry cannot help, so clients are told so.
        if self.taken_by(&error, identifier).await.is_some_and(|entry| entry.kind != EntryKind::Table) {
            return Err(error);
        }
        match self.inner.current(&name).await? {
            // By another delivery of this request. After a conflict the client would delete the table's files.
            Some(there) if made(&commit.updates, &there.metadata) => {
                self.inner.there(&name, &there, commit.key.as_ref()).await
            }
            _ => {
                let error = ServiceError::new(Kind::Conflict, "Requirement failed: table already exists");
                Err(self.inner.unless_elsewhere(&name, &commit, error).await)
            }
        }
    }

    /// The metadata of a table that is created by its first commit.
    pub(crate) async fn created_by(
        &self,
        identifier: &Identifier,
        updates: Vec<iceberg::TableUpdate>,
    ) -> Result<(Folder, TableMetadata), ServiceError> {
        let asked = updates.iter().rev().find_map(|update| match update {
            iceberg::TableUpdate::SetLocation { location } => Some(location.clone()),
            _ => None,
        });
        let folder = self.folder_of(identifier, asked).await?;
        let location = folder.location.clone();
        let mut updates = placing::with_former_of(BTreeSet::new(), false, updates);
        updates.push(iceberg::TableUpdate::SetLocation { location: location.clone() });
        Ok((folder, create_by_updates(updates, location, self.inner.fresh_uuid())?))
    }

    /// Gives a table another name.
    ///
    /// # Errors
    /// [`Kind::NoTable`], [`Kind::Exists`], [`Kind::NoNamespace`], or what the commit proves.
    pub async fn rename_table(
        &self,
        from: &Identifier,
        to: &Identifier,
        key: Option<&Idempotency>,
    ) -> Result<(), ServiceError> {
        self.rename(from, to, EntryKind::Table, key).await
    }

    /// Gives a table or a view another name.
    pub(crate) async fn rename(
        &self,
        from: &Identifier,
        to: &Identifier,
        kind: EntryKind,
        key: Option<&Idempotency>,
    ) -> Result<(), ServiceError> {
        self.inner.once(key, async || self.try_rename(from, to, kind, key).await).await
    }

    async fn try_rename(
        &self,
        from: &Identifier,
        to: &Identifier,
        kind: EntryKind,
        key: Option<&Idempotency>,
    ) -> Result<(), ServiceError> {
        let (old, new) = (from.catalog_name()?, to.catalog_name()?);
        let none = if kind == EntryKind::View { crate::reading::no_view(from) } else { no_table(from) };
        let mut attempts = 0;
        let failure = loop {
            attempts += 1;
            // A table of Lance, or an entry without a metadata file, is no table of Iceberg's clients, unless this was
            // done before it was made.
            let at = self.head().await?;
            let entry = self.entry(&at, &old).await?;
            let bare = entry.as_ref().is_some_and(|entry| {
                entry.kind == kind
                    && if kind == EntryKind::Table { !is_iceberg(entry) } else { entry.pointer.is_none() }
            });
            if bare && self.inner.replayed(&at, key).await?.is_none() {
                return Err(none);
            }
            let mut actions = vec![Action::Assert { name: old.clone(), holds: Assertion::Exists(kind) }];
            if kind == EntryKind::Table {
                actions.push(is_no_lance(&old));
            }
            let no_search_runs = self.no_search_runs(&at, entry.as_ref()).await?;
            if let (Some(entry), false) = (&entry, no_search_runs.is_empty()) {
                let holds = Assertion::Pointer(entry.pointer.clone());
                actions.push(Action::Assert { name: old.clone(), holds });
            }
            actions.extend(no_search_runs);
            let changes = entry.map(|entry| Line::removal(&entry.properties)).unwrap_or_default();
            if !changes.is_empty() {
                actions.push(Action::SetProperties { name: old.clone(), changes });
            }
            actions.push(Action::Rename { from: old.clone(), to: new.clone() });
            match self.inner.commit_once(key, actions, "").await {
                Ok(_) => return Ok(()),
                // A commit came first, or the old claim of its location was removed.
                Err(CommitFailure::Refused(refusal))
                    if attempts < self.inner.settings.attempts && is_passing(&refusal, &old) => {}
                Err(failure) => break failure,
            }
        };
        let error = failure.told(|refusal| match refusal {
            refusal if placing::told(refusal).is_some() => placing::told(refusal),
            Refusal::NotFound(name) if *name == old => Some(none),
            Refusal::WrongKind { name, .. } | Refusal::PropertyChanged { name, .. } if *name == old => Some(none),
            Refusal::PointerMoved { .. } => {
                let words = "commits to the table came first every time; not done: try again later";
                Some(ServiceError::new(Kind::Unavailable, words))
            }
            Refusal::Exists(_) => Some(exists(to)),
            Refusal::NoParent { parent, .. } | Refusal::WrongKind { name: parent, .. } => {
                Some(no_namespace(&parent.parts()))
            }
            _ => None,
        });
        // Where a view is involved, clients look for other words.
        Err(match self.taken_by(&error, to).await.map(|entry| entry.kind) {
            Some(EntryKind::Namespace) => same_name(EntryKind::Namespace, to),
            Some(found) if kind == EntryKind::View || found == EntryKind::View => {
                let words =
                    format!("Cannot rename {} to {}. {} already exists", from.dotted(), to.dotted(), word(found));
                ServiceError::new(Kind::Exists, words)
            }
            Some(_) => exists(to),
            None => error,
        })
    }

    /// Conditions for giving a table another name, in a catalog without versions: no purge and no claim is searching
    /// its folder. Such a search begins again when a name moves, and fails in the end. With versions a search reads one
    /// version, so there is no condition.
    pub(crate) async fn no_search_runs(
        &self,
        at: &C::Snapshot,
        entry: Option<&Entry>,
    ) -> Result<Vec<Action>, ServiceError> {
        let Some(location) = entry.filter(|_| !self.has_versions(at)).and_then(|entry| entry.location.as_ref()) else {
            return Ok(Vec::new());
        };
        let mut conditions = purge::none_runs(location, &self.inner.settings.warehouse)?;
        conditions.extend(self.inner.nobody_claims(location).await?);
        Ok(conditions)
    }

    pub(crate) fn has_versions(&self, at: &C::Snapshot) -> bool {
        self.inner.committer.catalog().version(at).is_some()
    }

    /// Drops a table. With `purge`, its files are deleted afterwards, by any server ([`run_purges`](Self::run_purges)).
    ///
    /// # Errors
    /// [`Kind::NoTable`], or what the commit proves.
    pub async fn drop_table(
        &self,
        table: &Identifier,
        purge: bool,
        key: Option<&Idempotency>,
    ) -> Result<(), ServiceError> {
        self.inner.once(key, async || self.try_drop(table, purge, key).await).await
    }

    async fn try_drop(&self, table: &Identifier, purge: bool, key: Option<&Idempotency>) -> Result<(), ServiceError> {
        let name = table.catalog_name()?;
        let queue = self.inner.table_queues.of(&name);
        let places = lead::places([&queue].into_iter());
        let mut led = Vec::new();
        let mut answer = self.drop_once(table, (purge, true), key).await;
        for attempt in 1..self.inner.settings.attempts {
            if !matches!(answer, Ok(false)) {
                break;
            }
            // A commit came first. Those of this server wait from now on, unless too many do already.
            if led.is_empty() {
                led = self.inner.lead_all(&places).await.unwrap_or_default();
            }
            answer = self.drop_once(table, (purge, purge || attempt < EXACT_DROPS), key).await;
        }
        lead::hand_over(&mut led);
        match answer? {
            true => Ok(()),
            false => {
                let words = "commits to the table came first every time; not done: try again later";
                Err(ServiceError::new(Kind::Unavailable, words))
            }
        }
    }

    /// Tries once; `false` if a commit came first.
    async fn drop_once(
        &self,
        table: &Identifier,
        (purge, exact): (bool, bool),
        key: Option<&Idempotency>,
    ) -> Result<bool, ServiceError> {
        let (at, name) = (self.head().await?, table.catalog_name()?);
        if self.inner.replayed(&at, key).await?.is_some() {
            return Ok(true);
        }
        let entry = self.entry(&at, &name).await?.filter(is_iceberg).ok_or_else(|| no_table(table))?;
        let mut actions = vec![match exact {
            true => Action::Assert { name: name.clone(), holds: Assertion::Pointer(entry.pointer.clone()) },
            false => is_no_lance(&name),
        }];
        actions.extend(self.inner.leaves(&entry).await?);
        if let (Some(pointer), Some(location), true) = (&entry.pointer, &entry.location, purge) {
            actions.push(purge::noted(location, pointer, self.inner.env.unix_ms())?);
        }
        actions.push(Action::Drop { name, kind: EntryKind::Table, expected: None });
        match self.inner.commit_once(key, actions, "").await {
            Ok(_) => Ok(true),
            Err(CommitFailure::Refused(refusal))
                if matches!(refusal, Refusal::PointerMoved { .. }) || leaving::told(&refusal).is_some() =>
            {
                Ok(false)
            }
            Err(failure) => Err(failure.told(|refusal| match refusal {
                Refusal::NotFound(_) | Refusal::WrongKind { .. } | Refusal::PropertyChanged { .. } => {
                    Some(no_table(table))
                }
                Refusal::Exists(_) => purge::told(refusal),
                _ => None,
            })),
        }
    }
}

/// The condition that no table of Lance has come in the place of one of Iceberg.
fn is_no_lance(name: &Name) -> Action {
    Action::Assert { name: name.clone(), holds: Assertion::Property { key: FORMAT.to_owned(), value: None } }
}

/// Whether these updates made this table: its number is theirs.
pub(crate) fn made(updates: &[iceberg::TableUpdate], table: &TableMetadata) -> bool {
    !mutant::is(Mutant::LandedIsConflict)
        && updates
            .iter()
            .any(|update| matches!(update, iceberg::TableUpdate::AssignUuid { uuid } if *uuid == table.uuid()))
}

/// Whether a change of an entry that this refuses may be done with the next attempt: the entry has changed, or a claim
/// beside it has come to an end.
pub(crate) fn is_passing(refusal: &Refusal, of: &Name) -> bool {
    match refusal {
        Refusal::PointerMoved { .. } => true,
        Refusal::NotFound(name) => name != of && placing::told(refusal).is_some(),
        _ => false,
    }
}

/// Whether an entry is a table or view without metadata, which clients of the server do not see.
pub(crate) fn is_bare(entry: &Entry) -> bool {
    entry.kind != EntryKind::Namespace && entry.pointer.is_none()
}

/// What to say of such an entry in the answer to a request that it is in the way of.
pub(crate) fn bare_words(name: &Identifier) -> String {
    format!(
        "; {} is an entry without metadata, which `glidepath catalog` made: `glidepath catalog drop` removes it",
        name.dotted()
    )
}

/// The word of Iceberg's clients.
fn word(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::Namespace => "Namespace",
        EntryKind::Table => "Table",
        EntryKind::View => "View",
    }
}

fn same_name(kind: EntryKind, name: &Identifier) -> ServiceError {
    ServiceError::new(Kind::Exists, format!("{} with same name already exists: {}", word(kind), name.dotted()))
}

pub(crate) fn exists(identifier: &Identifier) -> ServiceError {
    ServiceError::new(Kind::Exists, format!("Table already exists: {}", identifier.dotted()))
}

/// The answer to a refused creation.
pub(crate) fn created_told(refusal: &Refusal, identifier: &Identifier) -> Option<ServiceError> {
    placing::told(refusal).or_else(|| match refusal {
        Refusal::Exists(_) => Some(exists(identifier)),
        Refusal::NoParent { .. } | Refusal::WrongKind { .. } => Some(no_namespace(&identifier.namespace)),
        _ => None,
    })
}
