//! How are entries and the indices over them kept as keys and values of the tree?
//!
//! | key | value | |
//! |---|---|---|
//! | `o` parent 0 last | the entry | by name: what is directly in a namespace lies together |
//! | `t` kind parent 0 last | nothing | index by type |
//! | `b` base 0 parent 0 last | nothing | index by base object |
//!
//! Names have no byte 0, so no two keys meet.

use bytes::Bytes;
use glidepath_model::{Entry, Field, Kind, MetadataId, Name, PartitionVersions, TableState, Version};

use super::page::Key;
use super::tree::Edit;
use crate::mutant::{self, Mutant};
use crate::wire::{DecodeError, Reader, put_bytes, put_varint};

const BY_NAME: u8 = b'o';
const BY_KIND: u8 = b't';
const BY_BASE: u8 = b'b';

/// Fields of an entry: tag, length, content; tags rise, and those of repeated fields repeat.
const LOCATION: u64 = 1;
const PROPERTY: u64 = 2;
const BASE_OBJECT: u64 = 3;
const STATE: u64 = 4;

const NAMESPACE: u8 = 0;
const TABLE: u8 = 1;

/// Where keys begin and end: everything in between, the end not included.
pub(crate) struct Between {
    pub(crate) from: Vec<u8>,
    pub(crate) to: Vec<u8>,
}

impl Between {
    /// All keys with this prefix.
    fn prefix(prefix: Vec<u8>) -> Self {
        let mut to = prefix.clone();
        // No prefix ends in 255.
        if let Some(last) = to.last_mut() {
            *last += 1;
        }
        Self { from: prefix, to }
    }

    /// Only what comes behind this key.
    pub(crate) fn after(mut self, key: &[u8]) -> Self {
        if key >= self.from.as_slice() {
            self.from = [key, &[0]].concat();
        }
        self
    }
}

fn place(parent: &str, last: &str) -> Vec<u8> {
    [parent.as_bytes(), &[0], last.as_bytes()].concat()
}

fn place_of(name: &Name) -> Vec<u8> {
    place(name.parent().as_ref().map_or("", Name::as_str), name.last())
}

/// The key of an entry.
pub(crate) fn by_name(name: &Name) -> Key {
    [&[BY_NAME][..], &place_of(name)].concat().into()
}

/// Whether a key that begins so is an entry's, and not one of an index.
pub(crate) fn is_entry_key(first: u8) -> bool {
    first == BY_NAME
}

/// What is directly in a namespace, or in the root.
pub(crate) fn children(namespace: Option<&Name>) -> Between {
    Between::prefix([&[BY_NAME][..], &place(namespace.map_or("", Name::as_str), "")].concat())
}

/// All that is in a namespace, however deep.
pub(crate) fn entries_within(namespace: &Name) -> [Between; 2] {
    within_behind(&[BY_NAME], namespace)
}

/// Where the rows of all that is in a namespace are, those of indices too. By base object there are others in between.
pub(crate) fn within(namespace: &Name) -> Vec<Between> {
    let by_kind = [NAMESPACE, TABLE].map(|kind| within_behind(&[BY_KIND, kind], namespace));
    let mut places = vec![Between::prefix(vec![BY_BASE])];
    places.extend(entries_within(namespace).into_iter().chain(by_kind.into_iter().flatten()));
    places
}

/// The places behind this prefix whose parent is the namespace, or is in it.
fn within_behind(prefix: &[u8], namespace: &Name) -> [Between; 2] {
    [b"\0", b"/"].map(|end| Between::prefix([prefix, namespace.as_str().as_bytes(), end].concat()))
}

/// Every entry.
pub(crate) fn all() -> Between {
    Between::prefix(vec![BY_NAME])
}

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

/// All namespaces, or all tables.
pub(crate) fn of_kind(kind: Kind) -> Between {
    Between::prefix(vec![BY_KIND, kind_byte(kind)])
}

/// All that was made from this.
pub(crate) fn with_base(base: &Name) -> Between {
    Between::prefix([&[BY_BASE][..], base.as_str().as_bytes(), &[0]].concat())
}

/// The name in a key of any of the three; `None` if it is none.
pub(crate) fn name_in(key: &[u8]) -> Option<Name> {
    let place = match key.split_first()? {
        (&BY_NAME, place) => place,
        (&BY_KIND, rest) => rest.split_first()?.1,
        (&BY_BASE, rest) => rest.splitn(2, |byte| *byte == 0).nth(1)?,
        _ => return None,
    };
    let mut parts = std::str::from_utf8(place).ok()?.split('\0');
    let (parent, last) = (parts.next()?, parts.next()?);
    if parent.is_empty() { Name::parse(last).ok() } else { Name::parse(&format!("{parent}/{last}")).ok() }
}

