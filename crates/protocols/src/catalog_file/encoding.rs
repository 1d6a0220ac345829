//! The bytes of a catalog file, format version 1; the layout is in `docs/protocols/catalog-file.md`.

use bytes::Bytes;
use glidepath_model::{
    Changes, CommitId, Entries, MetadataId, Name, PartitionVersions, Root, TableId, TableState, Version,
};

use super::size::Size;
use crate::entry;
use crate::wire::{CHECKSUM, DecodeError, Frame, HEAD, Reader, put_bytes, put_checksum, put_varint};

/// For how many past commits a file lists the commit id.
pub const LINEAGE: usize = 32;

const FRAME: Frame = Frame { magic: *b"GPCF", format: 1, known_flags: ENTRIES, name: "a catalog file" };

/// Feature flag: entries follow the tables, at least one.
const ENTRIES: u16 = 1;

/// A root and its lineage: all that a catalog file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    root: Root,
    /// Commit ids of the last versions, newest first, including the root's own.
    lineage: [CommitId; LINEAGE],
    known: usize,
    size: Size,
}

impl File {
    /// The first root of a catalog.
    #[must_use]
    pub fn first(root: Root) -> Self {
        let mut lineage = [CommitId(0); LINEAGE];
        lineage[0] = root.commit;
        let size = Size::of(&root);
        Self { root, lineage, known: 1, size }
    }

    /// The file that follows this one, with the next root, which has this size.
    #[must_use]
    pub(crate) fn followed_by(&self, root: Root, size: Size) -> Self {
        let mut lineage = [root.commit; LINEAGE];
        lineage[1..].copy_from_slice(&self.lineage[..LINEAGE - 1]);
        Self { root, lineage, known: (self.known + 1).min(LINEAGE), size }
    }

    /// The catalog.
    #[must_use]
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// The commit that made a version; `None` if that is too long ago or not made yet.
    #[must_use]
    pub fn commit_at(&self, version: Version) -> Option<CommitId> {
        let back = self.root.version.0.checked_sub(version.0)?;
        self.lineage[..self.known].get(usize::try_from(back).ok()?).copied()
    }

    /// The commits before the root's own, newest first, as many as the next file has room for.
    fn older(&self) -> &[CommitId] {
        &self.lineage[1..self.known]
    }

    /// The bytes of this file.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        Draft { root: &self.root, older: self.older(), size: self.size }.encode()
    }

    /// The file that would follow this one with the next root, which has this size.
    pub(crate) fn draft<'a>(&'a self, root: &'a Root, size: Size) -> Draft<'a> {
        Draft { root, older: self.older_of_next(), size }
    }

    /// The size after these changes, which apply to the root.
    #[inline]
    pub(crate) fn size_after(&self, changes: &Changes) -> Size {
        self.size.after(&self.root, changes)
    }

    /// The length of the file that would follow this one with a root of this size.
    pub(crate) fn draft_length(&self, size: Size) -> usize {
        length(self.older_of_next().len(), size)
    }

    fn older_of_next(&self) -> &[CommitId] {
        &self.lineage[..self.known.min(LINEAGE - 1)]
    }

    /// Decodes a file; the bytes after it in the object are filler.
    ///
    /// # Errors
    /// [`DecodeError`] says what is wrong. No input makes it panic or allocate more than a small multiple of the
    /// input's size.
    pub fn decode(object: &[u8]) -> Result<Self, DecodeError> {
        let (flags, content) = FRAME.open(object)?;
        decode_content(content, flags & ENTRIES != 0)
    }
}

/// A file that is not written yet: a root, and the commits before it, newest first.
#[derive(Clone, Copy)]
pub(crate) struct Draft<'a> {
    root: &'a Root,
    older: &'a [CommitId],
    size: Size,
}

impl<'a> Draft<'a> {
    /// The first file of a catalog.
    pub(crate) fn first(root: &'a Root) -> Self {
        Self { root, older: &[], size: Size::of(root) }
    }

