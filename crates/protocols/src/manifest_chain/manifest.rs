//! The content of a version's object.

use bytes::Bytes;
use glidepath_env::Key;
use glidepath_model::{CommitId, Field, Version};

use super::page::{Home, PageRef};
use crate::entry;
use crate::mutant::{self, Mutant};
use crate::wire::{CHECKSUM, DecodeError, Frame, HEAD, Reader, put_checksum};

const FRAME: Frame =
    Frame { magic: *b"GPMC", format: 1, known_flags: INDEXED | WHOLE | CHECKED, name: "a version of a manifest chain" };

/// Feature flag: the tree has the indices by type and by base object, and every writer must keep them.
const INDEXED: u16 = 1;

/// Feature flag: the catalog has the layout [`Layout::Whole`], with blocks of columns for leaves.
const WHOLE: u16 = 2;

/// Feature flag: references to pages may have the checksum of the page. All that are written now have it.
const CHECKED: u16 = 4;

/// How a chain stores its entries. Chosen when it is created; cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Layout {
    /// An ordered tree of small pages: a commit writes the pages that it changes.
    #[default]
    Paged,
    /// One file of columns: each commit rewrites it.
    Whole,
}

impl Layout {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Paged, Self::Whole];

    /// As written on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Paged => "paged",
            Self::Whole => "whole",
        }
    }
}

/// One version of a catalog. New pages follow its frame in the same object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Manifest {
    pub(crate) version: Version,
    pub(crate) commit: CommitId,
    /// The commit of the version before; 0 for the first.
    pub(crate) before: CommitId,
    /// Versions before this one may have been vacuumed.
    pub(crate) oldest: Version,
    /// When it was written, by the writer's clock, in milliseconds since 1970.
    pub(crate) written_ms: u64,
    /// The number of entries.
    pub(crate) entries: u64,
    pub(crate) indexed: bool,
    pub(crate) layout: Layout,
    /// `None` if there is no entry.
    pub(crate) root: Option<PageRef>,
    /// Fields that a newer version of Glidepath added, kept in later versions.
    pub(crate) unknown: Vec<Field>,
}

impl Manifest {
    /// The frame.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut content = Vec::new();
        let numbers = [self.version.0, self.commit.0, self.before.0, self.oldest.0, self.written_ms, self.entries];
        for number in numbers {
            content.extend_from_slice(&number.to_le_bytes());
        }
        content.push(u8::from(self.root.is_some()));
        if let Some(root) = self.root {
            root.encode(&mut content);
        }
        content.extend_from_slice(&entry::encode_fields(&self.unknown));
        let indexed = if self.indexed { INDEXED } else { 0 };
        let whole = if self.layout == Layout::Whole { WHOLE } else { 0 };
        let mut out = FRAME.begin(indexed | whole | CHECKED, HEAD + content.len() + CHECKSUM);
        out.extend_from_slice(&content);
        put_checksum(&mut out);
        out
    }

    /// Decodes the frame at the beginning of an object.
    pub(crate) fn decode(object: &Bytes) -> Result<Self, DecodeError> {
        let (flags, content) = FRAME.open(object)?;
        let mut reader = Reader(content);
        let (version, commit) = (Version(reader.u64()?), CommitId(reader.u64()?));
        let (before, oldest) = (CommitId(reader.u64()?), Version(reader.u64()?));
        let (written_ms, entries) = (reader.u64()?, reader.u64()?);
        let root = match reader.array::<1>()?[0] {
            0 => None,
            1 => Some(PageRef::decode(&mut reader)?),
            _ => return Err(DecodeError::Content("a byte that should be 0 (no root) or 1 (root)")),
        };
        let unknown = entry::decode_fields(reader.0)?;
        let indexed = flags & INDEXED != 0;
        let layout = if flags & WHOLE == 0 { Layout::Paged } else { Layout::Whole };
        Ok(Self { version, commit, before, oldest, written_ms, entries, indexed, layout, root, unknown })
    }
}

/// The keys of a chain's objects, below its prefix.
#[derive(Clone, Debug)]
pub(crate) struct Keys(String);

impl Keys {
    /// `prefix` is empty or ends in `/`.
    pub(crate) fn below(prefix: &str) -> Self {
        Self(prefix.to_owned())
    }

    /// The number is subtracted from the greatest one, so that a listing begins with the newest version.
    pub(crate) fn version(&self, version: Version) -> Key {
        Key::new(&format!("{}versions/{:016x}", self.0, u64::MAX - version.0))
    }

    pub(crate) fn versions(&self) -> Key {
        Key::new(&format!("{}versions/", self.0))
    }

    /// The version whose object has this key; `None` for any other key, however similar.
    pub(crate) fn version_in(&self, key: &Key) -> Option<Version> {
        let digits = key.as_str().strip_prefix(self.versions().as_str())?;
        let version = Version(u64::MAX - u64::from_str_radix(digits, 16).ok()?);
        // There is one after each.
        (version.0 < u64::MAX && is_exactly(key, &self.version(version))).then_some(version)
    }

