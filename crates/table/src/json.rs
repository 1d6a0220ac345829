//! JSON of Iceberg, with the types of format version 3 that the crate `iceberg` does not know: `variant`, `unknown`,
//! `geometry` and `geography`.
//!
//! A schema is kept and compared by this server, and never used to read data. So in memory a column of such a type has
//! a stand-in, a type `fixed` of a length that no table can have (Java's are below 2^31), and its own type again in all
//! JSON that is written. Requests and metadata files are decoded by [`decode`], and metadata is written through
//! [`restore`].

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use iceberg::spec::PrimitiveType;
use serde::de::{DeserializeOwned, Error as _};
use serde_json::Value;

use crate::defaults;

/// The length of the first stand-in, and the digits that all of them begin with.
const FIRST: u64 = 9_007_199_000_000;
const DIGITS: &str = "9007199";

/// The longest `fixed` that a table can have.
pub(crate) const LONGEST_FIXED: u64 = i32::MAX as u64;

/// The most types that a process can tell apart, the most that are new in one request, and the most bytes of each. A
/// metadata file may have any number: it has what many requests have brought.
const MOST: usize = 900_000;
const MOST_NEW: usize = 64;
const LONGEST: usize = 256;

/// Texts that JSON has in which a type may need a stand-in, or be written like one, or a default value be lost; a
/// backslash may hide them.
const SIGNS: [&str; 7] = ["\"variant\"", "\"unknown\"", "\"geometry", "\"geography", DIGITS, "\\u", defaults::SIGN];

/// How edges between points of a geography are drawn.
const EDGES: [&str; 5] = ["spherical", "vincenty", "thomas", "andoyer", "karney"];

/// A type that the crate does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Newer {
    /// Any value, with its type.
    Variant,
    /// Nulls only.
    Unknown,
    /// Shapes, on a plane or on a globe.
    Shape,
}

/// The types that have stand-ins; their places are what the stand-ins are told apart by.
#[derive(Default)]
struct Names {
    all: Vec<String>,
    places: BTreeMap<String, usize>,
}

static NAMES: Mutex<Names> = Mutex::new(Names { all: Vec::new(), places: BTreeMap::new() });

fn names() -> MutexGuard<'static, Names> {
    NAMES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The value in the JSON of a request.
///
/// # Errors
/// If it is something else, has a type that is not in Iceberg's specification, or too many that are new, or a default
/// value that would not be kept.
pub fn decode<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    decode_with(json, MOST_NEW, |value| match defaults::first_lost(value) {
        Some(words) => Err(serde_json::Error::custom(words)),
        None => Ok(false),
    })
}

/// The value in the JSON of a metadata file.
///
/// # Errors
/// As [`decode`], with any number of new types. Default values that would not be kept are left out
/// ([`are_kept`](crate::defaults::are_kept) tells).
pub fn decode_file<T: DeserializeOwned>(json: &[u8]) -> Result<T, serde_json::Error> {
    decode_with(json, MOST, |value| Ok(defaults::without_lost(value)))
}

/// `mend` returns whether it has changed anything.
fn decode_with<T: DeserializeOwned>(
    json: &[u8],
    most_new: usize,
    mend: impl FnOnce(&mut Value) -> Result<bool, serde_json::Error>,
) -> Result<T, serde_json::Error> {
    if !SIGNS.iter().any(|sign| memchr::memmem::find(json, sign.as_bytes()).is_some()) {
        return serde_json::from_slice(json);
    }
    let mut value = serde_json::from_slice(json)?;
    let has_stand_ins = stand_in_up_to(&mut value, most_new);
    match mend(&mut value)? || has_stand_ins {
        // As it came: numbers with places are decoded from the text only.
        false => serde_json::from_slice(json),
        true => serde_json::from_value(value),
    }
}

/// Puts stand-ins into all schemas of a metadata file.
pub(crate) fn stand_in(metadata: &mut Value) {
    stand_in_up_to(metadata, MOST);
}

/// The same for any value, with so many new types. Returns whether anything was changed. What is written like a
/// stand-in is made unreadable.
fn stand_in_up_to(value: &mut Value, most_new: usize) -> bool {
    let (mut replaced, mut left) = (false, most_new);
    replace(value, &mut |given| {
        let other = match length(given) {
            Some(length) if length > LONGEST_FIXED => Some(format!("{given}, which is too long")),
            _ => other(given, &mut left),
        };
        replaced |= other.is_some();
        other
    });
    replaced
}

