//! The same commits to both layouts, and to a map.

use std::collections::{BTreeMap, BTreeSet};

use glidepath_model::{
    Action, Advance, Assertion, Entry, Field, Kind, MetadataId, Name, Need, PartitionId, Refusal, TableState, Version,
    View,
};
use proptest::prelude::*;
use smallvec::smallvec;

use crate::catalog::{Catalog, Outcome};
use crate::entry;
use crate::manifest_chain::page::Page;
use crate::manifest_chain::tree::Pages as _;
use crate::manifest_chain::{Attempt, Changed, Layout, ManifestChain, SharedState, Sizes, Snapshot, whole};
use crate::tests::counted::{World, at_once};

type Chain = ManifestChain<World>;
type Map = BTreeMap<Name, Entry>;

/// So small that a few entries need several parts.
const SMALL: Sizes = Sizes { block_bytes: 4 * whole::ROW, part_bytes: 6000 };

fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

fn any_name() -> impl Strategy<Value = Name> {
    let last = || "[a-d][0-9]";
    prop_oneof![
        1 => prop::sample::select(vec!["a", "b", "a/a", "a-b"]).prop_map(name),
        3 => last().prop_map(|last| name(&last)),
        3 => last().prop_map(|last| name(&format!("a/{last}"))),
        1 => last().prop_map(|last| name(&format!("a/a/{last}"))),
    ]
}

fn any_kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(Kind::ALL.to_vec())
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let text = prop_oneof![9 => ".{0,9}".boxed(), 1 => Just("long".repeat(300)).boxed()];
    let properties = prop::collection::btree_map("[x-z]", text, 0..3);
    let bases = prop::collection::vec(any_name(), 0..3);
    let unknown = prop::collection::btree_map(6_u64..9, prop::collection::vec(any::<u8>(), 0..5), 0..2);
    let state = prop::option::of(1_usize..4);
    let texts = (prop::option::of("[a-z]{0,9}"), prop::option::of("[xy]"));
    (any_kind(), state, texts, properties, bases, unknown).prop_map(
        |(kind, partitions, (location, pointer), properties, base_objects, unknown)| Entry {
            kind,
            location,
            pointer: pointer.filter(|_| kind != Kind::Namespace),
            properties,
            base_objects,
            state: partitions.filter(|_| kind == Kind::Table).map(TableState::new),
            unknown: unknown.into_iter().map(|(tag, bytes)| Field { tag, bytes }).collect(),
        },
    )
}

fn any_action() -> impl Strategy<Value = Action> {
    let pointer = || prop::option::of("[xy]");
    let assertion = prop_oneof![
        any_kind().prop_map(Assertion::Exists),
        Just(Assertion::Absent),
        pointer().prop_map(Assertion::Pointer),
        (0_u64..2).prop_map(|version| Assertion::Version(Version(version))),
    ];
    prop_oneof![
        2 => (any_name(), pointer(), "[xy]")
            .prop_map(|(name, expected, pointer)| Action::SetPointer { name, expected, pointer }),
        1 => (any_name(), assertion).prop_map(|(name, holds)| Action::Assert { name, holds }),
        6 => (any_name(), any_entry()).prop_map(|(name, entry)| Action::Create { name, entry }),
        1 => Just(Action::Create { name: name("a"), entry: Entry::namespace() }),
        3 => (any_name(), any_kind()).prop_map(|(name, kind)| Action::Drop { name, kind, expected: None }),
        1 => any_name().prop_map(|name| Action::DropAll { name }),
        1 => prop::sample::select(vec!["a", "a/a", "b"]).prop_map(|text| Action::DropAll { name: name(text) }),
        1 => (any_name(), any_name()).prop_map(|(from, to)| Action::Rename { from, to }),
        1 => (any_name(), prop::option::of("[xy]")).prop_map(|(name, value)| {
            Action::SetProperties { name, changes: BTreeMap::from([("k".to_owned(), value)]) }
        }),
        1 => (any_name(), any::<u64>()).prop_map(|(name, metadata)| {
            let partitions = smallvec![(PartitionId(0), Version(0))];
            Action::Advance { name, advance: Advance { metadata: MetadataId(metadata), partitions } }
        }),
    ]
}