/// What must be written for an entry that was, and is now, so.
pub(crate) fn edits(name: &Name, before: Option<&Entry>, now: Option<&Entry>, indexed: bool, edits: &mut Vec<Edit>) {
    edits.push((by_name(name), now.map(encode)));
    if !indexed {
        return;
    }
    let (old, new) = (before.map(|entry| index_keys(name, entry)), now.map(|entry| index_keys(name, entry)));
    let (mut old, mut new) = (old.unwrap_or_default(), new.unwrap_or_default());
    new.retain(|key| match key.first() {
        Some(&BY_KIND) => !mutant::is(Mutant::KindNotIndexed),
        Some(&BY_BASE) => !mutant::is(Mutant::BaseNotIndexed),
        _ => true,
    });
    if mutant::is(Mutant::IndexNotCleaned) {
        old.clear();
    }
    edits.extend(old.iter().filter(|key| !new.contains(key)).map(|key| (key.clone(), None)));
    edits.extend(new.iter().filter(|key| !old.contains(key)).map(|key| (key.clone(), Some(Bytes::new()))));
}

/// The keys of an entry in the indices.
pub(crate) fn index_keys(name: &Name, entry: &Entry) -> Vec<Key> {
    let place = place_of(name);
    let mut keys = vec![Key::from([&[BY_KIND, kind_byte(entry.kind)][..], &place].concat())];
    for base in &entry.base_objects {
        let key = [&[BY_BASE][..], base.as_str().as_bytes(), &[0], &place].concat();
        keys.push(key.into());
    }
    keys.sort_unstable();
    keys.dedup();
    keys
}

pub(crate) fn encode(entry: &Entry) -> Bytes {
    let mut out = vec![kind_byte(entry.kind)];
    let mut unknown = entry.unknown.iter().peekable();
    let mut field = |out: &mut Vec<u8>, tag: u64, bytes: &[u8]| {
        while let Some(kept) = unknown.next_if(|kept| kept.tag < tag) {
            put_varint(out, kept.tag);
            put_bytes(out, &kept.bytes);
        }
        if tag != u64::MAX {
            put_varint(out, tag);
            put_bytes(out, bytes);
        }
    };
    if let Some(location) = &entry.location {
        field(&mut out, LOCATION, location.as_bytes());
    }
    for (key, value) in &entry.properties {
        let mut pair = Vec::new();
        put_bytes(&mut pair, key.as_bytes());
        put_bytes(&mut pair, value.as_bytes());
        field(&mut out, PROPERTY, &pair);
    }
    for base in &entry.base_objects {
        field(&mut out, BASE_OBJECT, base.as_str().as_bytes());
    }
    if let Some(state) = &entry.state {
        field(&mut out, STATE, &encode_state(state));
    }
    field(&mut out, u64::MAX, &[]);
    out.into()
}

fn encode_state(state: &TableState) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, state.version.0);
    out.extend_from_slice(&state.metadata.0.to_le_bytes());
    put_varint(&mut out, state.partitions.len() as u64);
    for version in &state.partitions {
        put_varint(&mut out, version.0);
    }
    out
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
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entries() -> impl Strategy<Value = Entry> {
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

    proptest! {
        /// Fields of a newer version among them.
        #[test]
        fn what_was_written_is_read(entry in entries()) {
            prop_assert_eq!(decode(&encode(&entry)), Ok(entry));
        }

        #[test]
        fn nonsense_does_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            if let Ok(entry) = decode(&bytes) {
                prop_assert_eq!(decode(&encode(&entry)), Ok(entry));
            }
        }

        #[test]
        fn keys_say_their_names(parts in prop::collection::vec("[a-c/]{1,3}", 1..4), base in "[a-c/]{1,3}") {
            let name = Name::of_parts(parts.iter().map(String::as_str)).unwrap();
            let base = Name::of_parts([base.as_str()]).unwrap();
            let entry = Entry { base_objects: vec![base.clone()], ..Entry::namespace() };
            let key = by_name(&name);
            let between = children(name.parent().as_ref());
            prop_assert!(between.from.as_slice() <= &key[..] && &key[..] < between.to.as_slice());
            let mut found = vec![name_in(&key)];
            found.extend(index_keys(&name, &entry).iter().map(|key| name_in(key)));
            prop_assert_eq!(found, vec![Some(name.clone()); 3]);
            let bases = with_base(&base);
            let within = |key: &Key| bases.from.as_slice() <= &key[..] && &key[..] < bases.to.as_slice();
            prop_assert_eq!(index_keys(&name, &entry).iter().filter(|key| within(key)).count(), 1);
        }
    }
}
