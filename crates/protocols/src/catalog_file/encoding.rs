//! The bytes of a catalog file, format version 1; the layout is in `docs/protocols/catalog-file.md`.

use bytes::Bytes;
use glidepath_model::{Changes, CommitId, Edit, MetadataId, PartitionVersions, Root, TableId, TableState, Version};

use crate::wire::{CHECKSUM, DecodeError, Frame, HEAD, Reader, put_checksum, put_varint, varint_length};

/// How many commits back a root can tell whose they were.
pub const LINEAGE: usize = 32;

const FRAME: Frame = Frame { magic: *b"GPCF", format: 1, known_flags: 0, name: "a catalog file" };

/// A root and its lineage: all that a catalog file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct File {
    root: Root,
    /// Commits of the versions that lead to the root, newest first, the root's own included.
    lineage: [CommitId; LINEAGE],
    known: usize,
    /// Of the tables in the encoded file, in bytes.
    tables_length: usize,
}

impl File {
    /// The first root of a catalog.
    #[must_use]
    pub fn first(root: Root) -> Self {
        let mut lineage = [CommitId(0); LINEAGE];
        lineage[0] = root.commit;
        let tables_length = tables_length(&root);
        Self { root, lineage, known: 1, tables_length }
    }

    /// The file that replaces this one, with the next root, whose tables have this length.
    #[must_use]
    pub(crate) fn followed_by(&self, root: Root, tables_length: usize) -> Self {
        let mut lineage = [root.commit; LINEAGE];
        lineage[1..].copy_from_slice(&self.lineage[..LINEAGE - 1]);
        Self { root, lineage, known: (self.known + 1).min(LINEAGE), tables_length }
    }

    /// The catalog.
    #[must_use]
    pub fn root(&self) -> &Root {
        &self.root
    }

    /// Whose commit made a version; `None` if that is too long ago, or still to come.
    #[must_use]
    pub fn commit_at(&self, version: Version) -> Option<CommitId> {
        let back = self.root.version.0.checked_sub(version.0)?;
        self.lineage[..self.known].get(usize::try_from(back).ok()?).copied()
    }

    /// The commits of the versions before the root's, newest first, as many as a file has room for beside the root's own.
    fn older(&self) -> &[CommitId] {
        &self.lineage[1..self.known]
    }

    /// The bytes of this file.
    #[must_use]
    pub fn encode(&self) -> Bytes {
        Draft { root: &self.root, older: self.older(), tables_length: self.tables_length }.encode()
    }

    /// The file that would follow this one with the next root, whose tables have this length.
    pub(crate) fn draft<'a>(&'a self, root: &'a Root, tables_length: usize) -> Draft<'a> {
        Draft { root, older: self.older_of_next(), tables_length }
    }

    /// How many tables there are after these changes, which apply to the root, and the length of the encoded tables then.
    pub(crate) fn tables_after(&self, changes: &Changes) -> (usize, usize) {
        changes.edits().iter().fold((self.root.table_count(), self.tables_length), |(tables, length), change| {
            let (id, before) = (change.table, self.root.table(change.table));
            match (&change.edit, before) {
                (Edit::Create(state), _) => (tables + 1, length + table_length(id, state)),
                (Edit::Drop(_), Some(state)) => (tables - 1, length - table_length(id, state)),
                (Edit::Advance(advance), Some(state)) => {
                    let seen = advance.partitions.iter().map(|(_, version)| *version);
                    let moved = std::iter::once(state.version).chain(seen);
                    (tables, moved.fold(length, |length, version| length + longer_when_next(version)))
                }
                (_, None) => (tables, length),
            }
        })
    }

    /// The length of the file that would follow this one with so many tables of this length.
    pub(crate) fn draft_length(&self, tables: usize, tables_length: usize) -> usize {
        length(self.older_of_next().len(), tables, tables_length)
    }

    fn older_of_next(&self) -> &[CommitId] {
        &self.lineage[..self.known.min(LINEAGE - 1)]
    }

    /// Reads a file; what follows it in the object is filler.
    ///
    /// # Errors
    /// [`DecodeError`] says what is wrong; no input panics, and none allocates more than a small multiple of its size.
    pub fn decode(object: &[u8]) -> Result<Self, DecodeError> {
        let (_, content) = FRAME.open(object)?;
        decode_content(content)
    }
}

/// A file that is not there yet: a root, and the commits before it, newest first.
#[derive(Clone, Copy)]
pub(crate) struct Draft<'a> {
    root: &'a Root,
    older: &'a [CommitId],
    tables_length: usize,
}

impl<'a> Draft<'a> {
    /// The first file of a catalog.
    pub(crate) fn first(root: &'a Root) -> Self {
        Self { root, older: &[], tables_length: tables_length(root) }
    }

