//! Do the checkers detect a clock that stops during sleep? They must find a violation if processes measure with such a
//! clock, and none with the same seed if clocks count sleep.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use glidepath_check::{Subject, Trial, scenario};

/// The most seeds until the violation.
const SEEDS: u64 = 5_000;

#[test]
fn a_clock_that_stops_in_suspend_is_caught() {
    for protocol in ["manifest-chain", "manifest-chain-whole"] {
        let right = scenario("suspends").unwrap().unwrap();
        let mut wrong = right.clone();
        wrong.faults.clocks_stop = true;
        let (right, wrong) = (
            Trial::new(Subject::named(protocol).unwrap(), &right),
            Trial::new(Subject::named(protocol).unwrap(), &wrong),
        );
        let found = (1..=SEEDS).find_map(|seed| Some((seed, wrong.check(seed).violation?)));
        let Some((seed, violation)) = found else { panic!("{}: goes unnoticed", protocol) };
        println!(
            "| clock that stops in suspend | {} suspends | {seed} | {} |",
            protocol,
            violation.lines().next().unwrap_or_default()
        );
        assert_eq!(right.check(seed).violation, None, "{}: seed {seed} fails with right clocks too", protocol);
    }
}
