use proptest::prelude::*;

use super::*;
use crate::manifest_chain::page::{Page, check_block, encode_block};
use crate::wire::put_checksum;
use glidepath_model::{Field as Kept, Kind};

fn entries() -> impl Strategy<Value = Bytes> {
    let state = prop::option::of((any::<u64>(), any::<u64>(), prop::collection::vec(any::<u64>(), 1..4)));
    let properties = prop::collection::btree_map(".{0,5}", ".{0,40}", 0..4);
    let names = prop::collection::vec("[a-z]{1,6}", 0..3);
    let unknown = prop::collection::vec((0_u64..99, prop::collection::vec(any::<u8>(), 0..9)), 0..3);
    (any::<bool>(), prop::option::of(".{0,9}"), properties, names, state, unknown).prop_map(
        |(table, location, properties, names, state, mut unknown)| {
            unknown.sort();
            let entry = Entry {
                kind: if table { Kind::Table } else { Kind::Namespace },
                location,
                properties,
                base_objects: names.iter().map(|name| Name::parse(name).unwrap()).collect(),
                state: state.map(|(version, metadata, partitions)| TableState {
                    version: Version(version),
                    metadata: MetadataId(metadata),
                    partitions: partitions.into_iter().map(Version).collect(),
                }),
                unknown: unknown.into_iter().map(|(tag, bytes)| Kept { tag, bytes }).collect(),
            };
            entry::encode(&entry)
        },
    )
}

/// Rows as they are, keys of indices, and what no writer of ours writes.
fn items() -> impl Strategy<Value = Vec<(Key, Bytes)>> {
    let value = prop_oneof![
        4 => entries(),
        1 => Just(Bytes::new()),
        1 => prop::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from),
    ];
    let rows = prop::collection::btree_map(prop::collection::vec(any::<u8>(), 0..12), value, 1..60);
    rows.prop_map(|rows| rows.into_iter().map(|(key, value)| (Key::from(key), value)).collect())
}

fn stream(items: &[(Key, Bytes)]) -> Vec<u8> {
    let mut out = Vec::new();
    encode(items, &mut out).unwrap();
    out
}

/// How much a block may grow in memory: its offsets and bitmaps, and LZ4 at its best.
fn bounded(items: &[(Key, Bytes)], stored: usize) {
    let content: usize = items.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert!(content <= stored * 1000, "{content} bytes of {stored}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// To the byte, whatever the values are.
    #[test]
    fn what_was_written_is_read(items in items()) {
        let page = encode_block(&items).unwrap();
        prop_assert_eq!(check_block(&page), Ok(()));
        prop_assert_eq!(&page, &encode_block(&items).unwrap(), "the same rows, other bytes");
        let decoded = Page::decode(&page).unwrap();
        prop_assert_eq!(&*decoded, &Page::Leaf(items));
    }

    #[test]
    fn damage_is_noticed(items in items(), place in any::<prop::sample::Index>(), bit in 0_u8..8) {
        let mut page = encode_block(&items).unwrap().to_vec();
        let place = place.index(page.len());
        page[place] ^= 1 << bit;
        prop_assert!(check_block(&page).is_err());
        prop_assert!(Page::decode(&page.into()).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Bytes that no writer of ours wrote, under a checksum that holds: an error, or rows that are bounded.
    #[test]
    fn a_mistaken_writer_does_no_harm(
        items in items(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u8>(), Just(0), Just(255)]), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut stream = stream(&items);
        for (place, byte) in changes {
            let place = place.index(stream.len());
            stream[place] = byte;
        }
        if let Some(cut) = cut {
            stream.truncate(cut.index(stream.len()));
        }
        if let Ok(items) = decode(Bytes::from(stream.clone())) {
            bounded(&items, stream.len());
        }
        let mut page = [&[2_u8][..], &stream].concat();
        put_checksum(&mut page);
        let _ = Page::decode(&page.into());
    }

    /// Numbers of eight bytes where lengths and offsets are.
    #[test]
    fn wild_numbers_do_no_harm(
        items in items(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), wild()), 1..4),
    ) {
        let mut stream = stream(&items);
        for (place, number) in changes {
            let place = place.index(stream.len() / 8) * 8;
            stream[place..place + 8].copy_from_slice(&number.to_le_bytes());
        }
        if let Ok(items) = decode(Bytes::from(stream.clone())) {
            bounded(&items, stream.len());
        }
    }

    #[test]
    fn nonsense_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(decode(bytes.into()).is_err());
    }
}

fn wild() -> impl Strategy<Value = i64> {
    prop_oneof![
        any::<i64>(),
        0_i64..1000,
        Just(-1),
        Just(i64::MAX),
        Just(i64::MIN),
        Just(1 << 40),
        (1_i64..99).prop_map(|n| n << 32)
    ]
}

#[test]
fn a_block_that_says_it_is_huge_allocates_nothing() {
    let mut page = stream(&[(Key::from_static(b"key"), Bytes::from(vec![7; 5000]))]);
    // The values' column: 5000 bytes before compression.
    let says = 5000_i64.to_le_bytes();
    let place = page.windows(8).position(|bytes| bytes == says).expect("the length before compression");
    page[place..place + 8].copy_from_slice(&(1_i64 << 45).to_le_bytes());
    assert_eq!(decode(page.into()), Err(DecodeError::Content("a column with an impossible length")));
}

#[test]
fn columns_are_named_and_typed_for_other_programs() {
    let types: Vec<String> =
        SCHEMA.fields().iter().map(|field| format!("{}: {}", field.name(), field.data_type())).collect();
    let wanted =
        ["key: Binary", "kind: UInt8", "location: Utf8", "properties: Map", "base_objects: List", "state: Struct"];
    for (found, wanted) in types.iter().zip(wanted) {
        assert!(found.starts_with(wanted), "{found}");
    }
    let items = [(Key::from_static(b"o\0a"), entry::encode(&Entry::namespace()))];
    let stream = stream(&items);
    let mut reader = arrow_ipc::reader::StreamReader::try_new(&stream[..], None).unwrap();
    let batch = reader.next().unwrap().unwrap();
    assert_eq!((batch.num_rows(), batch.schema()), (1, Arc::clone(&SCHEMA)));
    assert!(reader.next().is_none());
}
