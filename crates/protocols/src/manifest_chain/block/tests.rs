use proptest::prelude::*;

use super::*;
use crate::manifest_chain::page::{Home, Page, PageRef, check_block, encode_block};
use crate::wire::put_checksum;
use glidepath_model::{Field as Kept, Kind};

fn entries() -> impl Strategy<Value = Bytes> {
    let state = prop::option::of((any::<u64>(), any::<u64>(), prop::collection::vec(any::<u64>(), 1..4)));
    let properties = prop::collection::btree_map(".{0,5}", ".{0,40}", 0..4);
    let names = prop::collection::vec("[a-z]{1,6}", 0..3);
    let unknown = prop::collection::vec((0_u64..99, prop::collection::vec(any::<u8>(), 0..9)), 0..3);
    let kind = prop::sample::select(Kind::ALL.to_vec());
    let texts = (prop::option::of(".{0,9}"), prop::option::weighted(0.1, ".{0,9}"));
    // Some are invalid for their kind.
    (kind, texts, properties, names, state, unknown).prop_map(
        |(kind, (location, pointer), properties, names, state, mut unknown)| {
            unknown.sort();
            let entry = Entry {
                kind,
                location,
                pointer,
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

/// Rows as they are, index keys, and rows that our writers never write.
fn items() -> impl Strategy<Value = Vec<(Key, Bytes)>> {
    let value = prop_oneof![
        4 => entries(),
        1 => Just(Bytes::new()),
        1 => prop::collection::vec(any::<u8>(), 0..20).prop_map(Bytes::from),
    ];
    let rows = prop::collection::btree_map(prop::collection::vec(any::<u8>(), 0..12), value, 1..60);
    rows.prop_map(|rows| rows.into_iter().map(|(key, value)| (Key::from(key), value)).collect())
}

fn stream(items: &[(Key, Bytes)]) -> (Vec<u8>, bool) {
    let mut out = Vec::new();
    let with_pointers = encode(items, &mut out).unwrap();
    (out, with_pointers)
}

const HOME: Home = Home::Version(1);

/// Bounds the memory of a decoded block: offsets and bitmaps, and the best compression of LZ4.
fn bounded(items: &[(Key, Bytes)], stored: usize) {
    let content: usize = items.iter().map(|(key, value)| key.len() + value.len()).sum();
    assert!(content <= stored * 1000, "{content} bytes of {stored}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Every value is restored byte for byte.
    #[test]
    fn what_was_written_is_read(items in items()) {
        let page = encode_block(&items).unwrap();
        let at = PageRef::of(HOME, true, 0, &page);
        prop_assert_eq!(check_block(&page, at), Ok(()));
        prop_assert_eq!(&page, &encode_block(&items).unwrap(), "the same rows, other bytes");
        let decoded = Page::decode(&page).unwrap();
        prop_assert_eq!(&*decoded, &Page::Leaf(items));
    }

    #[test]
    fn damage_is_noticed(items in items(), place in any::<prop::sample::Index>(), bit in 0_u8..8) {
        let mut page = encode_block(&items).unwrap().to_vec();
        let at = PageRef::of(HOME, true, 0, &page);
        let place = place.index(page.len());
        page[place] ^= 1 << bit;
        prop_assert!(check_block(&page, at).is_err());
        prop_assert!(Page::decode(&page.into()).is_err());
    }

    #[test]
    fn another_block_is_noticed(items in items(), others in items()) {
        let at = PageRef::of(HOME, true, 0, &encode_block(&items).unwrap());
        let other = encode_block(&others).unwrap();
        let wrong = if items == others { Ok(()) } else { Err(DecodeError::Replaced) };
        prop_assert_eq!(check_block(&other, at), wrong);
        prop_assert_eq!(Page::read(&other, at).map(drop), wrong);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    /// Bytes that our writers never write, with a matching checksum: an error, or bounded rows.
    #[test]
    fn a_mistaken_writer_does_no_harm(
        items in items(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![any::<u8>(), Just(0), Just(255)]), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let (mut stream, with_pointers) = stream(&items);
        for (place, byte) in changes {
            let place = place.index(stream.len());
            stream[place] = byte;
        }
        if let Some(cut) = cut {
            stream.truncate(cut.index(stream.len()));
        }
        if let Ok(items) = decode(Bytes::from(stream.clone()), with_pointers) {
            bounded(&items, stream.len());
        }
        for kind in [2_u8, 3] {
            let mut page = [&[kind][..], &stream].concat();
            put_checksum(&mut page);
            let _ = Page::decode(&page.into());
        }
    }

    /// Eight-byte numbers, where lengths and offsets are.
    #[test]
    fn wild_numbers_do_no_harm(
        items in items(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), wild()), 1..4),
    ) {
        let (mut stream, with_pointers) = stream(&items);
        for (place, number) in changes {
            let place = place.index(stream.len() / 8) * 8;
            stream[place..place + 8].copy_from_slice(&number.to_le_bytes());
        }
        if let Ok(items) = decode(Bytes::from(stream.clone()), with_pointers) {
            bounded(&items, stream.len());
        }
    }

    #[test]
    fn nonsense_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for with_pointers in [false, true] {
            prop_assert!(decode(bytes.clone().into(), with_pointers).is_err());
        }
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
    let (mut page, _) = stream(&[(Key::from_static(b"key"), Bytes::from(vec![7; 5000]))]);
    // The column of values: 5000 bytes before compression.
    let says = 5000_i64.to_le_bytes();
    let place = page.windows(8).position(|bytes| bytes == says).expect("the length before compression");
    page[place..place + 8].copy_from_slice(&(1_i64 << 45).to_le_bytes());
    assert_eq!(decode(page.into(), false), Err(DecodeError::Content("a column with an impossible length")));
}

#[test]
fn columns_are_named_and_typed_for_other_programs() {
    let types: Vec<String> =
        WITH_POINTERS.fields().iter().map(|field| format!("{}: {}", field.name(), field.data_type())).collect();
    let wanted = [
        "key: Binary",
        "kind: UInt8",
        "location: Utf8",
        "properties: Map",
        "base_objects: List",
        "state: Struct",
        "fields_of_newer_versions: Binary",
        "as_written: Binary",
        "metadata_pointer: Utf8",
    ];
    assert_eq!(types.len(), wanted.len());
    for (found, wanted) in types.iter().zip(wanted) {
        assert!(found.starts_with(wanted), "{found}");
    }
    assert_eq!(SCHEMA.fields()[..], WITH_POINTERS.fields()[..8]);
    let items = [(Key::from_static(b"o\0a"), entry::encode(&Entry::namespace()))];
    let (stream, with_pointers) = stream(&items);
    assert!(!with_pointers);
    let mut reader = arrow_ipc::reader::StreamReader::try_new(&stream[..], None).unwrap();
    let batch = reader.next().unwrap().unwrap();
    assert_eq!((batch.num_rows(), batch.schema()), (1, Arc::clone(&SCHEMA)));
    assert!(reader.next().is_none());
}

/// Each row's pointer; a block without pointers is encoded as before pointers existed.
#[test]
fn pointers_have_a_column_where_there_are_some() {
    let entry = |pointer: Option<&str>, entry| Entry { pointer: pointer.map(str::to_owned), ..entry };
    let rows = |view: Option<&str>| -> Vec<(Key, Bytes)> {
        vec![
            (Key::from_static(b"o\0a"), entry::encode(&entry(view, Entry::view()))),
            (Key::from_static(b"o\0b"), entry::encode(&Entry::table(None, TableState::new(1)))),
            (Key::from_static(b"t\x02\0a"), Bytes::new()),
        ]
    };
    for (view, kind) in [(None, 2), (Some("m"), 3), (Some(""), 3)] {
        let page = encode_block(&rows(view)).unwrap();
        assert_eq!(page[0], kind, "{view:?}");
        assert_eq!(*Page::decode(&page).unwrap(), Page::Leaf(rows(view)));
        // Under the other kind it has a wrong number of columns.
        let mut other = page[..page.len() - 4].to_vec();
        other[0] = 5 - kind;
        put_checksum(&mut other);
        let wrong = Err(DecodeError::Content("a wrong number of columns"));
        assert_eq!(Page::decode(&other.into()), wrong);
    }
    let (stream, _) = stream(&rows(Some("m")));
    let mut reader = arrow_ipc::reader::StreamReader::try_new(&stream[..], None).unwrap();
    let batch = reader.next().unwrap().unwrap();
    let pointers = batch.column_by_name("metadata_pointer").unwrap().as_string::<i32>();
    assert_eq!(pointers.iter().collect::<Vec<_>>(), [Some("m"), None, None]);
    let kinds = batch.column_by_name("kind").unwrap().as_primitive::<UInt8Type>();
    assert_eq!(kinds.iter().collect::<Vec<_>>(), [Some(2), Some(1), None]);
}

/// The block of an older version of Glidepath without pointers: it keeps them among its unknown fields.
#[test]
fn a_pointer_among_unknown_fields_comes_back_to_the_byte() {
    let value = entry::encode(&Entry { pointer: Some("m".to_owned()), ..Entry::table(None, TableState::new(1)) });
    let mut columns = Columns::default();
    columns.push(b"o\0a", &value[..value.len() - 3]).unwrap();
    let mut columns = columns.finish();
    drop(columns.pop());
    columns[6] = Arc::new(BinaryArray::from(vec![&value[value.len() - 3..]]));
    let batch = RecordBatch::try_new(Arc::clone(&SCHEMA), columns).unwrap();
    assert_eq!(
        Seen::of(&batch).map(|seen| {
            let mut out = Vec::new();
            seen.value(0, &mut out).map(|()| out)
        }),
        Some(Ok(value.to_vec()))
    );
}
