//! The format of an object's file. A reader without a lock, and any process after a crash, finds one complete state in
//! it.
//!
//! The file begins with two slots, each in a disk sector of its own, and its content follows. A slot has the length of
//! the content, the tag, and a checksum. Of the intact slots, the one with the higher generation is valid.
//!
//! A put writes a new file with one slot. An append writes after the valid content, makes that durable, and then fills
//! the other slot; until that slot is intact, the first one stays valid. Valid content is never overwritten, so a
//! reader that has read the slots can read the content at any later time.

use std::io;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use glidepath_env::{Files, Payload, Tag};

const SECTOR: usize = 512;

/// The offset of the content.
pub(crate) const CONTENT: u64 = 2 * SECTOR as u64;

const MAGIC: &[u8; 8] = b"glidepa1";
const SLOT: usize = 48;

/// One state of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// Incremented with each append to the file.
    generation: u64,
    /// The length of the content, in bytes.
    pub(crate) length: u64,
    /// Drawn at random for every state, so no tag is used twice: not after a delete, not after a crash, not if file
    /// numbers, times and sizes repeat.
    nonce: u128,
}

impl State {
    /// The state of a file without appends.
    pub(crate) fn first(length: u64, nonce: u128) -> Self {
        Self { generation: 1, length, nonce }
    }

    /// The state after an append, with this total length.
    pub(crate) fn next(&self, length: u64, nonce: u128) -> Self {
        Self { generation: self.generation + 1, length, nonce }
    }

    pub(crate) fn tag(&self) -> Tag {
        Tag::text(&format!("{:032x}", self.nonce))
    }

    /// The index of its slot: the one that the state before it does not use.
    fn place(&self) -> usize {
        if self.generation % 2 == 1 { 0 } else { SECTOR }
    }

    fn encode(&self) -> [u8; SLOT] {
        let mut slot = [0; SLOT];
        slot[..8].copy_from_slice(MAGIC);
        slot[8..16].copy_from_slice(&self.generation.to_le_bytes());
        slot[16..24].copy_from_slice(&self.length.to_le_bytes());
        slot[24..40].copy_from_slice(&self.nonce.to_le_bytes());
        let checksum = crc32fast::hash(&slot[..40]);
        slot[40..44].copy_from_slice(&checksum.to_le_bytes());
        slot
    }

    fn decode(slot: &[u8]) -> Option<Self> {
        let (fields, checksum) = slot.get(..44)?.split_at(40);
        if &fields[..8] != MAGIC || checksum != crc32fast::hash(fields).to_le_bytes() {
            return None;
        }
        Some(Self {
            generation: u64::from_le_bytes(fields[8..16].try_into().ok()?),
            length: u64::from_le_bytes(fields[16..24].try_into().ok()?),
            nonce: u128::from_le_bytes(fields[24..40].try_into().ok()?),
        })
    }

    fn of_slots(slots: &[u8]) -> Option<Self> {
        let (first, second) = slots.split_at_checked(SECTOR)?;
        [first, second].into_iter().filter_map(Self::decode).max_by_key(|state| state.generation)
    }
}

/// Random bits for the tag of a new state.
pub(crate) fn nonce<F: Files>(files: &F) -> u128 {
    u128::from(files.draw()) << 64 | u128::from(files.draw())
}

/// The valid state. Needs no lock.
pub(crate) async fn state<F: Files>(files: &F, file: &F::File) -> io::Result<State> {
    let mut slots = [0; CONTENT as usize];
    read_exact(files, file, &mut slots, 0, "it is too short").await?;
    State::of_slots(&slots).ok_or_else(|| damaged("neither of its slots is intact"))
}

/// Bytes of the content of a state. Needs no lock.
pub(crate) async fn read<F: Files>(files: &F, file: &F::File, state: &State, range: Range<u64>) -> io::Result<Bytes> {
    let end = range.end.min(state.length);
    let start = range.start.min(end);
    let length = usize::try_from(end - start).map_err(|_| damaged("it is larger than memory"))?;
    let mut content = Vec::new();
    content.try_reserve_exact(length).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    content.resize(length, 0);
    read_exact(files, file, &mut content, CONTENT + start, "its content is shorter than its slot says").await?;
    Ok(content.into())
}

