use glidepath_model::{Assertion, Entry, Kind, Name};
use proptest::prelude::*;

use super::*;
use crate::entry::tests::entries;

fn versions() -> impl Strategy<Value = Version> {
    (0..VERSIONS).prop_map(Version)
}

fn edits() -> impl Strategy<Value = Edit> {
    let state = (versions(), any::<u64>(), prop::collection::vec(versions(), 1..4));
    let advance = (any::<u64>(), prop::collection::btree_map(any::<u32>(), versions(), 1..4));
    prop_oneof![
        state.prop_map(|(version, metadata, partitions)| {
            Edit::Create(TableState { version, metadata: MetadataId(metadata), partitions: partitions.into() })
        }),
        advance.prop_map(|(metadata, partitions)| {
            let partitions = partitions.into_iter().map(|(id, version)| (PartitionId(id), version)).collect();
            Edit::Advance(Advance { metadata: MetadataId(metadata), partitions })
        }),
        versions().prop_map(Edit::Drop),
    ]
}

fn records() -> impl Strategy<Value = Record> {
    let changes = prop::collection::btree_map(any::<u32>(), edits(), 0..6).prop_map(|edits| {
        let mut changes = Changes::default();
        edits.into_iter().for_each(|(table, edit)| changes.set(TableId(table), edit));
        changes
    });
    let actions = prop::collection::vec(any_action(), 0..4);
    let intent = prop_oneof![changes.prop_map(Intent::Changes), actions.prop_map(Intent::Actions)];
    (any::<u64>(), any::<bool>(), prop::option::of(intent)).prop_map(|(commit, closes, intent)| Record {
        commit: CommitId(commit),
        closes,
        intent,
    })
}

fn any_name() -> impl Strategy<Value = Name> {
    prop::collection::vec("[a-c%/]{1,3}", 1..3)
        .prop_map(|parts| Name::of_parts(parts.iter().map(String::as_str)).unwrap())
}

fn any_action() -> impl Strategy<Value = Action> {
    let entry = entries().prop_map(|mut entry| {
        let state = entry.state.as_mut();
        state.into_iter().for_each(|state| {
            state.version.0 %= VERSIONS;
            state.partitions.iter_mut().for_each(|version| version.0 %= VERSIONS);
        });
        entry
    });
    let kind = prop::sample::select(Kind::ALL.to_vec());
    let advance = edits().prop_filter_map("an advance", |edit| match edit {
        Edit::Advance(advance) => Some(advance),
        _ => None,
    });
    let properties = prop::collection::btree_map(".{0,3}", prop::option::of(".{0,3}"), 0..3);
    let text = || prop::option::of(".{0,5}");
    let assertion = prop_oneof![
        kind.clone().prop_map(Assertion::Exists),
        Just(Assertion::Absent),
        text().prop_map(Assertion::Pointer),
        versions().prop_map(Assertion::Version),
        ("[a-z.]{0,9}", text()).prop_map(|(key, value)| Assertion::Property { key, value }),
    ];
    prop_oneof![
        (any_name(), text(), ".{0,5}").prop_map(|(name, expected, pointer)| Action::SetPointer {
            name,
            expected,
            pointer
        }),
        (any_name(), assertion).prop_map(|(name, holds)| Action::Assert { name, holds }),
        (any_name(), entry).prop_map(|(name, entry)| Action::Create { name, entry }),
        (any_name(), kind, prop::option::of(versions())).prop_map(|(name, kind, expected)| Action::Drop {
            name,
            kind,
            expected
        }),
        any_name().prop_map(|name| Action::DropAll { name }),
        (any_name(), any_name()).prop_map(|(from, to)| Action::Rename { from, to }),
        (any_name(), properties).prop_map(|(name, changes)| Action::SetProperties { name, changes }),
        (any_name(), advance).prop_map(|(name, advance)| Action::Advance { name, advance }),
    ]
}

/// A correctly framed record of any kind, flags and content: what a faulty or newer writer could make.
fn framed(kind: u8, flags: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = ((FRAME + content.len()) as u32).to_le_bytes().to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(7_u64.to_le_bytes());
    bytes.extend(content);
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes
}

