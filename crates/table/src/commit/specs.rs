//! Partition fields that the format allows and the crate `iceberg` does not.
//!
//! - *Fields of one column whose transforms are alike*: `days` beside `months`, or two dropped fields (`void`). In
//!   memory a stand-in takes the place of each after the first, a `bucket` of a number that no table can have (Java's
//!   are below 2^31), and its own transform is put back in all JSON that is written.
//! - *Names of dropped fields in format version 1.* They stay, with the transform `void`, and Java leaves them their
//!   names. The crate allows the name of a column to an identity field only, so such a field gets its number as well:
//!   `p` becomes `p_1000`. Fields are known by their numbers, so readers take it for the same.

use iceberg::TableUpdate;
use iceberg::spec::{TableMetadata, Transform, UnboundPartitionField, UnboundPartitionSpec};
use serde_json::Value;

/// The buckets of the first stand-in.
const FIRST: u32 = 4_000_000_000;

/// The transforms that have stand-ins; one `void` may be beside several others.
const ALIKE: [Transform; 4] = [Transform::Year, Transform::Month, Transform::Day, Transform::Hour];
const MOST_VOID: u32 = 1000;

/// These updates, with partition fields that the crate allows.
pub(super) fn accepted(updates: Vec<TableUpdate>, current: &TableMetadata) -> Vec<TableUpdate> {
    let is_column = |name: &str| current.schemas_iter().any(|schema| schema.field_by_name(name).is_some());
    let accept = |update| match update {
        TableUpdate::AddSpec { spec } => TableUpdate::AddSpec { spec: with_stand_ins(spec, is_column) },
        other => other,
    };
    updates.into_iter().map(accept).collect()
}

/// This partitioning, with fields that the crate allows. `is_column` tells the names of columns.
pub(super) fn with_stand_ins(spec: UnboundPartitionSpec, is_column: impl Fn(&str) -> bool) -> UnboundPartitionSpec {
    let mut changed = UnboundPartitionSpec::builder();
    if let Some(id) = spec.spec_id() {
        changed = changed.with_spec_id(id);
    }
    let mut fields: Vec<UnboundPartitionField> = spec.fields().to_vec();
    for at in 0..fields.len() {
        let (before, rest) = fields.split_at_mut(at);
        let Some(field) = rest.first_mut() else { continue };
        if let (Transform::Void, Some(id)) = (field.transform, field.field_id)
            && is_column(&field.name)
        {
            field.name = format!("{}_{id}", field.name);
        }
        let same = before.iter().filter(|other| other.source_id == field.source_id).map(|other| other.transform);
        if let Some(other) = stand_in(field.transform, same) {
            field.transform = other;
        }
    }
    // What the builder refuses is refused as it came.
    changed.add_partition_fields(fields).map_or(spec, |changed| changed.build())
}

/// What stands for a transform beside those of the same column that come before it, if the crate does not allow it
/// there.
fn stand_in(transform: Transform, before: impl Iterator<Item = Transform>) -> Option<Transform> {
    let before: Vec<Transform> = before.collect();
    let taken = |other: &Transform| other.dedup_name() == transform.dedup_name();
    if !before.iter().any(taken) {
        return None;
    }
    match transform {
        Transform::Void => {
            let free = |number: &u32| !before.contains(&Transform::Bucket(*number));
            (FIRST + ALIKE.len() as u32..FIRST + MOST_VOID).find(free).map(Transform::Bucket)
        }
        // The same transform twice is refused by every implementation.
        _ if before.contains(&transform) => None,
        _ => {
            let place = ALIKE.iter().position(|one| *one == transform)?;
            Some(Transform::Bucket(FIRST + place as u32))
        }
    }
}

/// The transform, or the one that it stands for.
#[must_use]
pub fn own_transform(transform: Transform) -> Transform {
    let Transform::Bucket(number @ FIRST..) = transform else { return transform };
    ALIKE.get((number - FIRST) as usize).copied().unwrap_or(Transform::Void)
}

/// Whether the crate could not commit to a table of this metadata without stand-ins.
pub(super) fn has_alike(metadata: &TableMetadata) -> bool {
    metadata.partition_specs_iter().any(|spec| {
        let fields = spec.fields();
        (1..fields.len()).any(|at| {
            let same = fields[..at].iter().filter(|other| other.source_id == fields[at].source_id);
            stand_in(fields[at].transform, same.map(|other| other.transform)).is_some()
        })
    })
}

/// Puts stand-ins into the partitionings of a metadata file.
pub(super) fn replace(metadata: &mut Value) {
    for fields in all_fields(metadata) {
        let mut before: Vec<(Value, Transform)> = Vec::new();
        for field in fields {
            let source = field["source-id"].clone();
            let Ok(transform) = serde_json::from_value::<Transform>(field["transform"].clone()) else { continue };
            let same = before.iter().filter(|(other, _)| *other == source).map(|(_, transform)| *transform);
            let transform = match stand_in(transform, same) {
                Some(other) => {
                    field["transform"] = other.to_string().into();
                    other
                }
                None => transform,
            };
            before.push((source, transform));
        }
    }
}

/// Puts the transforms back for which others stand in the partitionings of a metadata file.
pub(super) fn restore(metadata: &mut Value) {
    for field in all_fields(metadata).flatten() {
        let transform = field["transform"].as_str().and_then(|text| text.parse::<Transform>().ok());
        if let Some(transform @ Transform::Bucket(FIRST..)) = transform {
            field["transform"] = own_transform(transform).to_string().into();
        }
    }
}

