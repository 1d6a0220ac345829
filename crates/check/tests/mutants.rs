//! Can the checkers fail? Each known mistake in a protocol must be detected, and the same seed must pass without it.
//! Prints the number of seeds that each took.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use glidepath_check::{Checked, Subject, Trial, scenario};
use glidepath_protocols::mutant::{Mutant, with};

/// The most seeds until a mistake is detected.
const SEEDS: u64 = 5_000;

/// The protocols in which mistakes can be switched on.
const ALL: [&str; 5] = ["catalog-file", "manifest-chain", "manifest-chain-whole", "append-log", "tickets"];

/// Those that decide on a base which may be old.
const BASED: [&str; 4] = ["catalog-file", "manifest-chain", "manifest-chain-whole", "append-log"];

fn trial(protocol: &str, name: &str) -> Trial {
    Trial::new(Subject::named(protocol).unwrap(), &scenario(name).unwrap().unwrap())
}

/// The first seed that detects it, with the violation; or an error if none does.
fn seen(mutant: Mutant, what: &str, check: impl Fn(u64) -> Checked) -> Result<(), String> {
    let found = with(mutant, || (1..=SEEDS).find_map(|seed| Some((seed, check(seed).violation?))));
    let (seed, violation) = found.ok_or_else(|| format!("{mutant:?} goes unnoticed in {what}"))?;
    println!("| {mutant:?} | {what} | {seed} | {} |", violation.lines().next().unwrap_or_default());
    match check(seed).violation {
        None => Ok(()),
        Some(violation) => Err(format!("{mutant:?}: seed {seed} of {what} fails without the mistake too: {violation}")),
    }
}

fn caught(mutant: Mutant, what: &str, check: impl Fn(u64) -> Checked) {
    seen(mutant, what, check).unwrap();
}

#[test]
fn unknown_taken_for_lost_is_caught_in_every_protocol() {
    for protocol in ALL {
        let trial = trial(protocol, "storm");
        caught(Mutant::UnknownIsLost, &format!("{} storm", protocol), |seed| trial.check(seed));
    }
}

#[test]
fn packs_deleted_after_an_unproven_failure_are_missed() {
    for protocol in ["manifest-chain", "manifest-chain-whole"] {
        let trial = trial(protocol, "storm");
        caught(Mutant::PacksDeleted, &format!("{} storm", protocol), |seed| trial.check(seed));
    }
}

