//! Requirements and updates of a commit, applied to the metadata of a table or a view.
//!
//! The values are those of the crate `iceberg`; this module decides which of its errors is a conflict (the client may
//! refresh and try again) and which says that the request itself is wrong.

mod encryption;
mod fit;
mod form;
mod numbers;
mod specs;
mod version1;

use std::collections::{BTreeSet, HashMap};

use iceberg::spec::{
    FormatVersion, Operation, Schema, Snapshot, SortOrder, Summary, TableMetadata, TableMetadataBuildResult,
    TableMetadataBuilder, UnboundPartitionSpec,
};
use iceberg::{ErrorKind, TableRequirement, TableUpdate};
use uuid::Uuid;

pub use fit::schemas as check_schemas;
pub use form::{from_json, to_json};
pub use numbers::check_view_ids;
pub use specs::own_transform;
pub use version1::has_its_refs;

/// Why a commit does not fit the metadata it was decided on. Nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// A requirement does not hold. The client may refresh and try again.
    #[error("{0}")]
    Conflict(String),
    /// The request is wrong on any metadata of this table, or on this one.
    #[error("{0}")]
    Invalid(String),
    /// A requirement needs a table, and there is none.
    #[error("the table does not exist")]
    Missing,
}

/// Whether these requirements hold for the current metadata; `None` if there is no table.
///
/// # Errors
/// The first that does not hold.
pub fn check(requirements: &[TableRequirement], current: Option<&TableMetadata>) -> Result<(), Misfit> {
    for requirement in requirements {
        requirement.check(current).map_err(|error| match error.kind() {
            ErrorKind::CatalogCommitConflicts => Misfit::Conflict(told(requirement, current)),
            ErrorKind::TableNotFound => Misfit::Missing,
            _ => Misfit::Invalid(error.to_string()),
        })?;
    }
    Ok(())
}

