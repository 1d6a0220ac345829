//! The types of the records in an Avro file.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::Fault;

/// Types within types. Those of Iceberg are seven deep.
const MOST_DEPTH: usize = 32;

/// A type. What its values mean does not matter here, so logical types are the types that carry them.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    Null,
    Boolean,
    /// Also enums: an enum's value is its place among the symbols.
    Long,
    /// A number of bytes that is always the same. Also floating-point numbers.
    Fixed(usize),
    Bytes,
    String,
    Array(Arc<Kind>),
    Map(Arc<Kind>),
    Union(Arc<[Kind]>),
    Record(Arc<Record>),
}

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
    let value = serde_json::from_slice(text).map_err(|e| format!("the schema is no JSON: {e}"))?;
    match Parser::default().kind(&value, 0)? {
        Kind::Record(record) => Ok(record),
        _ => Err("it does not hold records".into()),
    }
}

/// Named types, by the last part of their names. A type may refer to those that are complete, so no type contains itself.
#[derive(Default)]
struct Parser {
    named: BTreeMap<String, Kind>,
}

impl Parser {
    fn kind(&mut self, value: &Value, depth: usize) -> Result<Kind, Fault> {
        if depth > MOST_DEPTH {
            return Err("the schema is too deep".into());
        }
        match value {
            Value::String(name) => self.by_name(name),
            Value::Array(choices) => {
                let kinds = choices.iter().map(|choice| self.kind(choice, depth + 1)).collect::<Result<_, _>>()?;
                Ok(Kind::Union(kinds))
            }
            Value::Object(object) => match &object.get("type") {
                Some(Value::String(name)) => self.complex(name, value, depth),
                Some(inner) => self.kind(inner, depth + 1),
                None => Err("a type in the schema has no type".into()),
            },
            _ => Err("a type in the schema is no type".into()),
        }
    }

    fn by_name(&self, name: &str) -> Result<Kind, Fault> {
        Ok(match name {
            "null" => Kind::Null,
            "boolean" => Kind::Boolean,
            "int" | "long" => Kind::Long,
            "float" => Kind::Fixed(4),
            "double" => Kind::Fixed(8),
            "bytes" => Kind::Bytes,
            "string" => Kind::String,
            other => self.named.get(last(other)).cloned().ok_or_else(|| format!("the schema has no type {other:?}"))?,
        })
    }

    fn complex(&mut self, name: &str, value: &Value, depth: usize) -> Result<Kind, Fault> {
        let inner = |key: &str| value.get(key).ok_or_else(|| format!("a type in the schema has no {key}"));
        let kind = match name {
            "array" => return Ok(Kind::Array(Arc::new(self.kind(inner("items")?, depth + 1)?))),
            "map" => return Ok(Kind::Map(Arc::new(self.kind(inner("values")?, depth + 1)?))),
            "enum" => Kind::Long,
            "fixed" => {
                let size = inner("size")?.as_u64().and_then(|size| usize::try_from(size).ok());
                Kind::Fixed(size.ok_or("the schema has a fixed type without a size")?)
            }
            "record" => {
                let fields = inner("fields")?.as_array().ok_or("the schema has a record without fields")?;
                let fields = fields.iter().map(|field| self.field(field, depth + 1)).collect::<Result<_, _>>()?;
                Kind::Record(Arc::new(Record { fields }))
            }
            other => return self.by_name(other),
        };
        let name = inner("name")?.as_str().ok_or("a name in the schema is no text")?;
        if self.named.insert(last(name).to_owned(), kind.clone()).is_some() {
            return Err(format!("the schema has two types {name:?}"));
        }
        Ok(kind)
    }

    fn field(&mut self, field: &Value, depth: usize) -> Result<Field, Fault> {
        let name = field.get("name").and_then(Value::as_str).ok_or("the schema has a field without a name")?;
        let kind = field.get("type").ok_or_else(|| format!("field {name:?} has no type"))?;
        let id = field.get("field-id").and_then(Value::as_i64);
        Ok(Field { name: name.to_owned(), id, kind: self.kind(kind, depth)? })
    }
}

fn last(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}
