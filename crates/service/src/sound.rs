//! Are the requirements and updates of a commit such that the library for Iceberg can compute with them, and in
//! reasonable time?

use iceberg::spec::{Snapshot, TableMetadata};
use iceberg::{TableRequirement, TableUpdate, ViewUpdate};

use crate::commit::TableCommit;
use crate::error::ServiceError;
use crate::views::ViewCommit;

/// The most updates of a commit.
const MOST_UPDATES: usize = 5000;

/// The most requirements of a commit: clients send at most one for each update, and a few for the whole.
const MOST_REQUIREMENTS: usize = MOST_UPDATES + 100;

/// The most schemas, partition specs and sort orders that a commit adds. Each is compared with all others.
const MOST_ADDED: usize = 200;

/// The end of the year 9999, in milliseconds since 1970.
const LAST_MS: i64 = 253_402_300_799_999;

/// Sequence numbers and row ids that leave room for sums.
const MOST_NUMBER: u64 = 1 << 62;

/// Refuses what nobody needs, before anything is done.
pub(crate) fn check(commit: &TableCommit) -> Result<(), ServiceError> {
    let TableCommit { requirements, updates, .. } = commit;
    let added = updates.iter().filter(|update| {
        use TableUpdate::{AddSchema, AddSortOrder, AddSpec};
        matches!(update, AddSchema { .. } | AddSpec { .. } | AddSortOrder { .. })
    });
    at_most([
        (updates.len(), MOST_UPDATES, "updates"),
        (requirements.len(), MOST_REQUIREMENTS, "requirements"),
        (added.count(), MOST_ADDED, "schemas, partition specs and sort orders"),
    ])?;
    check_creation(requirements)?;
    updates.iter().try_for_each(|update| match update {
        TableUpdate::AddSnapshot { snapshot } => check_snapshot(snapshot),
        _ => Ok(()),
    })
}

/// Refuses a creation that requires something of the table which it creates. Without a table only its absence, and that
/// of a branch, holds.
fn check_creation(requirements: &[TableRequirement]) -> Result<(), ServiceError> {
    use TableRequirement::{NotExist, RefSnapshotIdMatch};
    let fails = |one: &&TableRequirement| !matches!(one, NotExist | RefSnapshotIdMatch { snapshot_id: None, .. });
    if !requirements.contains(&NotExist) {
        return Ok(());
    }
    match requirements.iter().find(fails) {
        None => Ok(()),
        Some(other) => {
            let other = serde_json::to_value(other).ok().and_then(|json| Some(json.get("type")?.as_str()?.to_owned()));
            Err(ServiceError::invalid(format!(
                "Invalid create requirements: {} beside assert-create, which says that there is no table; send one of them",
                other.as_deref().unwrap_or("another one")
            )))
        }
    }
}

/// The same for a commit to a view.
pub(crate) fn check_view(commit: &ViewCommit) -> Result<(), ServiceError> {
    let ViewCommit { uuids, creates: _, updates } = commit;
    let added = updates
        .iter()
        .filter(|update| matches!(update, ViewUpdate::AddSchema { .. } | ViewUpdate::AddViewVersion { .. }));
    at_most([
        (updates.len(), MOST_UPDATES, "updates"),
        (uuids.len(), MOST_REQUIREMENTS, "requirements"),
        (added.count(), MOST_ADDED, "schemas and versions"),
    ])
}

fn at_most(counts: [(usize, usize, &str); 3]) -> Result<(), ServiceError> {
    for (count, most, what) in counts {
        if count > most {
            return Err(ServiceError::invalid(format!("{count} {what} in one commit; at most {most} are allowed")));
        }
    }
    Ok(())
}