/// The fields of each partitioning.
fn all_fields(metadata: &mut Value) -> impl Iterator<Item = &mut Vec<Value>> {
    let Value::Object(parts) = metadata else { return Vec::new().into_iter() };
    let mut found = Vec::new();
    for (key, part) in parts {
        match (key.as_str(), part) {
            // Of format version 1.
            ("partition-spec", Value::Array(fields)) => found.push(fields),
            ("partition-specs", Value::Array(specs)) => {
                found.extend(specs.iter_mut().filter_map(|spec| spec.get_mut("fields")?.as_array_mut()));
            }
            _ => {}
        }
    }
    found.into_iter()
}

#[cfg(test)]
mod tests {
    use iceberg::spec::{NestedField, PrimitiveType, Schema, Type};
    use uuid::Uuid;

    use super::super::{Creation, Misfit, apply, create, from_json, to_json};
    use super::*;

    fn field(id: Option<i32>, name: &str, transform: Transform) -> UnboundPartitionField {
        UnboundPartitionField { source_id: 1, field_id: id, name: name.to_owned(), transform }
    }

    fn spec(fields: &[UnboundPartitionField]) -> UnboundPartitionSpec {
        serde_json::from_value(serde_json::json!({ "fields": fields })).unwrap()
    }

    fn table(version: &str, fields: &[UnboundPartitionField]) -> TableMetadata {
        let columns = [NestedField::optional(1, "at", Type::Primitive(PrimitiveType::Timestamp)).into()];
        let creation = Creation {
            schema: Schema::builder().with_fields(columns).build().unwrap(),
            partition_spec: Some(spec(fields)),
            sort_order: None,
            location: "file:///lake/t".to_owned(),
            properties: [("format-version".to_owned(), version.to_owned())].into(),
        };
        create(creation, Uuid::from_u128(7)).unwrap()
    }

    fn with_spec(current: &TableMetadata, fields: &[UnboundPartitionField]) -> Result<TableMetadata, Misfit> {
        let updates = vec![TableUpdate::AddSpec { spec: spec(fields) }, TableUpdate::SetDefaultSpec { spec_id: -1 }];
        Ok(apply(current, None, updates)?.metadata)
    }

    /// The transforms of the default partitioning in the metadata file, which another server reads.
    fn told(current: &TableMetadata) -> (Vec<String>, TableMetadata) {
        let json = to_json(current).unwrap();
        let specs = json["partition-specs"].as_array().unwrap();
        let default = specs.iter().find(|spec| spec["spec-id"] == json["default-spec-id"]).unwrap();
        let transforms = default["fields"].as_array().unwrap().iter();
        let transforms = transforms.map(|field| field["transform"].as_str().unwrap().to_owned()).collect();
        (transforms, from_json(json.to_string().as_bytes()).unwrap())
    }

    #[test]
    fn days_may_be_beside_months() {
        for version in ["1", "2", "3"] {
            let months = field(Some(1000), "at_month", Transform::Month);
            let both = [months.clone(), field(Some(1001), "at_day", Transform::Day)];
            let first = table(version, &[months]);
            let (transforms, read) = told(&with_spec(&first, &both).unwrap());
            assert_eq!(transforms, ["month", "day"]);
            let all = [both.to_vec(), vec![field(None, "at_hour", Transform::Hour)]].concat();
            let (transforms, read) = told(&with_spec(&read, &all).unwrap());
            assert_eq!(transforms, ["month", "day", "hour"]);
            let count = read.partition_specs_iter().count();
            let (_, again) = told(&with_spec(&read, &both).unwrap());
            assert_eq!(again.partition_specs_iter().count(), count, "the earlier one is found again");
            let set = TableUpdate::SetProperties { updates: [("a".to_owned(), "b".to_owned())].into() };
            assert_eq!(told(&apply(&again, None, vec![set]).unwrap().metadata).0, ["month", "day"]);
        }
        assert_eq!(
            told(&table("2", &[field(None, "a", Transform::Hour), field(None, "b", Transform::Year)])).0,
            ["hour", "year"]
        );
    }

    #[test]
    fn fields_of_one_column_may_be_dropped() {
        let dropped = [1000, 1001, 1002].map(|id| field(Some(id), &format!("f{id}"), Transform::Void));
        let (transforms, read) = told(&with_spec(&table("1", &[]), &dropped).unwrap());
        assert_eq!(transforms, ["void", "void", "void"]);
        let more = [dropped.to_vec(), vec![field(Some(1003), "at_day", Transform::Day)]].concat();
        assert_eq!(told(&with_spec(&read, &more).unwrap()).0, ["void", "void", "void", "day"]);
    }

    #[test]
    fn the_same_field_twice_is_refused() {
        let twice = [field(Some(1000), "a", Transform::Day), field(Some(1001), "b", Transform::Day)];
        assert!(matches!(with_spec(&table("2", &[]), &twice), Err(Misfit::Invalid(_))));
        let huge = [field(Some(1000), "a", Transform::Bucket(FIRST))];
        assert!(matches!(with_spec(&table("2", &[]), &huge), Err(Misfit::Invalid(_))));
    }
}
