use std::collections::BTreeMap;

use proptest::prelude::*;
use smallvec::smallvec;

use super::*;
use crate::{Advance, Assertion, Changes, Edit, Kind, Need, PartitionId};

type Map = BTreeMap<Name, Entry>;

/// Few names, so that actions collide: numbered tables among them, also as namespaces and inside one.
const NAMES: [&str; 12] = [
    "a",
    "a-b",
    "a/a",
    "a/a/b",
    "a/b",
    "b",
    "t00000000",
    "t00000000/a",
    "t00000001",
    "t0000000a",
    "t0000000A",
    "u/t00000001",
];

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn any_name() -> impl Strategy<Value = Name> {
    prop::sample::select(NAMES.to_vec()).prop_map(name)
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let (namespace, bare) = (Entry::namespace(), Entry { kind: Kind::Table, ..Entry::namespace() });
    let odd = Entry { state: Some(TableState::new(1)), ..Entry::namespace() };
    let properties = BTreeMap::from([("k".to_owned(), "v".to_owned())]);
    let full = Entry { properties, ..Entry::table(None, TableState::new(2)) };
    let plain = (1_usize..3).prop_map(|partitions| Entry::table(None, TableState::new(partitions)));
    let pointing = Entry { pointer: Some("x".to_owned()), ..Entry::table(None, TableState::new(1)) };
    prop_oneof![
        4 => plain, 3 => Just(namespace), 1 => Just(bare), 1 => Just(odd), 2 => Just(full), 2 => Just(pointing),
        2 => Just(Entry::view())
    ]
}

fn any_advance() -> impl Strategy<Value = Advance> {
    (0_u32..2, 0_u64..3, any::<u64>()).prop_map(|(partition, at, metadata)| {
        let partitions = smallvec![(PartitionId(partition), Version(at))];
        Advance { metadata: MetadataId(metadata), partitions }
    })
}

fn any_action() -> impl Strategy<Value = Action> {
    let version = || (0..3_u64).prop_map(Version);
    prop_oneof![
        4 => (any_name(), any_entry()).prop_map(|(name, entry)| Action::Create { name, entry }),
        1 => any_name().prop_map(|name| Action::Drop { name, kind: Kind::Namespace, expected: None }),
        1 => (any_name(), prop::option::of(version())).prop_map(|(name, expected)| Action::Drop {
            name,
            kind: Kind::Table,
            expected
        }),
        1 => any_name().prop_map(|name| Action::DropAll { name }),
        1 => (any_name(), any_name()).prop_map(|(from, to)| Action::Rename { from, to }),
        2 => (any_name(), prop::option::of("[xy]")).prop_map(|(name, value)| {
            Action::SetProperties { name, changes: BTreeMap::from([("k".to_owned(), value)]) }
        }),
        2 => (any_name(), any_advance()).prop_map(|(name, advance)| Action::Advance { name, advance }),
        2 => (any_name(), prop::option::of("[xy]"), "[xy]").prop_map(|(name, expected, pointer)| {
            Action::SetPointer { name, expected, pointer }
        }),
        1 => any_name().prop_map(|name| Action::Assert { name, holds: Assertion::Absent }),
        1 => any_name().prop_map(|name| Action::Drop { name, kind: Kind::View, expected: None }),
    ]
}

fn any_changes() -> impl Strategy<Value = Changes> {
    let edit = prop_oneof![
        (0_usize..3).prop_map(|partitions| match partitions {
            0 => Edit::Create(TableState { partitions: PartitionVersions::new(), ..TableState::new(1) }),
            _ => Edit::Create(TableState::new(partitions)),
        }),
        any_advance().prop_map(Edit::Advance),
        (0_u64..3).prop_map(|version| Edit::Drop(Version(version))),
    ];
    let table = prop::sample::select(vec![0, 1, 10]);
    prop::collection::vec((table, edit), 0..3).prop_map(|edits| {
        let mut changes = Changes::default();
        edits.into_iter().for_each(|(table, edit)| changes.set(TableId(table), edit));
        changes
    })
}

fn any_request() -> impl Strategy<Value = Vec<Action>> {
    prop::collection::vec(any_action(), 1..4)
}

/// In listing order.
fn children(map: &Map, namespace: Option<&Name>, after: Option<&Name>, limit: usize) -> Vec<(Name, Entry)> {
    let mut inside: Vec<(Name, Entry)> = map
        .iter()
        .filter(|(name, _)| name.parent().as_ref() == namespace)
        .map(|(n, e)| (n.clone(), e.clone()))
        .collect();
    let place = |name: &Name| (name.parent().map(|parent| parent.as_str().to_owned()), name.last().to_owned());
    inside.sort_by_key(|(name, _)| place(name));
    inside.retain(|(name, _)| after.is_none_or(|after| place(name) > place(after)));
    inside.truncate(limit);
    inside
}

