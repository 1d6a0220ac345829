//! Blocks: the rows of a `whole` catalog, stored as columns.
//!
//! A block is a kind of page: an Arrow IPC stream with one schema and one record batch, each buffer compressed with
//! LZ4. In memory it is a leaf like any other: keys, and values as `rows.rs` encodes them. A value that its columns
//! would not restore byte for byte is also stored unchanged, so nothing that was written is lost.
//!
//! Arrow panics on some invalid input, so `measured` checks all numbers first.

use std::sync::{Arc, LazyLock};

use arrow_array::builder::{BinaryBuilder, ListBuilder, MapBuilder, StringBuilder, UInt8Builder, UInt64Builder};
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, ListArray, MapArray, RecordBatch, StringArray, StructArray, UInt8Array, UInt64Array,
};
use arrow_buffer::{Buffer, NullBuffer};
use arrow_ipc::reader::read_record_batch;
use arrow_ipc::writer::{IpcWriteOptions, StreamWriter};
use arrow_ipc::{CompressionType, MetadataVersion};
use arrow_schema::{ArrowError, Field, Fields, Schema, SchemaRef};
use bytes::Bytes;
use glidepath_model::{Entry, MetadataId, Name, TableState, Version};

use super::measured::{Message, measured};
use super::page::Key;
use crate::entry;
use crate::wire::DecodeError;

/// Arrow counts the bytes of a column in 31 bits.
const MOST: usize = 1 << 30;

/// The columns of a block without metadata pointers, as all blocks were before pointers existed.
static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| schema_of(&NAMES[..NAMES.len() - 1]));

/// The columns of a block with metadata pointers. The kind of the page says which of the two it is; the schema stored
/// in the block is for other programs.
static WITH_POINTERS: LazyLock<SchemaRef> = LazyLock::new(|| schema_of(&NAMES));

const NAMES: [&str; 9] = [
    "key",
    "kind",
    "location",
    "properties",
    "base_objects",
    "state",
    "fields_of_newer_versions",
    "as_written",
    "metadata_pointer",
];

fn schema_of(names: &[&str]) -> SchemaRef {
    let columns = Columns::default().finish();
    let field = |(name, column): (&&str, &ArrayRef)| Field::new(*name, column.data_type().clone(), *name != "key");
    Arc::new(Schema::new(names.iter().zip(&columns).map(field).collect::<Fields>()))
}

/// The columns of a block.
fn schema(with_pointers: bool) -> &'static SchemaRef {
    if with_pointers { &WITH_POINTERS } else { &SCHEMA }
}

/// Columns being filled.
struct Columns {
    key: BinaryBuilder,
    kind: UInt8Builder,
    location: StringBuilder,
    properties: MapBuilder<StringBuilder, StringBuilder>,
    base_objects: ListBuilder<StringBuilder>,
    has_state: Vec<bool>,
    version: UInt64Builder,
    metadata: UInt64Builder,
    partitions: ListBuilder<UInt64Builder>,
    unknown: BinaryBuilder,
    as_written: BinaryBuilder,
    pointer: StringBuilder,
}

impl Default for Columns {
    fn default() -> Self {
        Self {
            key: BinaryBuilder::new(),
            kind: UInt8Builder::new(),
            location: StringBuilder::new(),
            properties: MapBuilder::new(None, StringBuilder::new(), StringBuilder::new()),
            base_objects: ListBuilder::new(StringBuilder::new()),
            has_state: Vec::new(),
            version: UInt64Builder::new(),
            metadata: UInt64Builder::new(),
            partitions: ListBuilder::new(UInt64Builder::new()),
            unknown: BinaryBuilder::new(),
            as_written: BinaryBuilder::new(),
            pointer: StringBuilder::new(),
        }
    }
}

