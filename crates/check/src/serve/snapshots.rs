//! What do clients commit? Appends; overwrites, which have looked at what others committed; and commits that are not
//! what they say. Of each, the files are written first; after a conflict they are deleted, the table is loaded, and the
//! client tries again with the same number of the snapshot.

use std::collections::HashMap;

use bytes::Bytes;
use glidepath_model::Instant;
use glidepath_service::{Idempotency, Identifier, Loaded, TableCommit};
use glidepath_table::{Files, clients};
use iceberg::spec::{ManifestFile, Operation, Snapshot, Summary, TableMetadata};
use iceberg::{TableRequirement, TableUpdate};
use uuid::Uuid;

use super::FAR_MS;
use super::book::{Attempt, Told};
use super::client::Client;
use super::wire::Ask;

/// Attempts of one commit, each on a newer version of the table.
const TRIES: u32 = 6;

/// What a snapshot is to its client. All but the first two have looked at the version that they are prepared on, and
/// are wrong on any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    /// It adds a file, and has read nothing.
    Append,
    /// The same, and its manifest is damaged: a bit is wrong, or the end is missing.
    Damaged,
    /// It replaces a manifest, or only adds one, after it has looked at the others.
    Overwrite,
    /// The same, with the operation `append` and a list without a manifest of its parent.
    LeavesOut,
    /// It adds a file, and forbids to be rebased.
    Declines,
    /// Its manifest deletes a file, and its list says that it only adds.
    Miscounts,
}

impl Intent {
    /// Whether it is wrong on any other version than the one that it is prepared on.
    pub(super) fn has_looked(self) -> bool {
        !matches!(self, Self::Append | Self::Damaged)
    }
}

/// A snapshot whose files are written.
pub(super) struct Written {
    snapshot: Snapshot,
    files: Vec<String>,
}

impl Client {
    pub(super) async fn append(&self, table: &Identifier) {
        let intent = match self.draw() % 16 {
            0 | 1 => Intent::LeavesOut,
            2 => Intent::Miscounts,
            3 => Intent::Declines,
            4 => Intent::Damaged,
            _ => Intent::Append,
        };
        self.commit(table, intent).await;
    }

    pub(super) async fn overwrite(&self, table: &Identifier) {
        self.commit(table, Intent::Overwrite).await;
    }

    async fn commit(&self, table: &Identifier, intent: Intent) {
        let snapshot = self.fresh();
        let keyed = self.chance(0.5);
        // Some are set up to give up after a conflict, and some overwrites find that they must.
        let tries = if self.chance(0.3) { 1 } else { TRIES };
        for attempt in 0..tries {
            let Some(current) = self.load(table).await else { return };
            let Some(written) = self.write(&current, snapshot, attempt, intent).await else { continue };
            let uuid = current.metadata.uuid();
            let key = self.key(keyed, format!("commit {snapshot} {attempt}"));
            let commit = written.commit(uuid, key);
            let (heads, files) = (vec![written.head()], written.files.clone());
            let begun =
                Attempt { snapshots: vec![snapshot], heads, tables: vec![uuid], keyed, files, told: Told::Open };
            let place = self.book.borrow_mut().attempt(begun);
            self.say(|| format!("commits {intent:?} {snapshot} to {}, attempt {attempt}", table.dotted()));
            let told = self.submit(&Ask::Commit(table.clone(), commit), keyed).await;
            self.say(|| format!("is told of snapshot {snapshot}, attempt {attempt}: {told:?}"));
            self.book.borrow_mut().told(place, told, &[uuid]);
            match told {
                Told::Done => return,
                Told::Refused => {
                    if intent == Intent::Damaged {
                        self.book.borrow_mut().met("damaged manifests");
                    }
                    self.delete(&written.files).await;
                }
                Told::Open => return self.search(table, uuid, place, snapshot).await,
            }
        }
    }

