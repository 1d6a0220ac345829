//! Can the checkers see a clock that stands still in sleep? A world in which processes measure by such a clock must be caught;
//! the same seed must hold where clocks count sleep.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use glidepath_check::{Subject, Trial, scenario};

/// It must not need more.
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
