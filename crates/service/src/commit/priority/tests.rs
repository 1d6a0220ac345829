#![allow(clippy::unwrap_used, reason = "a test may panic")]

use iceberg::spec::{Snapshot, SnapshotReference, SnapshotRetention, Summary};
use proptest::prelude::*;

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
    assert!(!priority.lost(at(0), &append, LONGEST), "an append has no priority");
    assert!(priority.before(at(0), &append).is_none());
    assert!(priority.lost(at(0), &overwrite, LONGEST));
    assert!(priority.before(at(1), &append).is_some());
    assert!(priority.before(at(1), &overwrite).is_none());
    let elsewhere = TableCommit { updates: Vec::new(), ..append.clone() };
    assert!(priority.before(at(1), &elsewhere).is_none(), "only what moves the branch waits");
    assert!(priority.landed(at(200), &overwrite));
    assert!(priority.before(at(200), &append).is_none());
    assert!(!priority.lost(at(399), &overwrite, LONGEST), "it rests as long as it held");
    assert!(priority.lost(at(400), &overwrite, LONGEST));
}

#[test]
fn those_that_never_come_back_wait_longer_each_time() {
    let (priority, append) = (Priority::default(), commit(0, Operation::Append));
    assert!(priority.lost(at(0), &commit(1, Operation::Delete), LONGEST));
    assert!(priority.before(at(1500), &append).is_none());
    assert!(!priority.lost(at(4499), &commit(2, Operation::Replace), LONGEST), "1.5 s in vain, 3 s of rest");
    assert!(priority.lost(at(4500), &commit(2, Operation::Replace), LONGEST));
    assert!(!priority.lost(at(11_999), &commit(3, Operation::Overwrite), LONGEST), "then 6 s");
    assert!(priority.lost(at(12_000), &commit(3, Operation::Overwrite), LONGEST));
}

proptest! {
    /// Whatever overwrites do, a branch is held half of the time at most, besides one hold.
    #[test]
    fn half_of_the_time_is_free(steps in proptest::collection::vec((1_u64..700, 0_i64..4, any::<bool>()), 1..200)) {
        let (priority, append) = (Priority::default(), commit(9, Operation::Append));
        let (mut now, mut held) = (0, 0);
        for (step, snapshot, lands) in steps {
            for ms in now..now + step {
                held += u64::from(priority.before(at(ms), &append).is_some());
            }
            now += step;
            let overwrite = commit(snapshot, Operation::Overwrite);
            if lands {
                priority.landed(at(now), &overwrite);
            } else {
                priority.lost(at(now), &overwrite, LONGEST);
            }
        }
        prop_assert!(2 * held <= now + 1500, "{held} of {now} ms");
    }
}