impl Columns {
    fn push(&mut self, key: &[u8], value: &[u8]) -> Result<(), ArrowError> {
        self.key.append_value(key);
        let entry = entry::decode(value).ok().filter(|entry| entry::encode(entry) == value);
        // Index keys have no value.
        self.as_written.append_option((entry.is_none() && !value.is_empty()).then_some(value));
        self.kind.append_option(entry.as_ref().map(|entry| entry::kind_byte(entry.kind)));
        self.location.append_option(entry.as_ref().and_then(|entry| entry.location.as_ref()));
        for (name, value) in entry.iter().flat_map(|entry| &entry.properties) {
            self.properties.keys().append_value(name);
            self.properties.values().append_value(value);
        }
        self.properties.append(entry.is_some())?;
        for base in entry.iter().flat_map(|entry| &entry.base_objects) {
            self.base_objects.values().append_value(base.as_str());
        }
        self.base_objects.append(entry.is_some());
        let state = entry.as_ref().and_then(|entry| entry.state.as_ref());
        self.has_state.push(state.is_some());
        self.version.append_value(state.map_or(0, |state| state.version.0));
        self.metadata.append_value(state.map_or(0, |state| state.metadata.0));
        for version in state.iter().flat_map(|state| &state.partitions) {
            self.partitions.values().append_value(version.0);
        }
        self.partitions.append(true);
        let unknown = entry.as_ref().filter(|entry| !entry.unknown.is_empty());
        self.unknown.append_option(unknown.map(|entry| entry::encode_fields(&entry.unknown)));
        self.pointer.append_option(entry.as_ref().and_then(|entry| entry.pointer.as_ref()));
        Ok(())
    }

    fn finish(mut self) -> Vec<ArrayRef> {
        let fields = |array: &dyn Array, name: &str| Field::new(name, array.data_type().clone(), false);
        let (version, metadata, partitions) = (self.version.finish(), self.metadata.finish(), self.partitions.finish());
        let within =
            vec![fields(&version, "version"), fields(&metadata, "metadata"), fields(&partitions, "partition_versions")];
        let has_state = NullBuffer::from(self.has_state);
        let state = StructArray::new(
            Fields::from(within),
            vec![Arc::new(version), Arc::new(metadata), Arc::new(partitions)],
            Some(has_state),
        );
        vec![
            Arc::new(self.key.finish()),
            Arc::new(self.kind.finish()),
            Arc::new(self.location.finish()),
            Arc::new(self.properties.finish()),
            Arc::new(self.base_objects.finish()),
            Arc::new(state),
            Arc::new(self.unknown.finish()),
            Arc::new(self.as_written.finish()),
            Arc::new(self.pointer.finish()),
        ]
    }
}

/// Appends these rows as an Arrow stream. Returns whether it has the column of metadata pointers, which is left out if
/// no entry has one.
///
/// # Errors
/// If one block cannot hold them: more than a gibibyte.
pub(super) fn encode(items: &[(Key, Bytes)], out: &mut Vec<u8>) -> Result<bool, ArrowError> {
    let bytes: usize = items.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > MOST {
        return Err(ArrowError::InvalidArgumentError(format!("{bytes} bytes in one entry; allowed are {MOST}")));
    }
    let mut columns = Columns::default();
    for (key, value) in items {
        columns.push(key, value)?;
    }
    let mut columns = columns.finish();
    let with_pointers = columns.last().is_some_and(|pointers| pointers.null_count() < items.len());
    if !with_pointers {
        drop(columns.pop());
    }
    let schema = schema(with_pointers);
    let batch = RecordBatch::try_new(Arc::clone(schema), columns)?;
    let options = IpcWriteOptions::try_new(8, false, MetadataVersion::V5)?;
    let options = options.try_with_compression(Some(CompressionType::LZ4_FRAME))?;
    let mut writer = StreamWriter::try_new_with_options(out, schema, options)?;
    writer.write(&batch)?;
    writer.finish()?;
    Ok(with_pointers)
}

/// The rows of an Arrow stream. The memory used is bounded by a multiple of the input's size.
pub(super) fn decode(stream: Bytes, with_pointers: bool) -> Result<Vec<(Key, Bytes)>, DecodeError> {
    let schema = schema(with_pointers);
    let Message { batch, body } = measured(&stream, schema)?;
    let wrong = |_: ArrowError| DecodeError::Content("columns that Arrow does not take");
    let (body, none) = (Buffer::from(body), std::collections::HashMap::new());
    let batch =
        read_record_batch(&body, batch, Arc::clone(schema), &none, None, &MetadataVersion::V5).map_err(wrong)?;
    let seen = Seen::of(&batch).ok_or(DecodeError::Content("columns of other types"))?;
    // One allocation for all rows; their keys and values share it.
    let mut all = Vec::new();
    let mut ends = Vec::with_capacity(batch.num_rows());
    for row in 0..batch.num_rows() {
        all.extend_from_slice(seen.key.value(row));
        let key_end = all.len();
        seen.value(row, &mut all)?;
        ends.push((key_end, all.len()));
    }
    let (all, mut from) = (Bytes::from(all), 0);
    let item = |(key_end, end)| {
        let item = (all.slice(from..key_end), all.slice(key_end..end));
        from = end;
        item
    };
    Ok(ends.into_iter().map(item).collect())
}

