//! Do tickets spread over rows evenly, and do the rows of a range cover it?

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use bytes::Bytes;
use proptest::prelude::*;

use super::super::*;
use crate::testing::{partitionings, small_partitionings, timestamp, timestamps};

/// The numbers of the rows, and for each the numbers of its columns.
fn covering(tickets: Tickets, range: RangeInclusive<u64>) -> Vec<(u64, u64, u64)> {
    let number = |bytes: &Bytes| var_long::decode_unsigned(bytes).unwrap();
    let rows = tickets.rows_covering(timestamp(*range.start())..=timestamp(*range.end()));
    rows.map(|RowColumns { row, columns }| {
        let row = u64::from_be_bytes(row[..].try_into().unwrap()).reverse_bits();
        (row, number(&columns.start), number(&columns.end))
    })
    .collect()
}

#[test]
fn a_range_is_covered_by_all_rows_of_its_partitions() {
    let quantum = 25_000_000;
    let rows = |range| {
        let covering: Vec<_> = covering(Tickets::default(), range).into_iter().map(|(row, ..)| row).collect();
        assert!(covering.iter().copied().eq(covering[0]..=covering[covering.len() - 1]), "{covering:?}");
        covering[0]..=covering[covering.len() - 1]
    };
    assert_eq!(rows(2..=7), 0..=15);
    assert_eq!(rows(100..=1_000), 0..=15);
    assert_eq!(rows(100..=quantum - 1), 0..=15);
    assert_eq!(rows(100..=26_000_000), 0..=31);
    assert_eq!(rows(2 * quantum - 1..=4 * quantum + 1), 16..=79);
    assert_eq!(rows(2 * quantum..=4 * quantum), 32..=79);
}

#[test]
fn columns_of_a_range_are_cut_where_it_begins_and_ends() {
    let tickets = Tickets::new(Partitioning { quantum: 100, rows: 5 }).unwrap();
    let columns = |range| {
        let columns: Vec<_> = covering(tickets, range).into_iter().map(|(_, from, end)| (from, end)).collect();
        columns.chunks(5).map(|rows| rows.iter().copied().collect::<BTreeSet<_>>()).collect::<Vec<_>>()
    };
    assert_eq!(columns(12..=27), [BTreeSet::from([(2, 6)])]);
    assert_eq!(columns(200..=299), [BTreeSet::from([(0, 20)])]);
    assert_eq!(columns(112..=304), [BTreeSet::from([(2, 20)]), BTreeSet::from([(0, 20)]), BTreeSet::from([(0, 1)])]);
}

#[test]
fn empty_and_greatest_ranges_are_covered() {
    let tickets = Tickets::default();
    assert_eq!(tickets.rows_covering(timestamp(8)..=timestamp(7)).next(), None);
    // All timestamps: the rows are counted, not made.
    let all = tickets.rows_covering(Timestamp::FIRST..=Timestamp::LAST);
    assert_eq!(all.size_hint().1, Some((i64::MAX as usize / 25_000_000 + 1) * 16));
    let greatest = Partitioning { quantum: Timestamp::LAST.get(), rows: Timestamp::LAST.get() };
    let mut rows = Tickets::new(greatest).unwrap().rows_covering(Timestamp::LAST..=Timestamp::LAST);
    assert_eq!(rows.next().unwrap().row, Tickets::new(greatest).unwrap().cell(Timestamp::LAST).row);
    let single = Partitioning { quantum: Timestamp::LAST.get(), rows: 1 };
    assert_eq!(Tickets::new(single).unwrap().rows_covering(Timestamp::FIRST..=Timestamp::LAST).count(), 2);
}

#[test]
fn neighbours_begin_with_different_bits() {
    for first in [16, 318_557, 25_000_000 - 8, 25_000_000 - 16] {
        let rows = (first..first + 16).map(|start| Tickets::default().cell(timestamp(start)).row[0] >> 4);
        assert_eq!(rows.collect::<BTreeSet<_>>().len(), 16, "{first}");
    }
}

