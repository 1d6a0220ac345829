//! Can the checkers of the catalog server fail? Each known mistake must be detected by a named scenario, and the same
//! seed must pass without it. Prints the number of seeds that each took.

#![cfg(all(feature = "serve", feature = "mutants"))]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use glidepath_check::{LIBRARY, Subject, Trial, scenario};
use glidepath_service::mutant::{self as service, Mutant};
use glidepath_table::mutant as table;

/// The most seeds until a mistake is detected.
const SEEDS: u64 = 500;

const CHAIN: &str = "serve-manifest-chain";
const LANCE: &str = "lance-manifest-chain";

/// Each with the subject and the scenario that detect it.
const MISTAKES: [(Mistake, &str, &str); 29] = [
    (Mistake::Service(Mutant::KeyForgotten), CHAIN, "storm"),
    (Mistake::Service(Mutant::KeyOfAny), CHAIN, "storm"),
    (Mistake::Service(Mutant::UuidIgnored), CHAIN, "wrong-clocks"),
    (Mistake::Service(Mutant::OneByOne), CHAIN, "storm"),
    (Mistake::Service(Mutant::LedInAnyOrder), CHAIN, "wrong-clocks"),
    (Mistake::Service(Mutant::UnknownIsConflict), CHAIN, "storm"),
    (Mistake::Service(Mutant::CreatedBesidePurge), CHAIN, "wrong-clocks"),
    (Mistake::Service(Mutant::PurgeForgotten), CHAIN, "clocks"),
    (Mistake::Service(Mutant::PurgedBackwards), CHAIN, "crowd"),
    (Mistake::Service(Mutant::ClaimNotAsserted), CHAIN, "wrong-clocks"),
    (Mistake::Service(Mutant::ClaimsUnseen), CHAIN, "crowd"),
    (Mistake::Service(Mutant::MoveNotNoted), CHAIN, "repeats"),
    (Mistake::Service(Mutant::RemovalNotAsserted), CHAIN, "repeats"),
    (Mistake::Service(Mutant::RegisteredInUse), CHAIN, "repeats"),
    (Mistake::Service(Mutant::LandedIsConflict), CHAIN, "repeats"),
    (Mistake::Service(Mutant::RefusalTrusted), CHAIN, "repeats"),
    (Mistake::Service(Mutant::RefusalNotNoted), CHAIN, "repeats"),
    (Mistake::Service(Mutant::HeldForEver), CHAIN, "crowd"),
    (Mistake::Service(Mutant::TurnForEver), CHAIN, "crowd"),
    (Mistake::Service(Mutant::LeftUnpublished), LANCE, "deaths"),
    (Mistake::Service(Mutant::StagedNotCopied), LANCE, "deaths"),
    (Mistake::Service(Mutant::StagedIsTrusted), LANCE, "repeats"),
    (Mistake::Service(Mutant::DoubtedCopyDeleted), LANCE, "deaths"),
    (Mistake::Service(Mutant::RepeatIsConflict), LANCE, "repeats"),
    (Mistake::Service(Mutant::DeregisteredUnpublished), LANCE, "deaths"),
    (Mistake::Rebase(table::Mutant::LeftOutAllowed), CHAIN, "crowd"),
    (Mistake::Rebase(table::Mutant::ManifestsUnread), CHAIN, "crowd"),
    (Mistake::Rebase(table::Mutant::OverwriteRebased), CHAIN, "crowd"),
    (Mistake::Rebase(table::Mutant::DeclineIgnored), CHAIN, "crowd"),
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

fn trial(subject: &str, name: &str) -> Trial {
    Trial::new(Subject::named(subject).unwrap(), &scenario(name).unwrap().unwrap())
}

#[test]
fn mistakes_are_caught() {
    for (mistake, subject, name) in MISTAKES {
        let trial = trial(subject, name);
        let found = (1..=SEEDS).find_map(|seed| Some((seed, mistake.check(&trial, seed)?)));
        let (seed, violation) = found.unwrap_or_else(|| panic!("{mistake:?} goes unnoticed in {subject} {name}"));
        println!("| {mistake:?} | {subject} {name} | {seed} | {violation} |");
        assert_eq!(trial.check(seed).violation, None, "{mistake:?}: seed {seed} fails without the mistake too");
    }
}

/// Which scenario detects which mistake first: for whoever looks for a scenario. `SURVEY_SEEDS` is the most for each,
/// `SURVEY_ONLY` a part of the name of the mistakes, `SURVEY_IN` a part of that of the scenarios.
#[test]
#[ignore = "takes minutes"]
fn survey() {
    let seeds: u64 = std::env::var("SURVEY_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(100);
    let only = std::env::var("SURVEY_ONLY").unwrap_or_default();
    let within = std::env::var("SURVEY_IN").unwrap_or_default();
    for (mistake, subject, _) in MISTAKES.into_iter().filter(|(mistake, ..)| format!("{mistake:?}").contains(&only)) {
        for (name, _) in LIBRARY.iter().filter(|(name, _)| name.contains(&within)) {
            let trial = trial(subject, name);
            if Subject::named(subject).unwrap().runs_in(trial.scenario()) {
                let found = (1..=seeds).find_map(|seed| Some((seed, mistake.check(&trial, seed)?)));
                println!("{mistake:?} {name}: {found:?}");
            }
        }
    }
}
