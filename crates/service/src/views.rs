//! Views: create, load, replace, rename, drop, register.

use std::collections::HashMap;
use std::sync::Arc;

use glidepath_env::Env;
use glidepath_model::{Action, Entry, Kind as EntryKind, Refusal};
use glidepath_protocols::group::Grouped;
use glidepath_table::Files;
use glidepath_table::commit::{check_schemas, check_view_ids};
use iceberg::ViewUpdate;
use iceberg::spec::{Schema, ViewFormatVersion, ViewMetadata, ViewMetadataBuilder, ViewVersion};
use uuid::Uuid;

use crate::bodies::{Body, Loaded, REGISTERED};
use crate::claims::Claim;
use crate::error::{Kind, ServiceError};
use crate::keys::{CommitFailure, Idempotency, Operation};
use crate::locations::is_within;
use crate::names::Identifier;
use crate::namespaces::no_namespace;
use crate::placing::{self, Folder, Moving};
use crate::reading::no_view;
use crate::sound::{check_time, check_view};
use crate::{Service, locations, pointer, purge};

/// A view to create.
#[derive(Clone, Debug)]
pub struct NewView {
    /// Where in the catalog.
    pub identifier: Identifier,
    /// Where its metadata files are to be; `None`: the server chooses.
    pub location: Option<String>,
    /// Its schema.
    pub schema: Schema,
    /// Its first version.
    pub version: ViewVersion,
    /// Its properties.
    pub properties: HashMap<String, String>,
}

/// A commit of a client to a view.
#[derive(Clone, Debug)]
pub struct ViewCommit {
    /// The UUIDs that the view must have: it has no two.
    pub uuids: Vec<Uuid>,
    /// Whether the view must not exist yet.
    pub creates: bool,
    /// What to change.
    pub updates: Vec<ViewUpdate>,
}

type ViewAnswer = Result<Loaded<ViewMetadata>, ServiceError>;

fn exists(view: &Identifier) -> ServiceError {
    ServiceError::new(Kind::Exists, format!("View already exists: {}", view.dotted()))
}

fn invalid(error: &iceberg::Error) -> ServiceError {
    // Clients look for what the message begins with, so it has no kind of error before it.
    ServiceError::new(Kind::Illegal, error.message())
}

/// Refuses a number of versions with which Iceberg's library for Java can make no change to the view.
fn check_history(properties: &HashMap<String, String>) -> Result<(), ServiceError> {
    match properties.get(HISTORY) {
        Some(found) if !found.parse::<i32>().is_ok_and(|versions| versions > 0) => {
            Err(ServiceError::new(Kind::Illegal, format!("{HISTORY} must be positive but was {found}")))
        }
        _ => Ok(()),
    }
}

/// The property of a view that says how many of its versions are kept.
const HISTORY: &str = "version.history.num-entries";

impl<E: Env, C: Grouped, F: Files> Service<E, C, F> {
    /// Creates a view.
    ///
    /// # Errors
    /// [`Kind::Exists`] (also for a table of this name), [`Kind::NoNamespace`], or what the commit proves.
    pub async fn create_view(&self, new: NewView, key: Option<&Idempotency>) -> ViewAnswer {
        self.inner.once(key, async || self.try_create_view(new.clone(), key).await).await
    }

    async fn try_create_view(&self, new: NewView, key: Option<&Idempotency>) -> ViewAnswer {
        let at = self.head().await?;
        if let Some(noted) = self.inner.replayed(&at, key).await? {
            return self.view_done_before(&new.identifier, &noted).await;
        }
        let NewView { identifier, location, schema, version, properties } = new;
        check_schemas([&schema])?;
        check_time(version.timestamp_ms())?;
        check_history(&properties)?;
        let folder = self.folder_of(&identifier, location).await?;
        let location = folder.location.clone();
        let builder = ViewMetadataBuilder::new(location, schema, version, ViewFormatVersion::V1, properties);
        let built = builder.and_then(|builder| builder.assign_uuid(self.inner.fresh_uuid()).build());
        let metadata = built.map_err(|error| invalid(&error))?.metadata;
        let claim = self.inner.claim_unused(&folder, &identifier.catalog_name()?).await;
        let claim = match claim.map_err(|error| taken_by_view(error, &identifier)) {
            Ok(claim) => claim,
            Err(error) => return Err(self.taken(error, &identifier, EntryKind::View).await),
        };
        let answer = self.install_view(&identifier, (&folder, claim.as_ref()), metadata, key).await;
        self.inner.settle_claim(claim, &answer).await;
        answer
    }

