//! How is a name given to the files of a table that exist already?
//!
//! The location of the files is [claimed](crate::claims). Then the server looks whether the files are there, and whether another
//! table has files in any folder in which the metadata names some: two tables with the same files would delete what the other one
//! needs. The commit asserts, besides the claim, that no purge has ended in the location for a day: a write of a metadata file that
//! the store does late, after the file was deleted, brings it back, and the files that it names are gone.

use glidepath_env::Env;
use glidepath_model::{Action, Assertion, Kind as EntryKind};
use glidepath_protocols::group::Grouped;
use glidepath_table::{Files, defaults};
use iceberg::spec::TableMetadata;

use crate::bodies::Loaded;
use crate::cells::Answer;
use crate::claims::Claim;
use crate::commit::LOSES_DEFAULTS;
use crate::error::{Kind, ServiceError};
use crate::keys::Idempotency;
use crate::mutant::{self, Mutant};
use crate::names::Identifier;
use crate::placing::Folder;
use crate::reading::is_iceberg;
use crate::tables::created_told;
use crate::{Service, locations, placing, purge, sound};

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
        let at = self.head().await?;
        if let Some(noted) = self.inner.replayed(&at, key).await? {
            return self.inner.done_before(&new.identifier.catalog_name()?, &noted).await;
        }
        self.namespace_at(&at, &new.identifier.namespace).await?;
        let allowed = self.inner.settings.folder_of(&new.identifier.namespace);
        let file = locations::checked(&new.metadata_location, &allowed)?;
        let (body, location) = self.registered(&file, &allowed).await?;
        let others = placing::others_of(&body.metadata, &file, &allowed)?;
        let folders: Vec<&str> = [location.as_str()].into_iter().chain(others.iter().map(String::as_str)).collect();
        let claim = self.inner.claim(&folders).await?;
        let answer = self.register_claimed(&new.identifier, new.overwrite, (&file, &location), &claim, key).await;
        self.inner.settle_claim(Some(claim), &answer).await;
        answer
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

    /// Registers a metadata file, whose location is known and claimed.
    async fn register_claimed(
        &self,
        identifier: &Identifier,
        overwrite: bool,
        (file, location): (&str, &str),
        claim: &Claim,
        key: Option<&Idempotency>,
    ) -> Answer {
        let allowed = self.inner.settings.folder_of(&identifier.namespace);
        // Again, now that it is claimed: it may have been deleted, and another file have come in its place.
        let (body, found) = self.registered(file, &allowed).await?;
        if found != location {
            let words = "the metadata file has another location than a moment ago; not done: try again";
            return Err(ServiceError::new(Kind::Unavailable, words));
        }
        let (at, name) = (self.head().await?, identifier.catalog_name()?);
        let before = self.entry(&at, &name).await?;
        let warehouse = &self.inner.settings.warehouse;
        let others = placing::others_of(&body.metadata, file, &allowed)?;
        let places: Vec<&str> = [location, file].into_iter().chain(others.iter().map(String::as_str)).collect();
        let looks = !mutant::is(Mutant::RegisteredInUse);
        if looks && self.inner.is_in_use(&places, Some(&name)).await? {
            let words = "another table or view has the metadata file, or files in or around its location or another folder that it \
                         names; drop that table first, without a purge";
            return Err(ServiceError::invalid(words));
        }
        let mut actions = Vec::new();
        if let Some(entry) = before.filter(|entry| overwrite && is_iceberg(entry)) {
            let same = Assertion::Pointer(entry.pointer);
            actions.push(Action::Assert { name: name.clone(), holds: same });
            actions.push(Action::Drop { name: name.clone(), kind: EntryKind::Table, expected: None });
        }
        // A new entry, so that its location is that of its files.
        actions.push(Action::Create { name, entry: placing::registered_entry(location, file, &others) });
        actions.extend(Folder::named(location.to_owned()).conditions(warehouse, Some(claim))?);
        for other in &others {
            actions.extend(purge::none_runs(other, warehouse)?);
        }
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
