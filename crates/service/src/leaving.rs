//! Which metadata files may be about to be deleted?
//!
//! A server deletes two kinds of metadata files of a table, at once or after it slept for hours: what has left the log,
//! if the table asks for that, and what an attempt wrote that was not committed, once the pointer has left the file on
//! which it was prepared. So the table never gets such a file again. A file may become a table's by a registration
//! only, which looks at the last file that the table had: the one that it has now, or those with which it was dropped
//! or replaced. These are kept for a day after the last drop, under the table's UUID, except those that a later one has
//! in its log. What is one of them, or in its log, may follow; else a file may follow if it may follow each:
//!
//! * itself, and what is in its log: nobody deletes these;
//! * what has another name than the server's own ([`is_metadata_file`]): no server deletes it. But a manifest list that
//!   a server wrote for an append, and the last file does not name, may be that of an attempt, which is deleted with
//!   it;
//! * what is neither where the table had files nor has such files in its log, as after the files of a table were copied
//!   elsewhere;
//! * what has the last file in its log, as what another catalog wrote; an attempt that was prepared on the last file is
//!   not deleted;
//! * what has a higher number in its name and is dated later, and does not begin at a file of that log, as attempts do:
//!   another catalog's, whose log was cut.
//!
//! Where files are deleted that leave the log, its own log must bring none back.

use std::collections::BTreeSet;
use std::sync::Arc;

use glidepath_env::Env;
use glidepath_model::{Action, Assertion, Entry, Name, Refusal};
use glidepath_protocols::group::Grouped;
use glidepath_table::Files;
use glidepath_table::rebase::is_rebased_list;
use iceberg::spec::TableMetadata;

use crate::Inner;
use crate::bodies::{Loaded, registration};
use crate::claims;
use crate::commit::deletes_log;
use crate::error::{Kind, ServiceError};
use crate::locations::{is_metadata_file, is_same, is_within, unslashed, version_of};
use crate::names::{is_own, own_name};
use crate::placing::{folder_of, former};

/// The namespace of last files, in that of the service.
pub(crate) const FOLDER: &str = "dropped";

/// The properties of an entry there that name files, in the order in which they were the last ones.
const FILE: &str = "file.";

/// The most last files of one table: none in the log of another one.
const MOST: usize = 64;

/// The file of a version, and those in its log. Logs may be long, so they are looked up.
struct Known(BTreeSet<String>);

impl Known {
    fn by(version: &Loaded<TableMetadata>) -> Self {
        Self(log(version).chain([version.location.as_str()]).map(unslashed).collect())
    }

    fn has(&self, file: &str) -> bool {
        self.0.contains(&unslashed(file))
    }
}

/// Whether no server can be about to delete the file `new`, nor one of its log, when `last` is the last one of its
/// table.
fn may_follow(last: &Loaded<TableMetadata>, new: &Loaded<TableMetadata>) -> bool {
    let folders = [last.metadata.location().to_owned(), folder_of(&last.location).to_owned()].into_iter();
    let folders: Vec<_> = folders.chain(former(&last.metadata)).collect();
    let known = Known::by(last);
    let is_known = |file: &str| known.has(file);
    let was_here = |file: &str| is_known(file) || folders.iter().any(|folder| is_within(file, folder));
    // A copy of an attempt, too, needs the manifest lists that it wrote.
    let lists = |of: &Loaded<TableMetadata>| {
        let lists = of.metadata.snapshots().map(|snapshot| snapshot.manifest_list());
        lists.filter(|list| is_rebased_list(list)).map(unslashed).collect::<BTreeSet<_>>()
    };
    let lists_kept = lists(new).is_subset(&lists(last));
    let is_elsewhere = lists_kept && !was_here(&new.location) && !log(new).any(was_here);
    if last.metadata.uuid() != new.metadata.uuid() || is_elsewhere {
        return true;
    }
    // A client may date a snapshot, and so a version, as it likes; only servers give names.
    let numbers = (version_of(&last.location), version_of(&new.location));
    let is_higher = matches!(numbers, (Some(last), Some(new)) if new > last)
        && new.metadata.last_updated_ms() > last.metadata.last_updated_ms();
    let is_later =
        log(new).any(|file| is_same(file, &last.location)) || !log(new).next_back().is_some_and(is_known) && is_higher;
    // What is in its log before the first that is known has left the log of the table.
    let has_left = log(new).any(is_known) || !is_later;
    let brings_back = has_left && log(new).take_while(|file| !is_known(file)).any(is_metadata_file);
    if brings_back && (deletes_log(&last.metadata) || deletes_log(&new.metadata)) {
        return false;
    }
    is_known(&new.location) || is_later || lists_kept && !is_metadata_file(&new.location)
}

