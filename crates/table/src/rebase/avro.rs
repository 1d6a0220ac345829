//! Avro files whose fields are found by their Iceberg field ids. Writers name the same fields differently:
//! `added_files_count` and `added_data_files_count` are both field 504.

mod read;
mod schema;

use std::sync::Arc;

use miniz_oxide::deflate::compress_to_vec;

pub(super) use read::{Fields, File, Most, Value};

/// Bytes of records that are compressed together.
pub(super) const BLOCK: usize = 64 << 10;
/// How hard to compress, of 0 to 10: the usual.
pub(super) const LEVEL: u8 = 6;

/// What is wrong with a file, in words.
pub(super) type Fault = String;

/// One record.
#[derive(Clone, Copy)]
pub(super) struct Row<'a> {
    fields: &'a Fields,
    values: &'a [Value<'a>],
}

impl<'a> Row<'a> {
    /// `value` is a record of the type that has these fields.
    pub(super) fn of(fields: &'a Fields, value: &'a Value<'a>) -> Result<Self, Fault> {
        match value {
            Value::Record(values) => Ok(Self { fields, values }),
            _ => Err("a record was expected".into()),
        }
    }

    /// Nothing if there is no such field or it is null.
    pub(super) fn get(&self, id: i64) -> Option<&'a Value<'a>> {
        let value = self.values.get(self.fields.place(id)?)?;
        if matches!(value, Value::Null) { None } else { Some(value) }
    }

    fn typed<T>(&self, id: i64, kind: &str, take: impl Fn(&'a Value<'a>) -> Option<T>) -> Result<Option<T>, Fault> {
        match self.get(id) {
            None => Ok(None),
            Some(value) => take(value).map(Some).ok_or_else(|| format!("field {id} is not {kind}")),
        }
    }

    /// An integer that fits the type asked for.
    pub(super) fn integer<T: TryFrom<i64>>(&self, id: i64) -> Result<Option<T>, Fault> {
        self.typed(id, "an integer of its range", |value| match value {
            Value::Long(v) => T::try_from(*v).ok(),
            _ => None,
        })
    }

    pub(super) fn string(&self, id: i64) -> Result<Option<&'a str>, Fault> {
        self.typed(id, "a string", |value| if let Value::String(s) = value { Some(*s) } else { None })
    }

    pub(super) fn boolean(&self, id: i64) -> Result<Option<bool>, Fault> {
        self.typed(id, "a boolean", |value| if let Value::Boolean(b) = value { Some(*b) } else { None })
    }

    pub(super) fn bytes(&self, id: i64) -> Result<Option<&'a [u8]>, Fault> {
        self.typed(id, "bytes", |value| if let Value::Bytes(b) = value { Some(*b) } else { None })
    }

    pub(super) fn array(&self, id: i64) -> Result<Option<&'a [Value<'a>]>, Fault> {
        self.typed(id, "an array", |value| if let Value::Array(a) = value { Some(a.as_slice()) } else { None })
    }
}

/// The value of a field that must be there.
pub(super) fn required<T>(id: i64, value: Option<T>) -> Result<T, Fault> {
    value.ok_or_else(|| format!("field {id} is missing"))
}

/// Appends an integer as Avro writes it: zigzag, seven bits a byte.
pub(crate) fn put_long(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)).cast_unsigned();
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Appends bytes or a string: the length and the bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_long(out, bytes.len() as i64);
    out.extend_from_slice(bytes);
}

/// Appends a value of a type that may also be null, with null as the first of its two types.
pub(super) fn put_optional<T>(out: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    put_long(out, i64::from(value.is_some()));
    if let Some(value) = value {
        put(out, value);
    }
}

/// Records that are compressed together. A file consists of such blocks, and files may share them.
#[derive(Debug)]
pub(super) struct Block {
    /// How many.
    pub(super) records: usize,
    /// Their bytes before compression.
    pub(super) bytes: usize,
    compressed: Vec<u8>,
}

impl Block {
    /// `level`: how hard to compress, of 0 to 10.
    fn new(records: usize, bytes: &[u8], level: u8) -> Self {
        Self { records, bytes: bytes.len(), compressed: compress_to_vec(bytes, level) }
    }
}

/// Puts records into blocks.
pub(super) struct BlockWriter {
    blocks: Vec<Arc<Block>>,
    level: u8,
    open: Vec<u8>,
    records: usize,
}

impl BlockWriter {
    pub(super) fn new(level: u8) -> Self {
        Self { blocks: Vec::new(), level, open: Vec::new(), records: 0 }
    }

    /// Appends a record, which `put` encodes.
    pub(super) fn record(&mut self, put: impl FnOnce(&mut Vec<u8>)) {
        put(&mut self.open);
        self.records += 1;
        if self.open.len() >= BLOCK {
            self.end_block();
        }
    }

    fn end_block(&mut self) {
        if self.records > 0 {
            self.blocks.push(Arc::new(Block::new(self.records, &self.open, self.level)));
            self.open.clear();
            self.records = 0;
        }
    }

    pub(super) fn finish(mut self) -> Vec<Arc<Block>> {
        self.end_block();
        self.blocks
    }
}

/// A file of these blocks. The writer of the library orders the metadata and chooses the marker at random; this one
/// gives the same bytes for the same arguments. `marker` separates the blocks; it should be no text that occurs in
/// them, so fresh random bytes.
pub(super) fn file_of(schema: &str, metadata: &[(&str, String)], marker: [u8; 16], blocks: &[Arc<Block>]) -> Vec<u8> {
    let mut out = b"Obj\x01".to_vec();
    put_long(&mut out, metadata.len() as i64 + 2);
    for (key, value) in [("avro.schema", schema), ("avro.codec", "deflate")] {
        put_bytes(&mut out, key.as_bytes());
        put_bytes(&mut out, value.as_bytes());
    }
    for (key, value) in metadata {
        put_bytes(&mut out, key.as_bytes());
        put_bytes(&mut out, value.as_bytes());
    }
    put_long(&mut out, 0);
    out.extend_from_slice(&marker);
    for block in blocks {
        put_long(&mut out, block.records as i64);
        put_bytes(&mut out, &block.compressed);
        out.extend_from_slice(&marker);
    }
    out
}
