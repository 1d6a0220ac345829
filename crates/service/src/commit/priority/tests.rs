#![allow(clippy::unwrap_used, reason = "a test may panic")]

use iceberg::spec::{Snapshot, SnapshotReference, SnapshotRetention, Summary};

use super::*;

const LONGEST: Span = Span::from_millis(1500);

fn commit(id: i64, operation: Operation) -> TableCommit {
    let snapshot = Snapshot::builder()
        .with_snapshot_id(id)
        .with_sequence_number(1)
        .with_timestamp_ms(1)
        .with_manifest_list("file:///list")
        .with_summary(Summary { operation, additional_properties: Default::default() })
        .build();
    let reference = SnapshotReference { snapshot_id: id, retention: SnapshotRetention::branch(None, None, None) };
    TableCommit {
        requirements: vec![TableRequirement::RefSnapshotIdMatch { r#ref: "main".to_owned(), snapshot_id: None }],
        updates: vec![
            TableUpdate::AddSnapshot { snapshot },
            TableUpdate::SetSnapshotRef { ref_name: "main".to_owned(), reference },
        ],
        key: None,
    }
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Span::from_millis(ms)
}

#[test]
fn others_wait_until_it_landed() {
    let (priority, overwrite, append) =
        (Priority::default(), commit(1, Operation::Overwrite), commit(2, Operation::Append));
    let lost = |commit, now| Priority::lost([(&priority, commit)], at(now), LONGEST);
    assert!(!lost(&append, 0), "an append has no priority");
    assert!(priority.before(at(0), &append).is_none());
    assert!(lost(&overwrite, 0));
    assert!(priority.before(at(1), &append).is_some());
    assert!(priority.before(at(1), &overwrite).is_none());
    let elsewhere = TableCommit { updates: Vec::new(), ..append.clone() };
    assert!(priority.before(at(1), &elsewhere).is_none(), "only what moves the branch waits");
    assert!(priority.landed(at(200), &overwrite));
    assert!(priority.before(at(200), &append).is_none());
    assert!(!lost(&overwrite, 399), "it rests as long as it held");
    assert!(lost(&overwrite, 400));
}

#[test]
fn only_the_overwrites_of_a_commit_over_several_tables_have_holds() {
    let (one, two) = (Priority::default(), Priority::default());
    let (overwrite, append) = (commit(1, Operation::Overwrite), commit(2, Operation::Append));
    assert!(Priority::lost([(&one, &overwrite), (&two, &append)], at(0), LONGEST));
    assert!(one.before(at(1), &commit(3, Operation::Append)).is_some());
    assert!(two.before(at(1), &commit(3, Operation::Append)).is_none());
}