/// The map after these groups of actions.
fn plainly(map: &Map, groups: &[Vec<Action>]) -> (Vec<Result<(), Refusal>>, Map) {
    let (mut view, mut verdicts) = (View::default(), Vec::new());
    for actions in groups {
        for need in view.needs(actions) {
            match need {
                Need::Entry(name) => {
                    let entry = map.get(&name).cloned();
                    view.insert(name, entry);
                }
                Need::Children(namespace, most) => {
                    let children = map.keys().filter(|name| name.parent().as_ref() == Some(&namespace));
                    let children = children.take(most).cloned().collect();
                    view.insert_children(namespace, children, most);
                }
            }
        }
        verdicts.push(view.apply(actions));
    }
    let mut map = map.clone();
    map.retain(|name, _| !view.gone().iter().any(|namespace| name.is_within(namespace)));
    for (name, _, now) in view.changes() {
        match now {
            Some(entry) => drop(map.insert(name.clone(), entry.clone())),
            None => drop(map.remove(name)),
        }
    }
    (verdicts, map)
}

/// Commits; returns what was decided, and the head.
pub(super) fn commit(chain: &Chain, groups: &[Vec<Action>]) -> (Vec<Result<(), Refusal>>, Snapshot) {
    let base = at_once(chain.load()).unwrap();
    let groups: Vec<&[Action]> = groups.iter().map(Vec::as_slice).collect();
    match at_once(chain.attempt(&base, &groups)) {
        (verdicts, Attempt::Nothing) => (verdicts, base),
        (verdicts, Attempt::Ended(Outcome::Committed(head))) => (verdicts, head),
        (_, other) => panic!("{other:?}"),
    }
}

fn sorted<T: Ord>(mut items: Vec<T>) -> Vec<T> {
    items.sort();
    items
}

/// Every read of the catalog gives the same answer as the map.
fn agree(chain: &Chain, at: &Snapshot, map: &Map) {
    let all: Map = at_once(chain.all(at, None, usize::MAX)).unwrap().into_iter().collect();
    assert_eq!(&all, map);
    assert_eq!(at.entries(), map.len() as u64);
    for kind in Kind::ALL {
        let wanted: Vec<Name> =
            map.iter().filter(|(_, entry)| entry.kind == kind).map(|(name, _)| name.clone()).collect();
        assert_eq!(sorted(at_once(chain.of_kind(at, kind)).unwrap()), wanted);
    }
    let bases: BTreeSet<&Name> = map.values().flat_map(|entry| &entry.base_objects).collect();
    for base in bases {
        let wanted = map.iter().filter(|(_, entry)| entry.base_objects.contains(base)).map(|(name, _)| name.clone());
        assert_eq!(sorted(at_once(chain.with_base(at, base)).unwrap()), wanted.collect::<Vec<_>>());
    }
    for namespace in [None, Some(name("a")), Some(name("a/a")), Some(name("b"))] {
        let wanted: Map = map
            .iter()
            .filter(|(name, _)| name.parent() == namespace)
            .map(|(name, entry)| (name.clone(), entry.clone()))
            .collect();
        let found = at_once(chain.children(at, namespace.as_ref(), None, usize::MAX)).unwrap();
        assert_eq!(found.into_iter().collect::<Map>(), wanted);
    }
}

fn differences(before: &Map, now: &Map) -> Vec<Changed> {
    let names: BTreeSet<&Name> = before.keys().chain(now.keys()).collect();
    let changed = |name: &&Name| before.get(*name) != now.get(*name);
    let names = names.into_iter().filter(changed);
    let told =
        |name: &Name| Changed { name: name.clone(), before: before.get(name).cloned(), now: now.get(name).cloned() };
    names.map(told).collect()
}

/// Blocks are between a quarter of the maximum and the maximum, unless there is only one, or one with a single entry.
fn well_filled(chain: &Chain, at: &Snapshot) {
    let Some(root) = at.manifest.root else { return assert_eq!(at.entries(), 0) };
    let root = at_once(chain.with_pages(|pages| pages.page(root))).unwrap();
    let Page::Inner(blocks) = &*root else { panic!("the root is a leaf") };
    for (least, block) in blocks {
        let page = at_once(chain.with_pages(|pages| pages.page(*block))).unwrap();
        let Page::Leaf(items) = &*page else { panic!("a block is not a leaf") };
        let bytes: usize = items.iter().map(whole::weight).sum();
        assert!(items.len() == 1 || bytes <= SMALL.block_bytes, "{bytes} bytes in {} rows", items.len());
        assert!(blocks.len() == 1 || bytes >= SMALL.block_bytes / 4, "{bytes} bytes are too few");
        assert_eq!(&items[0].0, least);
        assert_eq!(block.home, blocks_home(block.home, at), "a block in a part of another version");
    }
}

