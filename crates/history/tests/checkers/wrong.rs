//! Correct histories, each with one defect, are rejected for exactly that reason.
//!
//! Each test uses many seeds. Not every defect is possible in every history, so the test counts how many were.

use glidepath_history::{
    Change, Edit, Effect, Ending, Expected, Fault, Item, Placement, Reported, Seen, Violation, check, linearizable,
    parents_exist,
};
use glidepath_model::{CommitId, Version};

use crate::world::{Act, Done, TABLES, Weather, World, parent, run};

const SEEDS: u64 = 300;

/// Damages many histories, and expects each to be rejected with the given fault. `spoil` returns `false` if it cannot.
fn rejected(tells: bool, spoil: impl Fn(&mut World) -> bool, as_said: impl Fn(&Fault) -> bool) {
    rejected_by(tells, |world| check(&world.history(), &world.chain()), spoil, as_said);
}

fn rejected_by(
    tells: bool,
    checker: impl Fn(&World) -> Result<(), Violation>,
    spoil: impl Fn(&mut World) -> bool,
    as_said: impl Fn(&Fault) -> bool,
) {
    let mut spoilt = 0;
    for seed in 0..SEEDS {
        let mut world = run(seed, Weather { processes: 6, steps: 400, faults: 20, tells, namespaces: false });
        assert_eq!(checker(&world), Ok(()));
        if !spoil(&mut world) {
            continue;
        }
        spoilt += 1;
        match checker(&world) {
            Ok(()) => panic!("seed {seed} was accepted"),
            Err(violation) => assert!(as_said(violation.fault()), "seed {seed}: {violation}"),
        }
    }
    assert!(spoilt > SEEDS / 4, "only {spoilt} of {SEEDS} could be spoilt");
}

/// The operation that made a commit.
fn maker(world: &World, id: CommitId) -> &Done {
    let made = |done: &&Done| matches!(done.what, Act::Commit { commit, .. } if commit == id);
    world.done.iter().find(made).expect("every commit of the chain was made")
}

fn acknowledged(done: &Done) -> bool {
    matches!(done.what, Act::Commit { ending: Ending::Committed(_), .. })
}

fn edits(done: &Done) -> &[Edit] {
    let Act::Commit { edits, .. } = &done.what else { return &[] };
    edits
}

fn before(first: &Done, second: &Done) -> bool {
    first.ended.is_some_and(|ended| ended < second.began)
}

/// All commits of the chain: the slots of version and commit.
fn slots(world: &World) -> Vec<(usize, usize)> {
    let within = |(slot, version): (usize, &(Version, Vec<_>))| (0..version.1.len()).map(move |commit| (slot, commit));
    world.versions.iter().enumerate().flat_map(within).collect()
}

fn made(world: &World, slot: (usize, usize)) -> &Done {
    maker(world, world.versions[slot.0].1[slot.1].0)
}

#[test]
fn an_acknowledged_commit_dropped_from_the_chain() {
    let drop = |world: &mut World| {
        let Some(slot) = slots(world).into_iter().rev().find(|slot| acknowledged(made(world, *slot))) else {
            return false;
        };
        world.versions[slot.0].1.remove(slot.1);
        true
    };
    rejected(false, drop, |fault| matches!(fault, Fault::AcknowledgedButMissing(_)));
}

#[test]
fn a_commit_that_took_effect_twice() {
    let again = |world: &mut World| {
        let Some((version, commits)) = world.versions.last().cloned() else { return false };
        world.versions.push((version.next(), vec![commits[0].clone()]));
        true
    };
    rejected(true, again, |fault| matches!(fault, Fault::TwiceInChain { .. }));
}

#[test]
fn a_gap_in_the_versions() {
    let gap = |world: &mut World| {
        let Some((version, _)) = world.versions.last_mut() else { return false };
        *version = version.next();
        true
    };
    rejected(true, gap, |fault| matches!(fault, Fault::Gap { .. }));
}

#[test]
fn a_denied_commit_that_appears() {
    let appear = |world: &mut World| {
        let denied = |done: &&Done| matches!(done.what, Act::Commit { ending: Ending::Refused | Ending::Conflict, .. });
        let Some(done) = world.done.iter().find(denied) else { return false };
        let Act::Commit { commit, edits, .. } = done.what.clone() else { return false };
        let changes = edits.iter().filter_map(|edit| Change::of(edit.item, edit.effect)).collect();
        let next = world.versions.last().map_or(Version(1), |(version, _)| version.next());
        world.versions.push((next, vec![(commit, changes)]));
        true
    };
    rejected(true, appear, |fault| matches!(fault, Fault::DeniedButPresent { .. }));
}

