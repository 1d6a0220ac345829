//! What the crate `iceberg` does not do for format version 1.
//!
//! It keeps branches and tags while a table is in memory, but neither reads them from a file nor writes them; the
//! format allows them there, and other clients do both. And files of that version may lack a UUID and the last id of a
//! partition field, for which the crate takes values that are another table's, or too low.

use std::collections::BTreeMap;

use iceberg::TableUpdate;
use iceberg::spec::{
    FormatVersion, MAIN_BRANCH, SnapshotReference, SnapshotRetention, TableMetadata, TableMetadataBuilder,
};
use serde::Deserialize;
use serde_json::Value;
use uuid::Uuid;

use super::form::plain;
use super::{Misfit, apply, dated, misfit};

/// The branches and tags of a table of version 1 that has snapshots, as JSON.
pub(super) fn refs(metadata: &TableMetadata) -> Result<Option<Value>, Misfit> {
    if metadata.format_version() != FormatVersion::V1 || metadata.snapshots().len() == 0 {
        return Ok(None);
    }
    let upgrade = TableUpdate::UpgradeFormatVersion { format_version: FormatVersion::V2 };
    let upgraded = apply(metadata, None, vec![upgrade])?.metadata;
    Ok(Some(plain(&upgraded)?["refs"].take()))
}

#[derive(Deserialize)]
struct Refs {
    refs: Option<BTreeMap<String, SnapshotReference>>,
}

/// The metadata with the branches and tags of its metadata file.
pub(super) fn with_its_refs(metadata: TableMetadata, json: &[u8]) -> Result<TableMetadata, serde_json::Error> {
    if metadata.format_version() != FormatVersion::V1 {
        return Ok(metadata);
    }
    let refs = serde_json::from_slice::<Refs>(json)?.refs.unwrap_or_default();
    let usual = SnapshotRetention::branch(None, None, None);
    // One of a snapshot that is not there, which no reader could use, must not cost the others.
    let is_there = |found: &SnapshotReference| metadata.snapshot_by_id(found.snapshot_id).is_some();
    let is_missing = |name: &str, found: &SnapshotReference| name != MAIN_BRANCH || found.retention != usual;
    let missing: Vec<_> = refs.into_iter().filter(|(name, found)| is_there(found) && is_missing(name, found)).collect();
    if missing.is_empty() {
        return Ok(metadata);
    }
    let builder = || metadata.clone().into_builder(None);
    let of_its_date = dated(builder(), &metadata, metadata.last_updated_ms());
    let restored = of_its_date.and_then(|builder| with_refs(builder, &missing));
    // What the crate cannot build, it cannot commit to either: then the table can still be read.
    Ok(restored.or_else(|_| with_refs(builder(), &missing)).unwrap_or(metadata))
}

/// Takes entries of the log of snapshots away that repeat the one before: setting the branch `main` again, with its
/// retention, adds one.
pub(super) fn log_changes_only(metadata: &mut Value) {
    if let Some(log) = metadata.get_mut("snapshot-log").and_then(Value::as_array_mut) {
        log.dedup_by(|next, before| next["snapshot-id"] == before["snapshot-id"]);
    }
}

/// Whether the file that metadata was read from may have lacked something that the crate does not make up rightly.
pub(super) fn is_incomplete(metadata: &TableMetadata) -> bool {
    metadata.format_version() == FormatVersion::V1
        && (metadata.uuid().is_nil() || metadata.last_partition_id() < last_partition_id(metadata))
}

/// Adds what the file lacks. The UUID is made of the table's location, so that each reader makes the same, and tables
/// at different places have different ones.
pub(super) fn complete(file: &mut Value, metadata: &TableMetadata) {
    if metadata.uuid().is_nil() {
        file["table-uuid"] = uuid_of(metadata.location()).to_string().into();
    }
    file["last-partition-id"] = last_partition_id(metadata).max(metadata.last_partition_id()).into();
}