/// The metadata files that a version names, from the oldest.
fn log(of: &Loaded<TableMetadata>) -> impl DoubleEndedIterator<Item = &str> {
    of.metadata.metadata_log().iter().map(|entry| entry.metadata_file.as_str())
}

/// The answer to a registration that is refused because the table was dropped or replaced meanwhile.
pub(crate) fn told(refusal: &Refusal) -> Option<ServiceError> {
    match refusal {
        Refusal::Exists(name) | Refusal::NotFound(name) | Refusal::PointerMoved { name, .. }
            if is_own(name, FOLDER) =>
        {
            let words = "the table of this metadata was dropped or replaced a moment ago; not done: try again";
            Some(ServiceError::new(Kind::Unavailable, words))
        }
        _ => None,
    }
}

impl<E: Env, C: Grouped, F: Files> Inner<E, C, F> {
    /// The actions of a commit that drops or replaces a table: the last file is kept, if the commit asserts that this
    /// is its entry still; otherwise it may be an earlier one. None if that cannot be read, so that the table can be
    /// dropped.
    pub(crate) async fn leaves(&self, entry: &Entry) -> Result<Vec<Action>, ServiceError> {
        let Some(pointer) = &entry.pointer else { return Ok(Vec::new()) };
        let Ok(last) = self.body::<TableMetadata>(pointer, registration(entry)).await else { return Ok(Vec::new()) };
        let (at, kept, known) = (self.head().await?, kept_as(&last.metadata)?, Known::by(&last));
        let (mut actions, mut files) = (Vec::new(), Vec::new());
        if let Some(before) = self.committer.catalog().entry(&at, &kept).await? {
            files.extend(kept_files(&before).filter(|file| !known.has(file)).cloned());
            actions.extend(claims::removed(&kept, before.pointer));
        }
        files.push(pointer.clone());
        let files = files.split_off(files.len().saturating_sub(MOST));
        let mut entry = claims::timed(self.env.unix_ms(), None, Some(self.fresh_uuid().to_string()));
        entry
            .properties
            .extend(files.into_iter().enumerate().map(|(number, file)| (format!("{FILE}{number:02}"), file)));
        actions.push(Action::Create { name: kept, entry });
        Ok(actions)
    }

