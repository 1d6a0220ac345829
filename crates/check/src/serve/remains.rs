//! At the end of a run, is all there that tables refer to, and nothing of what was purged?

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use glidepath_env::{Env, Key, Payload};
use glidepath_model::{Instant, Name, Span};
use glidepath_protocols::registry::Protocol;
use glidepath_sim::SimEnv;
use glidepath_table::files::is_within;
use glidepath_table::rebase::{data_files, list_paths};
use iceberg::spec::TableMetadata;

use super::judge::{History, is_reserved};
use super::{BASE, doubting, server};
use crate::run::calm;
use crate::subject::STORE;

/// When the last purge runs: after almost all runs, and before the horizon of a calm world.
const PURGED: Span = Span::from_secs(71 * 3600);

/// A purge that was noted.
pub(super) struct ToPurge {
    pub(super) note: Name,
    /// The folder of the dropped table, and its last metadata file.
    pub(super) location: String,
    pub(super) file: String,
}

/// The objects after the purges that are due long after the run, without faults; an error if one of them fails.
pub(super) fn purged(protocol: Protocol, objects: &BTreeMap<Key, Payload>) -> Result<BTreeMap<Key, Payload>, String> {
    let mut simulation = calm(objects.iter().map(|(key, payload)| (key, payload.clone())));
    let failed = Rc::new(RefCell::new(Some("it did not end".to_owned())));
    let told = Rc::clone(&failed);
    let cleaner = |env: SimEnv| async move {
        env.sleep_until(Instant::ZERO + PURGED).await;
        let (service, ..) = server::service(&env, protocol, 1, server::Ways::default(), &doubting::Hidden::default());
        let failed = service.run_purges().await.failed.or(service.clean_keys().await.err());
        told.replace(failed.map(|error| error.message));
    };
    simulation.run([(Instant::ZERO, cleaner)]);
    match failed.take() {
        None => Ok(simulation.objects(STORE)),
        Some(why) => Err(format!("the last purge failed, though nothing disturbed it: {why}")),
    }
}

/// The object of a file in the warehouse.
fn key_of(location: &str) -> Option<Key> {
    location.strip_prefix(BASE).map(|key| Key::new(key.trim_start_matches('/')))
}

impl History {
    /// Whether all is there that tables refer to at the end.
    pub(super) fn complete(&self, objects: &BTreeMap<Key, Payload>) -> Result<(), String> {
        let is_there = |location: &String| key_of(location).is_some_and(|key| objects.contains_key(&key));
        for (name, entry) in self.entries.iter().filter(|(name, _)| !is_reserved(name)) {
            let Some(pointer) = &entry.pointer else { continue };
            let Some(body) = self.bodies.get(pointer) else { continue };
            let needed: BTreeSet<String> = self.named_in(body).into_iter().chain([pointer.clone()]).collect();
            if let Some(file) = needed.iter().find(|file| !is_there(file)) {
                return Err(format!("{name} refers to {file}, which was deleted"));
            }
        }
        Ok(())
    }

    /// Whether the files of each purge whose note is gone were deleted: its metadata file, and what that names in the
    /// folder of the table; but for manifests that cannot be read, and what leads to them. A file may be there once
    /// more, if the store delivers an old write of it again.
    pub(super) fn all_purged(&self, objects: &BTreeMap<Key, Payload>, deleted: &BTreeSet<Key>) -> Result<(), String> {
        let is_left = |location: &&String| {
            key_of(location).is_some_and(|key| objects.contains_key(&key) && !deleted.contains(&key))
        };
        for ToPurge { note, location, file } in &self.to_purge {
            if self.entries.get(note).is_some_and(|entry| entry.properties.get("metadata") == Some(file)) {
                continue;
            }
            let named = self.bodies.get(file).map(|body| self.named_in(body)).unwrap_or_default();
            let unread: BTreeSet<&String> = named.iter().filter(|named| self.is_unreadable(named)).collect();
            let leads = |list: &&String| self.manifests_in(list).iter().any(|manifest| unread.contains(manifest));
            let may_stay = |named: &&String| unread.contains(*named) || leads(named);
            let own = named.iter().filter(|named| is_within(named, location) && !may_stay(named));
            let last = Some(file).filter(|_| unread.is_empty());
            if let Some(left) = own.chain(last).find(is_left) {
                return Err(format!("{left} was to be purged, and is there, though the note {note} is not"));
            }
        }
        Ok(())
    }

    /// The files that a metadata file names: those of its log, manifest lists, and the manifests in them.
    fn named_in(&self, body: &TableMetadata) -> BTreeSet<String> {
        let mut named: BTreeSet<String> = body.metadata_log().iter().map(|log| log.metadata_file.clone()).collect();
        for list in body.snapshots().map(|snapshot| snapshot.manifest_list()) {
            named.insert(list.to_owned());
            named.extend(self.manifests_in(list));
        }
        named
    }

    /// The manifests that a list names; none of another file.
    fn manifests_in(&self, list: &str) -> Vec<String> {
        // Not by the library for Iceberg, which panics at some damages.
        self.written.get(list).and_then(|bytes| list_paths(bytes).ok()).unwrap_or_default()
    }

    /// Whether a file is a manifest that cannot be read.
    fn is_unreadable(&self, file: &str) -> bool {
        let is_manifest = file.ends_with("-m0.avro");
        is_manifest && self.written.get(file).is_some_and(|bytes| data_files(bytes, 0).is_err())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use glidepath_table::clients;

    use super::*;

    /// At this one the library for Iceberg panics.
    #[test]
    fn a_damaged_manifest_is_no_list() {
        let (file, name) = ("s3://lake/t/metadata/1-m0.avro", b"manifest_entry");
        let whole = clients::manifest("s3://lake/t/data/a.parquet", 1, false).unwrap();
        let mut damaged = whole.to_vec();
        let at = damaged.windows(name.len()).position(|part| part == name).unwrap();
        damaged[at + 4] = b'&';
        for bytes in [whole.to_vec(), damaged] {
            let mut history = History::default();
            history.written.insert(file.to_owned(), bytes.into());
            assert!(history.manifests_in(file).is_empty());
        }
    }
}
