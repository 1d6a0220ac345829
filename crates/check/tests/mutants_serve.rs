//! Can the checkers of the catalog server fail? Each known mistake must be detected by a named scenario, and the same seed
//! must pass without it. Prints the number of seeds that each took.

#![cfg(all(feature = "serve", feature = "mutants"))]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use glidepath_check::{Subject, Trial, scenario};
use glidepath_service::mutant::{self as service, Mutant};
use glidepath_table::mutant as table;

/// The most seeds until a mistake is detected.
const SEEDS: u64 = 600;

/// The first seed of a scenario that detects the mistake made by `switch_on`.
fn caught<On>(what: &str, protocol: &str, name: &str, switch_on: impl Fn() -> On) {
    let trial = Trial::new(Subject::named(protocol).unwrap(), &scenario(name).unwrap().unwrap());
    let found = (1..=SEEDS).find_map(|seed| {
        let _on = switch_on();
        Some((seed, trial.check(seed).violation?))
    });
    let (seed, violation) = found.unwrap_or_else(|| panic!("{what} goes unnoticed in {protocol} {name}"));
    println!("| {what} | {protocol} {name} | {seed} | {} |", violation.lines().next().unwrap_or_default());
    assert_eq!(trial.check(seed).violation, None, "{what}: seed {seed} fails without the mistake too");
}

fn of_service(mutant: Mutant, name: &str) {
    caught(&format!("{mutant:?}"), "serve-manifest-chain", name, || service::switch_on(mutant));
}

#[test]
fn mistakes_of_the_service_are_caught() {
    for (mutant, name) in [
        (Mutant::UnknownIsConflict, "storm"),
        (Mutant::KeyForgotten, "storm"),
        (Mutant::OneByOne, "storm"),
        (Mutant::CreatedBesidePurge, "sleepers"),
        (Mutant::PurgedInUse, "sleepers"),
        (Mutant::LandedIsConflict, "repeats"),
        (Mutant::RefusalTrusted, "storm"),
    ] {
        of_service(mutant, name);
    }
}

#[test]
fn mistakes_of_rebases_are_caught() {
    for (mutant, name) in [(table::Mutant::ManifestsUnread, "storm"), (table::Mutant::LeftOutAllowed, "storm")] {
        caught(&format!("{mutant:?}"), "serve-manifest-chain", name, || table::switch_on(mutant));
    }
}
