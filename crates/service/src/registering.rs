//! How is a name given to the files of a table that exist already?
//!
//! The location of the files is [claimed](crate::claims). Then the server looks whether the files are there, and
//! whether another table has files in any folder in which the metadata names some: two tables with the same files would
//! delete what the other one needs; and whether a server may be about to delete the metadata file
//! ([`leaving`](crate::leaving)). The commit asserts, besides the claim, that no purge has ended in the location for a
//! day: a write of a metadata file that the store does late, after the file was deleted, brings it back, and the files
//! that it names are gone.

use glidepath_env::Env;
use glidepath_model::{Action, Assertion, Entry, Kind as EntryKind};
use glidepath_protocols::group::Grouped;
use glidepath_table::{Files, defaults};
use iceberg::spec::TableMetadata;

use crate::bodies::{Loaded, REGISTERED, registration};
use crate::claims::Claim;
use crate::commit::LOSES_DEFAULTS;
use crate::error::{Kind, ServiceError};
use crate::keys::Idempotency;
use crate::locations::is_same;
use crate::mutant::{self, Mutant};
use crate::names::Identifier;
use crate::placing::{Folder, Past};
use crate::reading::is_iceberg;
use crate::table_queues::Answer;
use crate::tables::{created_told, exists};
use crate::{Service, locations, purge, sound};

/// Why a metadata file is not registered. Not which table or view: the client may not know of it.
pub(crate) const IN_USE: &str = "another table or view has the metadata file, or files in or around its location or another folder \
                                 that it names; drop that one first, a table without a purge";

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

impl<E: Env, C: Grouped, F: Files> Service<E, C, F> {
    /// Gives a name to metadata that exists already.
    ///
    /// # Errors
    /// [`Kind::Exists`], [`Kind::NoNamespace`]; [`Kind::Invalid`] if the file is not in the warehouse, or is not the
    /// metadata of a table whose files are in it.
    pub async fn register_table(&self, new: Registration, key: Option<&Idempotency>) -> Answer {
        self.inner.once(key, async || self.try_register(&new, key).await).await
    }

    async fn try_register(&self, new: &Registration, key: Option<&Idempotency>) -> Answer {
        let at = self.head().await?;
        if let Some(noted) = self.inner.replayed(&at, key).await? {
            return self.inner.done_before(&new.identifier.catalog_name()?, &noted).await;
        }
        self.namespace_at(&at, &new.identifier.namespace).await?;
        let allowed = self.inner.settings.folder_of(&new.identifier.namespace);
        let file = locations::checked(&new.metadata_location, &allowed)?;
        let mark = self.inner.fresh_uuid().simple().to_string();
        let (body, location) = self.registered((&file, &mark), &allowed).await?;
        let past = Past::of(&body.metadata, &self.inner.settings.warehouse, &allowed)?;
        let folders: Vec<&str> = [location.as_str()].into_iter().chain(past.folders()).collect();
        let claim = self.inner.claim(&folders).await?;
        let answer = self.register_claimed(new, (&file, &mark, &location, past), &claim, key).await;
        self.inner.settle_claim(Some(claim), &answer).await;
        answer
    }

    /// The metadata in a file to register, and its location. Read from the store: what is in memory may have been
    /// deleted long ago.
    async fn registered(
        &self,
        (file, mark): (&str, &str),
        allowed: &str,
    ) -> Result<(Loaded<TableMetadata>, String), ServiceError> {
        let body = self.inner.fresh_body(file, Some(mark)).await.map_err(|error| match error.kind {
            Kind::Broken | Kind::NoFile => ServiceError::new(Kind::Invalid, error.message),
            _ => error,
        })?;
        sound::check_metadata(&body.metadata)?;
        if body.metadata.metadata_log().iter().any(|entry| is_same(&entry.metadata_file, file)) {
            let words = "the metadata file is in its own metadata-log, so it would be deleted when it leaves that: take it out there";
            return Err(ServiceError::invalid(words));
        }
        if !defaults::are_kept(&body.json) {
            return Err(ServiceError::invalid(LOSES_DEFAULTS));
        }
        let location = locations::checked(body.metadata.location(), allowed)?;
        Ok((body, location))
    }