    /// Refuses a metadata file that may be about to be deleted. `replaced`: what has the name. Returns the condition
    /// that it is still not.
    pub(crate) async fn check_not_leaving(
        &self,
        replaced: Option<&Entry>,
        new: &Loaded<TableMetadata>,
    ) -> Result<Action, ServiceError> {
        let mut known = false;
        if let Some(pointer) = replaced.and_then(|entry| entry.pointer.as_ref())
            && let Some(now) = self.last_body(pointer).await?
        {
            if !may_follow(&now, new) {
                let words = format!(
                    "the file does not follow the metadata of the table that has the name, and it, or a file of its own log, is in that one's \
                     log no more, so that may be about to be deleted: register {A_COPY}"
                );
                return Err(ServiceError::invalid(words));
            }
            known = now.metadata.uuid() == new.metadata.uuid() && Known::by(&now).has(&new.location);
        }
        let (at, name) = (self.head().await?, kept_as(&new.metadata)?);
        let Some(kept) = self.committer.catalog().entry(&at, &name).await? else {
            return Ok(Action::Assert { name, holds: Assertion::Absent });
        };
        let mut follows = true;
        for file in kept_files(&kept).filter(|_| !known) {
            let Some(last) = self.last_body(file).await? else { continue };
            let may = may_follow(&last, new);
            if may && Known::by(&last).has(&new.location) {
                follows = true;
                break;
            }
            follows &= may;
        }
        if !follows {
            let words = format!(
                "the table was dropped or replaced less than a day ago, and neither its last metadata file nor the log of that has this file, \
                 so it, or a file of its own log, may be about to be deleted; not done: register one of those, or {A_COPY}"
            );
            return Err(ServiceError::new(Kind::Unavailable, words));
        }
        Ok(Action::Assert { name, holds: Assertion::Pointer(kept.pointer) })
    }