    async fn install_view(
        &self,
        identifier: &Identifier,
        (folder, claim): (&Folder, Option<&Claim>),
        metadata: ViewMetadata,
        key: Option<&Idempotency>,
    ) -> ViewAnswer {
        let warehouse = &self.inner.settings.warehouse;
        let mut actions = self.inner.conditions(folder, claim).await?;
        let body = self.write_view(metadata, None).await?;
        let own = format!("{}/metadata/", folder.location);
        actions.extend(purge::none_runs_where(&own, &body.location, warehouse)?);
        actions.push(Action::Create { name: identifier.catalog_name()?, entry: view_entry(&body) });
        self.settle_view(body, actions, key, identifier).await
    }

    /// Commits to a view. Overtaken commits are decided again.
    ///
    /// # Errors
    /// [`Kind::NoView`]; [`Kind::Conflict`] if the UUID is another; what the commit proves.
    pub async fn commit_view(&self, view: &Identifier, commit: ViewCommit, key: Option<&Idempotency>) -> ViewAnswer {
        self.inner.once(key, async || self.try_commit_view(view, &commit, key).await).await
    }

    async fn try_commit_view(&self, view: &Identifier, commit: &ViewCommit, key: Option<&Idempotency>) -> ViewAnswer {
        check_view(commit)?;
        let name = view.catalog_name()?;
        for _ in 0..self.inner.settings.attempts {
            let at = self.head().await?;
            if let Some(noted) = self.inner.replayed(&at, key).await? {
                return self.view_done_before(view, &noted).await;
            }
            let (current, entry) = self.view_and_entry(view).await?;
            self.inner.settings.check_place(&name, &entry, current.metadata.location())?;
            if commit.creates {
                return Err(ServiceError::new(Kind::Conflict, exists(view).message));
            }
            if commit.uuids.iter().any(|uuid| *uuid != current.metadata.uuid()) {
                let words = format!("Requirement failed: UUID does not match: it is {}", current.metadata.uuid());
                return Err(ServiceError::new(Kind::Conflict, words));
            }
            let metadata = self.replaced(&current.metadata, commit.updates.clone())?;
            let moving = self.inner.moving(&name, current.metadata.location(), metadata.location()).await?;
            let (claim, also) = moving.map(|Moving { claim, actions }| (claim, actions)).unzip();
            let answer = self.replace_view(view, (&current, metadata), also.unwrap_or_default(), key).await;
            self.inner.settle_claim(claim, &answer).await;
            if let Some(body) = answer? {
                return Ok(body);
            }
        }
        Err(ServiceError::new(
            Kind::Unavailable,
            "other commits to the view came first every time; nothing was done: try again later",
        ))
    }

    /// Tries once to commit the next metadata of a view, and these actions with it; `None` if another commit came
    /// first.
    pub(crate) async fn replace_view(
        &self,
        view: &Identifier,
        (current, metadata): (&Loaded<ViewMetadata>, ViewMetadata),
        also: Vec<Action>,
        key: Option<&Idempotency>,
    ) -> Result<Option<Loaded<ViewMetadata>>, ServiceError> {
        let body = self.write_view(metadata, Some(current)).await?;
        let (name, warehouse) = (view.catalog_name()?, &self.inner.settings.warehouse);
        let mut actions = pointer::moved(&name, current, &body.location, warehouse)?;
        actions.extend(also);
        match self.inner.commit_once(key, actions, &body.location).await {
            Ok(Operation::Done) => {
                self.inner.bodies.views.put(Arc::clone(&body));
                Ok(Some(body))
            }
            Ok(Operation::Before(noted)) => self.view_done_before(view, &noted).await.map(Some),
            Err(CommitFailure::Refused(Refusal::PointerMoved { name, found, .. }))
                if name == view.catalog_name()? =>
            {
                if found.as_deref() == Some(&body.location) {
                    return Ok(Some(body));
                }
                // Its file stays, as those of earlier versions do: somebody may register it.
                Ok(None)
            }
            Err(CommitFailure::Refused(Refusal::PropertyChanged { name, .. })) if name == view.catalog_name()? => {
                Ok(None)
            }
            Err(failure) => Err(failure.told(|refusal| view_told(refusal, view))),
        }
    }

