//! Pages of the tree, and references to them.

use std::sync::Arc;

use arrow_schema::ArrowError;
use bytes::Bytes;

use super::block;
use crate::mutant::{self, Mutant};
use crate::wire::{CHECKSUM, DecodeError, Reader, checked, checksum_of, put_bytes, put_checksum, put_varint, shared};

/// The object that a page is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Home {
    /// The object of this version of the catalog.
    Version(u64),
    /// A pack.
    Pack {
        /// The version that its writer was trying to make.
        version: u64,
        /// The writer's commit.
        commit: u64,
        /// The index of this pack among those of the commit.
        number: u32,
    },
}

/// The location of a page. Pages never change, and the bytes at a location are never replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PageRef {
    /// The object.
    pub home: Home,
    /// Whether it is a leaf.
    pub leaf: bool,
    /// The offset of its first byte in the object.
    pub offset: u32,
    /// Its length in bytes, including the checksum.
    pub length: u32,
    /// Its checksum: what else is found at the location was not written there. `None` if the reference was written
    /// before references had one.
    pub checksum: Option<u32>,
}

/// A key of the tree.
pub(crate) type Key = Bytes;

/// A page as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// Keys and values, in rising order of keys.
    Leaf(Vec<(Key, Bytes)>),
    /// Pages below, each with a key that is at most its least key and greater than all keys of the page before.
    Inner(Vec<(Key, PageRef)>),
}

const LEAF: u8 = 0;
const INNER: u8 = 1;
/// A leaf whose items are stored as columns.
const BLOCK: u8 = 2;
/// The same with the column of metadata pointers.
const POINTING_BLOCK: u8 = 3;
const IN_PACK: u8 = 1;
const IS_LEAF: u8 = 2;
const HAS_CHECKSUM: u8 = 4;

/// Bytes of a page besides its items: kind, count, checksum.
pub(crate) const PAGE_OVERHEAD: usize = 1 + 3 + CHECKSUM;

/// Bytes of a reference, at most.
pub(crate) const REFERENCE: usize = 1 + 9 + 8 + 3 + 4 + 3 + CHECKSUM;

impl Page {
    /// Appends the page.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut page = Vec::new();
        match self {
            Self::Leaf(items) => {
                page.push(LEAF);
                put_varint(&mut page, items.len() as u64);
                for (key, value) in items {
                    put_bytes(&mut page, key);
                    put_bytes(&mut page, value);
                }
            }
            Self::Inner(children) => {
                page.push(INNER);
                put_varint(&mut page, children.len() as u64);
                for (key, child) in children {
                    put_bytes(&mut page, key);
                    child.encode(&mut page);
                }
            }
        }
        put_checksum(&mut page);
        out.extend_from_slice(&page);
    }

    /// The size of keys and values; larger than a block of columns is in the store.
    pub(crate) fn content_bytes(&self) -> usize {
        match self {
            Self::Leaf(items) => items.iter().map(|(key, value)| key.len() + value.len()).sum(),
            Self::Inner(children) => children.iter().map(|(key, _)| key.len() + REFERENCE).sum(),
        }
    }

    /// Decodes the page at a location.
    pub(crate) fn read(bytes: &Bytes, at: PageRef) -> Result<Arc<Self>, DecodeError> {
        let page = Self::decode(bytes)?;
        at.check(bytes)?;
        match at.leaf == matches!(*page, Self::Leaf(_)) {
            true => Ok(page),
            false => Err(DecodeError::Content(
                "a leaf where an inner page should be, or an inner page where a leaf should be",
            )),
        }
    }

    /// Decodes a page; keys and values share its bytes.
    pub(crate) fn decode(bytes: &Bytes) -> Result<Arc<Self>, DecodeError> {
        let mut reader = Reader(checked(bytes)?);
        let kind = reader.array::<1>()?[0];
        let page = match kind {
            BLOCK | POINTING_BLOCK => {
                let items = block::decode(shared(bytes, reader.0), kind == POINTING_BLOCK)?;
                rising(&items)?;
                reader.0 = &[];
                Self::Leaf(items)
            }
            LEAF => {
                let count = reader.count()?;
                let mut items = Vec::with_capacity(count);
                for _ in 0..count {
                    items.push((shared(bytes, reader.bytes()?), shared(bytes, reader.bytes()?)));
                }
                rising(&items)?;
                Self::Leaf(items)
            }
            INNER => {
                let count = reader.count()?;
                let mut children = Vec::with_capacity(count);
                for _ in 0..count {
                    children.push((shared(bytes, reader.bytes()?), PageRef::decode(&mut reader)?));
                }
                rising(&children)?;
                if children.is_empty() {
                    return Err(DecodeError::Content("inner page without children"));
                }
                Self::Inner(children)
            }
            _ => return Err(DecodeError::Content("unknown kind of page")),
        };
        reader.end()?;
        Ok(Arc::new(page))
    }
}

