//! Correct histories are accepted by every checker, whatever faults there were.

use crate::world::{Weather, parent, run};
use glidepath_history::{Ending, Placement, What, check, parents_exist};
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn correct_histories_are_accepted(
        seed in any::<u64>(),
        processes in 1_u32..16,
        steps in 0_u32..1500,
        faults in 0_u64..60,
        tells in any::<bool>(),
        namespaces in any::<bool>(),
    ) {
        let world = run(seed, Weather { processes, steps, faults, tells, namespaces });
        let (history, chain) = (world.history(), world.chain());
        if let Err(violation) = check(&history, &chain).and_then(|()| parents_exist(&chain, parent)) {
            return Err(TestCaseError::fail(violation.to_string()));
        }
        // With namespaces, a drop can be refused because of a child, which is not an item of the commit.
        if !namespaces {
            let conflicts = Placement::new(&history, &chain).and_then(|placement| placement.conflicts());
            prop_assert_eq!(conflicts, Ok(()));
        }
    }
}

/// The generator covers what it should: all endings, contention, late effects.
#[test]
fn histories_have_everything_in_them() {
    let weather = Weather { processes: 8, steps: 20_000, faults: 30, tells: true, namespaces: true };
    let world = run(1, weather);
    let history = world.history();
    let mut counts = [0; 6];
    for operation in history.operations() {
        counts[match operation.what {
            What::Load { .. } | What::Sight { .. } => 0,
            What::Commit { ending: Ending::Committed(_), .. } => 1,
            What::Commit { ending: Ending::Conflict, .. } => 2,
            What::Commit { ending: Ending::Refused, .. } => 3,
            What::Commit { ending: Ending::Unknown, .. } => 4,
            What::Commit { ending: Ending::Open, .. } => 5,
        }] += 1;
    }
    assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
    let commits: usize = world.versions.iter().map(|(_, commits)| commits.len()).sum();
    assert!(commits > counts[1] + 50, "no commit of unknown outcome took effect");
    assert_eq!(check(&history, &world.chain()), Ok(()));
}

/// Threads and processes record separately, and their records are merged.
#[test]
fn histories_can_be_put_together() {
    let weather = Weather { processes: 6, steps: 2000, faults: 10, tells: true, namespaces: true };
    let world = run(3, weather);
    let mut whole = glidepath_history::History::new();
    for process in (0..6).rev() {
        let mut part = world.clone();
        part.done.retain(|done| done.process == process);
        whole.absorb(&part.history());
    }
    assert_eq!(whole.len(), world.done.len());
    assert_eq!(check(&whole, &world.chain()), Ok(()));
}