/// The length of a type `fixed`, as the crate reads it.
fn length(given: &str) -> Option<u64> {
    given.trim_start_matches("fixed[").trim_end_matches(']').parse().ok()
}

/// Puts the types of the columns back for which others stand in these schemas: those of a metadata file.
pub fn restore(metadata: &mut Value) {
    let own = &mut stood_for;
    for part in ["schema", "schemas"] {
        if let Some(part) = metadata.get_mut(part) {
            replace(part, own);
        }
    }
}

/// The type as it is written in JSON.
#[must_use]
pub fn type_name(of: &PrimitiveType) -> String {
    match of {
        PrimitiveType::Fixed(length) => name(*length).unwrap_or_else(|| of.to_string()),
        _ => of.to_string(),
    }
}

/// What a type stands for, if it stands for another.
pub(crate) fn newer(of: &PrimitiveType) -> Option<Newer> {
    let PrimitiveType::Fixed(length) = of else { return None };
    match name(*length)?.as_str() {
        "variant" => Some(Newer::Variant),
        "unknown" => Some(Newer::Unknown),
        _ => Some(Newer::Shape),
    }
}

/// The type that this stands for; `None` if it is no stand-in.
pub(crate) fn stood_for(given: &str) -> Option<String> {
    name(length(given)?)
}

fn name(length: u64) -> Option<String> {
    let place = usize::try_from(length.checked_sub(FIRST)?).ok()?;
    names().all.get(place).cloned()
}

/// Whether this is one of the types with stand-ins, as Iceberg's library for Java reads them.
pub(crate) fn is_newer(given: &str) -> bool {
    let parameters = |kind: &str| {
        let rest = given.strip_prefix(kind)?.trim_start_matches(' ');
        if rest.is_empty() { Some(None) } else { rest.strip_prefix('(')?.strip_suffix(')').map(Some) }
    };
    let is_system = |text: &str| !text.trim_matches(' ').is_empty() && !text.contains(['(', ')', ',']);
    let is_geography = |text: &str| match text.rsplit_once(',') {
        Some((system, edges)) => is_system(system) && EDGES.contains(&edges.trim_matches(' ')),
        None => is_system(text),
    };
    given.len() <= LONGEST
        && !given.contains(|one: char| one.is_control() || (one.is_whitespace() && one != ' '))
        && (given == "variant"
            || given == "unknown"
            || parameters("geometry").is_some_and(|inner| inner.is_none_or(is_system))
            || parameters("geography").is_some_and(|inner| inner.is_none_or(is_geography)))
}

/// The stand-in of a type. `left`: how many may be new.
fn other(given: &str, left: &mut usize) -> Option<String> {
    if !is_newer(given) {
        return None;
    }
    let mut names = names();
    let place = match names.places.get(given) {
        Some(place) => *place,
        None if names.all.len() >= MOST || *left == 0 => return None,
        None => {
            *left -= 1;
            let place = names.all.len();
            names.all.push(given.to_owned());
            names.places.insert(given.to_owned(), place);
            place
        }
    };
    Some(format!("fixed[{}]", FIRST + place as u64))
}

/// Gives each type of a column, in all schemas of this value, another name, if `with` has one.
fn replace(value: &mut Value, with: &mut impl FnMut(&str) -> Option<String>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| replace(item, with)),
        Value::Object(fields) => {
            let is_schema = fields.get("type").is_some_and(|kind| kind == "struct");
            match fields.get_mut("fields").and_then(Value::as_array_mut) {
                Some(columns) if is_schema => {
                    for column in columns {
                        if let Some(of) = column.get_mut("type") {
                            replace_type(of, with);
                        }
                    }
                }
                _ => fields.values_mut().for_each(|field| replace(field, with)),
            }
        }
        _ => {}
    }
}