/// Columns being read.
struct Seen<'a> {
    key: &'a BinaryArray,
    kind: &'a UInt8Array,
    location: &'a StringArray,
    properties: &'a MapArray,
    base_objects: &'a ListArray,
    state: &'a StructArray,
    version: &'a UInt64Array,
    metadata: &'a UInt64Array,
    partitions: &'a ListArray,
    unknown: &'a BinaryArray,
    as_written: &'a BinaryArray,
    pointer: Option<&'a StringArray>,
}

impl<'a> Seen<'a> {
    fn of(batch: &'a RecordBatch) -> Option<Self> {
        let column = |index: usize| batch.columns().get(index);
        let state = column(5)?.as_struct_opt()?;
        let within = |index: usize| state.columns().get(index);
        Some(Self {
            key: column(0)?.as_binary_opt()?,
            kind: column(1)?.as_primitive_opt::<UInt8Type>()?,
            location: column(2)?.as_string_opt()?,
            properties: column(3)?.as_map_opt()?,
            base_objects: column(4)?.as_list_opt()?,
            state,
            version: within(0)?.as_primitive_opt::<UInt64Type>()?,
            metadata: within(1)?.as_primitive_opt::<UInt64Type>()?,
            partitions: within(2)?.as_list_opt()?,
            unknown: column(6)?.as_binary_opt()?,
            as_written: column(7)?.as_binary_opt()?,
            pointer: match column(8) {
                Some(pointer) => Some(pointer.as_string_opt()?),
                None => None,
            },
        })
    }

    /// Appends the value of a row.
    fn value(&self, row: usize, out: &mut Vec<u8>) -> Result<(), DecodeError> {
        if self.as_written.is_valid(row) {
            out.extend_from_slice(self.as_written.value(row));
        } else if self.kind.is_valid(row) {
            out.extend_from_slice(&entry::encode(&self.entry(row)?));
        }
        Ok(())
    }

    fn entry(&self, row: usize) -> Result<Entry, DecodeError> {
        let wrong = DecodeError::Content("a column of another type within a column");
        let kind = entry::kind_of(self.kind.value(row))?;
        let mut entry = Entry { kind, ..Entry::namespace() };
        entry.location = self.location.is_valid(row).then(|| self.location.value(row).to_owned());
        let pointer = self.pointer.filter(|pointer| pointer.is_valid(row));
        entry.pointer = pointer.map(|pointer| pointer.value(row).to_owned());
        let pairs = self.properties.value(row);
        let (names, values) = (pairs.column(0).as_string_opt::<i32>(), pairs.column(1).as_string_opt::<i32>());
        for (name, value) in names.ok_or(wrong)?.iter().zip(values.ok_or(wrong)?.iter()) {
            entry.properties.insert(name.unwrap_or_default().to_owned(), value.unwrap_or_default().to_owned());
        }
        for base in self.base_objects.value(row).as_string_opt::<i32>().ok_or(wrong)?.iter() {
            let name = Name::parse(base.unwrap_or_default()).map_err(|_| DecodeError::Content("invalid name"))?;
            entry.base_objects.push(name);
        }
        if self.state.is_valid(row) {
            let partitions = self.partitions.value(row);
            let partitions = partitions.as_primitive_opt::<UInt64Type>().ok_or(wrong)?;
            entry.state = Some(TableState {
                version: Version(self.version.value(row)),
                metadata: MetadataId(self.metadata.value(row)),
                partitions: partitions.values().iter().map(|version| Version(*version)).collect(),
            });
        }
        if self.unknown.is_valid(row) {
            entry.unknown = entry::decode_fields(self.unknown.value(row))?;
        }
        Ok(entry)
    }
}

#[cfg(test)]
mod tests;