    pub(crate) fn replaced(
        &self,
        current: &ViewMetadata,
        updates: Vec<ViewUpdate>,
    ) -> Result<ViewMetadata, ServiceError> {
        check_view_ids(&updates, current)?;
        check_schemas(updates.iter().filter_map(|update| match update {
            ViewUpdate::AddSchema { schema, .. } => Some(schema),
            _ => None,
        }))?;
        let mut builder = current.clone().into_builder();
        for update in updates {
            builder = match update {
                ViewUpdate::AssignUuid { uuid } if uuid == current.uuid() => Ok(builder),
                ViewUpdate::AssignUuid { uuid } => {
                    let found = current.uuid();
                    let words = format!("the view has the UUID {found}; it cannot get another one, {uuid}");
                    return Err(ServiceError::invalid(words));
                }
                ViewUpdate::UpgradeFormatVersion { format_version } => builder.upgrade_format_version(format_version),
                ViewUpdate::AddSchema { schema, .. } => Ok(builder.add_schema(schema)),
                ViewUpdate::SetLocation { location } => {
                    self.inner.settings.check_move(current.location(), &location)?;
                    Ok(builder.set_location(location))
                }
                ViewUpdate::SetProperties { updates } => {
                    check_history(&updates)?;
                    builder.set_properties(updates)
                }
                ViewUpdate::RemoveProperties { removals } => Ok(builder.remove_properties(&removals)),
                ViewUpdate::AddViewVersion { view_version } => {
                    check_time(view_version.timestamp_ms())?;
                    builder.add_version(view_version)
                }
                ViewUpdate::SetCurrentViewVersion { view_version_id } => {
                    builder.set_current_version_id(view_version_id)
                }
            }
            .map_err(|error| invalid(&error))?;
        }
        Ok(builder.build().map_err(|error| invalid(&error))?.metadata)
    }

    async fn write_view(&self, metadata: ViewMetadata, on: Option<&Loaded<ViewMetadata>>) -> ViewAnswer {
        let earlier = on.map(|on| on.location.as_str());
        let file = self.inner.metadata_file(metadata.location(), metadata.properties(), earlier)?;
        let body = Arc::new(Body::of(file, metadata)?.registered_as(on.map(|on| &**on)));
        let before = on.map(|on| (on.metadata.location(), on.location.as_str()));
        self.inner.mark_elsewhere(body.metadata.location(), before, &body.location).await?;
        self.inner.files.write(&body.location, body.json.clone()).await?;
        Ok(body)
    }

    /// The answer to a request that was done before, whose view had this file then.
    async fn view_done_before(&self, view: &Identifier, noted: &str) -> ViewAnswer {
        let error = match self.inner.earlier_body(noted).await {
            Ok(body) => return Ok(body),
            Err(error) => error,
        };
        match self.load_view(view).await {
            Ok(now) if is_within(noted, now.metadata.location()) => Ok(now),
            _ => {
                let words = format!("it was done before, and the view cannot be read: {error}");
                Err(ServiceError::new(Kind::Unknown, words))
            }
        }
    }

    async fn settle_view(
        &self,
        body: Loaded<ViewMetadata>,
        actions: Vec<Action>,
        key: Option<&Idempotency>,
        view: &Identifier,
    ) -> ViewAnswer {
        match self.inner.commit_once(key, actions, &body.location).await {
            Ok(Operation::Done) => {
                self.inner.bodies.views.put(Arc::clone(&body));
                Ok(body)
            }
            Ok(Operation::Before(noted)) => self.view_done_before(view, &noted).await,
            Err(failure) => {
                // Its file stays: somebody may have registered it.
                let error = failure.told(|refusal| view_told(refusal, view));
                Err(self.taken(error, view, EntryKind::View).await)
            }
        }
    }

    /// Gives a name to the metadata of a view that exists already.
    ///
    /// # Errors
    /// As [`register_table`](Self::register_table).
    pub async fn register_view(&self, view: &Identifier, file: &str, key: Option<&Idempotency>) -> ViewAnswer {
        self.inner.once(key, async || self.try_register_view(view, file, key).await).await
    }