#[test]
fn a_commit_that_nobody_made() {
    let add = |world: &mut World| {
        let next = world.versions.last().map_or(Version(1), |(version, _)| version.next());
        world.versions.push((next, vec![(CommitId(1), Vec::new())]));
        true
    };
    rejected(true, add, |fault| matches!(fault, Fault::NobodyMade { commit: CommitId(1), .. }));
}

#[test]
fn a_commit_of_which_half_is_there() {
    let halve = |world: &mut World| {
        let double = world.versions.iter_mut().flat_map(|(_, commits)| commits).find(|(_, changes)| changes.len() == 2);
        double.is_some_and(|(_, changes)| changes.pop().is_some())
    };
    rejected(true, halve, |fault| matches!(fault, Fault::OtherChanges { .. }));
}

#[test]
fn a_commit_that_did_more_than_it_was_to() {
    let add = |world: &mut World| {
        let Some((_, commits)) = world.versions.last_mut() else { return false };
        commits[0].1.push(Change { item: Item(555), now: None });
        true
    };
    rejected(true, add, |fault| matches!(fault, Fault::OtherChanges { item: Item(555), .. }));
    let repeat = |world: &mut World| {
        let Some((_, commits)) = world.versions.last_mut() else { return false };
        let again = commits[0].1[0];
        commits[0].1.push(again);
        true
    };
    rejected(true, repeat, |fault| matches!(fault, Fault::OtherChanges { .. }));
}

#[test]
fn a_process_told_too_early_a_version() {
    let tell = |world: &mut World| {
        let told = world.done.iter_mut().find_map(|done| match &mut done.what {
            Act::Commit { ending: Ending::Committed(Reported::By(version)), .. } => Some(version),
            _ => None,
        });
        told.map(|version| *version = Version(version.0 - 1)).is_some()
    };
    rejected(true, tell, |fault| matches!(fault, Fault::ToldAnotherVersion { .. }));
}

#[test]
fn a_process_told_another_version() {
    let tell = |world: &mut World| {
        let told = world.done.iter_mut().find_map(|done| match &mut done.what {
            Act::Commit { ending: Ending::Committed(Reported::At(version)), .. } => Some(version),
            _ => None,
        });
        told.map(|version| *version = version.next()).is_some()
    };
    rejected(true, tell, |fault| matches!(fault, Fault::ToldAnotherVersion { .. }));
}

#[test]
fn two_operations_of_one_name() {
    let copy = |world: &mut World| {
        let Some(done) = world.done.iter().find(|done| acknowledged(done)).cloned() else { return false };
        world.done.push(done);
        true
    };
    rejected(true, copy, |fault| matches!(fault, Fault::RecordedTwice(..)));
}

/// Two commits of the chain, the second directly after the first.
fn swap(world: &mut World, suits: impl Fn(&Done, &Done) -> bool) -> bool {
    let slots = slots(world);
    let pair = slots.windows(2).find(|pair| suits(made(world, pair[0]), made(world, pair[1])));
    let Some(&[first, second]) = pair else { return false };
    let one = world.versions[first.0].1[first.1].clone();
    let other = std::mem::replace(&mut world.versions[second.0].1[second.1], one);
    world.versions[first.0].1[first.1] = other;
    true
}

#[test]
fn commits_of_one_item_in_the_wrong_order() {
    let dependent = |first: &Done, second: &Done| {
        let after = |edit: &Edit| {
            edits(first).iter().any(|e| matches!(e.effect, Effect::Put(id) if edit.expected == Expected::Is(id)))
        };
        edits(second).iter().any(after)
    };
    let as_said = |fault: &Fault| matches!(fault, Fault::ExpectationBroken { .. });
    rejected(false, |world| swap(world, dependent), as_said);
}

