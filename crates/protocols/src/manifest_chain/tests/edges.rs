//! What a refusal proves, and how versions that cannot be read are treated.

use std::cell::Cell;
use std::rc::Rc;

use glidepath_env::{Cause, Denial, PutError};
use glidepath_model::{Action, Entry, Kind, Name, Span, TableState, Version};

use super::layouts::commit;
use crate::catalog::{Catalog, LoadError, Outcome};
use crate::manifest_chain::{Attempt, Grace, Layout, ManifestChain, SharedState, Sizes, Snapshot, Trouble};
use crate::mutant::{self, Mutant};
use crate::tests::counted::{World, at_once};

pub(super) type Chain = ManifestChain<World>;

pub(super) fn create(text: &str) -> Action {
    Action::Create { name: Name::parse(text).unwrap(), entry: Entry::table(None, TableState::new(1)) }
}

fn drop_of(text: &str) -> Action {
    Action::Drop { name: Name::parse(text).unwrap(), kind: Kind::Table, expected: None }
}

/// A catalog in which every commit puts packs.
pub(super) fn created(layout: Layout) -> (World, Chain, Snapshot) {
    let world = World::default();
    let sizes = Sizes { block_bytes: 512, part_bytes: 1 };
    let chain = world.chain(SharedState::new("", 1 << 20).inline_up_to(0).whole_sized(sizes));
    assert!(matches!(at_once(chain.create(layout, true)), Outcome::Committed(_)));
    commit(&chain, &[(0..9).map(|number| create(&format!("t{number}"))).collect()]);
    let head = at_once(chain.load()).unwrap();
    (world, chain, head)
}

pub(super) fn attempt(chain: &Chain, base: &Snapshot, action: Action) -> Attempt {
    at_once(chain.attempt(base, &[&[action]])).1
}

fn key_of(version: Version) -> String {
    format!("versions/{:016x}", u64::MAX - version.0)
}

/// The answer of something on the way, such as 409 or 403, to the second delivery.
fn answered(passing: bool) -> PutError {
    PutError::Refused(Denial { cause: Cause::words("409 to the second delivery"), certain: false, passing })
}

/// The first delivery takes effect, the second is refused: the commit is in the chain, and its objects stay.
#[test]
fn a_refusal_of_a_second_delivery_deletes_nothing() {
    for layout in Layout::ALL {
        for passing in [false, true] {
            let (world, chain, base) = created(layout);
            let next = key_of(base.version().next());
            world.when_put_lands(move |key| (key.as_str() == next).then(|| answered(passing)));
            let ended = attempt(&chain, &base, create("mine"));
            assert!(matches!(&ended, Attempt::Ended(Outcome::Committed(_))), "{layout:?}: {ended:?}");
            world.all_well();
            let head = at_once(world.chain(SharedState::new("", 0)).load()).unwrap();
            assert_eq!((head.version(), head.entries()), (base.version().next(), 10));
            let checked = at_once(chain.fsck()).unwrap();
            assert!(checked.findings.is_empty(), "{layout:?}: {checked:?}");
        }
    }
}

/// Nothing was written, and nothing proves that nothing will be: unknown (at once if the reason does not pass by
/// itself), and packs stay.
#[test]
fn a_refusal_of_one_delivery_is_no_proof() {
    for layout in Layout::ALL {
        let (world, chain, base) = created(layout);
        let packs = world.keys("packs/").len();
        let next = key_of(base.version().next());
        let fate = next.clone();
        world.when_put(move |key| (key.as_str() == fate).then(|| answered(false)));
        let puts = world.puts_of(&next);
        let ended = attempt(&chain, &base, create("mine"));
        assert!(matches!(&ended, Attempt::Ended(Outcome::Unknown(cause)) if cause.to_string().contains("409")));
        assert_eq!(world.puts_of(&next) - puts, 3);
        assert!(world.keys("packs/").len() > packs, "{layout:?}: what may be referred to was deleted");
        world.all_well();
        // Another commit in its place proves it.
        commit(&chain, &[vec![create("theirs")]]);
        let after = world.keys("packs/").len();
        let ended = attempt(&chain, &base, create("mine"));
        assert!(matches!(ended, Attempt::Ended(Outcome::Conflict(Some(_)))), "{ended:?}");
        assert_eq!(world.keys("packs/").len(), after, "{layout:?}");
    }
}