    async fn try_register_view(&self, view: &Identifier, file: &str, key: Option<&Idempotency>) -> ViewAnswer {
        let at = self.head().await?;
        if let Some(noted) = self.inner.replayed(&at, key).await? {
            return self.view_done_before(view, &noted).await;
        }
        self.namespace_at(&at, &view.namespace).await?;
        let warehouse = &self.inner.settings.warehouse;
        let allowed = self.inner.settings.folder_of(&view.namespace);
        let file = locations::checked(file, &allowed)?;
        let mark = self.inner.fresh_uuid().simple().to_string();
        let body = self.read_view((&file, &mark)).await?;
        check_history(body.metadata.properties())?;
        body.metadata.history().iter().try_for_each(|log| check_time(log.timestamp_ms()))?;
        body.metadata.versions().try_for_each(|version| check_time(version.timestamp_ms()))?;
        let folder = Folder::named(locations::checked(body.metadata.location(), &allowed)?);
        let name = view.catalog_name()?;
        self.inner.check_beside_namespace(&folder.location, &name).await?;
        let claim = self.inner.claim_beside(&folder, &[&file], &name).await;
        let claim = match claim.map_err(|error| taken_by_view(error, view)) {
            Ok(claim) => Some(claim),
            Err(error) => return Err(self.taken(error, view, EntryKind::View).await),
        };
        let answer = async {
            // Again, now that it is claimed: a purge may have deleted it.
            let again = self.read_view((&file, &mark)).await?;
            if again.json != body.json {
                let words = "the metadata file is another one than a moment ago; not done: try again";
                return Err(ServiceError::new(Kind::Unavailable, words));
            }
            let mut actions = folder.conditions(warehouse, claim.as_ref())?;
            actions.extend(purge::none_runs_where(&format!("{}/metadata/", folder.location), &file, warehouse)?);
            actions.push(purge::none_ended(&folder.location)?);
            self.inner.mark_elsewhere(&folder.location, None, &file).await?;
            actions.push(Action::Create { name, entry: view_entry(&body) });
            match self.inner.commit_once(key, actions, &file).await {
                Ok(_) => Ok(Arc::clone(&body)),
                Err(failure) => {
                    Err(self.taken(failure.told(|refusal| view_told(refusal, view)), view, EntryKind::View).await)
                }
            }
        };
        let answer = answer.await;
        self.inner.settle_claim(claim, &answer).await;
        answer
    }

    /// The metadata in a file to register. Not from memory: the file may have been deleted long ago.
    async fn read_view(&self, (file, mark): (&str, &str)) -> ViewAnswer {
        self.inner.fresh_body(file, Some(mark)).await.map_err(|error| match error.kind {
            Kind::Broken | Kind::NoFile => ServiceError::new(Kind::Invalid, error.message),
            _ => error,
        })
    }

    /// Gives a view another name.
    ///
    /// # Errors
    /// As [`rename_table`](Self::rename_table).
    pub async fn rename_view(
        &self,
        from: &Identifier,
        to: &Identifier,
        key: Option<&Idempotency>,
    ) -> Result<(), ServiceError> {
        self.rename(from, to, EntryKind::View, key).await
    }

    /// Drops a view. Its metadata files stay.
    ///
    /// # Errors
    /// [`Kind::NoView`], or what the commit proves.
    pub async fn drop_view(&self, view: &Identifier, key: Option<&Idempotency>) -> Result<(), ServiceError> {
        self.inner.once(key, async || self.try_drop_view(view, key).await).await
    }

    async fn try_drop_view(&self, view: &Identifier, key: Option<&Idempotency>) -> Result<(), ServiceError> {
        let action = Action::Drop { name: view.catalog_name()?, kind: EntryKind::View, expected: None };
        let done = self.inner.commit_once(key, vec![action], "").await;
        done.map(drop).map_err(|failure| failure.told(|refusal| view_told(refusal, view)))
    }
}

fn view_entry(body: &Loaded<ViewMetadata>) -> Entry {
    let location = Some(body.metadata.location().to_owned());
    let registered = body.registered.iter().map(|mark| (REGISTERED.to_owned(), mark.clone()));
    Entry { location, pointer: Some(body.location.clone()), properties: registered.collect(), ..Entry::view() }
}

/// The error that a name is taken, in the words of views.
fn taken_by_view(error: ServiceError, view: &Identifier) -> ServiceError {
    if error.kind == Kind::Exists { exists(view) } else { error }
}

fn view_told(refusal: &Refusal, view: &Identifier) -> Option<ServiceError> {
    placing::told(refusal).or_else(|| match refusal {
        Refusal::Exists(_) => Some(exists(view)),
        Refusal::NoParent { .. } => Some(no_namespace(&view.namespace)),
        Refusal::NotFound(_) | Refusal::WrongKind { .. } => Some(no_view(view)),
        _ => None,
    })
}