/// Refuses metadata of another writer with times or numbers that nobody can compute with.
pub(crate) fn check_metadata(metadata: &TableMetadata) -> Result<(), ServiceError> {
    let logs = metadata.history().iter().map(|log| log.timestamp_ms);
    let files = metadata.metadata_log().iter().map(|log| log.timestamp_ms);
    [metadata.last_updated_ms()].into_iter().chain(logs).chain(files).try_for_each(check_time)?;
    metadata.snapshots().try_for_each(|snapshot| check_snapshot(snapshot))?;
    let (sequence, row) = (metadata.last_sequence_number(), metadata.next_row_id());
    match u64::try_from(sequence).is_ok_and(|sequence| sequence <= MOST_NUMBER) && row <= MOST_NUMBER {
        true => Ok(()),
        false => {
            let words = format!(
                "the metadata has last-sequence-number {sequence} and next-row-id {row}; allowed: 0 to {MOST_NUMBER}"
            );
            Err(ServiceError::invalid(words))
        }
    }
}

/// Refuses times that no calendar has.
pub(crate) fn check_time(ms: i64) -> Result<(), ServiceError> {
    match (0..=LAST_MS).contains(&ms) {
        true => Ok(()),
        false => {
            let words =
                format!("found the time {ms}; allowed: 0 to {LAST_MS}, the end of the year 9999, in milliseconds");
            Err(ServiceError::invalid(words))
        }
    }
}

fn check_snapshot(snapshot: &Snapshot) -> Result<(), ServiceError> {
    let wrong = |what: &str, found: String, allowed: String| {
        let words = format!("the snapshot {} has the {what} {found}; allowed: {allowed}", snapshot.snapshot_id());
        Err(ServiceError::invalid(words))
    };
    if !(0..=LAST_MS).contains(&snapshot.timestamp_ms()) {
        return wrong(
            "timestamp-ms",
            snapshot.timestamp_ms().to_string(),
            format!("0 to {LAST_MS}, the end of the year 9999"),
        );
    }
    let sequence = snapshot.sequence_number();
    if u64::try_from(sequence).is_err() || sequence.unsigned_abs() > MOST_NUMBER {
        return wrong("sequence-number", sequence.to_string(), format!("0 to {MOST_NUMBER}"));
    }
    match snapshot.row_range() {
        Some((first, rows)) if first > MOST_NUMBER || rows > MOST_NUMBER => {
            wrong("rows", format!("{first} and {rows} more"), format!("row ids and counts of 0 to {MOST_NUMBER}"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use iceberg::TableRequirement;
    use iceberg::spec::{Operation, Summary};

    use super::*;

    fn with(ms: i64, sequence: i64) -> Result<(), ServiceError> {
        let snapshot = Snapshot::builder()
            .with_snapshot_id(1)
            .with_sequence_number(sequence)
            .with_timestamp_ms(ms)
            .with_manifest_list("file:///list")
            .with_summary(Summary { operation: Operation::Append, additional_properties: Default::default() })
            .build();
        check(&commit(0, &[TableUpdate::AddSnapshot { snapshot }]))
    }

    fn commit(requirements: usize, updates: &[TableUpdate]) -> TableCommit {
        TableCommit {
            requirements: vec![TableRequirement::NotExist; requirements],
            updates: updates.to_vec(),
            key: None,
        }
    }

    #[test]
    fn numbers_leave_room() {
        assert!(with(0, 0).is_ok());
        assert!(with(LAST_MS, 1 << 62).is_ok());
        for (ms, sequence) in [(i64::MIN, 1), (-1, 1), (LAST_MS + 1, 1), (1, -1), (1, i64::MAX)] {
            assert!(with(ms, sequence).unwrap_err().message.contains("allowed: 0 to"), "{ms} {sequence}");
        }
    }

    #[test]
    fn requirements_and_updates_are_counted() {
        let set = |count: usize| vec![TableUpdate::SetProperties { updates: Default::default() }; count];
        assert!(check(&commit(MOST_REQUIREMENTS, &set(MOST_UPDATES))).is_ok());
        assert!(check(&commit(0, &set(MOST_UPDATES + 1))).is_err());
        assert!(check(&commit(MOST_REQUIREMENTS + 1, &[])).is_err());
    }
}