/// Each mistake in the scenario that shows it, in one protocol or several.
fn all_caught(protocols: &[&str], mistakes: &[(Mutant, &str)]) {
    let cases = mistakes.iter().flat_map(|mistake| protocols.iter().map(move |protocol| (mistake, *protocol)));
    let missed = cases.filter_map(|((mutant, name), protocol)| {
        let trial = trial(protocol, name);
        seen(*mutant, &format!("{} {name}", protocol), |seed| trial.check(seed)).err()
    });
    let missed: Vec<String> = missed.collect();
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

const CHAINS: [&str; 2] = ["manifest-chain", "manifest-chain-whole"];

#[test]
fn wrong_decisions_are_caught() {
    let mistakes = [
        (Mutant::DecidedBefore, "storm"),
        (Mutant::EmptinessIgnored, "storm"),
        (Mutant::RenameLosesProperties, "clocks"),
        (Mutant::GrandchildrenStay, "clocks"),
        (Mutant::OldVersionTold, "storm"),
    ];
    all_caught(&CHAINS, &mistakes);
    let everywhere = [
        (Mutant::PartitionForgotten, "storm"),
        (Mutant::ExpectedIgnored, "clocks"),
        (Mutant::UnsetIgnored, "clocks"),
        (Mutant::AssertionIgnored, "storm"),
        (Mutant::PointerStays, "storm"),
    ];
    all_caught(&ALL, &everywhere);
}

#[test]
fn what_is_not_kept_as_it_was_is_caught() {
    let mistakes = [(Mutant::ChecksumIgnored, "storm"), (Mutant::CheckBlind, "storm")];
    all_caught(&ALL, &mistakes);
    all_caught(&["manifest-chain", "manifest-chain-whole", "append-log"], &[(Mutant::NextVersionRead, "storm")]);
    all_caught(&["append-log"], &[(Mutant::RemovalsUntold, "storm")]);
    all_caught(&["manifest-chain", "manifest-chain-whole", "tickets"], &[(Mutant::ReplacedTaken, "storm")]);
}

#[test]
fn wrong_counts_and_indices_are_caught() {
    let mistakes = [
        (Mutant::CountNeverFalls, "storm"),
        (Mutant::KindNotIndexed, "storm"),
        (Mutant::BaseNotIndexed, "storm"),
        (Mutant::IndexNotCleaned, "storm"),
    ];
    all_caught(&CHAINS, &mistakes);
}

#[test]
fn vacuums_that_go_too_far_are_caught() {
    let mistakes = [
        (Mutant::VersionTooFar, "clocks"),
        (Mutant::VersionTooFar, "sleepers"),
        (Mutant::AgeIgnored, "sleepers"),
        (Mutant::StoreClockIgnored, "wrong-clocks"),
    ];
    all_caught(&CHAINS, &mistakes);
    // A whole catalog refers to no older version.
    all_caught(&["manifest-chain"], &[(Mutant::NeededDeleted, "sleepers")]);
    all_caught(&["append-log"], &[(Mutant::SegmentTooFar, "sleepers")]);
}

#[test]
fn what_may_have_been_repeated_and_is_taken_for_a_proof_is_caught() {
    all_caught(
        &CHAINS,
        &[(Mutant::LostIsProof, "repeats"), (Mutant::RefusedIsProof, "proxies"), (Mutant::NotRechecked, "sleepers")],
    );
    all_caught(&CHAINS, &[(Mutant::VanishedIsNone, "sleepers"), (Mutant::ListingTrusted, "listings")]);
    let both = ["catalog-file", "tickets"];
    all_caught(&both, &[(Mutant::LostIsProof, "repeats"), (Mutant::RefusedIsProof, "proxies")]);
    all_caught(&["catalog-file"], &[(Mutant::FailureIsDamage, "storm")]);
}

#[test]
fn what_is_taken_for_ours_and_is_not_is_caught() {
    all_caught(
        &["manifest-chain", "manifest-chain-whole", "append-log", "tickets"],
        &[(Mutant::SimilarIsOurs, "strangers")],
    );
    // In tickets a listing only shortens the way to the newest slot.
    all_caught(&CHAINS, &[(Mutant::FirstListedTaken, "strangers")]);
}

#[test]
fn groups_that_answer_wrongly_are_caught() {
    let mistakes = [(Mutant::GroupAnswersSwapped, "storm"), (Mutant::GroupUnknownIsNotDone, "denied")];
    all_caught(&ALL, &mistakes);
    all_caught(&BASED, &[(Mutant::GroupRefusesStale, "storm"), (Mutant::LateReadersServed, "storm")]);
}

#[test]
fn mistakes_of_tickets_are_caught() {
    let mistakes = [
        (Mutant::OneLook, "storm"),
        (Mutant::AnySlots, "everything"),
        (Mutant::AnySlots, "sleepers"),
        (Mutant::SearchInParts, "crowd"),
        (Mutant::SearchInParts, "sleepers"),
        (Mutant::AbsenceIsAbort, "storm"),
        (Mutant::AbortUnread, "sleepers"),
        (Mutant::RecordOverwritten, "sleepers"),
        (Mutant::NeedsBeforeIntents, "crowd"),
        (Mutant::ReadsNotHeld, "crowd"),
        (Mutant::PassedNotHeld, "crowd"),
        (Mutant::IntentAssumed, "storm"),
        (Mutant::RosterAfterIntents, "storm"),
        (Mutant::RosterCutUntold, "storm"),
        (Mutant::RetiredIgnored, "sleepers"),
        (Mutant::RetiredForgotten, "sleepers"),
        (Mutant::TrimmedUnretired, "sleepers"),
        (Mutant::TrimmedTooFar, "sleepers"),
        (Mutant::EmptiedIsLost, "everything"),
        (Mutant::NewestEmptied, "sleepers"),
        (Mutant::SlotsDeleted, "sleepers"),
        (Mutant::EmptinessIgnored, "storm"),
    ];
    all_caught(&["tickets"], &mistakes);
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
        let trial = trial("append-log", name);
        caught(mutant, &format!("append-log {name}"), |seed| trial.check(seed));
    }
}