#[test]
fn sixteen_rows_of_thirteen_partitions_hold_the_same_number() {
    let mut held: BTreeMap<Bytes, u32> = BTreeMap::new();
    for partition in 0..13 {
        for start in 0..37 * 16 {
            let start = 25_000_000 * partition + 16 + start;
            *held.entry(Tickets::default().cell(timestamp(start)).row).or_default() += 1;
        }
    }
    assert_eq!(held.len(), 13 * 16);
    assert!(held.values().all(|&count| count == 37));
}

proptest! {
    /// Of timestamps that follow each other within a partition, no row holds more than one more than another.
    #[test]
    fn rows_fill_evenly(partitioning in small_partitionings(), partition in 0..1_000_u64, from: u64, count: u64) {
        let Partitioning { quantum, rows } = partitioning;
        let tickets = Tickets::new(partitioning).unwrap();
        let from = from % quantum;
        let count = count % (quantum - from) + 1;
        let mut held = vec![0; usize::try_from(rows).unwrap()];
        for start in from..from + count {
            let row = tickets.row_number(timestamp((partition + 1) * quantum + start));
            prop_assert_eq!(row / rows, partition + 1);
            held[usize::try_from(row % rows).unwrap()] += 1;
        }
        let (least, most) = (held.iter().min().unwrap(), held.iter().max().unwrap());
        prop_assert!(most - least <= 1, "{:?}", held);
    }

    /// Compared with what covering means, timestamp by timestamp: each in the range is covered once, and of the others
    /// only those of the same partition and column as the first or the last one.
    #[test]
    fn a_range_is_covered_once_and_little_else_is(
        partitioning in small_partitionings(), from in 1..400_u64, length in 0..400_u64,
    ) {
        let tickets = Tickets::new(partitioning).unwrap();
        let to = from + length;
        let covering: Vec<_> = tickets.rows_covering(timestamp(from)..=timestamp(to)).collect();
        prop_assert_eq!(tickets.rows_covering(timestamp(from)..=timestamp(to)).size_hint().0, covering.len());
        for start in 1..to + 400 {
            let cell = tickets.cell(timestamp(start));
            let times = covering.iter().filter(|part| part.row == cell.row && part.columns.contains(&cell.column)).count();
            let inside = (from..=to).contains(&start);
            prop_assert!(if inside { times == 1 } else { times <= 1 }, "{} is covered {} times", start, times);
            let near = from.saturating_sub(partitioning.rows) < start && start < to + partitioning.rows;
            prop_assert!(near || times == 0, "{} is covered", start);
        }
        prop_assert!(covering.iter().all(|part| part.columns.start < part.columns.end));
    }

    /// At any height and under any partitioning: nothing overflows, and both ends are covered.
    #[test]
    fn ranges_at_any_height_are_covered(partitioning in partitionings(), from in timestamps(), length in 0..1_000_u64) {
        let tickets = Tickets::new(partitioning).unwrap();
        let to = timestamp(from.get().saturating_add(length).min(Timestamp::LAST.get()));
        let covers = |part: &RowColumns, start| {
            let cell = tickets.cell(start);
            part.row == cell.row && part.columns.contains(&cell.column)
        };
        let Partitioning { quantum, rows } = partitioning;
        let first = tickets.rows_covering(from..=to).next().unwrap();
        let number = u64::from_be_bytes(first.row[..].try_into().unwrap()).reverse_bits();
        prop_assert_eq!(number, from.get() / quantum * rows);
        prop_assert!(first.columns.contains(&tickets.cell(from).column));
        // A partition may have more rows than anyone could look at.
        if tickets.rows_covering(from..=to).size_hint().0 < 10_000 {
            prop_assert!(tickets.rows_covering(from..=to).any(|part| covers(&part, from)));
            prop_assert!(tickets.rows_covering(from..=to).any(|part| covers(&part, to)));
        }
    }
}
