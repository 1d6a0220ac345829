//! Can the checkers fail? Protocols with a known mistake each must be caught, and the same seed without it must hold. Prints how many
//! seeds each took.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use glidepath_check::{Checked, LIBRARY, Protocol, Trial, check_namespaces, scenario};
use glidepath_protocols::manifest_chain::Layout;
use glidepath_protocols::mutant::{Mutant, with};

/// No mistake may need more.
const SEEDS: u64 = 5_000;

fn trial(protocol: Protocol, name: &str) -> Trial {
    Trial::new(protocol, &scenario(name).unwrap().unwrap())
}

/// The first seed that catches it, and what it says.
fn caught(mutant: Mutant, what: &str, check: impl Fn(u64) -> Checked) {
    let found = with(mutant, || (1..=SEEDS).find_map(|seed| Some((seed, check(seed).violation?))));
    let Some((seed, violation)) = found else { panic!("{mutant:?} goes unnoticed in {what}") };
    println!("| {mutant:?} | {what} | {seed} | {} |", violation.lines().next().unwrap_or_default());
    assert_eq!(check(seed).violation, None, "{mutant:?}: seed {seed} fails without the mistake too");
}

#[test]
fn unknown_taken_for_lost_is_caught_in_every_protocol() {
    for protocol in Protocol::ALL {
        let trial = trial(protocol, "storm");
        caught(Mutant::UnknownIsLost, &format!("{} storm", protocol.name()), |seed| trial.check(seed));
    }
}

#[test]
fn packs_deleted_after_an_unproven_failure_are_missed() {
    for protocol in [Protocol::ManifestChain, Protocol::ManifestChainWhole] {
        let trial = trial(protocol, "storm");
        caught(Mutant::PacksDeleted, &format!("{} storm", protocol.name()), |seed| trial.check(seed));
    }
}

#[test]
fn emptiness_checked_outside_the_commit_leaves_orphans() {
    let scenario = scenario("storm").unwrap().unwrap();
    for layout in Layout::ALL {
        let what = format!("namespaces {} storm", layout.name());
        caught(Mutant::DecidedBefore, &what, |seed| check_namespaces(layout, &scenario, seed));
    }
}

#[test]
fn mistakes_of_the_append_log_are_caught() {
    let mistakes = [
        (Mutant::OffsetReused, "storm"),
        (Mutant::NotRefitted, "storm"),
        (Mutant::CloseIgnored, "storm"),
        (Mutant::SegmentsRemoved, "sleepers"),
        (Mutant::OverlapIgnored, "sleepers"),
    ];
    for (mutant, name) in mistakes {
        let trial = trial(Protocol::AppendLog, name);
        caught(mutant, &format!("append-log {name}"), |seed| trial.check(seed));
    }
}

#[test]
fn namespaces_hold_without_a_mistake() {
    for (layout, (name, _)) in
        Layout::ALL.into_iter().flat_map(|layout| LIBRARY.iter().map(move |known| (layout, known)))
    {
        let scenario = scenario(name).unwrap().unwrap();
        let mut committed = 0;
        for seed in 1..=50 {
            let checked = check_namespaces(layout, &scenario, seed);
            assert_eq!(checked.violation, None, "{layout:?}, {name}, seed {seed}");
            committed += checked.committed;
        }
        assert!(committed > 300, "{layout:?}, {name}: {committed} commits show little");
    }
}