async fn read_exact<F: Files>(
    files: &F,
    file: &F::File,
    mut buffer: &mut [u8],
    mut at: u64,
    too_short: &str,
) -> io::Result<()> {
    while !buffer.is_empty() {
        match files.read_at(file, buffer, at).await {
            Ok(0) => return Err(damaged(too_short)),
            Ok(read) => {
                buffer = &mut buffer[read..];
                at += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Writes all the bytes, in as many calls as needed.
pub(crate) async fn write_all<F: Files>(files: &F, file: &F::File, mut bytes: &[u8], mut at: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match files.write_at(file, bytes, at).await {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                bytes = &bytes[written..];
                at += written as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// The valid content of a file, and its tag; `None` if the file is damaged.
pub(crate) fn shown(file: &[u8]) -> Option<(Payload, Tag)> {
    let state = State::of_slots(file.get(..CONTENT as usize)?)?;
    let end = usize::try_from(CONTENT + state.length).ok()?;
    let content = file.get(CONTENT as usize..end)?;
    Some((Bytes::copy_from_slice(content).into(), state.tag()))
}

fn damaged(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the file of this object is damaged: {why}"))
}

/// Fills a new file.
pub(crate) async fn fill<F: Files>(files: &F, file: &F::File, state: &State, payload: &Payload) -> io::Result<()> {
    let bytes = &payload.bytes;
    let mut head = BytesMut::zeroed(CONTENT as usize);
    head[state.place()..][..SLOT].copy_from_slice(&state.encode());
    // One write for small content, the usual case; large content is not copied.
    if bytes.len() <= 64 << 10 {
        head.extend_from_slice(bytes);
        write_all(files, file, &head, 0).await?;
    } else {
        write_all(files, file, &head, 0).await?;
        write_all(files, file, bytes, CONTENT).await?;
    }
    write_zeros(files, file, CONTENT + bytes.len() as u64, payload.filler.as_bytes()).await
}

/// Writes after the valid content, where no reader reads.
pub(crate) async fn write_behind<F: Files>(
    files: &F,
    file: &F::File,
    state: &State,
    payload: &Payload,
) -> io::Result<()> {
    let at = CONTENT + state.length;
    write_all(files, file, &payload.bytes, at).await?;
    write_zeros(files, file, at + payload.bytes.len() as u64, payload.filler.as_bytes()).await
}

/// Removes the bytes after the valid content, and frees their space. If that fails, the next append overwrites them.
pub(crate) async fn cut_off<F: Files>(files: &F, file: &F::File, state: &State) {
    let _ = files.set_len(file, CONTENT + state.length).await;
}

/// Makes the next state valid. The content that it counts must be durable.
pub(crate) async fn switch<F: Files>(files: &F, file: &F::File, state: &State) -> io::Result<()> {
    write_all(files, file, &state.encode(), state.place() as u64).await
}

async fn write_zeros<F: Files>(files: &F, file: &F::File, mut at: u64, mut count: u64) -> io::Result<()> {
    const ZEROS: &[u8; 64 << 10] = &[0; 64 << 10];
    while count > 0 {
        let now = count.min(ZEROS.len() as u64);
        write_all(files, file, &ZEROS[..now as usize], at).await?;
        at += now;
        count -= now;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{SECTOR, SLOT, State};

    fn slots(states: &[State]) -> Vec<u8> {
        let mut slots = vec![0; 2 * SECTOR];
        for state in states {
            slots[state.place()..][..SLOT].copy_from_slice(&state.encode());
        }
        slots
    }

    #[test]
    fn the_newest_whole_state_counts() {
        let first = State::first(10, 1);
        let second = first.next(20, 2);
        let third = second.next(30, 3);
        assert_eq!(State::of_slots(&slots(&[first])), Some(first));
        assert_eq!(State::of_slots(&slots(&[first, second])), Some(second));
        assert_eq!(State::of_slots(&slots(&[first, second, third])), Some(third));
        assert!(first.tag() != second.tag() && second.tag() != third.tag());
    }

    /// Whatever part of a slot reached the disk, and whatever was there before: the old state or the new one is found.
    #[test]
    fn a_torn_slot_leaves_the_state_before() {
        let first = State::first(10, 1);
        let second = first.next(20, 2);
        let third = second.next(30, 3);
        let (before, after) = (slots(&[first, second]), slots(&[first, second, third]));
        for whole in 0..=SLOT {
            let mut torn = before.clone();
            torn[..whole].copy_from_slice(&after[..whole]);
            let found = State::of_slots(&torn);
            let all = torn == after;
            assert_eq!(found, Some(if all { third } else { second }), "{whole} bytes reached the disk");
        }
    }

    #[test]
    fn no_changed_bit_goes_unseen() {
        let state = State::first(10, 1);
        let whole = slots(&[state]);
        for bit in 0..44 * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(State::of_slots(&changed), None, "bit {bit}");
        }
    }
}
