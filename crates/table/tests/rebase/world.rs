//! A table whose files are in memory, and clients that append to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;

use apache_avro::types::Value as Avro;
use apache_avro::{Schema, Writer};
use bytes::Bytes;
use futures_executor::block_on;
use glidepath_env::Cause;
use glidepath_table::rebase::{Candidate, Lists, NotRebased, Rebased, Recognized, Why, rebase, recognize};
use glidepath_table::{FileError, Files};
use iceberg::spec::{ManifestContentType, ManifestFile, ManifestList, TableMetadata};
use iceberg::{TableRequirement, TableUpdate};
use serde_json::{Value, json};
use uuid::Uuid;

/// Files in memory.
#[derive(Default)]
pub(crate) struct Disk {
    pub(crate) files: Mutex<BTreeMap<String, Bytes>>,
    pub(crate) reads: Mutex<Vec<String>>,
    /// Reads of these fail.
    pub(crate) broken: Mutex<BTreeSet<String>>,
}

impl Disk {
    pub(crate) fn put(&self, location: &str, bytes: impl Into<Bytes>) {
        self.files.lock().unwrap().insert(location.into(), bytes.into());
    }

    pub(crate) fn bytes(&self, location: &str) -> Bytes {
        self.files.lock().unwrap()[location].clone()
    }
}

impl Files for Disk {
    async fn read_up_to(&self, location: &str, most: u64) -> Result<Bytes, FileError> {
        self.reads.lock().unwrap().push(location.into());
        if self.broken.lock().unwrap().contains(location) {
            return Err(FileError::Failed { location: location.into(), cause: Cause::words("the network is down") });
        }
        let file = self.files.lock().unwrap().get(location).cloned();
        let file = file.ok_or_else(|| FileError::NotFound(location.into()))?;
        let fits = file.len() as u64 <= most;
        fits.then_some(file).ok_or_else(|| FileError::TooLarge { location: location.into(), most })
    }

    async fn write(&self, location: &str, bytes: Bytes) -> Result<(), FileError> {
        self.put(location, bytes);
        Ok(())
    }

    async fn delete(&self, location: &str) -> Result<(), FileError> {
        self.files.lock().unwrap().remove(location);
        Ok(())
    }

    async fn list(&self, folder: &str, after: Option<&str>, limit: usize) -> Result<Vec<String>, FileError> {
        let files = self.files.lock().unwrap();
        let within = files.keys().filter(|file| file.starts_with(&format!("{folder}/")));
        Ok(within.filter(|file| after.is_none_or(|after| file.as_str() > after)).take(limit).cloned().collect())
    }
}

/// An entry of a manifest.
#[derive(Clone)]
pub(crate) struct Entry {
    pub(crate) status: i32,
    pub(crate) snapshot: Option<i64>,
    pub(crate) sequence: Option<i64>,
    pub(crate) file_sequence: Option<i64>,
    pub(crate) content: i32,
    pub(crate) rows: i64,
    pub(crate) first_row: Option<i64>,
}

pub(crate) fn entry(rows: i64) -> Entry {
    Entry { status: 1, snapshot: None, sequence: None, file_sequence: None, content: 0, rows, first_row: None }
}

fn optional(value: Option<Avro>) -> Avro {
    match value {
        None => Avro::Union(0, Box::new(Avro::Null)),
        Some(value) => Avro::Union(1, Box::new(value)),
    }
}

