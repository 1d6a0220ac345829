//! Default values of columns: does the crate `iceberg` write them as it read them?
//!
//! It drops those that it cannot read (all of timestamps with nanoseconds, and wrong ones), writes others than it read
//! (of structs, of decimals with too many digits), and panics for some (times before 1970 with a fraction of a second).
//! Rows that were written before their column was added would then be read with other values, or not at all. So
//! requests that have one are refused, and a table whose file has one is not committed to.

use std::panic::{AssertUnwindSafe, catch_unwind};

use iceberg::spec::{Literal, PrimitiveType, Type};
use serde_json::{Map, Value};

use crate::json::newer;

/// What the JSON has wherever there is a default value, unless a backslash hides it.
pub(crate) const SIGN: &str = "-default\"";

const KEYS: [&str; 2] = ["initial-default", "write-default"];

/// Whether a commit would keep all default values of a metadata file. One that is no JSON has none.
#[must_use]
pub fn are_kept(file: &[u8]) -> bool {
    if [SIGN, "\\u"].iter().all(|sign| memchr::memmem::find(file, sign.as_bytes()).is_none()) {
        return true;
    }
    let Ok(mut value) = serde_json::from_slice(file) else { return true };
    crate::json::stand_in(&mut value);
    first_lost(&mut value).is_none()
}

/// What is wrong with the first default value that would not be kept, in words. Stand-ins must be in place.
pub(crate) fn first_lost(value: &mut Value) -> Option<String> {
    let mut found = None;
    each_column(value, &mut |column| {
        if found.is_none() {
            found = lost(column).first().map(|key| words(column, key));
        }
    });
    found
}

/// Takes the default values away that would not be kept, and that the crate may panic at. Returns whether there were
/// any.
pub(crate) fn without_lost(value: &mut Value) -> bool {
    let mut any = false;
    each_column(value, &mut |column| {
        for key in lost(column) {
            column.remove(key);
            any = true;
        }
    });
    any
}

fn words(column: &Map<String, Value>, key: &str) -> String {
    let shown = |key: &str| column.get(key).unwrap_or(&Value::Null).to_string();
    format!(
        "the {key} {} of the column {} of the type {}: it is not a value of that type, or this server cannot keep it as it \
         is (timestamps with nanoseconds, and those before 1970 with a fraction of a second). Allowed: no default, or one \
         in the form of the specification, such as \"2024-05-01T12:00:00.000000+00:00\" or, for decimal(5,2), \"1.20\"",
        shown(key),
        shown("name"),
        column.get("type").map_or_else(|| "null".to_owned(), own_type),
    )
}

/// A type as its client gave it, though a stand-in is in its place.
fn own_type(of: &Value) -> String {
    let own = of.as_str().and_then(crate::json::stood_for).map(Value::from);
    own.unwrap_or_else(|| of.clone()).to_string()
}

fn each_column(value: &mut Value, visit: &mut impl FnMut(&mut Map<String, Value>)) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| each_column(item, visit)),
        Value::Object(fields) => {
            if fields.get("type").is_some_and(|kind| kind == "struct")
                && let Some(columns) = fields.get_mut("fields").and_then(Value::as_array_mut)
            {
                columns.iter_mut().filter_map(Value::as_object_mut).for_each(&mut *visit);
            }
            fields.values_mut().for_each(|field| each_column(field, visit));
        }
        _ => {}
    }
}

/// The keys of a column's default values that would not be kept.
fn lost(column: &Map<String, Value>) -> Vec<&'static str> {
    let given = |key: &&str| column.get(*key).is_some_and(|value| !value.is_null());
    let keys: Vec<&'static str> = KEYS.into_iter().filter(given).collect();
    if keys.is_empty() {
        return keys;
    }
    let of = column.get("type").cloned().and_then(|of| serde_json::from_value::<Type>(of).ok());
    keys.into_iter().filter(|key| !of.as_ref().is_some_and(|of| is_kept(of, &column[*key]))).collect()
}

fn is_kept(of: &Type, given: &Value) -> bool {
    let Type::Primitive(primitive) = of else { return false };
    if newer(primitive).is_some() {
        return false;
    }
    let again = catch_unwind(AssertUnwindSafe(|| {
        let literal = Literal::try_from_json(given.clone(), of).ok().flatten()?;
        literal.try_into_json(of).ok()
    }));
    again.ok().flatten().is_some_and(|again| is_same(primitive, given, &again))
}

fn is_same(of: &PrimitiveType, given: &Value, again: &Value) -> bool {
    match (given, again) {
        (Value::Number(given), Value::Number(again)) => match of {
            PrimitiveType::Float => given.as_f64().map(|it| it as f32) == again.as_f64().map(|it| it as f32),
            PrimitiveType::Double => given.as_f64() == again.as_f64(),
            _ => given == again,
        },
        (Value::String(given), Value::String(again)) => match of {
            PrimitiveType::Decimal { precision, scale } => has_digits(given, *precision, *scale) && given == again,
            PrimitiveType::Time | PrimitiveType::Timestamp | PrimitiveType::Timestamptz => {
                without_zeros(given) == without_zeros(again)
            }
            PrimitiveType::String => given == again,
            _ => given.eq_ignore_ascii_case(again),
        },
        _ => given == again,
    }
}