fn blocks_home(found: crate::manifest_chain::page::Home, at: &Snapshot) -> crate::manifest_chain::page::Home {
    use crate::manifest_chain::page::Home;
    match found {
        Home::Pack { number, .. } => Home::Pack { version: at.version().0, commit: at.commit().0, number },
        Home::Version(_) => Home::Version(u64::MAX),
    }
}

fn created(layout: Layout, indexed: bool) -> (World, Chain) {
    let world = World::default();
    // The cache holds almost nothing, so that blocks are read.
    let chain = world.chain(SharedState::new("lake/", 100).whole_sized(SMALL));
    assert!(matches!(at_once(chain.create(layout, indexed)), Outcome::Committed(_)));
    (world, chain)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(120))]

    #[test]
    fn both_layouts_are_the_map(
        indexed in any::<bool>(),
        commits in prop::collection::vec(prop::collection::vec(prop::collection::vec(any_action(), 1..9), 1..4), 1..10),
    ) {
        let ((_, paged), (_, whole)) = (created(Layout::Paged, indexed), created(Layout::Whole, indexed));
        let mut map = Map::new();
        for groups in commits {
            let (verdicts, next) = plainly(&map, &groups);
            for chain in [&paged, &whole] {
                let before = at_once(chain.load()).unwrap();
                let (found, at) = commit(chain, &groups);
                prop_assert_eq!(&found, &verdicts);
                agree(chain, &at, &next);
                let mut changed = at_once(chain.changed(Some(&before), &at, usize::MAX)).unwrap();
                changed.sort_by(|one, other| one.name.cmp(&other.name));
                prop_assert_eq!(changed, differences(&map, &next));
                if at.layout() == Layout::Whole {
                    well_filled(chain, &at);
                }
            }
            map = next;
        }
        for chain in [&paged, &whole] {
            let checked = at_once(chain.fsck()).unwrap();
            prop_assert!(checked.findings.is_empty(), "{:?}", checked.findings);
        }
    }
}

/// An entry of exactly the maximum size is stored, whatever is committed with it; one byte more is refused, and only
/// that entry.
#[test]
fn an_entry_is_no_larger_than_may_be() {
    let most = 300;
    let with = |letters: usize| {
        let mut entry = Entry::namespace();
        entry.location = Some("x".repeat(letters));
        entry
    };
    let letters = (0..most).rev().find(|letters| entry::encode(&with(*letters)).len() == most).unwrap();
    for layout in Layout::ALL {
        let world = World::default();
        let shared_state = SharedState::new("", 1 << 20).entries_of_at_most(most);
        let chain = Chain::new(world.clone(), world, std::sync::Arc::new(shared_state));
        let created = at_once(chain.create(layout, true));
        let Outcome::Committed(base) = created else { panic!("{created:?}") };
        let create = |text: &str, letters| vec![Action::Create { name: name(text), entry: with(letters) }];
        let property = ("more".to_owned(), Some(String::new()));
        let grow = vec![Action::SetProperties { name: name("a"), changes: [property].into_iter().collect() }];
        let groups = [create("a", letters), create("b", letters + 1), grow, create("c", 0)];
        let (verdicts, attempt) = at_once(chain.attempt(&base, &groups.each_ref().map(|group| &group[..])));
        let Attempt::Ended(Outcome::Committed(now)) = attempt else { panic!("{attempt:?}") };
        assert!(verdicts[0].is_ok() && verdicts[3].is_ok());
        let too_large = |verdict: &Result<(), Refusal>| matches!(verdict, Err(Refusal::TooLarge { most: 300, .. }));
        assert!(too_large(&verdicts[1]) && too_large(&verdicts[2]), "{verdicts:?}");
        assert_eq!(at_once(chain.entry(&now, &name("a"))).unwrap(), Some(with(letters)));
        assert_eq!(now.entries(), 2);
    }
}