    /// After an unknown outcome: is the snapshot there? If not, the files stay.
    async fn search(&self, table: &Identifier, uuid: Uuid, attempt: usize, snapshot: i64) {
        let Some(current) = self.load(table).await else { return };
        if current.metadata.uuid() == uuid && current.metadata.snapshot_by_id(snapshot).is_some() {
            self.say(|| format!("finds snapshot {snapshot}"));
            self.book.borrow_mut().told(attempt, Told::Done, &[uuid]);
        }
    }

    pub(super) async fn commit_to_two(&self) {
        let (one, other) = (self.any_table(), self.any_table());
        if one == other {
            return;
        }
        let snapshots = [self.fresh(), self.fresh()];
        let intent = if self.chance(0.3) { Intent::Overwrite } else { Intent::Append };
        // Half of those that overwrite do so at one table, and append at the other.
        let intents = [intent, if snapshots[1] % 2 == 0 { Intent::Append } else { intent }];
        let keyed = self.chance(0.5);
        for attempt in 0..TRIES {
            let (mut changes, mut files, mut uuids, mut heads) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
            for ((table, snapshot), intent) in [&one, &other].into_iter().zip(snapshots).zip(intents) {
                let Some(current) = self.load(table).await else { return };
                let Some(written) = self.write(&current, snapshot, attempt, intent).await else { return };
                heads.push(written.head());
                uuids.push(current.metadata.uuid());
                changes.push((table.clone(), written.commit(current.metadata.uuid(), None)));
                files.extend(written.files);
            }
            if uuids[0] == uuids[1] {
                return;
            }
            self.book.borrow_mut().pair(snapshots, [uuids[0], uuids[1]]);
            let (tables, files_of_all) = (uuids.clone(), files.clone());
            let begun =
                Attempt { snapshots: snapshots.to_vec(), heads, tables, keyed, files: files_of_all, told: Told::Open };
            let place = self.book.borrow_mut().attempt(begun);
            let key = self.key(keyed, format!("pair {snapshots:?} {attempt}"));
            self.say(|| format!("commits {snapshots:?} to {} and {}", one.dotted(), other.dotted()));
            let told = self.submit(&Ask::Transact(changes, key), keyed).await;
            self.say(|| format!("is told of {snapshots:?}: {told:?}"));
            self.book.borrow_mut().told(place, told, &uuids);
            match told {
                Told::Refused => self.delete(&files).await,
                Told::Done | Told::Open => return,
            }
        }
    }

