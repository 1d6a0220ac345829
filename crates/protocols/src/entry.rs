//! The encoding of an entry, the same in every protocol: its kind (0 namespace, 1 table, 2 view), then its fields.

use bytes::Bytes;
use glidepath_model::{Entry, Field, Kind, MetadataId, Name, PartitionVersions, Refusal, TableState, Version};

use crate::wire::{DecodeError, Reader, put_bytes, put_varint, varint_length};

/// The maximum size of an entry: a page of a manifest chain that contains only this entry fits into a block of columns,
/// and into any object.
pub(crate) const MOST_BYTES: usize = 64 << 20;

/// The fields of an entry: tag, length, content each, in rising order of tags. Lists repeat their tag.
const LOCATION: u64 = 1;
const PROPERTY: u64 = 2;
const BASE_OBJECT: u64 = 3;
const STATE: u64 = 4;
const POINTER: u64 = 5;

const NAMESPACE: u8 = 0;
const TABLE: u8 = 1;
const VIEW: u8 = 2;

pub(crate) fn kind_byte(kind: Kind) -> u8 {
    match kind {
        Kind::Namespace => NAMESPACE,
        Kind::Table => TABLE,
        Kind::View => VIEW,
    }
}

pub(crate) fn kind_of(byte: u8) -> Result<Kind, DecodeError> {
    match byte {
        NAMESPACE => Ok(Kind::Namespace),
        TABLE => Ok(Kind::Table),
        VIEW => Ok(Kind::View),
        _ => Err(DecodeError::Content("unknown kind of entry")),
    }
}

/// Refuses an entry that takes more than `most` bytes or could not be decoded.
pub(crate) fn can_be_kept(most: usize, name: &Name, entry: &Entry) -> Result<(), Refusal> {
    let mut last = 0;
    for Field { tag, .. } in &entry.unknown {
        if (LOCATION..=POINTER).contains(tag) || *tag < last {
            return Err(Refusal::UnknownField { name: name.clone(), tag: *tag });
        }
        last = *tag;
    }
    let bytes = length(entry);
    if bytes > most { Err(Refusal::TooLarge { name: name.clone(), bytes, most }) } else { Ok(()) }
}

/// The length of an encoded entry in bytes, computed without encoding it.
pub(crate) fn length(entry: &Entry) -> usize {
    let field = |tag: u64, content: usize| varint_length(tag) + framed(content);
    let location = entry.location.iter().map(|location| field(LOCATION, location.len()));
    let properties =
        entry.properties.iter().map(|(key, value)| field(PROPERTY, framed(key.len()) + framed(value.len())));
    let bases = entry.base_objects.iter().map(|base| field(BASE_OBJECT, base.as_str().len()));
    let state = entry.state.iter().map(|state| field(STATE, state_length(state)));
    let pointer = entry.pointer.iter().map(|pointer| field(POINTER, pointer.len()));
    let unknown = entry.unknown.iter().map(|kept| field(kept.tag, kept.bytes.len()));
    1 + location.chain(properties).chain(bases).chain(state).chain(pointer).chain(unknown).sum::<usize>()
}

/// The length of this many bytes together with their length prefix.
fn framed(bytes: usize) -> usize {
    varint_length(bytes as u64) + bytes
}

pub(crate) fn encode(entry: &Entry) -> Bytes {
    let mut out = Vec::new();
    put(&mut out, entry);
    out.into()
}

/// Appends the encoded entry.
pub(crate) fn put(out: &mut Vec<u8>, entry: &Entry) {
    out.push(kind_byte(entry.kind));
    let mut unknown = entry.unknown.iter().peekable();
    let put_field = |out: &mut Vec<u8>, kept: &Field| {
        put_varint(out, kept.tag);
        put_bytes(out, &kept.bytes);
    };
    // Unknown fields with smaller tags come before a known field.
    let mut tag = |out: &mut Vec<u8>, tag: u64| {
        while let Some(kept) = unknown.next_if(|kept| kept.tag < tag) {
            put_field(out, kept);
        }
        put_varint(out, tag);
    };
    if let Some(location) = &entry.location {
        tag(out, LOCATION);
        put_bytes(out, location.as_bytes());
    }
    for (key, value) in &entry.properties {
        tag(out, PROPERTY);
        put_varint(out, (framed(key.len()) + framed(value.len())) as u64);
        put_bytes(out, key.as_bytes());
        put_bytes(out, value.as_bytes());
    }
    for base in &entry.base_objects {
        tag(out, BASE_OBJECT);
        put_bytes(out, base.as_str().as_bytes());
    }
    if let Some(state) = &entry.state {
        tag(out, STATE);
        put_varint(out, state_length(state) as u64);
        put_state(out, state);
    }
    if let Some(pointer) = &entry.pointer {
        tag(out, POINTER);
        put_bytes(out, pointer.as_bytes());
    }
    unknown.for_each(|kept| put_field(out, kept));
}

