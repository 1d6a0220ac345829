//! Inputs for the tests of this crate.

use bytes::Bytes;
use proptest::prelude::*;

use crate::{Partitioning, Timestamp};

pub(crate) fn timestamp(number: u64) -> Timestamp {
    Timestamp::new(number).unwrap()
}

/// The bytes of hexadecimal digits.
pub(crate) fn bytes(digits: &str) -> Bytes {
    assert!(digits.len().is_multiple_of(2), "{digits} ends within a byte");
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

/// Numbers of every length, and often those just around a power of two.
pub(crate) fn numbers() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        (any::<u64>(), 0..64_u32).prop_map(|(number, shift)| number >> shift),
        (0..64_u32, 0..5_u64).prop_map(|(power, by)| (1_u64 << power).wrapping_add(by).wrapping_sub(2)),
    ]
}

/// Timestamps of every length; often the first and the last ones, and those where a partition begins.
pub(crate) fn timestamps() -> impl Strategy<Value = Timestamp> {
    let near_partitions = (0..1_000_u64, 0..40_u64).prop_map(|(partition, by)| partition * 25_000_000 + by);
    let last_ones = (0..40_u64).prop_map(|by| Timestamp::LAST.get() - by);
    prop_oneof![numbers(), near_partitions, last_ones]
        .prop_map(|number| timestamp((number & Timestamp::LAST.get()).max(1)))
}

/// Partitionings of every size; often the default one.
pub(crate) fn partitionings() -> impl Strategy<Value = Partitioning> {
    let any_size = (numbers(), numbers()).prop_map(|(rows, columns)| {
        let rows = (rows & Timestamp::LAST.get()).max(1);
        let columns = columns % (Timestamp::LAST.get() / rows) + 1;
        Partitioning { quantum: rows * columns, rows }
    });
    prop_oneof![Just(Partitioning::default()), small_partitionings(), any_size]
}

/// Partitionings of which a few hundred timestamps fill many.
pub(crate) fn small_partitionings() -> impl Strategy<Value = Partitioning> {
    (1..20_u64, 1..20_u64).prop_map(|(rows, columns)| Partitioning { quantum: rows * columns, rows })
}

/// Any bytes; often such as look like a number at their beginning.
pub(crate) fn any_bytes() -> impl Strategy<Value = Bytes> {
    let header = prop_oneof![Just(vec![]), Just(vec![0xff]), Just(vec![0xff, 0x80]), Just(vec![0xff, 0x7f])];
    let rest = prop_oneof![prop::collection::vec(any::<u8>(), 0..4), prop::collection::vec(any::<u8>(), 0..20)];
    (header, rest).prop_map(|(header, rest)| header.into_iter().chain(rest).collect())
}
