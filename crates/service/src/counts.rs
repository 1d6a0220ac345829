//! What a service has done, for metrics and the page for people.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters since the start of the service. Each only grows.
#[derive(Debug, Default)]
pub struct Counts {
    /// Commits of tables that took effect.
    pub committed: AtomicU64,
    /// Commits that were rebased onto a newer snapshot before they took effect.
    pub rebased: AtomicU64,
    /// Commits that were refused because a requirement did not hold.
    pub conflicts: AtomicU64,
    /// Attempts repeated because another server moved the table first.
    pub overtaken: AtomicU64,
    /// Turns of other servers that this one waited for, in line at a table that they commit to as well.
    pub turns: AtomicU64,
    /// Servers that were passed over in such a line, because they did not come.
    pub passed_over: AtomicU64,
    /// How long this server waited in such lines, in milliseconds.
    pub in_line_ms: AtomicU64,
    /// Commits whose outcome could not be told.
    pub unknown: AtomicU64,
    /// Requests answered by what an earlier delivery of them did.
    pub replayed: AtomicU64,
    /// Versions of tables written: less than `committed` where commits shared one.
    pub versions: AtomicU64,
    /// Times that others were held back for the next try of a commit that lost.
    pub priorities: AtomicU64,
    /// Those of them that it used: it landed meanwhile.
    pub priorities_used: AtomicU64,
    /// Commits that waited for such a try.
    pub held: AtomicU64,
    /// Those of them that waited for one over several tables.
    pub held_for_several: AtomicU64,
    /// How long they waited, in milliseconds.
    pub held_ms: AtomicU64,
    /// Commits that wait for a table at this moment.
    pub waiting: AtomicU64,
    /// The conflicts, by what had changed: in the order of [`ConflictOn::ALL`].
    conflicts_on: [AtomicU64; ConflictOn::ALL.len()],
}

/// What had changed when a commit was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConflictOn {
    /// The branch, or the tag.
    Branch,
    /// The schema.
    Schema,
    /// How the table is partitioned or sorted.
    Layout,
    /// The table itself: it was dropped, created or replaced.
    Table,
    /// The version of a table of Lance exists.
    Version,
    /// Something else.
    Other,
}

impl ConflictOn {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::Branch, Self::Schema, Self::Layout, Self::Table, Self::Version, Self::Other];

    /// By the words of a refusal, which are those of Iceberg's own server (`glidepath_table::commit::check`).
    pub(crate) fn of(words: &str) -> Self {
        let Some(what) = words.strip_prefix("Requirement failed: ") else { return Self::Other };
        let begins = |starts: &[&str]| starts.iter().any(|start| what.starts_with(start));
        if begins(&["branch "]) {
            Self::Branch
        } else if begins(&["current schema ", "last assigned field id "]) {
            Self::Schema
        } else if begins(&["default partition spec ", "last assigned partition id ", "default sort order "]) {
            Self::Layout
        } else if begins(&["UUID ", "table "]) {
            Self::Table
        } else {
            Self::Other
        }
    }
}

/// A commit that waits, until it is dropped.
pub(crate) struct OneWaits(Arc<Counts>);

impl Drop for OneWaits {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Counts {
    /// Counts a commit as one that waits.
    pub(crate) fn one_waits(self: &Arc<Self>) -> OneWaits {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        OneWaits(Arc::clone(self))
    }

    pub(crate) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }

    pub(crate) fn conflict(&self, on: ConflictOn) {
        Self::add(&self.conflicts, 1);
        Self::add(&self.conflicts_on[on as usize], 1);
    }

    /// How many commits were refused because of this.
    #[must_use]
    pub fn conflicts_on(&self, on: ConflictOn) -> u64 {
        self.conflicts_on[on as usize].load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glidepath_table::commit::{Creation, Misfit, check, create};
    use iceberg::TableRequirement;
    use iceberg::spec::Schema;

    #[test]
    fn each_refused_requirement_has_its_kind() {
        let creation = Creation {
            schema: Schema::builder().build().unwrap(),
            partition_spec: None,
            sort_order: None,
            location: "file:///t".to_owned(),
            properties: std::collections::HashMap::new(),
        };
        let table = create(creation, uuid::Uuid::from_u128(1)).unwrap();
        for (requirement, on) in [
            (TableRequirement::NotExist, ConflictOn::Table),
            (TableRequirement::UuidMatch { uuid: uuid::Uuid::from_u128(2) }, ConflictOn::Table),
            (TableRequirement::RefSnapshotIdMatch { r#ref: "b".to_owned(), snapshot_id: Some(1) }, ConflictOn::Branch),
            (TableRequirement::LastAssignedFieldIdMatch { last_assigned_field_id: 9 }, ConflictOn::Schema),
            (TableRequirement::CurrentSchemaIdMatch { current_schema_id: 9 }, ConflictOn::Schema),
            (TableRequirement::LastAssignedPartitionIdMatch { last_assigned_partition_id: 9 }, ConflictOn::Layout),
            (TableRequirement::DefaultSpecIdMatch { default_spec_id: 9 }, ConflictOn::Layout),
            (TableRequirement::DefaultSortOrderIdMatch { default_sort_order_id: 9 }, ConflictOn::Layout),
        ] {
            let Err(Misfit::Conflict(words)) = check(&[requirement], Some(&table)) else { panic!("{on:?} holds") };
            assert_eq!(ConflictOn::of(&words), on, "{words}");
        }
    }
}