/// The length of an encoded state, in bytes.
pub(crate) fn state_length(state: &TableState) -> usize {
    let partitions: usize = state.partitions.iter().map(|version| varint_length(version.0)).sum();
    varint_length(state.version.0) + 8 + varint_length(state.partitions.len() as u64) + partitions
}

/// Appends a state: version, metadata id (8 bytes), number of partitions, version of each.
pub(crate) fn put_state(out: &mut Vec<u8>, state: &TableState) {
    put_varint(out, state.version.0);
    out.extend_from_slice(&state.metadata.0.to_le_bytes());
    put_varint(out, state.partitions.len() as u64);
    for version in &state.partitions {
        put_varint(out, version.0);
    }
}

pub(crate) fn decode(bytes: &[u8]) -> Result<Entry, DecodeError> {
    let mut reader = Reader(bytes);
    let mut entry = Entry { kind: kind_of(reader.array::<1>()?[0])?, ..Entry::namespace() };
    let mut last = 0;
    while !reader.0.is_empty() {
        let (tag, bytes) = (reader.varint()?, reader.bytes()?);
        if tag < last {
            return Err(DecodeError::Content("fields out of order"));
        }
        last = tag;
        let mut content = Reader(bytes);
        match tag {
            LOCATION => entry.location = Some(text(bytes)?.to_owned()),
            PROPERTY => {
                let (key, value) = (content.text()?.to_owned(), content.text()?.to_owned());
                content.end()?;
                entry.properties.insert(key, value);
            }
            BASE_OBJECT => {
                let name = Name::parse(text(bytes)?).map_err(|_| DecodeError::Content("invalid name"))?;
                entry.base_objects.push(name);
            }
            STATE => entry.state = Some(decode_state(&mut content)?),
            POINTER => entry.pointer = Some(text(bytes)?.to_owned()),
            _ => entry.unknown.push(Field { tag, bytes: bytes.to_vec() }),
        }
    }
    match entry.flaw() {
        Some(flaw) => Err(DecodeError::Content(flaw)),
        None => Ok(entry),
    }
}

/// Tag, length, content of each.
pub(crate) fn encode_fields(fields: &[Field]) -> Vec<u8> {
    let mut out = Vec::new();
    for field in fields {
        put_varint(&mut out, field.tag);
        put_bytes(&mut out, &field.bytes);
    }
    out
}

pub(crate) fn decode_fields(bytes: &[u8]) -> Result<Vec<Field>, DecodeError> {
    let (mut reader, mut fields) = (Reader(bytes), Vec::new());
    while !reader.0.is_empty() {
        fields.push(Field { tag: reader.varint()?, bytes: reader.bytes()?.to_vec() });
    }
    Ok(fields)
}

fn decode_state(content: &mut Reader<'_>) -> Result<TableState, DecodeError> {
    let (version, metadata) = (Version(content.varint()?), MetadataId(content.u64()?));
    let count = content.count()?;
    let partitions = (0..count).map(|_| content.varint().map(Version)).collect::<Result<PartitionVersions, _>>()?;
    content.end()?;
    if partitions.is_empty() {
        return Err(DecodeError::Content("a table without partitions"));
    }
    Ok(TableState { version, metadata, partitions })
}

