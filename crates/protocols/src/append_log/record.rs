//! The encoding of a log segment, format version 1; the layout is in `docs/protocols/append-log.md`.

use glidepath_model::{
    Action, Advance, Changes, CommitId, Edit, MetadataId, PartitionId, PartitionVersions, TableChange, TableId,
    TableState, Version,
};
use smallvec::SmallVec;

use super::actions;
use crate::mutant::{self, Mutant};

/// Bytes before the first record of a segment. An emptied segment has nothing else.
pub const HEADER: usize = 16;
/// Bytes of a record besides its content.
const FRAME: usize = 4 + 1 + 1 + 8 + CHECKSUM;
const CHECKSUM: usize = 4;

const SEGMENT: [u8; 4] = *b"GPLS";
const EMPTIED: [u8; 4] = *b"GPLE";
const FORMAT: u16 = 1;
const KNOWN_FEATURES: u16 = 0;

const COMMIT: u8 = 1;
const ACTIONS: u8 = 2;
const CLOSES: u8 = 1;
const SKIPPABLE: u8 = 2;

/// No version reaches this by counting. Bytes that say so are invalid, and counting on from there would overflow.
pub(super) const VERSIONS: u64 = 1 << 62;

/// Why bytes cannot be read as part of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Another kind of object.
    #[error("it does not begin with the magic bytes of {0}")]
    Foreign(&'static str),
    /// Written by a newer version of Glidepath.
    #[error("it has format version {found}; this version of Glidepath reads {FORMAT}: use a newer one")]
    Format {
        /// As written.
        found: u16,
    },
    /// Needs features that this version does not have.
    #[error("it needs features (bits {found:#06x}) that this version of Glidepath does not know: use a newer one")]
    Features {
        /// The unknown bits.
        found: u16,
    },
    /// A record of an unknown kind that must not be skipped.
    #[error("it has a record of kind {found}, which this version of Glidepath does not know: use a newer one")]
    Kind {
        /// As written.
        found: u8,
    },
    /// Shorter than it says. Appends are all or nothing, so a writer's crash cannot cause this.
    #[error("it ends within a record: it is damaged")]
    Truncated,
    /// Differs from what was written.
    #[error("the checksum of a record does not match its content: it is damaged")]
    Checksum,
    /// The checksum matches but the content is invalid: a defect of the writer.
    #[error("its content breaks the rules of the format ({0})")]
    Content(&'static str),
}

/// The kind of header that a segment's object begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    /// Records follow.
    Segment,
    /// Vacuum has removed the records; nothing can be appended any more.
    Emptied,
}

impl Header {
    pub(super) fn encode(self, number: u64) -> [u8; HEADER] {
        let magic = match self {
            Self::Segment => SEGMENT,
            Self::Emptied => EMPTIED,
        };
        header(magic, number)
    }

    /// Decodes the header of segment `number`, and returns the bytes after it.
    pub(super) fn decode(object: &[u8], number: u64) -> Result<(Self, &[u8]), DecodeError> {
        let magic = if object.starts_with(&EMPTIED) { EMPTIED } else { SEGMENT };
        let rest = decode_header(object, magic, "a log segment", number)?;
        Ok((if magic == EMPTIED { Self::Emptied } else { Self::Segment }, rest))
    }
}

/// Magic bytes, format version, feature flags, number: the beginning of every object of a log except the hint.
pub(super) fn header(magic: [u8; 4], number: u64) -> [u8; HEADER] {
    let mut out = [0; HEADER];
    out[..4].copy_from_slice(&magic);
    out[4..6].copy_from_slice(&FORMAT.to_le_bytes());
    out[6..8].copy_from_slice(&KNOWN_FEATURES.to_le_bytes());
    out[8..].copy_from_slice(&number.to_le_bytes());
    out
}

