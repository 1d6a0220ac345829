//! The objects that commits to a `whole` catalog leave in the store, and the memory that they use.

use glidepath_env::{Cause, Denial, PutError};
use glidepath_model::{Action, Entry, Kind, Name, Span, TableState};

use super::layouts::commit;
use crate::catalog::{Catalog, LoadError, Outcome};
use crate::manifest_chain::{Attempt, Grace, Layout, ManifestChain, SharedState, Sizes, Snapshot};
use crate::tests::counted::{World, at_once};

type Chain = ManifestChain<World>;

fn name(number: u32) -> Name {
    Name::parse(&format!("table_{number:07}")).unwrap()
}

fn create(number: u32) -> Action {
    let mut entry = Entry::table(Some(format!("s3://lake/{number}")), TableState::new(1));
    entry.properties.insert("number".to_owned(), number.to_string());
    Action::Create { name: name(number), entry }
}

fn drop_of(number: u32) -> Action {
    Action::Drop { name: name(number), kind: Kind::Table, expected: None }
}

fn created(shared_state: SharedState, rows: u32) -> (World, Chain) {
    let world = World::default();
    let chain = world.chain(shared_state);
    assert!(matches!(at_once(chain.create(Layout::Whole, true)), Outcome::Committed(_)));
    if rows > 0 {
        commit(&chain, &[(0..rows).map(create).collect()]);
    }
    (world, chain)
}

fn attempt(chain: &Chain, base: &Snapshot, actions: &[Action]) -> Attempt {
    at_once(chain.attempt(base, &[actions])).1
}

/// With twenty times as many rows, memory does not grow: one part being read, one being filled, a few blocks.
#[test]
fn a_rewrite_of_any_size_holds_two_parts() {
    let sizes = Sizes { block_bytes: 64 << 10, part_bytes: 100 << 10 };
    let mut most = Vec::new();
    for rows in [10_000, 200_000] {
        let (world, chain) = created(SharedState::new("", 0).whole_sized(sizes), rows);
        let parts = world.keys("packs/").len();
        // A commit that changes only one row, and one that changes rows everywhere.
        for actions in [vec![create(rows + 1)], (0..rows).step_by(5000).map(drop_of).collect()] {
            world.counted();
            commit(&chain, &[actions]);
            let counts = world.counted();
            assert!(counts.most_bytes <= 2 * 100 * 1024 + 3 * 64 * 1024, "{counts:?} with {parts} parts");
            most.push((counts.most_bytes, counts.written_bytes));
        }
    }
    // The bytes written grow, the memory does not.
    assert!(most[2].1 > 15 * most[0].1, "{most:?}");
}

/// Drops a namespace with twenty times as many tables: memory does not grow, because the tables are not listed.
#[test]
fn a_namespace_of_any_size_goes_with_all_that_is_in_it() {
    let sizes = Sizes { block_bytes: 64 << 10, part_bytes: 100 << 10 };
    for rows in [10_000, 200_000] {
        let (world, chain) = created(SharedState::new("", 0).whole_sized(sizes), 0);
        let parse = |text: &str| Name::parse(text).unwrap();
        let namespace = |text: &str| Action::Create { name: parse(text), entry: Entry::namespace() };
        let namespaces = ["a", "a/b", "a-b", "c"].map(namespace);
        let table = |number: u32| {
            // One table in a thousand is elsewhere, and the index by base object has it among the others.
            let place = if number.is_multiple_of(1000) { "a-b" } else { ["a", "a/b"][number as usize % 2] };
            let mut entry = Entry::table(None, TableState::new(1));
            entry.base_objects.push(parse(&format!("c/base_{}", number % 50)));
            Action::Create { name: parse(&format!("{place}/table_{number:07}")), entry }
        };
        commit(&chain, &[namespaces.into_iter().chain((0..rows).map(table)).collect()]);
        world.counted();
        let (_, head) = commit(&chain, &[vec![Action::DropAll { name: parse("a") }]]);
        let counts = world.counted();
        assert!(counts.most_bytes <= 2 * 100 * 1024 + 3 * 64 * 1024, "{counts:?}");
        assert_eq!(head.entries(), u64::from(2 + rows / 1000));
        assert_eq!(at_once(chain.all(&head, None, usize::MAX)).unwrap().len() as u64, head.entries());
        let based =
            (0..50).map(|base| at_once(chain.with_base(&head, &parse(&format!("c/base_{base}")))).unwrap().len());
        assert_eq!(based.sum::<usize>() as u32, rows / 1000);
        // It looks up each row in the indices: without cached pages, each takes decoding a block.
        let looking = world.chain(SharedState::new("", 64 << 20).whole_sized(sizes));
        assert!(at_once(looking.fsck()).unwrap().findings.is_empty());
    }
}

#[test]
fn a_rewrite_lets_other_tasks_run_after_each_block() {
    let sizes = Sizes { block_bytes: 4 << 10, part_bytes: 8 << 10 };
    let (world, chain) = created(SharedState::new("", 1 << 20).whole_sized(sizes), 2000);
    world.counted();
    commit(&chain, &[vec![drop_of(300)]]);
    // A block holds at most 16 rows of 256 bytes.
    let stepped = world.counted().stepped_aside;
    assert!(stepped >= 2000 / 16, "{stepped}");
}

