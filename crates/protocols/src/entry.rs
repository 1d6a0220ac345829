//! What are the bytes of an entry? The same in every protocol: its kind (0 namespace, 1 table), then its fields.

use bytes::Bytes;
use glidepath_model::{Entry, Field, Kind, MetadataId, Name, PartitionVersions, Refusal, TableState, Version};

use crate::wire::{DecodeError, Reader, put_bytes, put_varint, varint_length};

/// What an entry takes at most: a page of a manifest chain that has it alone fits into a block of columns, and into any object.
pub(crate) const MOST_BYTES: usize = 64 << 20;

/// Fields of an entry: tag, length, content; tags rise, and those of repeated fields repeat.
const LOCATION: u64 = 1;
const PROPERTY: u64 = 2;
const BASE_OBJECT: u64 = 3;
const STATE: u64 = 4;

const NAMESPACE: u8 = 0;
const TABLE: u8 = 1;

pub(crate) fn kind_byte(kind: Kind) -> u8 {
    if kind == Kind::Namespace { NAMESPACE } else { TABLE }
}

pub(crate) fn kind_of(byte: u8) -> Result<Kind, DecodeError> {
    match byte {
        NAMESPACE => Ok(Kind::Namespace),
        TABLE => Ok(Kind::Table),
        _ => Err(DecodeError::Content("unknown kind of entry")),
    }
}

/// Refused where it takes more than so many bytes.
pub(crate) fn no_larger_than(most: usize, name: &Name, entry: &Entry) -> Result<(), Refusal> {
    let bytes = length(entry);
    if bytes > most { Err(Refusal::TooLarge { name: name.clone(), bytes, most }) } else { Ok(()) }
}

/// Of an encoded entry, in bytes: told without encoding it.
pub(crate) fn length(entry: &Entry) -> usize {
    let field = |tag: u64, content: usize| varint_length(tag) + framed(content);
    let location = entry.location.iter().map(|location| field(LOCATION, location.len()));
    let properties =
        entry.properties.iter().map(|(key, value)| field(PROPERTY, framed(key.len()) + framed(value.len())));
    let bases = entry.base_objects.iter().map(|base| field(BASE_OBJECT, base.as_str().len()));
    let state = entry.state.iter().map(|state| field(STATE, state_length(state)));
    let unknown = entry.unknown.iter().map(|kept| field(kept.tag, kept.bytes.len()));
    1 + location.chain(properties).chain(bases).chain(state).chain(unknown).sum::<usize>()
}

/// Of so many bytes with their length before them.
fn framed(bytes: usize) -> usize {
    varint_length(bytes as u64) + bytes
}

pub(crate) fn encode(entry: &Entry) -> Bytes {
    let mut out = Vec::new();
    put(&mut out, entry);
    out.into()
}

/// Adds the bytes of an entry.
pub(crate) fn put(out: &mut Vec<u8>, entry: &Entry) {
    out.push(kind_byte(entry.kind));
    let mut unknown = entry.unknown.iter().peekable();
    // Before a field come those of lesser tags that this version does not know.
    let mut tag = |out: &mut Vec<u8>, tag: u64| {
        while let Some(kept) = unknown.next_if(|kept| kept.tag < tag) {
            put_varint(out, kept.tag);
            put_bytes(out, &kept.bytes);
        }
        if tag != u64::MAX {
            put_varint(out, tag);
        }
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
    tag(out, u64::MAX);
}

/// Of an encoded state, in bytes.
pub(crate) fn state_length(state: &TableState) -> usize {
    let partitions: usize = state.partitions.iter().map(|version| varint_length(version.0)).sum();
    varint_length(state.version.0) + 8 + varint_length(state.partitions.len() as u64) + partitions
}

/// Adds the bytes of a state: version, metadata id (8 bytes), number of partitions, version of each.
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
            _ => entry.unknown.push(Field { tag, bytes: bytes.to_vec() }),
        }
    }
    Ok(entry)
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
        let unknown = prop::collection::btree_map(5_u64..99, prop::collection::vec(any::<u8>(), 0..9), 0..3);
        let state = prop::option::of((any::<u64>(), any::<u64>(), prop::collection::vec(any::<u64>(), 1..4)));
        let properties = prop::collection::btree_map(".{0,5}", ".{0,5}", 0..4);
        (any::<bool>(), prop::option::of(".{0,9}"), properties, names, state, unknown).prop_map(
            |(table, location, properties, names, state, unknown)| Entry {
                kind: if table { Kind::Table } else { Kind::Namespace },
                location,
                properties,
                base_objects: names.iter().map(|name| Name::of_parts([name.as_str()]).unwrap()).collect(),
                state: state.map(|(version, metadata, partitions)| TableState {
                    version: Version(version),
                    metadata: MetadataId(metadata),
                    partitions: partitions.into_iter().map(Version).collect(),
                }),
                unknown: unknown.into_iter().map(|(tag, bytes)| Field { tag, bytes }).collect(),
            },
        )
    }

    /// Entries in namespaces that are there, numbered tables with more than a state among them.
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

    proptest! {
        /// Fields of a newer version among them.
        #[test]
        fn what_was_written_is_read(entry in entries()) {
            prop_assert_eq!(length(&entry), encode(&entry).len());
            prop_assert_eq!(decode(&encode(&entry)), Ok(entry));
        }

        #[test]
        fn nonsense_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(entry) = decode(&bytes) {
                prop_assert_eq!(decode(&encode(&entry)), Ok(entry));
            }
        }
    }
}
