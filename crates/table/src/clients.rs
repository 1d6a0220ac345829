//! What does a client write and send to commit a snapshot? For simulated clients. The files, a manifest and a manifest
//! list, are small and valid, because servers that rebase decode them; they are written by another implementation of
//! Avro than the one of [`rebase`](crate::rebase).

use apache_avro::types::Value as Avro;
use apache_avro::{Schema, Writer};
use bytes::Bytes;
use iceberg::spec::{
    FormatVersion, ManifestContentType, ManifestFile, ManifestList, Snapshot, SnapshotReference, SnapshotRetention,
};
use iceberg::{TableRequirement, TableUpdate};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::rebase::avro::{put_bytes, put_long};

/// The commit of a snapshot to the branch `main`, as the client of Iceberg for Java sends it.
#[must_use]
pub fn commit(table: Uuid, snapshot: &Snapshot) -> (Vec<TableRequirement>, Vec<TableUpdate>) {
    let main = || "main".to_owned();
    let snapshot_id = snapshot.parent_snapshot_id();
    let requirements = vec![
        TableRequirement::UuidMatch { uuid: table },
        TableRequirement::RefSnapshotIdMatch { r#ref: main(), snapshot_id },
    ];
    let retention = SnapshotRetention::branch(None, None, None);
    let reference = SnapshotReference { snapshot_id: snapshot.snapshot_id(), retention };
    let updates = vec![
        TableUpdate::AddSnapshot { snapshot: snapshot.clone() },
        TableUpdate::SetSnapshotRef { ref_name: main(), reference },
    ];
    (requirements, updates)
}

fn field(name: &str, id: i32, kind: Value) -> Value {
    json!({"name": name, "type": kind, "field-id": id})
}

fn record(fields: Vec<(&str, Avro)>) -> Avro {
    Avro::Record(fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn absent() -> Avro {
    Avro::Union(0, Box::new(Avro::Null))
}

/// Between the blocks of a file, and after its header.
const MARKER: [u8; 16] = [7; 16];

/// A file of these records. A run is a function of its seed, so the marker is always the same, and the header is
/// written here: the library writes its fields in any order.
fn file(schema: &Value, metadata: &[(&str, &str)], records: Vec<Avro>) -> Result<Bytes, apache_avro::Error> {
    let parsed = Schema::parse(schema)?;
    let mut writer = Writer::builder().schema(&parsed).writer(Vec::new()).marker(MARKER).build();
    for record in records {
        writer.append(record)?;
    }
    let written = writer.into_inner()?;
    let header = written.windows(MARKER.len()).position(|bytes| bytes == MARKER).map_or(0, |at| at + MARKER.len());
    let schema = schema.to_string();
    let mut file = b"Obj\x01".to_vec();
    let fields = [("avro.codec", "null"), ("avro.schema", schema.as_str())];
    put_long(&mut file, (fields.len() + metadata.len()) as i64);
    for (key, value) in fields.iter().chain(metadata) {
        for text in [key, value] {
            put_bytes(&mut file, text.as_bytes());
        }
    }
    put_long(&mut file, 0);
    file.extend_from_slice(&MARKER);
    file.extend_from_slice(&written[header..]);
    Ok(file.into())
}

/// A manifest that adds one file of this many rows, and may also delete one.
///
/// # Errors
/// None is known.
pub fn manifest(data: &str, rows: i64, deletes: bool) -> Result<Bytes, apache_avro::Error> {
    let maybe = json!(["null", "long"]);
    let of_data = json!({"type": "record", "name": "data_file", "fields": [
        field("content", 134, json!("int")),
        field("file_path", 100, json!("string")),
        field("record_count", 103, json!("long")),
        field("file_size_in_bytes", 104, json!("long")),
    ]});
    let schema = json!({"type": "record", "name": "manifest_entry", "fields": [
        field("status", 0, json!("int")),
        field("snapshot_id", 1, maybe.clone()),
        field("sequence_number", 3, maybe.clone()),
        field("file_sequence_number", 4, maybe),
        field("data_file", 2, of_data),
    ]});
    let entry = |status: i32, path: String| {
        let data = record(vec![
            ("content", Avro::Int(0)),
            ("file_path", Avro::String(path)),
            ("record_count", Avro::Long(rows)),
            ("file_size_in_bytes", Avro::Long(rows * 10)),
        ]);
        record(vec![
            ("status", Avro::Int(status)),
            ("snapshot_id", absent()),
            ("sequence_number", absent()),
            ("file_sequence_number", absent()),
            ("data_file", data),
        ])
    };
    let deleted = deletes.then(|| entry(2, format!("{data}.deleted")));
    file(&schema, &[], [entry(1, data.to_owned())].into_iter().chain(deleted).collect())
}

/// The files and rows of these manifests.
#[must_use]
pub fn totals(manifests: &[ManifestFile]) -> (u64, u64) {
    let rows = manifests.iter().filter_map(|one| one.added_rows_count).sum();
    (manifests.len() as u64, rows)
}

/// The manifest of an append, as its list names it.
#[must_use]
pub fn listed(path: &str, length: usize, snapshot: i64, sequence: i64, rows: u64) -> ManifestFile {
    ManifestFile {
        manifest_path: path.to_owned(),
        manifest_length: length as i64,
        partition_spec_id: 0,
        content: ManifestContentType::Data,
        sequence_number: sequence,
        min_sequence_number: sequence,
        added_snapshot_id: snapshot,
        added_files_count: Some(1),
        existing_files_count: Some(0),
        deleted_files_count: Some(0),
        added_rows_count: Some(rows),
        existing_rows_count: Some(0),
        deleted_rows_count: Some(0),
        partitions: None,
        key_metadata: None,
        first_row_id: None,
    }
}

/// A manifest list.
///
/// # Errors
/// None is known.
pub fn list(manifests: &[ManifestFile]) -> Result<Bytes, apache_avro::Error> {
    let fields = [
        ("manifest_path", 500, "string"),
        ("manifest_length", 501, "long"),
        ("partition_spec_id", 502, "int"),
        ("content", 517, "int"),
        ("sequence_number", 515, "long"),
        ("min_sequence_number", 516, "long"),
        ("added_snapshot_id", 503, "long"),
        ("added_files_count", 504, "int"),
        ("existing_files_count", 505, "int"),
        ("deleted_files_count", 506, "int"),
        ("added_rows_count", 512, "long"),
        ("existing_rows_count", 513, "long"),
        ("deleted_rows_count", 514, "long"),
    ];
    let fields: Vec<Value> = fields.iter().map(|(name, id, kind)| field(name, *id, json!(kind))).collect();
    let schema = json!({"type": "record", "name": "manifest_file", "fields": fields});
    let int = |count: Option<u32>| Avro::Int(count.unwrap_or(0).cast_signed());
    let long = |count: Option<u64>| Avro::Long(count.unwrap_or(0).cast_signed());
    let records = manifests.iter().map(|one| {
        record(vec![
            ("manifest_path", Avro::String(one.manifest_path.clone())),
            ("manifest_length", Avro::Long(one.manifest_length)),
            ("partition_spec_id", Avro::Int(one.partition_spec_id)),
            ("content", Avro::Int(one.content as i32)),
            ("sequence_number", Avro::Long(one.sequence_number)),
            ("min_sequence_number", Avro::Long(one.min_sequence_number)),
            ("added_snapshot_id", Avro::Long(one.added_snapshot_id)),
            ("added_files_count", int(one.added_files_count)),
            ("existing_files_count", int(one.existing_files_count)),
            ("deleted_files_count", int(one.deleted_files_count)),
            ("added_rows_count", long(one.added_rows_count)),
            ("existing_rows_count", long(one.existing_rows_count)),
            ("deleted_rows_count", long(one.deleted_rows_count)),
        ])
    });
    file(&schema, &[("format-version", "2")], records.collect())
}

/// The manifests in a list.
///
/// # Errors
/// What is wrong with the file.
pub fn manifests(list: &[u8]) -> Result<Vec<ManifestFile>, iceberg::Error> {
    Ok(ManifestList::parse_with_version(list, FormatVersion::V2)?.entries().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_read_as_it_was_written() {
        let manifests = [listed("s3://lake/a", 7, 5, 1, 3), listed("s3://lake/b", 9, 6, 2, 4)];
        assert_eq!(super::manifests(&list(&manifests).unwrap()).unwrap(), manifests);
        assert_eq!(list(&manifests).unwrap(), list(&manifests).unwrap());
    }
}
