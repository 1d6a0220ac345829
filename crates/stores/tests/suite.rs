//! The conformance suite names what a store breaks: stores that are broken on purpose, each in one way, and the points
//! that the suite must name for each. Together they break every point.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod support;

use std::collections::BTreeSet;

use glidepath_env::Key;
use glidepath_env::conformance::{POINTS, run_all};
use support::broken::{BrokenStore, Fault};

/// Each fault, and the points it breaks.
const BROKEN: &[(Fault, &[&str])] = &[
    (
        Fault::IgnoresGuards,
        &[
            "absent-loses",
            "stale-tag-loses",
            "matches-missing-loses",
            "lost-changes-nothing",
            "tags-outlive-deletes",
            "append-changes-tag",
            "race-creators",
            "race-increments",
        ],
    ),
    (Fault::LooksThenWrites, &["race-creators", "race-increments", "race-appenders"]),
    (
        Fault::WritesWhatItLost,
        &["matches-missing-loses", "lost-changes-nothing", "append-changes-tag", "race-creators", "race-increments"],
    ),
    (Fault::AbsentNeverHolds, &["absent-creates", "absent-after-delete", "race-creators"]),
    (Fault::MatchesNeverHolds, &["matches-replaces", "append-changes-tag", "race-increments"]),
    (Fault::MatchesHoldsWhereNothingIs, &["matches-missing-loses"]),
    (
        Fault::UnguardedOnlyCreates,
        &[
            "stale-tag-loses",
            "unguarded-replaces",
            "lost-changes-nothing",
            "tags-change",
            "tags-agree",
            "read-after-write",
            "written-at",
            "append-after-put",
        ],
    ),
    (Fault::TagsAreSizes, &["stale-tag-loses", "tags-change", "tags-outlive-deletes", "race-increments"]),
    (Fault::TagsBeginAgain, &["tags-outlive-deletes"]),
    (Fault::QuotesTags, &["lost-changes-nothing", "tags-agree", "read-after-write", "range-beyond", "race-creators"]),
    (Fault::RefusesEmpty, &["unguarded-replaces", "tags-agree", "empty-body", "range-beyond", "list-sizes"]),
    (Fault::RefusesLarge, &["large-body"]),
    (Fault::OnlyText, &["large-body", "any-bytes"]),
    (Fault::DropsFiller, &["filler-is-zeros", "append-filler"]),
    (
        Fault::OneLastRead,
        &[
            "matches-replaces",
            "unguarded-replaces",
            "lost-changes-nothing",
            "tags-agree",
            "read-after-write",
            "append-extends",
            "append-after-put",
            "append-changes-tag",
            "append-filler",
            "race-increments",
            "race-appenders",
        ],
    ),
    (Fault::FoldsCase, &["odd-keys", "list-order", "list-prefix", "list-after", "list-limit"]),
    (Fault::RefusesLongParts, &["long-keys"]),
    (Fault::TidiesPaths, &["dots-and-slashes"]),
    (Fault::FilesAreNotFolders, &["key-within-key"]),
    (Fault::RangesIncludeTheirEnd, &["filler-is-zeros", "range-middle"]),
    (Fault::RangesMustFit, &["range-cut", "range-beyond"]),
    (Fault::RangesMustBegin, &["range-beyond"]),
    (
        Fault::MissingIsAFailure,
        &[
            "matches-missing-loses",
            "odd-keys",
            "long-keys",
            "dots-and-slashes",
            "key-within-key",
            "missing",
            "delete-removes",
            "append-missing-loses",
        ],
    ),
    (
        Fault::DeletesNothing,
        &[
            "odd-keys",
            "long-keys",
            "dots-and-slashes",
            "key-within-key",
            "delete-removes",
            "absent-after-delete",
            "list-after-write",
        ],
    ),
    (Fault::DeletesOnlyWhatIs, &["delete-missing"]),
    (Fault::Undated, &["written-at"]),
    (Fault::ListsBackwards, &["list-order", "list-limit", "list-folder"]),
    (Fault::PrefixesAreFolders, &["list-prefix", "list-after"]),
    (Fault::IgnoresAfter, &["list-after", "list-limit", "list-folder"]),
    (Fault::IgnoresLimit, &["list-limit", "list-folder"]),
    (Fault::ForgetsMore, &["list-limit", "list-folder"]),
    (Fault::ForgetsSizes, &["list-sizes"]),
    (
        Fault::ListsLate,
        &[
            "odd-keys",
            "long-keys",
            "dots-and-slashes",
            "key-within-key",
            "list-order",
            "list-prefix",
            "list-after",
            "list-limit",
            "list-sizes",
            "list-after-write",
            "list-folder",
        ],
    ),
    (Fault::CannotAppendYetDoes, &["append-refused"]),
    (
        Fault::DropsAppends,
        &[
            "append-creates",
            "append-extends",
            "append-elsewhere-loses",
            "append-after-put",
            "append-changes-tag",
            "append-filler",
            "race-appenders",
        ],
    ),
    (Fault::AppendsAnywhere, &["append-elsewhere-loses", "append-missing-loses", "race-appenders"]),
    (Fault::AppendReplaces, &["append-extends", "append-after-put", "append-filler", "race-appenders"]),
    (Fault::AppendsOnlyToLogs, &["append-after-put"]),
    (
        Fault::AppendsOnlyToObjects,
        &[
            "append-creates",
            "append-extends",
            "append-elsewhere-loses",
            "append-changes-tag",
            "append-filler",
            "race-appenders",
        ],
    ),
    (Fault::AppendKeepsTag, &["append-changes-tag"]),
];

async fn broken_points(fault: Fault) -> Vec<&'static str> {
    let store = BrokenStore::new(fault);
    run_all(&[store], &Key::new("scratch")).await.iter().map(|violation| violation.point.name).collect()
}

#[tokio::test]
async fn names_the_points_that_a_fault_breaks() {
    let mut wrong = Vec::new();
    for &(fault, wanted) in BROKEN {
        let found = broken_points(fault).await;
        if found != wanted {
            wrong.push(format!("    (Fault::{fault:?}, &{found:?}),"));
        }
    }
    assert!(wrong.is_empty(), "the suite names other points for these faults:\n{}", wrong.join("\n"));
}

#[test]
fn every_point_can_fail() {
    let broken: BTreeSet<&str> = BROKEN.iter().flat_map(|(_, points)| points.iter().copied()).collect();
    let all: BTreeSet<&str> = POINTS.iter().map(|point| point.name).collect();
    assert_eq!(all.len(), POINTS.len(), "two points have one name");
    assert_eq!(broken, all);
}