fn replace_type(of: &mut Value, with: &mut impl FnMut(&str) -> Option<String>) {
    match of {
        Value::String(given) => {
            if let Some(other) = with(given) {
                *given = other;
            }
        }
        Value::Object(parts) if parts.get("type").is_some_and(|kind| kind == "struct") => replace(of, with),
        Value::Object(parts) => {
            for part in ["element", "key", "value"] {
                if let Some(part) = parts.get_mut(part) {
                    replace_type(part, with);
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use iceberg::TableUpdate;
    use iceberg::spec::Schema;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn schema() -> Value {
        json!({"type": "struct", "schema-id": 0, "fields": [
            {"id": 1, "name": "fields", "required": false, "type": "variant", "doc": "unknown"},
            {"id": 2, "name": "type", "required": true, "type": "geometry(srid:3857)"},
            {"id": 3, "name": "variant", "required": false, "type": {
                "type": "list", "element-id": 4, "element-required": false, "element": {
                    "type": "map", "key-id": 5, "key": "string", "value-id": 6, "value-required": false, "value": {
                        "type": "struct", "fields": [
                            {"id": 7, "name": "geometry", "required": false, "type": "geography(OGC:CRS84, karney)"},
                            {"id": 8, "name": "f", "required": false, "type": "fixed[16]"},
                            {"id": 9, "name": "u", "required": false, "type": "unknown"}]}}}},
        ]})
    }

    #[test]
    fn types_of_version_3_come_back_as_they_were() {
        let decoded: Schema = decode(schema().to_string().as_bytes()).unwrap();
        let mut metadata = json!({"schemas": [serde_json::to_value(&decoded).unwrap()]});
        assert_ne!(metadata["schemas"][0], schema());
        restore(&mut metadata);
        assert_eq!(metadata["schemas"][0], schema());
        let kinds: Vec<_> = [1, 2, 7, 8, 9]
            .into_iter()
            .map(|id| newer(decoded.field_by_id(id).unwrap().field_type.as_primitive_type().unwrap()))
            .collect();
        let shape = Some(Newer::Shape);
        assert_eq!(kinds, [Some(Newer::Variant), shape, shape, None, Some(Newer::Unknown)]);
    }

    #[test]
    fn requests_have_them_too() {
        let update = json!({"action": "add-schema", "schema": schema(), "last-column-id": 9});
        let update: TableUpdate = decode(update.to_string().as_bytes()).unwrap();
        assert!(matches!(update, TableUpdate::AddSchema { .. }));
    }

    #[test]
    fn what_is_no_type_is_refused() {
        for wrong in [
            "Variant",
            "geometry(",
            "geometry)",
            "geography(a, b)",
            "geography(a, b, karney)",
            "variant(1)",
            "int8",
            "geometry()",
            "geometry( )",
            "geography(, karney)",
            "geometry\u{a0}(x)",
            "fixed[9007199000000]",
            "9007199000001",
        ] {
            let mut schema = schema();
            schema["fields"][0]["type"] = wrong.into();
            assert!(decode::<Schema>(schema.to_string().as_bytes()).is_err(), "{wrong}");
        }
        let long = format!("geometry({})", "x".repeat(LONGEST));
        assert!(!is_newer(&long));
    }

    #[test]
    fn a_file_has_any_number_of_types() {
        let column = |id: usize| json!({"id": id, "name": format!("c{id}"), "required": false, "type": format!("geometry(any:{id})")});
        let columns: Vec<Value> = (1..=3 * MOST_NEW).map(column).collect();
        let schema = json!({"type": "struct", "schema-id": 0, "fields": columns}).to_string();
        assert!(decode::<Schema>(schema.as_bytes()).is_err());
        assert!(decode_file::<Schema>(schema.as_bytes()).is_ok());
    }

    proptest! {
        #[test]
        fn any_text_is_decoded_or_refused(text in "(geometry|geography|variant|unknown|fixed)[ (),a-z\\[\\]0-9:]{0,20}") {
            let mut schema = schema();
            schema["fields"][0]["type"] = text.clone().into();
            if let Ok(decoded) = decode::<Schema>(schema.to_string().as_bytes()) {
                let mut metadata = json!({"schema": serde_json::to_value(&decoded).unwrap()});
                restore(&mut metadata);
                if is_newer(&text) {
                    prop_assert_eq!(&metadata["schema"]["fields"][0]["type"], &text);
                }
            }
        }
    }
}
