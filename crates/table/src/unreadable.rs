//! Why does JSON of Iceberg not decode? The crate `iceberg` tries several forms and says only that none fits.

use serde_json::Value;

use crate::json::is_newer;

const TYPES: &str = "boolean, int, long, float, double, decimal(P,S), date, time, timestamp, timestamptz, timestamp_ns, \
                     timestamptz_ns, string, uuid, fixed[L], binary, variant, unknown, geometry(CRS), geography(CRS, EDGES), \
                     struct, list, map";

/// The error, in words for who wrote the JSON.
#[must_use]
pub fn explained(json: &[u8], error: &serde_json::Error) -> String {
    let said = error.to_string();
    if !said.contains("untagged enum") {
        return said;
    }
    let found = serde_json::from_slice(json).ok().and_then(|value| unknown_type(&value));
    match found {
        Some((column, found)) => format!("the column {column:?} has the type {found:?}; known here are {TYPES}"),
        None => format!(
            "{said}: perhaps a field is missing, is of another type, or is given twice, or more than 64 types of shapes are new to this server"
        ),
    }
}

/// A column, and its type that is unknown.
fn unknown_type(value: &Value) -> Option<(String, String)> {
    match value {
        Value::Array(items) => items.iter().find_map(unknown_type),
        Value::Object(fields) => {
            let name = || fields.get("name").and_then(Value::as_str).unwrap_or("(element)").to_owned();
            // A column has a name, a list an element, a map a key and a value.
            let types = match (fields.get("type"), fields.contains_key("required"), fields.contains_key("name")) {
                (Some(given), true, true) => vec![given],
                _ => ["element", "key", "value"].iter().filter_map(|part| fields.get(*part)).collect(),
            };
            let is_type = fields.contains_key("required")
                || ["element-id", "key-id", "value-id"].iter().any(|id| fields.contains_key(*id));
            let unknown = types.into_iter().filter_map(Value::as_str).find(|given| is_type && !is_known(given));
            match unknown {
                Some(unknown) => Some((name(), unknown.to_owned())),
                None => fields.values().find_map(unknown_type),
            }
        }
        _ => None,
    }
}

fn is_known(given: &str) -> bool {
    let of = |kind: &str, end: &str| given.starts_with(kind) && given.ends_with(end);
    TYPES.split(", ").any(|known| known == given) || of("decimal(", ")") || of("fixed[", "]") || is_newer(given)
}

#[cfg(test)]
mod tests {
    use iceberg::spec::Schema;
    use serde_json::json;

    use super::*;

    fn told(schema: &Value) -> String {
        let text = schema.to_string();
        explained(text.as_bytes(), &serde_json::from_str::<Schema>(&text).unwrap_err())
    }

    #[test]
    fn an_unknown_type_is_named() {
        let schema = |of: Value| {
            json!({"type": "struct", "schema-id": 0, "fields": [
                {"id": 1, "name": "a", "required": false, "type": "decimal(9, 2)"},
                {"id": 2, "name": "b", "required": false, "type": of},
            ]})
        };
        let plain = told(&schema(json!("int8")));
        assert!(plain.starts_with("the column \"b\" has the type \"int8\"; known here are boolean, "), "{plain}");
        let list = json!({"type": "list", "element-id": 3, "element-required": false, "element": "integer"});
        assert!(told(&schema(list)).contains("the type \"integer\""));
        let unfinished = json!({"type": "list", "element-id": 3, "element": "int"});
        assert!(told(&schema(unfinished)).contains("perhaps a field is missing"));
    }
}