    /// A last version; `None` if its file is gone or damaged.
    async fn last_body(&self, file: &str) -> Result<Option<Loaded<TableMetadata>>, ServiceError> {
        // Not from memory: the file may have been replaced under its name.
        match self.read_body::<TableMetadata>(file).await {
            Ok(body) => Ok(Some(Arc::new(body))),
            Err(error) if matches!(error.kind, Kind::NoFile | Kind::Broken) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What can be registered at once.
const A_COPY: &str = "a copy of this file in the same folder, under another name and without its metadata-log (if it names a manifest list \
     that the server has written for an append which was not done, only a day later)";

fn kept_files(kept: &Entry) -> impl Iterator<Item = &String> {
    kept.properties.iter().filter(|(key, _)| key.starts_with(FILE)).map(|(_, file)| file)
}

/// Where the last files of a table are kept.
fn kept_as(metadata: &TableMetadata) -> Result<Name, ServiceError> {
    own_name([FOLDER, &metadata.uuid().to_string()])
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;
    use crate::bodies::Body;

    /// The file of this number, written at this time, after those of a log.
    fn version(file: u32, at_ms: i64, log: impl IntoIterator<Item = u32>, deletes: bool) -> Loaded<TableMetadata> {
        let name =
            |file: u32| format!("file:///lake/n/t/metadata/{file:05}-00000000-0000-0000-0000-{file:012}.metadata.json");
        let log: Vec<_> =
            log.into_iter().map(|file| serde_json::json!({ "timestamp-ms": 1, "metadata-file": name(file) })).collect();
        let json = serde_json::json!({
            "format-version": 2, "table-uuid": "00000000-0000-0000-0000-000000000007", "location": "file:///lake/n/t",
            "last-sequence-number": 0, "last-updated-ms": at_ms, "last-column-id": 0, "current-schema-id": 0,
            "schemas": [{ "type": "struct", "schema-id": 0, "fields": [] }], "default-spec-id": 0,
            "partition-specs": [{ "spec-id": 0, "fields": [] }], "last-partition-id": 999, "default-sort-order-id": 0,
            "sort-orders": [{ "order-id": 0, "fields": [] }], "metadata-log": log,
            "properties": { "write.metadata.delete-after-commit.enabled": deletes.to_string() }
        });
        Arc::new(Body::of(name(file), serde_json::from_value(json).unwrap()).unwrap())
    }

    /// The last file is the ninth, of the time 90, after those from the sixth.
    #[test]
    fn what_may_be_about_to_be_deleted_follows_nothing() {
        let last = |deletes| version(9, 90, 6..9, deletes);
        for (what, new, allowed) in [
            ("itself", version(9, 90, 6..9, true), true),
            ("in its log", version(8, 80, 6..8, true), true),
            ("in its log, and brings another one back", version(8, 80, 5..8, true), false),
            ("has left its log", version(5, 50, 2..5, true), false),
            ("an attempt on an earlier file", version(20, 85, 6..8, true), false),
            ("such an attempt of a server whose clock is ahead", version(20, 99, 6..8, true), false),
            ("written on the last file", version(20, 92, 7..10, true), true),
            ("written long after it", version(30, 99, 20..23, true), true),
            ("without a log, before it", version(1, 10, [], true), false),
            ("has left its log, dated by a client", version(5, 4_102_444_800_000, 2..5, true), false),
            ("an attempt on what has left its log, dated so", version(6, 4_102_444_800_000, 2..6, false), false),
        ] {
            assert_eq!(may_follow(&last(true), &new), allowed, "{what}");
        }
        assert!(may_follow(&last(false), &version(8, 80, 5..8, false)), "nothing is deleted that leaves the log");
        let other = last(true).metadata.clone().into_builder(None).assign_uuid(uuid::Uuid::nil()).build().unwrap();
        let other = Arc::new(Body::of(version(1, 10, [], true).location.clone(), other.metadata).unwrap());
        assert!(may_follow(&last(true), &other), "another table's");
    }

    /// The same with a snapshot of this list.
    fn with_list(version: &Loaded<TableMetadata>, list: &str) -> Loaded<TableMetadata> {
        let mut json: serde_json::Value = serde_json::from_slice(&version.json).unwrap();
        json["snapshots"] = serde_json::json!([{ "snapshot-id": 1, "sequence-number": 0, "timestamp-ms": 1,
            "manifest-list": format!("file:///lake/n/t/metadata/{list}"), "summary": { "operation": "append" } }]);
        Arc::new(Body::of(version.location.clone(), serde_json::from_value(json).unwrap()).unwrap())
    }

    /// The list of an attempt is deleted with it, whatever the name of a copy.
    #[test]
    fn a_list_that_may_be_about_to_be_deleted_follows_nothing() {
        let last = version(9, 90, 6..9, false);
        let list = glidepath_table::rebase::list_location(&last.metadata, 1, uuid::Uuid::nil());
        let list = list.rsplit('/').next().unwrap();
        for location in
            ["file:///lake/n/t/metadata/copy.metadata.json", "file:///lake/copy/metadata/copy.metadata.json"]
        {
            let copy = Arc::new(Body::of(location.to_owned(), version(5, 50, 0..0, false).metadata.clone()).unwrap());
            assert!(may_follow(&last, &with_list(&copy, "snap-1-other.avro")), "{location}");
            assert!(!may_follow(&last, &with_list(&copy, list)), "{location}");
            assert!(may_follow(&with_list(&last, list), &with_list(&copy, list)), "{location}");
        }
        assert!(may_follow(&last, &with_list(&version(10, 95, 7..10, false), list)), "committed after the last");
    }

    #[test]
    fn what_no_server_wrote_may_follow() {
        let name = "00005-00000000-0000-0000-0000-000000000005.metadata.json";
        let (here, there) = ("file:/lake/n/t/metadata", "file:///lake/copy/metadata");
        for (file, log, deletes, allowed) in [
            (format!("{here}/edited.metadata.json"), 2..5, false, true),
            (format!("{here}/edited.metadata.json"), 2..5, true, false),
            (format!("{here}/edited.metadata.json"), 0..0, true, true),
            (format!("{here}/{name}"), 2..5, false, false),
            (format!("{there}/{name}"), 0..0, true, true),
            // An attempt that moves the table.
            (format!("{there}/{name}"), 2..5, false, false),
        ] {
            let written = version(5, 50, log, deletes).metadata.clone();
            let new = Arc::new(Body::of(file.clone(), written).unwrap());
            assert_eq!(may_follow(&version(9, 90, 6..9, deletes), &new), allowed, "{file}, deletes: {deletes}");
        }
    }
}
