//! Does an Arrow stream say sensible numbers? Asked before Arrow reads it: of some that are wrong it makes a panic, or an
//! allocation of any size.
//!
//! What is not asked here, Arrow itself refuses: offsets that fall or lead too far, text that is not UTF-8, buffers that are
//! too short for their rows.

use arrow_ipc::{CompressionType, MessageHeader, RecordBatch, root_as_message};
use bytes::Bytes;

use crate::wire::{DecodeError, Reader, shared};

/// What every message begins with, before its length.
const CONTINUATION: u32 = u32::MAX;

/// LZ4 cannot make more than so many bytes of one.
const MOST_OF_ONE: u64 = 255;

/// Before a compressed buffer: how long it is when it is not compressed. -1: it is not.
const NOT_COMPRESSED: i64 = -1;

/// A record batch, and the bytes that its buffers are in.
pub(super) struct Message<'a> {
    pub(super) batch: RecordBatch<'a>,
    pub(super) body: Bytes,
}

/// The one record batch of a stream.
pub(super) fn measured(stream: &Bytes) -> Result<Message<'_>, DecodeError> {
    let mut reader = Reader(stream);
    // The schema is known.
    let (schema, _) = message(&mut reader)?;
    if schema.header_type() != MessageHeader::Schema || schema.bodyLength() != 0 {
        return Err(DecodeError::Content("an Arrow stream without a schema"));
    }
    let (message, _) = message(&mut reader)?;
    let batch = message.header_as_record_batch().ok_or(DecodeError::Content("an Arrow stream without a batch"))?;
    let length = usize::try_from(message.bodyLength()).map_err(|_| DecodeError::Truncated)?;
    let body = reader.0.get(..length).ok_or(DecodeError::Truncated)?;
    reader.0 = &reader.0[length..];
    if reader.0 != [CONTINUATION.to_le_bytes(), [0; 4]].concat() {
        return Err(DecodeError::Content("an Arrow stream that does not end behind its batch"));
    }
    numbers(&batch, body)?;
    Ok(Message { batch, body: shared(stream, body) })
}

fn message<'a>(reader: &mut Reader<'a>) -> Result<(arrow_ipc::Message<'a>, usize), DecodeError> {
    if u32::from_le_bytes(reader.array()?) != CONTINUATION {
        return Err(DecodeError::Content("not an Arrow stream"));
    }
    let length = u32::from_le_bytes(reader.array()?) as usize;
    let header = reader.0.get(..length).ok_or(DecodeError::Truncated)?;
    reader.0 = &reader.0[length..];
    let message = root_as_message(header).map_err(|_| DecodeError::Content("a malformed Arrow message"))?;
    Ok((message, length))
}

fn numbers(batch: &RecordBatch<'_>, body: &[u8]) -> Result<(), DecodeError> {
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
    for buffer in buffers.iter() {
        let (from, length) = (usize::try_from(buffer.offset()), usize::try_from(buffer.length()));
        let (Ok(from), Ok(length)) = (from, length) else { return Err(DecodeError::Truncated) };
        let end = from.checked_add(length).ok_or(DecodeError::Truncated)?;
        let bytes = body.get(from..end).ok_or(DecodeError::Truncated)?;
        if bytes.is_empty() {
            continue;
        }
        let (says, compressed) = bytes.split_first_chunk::<8>().ok_or(DecodeError::Truncated)?;
        let says = i64::from_le_bytes(*says);
        let most = (compressed.len() as u64).saturating_mul(MOST_OF_ONE);
        if says != NOT_COMPRESSED && !u64::try_from(says).is_ok_and(|says| says <= most) {
            return Err(DecodeError::Content("a column that cannot be so long"));
        }
    }
    Ok(())
}
