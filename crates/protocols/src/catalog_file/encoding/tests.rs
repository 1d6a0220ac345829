use glidepath_model::Entry;
use proptest::prelude::*;

use super::*;
use crate::entry::tests::trees;

fn files() -> impl Strategy<Value = File> {
    let table = (any::<u64>(), any::<u64>(), prop::collection::vec(any::<u64>(), 1..4));
    let tables = prop::collection::btree_map(any::<u32>(), table, 0..20);
    let commits = prop::collection::vec(any::<u64>(), 1..80);
    (0..u64::MAX - 100, commits, tables, trees()).prop_map(|(version, commits, tables, entries)| {
        let tables: Vec<_> = tables
            .into_iter()
            .filter(|(id, _)| entries.get(&Name::numbered(TableId(*id))).is_none())
            .map(|(id, (version, metadata, partitions))| {
                let partitions = partitions.into_iter().map(Version).collect();
                let (version, metadata) = (Version(version), MetadataId(metadata));
                (TableId(id), TableState { version, metadata, partitions })
            })
            .collect();
        let root = |n: usize| {
            let root = Root::from_parts(Version(version + n as u64), CommitId(commits[n]), tables.clone()).unwrap();
            root.with_entries(entries.clone()).unwrap()
        };
        (1..commits.len()).fold(File::first(root(0)), |file, n| file.followed_by(root(n), Size::of(&root(n))))
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

    /// Close enough to valid input that the decoder sometimes reads to the end.
    #[test]
    fn small_lies_are_refused_without_panic(
        file in files(), place in any::<prop::sample::Index>(), byte in any::<u8>()
    ) {
        let mut bytes = file.encode().to_vec();
        let end = bytes.len() - CHECKSUM;
        let place = HEAD + place.index(end - HEAD);
        bytes[place] = byte;
        let checksum = crc32fast::hash(&bytes[..end]);
        bytes[end..].copy_from_slice(&checksum.to_le_bytes());
        if let Ok(file) = File::decode(&bytes) {
            prop_assert_eq!(File::decode(&file.encode()), Ok(file));
        }
    }

    /// Arbitrary content after a valid header and checksum: what a faulty writer could make.
    #[test]
    fn nonsense_is_refused_without_panic(content in prop::collection::vec(any::<u8>(), 0..200), flags in 0..=ENTRIES) {
        let mut bytes = FRAME.begin(flags, HEAD + content.len() + CHECKSUM);
        bytes.extend_from_slice(&content);
        put_checksum(&mut bytes);
        if let Ok(file) = File::decode(&bytes) {
            // A varint may have longer encodings; a decoded file must mean the same after it is encoded again.
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

/// Catalogs without entries are encoded as before entries existed, byte for byte.
#[test]
fn a_catalog_of_numbers_has_no_flag_and_no_section() {
    let tables = vec![(TableId(1), TableState::new(1)), (TableId(300), TableState::new(2))];
    let bytes = File::first(Root::from_parts(Version(5), CommitId(9), tables).unwrap()).encode();
    let content = [
        &b"GPCF\x01\0\0\0\x3c\0\0\0"[..],
        &[5, 0, 0, 0, 0, 0, 0, 0, 1, 9, 0, 0, 0, 0, 0, 0, 0],
        &[2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0],
        &[0xac, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0],
    ]
    .concat();
    assert_eq!(bytes[..bytes.len() - CHECKSUM], content);
}

#[test]
fn entries_must_make_a_tree() {
    let written = |entries: &[(&str, Entry)], flags: u16| {
        let mut content = File::first(Root::empty()).encode()[HEAD..].to_vec();
        content.truncate(content.len() - CHECKSUM);
        if flags != 0 {
            put_varint(&mut content, entries.len() as u64);
        }
        for (name, entry) in entries {
            put_bytes(&mut content, name.as_bytes());
            put_bytes(&mut content, &entry::encode(entry));
        }
        let mut bytes = FRAME.begin(flags, HEAD + content.len() + CHECKSUM);
        bytes.extend(content);
        put_checksum(&mut bytes);
        File::decode(&bytes).map(|file| file.root().entries().len())
    };
    let wrong = |entries: &[(&str, Entry)], flags| matches!(written(entries, flags), Err(DecodeError::Content(_)));
    let space = Entry::namespace;
    let table = || Entry::table(None, TableState::new(1));
    assert_eq!(written(&[("a", space()), ("a/b", table())], ENTRIES), Ok(2));
    assert_eq!(written(&[], 0), Ok(0));
    assert!(wrong(&[("a", space())], 0), "no flag");
    assert!(wrong(&[], ENTRIES), "none");
    assert!(wrong(&[("a/b", table())], ENTRIES), "no parent");
    assert!(wrong(&[("b", space()), ("a", space())], ENTRIES), "out of order");
    assert!(wrong(&[("a", space()), ("a", space())], ENTRIES), "twice");
    assert!(wrong(&[("t00000001", table())], ENTRIES), "a table that is kept as a number");
    assert!(wrong(&[("a//b", space())], ENTRIES), "an invalid name");
}
