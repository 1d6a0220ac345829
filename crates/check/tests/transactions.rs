//! Transactions hold in every scenario, and known mistakes are found.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use glidepath_check::{Checked, LIBRARY, Scenario, Subject, Trial};
use glidepath_txn::mutant::{Mutant, switch_on};

fn scenario(name: &str) -> Scenario {
    glidepath_check::scenario(name).unwrap().unwrap()
}

fn scenarios() -> Vec<(&'static str, Scenario)> {
    let all = LIBRARY.iter().map(|(name, _)| (*name, scenario(name)));
    all.filter(|(_, scenario)| Subject::Transactions.runs_in(scenario)).collect()
}

fn check_transactions(scenario: &Scenario, seed: u64) -> Checked {
    Trial::new(Subject::Transactions, scenario).check(seed)
}

#[test]
fn transactions_hold() {
    for (name, scenario) in scenarios() {
        let mut committed = 0;
        for seed in 0..60_u64 {
            let checked = check_transactions(&scenario, seed);
            assert_eq!(checked.violation, None, "{name}, seed {seed}");
            committed += checked.committed;
        }
        println!("{name}: {committed} commits");
        assert!(committed > 1000, "{name}: {committed}");
    }
}

#[test]
fn seeds_that_failed_hold() {
    // The timestamp of the backup took 20 s to arrive, and a transaction ended meanwhile.
    assert_eq!(check_transactions(&scenario("storm"), 3734).violation, None);
}

#[test]
fn the_same_seed_is_the_same_run() {
    let storm = scenario("storm");
    assert_eq!(check_transactions(&storm, 7), check_transactions(&storm, 7));
}

#[test]
fn mistakes_are_found() {
    for mutant in [
        Mutant::AbsenceTrusted,
        Mutant::UnknownIsDone,
        Mutant::AnswersShifted,
        Mutant::BoundMovedAfter,
        Mutant::MoveTakenForDone,
        Mutant::OwnerNotConfirmed,
        Mutant::StagedTrusted,
        Mutant::BoundIgnored,
        Mutant::OpenSpared,
        Mutant::BackupIsLast,
        Mutant::UndoOfNoRank,
    ] {
        let found = (0..2000_u64).find_map(|seed| {
            scenarios().into_iter().find_map(|(name, scenario)| {
                let _on = switch_on(mutant);
                check_transactions(&scenario, seed).violation.map(|violation| (seed, name, violation))
            })
        });
        println!("{mutant:?}: {found:?}");
        assert!(found.is_some(), "{mutant:?}");
    }
}

/// Of these seeds, some are restored: a trace says so, and the run goes on afterwards.
#[test]
fn a_trace_tells_of_a_restore() {
    let trial = Trial::new(Subject::Transactions, &scenario("repeats"));
    let trace = trial.trace(6);
    let line =
        |words: &str| trace.lines().position(|line| line.contains(words)).unwrap_or_else(|| panic!("{words}: {trace}"));
    let backup = line("makes a backup at ");
    let restored = line("has restored: ");
    assert!(backup < line("begins to restore to ") && backup < restored, "{trace}");
    assert!(trace.lines().skip(restored).any(|line| line.contains("gets the answer to the end of")), "{trace}");
}