/// Another process commits once during each read, so the search never meets the end of the chain.
#[test]
fn a_search_ends_though_commits_are_as_fast_as_reads() {
    let (world, chain, base) = created(Layout::Paged);
    let theirs = world.chain(SharedState::new("", 1 << 20));
    commit(&theirs, &[vec![create("first")]]);
    let (reads, mut number) = (Rc::new(Cell::new(0)), 0);
    let (counted, committing) = (Rc::clone(&reads), theirs.clone());
    world.when_read(move || {
        counted.set(counted.get() + 1);
        assert!(counted.get() < 1000, "it does not end");
        number += 1;
        commit(&committing, &[vec![create(&format!("their{number}"))]]);
    });
    let found = at_once(chain.load()).unwrap();
    world.all_well();
    assert!((40..50).contains(&reads.get()), "{} reads", reads.get());
    // It was the newest during the call, and it is known from then on.
    let newest = at_once(theirs.load()).unwrap().version();
    assert!(found.version() > base.version().next() && found.version() <= newest);
    assert_eq!(at_once(chain.load()).unwrap().version(), newest);
}

/// So far away that 40 reads pass before the search comes near the version that was missing: what it has found by then
/// is none that was the newest.
#[test]
fn a_long_search_ends_at_the_newest() {
    const AWAY: u64 = 2037;
    let (world, chain, base) = created(Layout::Paged);
    let theirs = world.chain(SharedState::new("", 1 << 20));
    for number in 0..AWAY {
        commit(&theirs, &[vec![if number % 2 == 0 { create("there") } else { drop_of("there") }]]);
    }
    world.counted();
    assert_eq!(at_once(chain.load()).unwrap().version(), Version(base.version().0 + AWAY));
    assert!(world.counted().gets > 40);
}

/// The pages of another version have right checksums, and may have the same places.
#[test]
fn the_bytes_of_another_version_are_not_read_as_pages() {
    let world = World::default();
    let open = || world.chain(SharedState::new("", 1 << 20));
    let chain = open();
    assert!(matches!(at_once(chain.create(Layout::Paged, true)), Outcome::Committed(_)));
    let set = |text: &str, value: &str| Action::SetProperties {
        name: Name::parse(text).unwrap(),
        changes: [("a".to_owned(), Some(value.to_owned()))].into(),
    };
    let long = |text: &str| {
        let properties = [("long".to_owned(), "x".repeat(3000))].into();
        Action::Create { name: Name::parse(text).unwrap(), entry: Entry { properties, ..Entry::namespace() } }
    };
    commit(&chain, &[(0..9).map(|number| long(&format!("n{number}"))).collect()]);
    commit(&chain, &[vec![set("n1", "1")]]);
    commit(&chain, &[vec![set("n1", "2")]]);
    commit(&chain, &[vec![set("n8", "3")]]);
    let head = at_once(chain.load()).unwrap();
    let name = Name::parse("n1").unwrap();
    let read = || at_once(open().entry(&head, &name));
    assert_eq!(read().unwrap().unwrap().properties["a"], "2");
    let stale = world.copy_of(&key_of(Version(2)));
    world.tamper(&key_of(Version(3)), |bytes| *bytes = stale);
    assert!(matches!(read(), Err(LoadError::Undecodable(_))), "{:?}", read());
    // Also if only pages of that version are needed.
    world.pass(Span::from_secs(7200));
    commit(&chain, &[vec![set("n8", "4")]]);
    world.pass(Span::from_secs(7200));
    assert_eq!(at_once(chain.vacuum(Grace { versions: 0, age: Grace::SHORTEST })).unwrap().oldest, Version(5));
    let checked = at_once(open().fsck()).unwrap();
    let found: Vec<_> = checked.findings.iter().map(|finding| (finding.word(), finding.object.as_str())).collect();
    assert_eq!(found, [("damaged-page", &*key_of(Version(3)))]);
}