    /// Whether an entry may be of this table, though with other metadata.
    async fn may_be_of(&self, entry: &Entry, metadata: &TableMetadata) -> bool {
        let Some(pointer) = &entry.pointer else { return false };
        self.inner
            .body::<TableMetadata>(pointer, registration(entry))
            .await
            .map_or(true, |there| there.metadata.uuid() == metadata.uuid())
    }

    /// Registers a metadata file, whose location is known and claimed.
    async fn register_claimed(
        &self,
        Registration { identifier, overwrite, .. }: &Registration,
        (file, mark, location, mut past): (&str, &str, &str, Past),
        claim: &Claim,
        key: Option<&Idempotency>,
    ) -> Answer {
        let allowed = self.inner.settings.folder_of(&identifier.namespace);
        // Again, now that it is claimed: it may have been deleted, and another file have come in its place.
        let (body, found) = self.registered((file, mark), &allowed).await?;
        let warehouse = &self.inner.settings.warehouse;
        if found != location || Past::of(&body.metadata, warehouse, &allowed)? != past {
            let words = "the metadata file names other folders than a moment ago; not done: try again";
            return Err(ServiceError::new(Kind::Unavailable, words));
        }
        let (at, name) = (self.head().await?, identifier.catalog_name()?);
        let before = self.entry(&at, &name).await?;
        for folder in [location].into_iter().chain(past.folders()) {
            self.inner.check_beside_namespace(folder, &name).await?;
        }
        let (own, files) = past.looked_for(location, file);
        let used = match mutant::is(Mutant::RegisteredInUse) {
            true => Vec::new(),
            false => self.inner.used_by(&own, &files).await?,
        };
        let replaced = before.filter(|entry| *overwrite && is_iceberg(entry));
        // What has the name may get another one before the commit, unless that asserts it.
        if replaced.is_none() && used.contains(&name) {
            return Err(self.taken(exists(identifier), identifier, EntryKind::Table).await);
        }
        if used.iter().any(|other| *other != name) {
            return Err(ServiceError::invalid(IN_USE));
        }
        let mut actions = vec![self.inner.check_not_leaving(replaced.as_ref(), &body).await?];
        if let Some(entry) = replaced {
            if self.may_be_of(&entry, &body.metadata).await {
                past = past.and_of(&entry, location);
            }
            let leaves = self.inner.leaves(&entry).await?;
            let same = Assertion::Pointer(entry.pointer);
            actions.push(Action::Assert { name: name.clone(), holds: same });
            actions.extend(leaves);
            actions.push(Action::Drop { name: name.clone(), kind: EntryKind::Table, expected: None });
        }
        // A new entry, so that its location is that of its files.
        let mut entry = past.entry(location, file);
        entry.properties.insert(REGISTERED.to_owned(), mark.to_owned());
        actions.push(Action::Create { name, entry });
        actions.extend(Folder::named(location.to_owned()).conditions(warehouse, Some(claim))?);
        for other in past.folders() {
            actions.extend(purge::none_runs(other, warehouse)?);
            actions.push(purge::none_ended(other)?);
        }
        self.inner.mark_elsewhere(location, None, file).await?;
        // The purge of another table may delete the file itself.
        actions.extend(purge::none_runs_where(&format!("{location}/metadata/"), file, warehouse)?);
        actions.push(purge::none_ended(location)?);
        match self.inner.commit_once(key, actions, file).await {
            Ok(_) => Ok(body),
            Err(failure) => {
                let error = failure.told(|refusal| created_told(refusal, identifier));
                Err(self.taken(error, identifier, EntryKind::Table).await)
            }
        }
    }
}