/// What does not hold, in the words of Iceberg's own server: clients show them, and some look for them.
fn told(requirement: &TableRequirement, current: Option<&TableMetadata>) -> String {
    let Some(now) = current else { return "Requirement failed: table does not exist".to_owned() };
    let changed = |what: &str, expected: String, found: String| {
        format!("Requirement failed: {what} changed: expected id {expected} != {found}")
    };
    match requirement {
        TableRequirement::NotExist => "Requirement failed: table already exists".to_owned(),
        TableRequirement::UuidMatch { uuid } => {
            format!("Requirement failed: UUID does not match: expected {} != {uuid}", now.uuid())
        }
        TableRequirement::RefSnapshotIdMatch { r#ref, snapshot_id } => {
            match (snapshot_id, now.snapshot_for_ref(r#ref)) {
                (None, _) => format!("Requirement failed: branch or tag {ref} was created concurrently"),
                (Some(expected), None) => {
                    format!("Requirement failed: branch or tag {ref} is missing, expected {expected}")
                }
                (Some(expected), Some(found)) => {
                    let found = found.snapshot_id();
                    format!("Requirement failed: branch {ref} has changed: expected id {expected} != {found}")
                }
            }
        }
        TableRequirement::LastAssignedFieldIdMatch { last_assigned_field_id: expected } => {
            changed("last assigned field id", expected.to_string(), now.last_column_id().to_string())
        }
        TableRequirement::CurrentSchemaIdMatch { current_schema_id: expected } => {
            changed("current schema", expected.to_string(), now.current_schema_id().to_string())
        }
        TableRequirement::LastAssignedPartitionIdMatch { last_assigned_partition_id: expected } => {
            changed("last assigned partition id", expected.to_string(), now.last_partition_id().to_string())
        }
        TableRequirement::DefaultSpecIdMatch { default_spec_id: expected } => {
            changed("default partition spec", expected.to_string(), now.default_partition_spec_id().to_string())
        }
        TableRequirement::DefaultSortOrderIdMatch { default_sort_order_id: expected } => {
            changed("default sort order", expected.to_string(), now.default_sort_order_id().to_string())
        }
    }
}

/// The metadata after these updates. `file` is where the current metadata is kept: it enters the log of earlier files;
/// `None` if that was not written (a commit on top of another that is written together with it).
///
/// # Errors
/// If an update does not fit. [`Misfit::Conflict`] for a snapshot whose sequence number others have reached meanwhile.
pub fn apply(
    current: &TableMetadata,
    file: Option<&str>,
    updates: Vec<TableUpdate>,
) -> Result<TableMetadataBuildResult, Misfit> {
    fit::check(&updates, current)?;
    encryption::check(&updates, current)?;
    numbers::check(&updates, current)?;
    let updates = specs::accepted(known(updates, current), current);
    let builder = || current.clone().into_builder(file.map(str::to_owned));
    if updates.iter().any(|update| matches!(update, TableUpdate::AddSnapshot { .. })) {
        return applied(builder(), updates).map_err(|misfit| match misfit {
            // What the crate says of a snapshot without a parent whose number is taken. In version 1 numbers mean
            // nothing.
            Misfit::Invalid(words)
                if words.contains("greater than last sequence number")
                    && current.format_version() > FormatVersion::V1 =>
            {
                Misfit::Conflict(words)
            }
            misfit => misfit,
        });
    }
    // The crate dates such a version by this machine's clock. If a clock that ran ahead dated the current one, the new
    // version would be older than its own logs, and no client could read it.
    let newest = current.history().last().map_or(0, |log| log.timestamp_ms).max(current.last_updated_ms());
    let built = applied(builder(), updates.clone());
    let behind = match &built {
        Ok(built) => built.metadata.last_updated_ms() < newest,
        Err(Misfit::Invalid(words)) => {
            words.contains("Invalid update timestamp") || words.contains("Expected sorted snapshot log entries")
        }
        Err(Misfit::Conflict(_) | Misfit::Missing) => false,
    };
    if behind { applied(dated(builder(), current, newest)?, updates) } else { built }
}

/// These updates, with those snapshots to remove only that are there, each once: the crate compares each with all. What
/// the table has of their statistics goes with them, as in Iceberg's own library.
fn known(mut updates: Vec<TableUpdate>, current: &TableMetadata) -> Vec<TableUpdate> {
    let added: BTreeSet<i64> = updates
        .iter()
        .filter_map(|update| match update {
            TableUpdate::AddSnapshot { snapshot } => Some(snapshot.snapshot_id()),
            _ => None,
        })
        .collect();
    for update in &mut updates {
        if let TableUpdate::RemoveSnapshots { snapshot_ids } = update {
            let is_there = |id: &i64| current.snapshot_by_id(*id).is_some() || added.contains(id);
            let there: BTreeSet<i64> = snapshot_ids.iter().copied().filter(is_there).collect();
            *snapshot_ids = there.into_iter().collect();
        }
    }
    let removed = updates.iter().flat_map(|update| match update {
        TableUpdate::RemoveSnapshots { snapshot_ids } => snapshot_ids.as_slice(),
        _ => &[],
    });
    let mut of_removed = Vec::new();
    for id in removed.copied() {
        if current.statistics_for_snapshot(id).is_some() {
            of_removed.push(TableUpdate::RemoveStatistics { snapshot_id: id });
        }
        if current.partition_statistics_for_snapshot(id).is_some() {
            of_removed.push(TableUpdate::RemovePartitionStatistics { snapshot_id: id });
        }
    }
    updates.extend(of_removed);
    updates
}

/// A builder whose next version has this date. The crate takes the date of a snapshot that is added, so this adds one
/// and removes it again.
fn dated(builder: TableMetadataBuilder, current: &TableMetadata, at: i64) -> Result<TableMetadataBuilder, Misfit> {
    let free = (0..).find(|id| current.snapshot_by_id(*id).is_none()).unwrap_or(i64::MAX);
    let snapshot = Snapshot::builder()
        .with_snapshot_id(free)
        .with_sequence_number(current.last_sequence_number())
        .with_timestamp_ms(at)
        .with_manifest_list("")
        .with_summary(Summary { operation: Operation::Append, additional_properties: HashMap::new() });
    let snapshot = match current.format_version() {
        FormatVersion::V3 => snapshot.with_row_range(current.next_row_id(), 0).build(),
        FormatVersion::V1 | FormatVersion::V2 => snapshot.build(),
    };
    Ok(builder.add_snapshot(snapshot).map_err(|error| misfit(&error))?.remove_snapshots(&[free]))
}

const REMOVES_CURRENT: &str = "the current snapshot of the table would be removed; move the branch main to another snapshot \
                               first (set-snapshot-ref), in the same commit or in one before";

fn applied(mut builder: TableMetadataBuilder, updates: Vec<TableUpdate>) -> Result<TableMetadataBuildResult, Misfit> {
    let shapes = updates.iter().any(fit::shapes_rows);
    let removes = updates.iter().any(|update| matches!(update, TableUpdate::RemoveSnapshots { .. }));
    for update in updates {
        builder = update.apply(builder).map_err(|error| misfit(&error))?;
    }
    let built = builder.build().map_err(|error| match misfit(&error) {
        // The crate says this of a log whose last snapshot is gone.
        Misfit::Invalid(words) if removes && words.contains("latest entry is not the current snapshot") => {
            Misfit::Invalid(REMOVES_CURRENT.to_owned())
        }
        misfit => misfit,
    })?;
    if shapes {
        fit::result(&built.metadata)?;
    }
    Ok(built)
}

/// The crate reports what another commit caused (a sequence number or row id that is taken) as invalid data.
fn misfit(error: &iceberg::Error) -> Misfit {
    let words = error.message().to_owned();
    let overtaken = words.contains("older than last sequence number") || words.contains("behind table next-row-id");
    match overtaken || error.kind() == ErrorKind::CatalogCommitConflicts {
        true => Misfit::Conflict(words),
        false => Misfit::Invalid(words),
    }
}

/// What a new table is made of.
#[derive(Clone, Debug)]
pub struct Creation {
    /// Its schema; the ids of fields are assigned anew.
    pub schema: Schema,
    /// Its partitioning; unpartitioned if absent.
    pub partition_spec: Option<UnboundPartitionSpec>,
    /// Its order; unsorted if absent.
    pub sort_order: Option<SortOrder>,
    /// Where its files are.
    pub location: String,
    /// Its properties. `format-version` selects the format and is not kept as a property.
    pub properties: HashMap<String, String>,
}

/// The metadata of a new table.
///
/// # Errors
/// If the schema, the partitioning or the order is wrong, or the format version is unknown.
pub fn create(creation: Creation, uuid: Uuid) -> Result<TableMetadata, Misfit> {
    let Creation { schema, partition_spec, sort_order, location, mut properties } = creation;
    let version = match properties.remove("format-version").as_deref() {
        None | Some("2") => FormatVersion::V2,
        Some("1") => FormatVersion::V1,
        Some("3") => FormatVersion::V3,
        Some(other) => {
            return Err(Misfit::Invalid(format!("format-version is {other:?}; allowed are 1, 2 and 3")));
        }
    };
    let spec = partition_spec.unwrap_or_else(|| UnboundPartitionSpec::builder().build());
    let order = sort_order.unwrap_or_else(SortOrder::unsorted_order);
    fit::schemas([&schema])?;
    fit::schema(&schema, version)?;
    fit::spec(&spec, &schema)?;
    fit::order(&order, &schema)?;
    let spec = specs::with_stand_ins(spec, |name| schema.field_by_name(name).is_some());
    let builder = TableMetadataBuilder::new(schema, spec, order, location, version, properties);
    let builder = builder.map_err(|error| misfit(&error))?.assign_uuid(uuid);
    let made = builder.build().map_err(|error| misfit(&error))?.metadata;
    fit::default_spec(&made)?;
    Ok(made)
}

/// The metadata of a table that was staged and is created by its first commit: the first schema, partitioning and order
/// among the updates, then the others. `location` is used if no update gives one.
///
/// # Errors
/// As [`create`] and [`apply`]. Also if its columns or partition fields have other ids than a creation assigns: files
/// that were written with them would be read as other columns.
pub fn create_by_updates(updates: Vec<TableUpdate>, location: String, uuid: Uuid) -> Result<TableMetadata, Misfit> {
    let mut first = First { location, ..First::default() };
    let rest: Vec<TableUpdate> = updates.into_iter().filter_map(|update| first.take(update)).collect();
    let schema = first.schema.ok_or_else(|| {
        Misfit::Invalid("a commit that creates a table needs an add-schema update; there is none".to_owned())
    })?;
    let creation = Creation {
        schema,
        partition_spec: first.spec,
        sort_order: first.order,
        location: first.location,
        properties: first.version.map(|version| ("format-version".to_owned(), version)).into_iter().collect(),
    };
    let (schema, spec) = (creation.schema.clone(), creation.partition_spec.clone());
    let metadata = create(creation, first.uuid.unwrap_or(uuid))?;
    fit::same_ids(&schema, spec.as_ref(), &metadata)?;
    fit::check(&rest, &metadata)?;
    let rest = specs::accepted(rest, &metadata);
    // The builder knows "the last one added" only of its own updates, so what was taken is set by its number already.
    Ok(applied(metadata.into_builder(None), rest)?.metadata)
}

/// What a new table needs from its first updates.
#[derive(Default)]
struct First {
    schema: Option<Schema>,
    spec: Option<UnboundPartitionSpec>,
    order: Option<SortOrder>,
    location: String,
    uuid: Option<Uuid>,
    version: Option<String>,
    /// Whether a later schema, partitioning or order was added: then "the last one added" is that.
    later: [bool; 3],
}

impl First {
    /// Takes the update if a new table needs it; otherwise gives it back.
    fn take(&mut self, update: TableUpdate) -> Option<TableUpdate> {
        match update {
            TableUpdate::AddSchema { schema } if self.schema.is_none() => self.schema = Some(schema),
            TableUpdate::AddSpec { spec } if self.spec.is_none() => self.spec = Some(spec),
            TableUpdate::AddSortOrder { sort_order } if self.order.is_none() => self.order = Some(sort_order),
            TableUpdate::SetLocation { location } => self.location = location,
            TableUpdate::AssignUuid { uuid } => self.uuid = Some(uuid),
            TableUpdate::UpgradeFormatVersion { format_version } => {
                self.version = Some((format_version as u8).to_string());
            }
            // The first ones are current already.
            TableUpdate::SetCurrentSchema { schema_id: -1..=0 } if !self.later[0] => {}
            TableUpdate::SetDefaultSpec { spec_id: -1..=0 } if !self.later[1] => {}
            TableUpdate::SetDefaultSortOrder { sort_order_id: -1..=1 } if !self.later[2] => {}
            other => {
                match &other {
                    TableUpdate::AddSchema { .. } => self.later[0] = true,
                    TableUpdate::AddSpec { .. } => self.later[1] = true,
                    TableUpdate::AddSortOrder { .. } => self.later[2] = true,
                    _ => {}
                }
                return Some(other);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use iceberg::spec::{NestedField, PrimitiveType, Type};

    use super::*;

    fn schema() -> Schema {
        let id = NestedField::required(1, "id", Type::Primitive(PrimitiveType::Long));
        Schema::builder().with_fields([id.into()]).build().unwrap()
    }

    pub(super) fn table(properties: &[(&str, &str)]) -> Result<TableMetadata, Misfit> {
        let properties = properties.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let creation = Creation {
            schema: schema(),
            partition_spec: None,
            sort_order: None,
            location: "file:///lake/t".to_owned(),
            properties,
        };
        create(creation, Uuid::from_u128(7))
    }

    #[test]
    fn statistics_go_with_their_snapshot() {
        let mut metadata = table(&[]).unwrap();
        let update = |metadata: TableMetadata, updates: serde_json::Value| {
            apply(&metadata, None, serde_json::from_value(updates).unwrap()).unwrap().metadata
        };
        for id in [1, 2] {
            let list = format!("file:///lake/t/metadata/{id}.avro");
            let snapshot = serde_json::json!({
                "snapshot-id": id, "sequence-number": id, "timestamp-ms": 4_102_444_800_000_i64 + id, "manifest-list": list,
                "summary": { "operation": "append" }, "schema-id": 0,
            });
            let file = format!("file:///lake/t/metadata/{id}.puffin");
            let sizes = serde_json::json!({ "snapshot-id": id, "statistics-path": file, "file-size-in-bytes": 1 });
            let mut statistics = sizes.clone();
            statistics["file-footer-size-in-bytes"] = 1.into();
            statistics["blob-metadata"] = serde_json::json!([]);
            metadata = update(
                metadata,
                serde_json::json!([
                    { "action": "add-snapshot", "snapshot": snapshot },
                    { "action": "set-statistics", "statistics": statistics },
                    { "action": "set-partition-statistics", "partition-statistics": sizes },
                ]),
            );
        }
        let now = update(metadata, serde_json::json!([{ "action": "remove-snapshots", "snapshot-ids": [1, 5] }]));
        assert!(now.statistics_for_snapshot(1).is_none() && now.partition_statistics_for_snapshot(1).is_none());
        assert!(now.statistics_for_snapshot(2).is_some() && now.partition_statistics_for_snapshot(2).is_some());
    }

    #[test]
    fn a_new_table_has_the_version_that_its_properties_ask_for() {
        assert_eq!(table(&[]).unwrap().format_version(), FormatVersion::V2);
        let third = table(&[("format-version", "3"), ("a", "b")]).unwrap();
        assert_eq!(third.format_version(), FormatVersion::V3);
        assert_eq!(third.properties().len(), 1, "the version is not a property");
        assert_eq!(third.uuid(), Uuid::from_u128(7));
        assert!(
            matches!(table(&[("format-version", "9")]), Err(Misfit::Invalid(words)) if words.contains("1, 2 and 3"))
        );
    }

    #[test]
    fn requirements_tell_conflicts_from_missing_tables() {
        let table = table(&[]).unwrap();
        let uuid = |number| TableRequirement::UuidMatch { uuid: Uuid::from_u128(number) };
        assert_eq!(check(&[uuid(7)], Some(&table)), Ok(()));
        assert!(matches!(check(&[uuid(7), uuid(8)], Some(&table)), Err(Misfit::Conflict(_))));
        assert_eq!(check(&[uuid(7)], None), Err(Misfit::Missing));
        assert_eq!(check(&[TableRequirement::NotExist], None), Ok(()));
        assert!(matches!(check(&[TableRequirement::NotExist], Some(&table)), Err(Misfit::Conflict(_))));
    }

    #[test]
    fn earlier_files_enter_the_log_once() {
        let table = table(&[]).unwrap();
        let set = |key: &str| TableUpdate::SetProperties { updates: HashMap::from([(key.to_owned(), "1".to_owned())]) };
        let next = apply(&table, Some("file:///lake/t/metadata/0.json"), vec![set("a")]).unwrap().metadata;
        let next = apply(&next, None, vec![set("b")]).unwrap().metadata;
        let log: Vec<_> = next.metadata_log().iter().map(|entry| entry.metadata_file.as_str()).collect();
        assert_eq!(log, ["file:///lake/t/metadata/0.json"]);
        assert_eq!(next.properties().len(), 2);
    }

    /// Two servers whose clocks differ by more than the minute that readers tolerate.
    #[test]
    fn a_version_is_not_older_than_the_one_before() {
        for version in ["1", "2", "3"] {
            let mut text = serde_json::to_value(table(&[("format-version", version)]).unwrap()).unwrap();
            text["last-updated-ms"] = 4_102_444_800_000_i64.into();
            let ahead: TableMetadata = serde_json::from_value(text).unwrap();
            let set = TableUpdate::SetProperties { updates: HashMap::from([("a".to_owned(), "1".to_owned())]) };
            let next = apply(&ahead, Some("file:///lake/t/metadata/0.json"), vec![set]).unwrap().metadata;
            assert_eq!((next.last_updated_ms(), next.snapshots().len()), (ahead.last_updated_ms(), 0));
            assert_eq!(next.last_sequence_number(), ahead.last_sequence_number());
            let read: TableMetadata = serde_json::from_slice(&serde_json::to_vec(&next).unwrap()).unwrap();
            assert_eq!(read, next);
        }
    }

    #[test]
    fn a_first_snapshot_that_was_overtaken_is_a_conflict() {
        let add = |id, sequence| {
            let snapshot = Snapshot::builder()
                .with_snapshot_id(id)
                .with_sequence_number(sequence)
                .with_timestamp_ms(4_102_444_800_000)
                .with_manifest_list("file:///lake/t/metadata/l.avro")
                .with_summary(Summary { operation: Operation::Append, additional_properties: HashMap::new() })
                .build();
            TableUpdate::AddSnapshot { snapshot }
        };
        let table = apply(&table(&[]).unwrap(), None, vec![add(1, 1), add(2, 2)]).unwrap().metadata;
        assert!(matches!(apply(&table, None, vec![add(3, 1)]), Err(Misfit::Conflict(_))));
        // No try of this one can succeed.
        assert!(matches!(apply(&table, None, vec![add(3, 4), add(4, 3)]), Err(Misfit::Invalid(_))));
    }

    #[test]
    fn a_staged_table_is_created_by_its_updates() {
        let updates = vec![
            TableUpdate::AssignUuid { uuid: Uuid::from_u128(9) },
            TableUpdate::UpgradeFormatVersion { format_version: FormatVersion::V3 },
            TableUpdate::AddSchema { schema: schema() },
            TableUpdate::SetCurrentSchema { schema_id: -1 },
            TableUpdate::AddSpec { spec: UnboundPartitionSpec::builder().build() },
            TableUpdate::SetDefaultSpec { spec_id: -1 },
            TableUpdate::AddSortOrder { sort_order: SortOrder::unsorted_order() },
            TableUpdate::SetDefaultSortOrder { sort_order_id: -1 },
            TableUpdate::SetLocation { location: "file:///lake/x".to_owned() },
        ];
        let made = create_by_updates(updates, "file:///lake/y".to_owned(), Uuid::from_u128(1)).unwrap();
        assert_eq!((made.uuid(), made.location()), (Uuid::from_u128(9), "file:///lake/x"));
        assert_eq!(made.format_version(), FormatVersion::V3);
        let swapped = [(2, "a"), (1, "b")]
            .map(|(id, name)| NestedField::required(id, name, Type::Primitive(PrimitiveType::Long)).into());
        let swapped = TableUpdate::AddSchema { schema: Schema::builder().with_fields(swapped).build().unwrap() };
        let refused = create_by_updates(vec![swapped], "file:///lake/y".to_owned(), Uuid::from_u128(1));
        assert!(matches!(refused, Err(Misfit::Invalid(words)) if words.contains("stage")));
        let none = create_by_updates(Vec::new(), "file:///lake/y".to_owned(), Uuid::from_u128(1));
        assert!(matches!(none, Err(Misfit::Invalid(words)) if words.contains("add-schema")));
    }
}
