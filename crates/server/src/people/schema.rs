//! The columns of a table or a view.

use std::collections::BTreeSet;

use glidepath_table::commit::own_transform;
use glidepath_table::json::type_name as primitive_name;
use iceberg::spec::{NestedField, PartitionSpec, Schema, SortOrder, Type};
use maud::{Markup, html};

use super::text::{grouped, shortened};

/// The most columns that are shown.
const MOST: usize = 200;

/// A column, and how deep it is within others.
struct Column<'a> {
    field: &'a NestedField,
    depth: usize,
}

/// The columns with those within them, each before what it contains; at most `MOST + 1`.
fn columns(schema: &Schema) -> Vec<Column<'_>> {
    let mut found = Vec::new();
    let top = schema.as_struct().fields();
    let mut open: Vec<Column<'_>> = top.iter().rev().map(|field| Column { field, depth: 0 }).collect();
    while let Some(column) = open.pop() {
        let depth = column.depth + 1;
        let mut inner = |field| open.push(Column { field, depth });
        match column.field.field_type.as_ref() {
            Type::Primitive(_) => {}
            Type::Struct(fields) => fields.fields().iter().rev().for_each(|field| inner(field)),
            Type::List(list) => inner(&list.element_field),
            Type::Map(map) => {
                inner(&map.value_field);
                inner(&map.key_field);
            }
        }
        found.push(column);
        if found.len() > MOST {
            break;
        }
    }
    found
}

fn type_name(of: &Type) -> String {
    match of {
        Type::Primitive(primitive) => primitive_name(primitive),
        Type::Struct(_) => "struct".to_owned(),
        Type::List(_) => "list".to_owned(),
        Type::Map(_) => "map".to_owned(),
    }
}

/// The columns as a table.
pub(super) fn table(schema: &Schema) -> Markup {
    let columns = columns(schema);
    let keys: BTreeSet<i32> = schema.identifier_field_ids().collect();
    let has_words = columns.iter().any(|column| column.field.doc.is_some());
    html! {
        @if columns.is_empty() { p.none { "No columns." } }
        @else {
            div.scroll { table.schema {
                thead { tr {
                    th.number { "id" } th { "column" } th { "type" } th {} @if has_words { th { "description" } }
                } }
                tbody {
                    @for Column { field, depth } in columns.iter().take(MOST) {
                        tr {
                            td.number { (field.id) }
                            td class={ "depth" ((*depth).min(6)) } { bdi { (shortened(&field.name, 100)) } }
                            td { code { (type_name(&field.field_type)) } }
                            td.quiet {
                                @if field.required { "required" }
                                @if keys.contains(&field.id) { " key" }
                            }
                            @if has_words { td.words { (shortened(field.doc.as_deref().unwrap_or_default(), 200)) } }
                        }
                    }
                }
            } }
            @if columns.len() > MOST { p.none { "The first " (grouped(MOST as u64)) " columns; there are more." } }
        }
    }
}

fn name_of(schema: &Schema, id: i32) -> String {
    schema.name_by_field_id(id).map_or_else(|| format!("column {id}"), |name| shortened(name, 60))
}

/// How the table is partitioned.
pub(super) fn partitioning(spec: &PartitionSpec, schema: &Schema) -> String {
    let one = |field: &iceberg::spec::PartitionField| {
        format!("{}({})", own_transform(field.transform), name_of(schema, field.source_id))
    };
    let all: Vec<_> = spec.fields().iter().take(20).map(one).collect();
    if all.is_empty() { "not partitioned".to_owned() } else { all.join(", ") }
}

/// How the table is sorted.
pub(super) fn order(order: &SortOrder, schema: &Schema) -> String {
    let one = |field: &iceberg::spec::SortField| {
        let name = name_of(schema, field.source_id);
        let what = match field.transform {
            iceberg::spec::Transform::Identity => name,
            transform => format!("{transform}({name})"),
        };
        format!("{what} {}, nulls {}", field.direction, field.null_order)
    };
    let all: Vec<_> = order.fields.iter().take(20).map(one).collect();
    if all.is_empty() { "not sorted".to_owned() } else { all.join("; ") }
}
