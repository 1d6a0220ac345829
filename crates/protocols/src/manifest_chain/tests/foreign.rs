//! Objects of somebody else below our keys, and listings that are not of one moment.

use glidepath_env::Key;
use glidepath_model::{Action, Entry, Name, Span, Version};

use super::layouts::commit;
use crate::catalog::{Catalog, Outcome};
use crate::manifest_chain::{Grace, Layout, ManifestChain, SharedState};
use crate::tests::counted::{World, at_once};

fn opened(world: &World) -> ManifestChain<World> {
    world.chain(SharedState::new("", 1 << 20))
}

/// A chain of this many versions after the first, a minute apart.
fn grown(versions: u64) -> World {
    let world = World::default();
    let chain = opened(&world);
    assert!(matches!(at_once(chain.create(Layout::Paged, true)), Outcome::Committed(_)));
    for number in 0..versions {
        world.pass(Span::from_secs(60));
        let name = Name::parse(&format!("n{number}")).unwrap();
        commit(&chain, &[vec![Action::Create { name, entry: Entry::namespace() }]]);
    }
    world
}

fn newest(world: &World) -> Version {
    at_once(opened(world).load()).unwrap().version()
}

/// The hint may be old, and the versions after the one that it names removed: the listing must not be given up.
#[test]
fn foreign_objects_hide_no_version() {
    let world = grown(20);
    let old = opened(&world).shared_state.keys.version(Version(16));
    for foreign in ["README", "0notes", "backup/fffffffffffffffe", "+000000000000001"] {
        world.duplicate(old.as_str(), &format!("versions/{foreign}"));
    }
    for removed in 17..20 {
        world.remove(opened(&world).shared_state.keys.version(Version(removed)).as_str());
    }
    assert_eq!(newest(&world), Version(20));
    world.remove("hint");
    assert_eq!(newest(&world), Version(20));
}

#[test]
fn a_vacuum_deletes_nothing_foreign() {
    let world = grown(20);
    let object = world.keys("versions/")[0].clone();
    let foreign = ["packs/1-2-3-notes.txt", "packs/01-02-03", "packs/1-2-3-old/0000000000000001-0000000000000002-0003"];
    for foreign in foreign {
        world.duplicate(&object, foreign);
    }
    world.pass(Span::from_secs(24 * 3600));
    let swept = at_once(opened(&world).vacuum(Grace { versions: 1, age: Grace::SHORTEST })).unwrap();
    assert!(swept.packs + swept.versions > 10, "{swept:?}");
    for foreign in foreign {
        assert!(world.keys(foreign).contains(&foreign.to_owned()), "{foreign} is gone");
    }
}

/// As of a folder with thousands of files that others write into.
#[test]
fn a_version_that_a_listing_did_not_show_is_no_gap() {
    for missing in [1, 7, 19] {
        let world = grown(20);
        let key = opened(&world).shared_state.keys.version(Version(missing));
        world.duplicate(key.as_str(), "aside");
        world.remove(key.as_str());
        assert!(at_once(opened(&world).fsck()).unwrap().is_damaged(), "{missing}");
        let back = world.clone();
        let key: Key = key.clone();
        world.when_listed(move || back.duplicate("aside", key.as_str()));
        let checked = at_once(opened(&world).fsck()).unwrap();
        assert!(!checked.is_damaged(), "{missing}: {:?}", checked.findings);
        assert_eq!(checked.versions, 21);
    }
}