fn text(bytes: &[u8]) -> Result<&str, DecodeError> {
    std::str::from_utf8(bytes).map_err(|_| DecodeError::Content("text is not UTF-8"))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;

    use glidepath_model::{Entries, TableId};
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn entries() -> impl Strategy<Value = Entry> {
        let names = prop::collection::vec("[a-z/%]{1,6}", 0..3);
        let tags = prop_oneof![1 => Just(0_u64), 9 => 6_u64..99, 1 => Just(u64::MAX)];
        let unknown = prop::collection::btree_map(tags, prop::collection::vec(any::<u8>(), 0..9), 0..3);
        let state = prop::option::of((any::<u64>(), any::<u64>(), prop::collection::vec(any::<u64>(), 1..4)));
        let properties = prop::collection::btree_map(".{0,5}", ".{0,5}", 0..4);
        let kind = prop::sample::select(Kind::ALL.to_vec());
        let texts = (prop::option::of(".{0,9}"), prop::option::of(".{0,9}"));
        (kind, texts, properties, names, state, unknown).prop_map(
            |(kind, (location, pointer), properties, names, state, unknown)| Entry {
                kind,
                location,
                pointer: pointer.filter(|_| kind != Kind::Namespace),
                properties,
                base_objects: names.iter().map(|name| Name::of_parts([name.as_str()]).unwrap()).collect(),
                state: state.filter(|_| kind != Kind::View).map(|(version, metadata, partitions)| TableState {
                    version: Version(version),
                    metadata: MetadataId(metadata),
                    partitions: partitions.into_iter().map(Version).collect(),
                }),
                unknown: unknown.into_iter().map(|(tag, bytes)| Field { tag, bytes }).collect(),
            },
        )
    }

    /// Entries in existing namespaces, among them numbered tables with more than a state.
    pub(crate) fn trees() -> impl Strategy<Value = Entries> {
        let part =
            prop_oneof![3 => "[a-c%/]{1,2}", 1 => (0_u32..300).prop_map(|id| Name::numbered(TableId(id)).to_string())];
        let named = (prop::collection::vec(part, 1..4), entries());
        prop_oneof![Just(Vec::new()), prop::collection::vec(named, 0..9)].prop_map(|all| {
            let mut tree = BTreeMap::new();
            for (parts, entry) in all {
                let name = Name::of_parts(parts.iter().map(String::as_str)).unwrap();
                let mut above = name.parent();
                while let Some(namespace) = above {
                    above = namespace.parent();
                    tree.insert(namespace, Entry::namespace());
                }
                tree.entry(name).or_insert(entry);
            }
            let mut all: Vec<(Name, Entry)> = tree.into_iter().collect();
            all.retain(|(name, entry)| name.number().is_none() || entry.plain().is_none());
            all.sort_by(|(one, _), (other, _)| one.place().cmp(&other.place()));
            Entries::new(all).unwrap()
        })
    }

    #[test]
    fn the_bytes_of_each_kind_and_field_are_these() {
        let properties = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
        let state = TableState {
            version: Version(3),
            metadata: MetadataId(0x0102),
            partitions: [Version(1), Version(200)].into_iter().collect(),
        };
        let table = Entry { properties, base_objects: vec![Name::parse("a/b").unwrap()], ..Entry::table(None, state) };
        let table = Entry { location: Some("there".to_owned()), ..table };
        let before = b"\x01\x01\x05there\x02\x04\x01k\x01v\x03\x03a/b\x04\x0d\x03\x02\x01\0\0\0\0\0\0\x02\x01\xc8\x01";
        assert_eq!(&encode(&table)[..], before, "as before pointers existed");
        let pointing = Entry { pointer: Some("m/1".to_owned()), ..table };
        assert_eq!(encode(&pointing), [&before[..], b"\x05\x03m/1"].concat());
        assert_eq!(&encode(&Entry::namespace())[..], b"\0");
        assert_eq!(&encode(&Entry::view())[..], b"\x02");
        let view = Entry { location: Some("l".to_owned()), pointer: Some(String::new()), ..Entry::view() };
        assert_eq!(&encode(&view)[..], b"\x02\x01\x01l\x05\0");
        for (bytes, why) in [
            (&b"\x03"[..], "unknown kind of entry"),
            (b"\0\x05\x01x", "a namespace has no metadata pointer"),
            (b"\x02\x04\x0b\0\0\0\0\0\0\0\0\0\x01\0", "a view has no versions and no partitions"),
        ] {
            assert_eq!(decode(bytes), Err(DecodeError::Content(why)));
        }
        assert_eq!(decode(b"\x02\x05\x01\xff"), Err(DecodeError::Content("text is not UTF-8")));
    }

    /// Entries whose encoding could not be decoded, or would be decoded as something else.
    #[test]
    fn unknown_fields_that_could_not_be_read_back_are_refused() {
        let name = Name::parse("a").unwrap();
        let allowed = |tags: &[u64]| {
            let unknown = tags.iter().map(|tag| Field { tag: *tag, bytes: vec![1] }).collect();
            can_be_kept(MOST_BYTES, &name, &Entry { unknown, ..Entry::view() })
        };
        for tags in [&[][..], &[0], &[6], &[0, 6, 6, u64::MAX]] {
            assert_eq!(allowed(tags), Ok(()));
        }
        for (tags, tag) in [(&[1][..], 1), (&[5], 5), (&[6, 3], 3), (&[7, 6], 6), (&[6, 0], 0)] {
            assert_eq!(allowed(tags), Err(Refusal::UnknownField { name: name.clone(), tag }));
        }
    }

    proptest! {
        /// Fields of a newer version are among them.
        #[test]
        fn what_was_written_is_read(entry in entries()) {
            prop_assert_eq!(length(&entry), encode(&entry).len());
            prop_assert_eq!(can_be_kept(MOST_BYTES, &Name::parse("a").unwrap(), &entry), Ok(()));
            prop_assert_eq!(decode(&encode(&entry)), Ok(entry));
        }

        #[test]
        fn nonsense_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(entry) = decode(&bytes) {
                prop_assert_eq!(can_be_kept(MOST_BYTES, &Name::parse("a").unwrap(), &entry), Ok(()));
                prop_assert_eq!(decode(&encode(&entry)), Ok(entry));
            }
        }
    }
}