#[test]
fn a_version_needs_no_part_of_another() {
    let sizes = Sizes { block_bytes: 4 << 10, part_bytes: 8 << 10 };
    let (world, chain) = created(SharedState::new("", 1 << 20).whole_sized(sizes), 2000);
    for number in 0..5 {
        commit(&chain, &[vec![drop_of(number * 300)]]);
    }
    let head = at_once(chain.load()).unwrap();
    let (own, all) = (at_once(chain.objects(&head)).unwrap(), world.keys("packs/").len());
    assert!(own.len() > 10 && all > 5 * (own.len() - 1), "{} of {all}", own.len());
    for _ in 0..2 {
        world.pass(Span::from_secs(3600));
        at_once(chain.vacuum(Grace { versions: 1, age: Grace::SHORTEST })).unwrap();
        commit(&chain, &[vec![drop_of(1999)]]);
        commit(&chain, &[vec![create(1999)]]);
    }
    world.pass(Span::from_secs(3600));
    let swept = at_once(chain.vacuum(Grace { versions: 0, age: Grace::SHORTEST })).unwrap();
    let head = at_once(chain.load()).unwrap();
    assert_eq!(swept.kept as usize, at_once(chain.objects(&head)).unwrap().len() - 2, "{swept:?}");
    assert_eq!(world.keys("packs/").len(), at_once(chain.objects(&head)).unwrap().len() - 2);
    let checked = at_once(chain.fsck()).unwrap();
    assert!(checked.findings.is_empty() && checked.entries == 1995, "{checked:?}");
}

/// The first part is refused, the outcome of the second is unknown, or the version itself fails.
#[test]
fn parts_of_a_commit_that_failed_are_gone_and_of_an_unknown_one_stay() {
    let sizes = Sizes { block_bytes: 4 << 10, part_bytes: 8 << 10 };
    let (world, chain) = created(SharedState::new("", 1 << 20).whole_sized(sizes), 1000);
    let (base, before) = (at_once(chain.load()).unwrap(), world.keys("packs/"));
    let refused = || PutError::Refused(Denial::words("on purpose"));
    let unknown = || PutError::Unknown(Cause::words("on purpose"));
    for fails_at in [0, 1, 5] {
        for end in [refused as fn() -> PutError, unknown] {
            let mut puts = 0;
            world.when_put(move |key| {
                puts += u64::from(key.as_str().starts_with("packs/"));
                (puts == fails_at + 1).then(end)
            });
            assert!(matches!(attempt(&chain, &base, &[drop_of(7)]), Attempt::Ended(Outcome::Refused(_))));
            assert_eq!(world.keys("packs/"), before);
        }
    }
    world.when_put(move |key| key.as_str().starts_with("versions/").then(refused));
    assert!(matches!(attempt(&chain, &base, &[drop_of(7)]), Attempt::Ended(Outcome::Refused(_))));
    assert_eq!(world.keys("packs/"), before);
    world.all_well();
    // Another commit is first: lost.
    let (_, winner) = commit(&chain, &[vec![drop_of(8)]]);
    let after = world.keys("packs/");
    assert!(matches!(attempt(&chain, &base, &[drop_of(7)]), Attempt::Ended(Outcome::Conflict(Some(_)))));
    assert_eq!(world.keys("packs/"), after);
    // The answer is lost and the version is hidden: parts stay.
    let key = format!("versions/{:016x}", u64::MAX - winner.version().0 - 1);
    world.hide(&key);
    let version = key.clone();
    world.when_put(move |put| (put.as_str() == version).then(unknown));
    let ended = attempt(&chain, &winner, &[drop_of(7)]);
    assert!(matches!(ended, Attempt::Ended(Outcome::Unknown(_))), "{ended:?}");
    assert!(world.keys("packs/").len() > after.len());
    // It had been written, and needs them.
    world.all_well();
    let head = at_once(chain.load()).unwrap();
    assert_eq!((head.version(), head.entries()), (winner.version().next(), 998));
    assert!(!at_once(chain.fsck()).unwrap().is_damaged());
}

#[test]
fn a_damaged_part_is_never_copied_into_a_new_version() {
    let (world, chain) = created(SharedState::new("", 0), 20_000);
    let base = at_once(chain.load()).unwrap();
    let packs = world.keys("packs/");
    // In the middle of a block that the commit does not change.
    world.tamper(&packs[0], |bytes| bytes[20_000] ^= 1);
    let ended = attempt(&chain, &base, &[create(30_000)]);
    assert!(matches!(ended, Attempt::NotMade(LoadError::Undecodable(_))), "{ended:?}");
    world.tamper(&packs[0], |bytes| bytes.truncate(20_000));
    let ended = attempt(&chain, &base, &[create(30_000)]);
    assert!(matches!(ended, Attempt::NotMade(LoadError::Undecodable(_))), "{ended:?}");
    world.remove(&packs[0]);
    let ended = attempt(&chain, &base, &[create(30_000)]);
    assert!(matches!(ended, Attempt::NotMade(LoadError::Failed(_))), "{ended:?}");
    assert_eq!(world.keys("packs/"), packs[1..]);
}

#[test]
fn everything_dropped_leaves_an_empty_catalog_that_goes_on() {
    let (world, chain) = created(SharedState::new("", 1 << 20), 0);
    let empty = at_once(chain.load()).unwrap();
    assert_eq!((empty.layout(), empty.entries()), (Layout::Whole, 0));
    commit(&chain, &[(0..5000).map(create).collect()]);
    commit(&chain, &[(0..5000).map(drop_of).collect()]);
    let head = at_once(chain.load()).unwrap();
    assert_eq!((head.entries(), at_once(chain.objects(&head)).unwrap().len()), (0, 1));
    commit(&chain, &[vec![create(3)]]);
    let head = at_once(chain.load()).unwrap();
    assert_eq!(at_once(chain.of_kind(&head, Kind::Table)).unwrap(), [name(3)]);
    let checked = at_once(chain.fsck()).unwrap();
    assert!(!checked.is_damaged() && checked.whole == Some(head.version()), "{checked:?}");
    assert_eq!(world.keys("packs/").len(), 2, "one for each version that has entries");
}
