//! What is in the cell of the bound? 41 bytes: a format number, the first number that the move made the owner's, the
//! bound, the owner, the number of the owner's move; all big-endian.

use bytes::{BufMut, Bytes, BytesMut};

use crate::Timestamp;

const FORMAT: u8 = 1;
const LENGTH: usize = 1 + 8 + 8 + 16 + 8;

/// Every number below `bound` may have been given out; those from `from` on, by `owner` only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound {
    pub(super) from: u64,
    pub(super) bound: u64,
    pub(super) owner: u128,
    pub(super) moves: u64,
}

impl Bound {
    pub(super) fn encode(self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(LENGTH);
        bytes.put_u8(FORMAT);
        bytes.put_u64(self.from);
        bytes.put_u64(self.bound);
        bytes.put_u128(self.owner);
        bytes.put_u64(self.moves);
        bytes.freeze()
    }

    /// The bound that these bytes say; otherwise what is wrong with them.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let Some((&format, rest)) = bytes.split_first() else { return Err("it is empty".to_owned()) };
        if format != FORMAT {
            return Err(format!("it has format {format}, and this program knows format {FORMAT}: use a newer one"));
        }
        let numbers = rest.split_at_checked(16).and_then(|(range, rest)| {
            let ((from, bound), (owner, moves)) = (range.split_at(8), rest.split_at_checked(16)?);
            let number = |part: &[u8]| part.try_into().ok().map(u64::from_be_bytes);
            let owner = u128::from_be_bytes(owner.try_into().ok()?);
            Some(Self { from: number(from)?, bound: number(bound)?, owner, moves: number(moves)? })
        });
        let bound = numbers.ok_or_else(|| format!("it has {} bytes, where {LENGTH} are allowed", bytes.len()))?;
        let most = Timestamp::LAST.get() + 1;
        match bound.bound {
            to if (1..=to).contains(&bound.from) && to <= most => Ok(bound),
            to => Err(format!("it is of numbers from {} to {to}, where 1 to {most} is allowed", bound.from)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bounds_come_back(bound in 1..=Timestamp::LAST.get() + 1, owner: u128, moves: u64) {
            let bound = Bound { from: bound - bound / 3, bound, owner, moves };
            prop_assert_eq!(Bound::decode(&bound.encode()), Ok(bound));
        }

        #[test]
        fn whatever_decodes_encodes_to_the_same(bytes in prop::collection::vec(any::<u8>(), 0..40), good: bool) {
            let mut bytes = bytes;
            if good && !bytes.is_empty() {
                bytes.resize(LENGTH, 7);
                bytes[0] = FORMAT;
            }
            if let Ok(bound) = Bound::decode(&bytes) {
                prop_assert_eq!(bound.encode(), bytes);
            }
        }
    }
}
