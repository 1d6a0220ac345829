//! What the objects contain. `docs/protocols/tickets.md` has the tables.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use glidepath_model::{CommitId, Entry, Name};

use super::keys::Hash;
use crate::entry;
use crate::mutant::{self, Mutant};
use crate::wire::{CHECKSUM, DecodeError, Frame, HEAD, Reader, put_bytes, put_checksum, put_varint, varint_length};

/// The number of puts whose ids a slot has.
pub(super) const LINEAGE: usize = 32;

/// The most bytes of names in a slot of a roster that repeats others. Without a limit, a slot would one day be too
/// large for a put of the store, and no slot could ever come after the one before it. This is a quarter of the smallest
/// put that a store takes by default (Cassandra, 4 MiB), and so much that a reader of many names makes few reads.
pub(super) const ROSTER_BYTES: usize = 1 << 20;

/// The length of an emptied slot: a slot with content is longer.
pub const EMPTIED_BYTES: usize = HEAD + 8 + CHECKSUM;

pub(super) const SLOT: Frame = Frame { magic: *b"GPTS", format: 1, known_flags: RETIRED, name: "a slot of a name" };
const EMPTIED: Frame = Frame { magic: *b"GPTE", format: 1, known_flags: 0, name: "an emptied slot" };
const RECORD: Frame = Frame { magic: *b"GPTR", format: 1, known_flags: NAMED, name: "a record of a transaction" };
pub(super) const ROSTER: Frame =
    Frame { magic: *b"GPTN", format: 1, known_flags: SHORTENED | TRIMMED, name: "a slot of a roster" };
const FORMAT: Frame =
    Frame { magic: *b"GPTF", format: 1, known_flags: SHA256, name: "the format of a catalog of tickets" };

/// Feature flag of a record: it begins with the id of its transaction. All that are written now do.
const NAMED: u16 = 1;

/// Feature flag of a slot of a roster: it says from which slot on it repeats others, because it is another one than
/// [`Roster::usual_first`]. A reader that passed over all that are usually repeated would miss names.
const SHORTENED: u16 = 1;

/// Feature flag of a slot of a roster: it says which slots do not count any more.
const TRIMMED: u16 = 2;

/// Feature flag of a slot of a name: the name is retired.
const RETIRED: u16 = 1;

/// Feature flag of the format: names that are too long for a key are hashed with SHA-256. All that are written now are.
const SHA256: u16 = 1;

/// The id of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct TxnId(pub(super) u128);

impl TxnId {
    /// The id of the commit that it makes.
    pub(super) fn commit(self) -> CommitId {
        CommitId(self.0 as u64)
    }
}

/// All that is known of a name after a put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) name: Name,
    /// Counted from 1.
    pub(super) number: u64,
    /// The ids of the last puts, this one first.
    pub(super) lineage: Vec<u64>,
    /// The commit that made the settled entry; 0 if there was none.
    pub(super) commit: CommitId,
    pub(super) settled: Option<Entry>,
    pub(super) intent: Option<Intent>,
    /// Whether the name may have been taken off its roster. If so it stands for nothing, and who creates it adds it to
    /// the roster, whatever is there. A slot on top is retired too, unless it creates the name.
    pub(super) retired: bool,
}

/// What a transaction will make of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Intent {
    pub(super) txn: TxnId,
    pub(super) after: Option<Entry>,
}

/// What the object of a slot contains.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "nearly all are slots")]
pub(super) enum Held {
    Slot(Slot),
    /// Emptied when this slot was the newest one listed.
    Emptied(u64),
}

/// The end of a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) committed: bool,
    /// The names with its intents; none if it was aborted.
    pub(super) names: Vec<Name>,
}

/// Names that were added to a roster, by this slot and some before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Roster {
    pub(super) number: u64,
    /// The first slot that this one repeats: it has all names that the slots from there to itself added.
    pub(super) first: u64,
    /// Slots up to this one do not count any more: what of their names is still on the roster was added again by slots
    /// after it. 0 if all count.
    pub(super) floor: u64,
    pub(super) names: Vec<Name>,
}

impl Slot {
    /// The id of the put that made this slot.
    pub(super) fn id(&self) -> u64 {
        self.lineage.first().copied().unwrap_or_default()
    }