#[test]
fn commits_of_different_items_against_the_order_of_time() {
    let independent = |first: &Done, second: &Done| {
        let shares = |edit: &Edit| edits(first).iter().any(|e| e.item == edit.item && e.effect != Effect::Keep);
        acknowledged(first) && before(first, second) && !edits(second).iter().any(shares)
    };
    let checker = |world: &World| {
        let (history, chain) = (world.history(), world.chain());
        let placement = Placement::new(&history, &chain)?;
        placement.expectations()?;
        placement.order()
    };
    let as_said = |fault: &Fault| matches!(fault, Fault::OutOfOrder { .. });
    rejected_by(false, checker, |world| swap(world, independent), as_said);
}

/// Of three states of an item, each made from the one before, the third is now made from the first: both writers of the
/// first state are told that they succeeded, and one update is lost.
fn lose_update(world: &mut World) -> bool {
    let acked: Vec<Done> = world.done.iter().filter(|done| acknowledged(done)).cloned().collect();
    for first in &acked {
        let put = |edit: &&Edit| matches!((edit.expected, edit.effect), (Expected::Is(_), Effect::Put(_)));
        let Some(lost) = edits(first).iter().find(put) else { continue };
        let Effect::Put(state) = lost.effect else { continue };
        for done in world.done.iter_mut().filter(|done| acknowledged(done)) {
            let Act::Commit { edits, .. } = &mut done.what else { continue };
            if let Some(edit) = edits.iter_mut().find(|edit| edit.expected == Expected::Is(state)) {
                edit.expected = lost.expected;
                return true;
            }
        }
    }
    false
}

#[test]
fn a_lost_update() {
    rejected(true, lose_update, |fault| matches!(fault, Fault::ExpectationBroken { by: Some(_), .. }));
}

fn without_chain(world: &World) -> Result<(), Violation> {
    linearizable(&world.history(), world.chain().initial())
}

#[test]
fn a_lost_update_without_looking_at_the_chain() {
    rejected_by(true, without_chain, lose_update, |fault| matches!(fault, Fault::NotLinearizable { .. }));
}

/// A load that returns the first version, as it was then, although a later one is known.
fn stale(world: &mut World) -> bool {
    let first = world.done.iter().filter(|done| acknowledged(done)).min_by_key(|done| done.ended).cloned();
    let Some(first) = first else { return false };
    let old = world.at(Version(0));
    let Some(load) = world
        .done
        .iter_mut()
        .find(|done| matches!(done.what, Act::Load { version: Some(_), .. }) && before(&first, done))
    else {
        return false;
    };
    let seen = TABLES.map(|n| Seen { item: Item(n), state: old.get(&Item(n)).copied().flatten() }).collect();
    load.what = Act::Load { version: Some(Version(0)), seen };
    true
}

#[test]
fn a_load_of_an_old_version() {
    let as_said = |fault: &Fault| matches!(fault, Fault::StaleLoad { .. } | Fault::WentBackwards { .. });
    rejected(true, stale, as_said);
    rejected(false, stale, as_said);
}

#[test]
fn an_old_state_without_looking_at_the_chain() {
    // Everything that the first commit changes is seen as it was before.
    let spoil = |world: &mut World| {
        let first = world.done.iter().filter(|done| acknowledged(done)).min_by_key(|done| done.ended).cloned();
        let replaces = |edit: &Edit| matches!(edit.expected, Expected::Is(_)) && edit.effect != Effect::Keep;
        stale(world) && first.is_some_and(|first| edits(&first).iter().any(replaces))
    };
    let as_said = |fault: &Fault| matches!(fault, Fault::NotLinearizable { .. });
    rejected_by(true, without_chain, spoil, as_said);
}

#[test]
fn a_process_that_goes_backwards_while_nobody_else_knew() {
    // Its only two loads follow each other without a pause.
    let mut world = run(0, Weather { processes: 1, steps: 0, faults: 0, tells: true, namespaces: false });
    let edit = Edit { item: Item(10), expected: Expected::Anything, effect: Effect::Put(CommitId(99)) };
    let what = Act::Commit { commit: CommitId(99), edits: vec![edit], ending: Ending::Unknown };
    world.done.push(Done { process: 0, began: 1, ended: Some(2), what });
    world.versions.push((Version(1), vec![(CommitId(99), vec![Change { item: Item(10), now: Some(CommitId(99)) }])]));
    for version in [Version(1), Version(0)] {
        let what = Act::Load { version: Some(version), seen: Vec::new() };
        world.done.push(Done { process: 1, began: 3, ended: Some(3), what });
    }
    let violation = check(&world.history(), &world.chain()).unwrap_err();
    assert!(matches!(violation.fault(), Fault::WentBackwards { .. }), "{violation}");
}

