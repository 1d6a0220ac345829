//! Before a client is told that its commit was not done: could another delivery of it have been?
//!
//! A client deletes the files of a commit that it is told was not done: after 409, 404, 400, 401 and 403 (Iceberg's
//! client for Java). A snapshot in the table, or in the history of its branch, is recognized by its id. But the table
//! may have another name by now, and its old name none, or another table. Then the files of the commit are still the
//! table's.

use std::collections::BTreeSet;

use glidepath_env::Env;
use glidepath_model::Name;
use glidepath_protocols::group::Grouped;
use glidepath_table::Files;
use iceberg::TableUpdate;

use super::TableCommit;
use crate::Inner;
use crate::error::{Kind, ServiceError};
use crate::locations::is_within;
use crate::table_queues::Answer;

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// This error, unless the table of the commit has another name now: then an earlier delivery may have been done.
    /// Reads every entry of the catalog.
    pub(crate) async fn unless_elsewhere(
        &self,
        name: &Name,
        commit: &TableCommit,
        error: ServiceError,
    ) -> ServiceError {
        let lists = commit.updates.iter().filter_map(|update| match update {
            TableUpdate::AddSnapshot { snapshot } => Some(snapshot.manifest_list()),
            _ => None,
        });
        let folders = lists.map(|list| list.rsplit_once('/').map_or(list, |(folder, _)| folder));
        // No table has files outside of the warehouse.
        let folders: BTreeSet<&str> = folders.filter(|folder| is_within(folder, &self.settings.warehouse)).collect();
        if folders.is_empty() {
            return error;
        }
        let folders: Vec<&str> = folders.into_iter().collect();
        let namespace = name.parent().map(|parent| parent.parts()).unwrap_or_default();
        let allowed = self.settings.folder_of(&namespace);
        // Elsewhere the answer must not depend on what is there: it would tell of tables that the client may not see.
        let elsewhere = folders.iter().any(|folder| !is_within(folder, &allowed));
        let used = match elsewhere && self.settings.own_folders {
            true => Ok(true),
            false => self.used_by(&folders, &[]).await.map(|used| !used.is_empty()),
        };
        match used {
            Ok(false) => error,
            Ok(true) => {
                let words = format!("whether it was done before is not known: {error}, and a table may have its files");
                ServiceError::new(Kind::Unknown, words)
            }
            Err(unread) => unread,
        }
    }

    /// The answer to a request whose earlier delivery was done: the table as that left it, or as it is now.
    pub(crate) async fn done_before(&self, name: &Name, noted: &str) -> Answer {
        let error = match self.earlier_body(noted).await {
            Ok(body) => return Ok(body),
            Err(error) => error,
        };
        // The file may have left the log of the table, and been deleted.
        if let Ok(Some(now)) = self.current(name).await
            && is_within(noted, now.metadata.location())
        {
            return Ok(now);
        }
        // Not that there is no table: the client would delete files that the table may have under another name.
        Err(ServiceError::new(Kind::Unknown, format!("it was done before, and the table cannot be read: {error}")))
    }
}
