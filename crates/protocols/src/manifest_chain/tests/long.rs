//! A chain of a hundred thousand versions is opened and vacuumed as fast as a short one.

use glidepath_model::{Action, Entry, Kind, Name, Span};

use crate::catalog::{Catalog, Outcome};
use crate::manifest_chain::{Attempt, Grace, Layout, SharedState, Snapshot};
use crate::tests::counted::{World, at_once};

const VERSIONS: u64 = 100_000;

#[test]
fn a_hundred_thousand_versions_are_opened_with_a_handful_of_requests() {
    let world = World::default();
    let chain = world.chain(SharedState::new("", 1 << 20));
    let Outcome::Committed(mut head) = at_once(chain.create(Layout::Paged, true)) else { panic!("not created") };
    let name = Name::parse("now_and_then").unwrap();
    for version in 0..VERSIONS {
        let action = match version.is_multiple_of(2) {
            true => Action::Create { name: name.clone(), entry: Entry::namespace() },
            false => Action::Drop { name: name.clone(), kind: Kind::Namespace, expected: None },
        };
        head = match at_once(chain.attempt(&head, &[&[action]])).1 {
            Attempt::Ended(Outcome::Committed(next)) => next,
            other => panic!("{other:?}"),
        };
    }
    let opened = |newest: &Snapshot, what: &str, most: u64| {
        world.counted();
        let found = at_once(world.chain(SharedState::new("", 1 << 20)).load()).unwrap();
        let counts = world.counted();
        assert_eq!(found.version(), newest.version(), "{what}");
        assert!(counts.gets + counts.lists <= most, "{what}: {counts:?}");
        // A manifest and a few pages each, not the earlier versions.
        assert!(counts.read_bytes < 4096, "{what}: {counts:?}");
    };
    opened(&head, "with the hint", 4);
    world.remove("hint");
    opened(&head, "without the hint", 4);
    world.pass(Span::from_secs(3600));
    world.counted();
    let swept = at_once(chain.vacuum(Grace { versions: 100, age: Grace::SHORTEST })).unwrap();
    let counts = world.counted();
    assert!(swept.versions + 102 > VERSIONS, "{swept:?}");
    // One listing per thousand keys, and one deletion per object.
    let pages = VERSIONS / 1000;
    assert!(counts.lists <= pages + 4 && counts.deletes == swept.versions + swept.packs, "{counts:?} {swept:?}");
    assert!(counts.gets + counts.puts < 2 * 64 && counts.most_bytes < 4096, "{counts:?} {swept:?}");
    opened(&at_once(chain.load()).unwrap(), "cleaned", 5);
    assert!(world.keys("versions/").len() <= 104);
}
