//! How is a cell's name one key? As the length of its row, the row, and the column: cells of a row lie together, in the
//! byte order of their columns, and no two cells have one key.
//!
//! The length has 7 bits a byte, lowest first; the highest bit says that another byte follows. So it costs one byte
//! where a row has less than 128, and no row's beginning is the beginning of another one's.

use std::ops::Bound;

use bytes::Bytes;
use fjall::Slice;

/// Bytes of a key, at most: the library takes no longer one.
pub(super) const LONGEST_KEY: usize = u16::MAX as usize;

/// What the keys of a row begin with.
pub(super) fn beginning(row: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(row.len() + 3);
    let mut rest = row.len();
    while rest > 0x7f {
        key.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    key.push(rest as u8);
    key.extend_from_slice(row);
    key
}

/// Makes the keys of one row.
pub(super) struct Row {
    key: Vec<u8>,
    beginning: usize,
}

impl Row {
    pub(super) fn new(row: &[u8]) -> Self {
        let key = beginning(row);
        Self { beginning: key.len(), key }
    }

    /// The key of the cell in this column.
    pub(super) fn key(&mut self, column: &[u8]) -> Slice {
        self.key.truncate(self.beginning);
        self.key.extend_from_slice(column);
        Slice::from(&self.key[..])
    }
}

/// The row in a key; `None` if it is no key of a cell.
pub(super) fn row_of(key: &[u8]) -> Option<&[u8]> {
    let (mut length, mut at) = (0_usize, 0_usize);
    loop {
        let byte = *key.get(at)?;
        length |= usize::from(byte & 0x7f).checked_shl(7 * u32::try_from(at).ok()?)?;
        at += 1;
        if byte & 0x80 == 0 {
            break;
        }
    }
    key.get(at..at.checked_add(length)?)
}

/// The first key behind all those that begin so.
pub(super) fn behind(beginning: &[u8]) -> Bound<Vec<u8>> {
    let last = beginning.iter().rposition(|byte| *byte < 0xff);
    last.map_or(Bound::Unbounded, |last| {
        let mut next = beginning[..=last].to_vec();
        next[last] += 1;
        Bound::Excluded(next)
    })
}

/// What the library holds, for others.
pub(super) fn bytes(slice: &[u8]) -> Bytes {
    Bytes::copy_from_slice(slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(row: &[u8], column: &[u8]) -> Slice {
        Row::new(row).key(column)
    }

    #[test]
    fn a_key_gives_its_row_back_and_columns_stay_in_order() {
        for length in [1, 2, 126, 127, 128, 129, 1000, 16_383, 16_384, 60_000] {
            let row = vec![0xff; length];
            let key = |column: &[u8]| key(&row, column);
            assert_eq!(row_of(&key(b"column")), Some(&row[..]));
            assert_eq!(row_of(&key(b"")), Some(&row[..]));
            let columns: [&[u8]; 6] = [b"\0", b"\0\0", b"a", b"a\0", b"b", b"\xff"];
            assert!(columns.is_sorted_by_key(|column| key(column)));
            let Bound::Excluded(behind) = behind(&beginning(&row)) else { panic!("there is a key behind") };
            assert!(columns.iter().all(|column| key(column)[..] < behind[..]));
        }
    }

    #[test]
    fn rows_of_which_one_begins_with_another_share_no_key() {
        assert_ne!(key(b"a", b"bc"), key(b"ab", b"c"));
        assert!(!key(b"ab", b"c").starts_with(&beginning(b"a")));
        assert_eq!(row_of(&[]), None);
        assert_eq!(row_of(&[5, 1]), None);
        assert_eq!(row_of(&[0xff; 20]), None);
    }
}
