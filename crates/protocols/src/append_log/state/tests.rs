use glidepath_model::{Advance, Edit, MetadataId, PartitionId};
use proptest::prelude::*;

use super::*;

/// Edits to few tables at low versions, so that many fit and many do not.
fn edits() -> impl Strategy<Value = Edit> {
    let partitions = prop::collection::btree_map(0_u32..3, (0_u64..3).prop_map(Version), 1..3);
    prop_oneof![
        (1_usize..3).prop_map(|partitions| Edit::Create(TableState::new(partitions))),
        (any::<u64>(), partitions).prop_map(|(metadata, partitions)| {
            let partitions = partitions.into_iter().map(|(id, version)| (PartitionId(id), version)).collect();
            Edit::Advance(Advance { metadata: MetadataId(metadata), partitions })
        }),
        (0_u64..3).prop_map(|version| Edit::Drop(Version(version))),
    ]
}

fn records() -> impl Strategy<Value = Record> {
    let changes = prop::collection::btree_map(0_u32..4, edits(), 0..3).prop_map(|edits| {
        let mut changes = Changes::default();
        edits.into_iter().for_each(|(table, edit)| changes.set(TableId(table), edit));
        changes
    });
    (any::<u64>(), prop::bool::weighted(0.05), prop::option::weighted(0.9, changes))
        .prop_map(|(commit, closes, changes)| Record { commit: CommitId(commit), closes, changes })
}

fn first() -> State {
    let tables = vec![(TableId(1), TableState::new(2)), (TableId(3), TableState::new(1))];
    let root = Root::from_parts(Version(0), CommitId(1), tables).unwrap();
    State::first(0, Arc::new(root), true)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// However the tail is cut into reads, and whatever is folded beside whole roots.
    #[test]
    fn a_fold_is_what_the_plain_rule_says(records in prop::collection::vec(records(), 1..40), cut in 1_usize..40) {
        let mut plain = first().root().unwrap();
        let mut state = first();
        for batch in records.chunks(cut) {
            let (mut bytes, mut watched, last) = (Vec::new(), None, batch[batch.len() - 1].commit);
            let mut closed = false;
            for record in batch {
                bytes.extend(record.encode());
                if !closed {
                    let next = record.changes.as_ref().and_then(|changes| changes.apply(&plain, record.commit).ok());
                    watched = (record.commit == last).then_some(next.is_some());
                    plain = next.unwrap_or(plain);
                }
                closed |= record.closes;
            }
            let number = state.segment.number;
            let folded = state.fold(&state.with_header(bytes), Some(last)).unwrap();
            state = folded.state;
            let root = state.root();
            prop_assert_eq!(root.as_ref(), Some(&plain));
            prop_assert_eq!(folded.watched, watched);
            prop_assert_eq!(state.segment.number, number + u64::from(closed));
            for id in (0..4).map(TableId) {
                prop_assert_eq!(state.table(id), plain.table(id));
            }
        }
    }

    #[test]
    fn no_tail_makes_a_fold_panic(records in prop::collection::vec(records(), 0..5), tail in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut bytes: Vec<u8> = records.iter().flat_map(Record::encode).collect();
        bytes.extend(&tail);
        let _ = first().fold(&tail, None);
        let folded = first().fold(&first().with_header(bytes), None);
        let closed = records.iter().any(|record| record.closes);
        prop_assert!(folded.is_err() || closed || tail.is_empty(), "rubbish was read as a record");
    }
}