/// A leaf of these items, as columns.
///
/// # Errors
/// If they are too large for one block.
pub(crate) fn encode_block(items: &[(Key, Bytes)]) -> Result<Bytes, ArrowError> {
    let mut page = vec![BLOCK];
    if block::encode(items, &mut page)? {
        page[0] = POINTING_BLOCK;
    }
    put_checksum(&mut page);
    Ok(page.into())
}

/// Checks that these are the bytes of the block at a location, as they were written.
pub(crate) fn check_block(bytes: &[u8], at: PageRef) -> Result<(), DecodeError> {
    let content = checked(bytes)?;
    at.check(bytes)?;
    match content.first() {
        Some(&(BLOCK | POINTING_BLOCK)) => Ok(()),
        _ => Err(DecodeError::Content("another kind of page where a block should be")),
    }
}

fn rising<T>(items: &[(Key, T)]) -> Result<(), DecodeError> {
    let rises = items.windows(2).all(|pair| pair[0].0 < pair[1].0);
    if rises { Ok(()) } else { Err(DecodeError::Content("keys do not rise")) }
}

impl PageRef {
    /// The location of a page with these bytes.
    pub(crate) fn of(home: Home, leaf: bool, offset: usize, page: &[u8]) -> Self {
        Self { home, leaf, offset: offset as u32, length: page.len() as u32, checksum: Some(checksum_of(page)) }
    }

    /// Whether these are the bytes that were written there, as their checksum has it.
    fn check(&self, page: &[u8]) -> Result<(), DecodeError> {
        let differs = self.checksum.is_some_and(|checksum| checksum != checksum_of(page));
        if differs && !mutant::is(Mutant::ReplacedTaken) { Err(DecodeError::Replaced) } else { Ok(()) }
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let kind = if self.leaf { IS_LEAF } else { 0 } | if self.checksum.is_some() { HAS_CHECKSUM } else { 0 };
        match self.home {
            Home::Version(version) => {
                out.push(kind);
                put_varint(out, version);
            }
            Home::Pack { version, commit, number } => {
                out.push(kind | IN_PACK);
                put_varint(out, version);
                out.extend_from_slice(&commit.to_le_bytes());
                put_varint(out, u64::from(number));
            }
        }
        put_varint(out, u64::from(self.offset));
        put_varint(out, u64::from(self.length));
        if let Some(checksum) = self.checksum {
            out.extend_from_slice(&checksum.to_le_bytes());
        }
    }

    pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let kind = reader.array::<1>()?[0];
        if kind & !(IN_PACK | IS_LEAF | HAS_CHECKSUM) != 0 {
            return Err(DecodeError::Content("an unknown kind of home in a page reference"));
        }
        let version = reader.varint()?;
        let home = if kind & IN_PACK == 0 {
            Home::Version(version)
        } else {
            Home::Pack { version, commit: reader.u64()?, number: reader.small()? }
        };
        let (offset, length) = (reader.small()?, reader.small()?);
        let has_checksum = kind & HAS_CHECKSUM != 0;
        let checksum = if has_checksum { Some(u32::from_le_bytes(reader.array()?)) } else { None };
        Ok(Self { home, leaf: kind & IS_LEAF != 0, offset, length, checksum })
    }
}
