use proptest::prelude::*;
use smallvec::smallvec;

use super::*;
use crate::PartitionVersions;

fn advance(table: u32, partitions: &[(u32, u64)]) -> Changes {
    let partitions = partitions.iter().map(|&(id, seen)| (PartitionId(id), Version(seen))).collect();
    Changes::of(TableId(table), Edit::Advance(Advance { metadata: MetadataId(9), partitions }))
}

fn root(tables: &[usize]) -> Root {
    let tables = tables.iter().enumerate().map(|(id, n)| (TableId(id as u32), TableState::new(*n))).collect();
    Root::from_parts(Version(7), CommitId(7), tables).unwrap()
}

#[test]
fn different_tables_and_different_partitions_do_not_overlap() {
    let base = root(&[2, 1]);
    let mine = advance(0, &[(0, 0)]);
    for other in [advance(1, &[(0, 0)]), advance(0, &[(1, 0)])] {
        let newer = other.apply(&base, CommitId(8)).unwrap();
        assert_eq!(mine.overlap(&newer), Overlap::None);
        assert!(mine.apply(&newer, CommitId(9)).is_ok());
    }
}

#[test]
fn the_same_partition_overlaps_and_counts_what_was_missed() {
    let mut newer = root(&[2]);
    for seen in 0..3 {
        newer = advance(0, &[(0, seen)]).apply(&newer, CommitId(seen)).unwrap();
    }
    let mine = advance(0, &[(0, 1), (1, 0)]);
    assert_eq!(mine.overlap(&newer), Overlap::Partitions { missed: 2, partitions: 1 });
    assert_eq!(mine.apply(&newer, CommitId(9)), Err(NotApplicable(TableId(0))));
}

#[test]
fn existence_decides_creation_and_dropping() {
    let base = root(&[1]);
    let create = |id| Changes::of(TableId(id), Edit::Create(TableState::new(1)));
    assert_eq!(create(0).overlap(&base), Overlap::Existence(TableId(0)));
    let both = create(5).apply(&base, CommitId(1)).unwrap();
    assert_eq!(both.table_count(), 2);
    let dropped = Changes::of(TableId(0), Edit::Drop(Version(0))).apply(&both, CommitId(2)).unwrap();
    assert_eq!(dropped.table(TableId(0)), None);
    assert!(dropped.table(TableId(5)).is_some());
    assert_eq!(advance(0, &[(0, 0)]).overlap(&dropped), Overlap::Existence(TableId(0)));
}

#[test]
fn several_tables_change_together_or_not_at_all() {
    let base = root(&[1, 1]);
    let mut changes = advance(0, &[(0, 0)]);
    changes.set(TableId(1), Edit::Drop(Version(3)));
    assert_eq!(changes.apply(&base, CommitId(1)), Err(NotApplicable(TableId(1))));
    changes.set(TableId(1), Edit::Drop(Version(0)));
    let next = changes.apply(&base, CommitId(1)).unwrap();
    assert_eq!((next.version, next.table_count()), (Version(8), 1));
}

#[test]
fn a_root_with_tables_out_of_order_is_none() {
    let table = |id| (TableId(id), TableState::new(1));
    assert_eq!(Root::from_parts(Version(0), CommitId(0), vec![table(1), table(0)]), None);
    assert_eq!(Root::from_parts(Version(0), CommitId(0), vec![table(1), table(1)]), None);
    let bare = TableState { partitions: smallvec![], ..TableState::new(1) };
    assert_eq!(Root::from_parts(Version(0), CommitId(0), vec![(TableId(0), bare)]), None);
}

proptest! {
    /// `overlap` and `apply` both implement the rule, and must agree.
    #[test]
    fn changes_apply_exactly_when_nothing_overlaps(
        others in prop::collection::vec((0u32..3, 0u32..2), 0..8),
        mine in prop::collection::vec((0u32..4, 0u32..3, 0u64..3), 1..4),
    ) {
        let mut newer = root(&[2, 2, 2]);
        for (table, partition) in others {
            let seen = newer.table(TableId(table)).unwrap().partitions[partition as usize].0;
            newer = advance(table, &[(partition, seen)]).apply(&newer, CommitId(1)).unwrap();
        }
        let mut changes = Changes::default();
        for (table, partition, seen) in mine {
            let advance = Advance { metadata: MetadataId(1), partitions: smallvec![(PartitionId(partition), Version(seen))] };
            changes.set(TableId(table), Edit::Advance(advance));
        }
        // A change may expect a version that does not exist yet; it is then refused, with nothing counted as missed.
        prop_assert_eq!(changes.overlap(&newer) == Overlap::None, changes.apply(&newer, CommitId(2)).is_ok());
        let is_there = |change: &TableChange| match (&change.edit, newer.table(change.table)) {
            (Edit::Advance(advance), Some(state)) => (advance.partitions[0].0.0 as usize) < state.partitions.len(),
            _ => false,
        };
        let all_there = changes.edits().iter().all(is_there);
        prop_assert_eq!(changes.renew(|table| newer.table(table), || MetadataId(5)).is_some(), all_there);
        if all_there {
            prop_assert_eq!(changes.overlap(&newer), Overlap::None);
            let next = changes.apply(&newer, CommitId(2)).unwrap();
            prop_assert!(changes.edits().iter().all(|change| next.table(change.table).unwrap().metadata == MetadataId(5)));
        }
    }
}

#[test]
fn what_nobody_could_read_back_never_applies() {
    let base = root(&[2]);
    let without = TableState { partitions: PartitionVersions::new(), ..TableState::new(1) };
    let unsound = [
        Changes::of(TableId(5), Edit::Create(without)),
        advance(0, &[]),
        advance(0, &[(1, 0), (0, 0)]),
        advance(0, &[(1, 0), (1, 0)]),
    ];
    for changes in unsound {
        let table = changes.edits()[0].table;
        assert_eq!(changes.overlap(&base), Overlap::Existence(table), "{changes:?}");
        assert_eq!(changes.apply(&base, CommitId(1)), Err(NotApplicable(table)), "{changes:?}");
    }
}