    /// Sets properties that name this request. Half of these requests assert what a later append makes untrue.
    pub(super) async fn set_property(&self, table: &Identifier) {
        let Some(current) = self.load(table).await else { return };
        let mark = format!("p.{}", self.fresh());
        let mut updates = HashMap::from([(mark.clone(), "set".to_owned()), ("last".to_owned(), mark.clone())]);
        if self.rebases {
            updates.insert("glidepath.append-rebase".to_owned(), self.chance(0.5).to_string());
        }
        let mut requirements = vec![TableRequirement::UuidMatch { uuid: current.metadata.uuid() }];
        if self.chance(0.5) {
            let snapshot_id = current.metadata.current_snapshot_id();
            requirements.push(TableRequirement::RefSnapshotIdMatch { r#ref: "main".to_owned(), snapshot_id });
        }
        let key = self.key(true, mark.clone());
        let commit = TableCommit { requirements, updates: vec![TableUpdate::SetProperties { updates }], key };
        self.ask_marked(&mark, &Ask::Commit(table.clone(), commit), true).await;
    }

    /// Writes the files of a snapshot on top of this version; `None` if the store does not let it.
    async fn write(&self, on: &Loaded<TableMetadata>, snapshot: i64, attempt: u32, intent: Intent) -> Option<Written> {
        let metadata = &on.metadata;
        let folder = format!("{}/metadata", metadata.location());
        let (list, manifest) =
            (format!("{folder}/snap-{snapshot}-{attempt}.avro"), format!("{folder}/{snapshot}-{attempt}-m0.avro"));
        let mut manifests = Vec::new();
        if let Some(parent) = metadata.current_snapshot() {
            manifests = clients::manifests(&self.read(parent.manifest_list()).await?).ok()?;
        }
        let removes = match intent {
            Intent::LeavesOut => true,
            Intent::Overwrite => self.chance(0.7),
            Intent::Append | Intent::Damaged | Intent::Declines | Intent::Miscounts => false,
        };
        let gone = if removes { manifests.pop() } else { None };
        self.book.borrow_mut().writes(snapshot, intent, &list, gone.map(|gone| gone.manifest_path));
        let rows = 1 + snapshot.cast_unsigned() % 9;
        let data = format!("{}/data/{snapshot}.parquet", metadata.location());
        let mut bytes = clients::manifest(&data, rows.cast_signed(), intent == Intent::Miscounts).ok()?;
        if intent == Intent::Damaged {
            bytes = self.damaged(&bytes);
        }
        let sequence = metadata.next_sequence_number();
        manifests.insert(0, clients::listed(&manifest, bytes.len(), snapshot, sequence, rows));
        let files = vec![list.clone(), manifest.clone()];
        for (location, bytes) in [(manifest, bytes), (list.clone(), clients::list(&manifests).ok()?)] {
            self.files.write(&location, bytes).await.ok()?;
        }
        let operation = match (intent, snapshot % 3) {
            (Intent::Overwrite, 0) => Operation::Delete,
            (Intent::Overwrite, 1) => Operation::Replace,
            (Intent::Overwrite, _) => Operation::Overwrite,
            _ => Operation::Append,
        };
        let additional_properties = self.summary(intent, rows, &manifests);
        let now = self.env.world_now().since(Instant::ZERO).as_nanos() / 1_000_000;
        let snapshot = Snapshot::builder()
            .with_snapshot_id(snapshot)
            .with_parent_snapshot_id(metadata.current_snapshot_id())
            .with_sequence_number(sequence)
            .with_timestamp_ms(FAR_MS + now.cast_signed())
            .with_manifest_list(list)
            .with_summary(Summary { operation, additional_properties })
            .with_schema_id(metadata.current_schema_id())
            .build();
        Some(Written { snapshot, files })
    }

    fn damaged(&self, bytes: &[u8]) -> Bytes {
        let mut damaged = bytes.to_vec();
        let at = (self.draw() % bytes.len() as u64) as usize;
        if self.chance(0.3) {
            damaged.truncate(at);
        } else if let Some(byte) = damaged.get_mut(at) {
            *byte ^= 1 << (self.draw() % 8);
        }
        damaged.into()
    }

    fn summary(&self, intent: Intent, rows: u64, manifests: &[ManifestFile]) -> HashMap<String, String> {
        let (files, records) = clients::totals(manifests);
        let mut summary = HashMap::from([
            ("added-data-files".to_owned(), "1".to_owned()),
            ("added-records".to_owned(), rows.to_string()),
            ("total-data-files".to_owned(), files.to_string()),
            ("total-records".to_owned(), records.to_string()),
        ]);
        let asks = match intent {
            Intent::Declines => Some(false),
            Intent::LeavesOut | Intent::Miscounts if self.rebases => Some(true),
            _ if self.rebases && self.chance(0.5) => Some(true),
            _ => None,
        };
        summary.extend(asks.map(|asks| ("append-rebase".to_owned(), asks.to_string())));
        summary
    }
}

impl Written {
    /// The head of the branch when the client looked.
    fn head(&self) -> Option<i64> {
        self.snapshot.parent_snapshot_id()
    }

    /// The commit, as the client of Iceberg for Java sends it.
    fn commit(&self, uuid: Uuid, key: Option<Idempotency>) -> TableCommit {
        let (requirements, updates) = clients::commit(uuid, &self.snapshot);
        TableCommit { requirements, updates, key }
    }
}
