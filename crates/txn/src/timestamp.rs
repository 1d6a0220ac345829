//! Which numbers are timestamps?

use std::fmt;

/// A number that the timestamp service gave out: greater than all that it gave out before. It counts nothing and has no
/// unit.
///
/// From 1 to the greatest signed 64 bit number: AtlasDB keeps timestamps in signed numbers, and uses those below 1 for
/// other things.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The least one.
    pub const FIRST: Self = Self(1);

    /// The greatest one.
    pub const LAST: Self = Self(i64::MAX.unsigned_abs());

    /// The timestamp of this number.
    ///
    /// # Errors
    /// The number is 0, or above [`Timestamp::LAST`].
    pub const fn new(number: u64) -> Result<Self, TimestampError> {
        if Self::FIRST.0 <= number && number <= Self::LAST.0 {
            Ok(Self(number))
        } else {
            Err(TimestampError { found: number })
        }
    }

    /// Its number.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<u64> for Timestamp {
    type Error = TimestampError;

    fn try_from(number: u64) -> Result<Self, TimestampError> {
        Self::new(number)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A number that is no timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found} is not a timestamp; timestamps are from {} to {}", Timestamp::FIRST, Timestamp::LAST)]
pub struct TimestampError {
    /// The number.
    pub found: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_from_1_to_the_greatest_signed_number() {
        assert_eq!(Timestamp::new(1), Ok(Timestamp::FIRST));
        assert_eq!(Timestamp::new(i64::MAX as u64), Ok(Timestamp::LAST));
        for found in [0, i64::MAX as u64 + 1, u64::MAX] {
            let error = Timestamp::new(found).unwrap_err();
            assert_eq!(error, TimestampError { found });
            let words = format!("{found} is not a timestamp; timestamps are from 1 to 9223372036854775807");
            assert_eq!(error.to_string(), words);
        }
    }
}
