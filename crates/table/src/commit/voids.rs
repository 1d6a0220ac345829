//! Partition fields that were dropped from a table of format version 1. There they stay, with the transform `void`, and Java
//! leaves them their names. The crate `iceberg` allows the name of a column to an identity field only, so such a field gets
//! its number as well: `p` becomes `p_1000`. Fields are known by their numbers, so readers take it for the same.

use iceberg::TableUpdate;
use iceberg::spec::{TableMetadata, Transform, UnboundPartitionSpec};

/// These updates, with names that the crate allows.
pub(super) fn renamed(updates: Vec<TableUpdate>, current: &TableMetadata) -> Vec<TableUpdate> {
    let rename = |update| match update {
        TableUpdate::AddSpec { spec } => TableUpdate::AddSpec { spec: with_names(spec, current) },
        other => other,
    };
    updates.into_iter().map(rename).collect()
}

fn with_names(spec: UnboundPartitionSpec, current: &TableMetadata) -> UnboundPartitionSpec {
    let is_column = |name: &str| current.schemas_iter().any(|schema| schema.field_by_name(name).is_some());
    let mut changed = UnboundPartitionSpec::builder();
    if let Some(id) = spec.spec_id() {
        changed = changed.with_spec_id(id);
    }
    let mut fields = spec.fields().to_vec();
    for field in &mut fields {
        if let (Transform::Void, Some(id)) = (field.transform, field.field_id)
            && is_column(&field.name)
        {
            field.name = format!("{}_{id}", field.name);
        }
    }
    // What the builder refuses is refused as it came.
    changed.add_partition_fields(fields).map_or(spec, |changed| changed.build())
}
