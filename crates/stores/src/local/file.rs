//! What does an object's file look like, so that a reader without a lock, and whoever comes after a crash, sees one whole
//! state of it?
//!
//! The file begins with two slots, each in a disk sector of its own, and its content follows. A slot says how long the
//! content is and what the tag is, and carries a checksum. The valid slot with the higher generation counts.
//!
//! A put makes a new file with one slot. An append writes behind the content that counts, makes that durable, and then
//! fills the slot that does not count: until that is whole, the other one does. Content that counts is never overwritten,
//! so a reader who has read the slots can take its time.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use bytes::{Bytes, BytesMut};
use glidepath_env::Tag;

const SECTOR: usize = 512;

/// Where the content begins.
pub(super) const CONTENT: u64 = 2 * SECTOR as u64;

const MAGIC: &[u8; 8] = b"glidepa1";
const SLOT: usize = 48;

/// One state of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct State {
    /// Counted up within one file.
    generation: u64,
    /// Of the content, in bytes.
    pub(super) length: u64,
    /// Drawn at random for every state, which is why no tag comes twice: not after a delete, not after a crash, not where
    /// file numbers, times and sizes are the same again.
    nonce: u128,
}

impl State {
    /// The state of a file that nobody has appended to.
    pub(super) fn first(length: u64) -> Self {
        Self { generation: 1, length, nonce: rand::random() }
    }

    /// The state after an append, with so many bytes in all.
    pub(super) fn next(&self, length: u64) -> Self {
        Self { generation: self.generation + 1, length, nonce: rand::random() }
    }

    pub(super) fn tag(&self) -> Tag {
        Tag::text(&format!("{:032x}", self.nonce))
    }

    /// Where its slot is: the one that the state before it does not use.
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

/// The state that counts. Needs no lock.
pub(super) fn state(file: &File) -> io::Result<State> {
    let mut slots = [0; CONTENT as usize];
    file.read_exact_at(&mut slots, 0).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged("it is too short"),
        _ => error,
    })?;
    State::of_slots(&slots).ok_or_else(|| damaged("neither of its slots is whole"))
}

/// Bytes of the content of a state. Needs no lock.
pub(super) fn read(file: &File, state: &State, start: u64, end: u64) -> io::Result<Bytes> {
    let end = end.min(state.length);
    let start = start.min(end);
    let length = usize::try_from(end - start).map_err(|_| damaged("it is larger than memory"))?;
    let mut content = Vec::new();
    content.try_reserve_exact(length).map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
    content.resize(length, 0);
    file.read_exact_at(&mut content, CONTENT + start).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => damaged("its content is shorter than its slot says"),
        _ => error,
    })?;
    Ok(content.into())
}

fn damaged(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the file of this object is damaged: {why}"))
}

/// Fills a new file.
pub(super) fn fill(file: &File, state: &State, bytes: &[u8], filler: u64) -> io::Result<()> {
    let mut head = BytesMut::zeroed(CONTENT as usize);
    head[..SLOT].copy_from_slice(&state.encode());
    // One write where the content is small, as it mostly is; otherwise it need not be copied.
    if bytes.len() <= 64 << 10 {
        head.extend_from_slice(bytes);
        file.write_all_at(&head, 0)?;
    } else {
        file.write_all_at(&head, 0)?;
        file.write_all_at(bytes, CONTENT)?;
    }
    write_zeros(file, CONTENT + bytes.len() as u64, filler)
}

/// Writes behind the content that counts, where no reader looks. Where that fails, as on a full disk, gives the space back.
pub(super) fn write_behind(file: &File, state: &State, bytes: &[u8], filler: u64) -> io::Result<()> {
    let at = CONTENT + state.length;
    let wrote = file.write_all_at(bytes, at).and_then(|()| write_zeros(file, at + bytes.len() as u64, filler));
    if wrote.is_err() {
        // Should this fail too, the next append overwrites what stays.
        let _ = file.set_len(at);
    }
    wrote
}

/// Lets a state that follows the one that counts count. What it counts must be durable.
pub(super) fn switch(file: &File, state: &State) -> io::Result<()> {
    file.write_all_at(&state.encode(), state.place() as u64)
}

fn write_zeros(file: &File, mut at: u64, mut count: u64) -> io::Result<()> {
    const ZEROS: &[u8; 64 << 10] = &[0; 64 << 10];
    while count > 0 {
        let now = count.min(ZEROS.len() as u64);
        file.write_all_at(&ZEROS[..now as usize], at)?;
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
        let first = State::first(10);
        let second = first.next(20);
        let third = second.next(30);
        assert_eq!(State::of_slots(&slots(&[first])), Some(first));
        assert_eq!(State::of_slots(&slots(&[first, second])), Some(second));
        assert_eq!(State::of_slots(&slots(&[first, second, third])), Some(third));
        assert!(first.tag() != second.tag() && second.tag() != third.tag());
    }

    /// Whatever part of a slot reached the disk, and whatever was there before: the old state or the new.
    #[test]
    fn a_torn_slot_leaves_the_state_before() {
        let first = State::first(10);
        let second = first.next(20);
        let third = second.next(30);
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
        let state = State::first(10);
        let whole = slots(&[state]);
        for bit in 0..44 * 8 {
            let mut changed = whole.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(State::of_slots(&changed), None, "bit {bit}");
        }
    }
}
