use glidepath_model::{Advance, Kind, MetadataId, PartitionId};
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
    let actions = prop::collection::vec(any_action(), 0..3);
    let intent = prop_oneof![changes.prop_map(Intent::Changes), actions.prop_map(Intent::Actions)];
    (any::<u64>(), prop::bool::weighted(0.05), prop::option::weighted(0.9, intent))
        .prop_map(|(commit, closes, intent)| Record { commit: CommitId(commit), closes, intent })
}

const NAMES: [&str; 9] =
    ["a", "a-b", "a/b", "a/b/c", "t00000000", "t00000001", "t00000001/a", "t00000003", "t0000000z"];

fn any_name() -> impl Strategy<Value = Name> {
    prop::sample::select(NAMES.to_vec()).prop_map(|text| Name::parse(text).unwrap())
}

fn any_action() -> impl Strategy<Value = Action> {
    let namespace = any_name().prop_map(|name| Action::Create { name, entry: Entry::namespace() });
    let located = |(name, located): (Name, Option<String>)| Action::Create {
        name,
        entry: Entry::table(located, TableState::new(2)),
    };
    let property = |(name, value): (Name, Option<String>)| Action::SetProperties {
        name,
        changes: BTreeMap::from([("k".to_owned(), value)]),
    };
    let advance = |(name, edit): (Name, Edit)| match edit {
        Edit::Advance(advance) => Action::Advance { name, advance },
        Edit::Drop(version) => Action::Drop { name, kind: Kind::Table, expected: Some(version) },
        Edit::Create(_) => Action::Drop { name, kind: Kind::Namespace, expected: None },
    };
    let some = || prop::option::of("[xy]");
    prop_oneof![
        namespace,
        (any_name(), some()).prop_map(located),
        (any_name(), some()).prop_map(property),
        (any_name(), edits()).prop_map(advance),
        any_name().prop_map(|name| Action::DropAll { name }),
        (any_name(), any_name()).prop_map(|(from, to)| Action::Rename { from, to }),
    ]
}

/// The root after a record; `None` if the record is void.
fn plainly(root: &Root, record: &Record) -> Option<Root> {
    match record.intent.as_ref()? {
        Intent::Changes(changes) => changes.apply(root, record.commit).ok(),
        Intent::Actions(actions) => {
            let mut next = root.clone();
            next.decide(actions, |_, _| Ok(())).ok()?;
            (next.version, next.commit) = (root.version.next(), record.commit);
            Some(next)
        }
    }
}

fn first() -> State {
    let tables = vec![(TableId(1), TableState::new(2)), (TableId(3), TableState::new(1))];
    let root = Root::from_parts(Version(0), CommitId(1), tables).unwrap();
    State::first(0, Arc::new(root), true)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Folding a segment in pieces equals applying each record to a whole root.
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
                    let next = plainly(&plain, record);
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
            for name in NAMES.map(|text| Name::parse(text).unwrap()) {
                prop_assert_eq!(state.entry(&name), plain.entry(&name));
                for limit in [1, 2, 9] {
                    for namespace in [None, Some(&name)] {
                        let listed = state.children(namespace, None, limit);
                        prop_assert_eq!(listed, plain.children(namespace, None, limit));
                        let listed = state.children(namespace, Some(&name), limit);
                        prop_assert_eq!(listed, plain.children(namespace, Some(&name), limit));
                    }
                }
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
        prop_assert!(folded.is_err() || closed || tail.is_empty(), "invalid bytes were read as a record");
    }
}
