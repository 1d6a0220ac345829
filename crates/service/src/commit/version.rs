//! Step 4: the files of a version that is not committed yet, and what becomes of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use glidepath_env::Env;
use glidepath_model::Name;
use glidepath_protocols::group::Grouped;
use glidepath_protocols::table_turn::TOGETHER;
use glidepath_table::Files;
use iceberg::spec::TableMetadata;
use uuid::Uuid;

use super::decide::Draft;
use crate::Inner;
use crate::bodies::{Body, Loaded};
use crate::error::ServiceError;
use crate::locations::{is_metadata_file, is_same, is_within, unslashed};

/// Attempts that certainly did not and will not take effect. Their files are deleted when the pointer has left the
/// files on which they were prepared: then no registration gives one to the table ([`leaving`](crate::leaving)).
#[derive(Default)]
#[cfg_attr(test, derive(Clone))]
pub(crate) struct Lost(BTreeMap<Name, Vec<LostOne>>);

#[cfg_attr(test, derive(Clone))]
struct LostOne {
    /// The table, and the file on which it was prepared.
    uuid: Uuid,
    base: String,
    /// Its metadata file and its manifest lists.
    file: String,
    lists: Vec<String>,
}

impl Lost {
    /// An attempt at a table, on this version of it.
    pub(crate) fn add(&mut self, name: &Name, on: &Loaded<TableMetadata>, Next { body, lists, .. }: Next) {
        let (uuid, base) = (on.metadata.uuid(), on.location.clone());
        let one = LostOne { uuid, base, file: body.location.clone(), lists };
        self.0.entry(name.clone()).or_default().push(one);
    }
}

impl LostOne {
    /// Whether its files may be deleted beside this version of the table, which names these. Not if it names one:
    /// somebody has registered it then.
    fn is_over(&self, now: &Loaded<TableMetadata>, named: &BTreeSet<String>) -> bool {
        now.metadata.uuid() == self.uuid
            && !is_same(&now.location, &self.base)
            && !self.lists.iter().chain([&self.file]).any(|file| named.contains(&unslashed(file)))
    }
}

/// Whether metadata files of a table that leave its log are deleted.
pub(crate) fn deletes_log(metadata: &TableMetadata) -> bool {
    metadata.properties().get("write.metadata.delete-after-commit.enabled").is_some_and(|asked| asked == "true")
}

/// A version that is written and not committed.
pub(crate) struct Next {
    pub(crate) body: Loaded<TableMetadata>,
    /// The manifest lists that were written for it.
    lists: Vec<String>,
    /// The metadata files that its log no longer names.
    expired: Vec<String>,
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// Step 4, after the version in this file, if there is one.
    pub(crate) async fn write(&self, on: Option<&Loaded<TableMetadata>>, draft: Draft) -> Result<Next, ServiceError> {
        let Draft { metadata, lists, expired } = draft;
        let earlier = on.map(|on| on.location.as_str());
        let location = self.metadata_file(metadata.location(), metadata.properties(), earlier)?;
        let body = Arc::new(Body::of(location, metadata)?.registered_as(on.map(|on| &**on)));
        let before = on.map(|on| (on.metadata.location(), on.location.as_str()));
        self.mark_elsewhere(body.metadata.location(), before, &body.location).await?;
        let mut files: Vec<(&str, bytes::Bytes)> = vec![(&body.location, body.json.clone())];
        files.extend(lists.iter().map(|(location, bytes)| (location.as_str(), bytes.clone())));
        let writes = files.into_iter().map(|(location, bytes)| self.files.write(location, bytes));
        for written in glidepath_env::together(TOGETHER + 1, writes).await {
            written?;
        }
        Ok(Next { body, lists: lists.into_iter().map(|(location, _)| location).collect(), expired })
    }

    /// Removes the files of attempts where the table still has its name, and has gone on. If it was dropped, its newest
    /// metadata file, which may be an attempt's, may be registered; and what cannot be deleted stays: nothing refers to
    /// it.
    pub(crate) async fn discard(&self, lost: Lost) {
        let mut files = Vec::new();
        for (name, attempts) in lost.0 {
            let Ok(Some(now)) = self.current(&name).await else { continue };
            let log = now.metadata.metadata_log().iter().map(|entry| entry.metadata_file.as_str());
            let lists = now.metadata.snapshots().map(|snapshot| snapshot.manifest_list());
            let named = log.chain(lists).chain([now.location.as_str()]).map(unslashed).collect();
            let over = attempts.into_iter().filter(|one| one.is_over(&now, &named));
            files.extend(over.flat_map(|one| one.lists.into_iter().chain([one.file])));
        }
        let deletions = files.iter().map(async |file| {
            self.lists.forget(file);
            let _ = self.files.delete(file).await;
        });
        glidepath_env::together(crate::AT_ONCE, deletions).await;
    }

    /// Removes metadata files that have left the table's log, if the table asks for it. Those with names as servers
    /// give: others may be registered at any time.
    pub(crate) async fn clean_log(&self, next: &Next) {
        let metadata = &next.body.metadata;
        if !deletes_log(metadata) {
            return;
        }
        for file in &next.expired {
            if is_within(file, metadata.location()) && is_metadata_file(file) {
                let _ = self.files.delete(file).await;
            }
        }
    }
}