/// Whether a decimal has exactly the digits after the point that its type has, and not too many in all: other clients
/// refuse it otherwise.
fn has_digits(given: &str, precision: u32, scale: u32) -> bool {
    let digits = given.strip_prefix('-').unwrap_or(given);
    let (whole, part) = digits.split_once('.').unwrap_or((digits, ""));
    let significant = whole.trim_start_matches('0').len() + part.len();
    part.len() == scale as usize && significant <= precision as usize
}

/// A time without the zeros at the end of its fraction, and without an empty fraction.
fn without_zeros(time: &str) -> String {
    let zone = time.find('T').and_then(|at| time[at..].find(['+', '-', 'Z']).map(|sign| at + sign));
    let (time, zone) = time.split_at(zone.unwrap_or(time.len()));
    let time = match time.rsplit_once('.') {
        Some((whole, fraction)) => format!("{whole}.{}", fraction.trim_end_matches('0')),
        None => time.to_owned(),
    };
    format!("{}{zone}", time.trim_end_matches('.'))
}

#[cfg(test)]
mod tests {
    use iceberg::spec::Schema;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn schema(of: &Value, default: &Value) -> Value {
        let column = json!({"id": 1, "name": "a", "required": false, "type": of, "initial-default": default});
        json!({"type": "struct", "schema-id": 0, "fields": [column]})
    }

    #[test]
    fn values_that_are_kept_are_taken() {
        for (of, default) in [
            ("boolean", json!(true)),
            ("int", json!(-5)),
            ("long", json!(i64::MIN)),
            ("float", json!(1.1)),
            ("float", json!(2)),
            ("double", json!(0.1)),
            ("decimal(5,2)", json!("1.20")),
            ("decimal(5,2)", json!("-0.05")),
            ("decimal(9,0)", json!("120")),
            ("date", json!("2024-02-29")),
            ("time", json!("10:00:00.5")),
            ("timestamp", json!("2024-05-01T12:00:00")),
            ("timestamp", json!("2024-05-01T12:00:00.000100")),
            ("timestamptz", json!("2024-05-01T12:00:00.120000+00:00")),
            ("string", json!("\u{e4} null")),
            ("uuid", json!("F79C3E09-677C-4BBD-A479-3F349CB785E7")),
            ("fixed[2]", json!("00fF")),
            ("binary", json!("")),
        ] {
            let text = schema(&json!(of), &default).to_string();
            let decoded: Schema = crate::json::decode(text.as_bytes()).unwrap_or_else(|error| panic!("{of}: {error}"));
            let column = serde_json::to_value(&decoded).unwrap()["fields"][0].take();
            assert!(!column["initial-default"].is_null(), "{of} {default}");
            assert!(are_kept(text.as_bytes()));
        }
    }

    #[test]
    fn values_that_would_be_lost_or_changed_are_refused() {
        let list = json!({"type": "list", "element-id": 9, "element": "long", "element-required": false});
        let inner = json!({"type": "struct", "fields": [{"id": 9, "name": "x", "type": "long", "required": false}]});
        for (of, default) in [
            (json!("long"), json!("oops")),
            (json!("int"), json!(5_000_000_000_i64)),
            (json!("float"), json!(3.5e38)),
            (json!("date"), json!("2020-02-30")),
            (json!("time"), json!("23:59:60")),
            (json!("timestamptz"), json!("1969-12-31T23:59:59.999999+00:00")),
            (json!("timestamp_ns"), json!("2024-05-01T12:00:00.000000001")),
            (json!("decimal(5,2)"), json!("1.999")),
            (json!("decimal(5,2)"), json!("12345.67")),
            (json!("decimal(5,2)"), json!("NaN")),
            (json!("fixed[2]"), json!("00")),
            (json!("variant"), json!("1")),
            (list, json!([1])),
            (inner, json!({})),
        ] {
            let text = schema(&of, &default).to_string();
            let error = crate::json::decode::<Schema>(text.as_bytes()).unwrap_err().to_string();
            assert!(
                error.contains("initial-default") && error.contains("\"a\"") && error.contains(&of.to_string()),
                "{of}: {error}"
            );
            assert!(!are_kept(text.as_bytes()));
            assert!(!are_kept(text.replace("initial-default", "initial-defaul\\u0074").as_bytes()));
            // A file can be read, and is not committed to.
            let read: Schema = crate::json::decode_file(text.as_bytes()).unwrap();
            assert!(serde_json::to_value(&read).unwrap()["fields"][0]["initial-default"].is_null());
        }
    }

    proptest! {
        /// Whatever the value: it is refused, or written again with the same meaning, without a panic.
        #[test]
        fn no_text_panics(text in "[-0-9TZ:.+a-f]{0,30}", of in "(date|time|timestamp|timestamptz|decimal\\(9,2\\)|uuid|binary)") {
            let text = schema(&json!(of), &json!(text)).to_string();
            if let Ok(decoded) = crate::json::decode::<Schema>(text.as_bytes()) {
                let again = serde_json::to_vec(&decoded).unwrap();
                prop_assert!(are_kept(&again));
            }
        }
    }
}
