//! Checks the numbers in an Arrow stream before Arrow reads it: some wrong numbers make Arrow panic, or allocate any
//! amount of memory.
//!
//! Arrow itself rejects what is not checked here: offsets that fall or are too large, text that is not UTF-8, buffers
//! of values that are too short for their rows.

use arrow_ipc::{CompressionType, MessageHeader, RecordBatch, root_as_message};
use arrow_schema::{DataType, Schema};
use bytes::Bytes;

use crate::wire::{DecodeError, Reader, shared};

/// The beginning of every message, before its length.
const CONTINUATION: u32 = u32::MAX;

/// LZ4 expands one byte to at most this many.
const MOST_OF_ONE: u64 = 255;

/// Stands before a buffer in place of its uncompressed length: the buffer is not compressed.
const NOT_COMPRESSED: i64 = -1;

/// A record batch, and the bytes that contain its buffers.
pub(super) struct Message<'a> {
    pub(super) batch: RecordBatch<'a>,
    pub(super) body: Bytes,
}

/// The only record batch of a stream, checked against the columns of this schema.
pub(super) fn measured<'a>(stream: &'a Bytes, columns: &Schema) -> Result<Message<'a>, DecodeError> {
    let mut reader = Reader(stream);
    // The schema is known.
    let schema = message(&mut reader)?;
    if schema.header_type() != MessageHeader::Schema || schema.bodyLength() != 0 {
        return Err(DecodeError::Content("an Arrow stream without a schema"));
    }
    let message = message(&mut reader)?;
    let batch = message.header_as_record_batch().ok_or(DecodeError::Content("an Arrow stream without a batch"))?;
    let length = usize::try_from(message.bodyLength()).map_err(|_| DecodeError::Truncated)?;
    let body = reader.0.get(..length).ok_or(DecodeError::Truncated)?;
    reader.0 = &reader.0[length..];
    if reader.0 != [CONTINUATION.to_le_bytes(), [0; 4]].concat() {
        return Err(DecodeError::Content("an Arrow stream that does not end after its batch"));
    }
    numbers(&batch, body, columns)?;
    Ok(Message { batch, body: shared(stream, body) })
}

fn message<'a>(reader: &mut Reader<'a>) -> Result<arrow_ipc::Message<'a>, DecodeError> {
    if u32::from_le_bytes(reader.array()?) != CONTINUATION {
        return Err(DecodeError::Content("not an Arrow stream"));
    }
    let length = u32::from_le_bytes(reader.array()?) as usize;
    let header = reader.0.get(..length).ok_or(DecodeError::Truncated)?;
    reader.0 = &reader.0[length..];
    root_as_message(header).map_err(|_| DecodeError::Content("a malformed Arrow message"))
}

fn numbers(batch: &RecordBatch<'_>, body: &[u8], columns: &Schema) -> Result<(), DecodeError> {
    let most = (body.len() as u64).saturating_mul(MOST_OF_ONE * 8);
    let fits = |count: i64| u64::try_from(count).is_ok_and(|count| count <= most);
    let codec = batch.compression().map(|compression| compression.codec());
    if codec != Some(CompressionType::LZ4_FRAME) {
        return Err(DecodeError::Content("an Arrow batch that is not compressed with LZ4"));
    }
    let (Some(nodes), Some(buffers)) = (batch.nodes(), batch.buffers()) else {
        return Err(DecodeError::Content("an Arrow batch without columns"));
    };
    let sensible = |length: i64, nulls: i64| fits(length) && fits(nulls) && nulls <= length;
    if !fits(batch.length()) || !nodes.iter().all(|node| sensible(node.length(), node.null_count())) {
        return Err(DecodeError::Content("an impossible number of rows"));
    }
    let mut expected = Vec::new();
    columns.fields().iter().for_each(|field| add_buffers(field.data_type(), &mut expected));
    let validities = expected.iter().filter(|buffer| **buffer == Expected::Validity).count();
    if (expected.len(), validities) != (buffers.len(), nodes.len()) {
        return Err(DecodeError::Content("a wrong number of columns"));
    }
    let mut nodes = nodes.iter();
    for (buffer, expected) in buffers.iter().zip(expected) {
        let (from, length) = (usize::try_from(buffer.offset()), usize::try_from(buffer.length()));
        let (Ok(from), Ok(length)) = (from, length) else { return Err(DecodeError::Truncated) };
        let end = from.checked_add(length).ok_or(DecodeError::Truncated)?;
        let bytes = body.get(from..end).ok_or(DecodeError::Truncated)?;
        let content = if bytes.is_empty() { 0 } else { content_bytes(bytes)? };
        match expected {
            Expected::Validity => {
                // Arrow ignores the bits of a column without nulls.
                let rows = nodes.next().map_or(0, |node| if node.null_count() == 0 { 0 } else { node.length() });
                if u64::try_from(rows).is_ok_and(|rows| content < rows.div_ceil(8)) {
                    return Err(DecodeError::Content("a column with fewer bits than rows"));
                }
            }
            Expected::Numbers(width) if !content.is_multiple_of(width) => {
                return Err(DecodeError::Content("a column that ends within a number"));
            }
            Expected::Numbers(_) => {}
        }
    }
    Ok(())
}

/// The uncompressed length of a buffer.
fn content_bytes(buffer: &[u8]) -> Result<u64, DecodeError> {
    let (says, rest) = buffer.split_first_chunk::<8>().ok_or(DecodeError::Truncated)?;
    let (says, rest) = (i64::from_le_bytes(*says), rest.len() as u64);
    if says == NOT_COMPRESSED {
        return Ok(rest);
    }
    let says = u64::try_from(says).ok().filter(|says| *says <= rest.saturating_mul(MOST_OF_ONE));
    says.ok_or(DecodeError::Content("a column with an impossible length"))
}

/// What a buffer holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    /// A bit per row: the first buffer of each column, and of each column within it.
    Validity,
    /// Numbers of so many bytes.
    Numbers(u64),
}

/// The buffers of a column, in their order: validity, offsets, values.
fn add_buffers(column: &DataType, buffers: &mut Vec<Expected>) {
    buffers.push(Expected::Validity);
    match column {
        DataType::Binary | DataType::Utf8 => buffers.extend([4, 1].map(Expected::Numbers)),
        DataType::List(within) | DataType::Map(within, _) => {
            buffers.push(Expected::Numbers(4));
            add_buffers(within.data_type(), buffers);
        }
        DataType::Struct(within) => within.iter().for_each(|field| add_buffers(field.data_type(), buffers)),
        other => buffers.push(Expected::Numbers(other.primitive_width().unwrap_or(1) as u64)),
    }
}