fn load_with(world: &mut World, spoil: impl Fn(&mut Version, &mut Vec<Seen>)) -> bool {
    let load = world.done.iter_mut().find_map(|done| match &mut done.what {
        Act::Load { version: Some(version), seen } if !seen.is_empty() => Some((version, seen)),
        _ => None,
    });
    load.map(|(version, seen)| spoil(version, seen)).is_some()
}

#[test]
fn a_load_of_a_version_that_never_was() {
    let spoil = |world: &mut World| load_with(world, |version, _| *version = Version(1_000_000));
    rejected(true, spoil, |fault| matches!(fault, Fault::NoSuchVersion(_)));
}

#[test]
fn a_load_that_saw_something_else() {
    let spoil = |world: &mut World| load_with(world, |_, seen| seen[0].state = Some(CommitId(12_345)));
    rejected(true, spoil, |fault| matches!(fault, Fault::WrongContent { seen: Some(CommitId(12_345)), .. }));
}

#[test]
fn a_load_that_saw_what_had_not_begun() {
    let spoil = |world: &mut World| {
        let Some((last, commits)) = world.versions.last().cloned() else { return false };
        let begun = maker(world, commits[0].0).began;
        let load = world.done.iter_mut().find(|done| {
            matches!(done.what, Act::Load { version: Some(_), .. }) && done.ended.is_some_and(|ended| ended < begun)
        });
        load.map(|load| load.what = Act::Load { version: Some(last), seen: Vec::new() }).is_some()
    };
    rejected(true, spoil, |fault| matches!(fault, Fault::FromTheFuture { .. }));
}

#[test]
fn a_conflict_without_a_cause() {
    let spoil = |world: &mut World| {
        let edit = Edit { item: Item(777), expected: Expected::Absent, effect: Effect::Put(CommitId(7)) };
        let what = Act::Commit { commit: CommitId(7), edits: vec![edit], ending: Ending::Conflict };
        world.done.push(Done { process: 77, began: 100, ended: Some(200), what });
        true
    };
    let checker = |world: &World| Placement::new(&world.history(), &world.chain())?.conflicts();
    rejected_by(true, checker, spoil, |fault| matches!(fault, Fault::BaselessConflict(_)));
}

#[test]
fn a_child_without_its_parent() {
    let drop = |world: &mut World| {
        let next = world.versions.last().map_or(Version(1), |(version, _)| version.next());
        let child = world.at(next).into_iter().find(|(item, state)| parent(*item).is_some() && state.is_some());
        let Some(parent) = child.and_then(|(item, _)| parent(item)) else { return false };
        world.versions.push((next, vec![(CommitId(5), vec![Change { item: parent, now: None }])]));
        true
    };
    let create = |world: &mut World| {
        let next = world.versions.last().map_or(Version(1), |(version, _)| version.next());
        let changes = [Item(0), Item(12), Item(15), Item(18), Item(21)].map(|item| Change { item, now: None });
        world.versions.push((next, vec![(CommitId(5), changes.to_vec())]));
        world
            .versions
            .push((next.next(), vec![(CommitId(6), vec![Change { item: Item(15), now: Some(CommitId(6)) }])]));
        true
    };
    let checker = |world: &World| parents_exist(&world.chain(), parent);
    rejected_by(true, checker, drop, |fault| matches!(fault, Fault::Orphan { by: Some(CommitId(5)), .. }));
    let as_said =
        |fault: &Fault| matches!(fault, Fault::Orphan { item: Item(15), parent: Item(0), by: Some(CommitId(6)), .. });
    rejected_by(true, checker, create, as_said);
}

#[test]
fn a_violation_reads_like_a_sentence() {
    let mut world = run(1, Weather { processes: 6, steps: 400, faults: 20, tells: true, namespaces: false });
    assert!(lose_update(&mut world));
    let text = check(&world.history(), &world.chain()).unwrap_err().to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 3, "{text}");
    assert!(lines[0].contains(" expected item ") && lines[0].contains("; it was: commit "), "{text}");
    assert!(lines[1..].iter().all(|line| line.starts_with("  process ") && line.contains(": committed")), "{text}");
}
