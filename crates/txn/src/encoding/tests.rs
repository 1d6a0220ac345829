//! What holds for every encoding. The vectors are in [`vectors`].

mod refusals;
mod spread;
mod vectors;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::testing::{any_bytes, partitionings, timestamps};

fn encodings() -> impl Strategy<Value = Encoding> {
    let tickets = partitionings().prop_map(|partitioning| Encoding::Tickets(Tickets::new(partitioning).unwrap()));
    let staged = partitionings().prop_map(|partitioning| Encoding::Staged(Staged::new(partitioning).unwrap()));
    prop_oneof![Just(Encoding::Original(Original)), tickets, staged]
}

/// A start timestamp and an outcome that it can have.
fn transactions() -> impl Strategy<Value = (Timestamp, Outcome)> {
    (timestamps(), timestamps(), 0..4).prop_map(|(one, other, kind)| match kind {
        0 => (one, Outcome::Aborted),
        1 => (one, Outcome::Committed(one)),
        _ => (one.min(other), Outcome::Committed(one.max(other))),
    })
}

proptest! {
    #[test]
    fn cells_decode_to_their_start_timestamps(encoding in encodings(), start in timestamps()) {
        prop_assert_eq!(encoding.decode_cell(&encoding.cell(start)), Ok(start));
    }

    #[test]
    fn different_start_timestamps_have_different_cells(encoding in encodings(), one in timestamps(), by in 1..1_000_u64) {
        if let Ok(other) = Timestamp::new(one.get() + by) {
            prop_assert_ne!(encoding.cell(one), encoding.cell(other));
        }
    }

    #[test]
    fn values_decode_to_their_entries(encoding in encodings(), (start, outcome) in transactions()) {
        for entry in [encoding.deciding(outcome), Entry::committed(outcome)] {
            let value = encoding.encode_value(start, entry).unwrap();
            prop_assert_eq!(encoding.decode_value(start, &value), Ok(entry));
        }
    }

    #[test]
    fn a_commit_before_its_start_is_refused(encoding in encodings(), one in timestamps(), other in timestamps()) {
        let (commit, start) = (one.min(other), one.max(other));
        prop_assume!(commit < start);
        let refused = Err(EncodeError::CommitBeforeStart { start, commit });
        let outcome = Outcome::Committed(commit);
        prop_assert_eq!(encoding.encode_value(start, encoding.deciding(outcome)), refused.clone());
        prop_assert_eq!(encoding.encode_value(start, Entry::committed(outcome)), refused);
    }

    #[test]
    fn what_decodes_as_a_value_encodes_back(
        encoding in encodings(), start in timestamps(), value in any_bytes(), stage in prop::option::of(0..3_u8),
    ) {
        let value: Bytes = value.into_iter().chain(stage).collect();
        if let Ok(entry) = encoding.decode_value(start, &value) {
            prop_assert_eq!(encoding.encode_value(start, entry), Ok(value));
        }
    }

    #[test]
    fn what_decodes_as_a_cell_encodes_back(
        encoding in encodings(), row in any_bytes(), fixed in any::<Option<[u8; 8]>>(), column in any_bytes(), letter: bool,
    ) {
        let row = fixed.map_or(row, |row| Bytes::copy_from_slice(&row));
        let column = if letter { Bytes::from_static(b"t") } else { column };
        let cell = Cell { row, column };
        if let Ok(start) = encoding.decode_cell(&cell) {
            prop_assert_eq!(encoding.cell(start), cell);
        }
    }

    /// Neighbours of what an encoder wrote: one byte changed, added or removed.
    #[test]
    fn almost_right_bytes_are_refused_or_encode_back(
        encoding in encodings(), (start, outcome) in transactions(), at: prop::sample::Index, byte: u8, kind in 0..3,
    ) {
        let change = |bytes: &Bytes| {
            let mut changed = bytes.to_vec();
            let at = at.index(changed.len() + 1);
            match kind {
                0 => changed.insert(at, byte),
                1 if at < changed.len() => { changed.remove(at); }
                _ => if let Some(old) = changed.get_mut(at) { *old = byte },
            }
            Bytes::from(changed)
        };
        let value = change(&encoding.encode_value(start, encoding.deciding(outcome)).unwrap());
        if let Ok(entry) = encoding.decode_value(start, &value) {
            prop_assert_eq!(encoding.encode_value(start, entry), Ok(value));
        }
        let right = encoding.cell(start);
        for cell in [
            Cell { row: change(&right.row), ..right.clone() },
            Cell { column: change(&right.column), ..right.clone() },
        ] {
            if let Ok(start) = encoding.decode_cell(&cell) {
                prop_assert_eq!(encoding.cell(start), cell);
            }
        }
    }

    #[test]
    fn original_rows_are_in_the_order_of_their_timestamps(one in timestamps(), other in timestamps()) {
        prop_assert_eq!(one.cmp(&other), Original.cell(one).cmp(&Original.cell(other)));
    }

    #[test]
    fn columns_of_tickets_are_in_the_order_of_their_timestamps(
        partitioning in partitionings(), one in timestamps(), other in timestamps(),
    ) {
        let Partitioning { quantum, .. } = partitioning;
        let tickets = Tickets::new(partitioning).unwrap();
        let (one, other) = (tickets.cell(one), tickets.cell(other));
        let moved = |cell: &Cell| tickets.decode_cell(cell).unwrap().get() % quantum / partitioning.rows;
        prop_assert_eq!(moved(&one).cmp(&moved(&other)), one.column.cmp(&other.column));
    }
}

#[test]
fn encodings_with_one_phase_refuse_staged_entries() {
    let start = Timestamp::FIRST;
    let entry = Entry { outcome: Outcome::Aborted, stage: Stage::Staged };
    for encoding in [Encoding::Original(Original), Encoding::Tickets(Tickets::default())] {
        assert_eq!(encoding.encode_value(start, entry), Err(EncodeError::OnePhase));
        assert_eq!(encoding.deciding(Outcome::Aborted).stage, Stage::Committed);
    }
    assert_eq!(Encoding::Staged(Staged::default()).deciding(Outcome::Aborted), entry);
}