/// Two packs of the same lengths: each page has a right checksum, and is in the right place.
#[test]
fn another_pack_is_not_read_as_that_of_a_version() {
    let world = World::default();
    let open = || world.chain(SharedState::new("", 1 << 20).inline_up_to(0));
    let chain = open();
    assert!(matches!(at_once(chain.create(Layout::Paged, true)), Outcome::Committed(_)));
    commit(&chain, &[vec![create("n")]]);
    let name = Name::parse("n").unwrap();
    for value in ["1", "2"] {
        let changes = [("a".to_owned(), Some(value.to_owned()))].into();
        commit(&chain, &[vec![Action::SetProperties { name: name.clone(), changes }]]);
    }
    let packs = world.keys("packs/");
    let [.., older, newer] = &packs[..] else { panic!("{packs:?}") };
    let older = world.copy_of(older);
    world.tamper(newer, |bytes| {
        assert_eq!(bytes.len(), older.len());
        *bytes = older;
    });
    let head = at_once(chain.load()).unwrap();
    let read = at_once(open().entry(&head, &name));
    assert!(matches!(&read, Err(LoadError::Undecodable(cause)) if cause.to_string().contains("replaced")), "{read:?}");
    let checked = at_once(open().fsck()).unwrap();
    let found: Vec<_> = checked.findings.iter().map(|finding| (finding.word(), finding.object.as_str())).collect();
    assert_eq!(found, [("damaged-page", newer.as_str())]);
}

/// Harmless objects are no damage, however many there are, and take no place from a finding of damage.
#[test]
fn many_harmless_findings_are_no_damage_and_hide_none() {
    let (world, chain, _) = created(Layout::Paged);
    commit(&chain, &[vec![create("n")]]);
    for number in 0..1100 {
        world.duplicate(&key_of(Version(0)), &format!("versions/foreign{number}"));
    }
    let open = || world.chain(SharedState::new("", 1 << 20));
    let checked = at_once(open().fsck()).unwrap();
    assert_eq!((checked.findings.len(), checked.more_findings, checked.is_damaged()), (1000, 100, false));
    world.tamper(&key_of(Version(1)), |bytes| bytes[20] ^= 1);
    let checked = at_once(open().fsck()).unwrap();
    assert!(checked.is_damaged(), "{:?}", checked.findings.first());
}

/// A missing or damaged version does not count as old.
#[test]
fn a_vacuum_takes_nothing_for_old_that_it_cannot_read() {
    for damage in [None, Some(0), Some(7)] {
        let (world, chain, _) = created(Layout::Paged);
        for number in 0..20 {
            world.pass(Span::from_secs(60));
            commit(&chain, &[vec![create(&format!("n{number}"))]]);
        }
        // All are younger than a day.
        for version in 3..9 {
            match damage {
                None => world.remove(&key_of(Version(version))),
                Some(length) => world.tamper(&key_of(Version(version)), |bytes| bytes.truncate(length)),
            }
        }
        let grace = Grace { versions: 2, age: Span::from_secs(24 * 3600) };
        assert_eq!(at_once(chain.vacuum(grace)).unwrap().oldest, Version(0));
        // An hour later all are old except the newest two, and it removes as much as can be read.
        world.pass(Span::from_secs(3600));
        let swept = at_once(chain.vacuum(Grace { versions: 2, age: Grace::SHORTEST })).unwrap();
        assert_eq!(swept.oldest, Version(20 - 1), "{swept:?}");
    }
}

/// The newest versions were lost: a pack that could only have been put after them shows it.
#[test]
fn a_pack_of_a_version_that_could_not_follow_is_damage() {
    let (world, chain, base) = created(Layout::Paged);
    for number in 0..3 {
        commit(&chain, &[vec![drop_of(&format!("t{number}"))]]);
    }
    let head = at_once(chain.load()).unwrap();
    let words = |checked: &crate::manifest_chain::Checked| {
        checked.findings.iter().map(|finding| finding.word()).collect::<Vec<_>>()
    };
    assert_eq!(words(&at_once(chain.fsck()).unwrap()), [] as [&str; 0]);
    for version in base.version().0 + 1..=head.version().0 {
        world.remove(&key_of(Version(version)));
    }
    let checked = at_once(world.chain(SharedState::new("", 0)).fsck()).unwrap();
    let ahead = checked.findings.iter().filter(|finding| matches!(finding.trouble, Trouble::PackAhead)).count();
    assert!(checked.is_damaged() && ahead == 2, "{:?}", words(&checked));
}

