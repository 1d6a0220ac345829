//! Step 4: the files of a version that is not committed yet, and what becomes of them.

use std::sync::Arc;

use glidepath_env::Env;
use glidepath_model::Name;
use glidepath_protocols::group::Grouped;
use glidepath_table::Files;
use iceberg::spec::TableMetadata;

use super::TOGETHER;
use super::decide::Draft;
use crate::Inner;
use crate::bodies::{Body, Loaded};
use crate::error::ServiceError;
use crate::locations::is_same;

/// Whether a version of a table names a file of an attempt, which somebody has registered then.
fn names_one(now: &Loaded<TableMetadata>, next: &Next) -> bool {
    let file = &next.body.location;
    let has = |list: &str| next.lists.iter().any(|written| is_same(written, list));
    is_same(&now.location, file)
        || now.metadata.metadata_log().iter().any(|entry| is_same(&entry.metadata_file, file))
        || now.metadata.snapshots().any(|snapshot| has(snapshot.manifest_list()))
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
        let body = Arc::new(Body::of(location, metadata)?);
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

    /// As [`discard`](Self::discard), if the table still has its name, and names none of the files. If it was dropped, its newest
    /// metadata file, which may be this attempt's, may be registered at any time; while it is there, no other table gets its files.
    pub(crate) async fn discard_beside(&self, name: &Name, next: &Next) {
        if let Ok(Some(now)) = self.current(name).await
            && now.metadata.uuid() == next.body.metadata.uuid()
            && !names_one(&now, next)
        {
            self.discard(next).await;
        }
    }

    /// Removes files of an attempt that certainly did not and will not take effect. If that fails, they stay: nothing
    /// refers to them.
    pub(crate) async fn discard(&self, next: &Next) {
        for location in next.lists.iter().chain([&next.body.location]) {
            self.lists.forget(location);
            let _ = self.files.delete(location).await;
        }
    }

    /// Removes metadata files that have left the table's log, if the table asks for it.
    pub(crate) async fn clean_log(&self, next: &Next) {
        let metadata = &next.body.metadata;
        if !deletes_log(metadata) {
            return;
        }
        for file in &next.expired {
            if crate::locations::is_within(file, metadata.location()) {
                let _ = self.files.delete(file).await;
            }
        }
    }
}