pub(super) fn decode_header<'a>(
    object: &'a [u8],
    magic: [u8; 4],
    what: &'static str,
    number: u64,
) -> Result<&'a [u8], DecodeError> {
    let mut reader = Reader(object);
    if reader.array()? != magic {
        return Err(DecodeError::Foreign(what));
    }
    let found = u16::from_le_bytes(reader.array()?);
    if found != FORMAT {
        return Err(DecodeError::Format { found });
    }
    let found = u16::from_le_bytes(reader.array()?) & !KNOWN_FEATURES;
    if found != 0 {
        return Err(DecodeError::Features { found });
    }
    if reader.u64()? != number {
        return Err(DecodeError::Content("its number differs from that in its key"));
    }
    Ok(reader.0)
}

/// A commit as recorded in the log; whether it takes effect depends on the records before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    /// Its commit id.
    pub(super) commit: CommitId,
    /// Whether it is the last record of its segment that counts.
    pub(super) closes: bool,
    /// What it does; `None` for a kind of record that may be skipped.
    pub(super) intent: Option<Intent>,
}

/// What a record does if it takes effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    /// On numbered tables, in few bytes.
    Changes(Changes),
    /// On any entries.
    Actions(Vec<Action>),
}

impl Intent {
    /// These actions in their shortest form.
    pub(super) fn of(actions: &[Action]) -> Self {
        Changes::of_actions(actions).map_or_else(|| Self::Actions(actions.to_vec()), Self::Changes)
    }
}

impl Record {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; 4];
        let (kind, skippable) = match self.intent {
            Some(Intent::Changes(_)) => (COMMIT, 0),
            Some(Intent::Actions(_)) => (ACTIONS, 0),
            None => (0, SKIPPABLE),
        };
        out.push(kind);
        out.push(skippable | if self.closes { CLOSES } else { 0 });
        out.extend_from_slice(&self.commit.0.to_le_bytes());
        match &self.intent {
            Some(Intent::Changes(changes)) => put_changes(&mut out, changes),
            Some(Intent::Actions(actions)) => actions::put(&mut out, actions),
            None => {}
        }
        let length = (out.len() + CHECKSUM) as u32;
        out[..4].copy_from_slice(&length.to_le_bytes());
        let checksum = crc32fast::hash(&out);
        out.extend_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Decodes the record at the beginning of `bytes`, and returns the bytes after it. No input makes it panic or
    /// allocate more than a small multiple of the input's size.
    pub(super) fn decode(bytes: &[u8]) -> Result<(Self, &[u8]), DecodeError> {
        let length = u32::from_le_bytes(Reader(bytes).array()?) as usize;
        if length < FRAME {
            return Err(DecodeError::Content("a record that is too short"));
        }
        let (record, rest) = bytes.split_at_checked(length).ok_or(DecodeError::Truncated)?;
        let (framed, checksum) = record.split_last_chunk::<CHECKSUM>().ok_or(DecodeError::Truncated)?;
        if crc32fast::hash(framed) != u32::from_le_bytes(*checksum) && !mutant::is(Mutant::ChecksumIgnored) {
            return Err(DecodeError::Checksum);
        }
        let mut reader = Reader(framed);
        reader.u32()?;
        let [kind, flags] = reader.array()?;
        let commit = CommitId(reader.u64()?);
        if flags & !(CLOSES | SKIPPABLE) != 0 {
            return Err(DecodeError::Features { found: u16::from(flags & !(CLOSES | SKIPPABLE)) });
        }
        let intent = match kind {
            COMMIT => Some(Intent::Changes(reader.changes()?)),
            ACTIONS => Some(Intent::Actions(actions::decode(reader.0)?)),
            _ if flags & SKIPPABLE != 0 => None,
            found => return Err(DecodeError::Kind { found }),
        };
        Ok((Self { commit, closes: flags & CLOSES != 0, intent }, rest))
    }
}

const CREATE: u8 = 1;
const ADVANCE: u8 = 2;
const DROP: u8 = 3;