pub(super) fn shared_state() -> SharedState {
    SharedState::new("", 1 << 20)
}

/// Commits, hours apart, and removes all but the newest version.
pub(super) fn go_on_for_hours(world: &World, chain: &Chain) {
    for _ in 0..3 {
        world.pass(Span::from_secs(3600));
        let name = format!("later-{}", at_once(chain.load()).unwrap().version().0);
        commit(chain, &[vec![create(&name)]]);
    }
    world.pass(Span::from_secs(3600));
    at_once(chain.vacuum(Grace { versions: 1, age: Grace::SHORTEST })).unwrap();
}

/// A process finds no catalog, and sleeps. Others create one, commit, and vacuum its first versions. The version that
/// the process then puts in place of the first is not in the chain. It may sleep while it reads, or afterwards.
#[test]
fn a_creation_that_slept_is_not_acknowledged() {
    let create_late = |looked: bool| {
        let world = World::default();
        let (mine, other) = (world.chain(shared_state()), world.chain(shared_state()));
        let inner = world.clone();
        let meanwhile = move || {
            assert!(matches!(at_once(other.create(Layout::Paged, true)), Outcome::Committed(_)));
            go_on_for_hours(&inner, &other);
        };
        if looked {
            world.when_sent(meanwhile)
        } else {
            world.when_listed(meanwhile)
        }
        let created = at_once(mine.create(Layout::Paged, true));
        // Nor does it build on what it has put.
        let head = at_once(mine.load()).unwrap();
        (matches!(created, Outcome::Unknown(_) | Outcome::Conflict(_)), head.version())
    };
    for looked in [false, true] {
        assert_eq!(create_late(looked), (true, Version(4)), "the vacuum commits, too");
    }
    assert!(!mutant::with(Mutant::NotRechecked, || create_late(true)).0);
}

/// The listed versions are vacuumed before they are read: there is a catalog nevertheless.
#[test]
fn what_was_named_and_is_gone_is_no_proof_that_there_is_nothing() {
    let load_late = || {
        let (world, chain, _) = created(Layout::Paged);
        let (mine, inner) = (world.chain(shared_state()), world.clone());
        world.when_listed(move || go_on_for_hours(&inner, &chain));
        at_once(mine.load()).map(|head| head.version()).ok()
    };
    assert_eq!(load_late(), Some(Version(5)));
    assert_eq!(mutant::with(Mutant::VanishedIsNone, load_late), None);
    // If no named version ever exists, that is an error, and no catalog is created over it.
    let (world, chain, head) = created(Layout::Paged);
    for number in 0..40 {
        commit(&chain, &[vec![create(&format!("n{number}"))]]);
    }
    for key in world.keys("versions/") {
        world.remove(&key);
    }
    assert!(head.version() < Version(32), "there is a hint already");
    let fresh = world.chain(shared_state());
    assert!(matches!(at_once(fresh.load()), Err(LoadError::Failed(_))));
    assert!(matches!(at_once(fresh.create(Layout::Paged, true)), Outcome::Refused(_)));
    assert!(world.keys("versions/").is_empty());
}

/// A version read by its number may be old: a version put after it proves nothing.
#[test]
fn a_commit_on_an_old_version_is_not_acknowledged() {
    let (world, chain, _) = created(Layout::Paged);
    let old = at_once(chain.version_at(Version(1))).unwrap().unwrap();
    go_on_for_hours(&world, &chain);
    for old in [old, at_once(chain.every_version()).unwrap().remove(0)] {
        let ended = attempt(&world.chain(shared_state()), &old, create("mine"));
        assert!(!matches!(&ended, Attempt::Ended(Outcome::Committed(_))), "{}: {ended:?}", old.version());
    }
}
