//! Reads Avro files. Clients write them, so nothing in a file may make the server take more memory than the file's
//! size and a limit allow, or end its task: the library for Avro reserves what a file's counts ask for.

use std::collections::BTreeMap;
use std::sync::Arc;

use miniz_oxide::inflate::decompress_to_vec_with_limit;

use super::Fault;
use super::schema::{Kind, Record, parse};

/// A value of a field that was asked for.
#[derive(Debug)]
pub(in super::super) enum Value {
    Null,
    /// Nobody asked for it.
    Skipped,
    Boolean(bool),
    Long(i64),
    Bytes(Vec<u8>),
    String(String),
    Array(Vec<Value>),
    Record(Vec<Value>),
}

/// The fields of a record type, by field id.
pub(in super::super) struct Fields {
    by_id: BTreeMap<i64, usize>,
    record: Arc<Record>,
}

impl Fields {
    /// Each field must have an id of its own.
    fn of(record: Arc<Record>) -> Result<Self, Fault> {
        let mut by_id = BTreeMap::new();
        for (at, field) in record.fields.iter().enumerate() {
            let id = field.id.ok_or_else(|| format!("field {:?} has no field-id", field.name))?;
            if by_id.insert(id, at).is_some() {
                return Err(format!("two fields have the field-id {id}"));
            }
        }
        Ok(Self { by_id, record })
    }

    /// The fields of the records in field `id`: the field's type is a record, an array of records, or one of these or
    /// null.
    pub(in super::super) fn inner(&self, id: i64) -> Result<Option<Self>, Fault> {
        let Some(at) = self.by_id.get(&id) else { return Ok(None) };
        let record = record_in(&self.record.fields[*at].kind).ok_or_else(|| format!("field {id} holds no records"))?;
        Self::of(record).map(Some)
    }

    /// The ids, in ascending order.
    pub(in super::super) fn ids(&self) -> impl Iterator<Item = i64> {
        self.by_id.keys().copied()
    }

    /// The place of a field in its record.
    pub(super) fn place(&self, id: i64) -> Option<usize> {
        self.by_id.get(&id).copied()
    }
}

fn record_in(kind: &Kind) -> Option<Arc<Record>> {
    match kind {
        Kind::Record(record) => Some(Arc::clone(record)),
        Kind::Array(items) => record_in(items),
        Kind::Union(kinds) => kinds.iter().find_map(record_in),
        _ => None,
    }
}

/// A file whose header was read.
pub(in super::super) struct File<'a> {
    metadata: BTreeMap<String, &'a [u8]>,
    pub(in super::super) fields: Fields,
    blocks: Input<'a>,
    marker: &'a [u8],
}

impl<'a> File<'a> {
    /// Reads the header.
    pub(in super::super) fn open(bytes: &'a [u8]) -> Result<Self, Fault> {
        let mut input = Input(bytes);
        if input.take(4).ok() != Some(b"Obj\x01") {
            return Err("it has not the header of an Avro file".into());
        }
        let mut metadata = BTreeMap::new();
        while let Some(count) = input.count()? {
            for _ in 0..count {
                let key = std::str::from_utf8(input.bytes()?).map_err(|_| "a key in the header is no text")?;
                metadata.insert(key.to_owned(), input.bytes()?);
            }
        }
        let marker = input.take(16)?;
        let schema = metadata.get("avro.schema").ok_or("the header has no schema")?;
        let fields = Fields::of(parse(schema)?)?;
        Ok(Self { metadata, fields, blocks: input, marker })
    }

    /// The text under a key of the header.
    pub(in super::super) fn text(&self, key: &str) -> Option<&str> {
        self.metadata.get(key).and_then(|bytes| std::str::from_utf8(bytes).ok())
    }

    /// Passes each record to `each`, with the values of the fields `wanted`, whatever record they are in. Fails if the
    /// records take more than `most` bytes.
    pub(in super::super) fn records<E: From<Fault>>(
        &self,
        wanted: &[i64],
        most: usize,
        mut each: impl FnMut(&Value) -> Result<(), E>,
    ) -> Result<(), E> {
        self.each(most, |block| each(&block.record(&self.fields.record, Some(wanted))?))
    }

    /// Passes each record to `pick`, with the values of the fields `brief`; those that it picks, with `wanted` to `each`.
    pub(in super::super) fn picked<E: From<Fault>>(
        &self,
        (brief, wanted): (&[i64], &[i64]),
        most: usize,
        mut pick: impl FnMut(&Value) -> Result<bool, E>,
        mut each: impl FnMut(&Value) -> Result<(), E>,
    ) -> Result<(), E> {
        self.each(most, |block| {
            let mut again = Input(block.0);
            match pick(&block.record(&self.fields.record, Some(brief))?)? {
                true => each(&again.record(&self.fields.record, Some(wanted))?),
                false => Ok(()),
            }
        })
    }

