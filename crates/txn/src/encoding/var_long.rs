//! How is a number written so that the byte order of what is written is the order of the numbers?
//!
//! VAR_LONG of Palantir AtlasDB (architecture decision record 16) writes a number in 1 to 10 bytes, big-endian: as many
//! one bits as bytes follow the first, a zero bit, and then the number, in 7 bits for each byte:
//!
//! | bytes | bits | numbers |
//! |---|---|---|
//! | 1 | `0` and 7 | to 127 |
//! | 2 | `10` and 14 | to 16,383 |
//! | 3 | `110` and 21 | to 2,097,151 |
//! | ... | | |
//! | 9 | `11111111 0` and 63 | to the greatest signed number |
//! | 10 | `11111111 10` and 70, of which the first 6 are zero | negative ones, in two's complement |
//!
//! Every number has exactly one form here, the shortest. Decoders refuse all others, so what decodes encodes back to
//! the same bytes. Start with [`encode_unsigned`] and [`decode_unsigned`]; the signed forms are for values that may be
//! negative.

use bytes::Bytes;

/// The most bytes that a number takes; only negative numbers take so many.
pub const LONGEST: usize = 10;

/// The greatest number of the unsigned form.
pub const GREATEST_UNSIGNED: u64 = i64::MAX.unsigned_abs();

/// The value bits of each byte of a number; one bit of each is for the length.
const BITS_PER_BYTE: usize = 7;

/// Writes a number that cannot be negative. The byte order of such numbers is their order.
///
/// # Errors
/// [`VarLongError::Beyond`] for a number above [`GREATEST_UNSIGNED`].
pub fn encode_unsigned(number: u64) -> Result<Bytes, VarLongError> {
    if number > GREATEST_UNSIGNED { Err(VarLongError::Beyond { found: number }) } else { Ok(encode_bits(number)) }
}

/// Reads what [`encode_unsigned`] wrote.
///
/// # Errors
/// The bytes are anything else.
pub fn decode_unsigned(bytes: &[u8]) -> Result<u64, VarLongError> {
    let number = decode_bits(bytes)?;
    if number > GREATEST_UNSIGNED { Err(VarLongError::Beyond { found: number }) } else { Ok(number) }
}

/// Writes a number that may be negative. Byte order is the order of the numbers among those of one sign only: negative
/// numbers come behind all others.
#[must_use]
pub fn encode_signed(number: i64) -> Bytes {
    encode_bits(number.cast_unsigned())
}

/// Reads what [`encode_signed`] wrote.
///
/// # Errors
/// The bytes are anything else.
pub fn decode_signed(bytes: &[u8]) -> Result<i64, VarLongError> {
    decode_bits(bytes).map(u64::cast_signed)
}

/// The bytes that the shortest form takes.
fn length_of(bits: u64) -> usize {
    let significant = (u64::BITS - bits.leading_zeros()) as usize;
    significant.div_ceil(BITS_PER_BYTE).max(1)
}

pub(super) fn encode_bits(bits: u64) -> Bytes {
    let length = length_of(bits);
    let ones = (1_u128 << (length - 1)) - 1;
    let form = ((ones << (BITS_PER_BYTE * length + 1)) | u128::from(bits)).to_be_bytes();
    Bytes::copy_from_slice(&form[form.len() - length..])
}

fn decode_bits(bytes: &[u8]) -> Result<u64, VarLongError> {
    let found = bytes.len();
    let &first = bytes.first().ok_or(VarLongError::Empty)?;
    let second = bytes.get(1).copied().unwrap_or(0);
    let length = 1 + u16::from_be_bytes([first, second]).leading_ones() as usize;
    if length > LONGEST {
        return Err(VarLongError::TooLong);
    }
    if found < length {
        return Err(VarLongError::CutOff { length, found });
    }
    if found > length {
        return Err(VarLongError::Trailing { length, found });
    }
    let form = bytes.iter().fold(0_u128, |form, &byte| (form << 8) | u128::from(byte));
    let number = form & ((1 << (BITS_PER_BYTE * length)) - 1);
    let number = u64::try_from(number).map_err(|_| VarLongError::MoreThan64Bits { second })?;
    let shortest = length_of(number);
    if length == shortest { Ok(number) } else { Err(VarLongError::NotShortest { number, length, shortest }) }
}

/// Bytes that are not the one form of a number, or a number that has no unsigned form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VarLongError {
    /// There are no bytes.
    #[error("there are no bytes; a VAR_LONG number has 1 to {LONGEST}")]
    Empty,
    /// The one bits at the beginning announce more bytes than any number has.
    #[error("the number begins with 10 or more one bits; a VAR_LONG number begins with at most 9, for {LONGEST} bytes")]
    TooLong,
    /// The bytes end too early.
    #[error("the first bytes announce a VAR_LONG number of at least {length} bytes, but there are {found}")]
    CutOff {
        /// The bytes announced. After a lone `ff` there may be one more.
        length: usize,
        /// The bytes that there are.
        found: usize,
    },
    /// Bytes follow the number.
    #[error(
        "the first bytes announce a VAR_LONG number of {length} bytes, but there are {found}; nothing may follow it"
    )]
    Trailing {
        /// The bytes announced.
        length: usize,
        /// The bytes that there are.
        found: usize,
    },
    /// The number takes more bytes than it needs.
    #[error("{number} is written in {length} bytes; its only VAR_LONG form has {shortest}")]
    NotShortest {
        /// The number.
        number: u64,
        /// The bytes that it takes.
        length: usize,
        /// The bytes that it needs.
        shortest: usize,
    },
    /// A number of ten bytes has bits beyond the 64th.
    #[error("the number has more than 64 bits: the second of its 10 bytes is {second:02x}; it can only be 80")]
    MoreThan64Bits {
        /// Its second byte.
        second: u8,
    },
    /// A number that would be negative as a signed one, where none can be.
    #[error("the number is {found}, or {} as a signed one; it must be from 0 to {GREATEST_UNSIGNED}", found.cast_signed())]
    Beyond {
        /// The number.
        found: u64,
    },
}

#[cfg(test)]
mod tests;