    /// The id of the put of an earlier slot; `None` if the lineage does not reach back to it.
    pub(super) fn id_at(&self, number: u64) -> Option<u64> {
        let back = usize::try_from(self.number.checked_sub(number)?).ok()?;
        self.lineage.get(back).copied()
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        put_bytes(&mut out, self.name.as_str().as_bytes());
        put_varint(&mut out, self.number);
        put_varint(&mut out, self.lineage.len() as u64);
        for id in &self.lineage {
            out.extend_from_slice(&id.to_le_bytes());
        }
        out.extend_from_slice(&self.commit.0.to_le_bytes());
        put_entry(&mut out, self.settled.as_ref());
        match &self.intent {
            None => out.push(0),
            Some(Intent { txn, after }) => {
                out.push(1);
                out.extend_from_slice(&txn.0.to_le_bytes());
                put_entry(&mut out, after.as_ref());
            }
        }
        framed_with(&SLOT, if self.retired { RETIRED } else { 0 }, &out)
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (flags, content) = SLOT.open(bytes)?;
        let mut content = Reader(content);
        let (name, number) = (name(&mut content)?, content.varint()?);
        let count = content.count()?;
        let lineage = (0..count).map(|_| content.u64()).collect::<Result<Vec<_>, _>>()?;
        let (commit, settled) = (CommitId(content.u64()?), entry(&mut content)?);
        let intent = match content.array::<1>()? {
            [0] => None,
            [1] => {
                let txn = TxnId(u128::from_le_bytes(content.array()?));
                Some(Intent { txn, after: entry(&mut content)? })
            }
            _ => return Err(DecodeError::Content("neither an intent nor none")),
        };
        content.end()?;
        if lineage.is_empty() || number == 0 {
            return Err(DecodeError::Content("a slot without the id of its put, or without a number"));
        }
        let retired = flags & RETIRED != 0;
        if retired && (settled.is_some() || intent.as_ref().is_some_and(|intent| intent.after.is_some())) {
            return Err(DecodeError::Content("a retired name that stands for something"));
        }
        Ok(Self { name, number, lineage, commit, settled, intent, retired })
    }
}

impl Held {
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        if bytes.len() != EMPTIED_BYTES {
            return Slot::decode(bytes).map(Self::Slot);
        }
        let (_, content) = EMPTIED.open(bytes)?;
        Ok(Self::Emptied(Reader(content).u64()?))
    }

    pub(super) fn emptied(newest: u64) -> Bytes {
        framed(&EMPTIED, &newest.to_le_bytes())
    }
}

impl Record {
    /// As the record of this transaction.
    pub(super) fn encode(&self, txn: TxnId) -> Bytes {
        let mut out = txn.0.to_le_bytes().to_vec();
        out.push(u8::from(self.committed));
        put_names(&mut out, &self.names);
        framed_with(&RECORD, NAMED, &out)
    }

    /// The record of this transaction.
    pub(super) fn decode(bytes: &[u8], txn: TxnId) -> Result<Self, DecodeError> {
        let (flags, content) = RECORD.open(bytes)?;
        let mut content = Reader(content);
        if flags & NAMED != 0 && u128::from_le_bytes(content.array()?) != txn.0 && !mutant::is(Mutant::ReplacedTaken) {
            return Err(DecodeError::Replaced);
        }
        let committed = match content.array::<1>()? {
            [0] => false,
            [1] => true,
            _ => return Err(DecodeError::Content("neither committed nor aborted")),
        };
        Ok(Self { committed, names: names(content)? })
    }
}

impl Roster {
    /// The first slot that a slot repeats, unless that is too many names.
    pub(super) fn usual_first(number: u64) -> u64 {
        number - lowest_bit(number) + 1
    }

    /// How many slots it has the names of, itself included.
    pub(super) fn width(&self) -> u64 {
        self.number - self.first + 1
    }

