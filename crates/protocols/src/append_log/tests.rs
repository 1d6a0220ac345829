//! The fault table of `docs/protocols/append-log.md`, tested in simulation.

mod cases;
mod checked;
mod counting;
mod grouped;
mod versions;
mod world;

use glidepath_model::Span;
use glidepath_sim::Faults;
use proptest::prelude::*;

use crate::mutant::{self, Mutant};
use world::{Plan, Told, calm, check, run, storm};

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn histories_hold_under_every_fault(seed in any::<u64>(), writers in 1_u32..12, records in 1_u64..12) {
        let plan = Plan { faults: storm(), ..Plan::calm(writers, 30, records) };
        check(&run(seed, plan))?;
    }

    /// Writers that sleep and requests that arrive late, until the segments they refer to have long been emptied.
    #[test]
    fn histories_hold_while_vacuums_go_on(seed in any::<u64>(), writers in 2_u32..12, records in 1_u64..5) {
        let (pause, patience) = (Span::from_secs(10), Span::from_secs(4));
        let plan = Plan { faults: storm(), vacuums: 2, pause, patience, ..Plan::calm(writers, 40, records) };
        check(&run(seed, plan))?;
    }
}

#[test]
fn without_faults_every_attempt_commits_or_conflicts() {
    let run = run(1, Plan::calm(8, 50, 10));
    let chain = check(&run).unwrap();
    assert_eq!(run.count(Told::Committed) + run.count(Told::Conflict), 400);
    assert_eq!(run.count(Told::Committed), chain.len() - 1);
    assert!(run.count(Told::Conflict) > 50, "{} conflicts", run.count(Told::Conflict));
}

/// Rows 3 to 6, one fault at a time: each fault occurs, and what can be settled is settled.
#[test]
fn each_fault_alone_is_settled() {
    for faults in [
        Faults { request_lost: 0.3, ..calm() },
        Faults { answer_lost: 0.3, ..calm() },
        Faults { late: 0.3, ..calm() },
        Faults { refused: 0.3, ..calm() },
    ] {
        let run = run(7, Plan { faults, ..Plan::calm(4, 100, 10) });
        let chain = check(&run).unwrap();
        assert!(chain.len() > 50, "{faults:?}: {} commits", chain.len());
        assert!(run.count(Told::Unknown) <= 2, "{faults:?}: {:?}", run.told.values());
        assert_eq!(run.count(Told::Refused) > 0, faults.refused > 0.0);
    }
}

/// These tests are worth something only if wrong protocols fail them. Prints how many seeds each one takes.
#[test]
fn mutants_are_caught() {
    let (pause, patience) = (Span::from_secs(10), Span::from_secs(4));
    let calm = Plan { vacuums: 2, pause, patience, ..Plan::calm(8, 40, 2) };
    let plan = Plan { faults: storm(), ..calm };
    for mutant in [
        Mutant::UnknownIsLost,
        Mutant::OffsetReused,
        Mutant::NotRefitted,
        Mutant::SegmentsRemoved,
        Mutant::OverlapIgnored,
        Mutant::NotAnchored,
        Mutant::CloseIgnored,
    ] {
        let caught = mutant::with(mutant, || (0..2000).find_map(|seed| Some((seed, check(&run(seed, plan)).err()?))));
        let Some((seed, why)) = caught else { panic!("{mutant:?} is not detected") };
        println!("{mutant:?}: caught by seed {seed}: {why}");
        check(&run(seed, plan)).unwrap();
    }
}

/// The vacuums of these runs do empty segments that sleeping writers will append to.
#[test]
fn vacuums_meet_sleepers() {
    let (pause, patience) = (Span::from_secs(10), Span::from_secs(4));
    let plan = Plan { faults: storm(), vacuums: 2, pause, patience, ..Plan::calm(8, 40, 2) };
    let emptied: usize =
        (0..10).map(|seed| run(seed, plan)).map(|run| check(&run).map(|_| run.emptied()).unwrap()).sum();
    assert!(emptied > 100, "{emptied} segments emptied");
}
