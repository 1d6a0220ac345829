//! The encoding of actions in a record. The layout is in `docs/protocols/append-log.md`.

use std::collections::BTreeMap;

use glidepath_model::{Action, Advance, Assertion, Kind, MetadataId, Name, PartitionId, Version};
use smallvec::SmallVec;

use super::record::{DecodeError, VERSIONS};
use crate::entry;
use crate::wire::{self, Reader, put_bytes, put_varint};

const CREATE: u8 = 1;
const DROP: u8 = 2;
const DROP_ALL: u8 = 3;
const RENAME: u8 = 4;
const SET_PROPERTIES: u8 = 5;
const ADVANCE: u8 = 6;
const SET_POINTER: u8 = 7;
const ASSERT: u8 = 8;

/// Codes of assertions.
const EXISTS: u8 = 1;
const ABSENT: u8 = 2;
const POINTS: u8 = 3;
const AT_VERSION: u8 = 4;
const HAS_PROPERTY: u8 = 5;

const NONE: u8 = 0;
const SOME: u8 = 1;

pub(super) fn put(out: &mut Vec<u8>, actions: &[Action]) {
    put_varint(out, actions.len() as u64);
    for action in actions {
        out.push(match action {
            Action::Create { .. } => CREATE,
            Action::Drop { .. } => DROP,
            Action::DropAll { .. } => DROP_ALL,
            Action::Rename { .. } => RENAME,
            Action::SetProperties { .. } => SET_PROPERTIES,
            Action::Advance { .. } => ADVANCE,
            Action::SetPointer { .. } => SET_POINTER,
            Action::Assert { .. } => ASSERT,
        });
        put_bytes(out, action.name().as_str().as_bytes());
        match action {
            Action::Create { entry, .. } => put_bytes(out, &entry::encode(entry)),
            Action::Drop { kind, expected, .. } => {
                out.push(entry::kind_byte(*kind));
                put_version(out, *expected);
            }
            Action::DropAll { .. } => {}
            Action::Rename { to, .. } => put_bytes(out, to.as_str().as_bytes()),
            Action::SetProperties { changes, .. } => put_properties(out, changes),
            Action::Advance { advance, .. } => put_advance(out, advance),
            Action::SetPointer { expected, pointer, .. } => {
                put_text(out, expected.as_ref());
                put_bytes(out, pointer.as_bytes());
            }
            Action::Assert { holds, .. } => put_assertion(out, holds),
        }
    }
}

fn put_assertion(out: &mut Vec<u8>, holds: &Assertion) {
    match holds {
        Assertion::Exists(kind) => out.extend([EXISTS, entry::kind_byte(*kind)]),
        Assertion::Absent => out.push(ABSENT),
        Assertion::Pointer(expected) => {
            out.push(POINTS);
            put_text(out, expected.as_ref());
        }
        Assertion::Version(expected) => {
            out.push(AT_VERSION);
            put_varint(out, expected.0);
        }
        Assertion::Property { key, value } => {
            out.push(HAS_PROPERTY);
            put_bytes(out, key.as_bytes());
            put_text(out, value.as_ref());
        }
    }
}

fn put_text(out: &mut Vec<u8>, text: Option<&String>) {
    match text {
        None => out.push(NONE),
        Some(text) => {
            out.push(SOME);
            put_bytes(out, text.as_bytes());
        }
    }
}

fn put_version(out: &mut Vec<u8>, version: Option<Version>) {
    match version {
        None => out.push(NONE),
        Some(version) => {
            out.push(SOME);
            put_varint(out, version.0);
        }
    }
}

fn put_properties(out: &mut Vec<u8>, changes: &BTreeMap<String, Option<String>>) {
    put_varint(out, changes.len() as u64);
    for (key, value) in changes {
        put_bytes(out, key.as_bytes());
        put_text(out, value.as_ref());
    }
}

fn put_advance(out: &mut Vec<u8>, advance: &Advance) {
    out.extend_from_slice(&advance.metadata.0.to_le_bytes());
    put_varint(out, advance.partitions.len() as u64);
    for (partition, expected) in &advance.partitions {
        put_varint(out, u64::from(partition.0));
        put_varint(out, expected.0);
    }
}

/// Decodes actions, which must take up all the bytes.
pub(super) fn decode(bytes: &[u8]) -> Result<Vec<Action>, DecodeError> {
    all(bytes).map_err(|error| match error {
        wire::DecodeError::Content(words) => DecodeError::Content(words),
        _ => DecodeError::Content("actions that end too early"),
    })
}

