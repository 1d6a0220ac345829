//! What a vacuum takes for old while one clock is wrong: of a writer, of its own machine, or of the store.

use glidepath_model::{Action, Entry, Name, Span, Version};

use super::layouts::commit;
use crate::catalog::{Catalog, Outcome};
use crate::manifest_chain::{Grace, Layout, ManifestChain, SharedState, VacuumError};
use crate::tests::counted::{World, at_once};

type Chain = ManifestChain<World>;

/// A day and an hour, in seconds.
const WRONG: i64 = 25 * 3600;

const RIGHT: [i64; 2] = [0, 0];

const GRACE: Grace = Grace { versions: 0, age: Span::from_secs(24 * 3600) };

fn empty() -> (World, Chain) {
    let world = World::default();
    let chain = world.chain(SharedState::new("", 1 << 20));
    assert!(matches!(at_once(chain.create(Layout::Paged, true)), Outcome::Committed(_)));
    (world, chain)
}

/// Commits this many versions, a second apart.
fn grow(world: &World, chain: &Chain, versions: u64) {
    for _ in 0..versions {
        world.pass(Span::from_secs(1));
        let name = format!("n{}", at_once(chain.load()).unwrap().version().0);
        commit(chain, &[vec![Action::Create { name: Name::parse(&name).unwrap(), entry: Entry::namespace() }]]);
    }
}

/// The number of versions that remain after a vacuum that must refuse, and the refusal.
fn refusal(world: &World, chain: &Chain) -> (usize, String) {
    let error = at_once(chain.vacuum(GRACE)).unwrap_err();
    assert!(matches!(error, VacuumError::Clocks(_)), "{error}");
    (world.keys("versions/").len(), error.to_string())
}

/// The commits of a writer whose clock is a day behind are a moment old.
#[test]
fn a_writer_whose_clock_is_behind_loses_nothing() {
    let (world, chain) = empty();
    world.clocks_are_wrong_by([-WRONG, 0]);
    grow(&world, &chain, 9);
    world.clocks_are_wrong_by(RIGHT);
    let (left, words) = refusal(&world, &chain);
    assert_eq!(left, 10, "{words}");
    for expected in ["nothing was removed", "version 9", "versions/", "25h", "writer was wrong", "catalog history"] {
        assert!(words.contains(expected), "{expected}: {words}");
    }
}

#[test]
fn a_vacuum_whose_clock_is_ahead_or_behind_removes_nothing_young_and_says_so() {
    for wrong in [WRONG, -WRONG] {
        let (world, chain) = empty();
        grow(&world, &chain, 9);
        world.pass(Span::from_secs(if wrong < 0 { 25 * 3600 } else { 0 }));
        world.clocks_are_wrong_by([wrong, 0]);
        let (left, words) = refusal(&world, &chain);
        assert_eq!(left, 10, "{words}");
        let way = if wrong > 0 { "25h ahead of the store's: set it" } else { "25h behind the store's: set it" };
        assert!(words.contains(way), "{words}");
    }
}

#[test]
fn a_store_whose_clock_jumps_ahead_makes_nothing_old() {
    let (world, chain) = empty();
    grow(&world, &chain, 9);
    world.clocks_are_wrong_by([0, WRONG]);
    assert_eq!(refusal(&world, &chain).0, 10);
}

/// One commit with a wrong time among others, wherever the search meets it: young versions stay, and old ones are found
/// all the same.
#[test]
fn one_wrong_time_makes_no_young_version_old_and_no_old_one_young() {
    for wrong in [WRONG, -WRONG, -40 * WRONG, 40 * WRONG] {
        for place in 0..20 {
            let (world, chain) = empty();
            grow(&world, &chain, place);
            world.clocks_are_wrong_by([wrong, 0]);
            grow(&world, &chain, 1);
            world.clocks_are_wrong_by(RIGHT);
            grow(&world, &chain, 20 - place);
            match at_once(chain.vacuum(GRACE)) {
                Ok(swept) => assert_eq!((swept.oldest, swept.versions), (Version(0), 0), "{wrong} {place}"),
                Err(error) => assert!(matches!(error, VacuumError::Clocks(_)), "{wrong} {place}: {error}"),
            }
            assert_eq!(world.keys("versions/").len(), 22, "{wrong} {place}");
            // The first 22 versions are old now, and the next ones are not.
            world.pass(Span::from_secs(24 * 3600));
            grow(&world, &chain, 8);
            let oldest = at_once(chain.vacuum(GRACE)).unwrap().oldest;
            assert!((Version(20)..=Version(21)).contains(&oldest), "{wrong} {place}: {oldest}");
        }
    }
}