/// Numbers have fixed widths: a record of one table is about 50 bytes, and the cost is that of the request.
fn put_changes(out: &mut Vec<u8>, changes: &Changes) {
    out.extend_from_slice(&(changes.edits().len() as u32).to_le_bytes());
    for TableChange { table, edit } in changes.edits() {
        out.extend_from_slice(&table.0.to_le_bytes());
        match edit {
            Edit::Create(TableState { version, metadata, partitions }) => {
                out.push(CREATE);
                out.extend_from_slice(&version.0.to_le_bytes());
                out.extend_from_slice(&metadata.0.to_le_bytes());
                out.extend_from_slice(&(partitions.len() as u32).to_le_bytes());
                partitions.iter().for_each(|version| out.extend_from_slice(&version.0.to_le_bytes()));
            }
            Edit::Advance(Advance { metadata, partitions }) => {
                out.push(ADVANCE);
                out.extend_from_slice(&metadata.0.to_le_bytes());
                out.extend_from_slice(&(partitions.len() as u32).to_le_bytes());
                for (partition, expected) in partitions {
                    out.extend_from_slice(&partition.0.to_le_bytes());
                    out.extend_from_slice(&expected.0.to_le_bytes());
                }
            }
            Edit::Drop(expected) => {
                out.push(DROP);
                out.extend_from_slice(&expected.0.to_le_bytes());
            }
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (array, rest) = self.0.split_first_chunk::<N>().ok_or(DecodeError::Truncated)?;
        self.0 = rest;
        Ok(*array)
    }

    fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    fn version(&mut self) -> Result<Version, DecodeError> {
        let version = self.u64()?;
        if version < VERSIONS { Ok(Version(version)) } else { Err(DecodeError::Content("version too large")) }
    }

    /// A number of items that follow, each at least `size` bytes: a number that the remaining bytes cannot hold is an
    /// error.
    fn count(&mut self, size: usize) -> Result<usize, DecodeError> {
        let count = self.u32()? as usize;
        if count <= self.0.len() / size {
            Ok(count)
        } else {
            Err(DecodeError::Content("a count larger than the record"))
        }
    }

    fn changes(&mut self) -> Result<Changes, DecodeError> {
        let mut changes = Changes::default();
        let mut last = None;
        for _ in 0..self.count(13)? {
            let table = TableId(self.u32()?);
            if last.replace(table) >= Some(table) {
                return Err(DecodeError::Content("tables out of order"));
            }
            let [kind] = self.array()?;
            let edit = match kind {
                CREATE => Edit::Create(self.state()?),
                ADVANCE => Edit::Advance(self.advance()?),
                DROP => Edit::Drop(self.version()?),
                _ => return Err(DecodeError::Content("an unknown kind of edit")),
            };
            changes.set(table, edit);
        }
        if self.0.is_empty() { Ok(changes) } else { Err(DecodeError::Content("bytes left over")) }
    }

    fn state(&mut self) -> Result<TableState, DecodeError> {
        let (version, metadata) = (self.version()?, MetadataId(self.u64()?));
        let count = self.count(8)?;
        let partitions = (0..count).map(|_| self.version()).collect::<Result<PartitionVersions, _>>()?;
        if partitions.is_empty() {
            return Err(DecodeError::Content("a table without partitions"));
        }
        Ok(TableState { version, metadata, partitions })
    }

    fn advance(&mut self) -> Result<Advance, DecodeError> {
        let metadata = MetadataId(self.u64()?);
        let count = self.count(12)?;
        let mut partitions = SmallVec::with_capacity(count);
        for _ in 0..count {
            let partition = (PartitionId(self.u32()?), self.version()?);
            if partitions.last().is_some_and(|(last, _): &(PartitionId, Version)| *last >= partition.0) {
                return Err(DecodeError::Content("partitions out of order"));
            }
            partitions.push(partition);
        }
        if partitions.is_empty() {
            return Err(DecodeError::Content("an advance of no partition"));
        }
        Ok(Advance { metadata, partitions })
    }
}

#[cfg(test)]
mod tests;