    /// The names that this slot added, given those that slots before it did.
    pub(super) fn own<'a, N>(self, before: &'a BTreeMap<u64, N>) -> Vec<Name>
    where
        &'a N: IntoIterator<Item = &'a Name>,
    {
        let repeated: BTreeSet<&Name> = before.range(self.first..self.number).flat_map(|(_, names)| names).collect();
        self.names.into_iter().filter(|name| !repeated.contains(name)).collect()
    }

    /// Slots that repeat as much as usual, with all slots before them, are written as before there were flags.
    pub(super) fn encode(&self) -> Bytes {
        let mut out = Vec::new();
        put_varint(&mut out, self.number);
        let shortened = self.first != Self::usual_first(self.number) && !mutant::is(Mutant::RosterCutUntold);
        if shortened {
            put_varint(&mut out, self.first);
        }
        if self.floor > 0 {
            put_varint(&mut out, self.floor);
        }
        put_names(&mut out, &self.names);
        let flags = [(SHORTENED, shortened), (TRIMMED, self.floor > 0)];
        let flags = flags.into_iter().filter(|(_, set)| *set).fold(0, |flags, (flag, _)| flags | flag);
        framed_with(&ROSTER, flags, &out)
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let (flags, content) = ROSTER.open(bytes)?;
        let mut content = Reader(content);
        let number = content.varint()?;
        let first = match flags & SHORTENED {
            0 => Self::usual_first(number),
            _ => content.varint()?,
        };
        let floor = match flags & TRIMMED {
            0 => 0,
            _ => content.varint()?,
        };
        // Whoever goes from each slot to the one before the first that it repeats comes to an end.
        if !(1..=number).contains(&first) {
            return Err(DecodeError::Content("a slot of a roster without a number, or that repeats slots after it"));
        }
        if floor >= first {
            return Err(DecodeError::Content("a slot of a roster that repeats slots which it says do not count"));
        }
        Ok(Self { number, first, floor, names: names(content)? })
    }
}

/// The lowest bit that is set in a number.
pub(super) fn lowest_bit(number: u64) -> u64 {
    number & number.wrapping_neg()
}

/// The bytes that a name takes in a list of names.
pub(super) fn name_bytes(name: &Name) -> usize {
    let length = name.as_str().len();
    varint_length(length as u64) + length
}

/// The object that says that there is a catalog; `creation` tells which creation put it.
pub(super) fn encode_format(creation: u64) -> Bytes {
    framed_with(&FORMAT, SHA256, &creation.to_le_bytes())
}

/// Which creation put it, and how long names are hashed.
pub(super) fn decode_format(bytes: &[u8]) -> Result<(u64, Hash), DecodeError> {
    let (flags, content) = FORMAT.open(bytes)?;
    let mut content = Reader(content);
    let creation = content.u64()?;
    content.end()?;
    Ok((creation, if flags & SHA256 != 0 { Hash::Sha256 } else { Hash::Fnv }))
}

fn framed(frame: &Frame, content: &[u8]) -> Bytes {
    framed_with(frame, 0, content)
}

fn framed_with(frame: &Frame, flags: u16, content: &[u8]) -> Bytes {
    let mut out = frame.begin(flags, HEAD + content.len() + CHECKSUM);
    out.extend_from_slice(content);
    put_checksum(&mut out);
    out.into()
}

fn put_entry(out: &mut Vec<u8>, entry: Option<&Entry>) {
    match entry {
        None => out.push(0),
        Some(entry) => {
            out.push(1);
            put_varint(out, entry::length(entry) as u64);
            entry::put(out, entry);
        }
    }
}

fn entry(content: &mut Reader<'_>) -> Result<Option<Entry>, DecodeError> {
    match content.array::<1>()? {
        [0] => Ok(None),
        [1] => entry::decode(content.bytes()?).map(Some),
        _ => Err(DecodeError::Content("neither an entry nor none")),
    }
}

fn name(content: &mut Reader<'_>) -> Result<Name, DecodeError> {
    Name::parse(content.text()?).map_err(|_| DecodeError::Content("invalid name"))
}

fn put_names(out: &mut Vec<u8>, names: &[Name]) {
    put_varint(out, names.len() as u64);
    for name in names {
        put_bytes(out, name.as_str().as_bytes());
    }
}

fn names(mut content: Reader<'_>) -> Result<Vec<Name>, DecodeError> {
    let count = content.count()?;
    let names = (0..count).map(|_| name(&mut content)).collect::<Result<Vec<_>, _>>()?;
    content.end()?;
    Ok(names)
}