/// The rules on a plain map.
fn decide(map: &mut Map, actions: &[Action]) -> Result<(), Refusal> {
    let mut view = View::default();
    for need in view.needs(actions) {
        match need {
            Need::Entry(name) => {
                let entry = map.get(&name).cloned();
                view.insert(name, entry);
            }
            Need::Children(namespace, most) => {
                let some = children(map, Some(&namespace), None, most).into_iter().map(|(name, _)| name).collect();
                view.insert_children(namespace, some, most);
            }
        }
    }
    view.apply(actions)?;
    map.retain(|name, _| !view.gone().iter().any(|namespace| name.is_within(namespace)));
    for (name, _, now) in view.changes() {
        match now {
            Some(entry) => map.insert(name.clone(), entry.clone()),
            None => map.remove(name),
        };
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_root_decides_and_lists_as_a_plain_map_does(
        requests in prop::collection::vec(any_request(), 1..20),
        queries in prop::collection::vec((prop::option::of(any_name()), prop::option::of(any_name()), 0_usize..5), 1..9),
    ) {
        let (mut root, mut map) = (Root::empty(), Map::new());
        for actions in requests {
            let before = (root.clone(), map.clone());
            prop_assert_eq!(root.decide(&actions, |_, _| Ok(())).map(drop), decide(&mut map, &actions), "{:?}", actions);
            for name in NAMES.map(name) {
                prop_assert_eq!(root.entry(&name), map.get(&name).cloned());
                prop_assert_eq!(before.0.entry(&name), before.1.get(&name).cloned());
                if let Some(id) = name.number() {
                    let table = map.get(&name).filter(|entry| entry.kind == Kind::Table);
                    prop_assert_eq!(root.table(id), table.and_then(|entry| entry.state.as_ref()));
                }
            }
            prop_assert_eq!(root.table_count() + root.entries().len(), map.len());
            for (namespace, after, limit) in &queries {
                let (namespace, after) = (namespace.as_ref(), after.as_ref());
                prop_assert_eq!(root.children(namespace, after, *limit), children(&map, namespace, after, *limit));
            }
            let tables = root.tables().cloned().collect();
            let named = root.entries().iter().map(|(name, entry)| (name.clone(), entry.clone())).collect();
            let again = Root::from_parts(root.version, root.commit, tables).unwrap();
            let again = again.with_entries(Entries::new(named).unwrap());
            prop_assert_eq!(again.as_ref(), Some(&root));
        }
    }

    /// Changes are the compact form of actions: both have the same effect on every root.
    #[test]
    fn changes_are_decided_as_their_actions_are(
        requests in prop::collection::vec(any_request(), 0..9),
        all in prop::collection::vec(any_changes(), 1..9),
    ) {
        let mut root = Root::empty();
        for actions in requests {
            let _ = root.decide(&actions, |_, _| Ok(()));
        }
        for changes in all {
            let actions = changes.actions();
            let mut decided = root.clone();
            let fits = decided.decide(&actions, |_, _| Ok(())).is_ok();
            prop_assert_eq!(changes.overlap(&root) == crate::Overlap::None, fits, "{:?}", changes);
            match changes.apply(&root, CommitId(7)) {
                Ok(next) => {
                    prop_assert!(fits);
                    prop_assert_eq!(next.version, root.version.next());
                    (decided.version, decided.commit) = (next.version, next.commit);
                    prop_assert_eq!(&next, &decided);
                    root = next;
                }
                Err(_) => prop_assert!(!fits, "{:?}", changes),
            }
            let sound = changes.edits().iter().all(|change| !matches!(&change.edit, Edit::Create(state) if state.partitions.is_empty()));
            prop_assert!(!sound || Changes::of_actions(&actions) == Some(changes));
        }
    }
}

#[test]
fn entries_that_are_no_catalog_are_none() {
    let plain = || Entry::table(None, TableState::new(1));
    let entries =
        |all: &[(&str, Entry)]| Entries::new(all.iter().map(|(text, entry)| (name(text), entry.clone())).collect());
    assert!(entries(&[("a", Entry::namespace()), ("a-b", plain()), ("a/b", plain())]).is_some());
    assert_eq!(entries(&[("a/b", plain())]), None, "no parent");
    assert_eq!(entries(&[("a", plain()), ("a/b", plain())]), None, "in a table");
    assert_eq!(entries(&[("b", plain()), ("a", plain())]), None, "order");
    assert_eq!(entries(&[("b", plain()), ("b", plain())]), None, "twice");
    assert_eq!(entries(&[("t00000001", plain())]), None, "a number");
    let empty = TableState { partitions: PartitionVersions::new(), ..TableState::new(1) };
    assert_eq!(entries(&[("a", Entry::table(None, empty))]), None, "no partitions");
    let numbered = entries(&[("t00000001", Entry::table(Some("there".to_owned()), TableState::new(1)))]).unwrap();
    let root = |id| Root::from_parts(Version(0), CommitId(0), vec![(TableId(id), TableState::new(1))]).unwrap();
    assert_eq!(root(1).with_entries(numbered.clone()), None, "one of each");
    assert!(root(2).with_entries(numbered).is_some());
}

#[test]
fn only_the_names_of_numbers_are_numbers() {
    for id in [0, 10, u32::MAX].map(TableId) {
        assert_eq!(Name::numbered(id).number(), Some(id));
        assert_eq!(name(Name::numbered(id).as_str()), Name::numbered(id));
    }
    for text in ["t", "t0000001", "t000000010", "t0000000A", "u00000001", "a/t00000001", "t+0000001"] {
        assert_eq!(name(text).number(), None, "{text}");
    }
}

/// Enough entries for several runs.
#[test]
fn listings_of_many_come_page_by_page() {
    let mut root = Root::empty();
    let actions: Vec<Action> = (0..500_u32)
        .flat_map(|number| {
            let entry = || Entry::table(None, TableState::new(1));
            [
                Action::Create { name: Name::numbered(TableId(number * 3)), entry: entry() },
                Action::Create { name: name(&format!("t{number:07x}")), entry: entry() },
            ]
        })
        .collect();
    root.decide(&actions, |_, _| Ok(())).unwrap();
    let all = root.children(None, None, usize::MAX);
    assert_eq!(all.len(), 1000);
    assert!(all.windows(2).all(|pair| pair[0].0.as_str() < pair[1].0.as_str()));
    let (mut pages, mut after) = (Vec::new(), None);
    loop {
        let page = root.children(None, after.as_ref(), 7);
        let Some((last, _)) = page.last() else { break };
        after = Some(last.clone());
        pages.extend(page);
    }
    assert_eq!(pages, all);
}