    pub(crate) fn packs(&self) -> Key {
        Key::new(&format!("{}packs/", self.0))
    }

    /// The pack with this key; `None` for any other key, however similar: a vacuum deletes packs.
    pub(crate) fn pack_in(&self, key: &Key) -> Option<Home> {
        let mut parts = key.as_str().strip_prefix(self.packs().as_str())?.split('-');
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        let (version, commit, number) = (number()?, number()?, number()?);
        let home = Home::Pack { version, commit, number: u32::try_from(number).ok()? };
        is_exactly(key, &self.home(home)).then_some(home)
    }

    pub(crate) fn hint(&self) -> Key {
        Key::new(&format!("{}hint", self.0))
    }

    pub(crate) fn home(&self, home: Home) -> Key {
        match home {
            Home::Version(version) => self.version(Version(version)),
            Home::Pack { version, commit, number } => {
                Key::new(&format!("{}packs/{version:016x}-{commit:016x}-{number:04x}", self.0))
            }
        }
    }
}

fn is_exactly(key: &Key, ours: &Key) -> bool {
    key == ours || mutant::is(Mutant::SimilarIsOurs)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn manifests() -> impl Strategy<Value = Manifest> {
        let homes = prop_oneof![
            any::<u64>().prop_map(Home::Version),
            any::<(u64, u64, u32)>().prop_map(|(version, commit, number)| Home::Pack { version, commit, number }),
        ];
        let numbers = (any::<bool>(), any::<u32>(), any::<u32>(), any::<Option<u32>>());
        let root = (homes, numbers).prop_map(|(home, (leaf, offset, length, checksum))| PageRef {
            home,
            leaf,
            offset,
            length,
            checksum,
        });
        let root = prop::option::of(root);
        let unknown = prop::collection::vec((1_u64..99, prop::collection::vec(any::<u8>(), 0..9)), 0..3);
        let features = (any::<bool>(), prop::sample::select(Layout::ALL.to_vec()));
        (any::<[u64; 6]>(), features, root, unknown).prop_map(|(numbers, (indexed, layout), root, unknown)| Manifest {
            version: Version(numbers[0]),
            commit: CommitId(numbers[1]),
            before: CommitId(numbers[2]),
            oldest: Version(numbers[3]),
            written_ms: numbers[4],
            entries: numbers[5],
            indexed,
            layout,
            root,
            unknown: unknown.into_iter().map(|(tag, bytes)| Field { tag, bytes }).collect(),
        })
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(manifest in manifests(), behind in prop::collection::vec(any::<u8>(), 0..9)) {
            let mut object = manifest.encode();
            object.extend_from_slice(&behind);
            prop_assert_eq!(Manifest::decode(&object.into()), Ok(manifest));
        }

        #[test]
        fn damage_and_nonsense_are_refused(
            manifest in manifests(),
            place in any::<prop::sample::Index>(),
            bit in 0_u8..8,
            content in prop::collection::vec(any::<u8>(), 0..99),
        ) {
            let mut object = manifest.encode();
            let place = place.index(object.len());
            object[place] ^= 1 << bit;
            prop_assert!(Manifest::decode(&object.into()).is_err());
            let mut nonsense = FRAME.begin(0, HEAD + content.len() + CHECKSUM);
            nonsense.extend_from_slice(&content);
            put_checksum(&mut nonsense);
            let _ = Manifest::decode(&nonsense.into());
        }

        #[test]
        fn keys_say_what_they_name(version in 0..u64::MAX, commit in any::<u64>(), number in any::<u32>()) {
            let keys = Keys::below("here/");
            prop_assert_eq!(keys.version_in(&keys.version(Version(version))), Some(Version(version)));
            let pack = Home::Pack { version, commit, number };
            prop_assert_eq!(keys.pack_in(&keys.home(pack)), Some(pack));
        }

        #[test]
        fn similar_keys_name_nothing(text in "[-+0-9a-fA-F/.]{0,40}") {
            let keys = Keys::below("here/");
            for (folder, version) in [(keys.versions(), true), (keys.packs(), false)] {
                let key = Key::new(&format!("{}{text}", folder.as_str()));
                let named = match version {
                    true => keys.version_in(&key).map(|version| keys.version(version)),
                    false => keys.pack_in(&key).map(|pack| keys.home(pack)),
                };
                prop_assert!(named.is_none_or(|named| named == key), "{:?}", key);
            }
        }
    }

    #[test]
    fn keys_that_are_nearly_ours_are_not() {
        let keys = Keys::below("");
        for foreign in
            ["1-2-3-notes.txt", "01-02-03", "1-2-3", "1-2-3-old/anything", "+000000000000001-0000000000000002-0003"]
        {
            assert_eq!(keys.pack_in(&Key::new(&format!("packs/{foreign}"))), None, "{foreign}");
        }
        for foreign in ["FFFFFFFFFFFFFFF1", "+000000000000001", "fffffffffffffff1/x", "0000000000000000"] {
            assert_eq!(keys.version_in(&Key::new(&format!("versions/{foreign}"))), None, "{foreign}");
        }
    }
}
