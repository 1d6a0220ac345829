//! Are wrong cells and wrong values refused, each for its reason?

use bytes::Bytes;

use super::super::var_long::VarLongError;
use super::super::*;
use crate::testing::{bytes, timestamp};

#[test]
fn original_refuses_other_cells() {
    let refused = |row, column| Original.decode_cell(&Cell { row: bytes(row), column: bytes(column) }).unwrap_err();
    for column in ["", "73", "7474"] {
        assert_eq!(refused("14", column), CellError::ColumnName { found: bytes(column) });
    }
    assert_eq!(refused("", "74"), CellError::Row(VarLongError::Empty));
    assert_eq!(refused("00", "74"), CellError::NotATimestamp { found: 0 });
    assert_eq!(refused("ff80ffffffffffffffff", "74"), CellError::Row(VarLongError::Beyond { found: u64::MAX }));
}

#[test]
fn original_refuses_other_values() {
    let refused = |value| Original.decode_value(timestamp(20), &bytes(value)).unwrap_err();
    assert_eq!(refused(""), ValueError::Number(VarLongError::Empty));
    assert_eq!(refused("00"), ValueError::NotATimestamp { found: 0 });
    assert_eq!(refused("ff80fffffffffffffffe"), ValueError::NotATimestamp { found: -2 });
    let before = ValueError::CommitBeforeStart { start: timestamp(20), commit: timestamp(19) };
    assert_eq!(refused("13"), before);
    assert_eq!(Original.decode_value(timestamp(20), &bytes("14")), Ok(Outcome::Committed(timestamp(20))));
}

#[test]
fn tickets_refuse_other_cells() {
    let refused =
        |row, column| Tickets::default().decode_cell(&Cell { row: bytes(row), column: bytes(column) }).unwrap_err();
    for (row, found) in [("", 0), ("80000000000000", 7), ("800000000000000000", 9)] {
        assert_eq!(refused(row, "00"), CellError::RowLength { found });
    }
    assert_eq!(refused("8000000000000000", ""), CellError::Column(VarLongError::Empty));
    // The first number that no column has: the start timestamp would be in the next partition.
    let beyond = CellError::ColumnBeyond { found: 1_562_500, last: 1_562_499 };
    assert_eq!(refused("8000000000000000", "d7d784"), beyond);
    // Row 0, column 0.
    assert_eq!(refused("0000000000000000", "00"), CellError::NotATimestamp { found: 0 });
    // The last row, one column further than the greatest timestamp.
    let last = Tickets::default().cell(Timestamp::LAST);
    assert_eq!(last.column, bytes("c48df7"));
    let found = u128::from(Timestamp::LAST.get()) + 16;
    let next = Cell { column: bytes("c48df8"), ..last };
    assert_eq!(Tickets::default().decode_cell(&next), Err(CellError::NotATimestamp { found }));
    // The greatest row number.
    let found = u128::from(u64::MAX / 16) * 25_000_000 + 15;
    assert_eq!(refused("ffffffffffffffff", "00"), CellError::NotATimestamp { found });
}

#[test]
fn tickets_refuse_other_values() {
    let tickets = Tickets::default();
    let refused = |start, value| tickets.decode_value(start, &bytes(value)).unwrap_err();
    let last = Timestamp::LAST;
    assert_eq!(refused(last, "01"), ValueError::CommitBeyondLast { start: last, delta: 1 });
    let delta = last.get();
    let start = Timestamp::FIRST;
    assert_eq!(refused(start, "ff7fffffffffffffff"), ValueError::CommitBeyondLast { start, delta });
    assert_eq!(refused(last, "ff7fffffffffffffff"), ValueError::CommitBeyondLast { start: last, delta });
    // A commit before the start, as AtlasDB would write it.
    let number = VarLongError::Beyond { found: u64::MAX };
    assert_eq!(refused(last, "ff80ffffffffffffffff"), ValueError::Number(number));
    assert_eq!(refused(last, "0000"), ValueError::Number(VarLongError::Trailing { length: 1, found: 2 }));
}

#[test]
fn staged_refuses_other_values() {
    let refused = |value| Staged::default().decode_value(Timestamp::FIRST, &bytes(value)).unwrap_err();
    assert_eq!(refused(""), ValueError::NoStage);
    assert_eq!(refused("0102"), ValueError::UnknownStage { found: 2 });
    assert_eq!(refused("010100"), ValueError::Number(VarLongError::Trailing { length: 1, found: 2 }));
}

/// Why the encoding must be known before a value is read.
#[test]
fn a_value_may_be_good_in_two_encodings() {
    let (start, value) = (timestamp(20), Bytes::from_static(&[0x01]));
    let committed = Ok(Entry::committed(Outcome::Committed(timestamp(21))));
    assert_eq!(Encoding::Tickets(Tickets::default()).decode_value(start, &value), committed);
    let aborted = Ok(Entry::committed(Outcome::Aborted));
    assert_eq!(Encoding::Staged(Staged::default()).decode_value(start, &value), aborted);
}

#[test]
fn partitionings_outside_the_limits_are_refused() {
    let last = Timestamp::LAST.get();
    let refused = |quantum, rows| Tickets::new(Partitioning { quantum, rows }).unwrap_err();
    assert_eq!(refused(0, 16), PartitioningError::NoQuantum);
    assert_eq!(refused(16, 0), PartitioningError::NoRows);
    assert_eq!(refused(last + 1, 16), PartitioningError::QuantumBeyond { quantum: last + 1 });
    assert_eq!(refused(15, 16), PartitioningError::MoreRows { quantum: 15, rows: 16 });
    assert_eq!(refused(100, 16), PartitioningError::Uneven { quantum: 100, rows: 16 });
    assert_eq!(
        refused(100, 16).to_string(),
        "rows is 16, which does not divide the quantum of 100; 96 is the next lower quantum that it divides"
    );
    for (quantum, rows) in [(1, 1), (16, 16), (100, 5), (1_000_000_000, 1_000), (last, 1), (last, last)] {
        let partitioning = Partitioning { quantum, rows };
        assert_eq!(Tickets::new(partitioning).unwrap().partitioning(), partitioning);
        assert_eq!(Staged::new(partitioning).unwrap().tickets().partitioning(), partitioning);
    }
}

#[test]
fn messages_say_what_was_found_and_what_is_allowed() {
    let start = timestamp(20);
    let early = Tickets::default().encode_value(start, Outcome::Committed(timestamp(19))).unwrap_err();
    assert_eq!(early.to_string(), "commit timestamp 19 is before start timestamp 20; it must be 20 or later");
    let stage = Staged::default().decode_value(start, &[7]).unwrap_err();
    assert_eq!(stage.to_string(), "the last byte of the value is 07; it must be 00 (staged) or 01 (committed)");
    let number = Tickets::default().decode_value(start, &[0x80, 0x01]).unwrap_err();
    let words = "the value is not a number: 1 is written in 2 bytes; its only VAR_LONG form has 1";
    assert_eq!(number.to_string(), words);
    let delta = Tickets::default().decode_value(Timestamp::LAST, &[3]).unwrap_err();
    let words =
        "the value says that the commit was 3 after start timestamp 9223372036854775807; it can be at most 0 after";
    assert_eq!(delta.to_string(), words);
}
