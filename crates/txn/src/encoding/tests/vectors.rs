//! Is what is written byte for byte what AtlasDB writes?

use bytes::Bytes;

use super::super::*;
use crate::testing::{bytes, timestamp};

const ABORTED: Option<u64> = None;

fn outcome(commit: Option<u64>) -> Outcome {
    commit.map_or(Outcome::Aborted, |commit| Outcome::Committed(timestamp(commit)))
}

/// Start and commit timestamp, numbers of row and column, row, column, value.
type TicketsVector = (u64, Option<u64>, u64, u64, &'static str, &'static str, &'static str);

const LAST: u64 = i64::MAX as u64;

const TICKETS: [TicketsVector; 28] = [
    (1, Some(2), 1, 0, "8000000000000000", "00", "01"),
    (1, ABORTED, 1, 0, "8000000000000000", "00", ""),
    (10, Some(10), 10, 0, "5000000000000000", "00", "00"),
    (15, Some(16), 15, 0, "f000000000000000", "00", "01"),
    (16, Some(20), 0, 1, "0000000000000000", "01", "04"),
    (17, Some(18), 1, 1, "8000000000000000", "01", "01"),
    (20, Some(33), 4, 1, "2000000000000000", "01", "0d"),
    (28, Some(42), 12, 1, "3000000000000000", "01", "0e"),
    (37, ABORTED, 5, 2, "a000000000000000", "02", ""),
    (111, Some(222), 15, 6, "f000000000000000", "06", "6f"),
    (150, Some(200), 6, 9, "6000000000000000", "09", "32"),
    (2032, Some(2159), 0, 127, "0000000000000000", "7f", "7f"),
    (2048, Some(2176), 0, 128, "0000000000000000", "8080", "8080"),
    (318_557, Some(318_600), 13, 19_909, "b000000000000000", "c04dc5", "2b"),
    (3_141_592, Some(3_141_595), 8, 196_349, "1000000000000000", "c2fefd", "03"),
    (3_141_592, ABORTED, 8, 196_349, "1000000000000000", "c2fefd", ""),
    (12_345_678, Some(12_362_062), 14, 771_604, "7000000000000000", "cbc614", "c04000"),
    (24_999_983, Some(24_999_990), 15, 1_562_498, "f000000000000000", "d7d782", "07"),
    (24_999_984, Some(24_999_990), 0, 1_562_499, "0000000000000000", "d7d783", "06"),
    (24_999_999, Some(25_000_000), 15, 1_562_499, "f000000000000000", "d7d783", "01"),
    (25_000_000, Some(25_000_001), 16, 0, "0800000000000000", "00", "01"),
    (25_000_001, ABORTED, 17, 0, "8800000000000000", "00", ""),
    (49_999_999, Some(50_016_382), 31, 1_562_499, "f800000000000000", "d7d783", "bfff"),
    (50_000_000, Some(52_097_151), 32, 0, "0400000000000000", "00", "dfffff"),
    (50_318_557, Some(52_415_710), 45, 19_909, "b400000000000000", "c04dc5", "e0200001"),
    (1_000_000_000, Some(1_000_000_100), 640, 0, "0140000000000000", "00", "64"),
    (862_846_378_267, Some(862_846_378_268), 552_219, 1_336_141, "d8b6100000000000", "d4634d", "01"),
    (
        9_007_199_254_740_992,
        Some(9_007_199_523_176_448),
        5_764_607_520,
        296_312,
        "047719ea80000000",
        "c48578",
        "f010000000",
    ),
];

/// Those at the upper end.
const GREATEST_TICKETS: [TicketsVector; 2] = [
    (LAST - 1, Some(LAST), 5_902_958_103_598, 298_487, "74311dc67aa00000", "c48df7", "01"),
    (1, Some(LAST), 1, 0, "8000000000000000", "00", "ff7ffffffffffffffe"),
];

fn all_tickets() -> impl Iterator<Item = TicketsVector> {
    TICKETS.into_iter().chain(GREATEST_TICKETS)
}

#[test]
fn tickets_are_written_as_atlasdb_writes_them() {
    let tickets = Tickets::new(Partitioning { quantum: 25_000_000, rows: 16 }).unwrap();
    for (start, commit, row_number, column_number, row, column, value) in all_tickets() {
        let (start, outcome) = (timestamp(start), outcome(commit));
        assert_eq!(tickets.row_number(start), row_number, "{start}");
        assert_eq!(tickets.column_number(start), column_number, "{start}");
        let cell = Cell { row: bytes(row), column: bytes(column) };
        assert_eq!(tickets.cell(start), cell, "{start}");
        assert_eq!(tickets.decode_cell(&cell), Ok(start));
        let value = bytes(value);
        assert_eq!(tickets.encode_value(start, outcome), Ok(value.clone()), "{start}");
        assert_eq!(tickets.decode_value(start, &value), Ok(outcome), "{start}");
    }
}

#[test]
fn staged_values_are_tickets_values_and_a_stage() {
    let staged = Staged::default();
    for (start, commit, _, _, row, column, value) in all_tickets() {
        let (start, outcome) = (timestamp(start), outcome(commit));
        assert_eq!(staged.cell(start), Cell { row: bytes(row), column: bytes(column) });
        for (stage, last) in [(Stage::Staged, "00"), (Stage::Committed, "01")] {
            let (entry, value) = (Entry { outcome, stage }, bytes(&format!("{value}{last}")));
            assert_eq!(staged.encode_value(start, entry), Ok(value.clone()), "{start}");
            assert_eq!(staged.decode_value(start, &value), Ok(entry), "{start}");
        }
    }
}

#[test]
fn original_cells_and_values_are_written_as_atlasdb_writes_them() {
    let minus_one = "ff80ffffffffffffffff";
    let vectors: [(u64, Option<u64>, &str, &str); 13] = [
        (1, Some(2), "01", "02"),
        (20, Some(33), "14", "21"),
        (28, Some(42), "1c", "2a"),
        (37, ABORTED, "25", minus_one),
        (111, Some(222), "6f", "80de"),
        (127, Some(128), "7f", "8080"),
        (150, Some(200), "8096", "80c8"),
        (16_383, Some(16_384), "bfff", "c04000"),
        (2_097_151, Some(2_097_152), "dfffff", "e0200000"),
        (3_141_592, Some(3_141_595), "e02fefd8", "e02fefdb"),
        (862_846_378_267, ABORTED, "f8c8e5a6e11b", minus_one),
        ((1 << 56) - 1, Some(1 << 56), "feffffffffffffff", "ff0100000000000000"),
        (LAST - 1, Some(LAST), "ff7ffffffffffffffe", "ff7fffffffffffffff"),
    ];
    for (start, commit, row, value) in vectors {
        let (start, outcome, value) = (timestamp(start), outcome(commit), bytes(value));
        let cell = Cell { row: bytes(row), column: Bytes::from_static(&[0x74]) };
        assert_eq!(Original.cell(start), cell, "{start}");
        assert_eq!(Original.decode_cell(&cell), Ok(start));
        assert_eq!(Original.encode_value(start, outcome), Ok(value.clone()), "{start}");
        assert_eq!(Original.decode_value(start, &value), Ok(outcome), "{start}");
    }
}

#[test]
fn numbers_are_written_as_atlasdb_writes_them() {
    for (number, digits) in [(0, "00"), (10_001, "a711"), (13_007, "b2cf")] {
        assert_eq!(var_long::encode_unsigned(number), Ok(bytes(digits)));
    }
}
