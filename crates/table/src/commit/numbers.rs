//! Is there an id for each schema, partition spec, sort order and version of a view that a commit adds?
//!
//! The crate adds one to the greatest id. After the greatest number comes a negative one, and all that follow get the
//! same: a commit would be acknowledged, and what it adds lost.

use iceberg::spec::{TableMetadata, ViewMetadata};
use iceberg::{TableUpdate, ViewUpdate};

use super::Misfit;

/// Refuses updates that add more than there are ids left.
pub(super) fn check(updates: &[TableUpdate], current: &TableMetadata) -> Result<(), Misfit> {
    let adding = |is_one: fn(&TableUpdate) -> bool| updates.iter().filter(|update| is_one(update)).count();
    let schemas = adding(|update| matches!(update, TableUpdate::AddSchema { .. }));
    let specs = adding(|update| matches!(update, TableUpdate::AddSpec { .. }));
    let orders = adding(|update| matches!(update, TableUpdate::AddSortOrder { .. }));
    let of_schemas = current.schemas_iter().map(|schema| schema.schema_id().into());
    let of_specs = current.partition_specs_iter().map(|spec| spec.spec_id().into());
    left(of_schemas, schemas, ("schema-id", i32::MAX.into()))?;
    left(of_specs, specs, ("spec-id", i32::MAX.into()))?;
    left(current.sort_orders_iter().map(|order| order.order_id), orders, ("order-id", i64::MAX))
}

/// The same for a view.
///
/// # Errors
/// [`Misfit::Invalid`]: the kind of ids that are used up.
pub fn check_view_ids(updates: &[ViewUpdate], current: &ViewMetadata) -> Result<(), Misfit> {
    let adding = |is_one: fn(&ViewUpdate) -> bool| updates.iter().filter(|update| is_one(update)).count();
    let schemas = adding(|update| matches!(update, ViewUpdate::AddSchema { .. }));
    let versions = adding(|update| matches!(update, ViewUpdate::AddViewVersion { .. }));
    let of_schemas = current.schemas_iter().map(|schema| schema.schema_id().into());
    let of_versions = current.versions().map(|version| version.version_id().into());
    left(of_schemas, schemas, ("schema-id", i32::MAX.into()))?;
    left(of_versions, versions, ("version-id", i32::MAX.into()))
}

fn left(used: impl Iterator<Item = i64>, added: usize, (what, greatest): (&'static str, i64)) -> Result<(), Misfit> {
    let last = used.max().unwrap_or(0);
    let left = u64::try_from(greatest.saturating_sub(last)).unwrap_or(0);
    if added as u64 <= left {
        return Ok(());
    }
    let words = format!(
        "the metadata has the {what} {last}, and the greatest is {greatest}: it is not possible to add {added}; create the \
         table or view anew, with small ids"
    );
    Err(Misfit::Invalid(words))
}

#[cfg(test)]
mod tests {
    use iceberg::spec::{Schema, ViewVersion};
    use serde_json::json;

    use super::super::tests::table;
    use super::*;

    /// A table whose last schema has this id.
    fn with_schema(id: i32) -> TableMetadata {
        let mut json = serde_json::to_value(table(&[]).unwrap()).unwrap();
        json["schemas"][0]["schema-id"] = id.into();
        json["current-schema-id"] = id.into();
        serde_json::from_value(json).unwrap()
    }

    fn version(id: i32) -> serde_json::Value {
        let sql = json!([{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}]);
        json!({"version-id": id, "timestamp-ms": 1, "schema-id": 0, "summary": {}, "default-namespace": ["n"],
            "representations": sql})
    }

    #[test]
    fn a_view_that_has_the_greatest_ids_gets_no_more() {
        let add_version = || {
            let view_version: ViewVersion = serde_json::from_value(version(7)).unwrap();
            ViewUpdate::AddViewVersion { view_version }
        };
        let add_schema = || ViewUpdate::AddSchema { schema: Schema::builder().build().unwrap(), last_column_id: None };
        for (schema, last, updates, fits) in [
            (0, i32::MAX, vec![add_version()], false),
            (0, i32::MAX, vec![add_schema()], true),
            (0, i32::MAX - 1, vec![add_version()], true),
            (0, i32::MAX - 1, vec![add_version(), add_version()], false),
            (i32::MAX, 1, vec![add_schema()], false),
            (i32::MAX, 1, vec![add_version()], true),
        ] {
            let mut of_schema = version(last);
            of_schema["schema-id"] = schema.into();
            let view = json!({"format-version": 1, "view-uuid": "fa6506c3-7681-40c8-86dc-e36561f83385", "location": "s3://b/v",
                "current-version-id": last, "versions": [of_schema], "properties": {},
                "version-log": [{"version-id": last, "timestamp-ms": 1}],
                "schemas": [{"type": "struct", "schema-id": schema, "fields": []}]});
            let view: ViewMetadata = serde_json::from_value(view).unwrap();
            assert_eq!(check_view_ids(&updates, &view).is_ok(), fits, "{schema} {last} {updates:?}");
        }
    }

    #[test]
    fn what_gets_no_id_is_refused() {
        let add = || TableUpdate::AddSchema { schema: Schema::builder().build().unwrap() };
        for (last, added, fits) in [
            (i32::MAX, 0, true),
            (i32::MAX, 1, false),
            (i32::MAX - 1, 1, true),
            (i32::MAX - 1, 2, false),
            (0, 3, true),
            (-5, 1, true),
        ] {
            let updates: Vec<_> = std::iter::repeat_with(add).take(added).collect();
            let told = super::super::apply(&with_schema(last), None, updates);
            assert_eq!(matches!(&told, Err(Misfit::Invalid(words)) if words.contains("schema-id")), !fits, "{told:?}");
        }
    }
}
