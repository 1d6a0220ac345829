//! The types of the records in an Avro file.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::Fault;

/// Types within types, also through their names. Those of Iceberg are seven deep.
const MOST_DEPTH: usize = 32;
const TOO_DEEP: &str = "the schema is too deep";
/// Types in a type: a type that has a name counts wherever it is named. Each field of a partitioning is three.
const MOST_TYPES: usize = 50_000;
/// Types in a type whose values take no bytes: reading a record is work for a few times as many steps as it has bytes.
const MOST_EMPTY: usize = 16;

/// A type. What its values mean does not matter here, so logical types are the types that carry them.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Null,
    Boolean,
    Long,
    /// Its value is its place among the symbols.
    Enum,
    /// A number of bytes that is always the same. Also floating-point numbers.
    Fixed(usize),
    Bytes,
    String,
    Array(Arc<Kind>),
    Map(Arc<Kind>),
    Union(Arc<[Kind]>),
    Record(Arc<Record>),
}

impl Kind {
    /// The record type in this type: if it is one, or an array of, or a union with one.
    pub(super) fn record(&self) -> Option<Arc<Record>> {
        match self {
            Self::Record(record) => Some(Arc::clone(record)),
            Self::Array(items) => items.record(),
            Self::Union(kinds) => kinds.iter().find_map(Self::record),
            _ => None,
        }
    }
}

/// How large a type is, with all that it names.
#[derive(Clone, Copy)]
struct Extent {
    depth: usize,
    types: usize,
    empty: usize,
}

impl Extent {
    const ONE: Self = Self { depth: 1, types: 1, empty: 0 };
    const EMPTY: Self = Self { empty: 1, ..Self::ONE };

    /// Of a type that consists of these.
    fn around(parts: impl Iterator<Item = Self>) -> Result<Self, Fault> {
        let all = parts.fold(Self::ONE, |all, part| Self {
            depth: all.depth.max(1 + part.depth),
            types: all.types + part.types,
            empty: all.empty + part.empty,
        });
        if all.depth > MOST_DEPTH {
            return Err(TOO_DEEP.into());
        }
        if all.types > MOST_TYPES || all.empty > MOST_EMPTY {
            return Err(format!(
                "the schema has a type of {} types, {} of them without content; at most {MOST_TYPES} and {MOST_EMPTY} are read",
                all.types, all.empty
            ));
        }
        Ok(all)
    }
}

/// A type and its extent.
type Measured = (Kind, Extent);

/// A record type.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) fields: Vec<Field>,
}

/// A field of a record.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: String,
    pub(super) id: Option<i64>,
    pub(super) kind: Kind,
}

/// Schemas that a thread keeps: all files of one writer have the same.
const KEPT: usize = 16;
/// The most bytes of a schema: parsed, one takes many times as much. That of a partitioning of 1,000 fields has 0.1 MB.
const LONGEST: usize = 4 << 20;
/// Longer ones are not kept.
const LONGEST_KEPT: usize = 64 << 10;

/// A schema, and what it describes.
type Parsed = (Box<[u8]>, Arc<Record>);

thread_local! {
    /// The last used at the end.
    static RECENT: RefCell<Vec<Parsed>> = const { RefCell::new(Vec::new()) };
}

/// The record type that a schema describes.
pub(super) fn parsed(text: &[u8]) -> Result<Arc<Record>, Fault> {
    RECENT.with_borrow_mut(|recent| {
        let kept = match recent.iter().rposition(|(kept, _)| **kept == *text) {
            Some(at) => recent.remove(at),
            None => (text.into(), parse(text)?),
        };
        let record = Arc::clone(&kept.1);
        if text.len() <= LONGEST_KEPT {
            recent.push(kept);
            if recent.len() > KEPT {
                recent.remove(0);
            }
        }
        Ok(record)
    })
}

fn parse(text: &[u8]) -> Result<Arc<Record>, Fault> {
    if text.len() > LONGEST {
        return Err(format!("the schema has {} bytes; at most {LONGEST} are read", text.len()));
    }
    let value = serde_json::from_slice(text).map_err(|e| format!("the schema is no JSON: {e}"))?;
    match Parser::default().kind(&value, 0)?.0 {
        Kind::Record(record) => Ok(record),
        _ => Err("it does not hold records".into()),
    }
}

/// Named types, by the last part of their names. A type may refer to those that are complete, so no type contains
/// itself.
#[derive(Default)]
struct Parser {
    named: BTreeMap<String, Measured>,
}

impl Parser {
    fn kind(&mut self, value: &Value, depth: usize) -> Result<Measured, Fault> {
        if depth > MOST_DEPTH {
            return Err(TOO_DEEP.into());
        }
        match value {
            Value::String(name) => self.by_name(name),
            Value::Array(choices) => {
                let kinds = choices.iter().map(|choice| self.kind(choice, depth + 1)).collect::<Result<Vec<_>, _>>()?;
                // Fields are found by the one record type in a field.
                if kinds.iter().filter_map(|(kind, _)| kind.record()).count() > 1 {
                    return Err("the schema has a union of several records".into());
                }
                // Which it is takes a byte, so null is not empty there.
                let extents = kinds.iter().filter(|(kind, _)| !matches!(kind, Kind::Null)).map(|(_, extent)| *extent);
                let extent = Extent::around(extents)?;
                Ok((Kind::Union(kinds.into_iter().map(|(kind, _)| kind).collect()), extent))
            }
            Value::Object(object) => match &object.get("type") {
                Some(Value::String(name)) => self.complex(name, value, depth),
                Some(inner) => self.kind(inner, depth + 1),
                None => Err("a type in the schema has no type".into()),
            },
            _ => Err("a type in the schema is no type".into()),
        }
    }

