//! Can the checkers of the catalog server fail? Each known mistake must be detected by a named scenario, and the same seed
//! must pass without it. Prints the number of seeds that each took.

#![cfg(all(feature = "serve", feature = "mutants"))]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use glidepath_check::{LIBRARY, Subject, Trial, scenario};
use glidepath_service::mutant::{self as service, Mutant};
use glidepath_table::mutant as table;

/// The most seeds until a mistake is detected.
const SEEDS: u64 = 2_000;

const MISTAKES: [(Mistake, &str, &str); 11] = [
    (Mistake::Service(Mutant::UnknownIsConflict), "serve-manifest-chain", "everything"),
    (Mistake::Service(Mutant::KeyForgotten), "serve-manifest-chain", "storm"),
    (Mistake::Service(Mutant::OneByOne), "serve-manifest-chain", "storm"),
    (Mistake::Service(Mutant::CreatedBesidePurge), "serve-manifest-chain", "wrong-clocks"),
    (Mistake::Service(Mutant::PurgedInUse), "serve-manifest-chain", "sleepers"),
    (Mistake::Service(Mutant::AnyNoteRemoved), "serve-manifest-chain", "sleepers"),
    (Mistake::Service(Mutant::PurgeForgotten), "serve-append-log", "clocks"),
    (Mistake::Service(Mutant::LandedIsConflict), "serve-manifest-chain", "repeats"),
    (Mistake::Service(Mutant::RefusalTrusted), "serve-manifest-chain", "repeats"),
    (Mistake::Rebase(table::Mutant::ManifestsUnread), "serve-manifest-chain", "listings"),
    (Mistake::Rebase(table::Mutant::LeftOutAllowed), "serve-manifest-chain", "storm"),
];

#[derive(Clone, Copy, Debug)]
enum Mistake {
    Service(Mutant),
    Rebase(table::Mutant),
}

impl Mistake {
    fn check(self, trial: &Trial, seed: u64) -> Option<String> {
        match self {
            Self::Service(mutant) => {
                let _on = service::switch_on(mutant);
                trial.check(seed).violation
            }
            Self::Rebase(mutant) => {
                let _on = table::switch_on(mutant);
                trial.check(seed).violation
            }
        }
    }
}

fn trial(protocol: &str, name: &str) -> Trial {
    Trial::new(Subject::named(protocol).unwrap(), &scenario(name).unwrap().unwrap())
}

#[test]
fn mistakes_are_caught() {
    for (mistake, protocol, name) in MISTAKES {
        let trial = trial(protocol, name);
        let found = (1..=SEEDS).find_map(|seed| Some((seed, mistake.check(&trial, seed)?)));
        let (seed, violation) = found.unwrap_or_else(|| panic!("{mistake:?} goes unnoticed in {protocol} {name}"));
        println!("| {mistake:?} | {protocol} {name} | {seed} | {violation} |");
        assert_eq!(trial.check(seed).violation, None, "{mistake:?}: seed {seed} fails without the mistake too");
    }
}

/// Which scenario detects which mistake first: for whoever looks for a scenario. `SURVEY_SEEDS` is the most for each,
/// `SURVEY_ONLY` a part of the name of the mistakes.
#[test]
#[ignore = "takes minutes"]
fn survey() {
    let seeds: u64 = std::env::var("SURVEY_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let only = std::env::var("SURVEY_ONLY").unwrap_or_default();
    for (mistake, protocol, _) in MISTAKES.into_iter().filter(|(one, ..)| format!("{one:?}").contains(&only)) {
        for (name, _) in LIBRARY
            .iter()
            .filter(|(name, _)| Subject::named(protocol).unwrap().runs_in(&scenario(name).unwrap().unwrap()))
        {
            let trial = trial(protocol, name);
            let found = (1..=seeds).find_map(|seed| Some((seed, mistake.check(&trial, seed)?)));
            println!("{mistake:?} {name}: {found:?}");
        }
    }
}
