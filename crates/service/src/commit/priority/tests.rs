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
    let lost = |commit, now| Priority::lost(&[(&priority, commit)], at(now), LONGEST);
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

/// Otherwise two such commits, each with its append at the table of the other's overwrite, would wait for each other.
#[test]
fn the_appends_beside_an_overwrite_of_another_table_have_holds_too() {
    let (one, two) = (Priority::default(), Priority::default());
    let (overwrite, append) = (commit(1, Operation::Overwrite), commit(2, Operation::Append));
    assert!(!Priority::lost(&[(&one, &append), (&two, &append)], at(0), LONGEST), "appends have no priority");
    assert!(Priority::lost(&[(&one, &overwrite), (&two, &append)], at(0), LONGEST));
    let (other, another) = (commit(3, Operation::Append), commit(4, Operation::Overwrite));
    assert!(one.before(at(1), &other).is_some() && two.before(at(1), &other).is_some());
    assert!(one.before(at(1), &overwrite).is_none() && two.before(at(1), &append).is_none());
    assert!(!Priority::lost(&[(&Priority::default(), &other), (&two, &another)], at(1), LONGEST), "all or none");
}

#[test]
fn a_commit_of_several_snapshots_does_not_wait_for_itself() {
    let (priority, mut both) = (Priority::default(), commit(2, Operation::Delete));
    both.updates.splice(0..0, commit(1, Operation::Append).updates);
    assert!(Priority::lost(&[(&priority, &both)], at(0), LONGEST));
    assert!(priority.before(at(1), &both).is_none());
    assert!(priority.before(at(1), &commit(3, Operation::Append)).is_some());
    assert!(priority.landed(at(2), &both));
}
