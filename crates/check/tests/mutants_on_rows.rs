//! Do the checkers detect mistakes of a store in rows? Each known mistake must be detected, and the same seed must pass
//! without it. Prints the number of seeds that each took.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use glidepath_check::{Subject, Trial, scenario};
use glidepath_env::mutant::{Mutant, with};

/// The most seeds until a mistake is detected.
const SEEDS: u64 = 3_000;

/// The first seed that detects it, with the violation.
fn caught(mutant: Mutant, protocol: &str) {
    let trial = Trial::new(Subject::named(protocol).unwrap(), &scenario("rows").unwrap().unwrap());
    let found = with(mutant, || (1..=SEEDS).find_map(|seed| Some((seed, trial.check(seed).violation?))));
    let Some((seed, violation)) = found else { panic!("{mutant:?} goes unnoticed in {protocol}") };
    println!("| {mutant:?} | {protocol} rows | {seed} | {} |", violation.lines().next().unwrap_or_default());
    assert_eq!(trial.check(seed).violation, None, "{mutant:?}: seed {seed} fails without the mistake too");
}

#[test]
fn objects_read_by_plain_reads_vanish() {
    for protocol in ["catalog-file", "manifest-chain", "manifest-chain-whole", "tickets"] {
        caught(Mutant::PlainReads, protocol);
    }
}
