//! Which table is each start timestamp in? The map as a value, and its text.
//!
//! The text has lines: `glidepath transactions 1` (the format), `bound N`, `change H` (16 hexadecimal digits), and for
//! each range `from N TABLE`, oldest first. A text that is not exactly as it would be written is refused.

use std::fmt::Write;
use std::ops::RangeInclusive;

use bytes::Bytes;
use glidepath_env::Table;

use crate::Timestamp;

const FORMAT: &str = "glidepath transactions 1";

/// Transactions that start at `from` or later, up to the next range, are in this table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The first start timestamp.
    pub from: Timestamp,
    /// Their table.
    pub table: Table,
}

/// All ranges, and the bound up to which they will not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Map {
    /// By rising `from`; the first is from the first timestamp on.
    ranges: Vec<Range>,
    /// 0 where nothing is fixed yet.
    bound: u64,
    /// Random bits of whoever wrote it, so that no two maps are equal.
    change: u64,
}

impl Map {
    /// One table for all.
    pub(super) fn first(table: Table, change: u64) -> Self {
        Self { ranges: vec![Range { from: Timestamp::FIRST, table }], bound: 0, change }
    }

    pub(super) fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    pub(super) fn bound(&self) -> u64 {
        self.bound
    }

    /// `None` where it is not fixed yet.
    pub(super) fn table_of(&self, start: Timestamp) -> Option<&Table> {
        if start.get() > self.bound && !crate::mutant::is(crate::mutant::Mutant::BoundIgnored) {
            return None;
        }
        self.ranges.iter().rev().find(|range| range.from <= start).map(|range| &range.table)
    }

    /// With a bound that reaches to `start`, and a quantum more.
    pub(super) fn raised(&self, start: Timestamp, quantum: u64, change: u64) -> Self {
        let bound = start.get().saturating_add(quantum).min(Timestamp::LAST.get()).max(self.bound);
        Self { ranges: self.ranges.clone(), bound, change }
    }

    /// The map in which start timestamps above the bound go to this table; `None` if the bound is the last timestamp.
    pub(super) fn with(&self, table: Table, change: u64) -> Option<Self> {
        let from = Timestamp::new(self.bound + 1).ok()?;
        let mut ranges = self.ranges.clone();
        // A table that was installed and never used.
        ranges.retain(|range| range.from < from);
        ranges.push(Range { from, table });
        Some(Self { ranges, bound: self.bound, change })
    }

    /// From where on this table is used, if it is the last.
    pub(super) fn last_if(&self, table: &Table) -> Option<Timestamp> {
        self.ranges.last().filter(|last| last.table == *table).map(|last| last.from)
    }

    /// The tables of a range, as far as it is fixed.
    pub(super) fn parts(&self, range: RangeInclusive<Timestamp>) -> Vec<(Table, RangeInclusive<Timestamp>)> {
        let mut parts = Vec::new();
        for (place, Range { from, table }) in self.ranges.iter().enumerate() {
            let last = self.ranges.get(place + 1).map_or(self.bound, |next| (next.from.get() - 1).min(self.bound));
            let first = *range.start().max(from);
            let Ok(last) = Timestamp::new(last.min(range.end().get())) else { continue };
            if first <= last {
                parts.push((table.clone(), first..=last));
            }
        }
        parts
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut text = format!("{FORMAT}\nbound {}\nchange {:016x}\n", self.bound, self.change);
        for Range { from, table } in &self.ranges {
            // Writing to a text cannot fail.
            let _ = writeln!(text, "from {from} {table}");
        }
        text.into()
    }