    pub(crate) fn encode(&self) -> Bytes {
        // Of the exact length, so that it becomes `Bytes` without a copy.
        let length = self.length();
        let Self { root, older, .. } = *self;
        let mut out = FRAME.begin(if root.entries().is_empty() { 0 } else { ENTRIES }, length);
        out.extend_from_slice(&root.version.0.to_le_bytes());
        out.push(older.len() as u8 + 1);
        out.extend_from_slice(&root.commit.0.to_le_bytes());
        let lineage = out.len();
        out.resize(lineage + 8 * older.len(), 0);
        for (bytes, commit) in out[lineage..].chunks_exact_mut(8).zip(older) {
            bytes.copy_from_slice(&commit.0.to_le_bytes());
        }
        put_varint(&mut out, root.table_count() as u64);
        for (id, state) in root.tables() {
            put_varint(&mut out, u64::from(id.0));
            entry::put_state(&mut out, state);
        }
        if !root.entries().is_empty() {
            put_entries(&mut out, root.entries());
        }
        put_checksum(&mut out);
        debug_assert_eq!(out.len(), length);
        out.into()
    }

    pub(crate) fn tables(&self) -> usize {
        self.root.table_count()
    }

    /// The length of the encoded file, in bytes.
    pub(crate) fn length(&self) -> usize {
        length(self.older.len(), self.size)
    }
}

/// The length of an encoded file with this many older commits, in bytes.
fn length(older: usize, size: Size) -> usize {
    HEAD + 8 + 1 + 8 * (older + 1) + size.bytes() + CHECKSUM
}

fn put_entries(out: &mut Vec<u8>, entries: &Entries) {
    put_varint(out, entries.len() as u64);
    let mut encoded = Vec::new();
    for (name, entry) in entries.iter() {
        put_bytes(out, name.as_str().as_bytes());
        encoded.clear();
        entry::put(&mut encoded, entry);
        put_bytes(out, &encoded);
    }
}

fn decode_content(content: &[u8], with_entries: bool) -> Result<File, DecodeError> {
    let mut reader = Reader(content);
    let version = Version(reader.u64()?);
    let known = usize::from(reader.array::<1>()?[0]);
    let mut lineage = [CommitId(0); LINEAGE];
    let commits = lineage.get_mut(..known).ok_or(DecodeError::Content("lineage too long"))?;
    for commit in commits {
        *commit = CommitId(reader.u64()?);
    }
    if known == 0 {
        return Err(DecodeError::Content("no lineage"));
    }
    let count = reader.count()?;
    let mut tables = Vec::with_capacity(count);
    for _ in 0..count {
        let id = u32::try_from(reader.varint()?).map_err(|_| DecodeError::Content("table id too large"))?;
        let table_version = Version(reader.varint()?);
        let metadata = MetadataId(reader.u64()?);
        let partitions =
            (0..reader.count()?).map(|_| reader.varint().map(Version)).collect::<Result<PartitionVersions, _>>()?;
        tables.push((TableId(id), TableState { version: table_version, metadata, partitions }));
    }
    let root = Root::from_parts(version, lineage[0], tables);
    let mut root = root.ok_or(DecodeError::Content("tables out of order or without partitions"))?;
    if with_entries {
        let whole = root.with_entries(decode_entries(&mut reader)?);
        root = whole.ok_or(DecodeError::Content("a table and an entry of one name"))?;
    }
    reader.end()?;
    let size = Size::of(&root);
    Ok(File { root, lineage, known, size })
}

fn decode_entries(reader: &mut Reader<'_>) -> Result<Entries, DecodeError> {
    let count = reader.count()?;
    let mut entries = Vec::new();
    for _ in 0..count {
        let name = Name::parse(reader.text()?).map_err(|_| DecodeError::Content("invalid name"))?;
        entries.push((name, entry::decode(reader.bytes()?)?));
    }
    let entries = Entries::new(entries).filter(|entries| !entries.is_empty());
    entries.ok_or(DecodeError::Content("entries out of order, without parents, or none"))
}

#[cfg(test)]
mod tests;
