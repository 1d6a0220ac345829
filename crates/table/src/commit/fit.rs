//! Updates that the crate `iceberg` takes, and that leave a table which other clients cannot read.

use std::collections::BTreeSet;

use iceberg::TableUpdate;
use iceberg::spec::{
    FormatVersion, MAIN_BRANCH, NestedField, PrimitiveType, Schema, Snapshot, SnapshotRetention, SortOrder, StructType,
    TableMetadata, Transform, Type, UnboundPartitionSpec,
};
use uuid::Uuid;

use super::Misfit;
use super::specs::own_transform;
use crate::json::{LONGEST_FIXED, Newer, newer, type_name};

/// The most fields of a partitioning or an order: the crate compares each with all others, also when it reads them.
const MOST_FIELDS: usize = 1000;

/// The most fields of all partitionings of a table.
const MOST_SPEC_FIELDS: usize = 5000;

/// The most columns, at all depths, that one commit brings.
const MOST_COLUMNS: usize = 50_000;

/// How far the sequence number of a snapshot may be ahead of the table.
const MOST_AHEAD: i64 = 1 << 32;

/// The most rows ever; it leaves room for sums.
const MOST_ROWS: u64 = 1 << 62;

/// Refuses such updates.
pub(super) fn check(updates: &[TableUpdate], current: &TableMetadata) -> Result<(), Misfit> {
    let upgraded = updates.iter().filter_map(|update| match update {
        TableUpdate::UpgradeFormatVersion { format_version } => Some(*format_version),
        _ => None,
    });
    let version = upgraded.fold(current.format_version(), FormatVersion::max);
    let mut newest: &Schema = current.current_schema();
    let mut earlier = None;
    let brought = updates.iter().filter_map(|update| match update {
        TableUpdate::AddSchema { schema } => Some(schema),
        _ => None,
    });
    schemas(brought)?;
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
            TableUpdate::AddSpec { spec } => self::spec(spec, newest)?,
            TableUpdate::AddSortOrder { sort_order } => order(sort_order, newest)?,
            TableUpdate::AddSnapshot { snapshot } => {
                numbers(snapshot, current)?;
                earlier = Some(after(snapshot, earlier, (current, version))?);
            }
            TableUpdate::AddEncryptionKey { .. } if version < FormatVersion::V3 => {
                let words = format!("encryption keys need format version 3; the table has {version}");
                return Err(Misfit::Invalid(words));
            }
            TableUpdate::SetSnapshotRef { ref_name, reference } => retention(ref_name, &reference.retention)?,
            _ => {}
        }
    }
    Ok(())
}

fn at_most(what: &str, found: usize, most: usize) -> Result<(), Misfit> {
    if found > most { Err(Misfit::Invalid(format!("{found} {what}; at most {most} are allowed"))) } else { Ok(()) }
}

/// Refuses the schemas that one request brings to a table or view: more columns together than one commit may bring, or
/// columns that no table or view can have.
///
/// # Errors
/// [`Misfit::Invalid`] says which of the two.
pub fn schemas<'a>(brought: impl IntoIterator<Item = &'a Schema>) -> Result<(), Misfit> {
    let mut sum = 0;
    for schema in brought {
        sum += size(schema);
        at_most("columns", sum, MOST_COLUMNS)?;
        columns(schema)?;
    }
    Ok(())
}

/// The columns of a schema, at all depths.
fn size(schema: &Schema) -> usize {
    schema.field_id_to_name_map().len()
}

/// Refuses numbers that would leave none for later snapshots.
fn numbers(snapshot: &Snapshot, current: &TableMetadata) -> Result<(), Misfit> {
    let (found, last) = (snapshot.sequence_number(), current.last_sequence_number());
    if found.saturating_sub(last) > MOST_AHEAD {
        let words = format!("the snapshot has the sequence number {found}, and the table is at {last}");
        return Err(Misfit::Invalid(words));
    }
    let rows = snapshot.row_range().map_or(0, |(first, rows)| first.max(current.next_row_id()).saturating_add(rows));
    if rows > MOST_ROWS {
        return Err(Misfit::Invalid(format!("the table would have had {rows} rows; at most {MOST_ROWS} are allowed")));
    }
    Ok(())
}