fn all(bytes: &[u8]) -> Result<Vec<Action>, wire::DecodeError> {
    let mut reader = Reader(bytes);
    let actions = (0..reader.count()?).map(|_| action(&mut reader)).collect::<Result<_, _>>()?;
    reader.end()?;
    Ok(actions)
}

fn action(reader: &mut Reader<'_>) -> Result<Action, wire::DecodeError> {
    let [which] = reader.array()?;
    let name = name(reader)?;
    Ok(match which {
        CREATE => {
            let entry = entry::decode(reader.bytes()?)?;
            let versions = entry.state.iter().flat_map(|state| state.partitions.iter().chain([&state.version]));
            versions.copied().try_for_each(counted)?;
            Action::Create { name, entry }
        }
        DROP => {
            let kind: Kind = entry::kind_of(reader.array::<1>()?[0])?;
            let expected = if some(reader)? { Some(version(reader)?) } else { None };
            Action::Drop { name, kind, expected }
        }
        DROP_ALL => Action::DropAll { name },
        RENAME => Action::Rename { from: name, to: self::name(reader)? },
        SET_PROPERTIES => Action::SetProperties { name, changes: properties(reader)? },
        ADVANCE => Action::Advance { name, advance: advance(reader)? },
        SET_POINTER => {
            let (expected, pointer) = (optional_text(reader)?, reader.text()?.to_owned());
            Action::SetPointer { name, expected, pointer }
        }
        ASSERT => Action::Assert { name, holds: assertion(reader)? },
        _ => return Err(wire::DecodeError::Content("an unknown kind of action")),
    })
}

fn assertion(reader: &mut Reader<'_>) -> Result<Assertion, wire::DecodeError> {
    Ok(match reader.array()? {
        [EXISTS] => Assertion::Exists(entry::kind_of(reader.array::<1>()?[0])?),
        [ABSENT] => Assertion::Absent,
        [POINTS] => Assertion::Pointer(optional_text(reader)?),
        [AT_VERSION] => Assertion::Version(version(reader)?),
        [HAS_PROPERTY] => Assertion::Property { key: reader.text()?.to_owned(), value: optional_text(reader)? },
        _ => return Err(wire::DecodeError::Content("an unknown kind of assertion")),
    })
}

fn optional_text(reader: &mut Reader<'_>) -> Result<Option<String>, wire::DecodeError> {
    Ok(if some(reader)? { Some(reader.text()?.to_owned()) } else { None })
}

fn name(reader: &mut Reader<'_>) -> Result<Name, wire::DecodeError> {
    Name::parse(reader.text()?).map_err(|_| wire::DecodeError::Content("invalid name"))
}

fn some(reader: &mut Reader<'_>) -> Result<bool, wire::DecodeError> {
    match reader.array()? {
        [NONE] => Ok(false),
        [SOME] => Ok(true),
        _ => Err(wire::DecodeError::Content("a byte that should be 0 or 1")),
    }
}

fn counted(version: Version) -> Result<(), wire::DecodeError> {
    if version.0 < VERSIONS { Ok(()) } else { Err(wire::DecodeError::Content("version too large")) }
}

fn version(reader: &mut Reader<'_>) -> Result<Version, wire::DecodeError> {
    let version = Version(reader.varint()?);
    counted(version).map(|()| version)
}

fn properties(reader: &mut Reader<'_>) -> Result<BTreeMap<String, Option<String>>, wire::DecodeError> {
    let mut changes = BTreeMap::new();
    for _ in 0..reader.count()? {
        let key = reader.text()?.to_owned();
        if changes.last_key_value().is_some_and(|(last, _)| *last >= key) {
            return Err(wire::DecodeError::Content("properties out of order"));
        }
        changes.insert(key, optional_text(reader)?);
    }
    Ok(changes)
}

fn advance(reader: &mut Reader<'_>) -> Result<Advance, wire::DecodeError> {
    let metadata = MetadataId(reader.u64()?);
    let count = reader.count()?;
    let mut partitions = SmallVec::with_capacity(count);
    for _ in 0..count {
        let partition = (PartitionId(reader.small()?), version(reader)?);
        if partitions.last().is_some_and(|(last, _): &(PartitionId, Version)| *last >= partition.0) {
            return Err(wire::DecodeError::Content("partitions out of order"));
        }
        partitions.push(partition);
    }
    if partitions.is_empty() {
        return Err(wire::DecodeError::Content("an advance of no partition"));
    }
    Ok(Advance { metadata, partitions })
}
