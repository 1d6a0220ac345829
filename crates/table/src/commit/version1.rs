//! Branches and tags of format version 1. The crate `iceberg` keeps them while a table is in memory, but neither reads them
//! from a file nor writes them; the format allows them there, and other clients do both.

use std::collections::BTreeMap;

use iceberg::TableUpdate;
use iceberg::spec::{
    FormatVersion, MAIN_BRANCH, SnapshotReference, SnapshotRetention, TableMetadata, TableMetadataBuilder,
};
use serde::Deserialize;
use serde_json::Value;

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