/// What the snapshots of one commit have reached so far.
#[derive(Clone, Copy)]
struct Reached {
    sequence: i64,
    row: u64,
}

/// Refuses a snapshot that cannot follow those before it in its commit, or whose rows would leave ids out: then later
/// rows could get ids that are taken.
fn after(
    snapshot: &Snapshot,
    earlier: Option<Reached>,
    (current, version): (&TableMetadata, FormatVersion),
) -> Result<Reached, Misfit> {
    let (id, sequence) = (snapshot.snapshot_id(), snapshot.sequence_number());
    let next = earlier.map_or(current.next_row_id(), |reached| reached.row);
    if let Some(reached) = earlier
        && version > FormatVersion::V1
        && (sequence < reached.sequence || (sequence == reached.sequence && snapshot.parent_snapshot_id().is_some()))
    {
        let words = format!(
            "the snapshot {id} has the sequence number {sequence} after one with {} in the same commit; they must increase",
            reached.sequence
        );
        return Err(Misfit::Invalid(words));
    }
    match snapshot.row_range() {
        Some((first, _)) if first > next => Err(Misfit::Invalid(format!(
            "the snapshot {id} has the first-row-id {first}, and the table has given out ids up to {next} only; allowed: {next}"
        ))),
        rows => Ok(Reached { sequence, row: next.saturating_add(rows.map_or(0, |(_, rows)| rows)) }),
    }
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

/// Whether an update changes columns, or how rows are partitioned or sorted.
pub(super) fn shapes_rows(update: &TableUpdate) -> bool {
    matches!(
        update,
        TableUpdate::AddSchema { .. }
            | TableUpdate::SetCurrentSchema { .. }
            | TableUpdate::AddSpec { .. }
            | TableUpdate::SetDefaultSpec { .. }
            | TableUpdate::AddSortOrder { .. }
            | TableUpdate::SetDefaultSortOrder { .. }
    )
}

/// Refuses a table whose current columns cannot be partitioned or sorted as it says: each update may be right by
/// itself.
pub(super) fn result(made: &TableMetadata) -> Result<(), Misfit> {
    let schema = made.current_schema();
    let specs =
        made.partition_specs_iter().flat_map(|spec| spec.fields()).map(|field| (field.source_id, field.transform));
    let orders =
        made.sort_orders_iter().flat_map(|order| &order.fields).map(|field| (field.source_id, field.transform));
    specs.chain(orders).try_for_each(|(source, given)| {
        let own = own_transform(given);
        transform(own, source, schema)?;
        has_result(own, source, schema)
    })?;
    let fields = made.partition_specs_iter().map(|spec| spec.fields().len()).sum();
    at_most("fields of partitionings, of which clients can remove old ones", fields, MOST_SPEC_FIELDS)?;
    default_spec(made)
}

/// Refuses a transform that a column does not have, of the current partitioning or of an older one: other clients bind
/// all of them to the current columns.
fn has_result(own: Transform, source: i32, schema: &Schema) -> Result<(), Misfit> {
    match schema.field_by_id(source) {
        Some(column) if newer_type(column).is_none() && own.result_type(&column.field_type).is_err() => {
            let words = format!(
                "the column {:?} would have the type {}, and a partitioning or an order of the table has its transform \
                 {own}, which that type does not have; remove that one first",
                column.name, column.field_type
            );
            Err(Misfit::Invalid(words))
        }
        _ => Ok(()),
    }
}

/// Refuses transforms for which others stand, and that the columns do not have.
pub(super) fn default_spec(made: &TableMetadata) -> Result<(), Misfit> {
    for field in made.default_partition_spec().fields() {
        let own = own_transform(field.transform);
        if own != field.transform
            && let Some(column) = made.current_schema().field_by_id(field.source_id)
            && own.result_type(&column.field_type).is_err()
        {
            let words = format!("the transform {own} of the column {:?}: there is none of its type", column.name);
            return Err(Misfit::Invalid(words));
        }
    }
    Ok(())
}

/// Refuses a partitioning that clients cannot read.
pub(super) fn spec(given: &UnboundPartitionSpec, schema: &Schema) -> Result<(), Misfit> {
    at_most("fields of a partitioning", given.fields().len(), MOST_FIELDS)?;
    sources(schema, given.fields().iter().map(|field| field.source_id))?;
    given.fields().iter().try_for_each(|field| transform(field.transform, field.source_id, schema))
}

/// Refuses an order that clients cannot read.
pub(super) fn order(given: &SortOrder, schema: &Schema) -> Result<(), Misfit> {
    at_most("fields of an order", given.fields.len(), MOST_FIELDS)?;
    given.fields.iter().try_for_each(|field| transform(field.transform, field.source_id, schema))
}

fn transform(given: Transform, source: i32, schema: &Schema) -> Result<(), Misfit> {
    if let Transform::Bucket(number) | Transform::Truncate(number) = given
        && !(1..=i32::MAX.cast_unsigned()).contains(&number)
    {
        return Err(Misfit::Invalid(format!("the transform {given}; allowed are numbers from 1 to 2147483647")));
    }
    let Some(column) = schema.field_by_id(source) else { return Ok(()) };
    let Some((kind, name)) = newer_type(column) else { return Ok(()) };
    match (kind, given) {
        (_, Transform::Void) | (Newer::Unknown, Transform::Identity) => Ok(()),
        _ => Err(Misfit::Invalid(format!(
            "the transform {given} of the column {:?}: there is none of the type {name}",
            column.name
        ))),
    }
}

/// The type of a column, if the crate does not know it.
fn newer_type(column: &NestedField) -> Option<(Newer, String)> {
    let primitive = column.field_type.as_primitive_type()?;
    Some((newer(primitive)?, type_name(primitive)))
}

/// A table keeps its UUID: clients take another one for another table.
fn same_uuid(current: Uuid, given: Uuid) -> Result<(), Misfit> {
    match given == current {
        true => Ok(()),
        false => Err(Misfit::Invalid(format!("the table has the UUID {current}; it cannot get another one, {given}"))),
    }
}

/// Refuses the first schema and partitioning of a table whose ids are not those that it got.
pub(super) fn same_ids(
    schema: &Schema,
    spec: Option<&UnboundPartitionSpec>,
    made: &TableMetadata,
) -> Result<(), Misfit> {
    let fields = spec.into_iter().flat_map(UnboundPartitionSpec::fields).zip(made.default_partition_spec().fields());
    let same_fields = fields.into_iter().all(|(given, made)| given.field_id.is_none_or(|id| id == made.field_id));
    if same_fields && schema.field_id_to_name_map() == made.current_schema().field_id_to_name_map() {
        return Ok(());
    }
    let words = "the first schema or partitioning of a table must have the ids that the catalog assigns: columns from 1 on, \
                 level by level, and partition fields from 1000 on. Stage the table first (stage-create), and take the schema \
                 and the partitioning of the answer";
    Err(Misfit::Invalid(words.to_owned()))
}

/// Refuses columns that no table or view can have.
fn columns(schema: &Schema) -> Result<(), Misfit> {
    let variant = |id: &i32| schema.field_by_id(*id).is_some_and(|column| newer_type(column).is_some());
    if let Some(id) = schema.identifier_field_ids().find(variant) {
        return Err(Misfit::Invalid(format!("the column {id} identifies rows, and is of a type that cannot")));
    }
    schema.as_struct().fields().iter().try_for_each(|column| each(column, &sound))
}

/// The digits of a decimal: at most as many as fit into 16 bytes.
const MOST_DIGITS: u32 = 38;

fn sound(column: &NestedField) -> Result<(), Misfit> {
    if let Some(PrimitiveType::Decimal { precision, scale }) = column.field_type.as_primitive_type()
        && (!(1..=MOST_DIGITS).contains(precision) || *scale > MOST_DIGITS)
    {
        let words = format!(
            "the column {:?} has the type {}; a decimal has 1 to {MOST_DIGITS} digits, 0 to {MOST_DIGITS} after the point",
            column.name, column.field_type
        );
        return Err(Misfit::Invalid(words));
    }
    if let Some(PrimitiveType::Fixed(length @ LONGEST_FIXED..)) = column.field_type.as_primitive_type()
        && *length > LONGEST_FIXED
        && newer_type(column).is_none()
    {
        let words =
            format!("the column {:?} has the type fixed[{length}]; at most {LONGEST_FIXED} are allowed", column.name);
        return Err(Misfit::Invalid(words));
    }
    let Some((kind, name)) = newer_type(column) else { return Ok(()) };
    let wrong = match kind {
        Newer::Unknown if column.required => "is required",
        _ if column.initial_default.is_some() || column.write_default.is_some() => "has a default value",
        _ => return Ok(()),
    };
    let words = format!("the column {:?} {wrong}; a column of the type {name} cannot", column.name);
    Err(Misfit::Invalid(words))
}

/// A column, and those within it.
fn each(column: &NestedField, check: &impl Fn(&NestedField) -> Result<(), Misfit>) -> Result<(), Misfit> {
    check(column)?;
    match &*column.field_type {
        Type::Primitive(_) => Ok(()),
        Type::Struct(inner) => inner.fields().iter().try_for_each(|field| each(field, check)),
        Type::List(list) => each(&list.element_field, check),
        Type::Map(map) => [&map.key_field, &map.value_field].iter().try_for_each(|field| each(field, check)),
    }
}

/// Refuses types and default values that the format version does not have.
pub(super) fn schema(schema: &Schema, version: FormatVersion) -> Result<(), Misfit> {
    match version {
        FormatVersion::V1 | FormatVersion::V2 => {
            let old = |column: &NestedField| of_version_2(column, version);
            schema.as_struct().fields().iter().try_for_each(|column| each(column, &old))
        }
        FormatVersion::V3 => Ok(()),
    }
}

fn of_version_2(column: &NestedField, version: FormatVersion) -> Result<(), Misfit> {
    // A null default is none.
    let wrong = match &*column.field_type {
        _ if column.initial_default.is_some() => "a default value".to_owned(),
        Type::Primitive(of) if newer(of).is_some() => format!("the type {}", type_name(of)),
        Type::Primitive(of @ (PrimitiveType::TimestampNs | PrimitiveType::TimestamptzNs)) => format!("the type {of}"),
        _ => return Ok(()),
    };
    let words =
        format!("the column {:?} has {wrong}, which needs format version 3; the table has {version}", column.name);
    Err(Misfit::Invalid(words))
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

    fn of_type(name: &str) -> Schema {
        let column = serde_json::json!({"id": 1, "name": "a", "required": false, "type": name});
        let schema = serde_json::json!({"type": "struct", "schema-id": 0, "fields": [column]});
        crate::json::decode(schema.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn types_of_version_3_are_used_as_the_format_allows() {
        for name in ["variant", "unknown", "geometry", "geography(OGC:CRS84)"] {
            let schema = of_type(name);
            assert!(super::schema(&schema, FormatVersion::V2).is_err() && columns(&schema).is_ok());
            assert_eq!(transform(Transform::Identity, 1, &schema).is_ok(), name == "unknown");
            assert!(
                transform(Transform::Bucket(4), 1, &schema).is_err() && transform(Transform::Void, 1, &schema).is_ok()
            );
            let same = (**schema.field_by_id(1).unwrap()).clone();
            let required = NestedField { required: true, ..same.clone() };
            assert_eq!(columns(&with(required.clone())).is_ok(), name != "unknown");
            assert!(columns(&with(same.with_initial_default(Literal::fixed([0; 4])))).is_err());
            let identifies = Schema::builder().with_fields([required.into()]).with_identifier_field_ids([1]).build();
            assert!(identifies.is_err() || columns(&identifies.unwrap()).is_err());
        }
    }

    #[test]
    fn decimals_fit_into_their_bytes() {
        for (name, fits) in
            [("decimal(38,2)", true), ("decimal(1,0)", true), ("decimal(39,2)", false), ("decimal(0,0)", false)]
        {
            assert_eq!(columns(&of_type(name)).is_ok(), fits, "{name}");
        }
    }

    #[test]
    fn partitions_are_by_columns() {
        let long = Type::Primitive(PrimitiveType::Long);
        let list = Type::List(ListType::new(NestedField::list_element(2, long, false).into()));
        let schema = with(NestedField::optional(1, "a", list));
        assert!(sources(&schema, [1]).is_ok() && sources(&schema, [2]).is_err());
    }
}