    pub(crate) fn encode(&self) -> Bytes {
        // Exactly as long as needed: then it becomes `Bytes` as it is.
        let length = self.length();
        let Self { root, older, .. } = *self;
        let mut out = FRAME.begin(0, length);
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
            put_varint(&mut out, state.version.0);
            out.extend_from_slice(&state.metadata.0.to_le_bytes());
            put_varint(&mut out, state.partitions.len() as u64);
            for version in &state.partitions {
                put_varint(&mut out, version.0);
            }
        }
        put_checksum(&mut out);
        debug_assert_eq!(out.len(), length);
        out.into()
    }

    pub(crate) fn tables(&self) -> usize {
        self.root.table_count()
    }

    /// Of the encoded file, in bytes.
    pub(crate) fn length(&self) -> usize {
        length(self.older.len(), self.tables(), self.tables_length)
    }
}

/// Of an encoded file with so many older commits and tables, in bytes.
fn length(older: usize, tables: usize, tables_length: usize) -> usize {
    HEAD + 8 + 1 + 8 * (older + 1) + varint_length(tables as u64) + tables_length + CHECKSUM
}

/// Of the tables in an encoded file, in bytes.
pub(crate) fn tables_length(root: &Root) -> usize {
    root.tables().map(|(id, state)| table_length(*id, state)).sum()
}

/// How many bytes more the next version takes.
fn longer_when_next(version: Version) -> usize {
    varint_length(version.next().0) - varint_length(version.0)
}

fn table_length(id: TableId, state: &TableState) -> usize {
    let partitions: usize = state.partitions.iter().map(|version| varint_length(version.0)).sum();
    let count = varint_length(state.partitions.len() as u64);
    varint_length(u64::from(id.0)) + varint_length(state.version.0) + 8 + count + partitions
}

fn decode_content(content: &[u8]) -> Result<File, DecodeError> {
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
    reader.end()?;
    let root = Root::from_parts(version, lineage[0], tables);
    let root = root.ok_or(DecodeError::Content("tables out of order or without partitions"))?;
    let tables_length = tables_length(&root);
    Ok(File { root, lineage, known, tables_length })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn files() -> impl Strategy<Value = File> {
        let table = (any::<u64>(), any::<u64>(), prop::collection::vec(any::<u64>(), 1..4));
        let tables = prop::collection::btree_map(any::<u32>(), table, 0..20);
        let commits = prop::collection::vec(any::<u64>(), 1..80);
        (0..u64::MAX - 100, commits, tables).prop_map(|(version, commits, tables)| {
            let tables: Vec<_> = tables
                .into_iter()
                .map(|(id, (version, metadata, partitions))| {
                    let partitions = partitions.into_iter().map(Version).collect();
                    let (version, metadata) = (Version(version), MetadataId(metadata));
                    (TableId(id), TableState { version, metadata, partitions })
                })
                .collect();
            let root =
                |n: usize| Root::from_parts(Version(version + n as u64), CommitId(commits[n]), tables.clone()).unwrap();
            (1..commits.len()).fold(File::first(root(0)), |file, n| file.followed_by(root(n), tables_length(&root(n))))
        })
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(file in files(), filler in 0_usize..40) {
            let mut object = file.encode().to_vec();
            object.resize(object.len() + filler, 0);
            prop_assert_eq!(File::decode(&object), Ok(file));
        }

        #[test]
        fn a_changed_bit_is_noticed(file in files(), place in any::<prop::sample::Index>(), bit in 0_u8..8) {
            let mut bytes = file.encode().to_vec();
            let place = place.index(bytes.len());
            bytes[place] ^= 1 << bit;
            prop_assert!(File::decode(&bytes).is_err());
        }

        #[test]
        fn a_shortened_file_is_noticed(file in files(), place in any::<prop::sample::Index>()) {
            let bytes = file.encode();
            let cut = place.index(bytes.len());
            prop_assert!(File::decode(&bytes[..cut]).is_err());
        }

        /// Arbitrary content behind a valid header and checksum: what a faulty writer could make.
        #[test]
        fn nonsense_is_refused_without_panic(content in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut bytes = FRAME.begin(0, HEAD + content.len() + CHECKSUM);
            bytes.extend_from_slice(&content);
            put_checksum(&mut bytes);
            if let Ok(file) = File::decode(&bytes) {
                // Varints have longer spellings; what was understood must mean the same when written again.
                prop_assert_eq!(File::decode(&file.encode()), Ok(file));
            }
            prop_assert!(File::decode(&content).is_err());
        }
    }

    #[test]
    fn newer_formats_and_features_are_refused_by_name() {
        let root = Root::from_parts(Version(0), CommitId(1), Vec::new()).unwrap();
        let bytes = File::first(root).encode();
        let with = |place: usize, value: u8| {
            let mut bytes = bytes.to_vec();
            bytes[place] = value;
            File::decode(&bytes).unwrap_err()
        };
        assert_eq!(with(4, 2), DecodeError::Format { found: 2, known: 1 });
        assert_eq!(with(6, 4), DecodeError::Features { found: 4 });
        assert_eq!(with(0, b'X'), DecodeError::OtherKind { expected: "a catalog file" });
    }
}