/// The highest id of a partition field; 999 if there is none, as in the specification.
fn last_partition_id(metadata: &TableMetadata) -> i32 {
    let fields = metadata.partition_specs_iter().flat_map(|spec| spec.fields());
    fields.map(|field| field.field_id).max().unwrap_or(999)
}

/// By the hash FNV-1a with 128 bits.
fn uuid_of(location: &str) -> Uuid {
    let step = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013B);
    let hash = location.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, step);
    uuid::Builder::from_custom_bytes(hash.to_be_bytes()).into_uuid()
}

/// Whether metadata has the branches and tags of the file that it was read from. If not, a commit would lose them.
#[must_use]
pub fn has_its_refs(metadata: &TableMetadata, json: &[u8]) -> bool {
    if metadata.format_version() != FormatVersion::V1 {
        return true;
    }
    let refs = serde_json::from_slice::<Refs>(json).ok().and_then(|file| file.refs).unwrap_or_default();
    refs.iter().filter(|(_, found)| metadata.snapshot_by_id(found.snapshot_id).is_some()).all(|(name, found)| {
        metadata.snapshot_for_ref(name).is_some_and(|snapshot| snapshot.snapshot_id() == found.snapshot_id)
    })
}

fn with_refs(mut builder: TableMetadataBuilder, refs: &[(String, SnapshotReference)]) -> Result<TableMetadata, Misfit> {
    for (name, reference) in refs {
        builder = builder.set_ref(name, reference.clone()).map_err(|error| misfit(&error))?;
    }
    Ok(builder.build().map_err(|error| misfit(&error))?.metadata)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{from_json, to_json};
    use super::*;

    fn file(location: &str, retention: &Value) -> Value {
        let mut main = json!({"snapshot-id": 5, "type": "branch"});
        main.as_object_mut().unwrap().extend(retention.as_object().unwrap().clone());
        json!({
            "format-version": 1, "location": location, "last-updated-ms": 1_700_000_000_000_i64, "last-column-id": 1,
            "schema": {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "a", "required": false, "type": "long"}]},
            "partition-spec": [{"name": "a", "transform": "identity", "source-id": 1, "field-id": 1004}],
            "current-snapshot-id": 5, "refs": {"main": main},
            "snapshots": [{"snapshot-id": 5, "timestamp-ms": 1_700_000_000_000_i64, "manifest-list": "file:///lake/l",
                "summary": {"operation": "append"}, "schema-id": 0}],
            "snapshot-log": [{"snapshot-id": 5, "timestamp-ms": 1_700_000_000_000_i64}],
        })
    }

    fn read(file: &Value) -> TableMetadata {
        from_json(file.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn what_old_files_lack_is_made_up() {
        let [one, other] = ["file:///lake/one", "file:///lake/other"].map(|location| read(&file(location, &json!({}))));
        assert!(one.uuid() != other.uuid() && !one.uuid().is_nil());
        assert_eq!(one.uuid(), read(&file("file:///lake/one", &json!({}))).uuid());
        assert_eq!(one.last_partition_id(), 1004);
        let again = read(&to_json(&one).unwrap());
        assert_eq!((again.uuid(), again.last_partition_id()), (one.uuid(), 1004));
    }

    #[test]
    fn the_log_of_a_table_that_is_read_again_and_again_does_not_grow() {
        let mut file = file("file:///lake/one", &json!({"max-ref-age-ms": 1000, "min-snapshots-to-keep": 3}));
        for round in 0..5 {
            let set = [("round".to_owned(), round.to_string())].into_iter().collect();
            let next = apply(&read(&file), None, vec![TableUpdate::SetProperties { updates: set }]).unwrap().metadata;
            file = to_json(&next).unwrap();
        }
        assert_eq!(file["snapshot-log"].as_array().unwrap().len(), 1);
        assert_eq!(file["refs"]["main"]["min-snapshots-to-keep"], 3);
    }
}
