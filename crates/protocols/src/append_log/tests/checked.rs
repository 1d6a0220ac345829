//! What a check finds of lost checkpoints, and that others who write meanwhile are no damage.

use glidepath_env::{Guard, Key, ObjectStore, Payload};

use super::super::AppendLog;
use super::cases::{catalog, commit, shared_state};
use crate::tests::counted::{World, at_once};
use crate::upkeep::Severity;

/// Two records close a segment.
fn log(world: &World) -> AppendLog<World> {
    AppendLog::new(world.clone(), world.clone(), shared_state(2))
}

/// A log with this many commits.
fn grown(commits: u64) -> World {
    let world = World::default();
    let (key, bytes) = catalog();
    at_once(world.put(&Key::new(key), Payload::from(bytes::Bytes::from(bytes)), Guard::Absent)).unwrap();
    for metadata in 1..=commits {
        at_once(commit(&log(&world), metadata));
    }
    world
}

fn found(world: &World) -> Vec<(&'static str, String)> {
    let findings = at_once(log(world).fsck(false)).unwrap().findings;
    findings.into_iter().map(|finding| (finding.trouble, finding.object.as_str().to_owned())).collect()
}

#[test]
fn lost_checkpoints_of_the_oldest_segments_are_missed() {
    let checkpoint = |number: u64| format!("catalog/checkpoint/{number:020}");
    for lost in [vec![4], vec![4, 5], vec![4, 5, 6, 7], vec![5]] {
        let world = grown(21);
        assert_eq!(at_once(log(&world).empty_before(4)).unwrap().checkpoints, 3);
        assert_eq!(found(&world), []);
        for number in &lost {
            world.remove(&checkpoint(*number));
        }
        let found = found(&world);
        for number in &lost {
            assert!(found.contains(&("missing-checkpoint", checkpoint(*number))), "{lost:?}: {found:?}");
        }
    }
}

#[test]
fn segments_that_close_between_two_listings_are_no_damage() {
    let world = grown(3);
    let other = world.clone();
    world.when_listed(move || {
        for metadata in 10..20 {
            at_once(commit(&log(&other), metadata));
        }
    });
    assert_eq!(found(&world), []);
    assert_eq!(world.keys("catalog/checkpoint/").len(), 7);
}

/// Those that are damage, and not only what could not be read.
fn damage(world: &World) -> Vec<(&'static str, String)> {
    let findings = at_once(log(world).fsck(false)).map(|report| report.findings).unwrap_or_default();
    let damage = findings.into_iter().filter(|finding| finding.severity == Severity::Damage);
    damage.map(|finding| (finding.trouble, finding.object.as_str().to_owned())).collect()
}

#[test]
fn a_read_that_fails_once_is_no_damage() {
    for emptied in [0, 4] {
        for place in 0.. {
            let world = grown(21);
            at_once(log(&world).empty_before(emptied)).unwrap();
            world.fail_read(place);
            assert_eq!(damage(&world), [], "{emptied}, {place}");
            if !world.has_failed() {
                assert!(place > 10, "{place}");
                break;
            }
        }
    }
}

#[test]
fn what_is_written_and_vacuumed_meanwhile_is_no_damage() {
    for place in 0.. {
        let world = grown(9);
        let (other, mut reads) = (world.clone(), 0);
        let made = std::rc::Rc::new(std::cell::Cell::new(false));
        let making = std::rc::Rc::clone(&made);
        world.when_read(move || {
            if reads == place {
                for metadata in 10..30 {
                    at_once(commit(&log(&other), metadata));
                }
                at_once(log(&other).empty_before(9)).unwrap();
                making.set(true);
            }
            reads += 1;
        });
        assert_eq!(damage(&world), [], "{place}");
        if !made.get() {
            assert!(place > 5, "{place}");
            return;
        }
    }
}

/// All that was listed is vacuumed while the check sleeps: it goes on with what is there then.
#[test]
fn a_log_that_went_on_is_not_told_to_end_at_its_beginning() {
    for place in 0..50 {
        let world = grown(9);
        let (other, mut reads, mut next, mut end) = (world.clone(), 0, 10, 9);
        world.when_read(move || {
            if reads == place {
                for _ in 0..20 {
                    at_once(commit(&log(&other), next));
                    next += 1;
                }
                at_once(log(&other).empty_before(end)).unwrap();
                end += 10;
            }
            reads += 1;
        });
        let report = at_once(log(&world).fsck(false)).unwrap();
        assert!(report.newest.0 >= 9 && !report.is_damaged(), "{place}: newest {}", report.newest);
    }
}
