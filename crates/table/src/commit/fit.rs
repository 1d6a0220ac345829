//! Updates that the crate `iceberg` takes, and that leave a table which other clients cannot read.

use std::collections::BTreeSet;

use iceberg::TableUpdate;
use iceberg::spec::{
    FormatVersion, MAIN_BRANCH, NestedField, PrimitiveType, Schema, SnapshotRetention, StructType, TableMetadata,
    Transform, Type,
};
use uuid::Uuid;

use super::Misfit;

/// Refuses such updates.
pub(super) fn check(updates: &[TableUpdate], current: &TableMetadata) -> Result<(), Misfit> {
    let upgraded = updates.iter().filter_map(|update| match update {
        TableUpdate::UpgradeFormatVersion { format_version } => Some(*format_version),
        _ => None,
    });
    let version = upgraded.fold(current.format_version(), FormatVersion::max);
    let mut newest: &Schema = current.current_schema();
    for update in updates {
        match update {
            TableUpdate::AssignUuid { uuid } => same_uuid(current.uuid(), *uuid)?,
            TableUpdate::AddSchema { schema } => {
                newest = schema;
                // A table that came with what its version does not have can still be changed.
                if self::schema(current.current_schema(), version).is_ok() {
                    self::schema(schema, version)?;
                }
            }
            TableUpdate::AddSpec { spec } => {
                sources(newest, spec.fields().iter().map(|field| field.source_id))?;
                spec.fields().iter().try_for_each(|field| transform(field.transform))?;
            }
            TableUpdate::SetSnapshotRef { ref_name, reference } => retention(ref_name, &reference.retention)?,
            _ => {}
        }
    }
    Ok(())
}

/// Refuses retentions that no snapshot can have.
fn retention(name: &str, given: &SnapshotRetention) -> Result<(), Misfit> {
    let ages = match given {
        SnapshotRetention::Branch { min_snapshots_to_keep, max_snapshot_age_ms, max_ref_age_ms } => {
            [min_snapshots_to_keep.map(i64::from), *max_snapshot_age_ms, *max_ref_age_ms]
        }
        SnapshotRetention::Tag { .. } if name == MAIN_BRANCH => {
            return Err(Misfit::Invalid(format!("{MAIN_BRANCH} must be a branch, not a tag")));
        }
        SnapshotRetention::Tag { max_ref_age_ms } => [*max_ref_age_ms, None, None],
    };
    match ages.into_iter().flatten().find(|age| *age <= 0) {
        Some(found) => {
            Err(Misfit::Invalid(format!("the retention of {name:?} has {found}; allowed are positive numbers")))
        }
        None => Ok(()),
    }
}

pub(super) fn transform(given: Transform) -> Result<(), Misfit> {
    match given {
        Transform::Bucket(0) | Transform::Truncate(0) => {
            Err(Misfit::Invalid(format!("the transform {given}; allowed are numbers from 1 on")))
        }
        _ => Ok(()),
    }
}

/// A table keeps its UUID: clients take another one for another table.
fn same_uuid(current: Uuid, given: Uuid) -> Result<(), Misfit> {
    match given == current {
        true => Ok(()),
        false => Err(Misfit::Invalid(format!("the table has the UUID {current}; it cannot get another one, {given}"))),
    }
}

/// Refuses types and default values that the format version does not have.
pub(super) fn schema(schema: &Schema, version: FormatVersion) -> Result<(), Misfit> {
    match version {
        FormatVersion::V1 | FormatVersion::V2 => {
            schema.as_struct().fields().iter().try_for_each(|field| of_version_2(field, version))
        }
        FormatVersion::V3 => Ok(()),
    }
}

fn of_version_2(field: &NestedField, version: FormatVersion) -> Result<(), Misfit> {
    let wrong = |what: &str| {
        let words =
            format!("the column {:?} has {what}, which needs format version 3; the table has {version}", field.name);
        Err(Misfit::Invalid(words))
    };
    // A null default is none.
    if field.initial_default.is_some() {
        return wrong("a default value");
    }
    match &*field.field_type {
        Type::Primitive(PrimitiveType::TimestampNs) => wrong("the type timestamp_ns"),
        Type::Primitive(PrimitiveType::TimestamptzNs) => wrong("the type timestamptz_ns"),
        Type::Primitive(_) => Ok(()),
        Type::Struct(inner) => inner.fields().iter().try_for_each(|field| of_version_2(field, version)),
        Type::List(list) => of_version_2(&list.element_field, version),
        Type::Map(map) => [&map.key_field, &map.value_field].iter().try_for_each(|field| of_version_2(field, version)),
    }
}

/// Refuses partitions by what a row has several of. The crate refuses columns that are not there.
pub(super) fn sources(schema: &Schema, sources: impl IntoIterator<Item = i32>) -> Result<(), Misfit> {
    let mut once = BTreeSet::new();
    once_in_a_row(schema.as_struct(), &mut once);
    for source in sources {
        if !once.contains(&source)
            && let Some(field) = schema.field_by_id(source)
        {
            let words = format!("a partition by {:?}, which is in a list or a map; allowed are columns", field.name);
            return Err(Misfit::Invalid(words));
        }
    }
    Ok(())
}

fn once_in_a_row(fields: &StructType, found: &mut BTreeSet<i32>) {
    for field in fields.fields() {
        found.insert(field.id);
        if let Type::Struct(inner) = &*field.field_type {
            once_in_a_row(inner, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use iceberg::spec::{ListType, Literal};

    use super::*;

    fn with(field: NestedField) -> Schema {
        Schema::builder().with_fields([field.into()]).build().unwrap()
    }

    #[test]
    fn what_needs_version_3_is_refused_before() {
        let nanoseconds = || Type::Primitive(PrimitiveType::TimestampNs);
        let long = || Type::Primitive(PrimitiveType::Long);
        let list = Type::List(ListType::new(NestedField::list_element(2, nanoseconds(), false).into()));
        for field in [
            NestedField::optional(1, "a", nanoseconds()),
            NestedField::optional(1, "a", list),
            NestedField::optional(1, "a", long()).with_initial_default(Literal::long(1)),
        ] {
            let schema = with(field);
            assert!(
                super::schema(&schema, FormatVersion::V2).is_err() && super::schema(&schema, FormatVersion::V3).is_ok()
            );
        }
        assert!(super::schema(&with(NestedField::optional(1, "a", long())), FormatVersion::V1).is_ok());
    }

    #[test]
    fn partitions_are_by_columns() {
        let long = Type::Primitive(PrimitiveType::Long);
        let list = Type::List(ListType::new(NestedField::list_element(2, long, false).into()));
        let schema = with(NestedField::optional(1, "a", list));
        assert!(sources(&schema, [1]).is_ok() && sources(&schema, [2]).is_err());
    }
}