fn record<const N: usize>(fields: [(&str, Avro); N]) -> Avro {
    Avro::Record(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn file(schema: &Value, metadata: &[(&str, String)], records: Vec<Avro>) -> Vec<u8> {
    let schema = Schema::parse(schema).unwrap();
    let mut writer = Writer::new(&schema, Vec::new());
    for (key, value) in metadata {
        writer.add_user_metadata((*key).to_owned(), value).unwrap();
    }
    for record in records {
        writer.append(record).unwrap();
    }
    writer.into_inner().unwrap()
}

fn field(name: &str, id: i32, kind: Value) -> Value {
    json!({"name": name, "type": kind, "field-id": id})
}

/// A manifest, with names of its own for the fields.
pub(crate) fn manifest_bytes(entries: &[Entry]) -> Vec<u8> {
    manifest_of(entries, 0)
}

/// The same, with so many bytes more, which mean nothing.
pub(crate) fn manifest_of(entries: &[Entry], padding: usize) -> Vec<u8> {
    let maybe = json!(["null", "long"]);
    let data = json!({"type": "record", "name": "d", "fields": [
        field("inhalt", 134, json!("int")),
        field("pfad", 100, json!("string")),
        field("zeilen", 103, json!("long")),
        field("bytes", 104, json!("long")),
        field("first_row_id", 142, maybe.clone()),
    ]});
    let schema = json!({"type": "record", "name": "e", "fields": [
        field("status", 0, json!("int")),
        field("snapshot_id", 1, maybe.clone()),
        field("data_sequence_number", 3, maybe.clone()),
        field("file_sequence_number", 4, maybe),
        field("data_file", 2, data),
    ]});
    let records = entries.iter().map(|e| {
        let data = record([
            ("inhalt", Avro::Int(e.content)),
            ("pfad", Avro::String("s3://lake/t/data/x.parquet".into())),
            ("zeilen", Avro::Long(e.rows)),
            ("bytes", Avro::Long(e.rows * 10)),
            ("first_row_id", optional(e.first_row.map(Avro::Long))),
        ]);
        record([
            ("status", Avro::Int(e.status)),
            ("snapshot_id", optional(e.snapshot.map(Avro::Long))),
            ("data_sequence_number", optional(e.sequence.map(Avro::Long))),
            ("file_sequence_number", optional(e.file_sequence.map(Avro::Long))),
            ("data_file", data),
        ])
    });
    file(&schema, &[("padding", "x".repeat(padding))], records.collect())
}

/// A list whose counts are named as in version 1, as some writers name them in all versions.
pub(crate) fn list_bytes(version: &str, manifests: &[ManifestFile]) -> Vec<u8> {
    list_with(version, manifests, None)
}

/// The same, with one more field of this id.
pub(crate) fn list_with(version: &str, manifests: &[ManifestFile], unknown: Option<i32>) -> Vec<u8> {
    let maybe = |kind: &str| json!(["null", kind]);
    let mut fields = vec![
        field("manifest_path", 500, json!("string")),
        field("manifest_length", 501, json!("long")),
        field("partition_spec_id", 502, json!("int")),
        field("content", 517, json!("int")),
        field("sequence_number", 515, json!("long")),
        field("min_sequence_number", 516, json!("long")),
        field("added_snapshot_id", 503, json!("long")),
        field("added_data_files_count", 504, maybe("int")),
        field("existing_data_files_count", 505, maybe("int")),
        field("deleted_data_files_count", 506, maybe("int")),
        field("added_rows_count", 512, maybe("long")),
        field("existing_rows_count", 513, maybe("long")),
        field("deleted_rows_count", 514, maybe("long")),
        field("key_metadata", 519, maybe("bytes")),
        field("first_row_id", unknown.unwrap_or(520), maybe("long")),
    ];
    fields.rotate_left(3);
    let int = |n: Option<u32>| optional(n.map(|n| Avro::Int(n.cast_signed())));
    let long = |n: Option<u64>| optional(n.map(|n| Avro::Long(n.cast_signed())));
    let records = manifests.iter().map(|m| {
        let Avro::Record(mut fields) = record([
            ("manifest_path", Avro::String(m.manifest_path.clone())),
            ("manifest_length", Avro::Long(m.manifest_length)),
            ("partition_spec_id", Avro::Int(m.partition_spec_id)),
            ("content", Avro::Int(m.content as i32)),
            ("sequence_number", Avro::Long(m.sequence_number)),
            ("min_sequence_number", Avro::Long(m.min_sequence_number)),
            ("added_snapshot_id", Avro::Long(m.added_snapshot_id)),
            ("added_data_files_count", int(m.added_files_count)),
            ("existing_data_files_count", int(m.existing_files_count)),
            ("deleted_data_files_count", int(m.deleted_files_count)),
            ("added_rows_count", long(m.added_rows_count)),
            ("existing_rows_count", long(m.existing_rows_count)),
            ("deleted_rows_count", long(m.deleted_rows_count)),
            ("key_metadata", optional(m.key_metadata.clone().map(Avro::Bytes))),
            ("first_row_id", long(m.first_row_id)),
        ]) else {
            unreachable!()
        };
        fields.rotate_left(3);
        Avro::Record(fields)
    });
    let schema = json!({"type": "record", "name": "manifest_file", "fields": fields});
    file(&schema, &[("format-version", version.to_owned())], records.collect())
}

/// A commit as a client sends it, before it is sent.
pub(crate) struct Draft {
    pub(crate) id: i64,
    pub(crate) entries: Vec<Entry>,
    /// The added manifest, and then the parent's.
    pub(crate) list: Vec<ManifestFile>,
    pub(crate) list_version: String,
    pub(crate) snapshot: Value,
    pub(crate) requirements: Vec<Value>,
    pub(crate) reference: Value,
    pub(crate) more_updates: Vec<Value>,
}

pub(crate) struct Commit {
    pub(crate) requirements: Vec<TableRequirement>,
    pub(crate) updates: Vec<TableUpdate>,
}

pub(crate) struct World {
    pub(crate) disk: Disk,
    pub(crate) metadata: TableMetadata,
    pub(crate) lists: Lists,
    pub(crate) owner: bool,
}

pub(crate) const UUID: &str = "0190d6a4-5a9e-7c31-8b0e-2d2f6d1c0a11";
/// The time at which the server rebases.
pub(crate) const NOW: i64 = 1_800_000_000_000;

impl World {
    /// A table of this format version without snapshots, which asks for rebases.
    pub(crate) fn new(version: u8) -> Self {
        let mut table = json!({
            "format-version": version, "table-uuid": UUID, "location": "s3://lake/t", "last-sequence-number": 0,
            "last-updated-ms": 1_700_000_000_000_i64, "last-column-id": 1, "current-schema-id": 0,
            "schemas": [{"type": "struct", "schema-id": 0,
                "fields": [{"id": 1, "name": "id", "required": false, "type": "long"}]}],
            "default-spec-id": 0, "partition-specs": [{"spec-id": 0, "fields": []}], "last-partition-id": 999,
            "default-sort-order-id": 0, "sort-orders": [{"order-id": 0, "fields": []}],
            "properties": {"glidepath.append-rebase": "true"},
        });
        if version == 3 {
            table["next-row-id"] = json!(0);
        }
        let metadata = serde_json::from_value(table).unwrap();
        Self { disk: Disk::default(), metadata, lists: Lists::new(1000), owner: false }
    }

    /// The same with one snapshot, 1, of 10 rows.
    pub(crate) fn with_one(version: u8) -> Self {
        let mut world = Self::new(version);
        world.land(world.draft(1, 10));
        world
    }

    /// Changes the metadata as a client may do.
    pub(crate) fn update(&mut self, update: Value) {
        let update: TableUpdate = serde_json::from_value(update).unwrap();
        let builder = self.metadata.clone().into_builder(None);
        self.metadata = update.apply(builder).unwrap().build().unwrap().metadata;
    }

    pub(crate) fn edit(&mut self, edit: impl FnOnce(&mut Value)) {
        let mut value = serde_json::to_value(&self.metadata).unwrap();
        edit(&mut value);
        self.metadata = serde_json::from_value(value).unwrap();
    }

    pub(crate) fn manifests(&self, snapshot: i64) -> Vec<ManifestFile> {
        let snapshot = self.metadata.snapshot_by_id(snapshot).unwrap();
        let bytes = self.disk.bytes(snapshot.manifest_list());
        let list = ManifestList::parse_with_version(&bytes, self.metadata.format_version()).unwrap();
        list.consume_entries().into_iter().collect()
    }

    /// An append of one manifest with one file of this many rows, to the table as it is now.
    pub(crate) fn draft(&self, id: i64, rows: i64) -> Draft {
        let version = self.metadata.format_version() as u8;
        let parent = self.metadata.current_snapshot();
        let sequence = self.metadata.next_sequence_number();
        let mut list = vec![ManifestFile {
            manifest_path: format!("s3://lake/t/metadata/m-{id}.avro"),
            manifest_length: 1,
            partition_spec_id: 0,
            content: ManifestContentType::Data,
            sequence_number: sequence,
            min_sequence_number: sequence,
            added_snapshot_id: id,
            added_files_count: Some(1),
            existing_files_count: Some(0),
            deleted_files_count: Some(0),
            added_rows_count: Some(rows.cast_unsigned()),
            existing_rows_count: Some(0),
            deleted_rows_count: Some(0),
            partitions: None,
            key_metadata: None,
            first_row_id: (version == 3).then(|| self.metadata.next_row_id()),
        }];
        let mut total = rows;
        if let Some(parent) = parent {
            list.extend(self.manifests(parent.snapshot_id()));
            let before = parent.summary().additional_properties.get("total-records");
            total += before.map_or(0, |n| n.parse().unwrap());
        }
        let mut snapshot = json!({
            "snapshot-id": id, "sequence-number": sequence, "timestamp-ms": self.metadata.last_updated_ms(),
            "manifest-list": format!("s3://lake/t/metadata/snap-{id}.avro"), "schema-id": 0,
            "summary": {"operation": "append", "added-records": rows.to_string(), "total-records": total.to_string(),
                "manifests-kept": (list.len() - 1).to_string()},
        });
        if let Some(parent) = parent {
            snapshot["parent-snapshot-id"] = json!(parent.snapshot_id());
        }
        if version == 3 {
            snapshot["first-row-id"] = json!(self.metadata.next_row_id());
            snapshot["added-rows"] = json!(rows);
        }
        Draft {
            id,
            entries: vec![entry(rows)],
            list,
            list_version: version.to_string(),
            snapshot,
            requirements: vec![
                json!({"type": "assert-ref-snapshot-id", "ref": "main", "snapshot-id": parent.map(|p| p.snapshot_id())}),
                json!({"type": "assert-table-uuid", "uuid": UUID}),
            ],
            reference: json!({"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": id}),
            more_updates: Vec::new(),
        }
    }

    /// Writes the files of a commit, and sends it.
    pub(crate) fn send(&self, draft: &Draft) -> Commit {
        self.disk.put(&format!("s3://lake/t/metadata/m-{}.avro", draft.id), manifest_bytes(&draft.entries));
        let list = list_bytes(&draft.list_version, &draft.list);
        self.disk.put(&format!("s3://lake/t/metadata/snap-{}.avro", draft.id), list);
        let add = json!({"action": "add-snapshot", "snapshot": draft.snapshot});
        let updates = [&add, &draft.reference].into_iter().chain(&draft.more_updates);
        Commit {
            requirements: draft.requirements.iter().map(|r| serde_json::from_value(r.clone()).unwrap()).collect(),
            updates: updates.map(|u| serde_json::from_value(u.clone()).unwrap()).collect(),
        }
    }

    /// Commits as it is.
    #[track_caller]
    pub(crate) fn land(&mut self, draft: Draft) {
        let commit = self.send(&draft);
        self.apply(commit.updates);
    }

    #[track_caller]
    pub(crate) fn apply(&mut self, updates: Vec<TableUpdate>) {
        let builder = self.metadata.clone().into_builder(None);
        let builder = updates.into_iter().fold(builder, |builder, update| update.apply(builder).unwrap());
        self.metadata = builder.build().unwrap().metadata;
    }

    pub(crate) fn recognize(&self, commit: &Commit) -> Recognized {
        recognize(&commit.requirements, &commit.updates, &self.metadata, self.owner)
    }

    #[track_caller]
    pub(crate) fn candidate(&self, draft: &Draft) -> Candidate {
        match self.recognize(&self.send(draft)) {
            Recognized::Candidate(candidate) => *candidate,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn rebase(&self, candidate: &Candidate) -> Result<Rebased, NotRebased> {
        let fresh = Uuid::from_u128(candidate.snapshot_id().cast_unsigned().into());
        block_on(rebase(candidate, &self.metadata, &self.disk, &self.lists, fresh, NOW))
    }

    /// Rebases and commits.
    #[track_caller]
    pub(crate) fn rebased(&mut self, draft: &Draft) -> Rebased {
        let rebased = self.rebase(&self.candidate(draft)).unwrap();
        self.disk.put(&rebased.list_location, rebased.list.clone());
        self.apply(rebased.updates.clone());
        rebased
    }

    /// Why this commit is not rebased, whether its metadata or its files tell.
    #[track_caller]
    pub(crate) fn refused(&self, draft: &Draft) -> Why {
        match self.recognize(&self.send(draft)) {
            Recognized::No(why) => why,
            Recognized::AlreadyThere => panic!("already there"),
            Recognized::Candidate(candidate) => match self.rebase(&candidate) {
                Err(NotRebased::Refused(why)) => why,
                other => panic!("{other:?}"),
            },
        }
    }

    /// The total of rows by the summary of the head, and by the manifests of its list.
    pub(crate) fn rows(&self) -> (u64, u64) {
        let head = self.metadata.current_snapshot().unwrap();
        let total = head.summary().additional_properties["total-records"].parse().unwrap();
        let manifests = self.manifests(head.snapshot_id());
        (total, manifests.iter().map(|m| m.added_rows_count.unwrap() + m.existing_rows_count.unwrap()).sum())
    }
}