proptest! {
    #[test]
    fn what_was_written_is_read(record in records(), behind in prop::collection::vec(any::<u8>(), 0..40)) {
        let bytes = [record.encode(), behind.clone()].concat();
        prop_assert_eq!(Record::decode(&bytes), Ok((record, &behind[..])));
    }

    #[test]
    fn a_changed_bit_is_noticed(record in records(), place in any::<prop::sample::Index>(), bit in 0_u8..8) {
        let mut bytes = record.encode();
        let place = place.index(bytes.len());
        bytes[place] ^= 1 << bit;
        // Bytes after the record must not make a longer length valid.
        bytes.resize(bytes.len() + 300, 0);
        prop_assert!(Record::decode(&bytes).is_err());
    }

    #[test]
    fn a_torn_record_is_damage(record in records(), place in any::<prop::sample::Index>()) {
        let bytes = record.encode();
        let cut = place.index(bytes.len());
        prop_assert_eq!(Record::decode(&bytes[..cut]), Err(DecodeError::Truncated));
    }

    #[test]
    fn nonsense_is_refused_without_panic(
        kind in 0_u8..4, flags in 0_u8..8, content in prop::collection::vec(any::<u8>(), 0..200)
    ) {
        let bytes = framed(kind, flags, &content);
        if let Ok((record, rest)) = Record::decode(&bytes) {
            prop_assert!(rest.is_empty());
            let again = record.encode();
            prop_assert_eq!(Record::decode(&again), Ok((record, &[][..])));
        }
        let _ = Record::decode(&content);
        let _ = Header::decode(&content, 7);
        let _ = super::super::checkpoint::decode(7, &content);
        let _ = super::super::checkpoint::decode_hint(&content);
    }

    /// As above, but close enough to valid input that the decoder sometimes reads to the end.
    #[test]
    fn small_lies_are_refused_without_panic(
        record in records(), place in any::<prop::sample::Index>(), byte in any::<u8>()
    ) {
        let mut bytes = record.encode();
        let end = bytes.len() - CHECKSUM;
        let place = 4 + place.index(end - 4);
        bytes[place] = byte;
        let checksum = crc32fast::hash(&bytes[..end]);
        bytes[end..].copy_from_slice(&checksum.to_le_bytes());
        if let Ok((record, _)) = Record::decode(&bytes) {
            let again = record.encode();
            prop_assert_eq!(Record::decode(&again), Ok((record, &[][..])));
        }
    }
}

#[test]
fn unknown_kinds_are_passed_over_only_where_they_say_so() {
    let unknown = |flags| Record::decode(&framed(9, flags, b"from the future")).map(|(record, _)| record);
    assert_eq!(unknown(0), Err(DecodeError::Kind { found: 9 }));
    assert_eq!(unknown(CLOSES), Err(DecodeError::Kind { found: 9 }));
    assert_eq!(unknown(4 | SKIPPABLE), Err(DecodeError::Features { found: 4 }));
    let passed_over = Record { commit: CommitId(7), closes: true, intent: None };
    assert_eq!(unknown(CLOSES | SKIPPABLE), Ok(passed_over));
}

#[test]
fn headers_are_read_by_mark_format_features_and_number() {
    let bytes = Header::Segment.encode(5);
    let with = |place: usize, value: u8| {
        let mut bytes = bytes;
        bytes[place] = value;
        Header::decode(&bytes, 5).map(|(header, _)| header)
    };
    assert_eq!(with(0, b'G'), Ok(Header::Segment));
    assert_eq!(with(3, b'E'), Ok(Header::Emptied));
    assert_eq!(with(0, b'X'), Err(DecodeError::Foreign("a log segment")));
    assert_eq!(with(4, 2), Err(DecodeError::Format { found: 2 }));
    assert_eq!(with(6, 4), Err(DecodeError::Features { found: 4 }));
    assert_eq!(with(8, 6), Err(DecodeError::Content("its number differs from that in its key")));
    assert_eq!(Header::decode(&bytes[..15], 5), Err(DecodeError::Truncated));
}

/// Every later version must read the bytes that exist now.
#[test]
fn the_bytes_of_actions_on_views_and_pointers_are_these() {
    let name = || Name::parse("a").unwrap();
    let text = |text: &str| Some(text.to_owned());
    let set = |expected| Action::SetPointer { name: name(), expected, pointer: "m2".to_owned() };
    let assert = |holds| Action::Assert { name: name(), holds };
    let view = Entry { pointer: text("m"), ..Entry::view() };
    for (action, bytes) in [
        (Action::Create { name: name(), entry: view }, &b"\x01\x01a\x04\x02\x05\x01m"[..]),
        (Action::Drop { name: name(), kind: Kind::View, expected: None }, b"\x02\x01a\x02\0"),
        (set(None), b"\x07\x01a\0\x02m2"),
        (set(text("m")), b"\x07\x01a\x01\x01m\x02m2"),
        (assert(Assertion::Exists(Kind::View)), b"\x08\x01a\x01\x02"),
        (assert(Assertion::Absent), b"\x08\x01a\x02"),
        (assert(Assertion::Pointer(None)), b"\x08\x01a\x03\0"),
        (assert(Assertion::Pointer(text("m"))), b"\x08\x01a\x03\x01\x01m"),
        (assert(Assertion::Version(Version(300))), b"\x08\x01a\x04\xac\x02"),
        (assert(Assertion::Property { key: "k".to_owned(), value: None }), b"\x08\x01a\x05\x01k\0"),
        (assert(Assertion::Property { key: "k".to_owned(), value: text("v") }), b"\x08\x01a\x05\x01k\x01\x01v"),
    ] {
        let record = Record { commit: CommitId(7), closes: false, intent: Some(Intent::of(&[action])) };
        assert_eq!(record.encode(), framed(ACTIONS, 0, &[b"\x01", bytes].concat()), "{record:?}");
        assert_eq!(Record::decode(&record.encode()), Ok((record, &[][..])));
    }
    let nonsense = framed(ACTIONS, 0, b"\x01\x08\x01a\x06");
    assert_eq!(Record::decode(&nonsense).unwrap_err(), DecodeError::Content("an unknown kind of assertion"));
}
