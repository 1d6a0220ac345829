//! Frames and numbers: what the formats of all protocols share.

use bytes::Bytes;

use crate::mutant::{self, Mutant};

/// Length of a frame's head: magic, format version, feature flags, length.
pub(crate) const HEAD: usize = 12;

pub(crate) const CHECKSUM: usize = 4;

/// Why bytes cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Another kind of object.
    #[error("it does not begin with the magic bytes of {expected}")]
    OtherKind {
        /// The kind that was expected.
        expected: &'static str,
    },
    /// Written by a newer version of Glidepath.
    #[error("it has format version {found}; this version of Glidepath reads {known}: use a newer one")]
    Format {
        /// As written in the object.
        found: u16,
        /// The newest version that can be read.
        known: u16,
    },
    /// Needs features that this version does not have.
    #[error("it needs features (bits {found:#06x}) that this version of Glidepath does not know: use a newer one")]
    Features {
        /// The unknown bits.
        found: u16,
    },
    /// Shorter than it says.
    #[error("it ends too early")]
    Truncated,
    /// Differs from what was written.
    #[error("its checksum does not match its content: it is damaged")]
    Checksum,
    /// Whole, but not what was written there.
    #[error("it is whole, but not what was written there: its object was replaced by another one")]
    Replaced,
    /// The checksum matches but the content is invalid: a defect of the writer.
    #[error("its content breaks the rules of the format ({0})")]
    Content(&'static str),
}

/// A kind of object: a frame of magic, format version (2 bytes), feature flags (2), length of the whole frame (4),
/// content, and CRC-32 (IEEE) of everything before it. Little-endian.
pub(crate) struct Frame {
    pub(crate) magic: [u8; 4],
    pub(crate) format: u16,
    pub(crate) known_flags: u16,
    /// For messages: "a catalog file".
    pub(crate) name: &'static str,
}

impl Frame {
    /// Starts a frame of this length.
    pub(crate) fn begin(&self, flags: u16, length: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(length);
        out.extend_from_slice(&self.magic);
        out.extend_from_slice(&self.format.to_le_bytes());
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&(length as u32).to_le_bytes());
        out
    }

    /// Flags and content of the frame at the beginning of the object; ignores the bytes after it.
    pub(crate) fn open<'a>(&self, object: &'a [u8]) -> Result<(u16, &'a [u8]), DecodeError> {
        let mut head = Reader(object);
        if head.array::<4>()? != self.magic {
            return Err(DecodeError::OtherKind { expected: self.name });
        }
        let found = u16::from_le_bytes(head.array()?);
        if found != self.format {
            return Err(DecodeError::Format { found, known: self.format });
        }
        let flags = u16::from_le_bytes(head.array()?);
        if flags & !self.known_flags != 0 {
            return Err(DecodeError::Features { found: flags & !self.known_flags });
        }
        let length = u32::from_le_bytes(head.array()?) as usize;
        let content = checked(object.get(..length).ok_or(DecodeError::Truncated)?)?;
        Ok((flags, content.get(HEAD..).ok_or(DecodeError::Truncated)?))
    }
}

/// Appends the checksum of everything before.
pub(crate) fn put_checksum(out: &mut Vec<u8>) {
    let checksum = crc32fast::hash(out);
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// The bytes before the checksum, if it matches.
pub(crate) fn checked(bytes: &[u8]) -> Result<&[u8], DecodeError> {
    let (content, checksum) = bytes.split_last_chunk::<CHECKSUM>().ok_or(DecodeError::Truncated)?;
    let matches = crc32fast::hash(content) == u32::from_le_bytes(*checksum) || mutant::is(Mutant::ChecksumIgnored);
    if matches { Ok(content) } else { Err(DecodeError::Checksum) }
}

/// The checksum at the end of these bytes; 0 if they are too short to have one.
pub(crate) fn checksum_of(bytes: &[u8]) -> u32 {
    bytes.last_chunk().map_or(0, |checksum| u32::from_le_bytes(*checksum))
}

/// LEB128 of an unsigned integer.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    if value < 0x80 {
        return out.push(value as u8);
    }
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

pub(crate) fn varint_length(value: u64) -> usize {
    // Seven bits a byte, and at least one byte.
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Appends the length, then the bytes.
pub(crate) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// The bytes still to be read.
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (array, rest) = self.0.split_first_chunk::<N>().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*array)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    pub(crate) fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.array::<1>()?[0];
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                break;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Content("number too large"))
    }

    /// A number of 32 bits.
    pub(crate) fn small(&mut self) -> Result<u32, DecodeError> {
        u32::try_from(self.varint()?).map_err(|_| DecodeError::Content("number too large"))
    }

    /// A number of items that follow, each at least one byte: a number that exceeds the remaining bytes is an error.
    pub(crate) fn count(&mut self) -> Result<usize, DecodeError> {
        let count = self.varint()?;
        usize::try_from(count).ok().filter(|count| *count <= self.0.len()).ok_or(DecodeError::Truncated)
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], DecodeError> {
        let length = self.count()?;
        let (bytes, rest) = self.0.split_at(length);
        self.0 = rest;
        Ok(bytes)
    }

    pub(crate) fn text(&mut self) -> Result<&'a str, DecodeError> {
        std::str::from_utf8(self.bytes()?).map_err(|_| DecodeError::Content("text is not UTF-8"))
    }

    pub(crate) fn end(&self) -> Result<(), DecodeError> {
        if self.0.is_empty() { Ok(()) } else { Err(DecodeError::Content("bytes left over")) }
    }
}

/// The bytes of `part`, a slice of `whole`, without a copy.
pub(crate) fn shared(whole: &Bytes, part: &[u8]) -> Bytes {
    whole.slice_ref(part)
}
