//! In which folder are the files of a new table or view?
//!
//! In one that the server makes up, which no other has, or in one that the client names. That one may be another table's,
//! also one's that the client may not see: a table keeps its folder when it is renamed. Two tables in one folder have the same
//! credentials of the storage, and neither can be purged. So a folder that a client names is looked for in the whole catalog.
//!
//! A table that is created by its first commit has a folder that a server made up before, and that commit names it. A large
//! catalog is not read for that: if the folder is written as the server writes folders of this very name, only a table that had
//! this name before can be there, and a table of Iceberg has its metadata file there.

use glidepath_env::Env;
use glidepath_model::Name;
use glidepath_protocols::group::Grouped;
use glidepath_table::Files;

use crate::error::ServiceError;
use crate::locations::{is_within, unslashed};
use crate::names::Identifier;
use crate::{Inner, Service, locations};

/// The most requests that list a folder, and the files of each. Who writes more before the table is created waits for a look at
/// the whole catalog.
const REQUESTS: usize = 6;
const PAGE: usize = 1000;

impl<E: Env, C: Grouped, F: Files> Service<E, C, F> {
    /// The location of a new table or view: as asked if it is in the warehouse and no other's, or a folder of its own.
    pub(crate) async fn location_of(
        &self,
        identifier: &Identifier,
        asked: Option<String>,
    ) -> Result<String, ServiceError> {
        let at = self.head().await?;
        let namespace = self.namespace_at(&at, &identifier.namespace).await?;
        let settings = &self.inner.settings;
        let allowed = settings.folder_of(&identifier.namespace);
        let base = match namespace.properties.get("location") {
            Some(location) => locations::checked_folder(location, &allowed),
            None => Ok(locations::of_namespace(&settings.warehouse, &identifier.namespace)),
        };
        let Some(asked) = asked else {
            return locations::with_room(locations::fresh(&base?, &identifier.name, self.inner.fresh_uuid()));
        };
        let location = locations::with_room(locations::checked(&asked, &allowed)?)?;
        let made_up = base.is_ok_and(|base| locations::is_fresh(&location, &base, &identifier.name));
        if !made_up || self.inner.may_have_table(&location).await {
            self.inner.check_unused(&location, &identifier.catalog_name()?).await?;
        }
        Ok(location)
    }
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// Refuses a location that a client names if a table or view other than `own` has files in or around it. Reads every entry
    /// of the catalog.
    pub(crate) async fn check_unused(&self, location: &str, own: &Name) -> Result<(), ServiceError> {
        match self.is_in_use(&[location], Some(own)).await? {
            false => Ok(()),
            // Not which one: the client may not know of it.
            true => {
                let words = format!(
                    "the location {location:?} is not allowed: another table or view has files in it or around it; leave the \
                     location out, so that the server chooses one, or name another"
                );
                Err(ServiceError::invalid(words))
            }
        }
    }

    /// Whether a folder may be that of a table which has been written: `false` is certain. So it is not certain where the store
    /// does not list the folder.
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

/// Whether a file may be the metadata of a table or view of Iceberg, or is of Lance: nobody writes these before a table is
/// created.
fn is_of_table(file: &str, location: &str) -> bool {
    let (file, location) = (unslashed(file), unslashed(location));
    let rest = file.strip_prefix(&location).unwrap_or_default().trim_start_matches('/');
    !is_within(&file, &location)
        || rest.starts_with('_')
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
