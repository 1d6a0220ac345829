//! Vacuums and checks while others commit and vacuum, and while a read fails: neither is damage.

use std::cell::Cell;
use std::rc::Rc;

use glidepath_model::{Span, Version};

use super::edges::{attempt, create, created, go_on_for_hours, shared_state};
use super::layouts::commit;
use crate::catalog::{Catalog, LoadError, Outcome};
use crate::manifest_chain::{Attempt, Checked, Grace, Layout, VacuumError};
use crate::tests::counted::{World, at_once};

/// A catalog with packs, an hour old, with commits since.
fn old(layout: Layout) -> World {
    let (world, chain, _) = created(layout);
    for number in 0..3 {
        world.pass(Span::from_secs(1200));
        commit(&chain, &[vec![create(&format!("n{number}"))]]);
    }
    world
}

/// Does this with a store in which others commit and vacuum, for hours, between one of the reads and its answer: each
/// read in turn.
fn beside_each_read(layout: Layout, mut run: impl FnMut(&World)) {
    for place in 0.. {
        let world = old(layout);
        let (inner, other, mut reads) = (world.clone(), world.chain(shared_state()), 0);
        let made = Rc::new(Cell::new(false));
        let making = Rc::clone(&made);
        world.when_read(move || {
            if reads == place {
                go_on_for_hours(&inner, &other);
                making.set(true);
            }
            reads += 1;
        });
        run(&world);
        // So many reads there are not.
        if !made.get() {
            assert!(place > 5, "{place}");
            return;
        }
    }
}

#[test]
fn what_another_vacuum_deletes_is_no_damage_to_a_vacuum() {
    for layout in [Layout::Paged, Layout::Whole] {
        beside_each_read(layout, |world| {
            let vacuumed = at_once(world.chain(shared_state()).vacuum(Grace { versions: 2, age: Grace::SHORTEST }));
            let is_damage =
                matches!(vacuumed, Err(VacuumError::Damaged(_) | VacuumError::Load(LoadError::Undecodable(_))));
            assert!(!is_damage, "{vacuumed:?}");
        });
    }
}

fn damage(checked: &Checked) -> Vec<&'static str> {
    let damage = checked.findings.iter().filter(|finding| finding.is_damage() && finding.word() != "unread");
    damage.map(|finding| finding.word()).collect()
}

#[test]
fn what_a_vacuum_deletes_is_no_damage_to_a_check() {
    for layout in [Layout::Paged, Layout::Whole] {
        beside_each_read(layout, |world| {
            let checked = at_once(world.chain(shared_state()).fsck()).unwrap();
            assert_eq!(damage(&checked), [] as [&str; 0]);
        });
    }
}

#[test]
fn a_read_that_fails_once_is_no_damage_to_a_check() {
    for layout in [Layout::Paged, Layout::Whole] {
        for place in 0.. {
            let world = old(layout);
            world.fail_read(place);
            let checked = at_once(world.chain(shared_state()).fsck());
            if !world.has_failed() {
                assert!(place > 10, "{place}");
                break;
            }
            match checked {
                Ok(checked) => assert_eq!(damage(&checked), [] as [&str; 0], "{place}"),
                Err(error) => assert!(matches!(error, LoadError::Failed(_)), "{place}: {error}"),
            }
        }
    }
}

/// What somebody else put into a slot after a vacuum had emptied it is not told as the newer version.
#[test]
fn a_version_in_an_emptied_slot_is_not_what_a_conflict_tells() {
    let (world, chain, _) = created(Layout::Paged);
    let old = at_once(chain.version_at(Version(1))).unwrap().unwrap();
    go_on_for_hours(&world, &chain);
    // With the pages of the old version, which it has read.
    let first = attempt(&chain, &old, create("first"));
    assert!(matches!(first, Attempt::Ended(Outcome::Unknown(_))), "{first:?}");
    let second = attempt(&chain, &old, create("second"));
    assert!(matches!(second, Attempt::Ended(Outcome::Conflict(None))), "{second:?}");
    assert!(at_once(chain.load()).unwrap().version() > Version(4));
}

#[test]
fn a_store_that_is_too_slow_is_an_error() {
    let world = old(Layout::Paged);
    let slow = world.clone();
    world.when_read(move || slow.pass(Span::from_secs(200)));
    let error = at_once(world.chain(shared_state()).load()).unwrap_err();
    assert!(matches!(&error, LoadError::Failed(cause) if cause.to_string().contains("so slowly")), "{error}");
}

/// What is damaged is told, also if the newest version cannot be read.
#[test]
fn a_newest_version_that_cannot_be_read_hides_no_other_damage() {
    let world = old(Layout::Paged);
    let keys = world.keys("versions/");
    world.remove(&keys[2]);
    world.hide(&keys[0]);
    let checked = at_once(world.chain(shared_state()).fsck()).unwrap();
    let words: Vec<_> =
        checked.findings.iter().map(|finding| (finding.word(), finding.object.as_str().to_owned())).collect();
    assert!(words.contains(&("gap", keys[2].clone())) && words.contains(&("unread", keys[0].clone())), "{words:?}");
    assert_eq!(words.iter().filter(|(_, object)| *object == keys[0]).count(), 1, "told twice: {words:?}");
    assert!(checked.whole.is_some());
}