    /// Lets `read` read each record.
    fn each<E: From<Fault>>(&self, most: usize, mut read: impl FnMut(&mut Input) -> Result<(), E>) -> Result<(), E> {
        let (mut blocks, mut left) = (Input(self.blocks.0), most);
        while !blocks.0.is_empty() {
            let count = blocks.long()?;
            let block = self.decompressed(blocks.bytes()?, left)?;
            left = left.checked_sub(block.len()).ok_or_else(|| format!("its records take more than {most} bytes"))?;
            let mut block = Input(&block);
            for _ in 0..count {
                if block.0.is_empty() {
                    return Err(Fault::from("a block has fewer records than it says").into());
                }
                read(&mut block)?;
            }
            if !block.0.is_empty() || blocks.take(16)? != self.marker {
                return Err(Fault::from("a block does not end where it says").into());
            }
        }
        Ok(())
    }

    fn decompressed(&self, block: &[u8], most: usize) -> Result<Vec<u8>, Fault> {
        match self.text("avro.codec") {
            None | Some("null") => Ok(block.to_vec()),
            Some("deflate") => {
                decompress_to_vec_with_limit(block, most).map_err(|e| format!("a block cannot be decompressed: {e}"))
            }
            Some(other) => Err(format!("it is compressed with {other:?}; read are \"null\" and \"deflate\"")),
        }
    }
}

/// What is left of some bytes.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], Fault> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or("it ends within a value")?;
        self.0 = rest;
        Ok(taken)
    }

    fn long(&mut self) -> Result<i64, Fault> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
            }
        }
        Err("it has an integer of more than 64 bits".into())
    }

    fn bytes(&mut self) -> Result<&'a [u8], Fault> {
        let length = usize::try_from(self.long()?).map_err(|_| "it has a negative length")?;
        self.take(length)
    }

    /// The number of the next items of an array or map; nothing at its end. Not to be believed: nothing is reserved for
    /// the items, and each is read from bytes of its own.
    fn count(&mut self) -> Result<Option<usize>, Fault> {
        let mut count = self.long()?;
        if count < 0 {
            // The size in bytes follows, for readers that skip.
            self.long()?;
            count = count.checked_neg().ok_or("it has a count that is too large")?;
        }
        let count = usize::try_from(count).map_err(|_| "it has a count that is too large")?;
        Ok(if count == 0 { None } else { Some(count) })
    }

    /// A record, of which `wanted` fields are kept; nothing is kept if that is `None`.
    fn record(&mut self, record: &Record, wanted: Option<&[i64]>) -> Result<Value, Fault> {
        let mut values = Vec::with_capacity(if wanted.is_some() { record.fields.len() } else { 0 });
        for field in &record.fields {
            let inside = wanted.filter(|ids| field.id.is_some_and(|id| ids.contains(&id)));
            let value = self.value(&field.kind, inside)?;
            if wanted.is_some() {
                values.push(value);
            }
        }
        Ok(if wanted.is_some() { Value::Record(values) } else { Value::Skipped })
    }

    fn value(&mut self, kind: &Kind, wanted: Option<&[i64]>) -> Result<Value, Fault> {
        let value = match kind {
            Kind::Null => Value::Null,
            Kind::Boolean => Value::Boolean(self.take(1)?[0] != 0),
            Kind::Long => Value::Long(self.long()?),
            Kind::Fixed(size) => kept(self.take(*size)?, wanted),
            Kind::Bytes => kept(self.bytes()?, wanted),
            Kind::String => {
                let bytes = self.bytes()?;
                if wanted.is_none() {
                    return Ok(Value::Skipped);
                }
                Value::String(std::str::from_utf8(bytes).map_err(|_| "it has a string that is no text")?.to_owned())
            }
            Kind::Array(items) => return self.array(items, wanted),
            Kind::Map(values) => {
                while let Some(count) = self.count()? {
                    for _ in 0..count {
                        self.bytes()?;
                        self.value(values, None)?;
                    }
                }
                Value::Skipped
            }
            Kind::Union(kinds) => {
                let at = usize::try_from(self.long()?).ok().and_then(|at| kinds.get(at));
                return self.value(at.ok_or("it has a value of a type that its union has not")?, wanted);
            }
            Kind::Record(record) => return self.record(record, wanted),
        };
        Ok(value)
    }

    fn array(&mut self, items: &Kind, wanted: Option<&[i64]>) -> Result<Value, Fault> {
        let mut values = Vec::new();
        while let Some(count) = self.count()? {
            for _ in 0..count {
                let before = self.0.len();
                let value = self.value(items, wanted)?;
                if self.0.len() == before {
                    return Err("it has an array of items without content".into());
                }
                if wanted.is_some() {
                    values.push(value);
                }
            }
        }
        Ok(if wanted.is_some() { Value::Array(values) } else { Value::Skipped })
    }
}

fn kept(bytes: &[u8], wanted: Option<&[i64]>) -> Value {
    if wanted.is_some() { Value::Bytes(bytes.to_vec()) } else { Value::Skipped }
}