    fn by_name(&self, name: &str) -> Result<Measured, Fault> {
        let kind = match name {
            "null" => return Ok((Kind::Null, Extent::EMPTY)),
            "boolean" => Kind::Boolean,
            "int" | "long" => Kind::Long,
            "float" => Kind::Fixed(4),
            "double" => Kind::Fixed(8),
            "bytes" => Kind::Bytes,
            "string" => Kind::String,
            other => {
                let named = self.named.get(last(other)).cloned();
                return named.ok_or_else(|| format!("the schema has no type {other:?}"));
            }
        };
        Ok((kind, Extent::ONE))
    }

    fn complex(&mut self, name: &str, value: &Value, depth: usize) -> Result<Measured, Fault> {
        let inner = |key: &str| value.get(key).ok_or_else(|| format!("a type in the schema has no {key}"));
        let kind = match name {
            "array" | "map" => {
                let (kind, extent) = self.kind(inner(if name == "map" { "values" } else { "items" })?, depth + 1)?;
                let kind = Arc::new(kind);
                let kind = if name == "map" { Kind::Map(kind) } else { Kind::Array(kind) };
                return Ok((kind, Extent::around([extent].into_iter())?));
            }
            "enum" => (Kind::Enum, Extent::ONE),
            "fixed" => {
                let size = inner("size")?.as_u64().and_then(|size| usize::try_from(size).ok());
                let size = size.ok_or("the schema has a fixed type without a size")?;
                (Kind::Fixed(size), if size == 0 { Extent::EMPTY } else { Extent::ONE })
            }
            "record" => {
                let fields = inner("fields")?.as_array().ok_or("the schema has a record without fields")?;
                let fields = fields.iter().map(|field| self.field(field, depth + 1)).collect::<Result<Vec<_>, _>>()?;
                let extent = Extent::around(fields.iter().map(|(_, extent)| *extent))?;
                // Data files of tables without partitions have one.
                let extent = if fields.is_empty() { Extent::EMPTY } else { extent };
                let fields = fields.into_iter().map(|(field, _)| field).collect();
                (Kind::Record(Arc::new(Record { fields })), extent)
            }
            other => return self.by_name(other),
        };
        let name = inner("name")?.as_str().ok_or("a name in the schema is no text")?;
        if self.named.insert(last(name).to_owned(), kind.clone()).is_some() {
            return Err(format!("the schema has two types {name:?}"));
        }
        Ok(kind)
    }

    fn field(&mut self, field: &Value, depth: usize) -> Result<(Field, Extent), Fault> {
        let name = field.get("name").and_then(Value::as_str).ok_or("the schema has a field without a name")?;
        let kind = field.get("type").ok_or_else(|| format!("field {name:?} has no type"))?;
        let id = field.get("field-id").and_then(Value::as_i64);
        let (kind, extent) = self.kind(kind, depth)?;
        Ok((Field { name: name.to_owned(), id, kind }, extent))
    }
}

fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use super::*;

    /// Records, each with this many fields of the one before; the first of fields of type `leaf`.
    fn nested(levels: usize, fields: usize, leaf: &str) -> String {
        let record = |level: usize| {
            let inner = if level == 0 { leaf.to_owned() } else { format!("r{}", level - 1) };
            let fields = (0..fields).map(|field| format!(r#"{{"name":"a{field}","type":"{inner}"}}"#));
            let fields = fields.collect::<Vec<_>>().join(",");
            format!(r#"{{"name":"f{level}","type":{{"type":"record","name":"r{level}","fields":[{fields}]}}}}"#)
        };
        let records = (0..levels).map(record).collect::<Vec<_>>().join(",");
        format!(r#"{{"type":"record","name":"all","fields":[{records}]}}"#)
    }

    /// Each takes a few KB; reading one record would take hours, all memory, or more of the stack than there is.
    #[test]
    fn types_that_name_each_other_are_counted_wherever_they_are_named() {
        for (levels, fields, leaf) in
            [(60, 2, "null"), (25, 2, "long"), (20_000, 1, "long"), (5, 2, "null"), (40, 1, "long")]
        {
            let error = parse(nested(levels, fields, leaf).as_bytes()).unwrap_err();
            assert!(error.contains("too deep") || error.contains("types"), "{error}");
        }
        for (levels, fields, leaf) in [(12, 2, "long"), (25, 1, "long"), (3, 2, "null"), (1, 10_000, "string")] {
            parse(nested(levels, fields, leaf).as_bytes()).unwrap();
        }
    }

    #[test]
    fn a_schema_has_a_bounded_length() {
        let plain = nested(1, 1, "long");
        let padded = |length: usize| plain.clone() + &" ".repeat(length - plain.len());
        parse(padded(LONGEST).as_bytes()).unwrap();
        assert!(parse(padded(LONGEST + 1).as_bytes()).unwrap_err().contains("at most"));
    }

    #[test]
    fn a_union_has_one_record_at_most() {
        let record = |name: &str| format!(r#"{{"type":"record","name":"{name}","fields":[]}}"#);
        let of = |kinds: &str| format!(r#"{{"type":"record","name":"r","fields":[{{"name":"a","type":[{kinds}]}}]}}"#);
        parse(of(&format!(r#""null",{}"#, record("a"))).as_bytes()).unwrap();
        let array = |items: String| format!(r#"{{"type":"array","items":{items}}}"#);
        for two in [[record("a"), record("b")], [array(record("a")), record("b")], [record("a"), array(record("b"))]] {
            let error = parse(of(&two.join(",")).as_bytes()).unwrap_err();
            assert!(error.contains("several records"), "{error}");
        }
    }
}