    /// The map of these bytes; otherwise what is wrong with them.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is no text".to_owned())?;
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        if first != FORMAT {
            return Err(format!(
                "it begins with {first:?}, where {FORMAT:?} is expected: a newer program wrote it, or it is damaged \
                 (then put the table glidepath_services back from a backup)"
            ));
        }
        let after = |line: Option<&str>, word: &str| line.and_then(|line| line.strip_prefix(word)).map(str::to_owned);
        let bound = after(lines.next(), "bound ").and_then(|number| number.parse().ok());
        let change = after(lines.next(), "change ").and_then(|digits| u64::from_str_radix(&digits, 16).ok());
        let (Some(bound), Some(change)) = (bound, change) else {
            return Err("its second and third line are not a bound and a change".to_owned());
        };
        let ranges: Option<Vec<_>> = lines.map(range).collect();
        let ranges = ranges.filter(|ranges: &Vec<Range>| {
            ranges.first().is_some_and(|first| first.from == Timestamp::FIRST)
                && ranges.windows(2).all(|pair| pair[0].from < pair[1].from)
        });
        let ranges = ranges.ok_or("its ranges are not from 1 on, and rising")?;
        let map = Self { ranges, bound, change };
        match map.bound <= Timestamp::LAST.get() && map.encode() == bytes {
            true => Ok(map),
            false => Err("it is not written as this program writes it".to_owned()),
        }
    }
}

fn range(line: &str) -> Option<Range> {
    let (from, table) = line.strip_prefix("from ")?.split_once(' ')?;
    Some(Range { from: Timestamp::new(from.parse().ok()?).ok()?, table: Table::new(table)? })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(number: u64) -> Timestamp {
        Timestamp::new(number).unwrap()
    }

    fn table(name: &str) -> Table {
        Table::new(name).unwrap()
    }

    #[test]
    fn a_new_table_is_used_behind_the_bound() {
        let map = Map::first(table("old"), 1).raised(at(10), 90, 2);
        assert_eq!(map.table_of(at(100)), Some(&table("old")));
        assert_eq!(map.table_of(at(101)), None);
        let map = map.with(table("new"), 3).unwrap();
        assert_eq!((map.table_of(at(100)), map.table_of(at(101))), (Some(&table("old")), None));
        assert_eq!(map.parts(at(1)..=Timestamp::LAST), [(table("old"), at(1)..=at(100))]);
        let map = map.raised(at(101), 9, 4);
        assert_eq!((map.table_of(at(100)), map.table_of(at(110))), (Some(&table("old")), Some(&table("new"))));
        let all = [(table("old"), at(50)..=at(100)), (table("new"), at(101)..=at(110))];
        assert_eq!(map.parts(at(50)..=at(5000)), all);
        // One that was installed and never used gives way.
        let map = map.with(table("unused"), 5).unwrap().with(table("newest"), 6).unwrap();
        assert_eq!(map.ranges().len(), 3);
        assert_eq!(map.last_if(&table("newest")), Some(at(111)));
    }

    #[test]
    fn a_table_installed_before_any_transaction_has_them_all() {
        let map = Map::first(table("old"), 1).with(table("new"), 2).unwrap();
        assert_eq!(map.ranges(), [Range { from: at(1), table: table("new") }]);
    }

    proptest! {
        /// Whatever is done to a map, what it said once it says for ever.
        #[test]
        fn what_is_fixed_stays(steps in prop::collection::vec((any::<bool>(), 1..1000_u64, 1..200_u64), 1..30)) {
            let mut map = Map::first(table("t0"), 0);
            let mut said: Vec<(Timestamp, Table)> = Vec::new();
            for (number, (installs, start, quantum)) in steps.into_iter().enumerate() {
                let change = number as u64;
                map = if installs {
                    map.with(table(&format!("t{number}")), change).unwrap()
                } else {
                    map.raised(at(start), quantum, change)
                };
                for (start, table) in &said {
                    prop_assert_eq!(map.table_of(*start), Some(table));
                }
                said.extend((1..=map.bound()).step_by(7).map(|n| (at(n), map.table_of(at(n)).unwrap().clone())));
                prop_assert_eq!(Map::decode(&map.encode()), Ok(map.clone()));
            }
        }

        #[test]
        fn texts_that_are_read_are_written_so(
            head in "glidepath transactions [12]\nbound [0-9+]{1,3}\nchange [0-9a-f]{15,16}\n",
            ranges in prop::collection::vec("from [0-9]{1,2} [a-z ]{1,3}\n?", 0..3),
        ) {
            let text = head + &ranges.concat();
            if let Ok(map) = Map::decode(text.as_bytes()) {
                prop_assert_eq!(map.encode(), text.as_bytes());
            }
        }
    }
}
