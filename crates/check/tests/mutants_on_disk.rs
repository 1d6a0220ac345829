//! Do the checkers detect mistakes of a store in files? Each known mistake must be detected, and the same seed must
//! pass without it. Prints the number of seeds that each took.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use glidepath_check::{Subject, Trial, scenario};
use glidepath_files::mutant::{Mutant, with};

/// The most seeds until a mistake is detected.
const SEEDS: u64 = 3_000;

/// The first seed that detects it, with the violation.
fn caught(mutant: Mutant, protocol: &str, name: &str) {
    let trial = Trial::new(Subject::named(protocol).unwrap(), &scenario(name).unwrap().unwrap());
    let found = with(mutant, || (1..=SEEDS).find_map(|seed| Some((seed, trial.check(seed).violation?))));
    let what = format!("{} {name}", protocol);
    let Some((seed, violation)) = found else { panic!("{mutant:?} goes unnoticed in {what}") };
    println!("| {mutant:?} | {what} | {seed} | {} |", violation.lines().next().unwrap_or_default());
    assert_eq!(trial.check(seed).violation, None, "{mutant:?}: seed {seed} fails without the mistake too");
}

#[test]
fn what_is_not_synced_is_missed_after_a_power_cut() {
    for protocol in ["catalog-file", "manifest-chain", "append-log"] {
        caught(Mutant::NoSyncOfFiles, protocol, "power");
        caught(Mutant::NoSyncOfFolders, protocol, "power");
    }
}

#[test]
fn a_lock_that_does_not_lock_loses_updates() {
    for protocol in ["catalog-file", "manifest-chain", "append-log"] {
        caught(Mutant::LockDoesNotLock, protocol, "power");
    }
}

#[test]
fn a_failed_sync_is_not_made_up_for_by_looking_nor_by_another() {
    for protocol in ["catalog-file", "manifest-chain", "append-log"] {
        for mutant in [Mutant::MarksIgnored, Mutant::MarksNotSet, Mutant::SyncedAgain] {
            caught(mutant, protocol, "everything-on-disk");
        }
    }
}

#[test]
fn a_folder_that_is_not_durable_takes_what_is_in_it_along() {
    caught(Mutant::FoldersTrusted, "manifest-chain", "everything-on-disk");
    caught(Mutant::MovedAmongUnfinished, "manifest-chain", "everything-on-disk");
}
