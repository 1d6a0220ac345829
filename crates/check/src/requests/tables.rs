//! The rules of changes to numbered tables.

use std::marker::PhantomData;

use glidepath_model::{Changes, Edit, NotApplicable, TableId, TableState};
use glidepath_protocols::append_log::Void;

use super::rules::Rules;
use super::state::State;

/// Requests are [`Changes`]; `F` is how one is refused.
pub(crate) struct Tables<F>(PhantomData<F>);

/// A refusal, as the protocol words it.
pub(crate) trait Refused: Clone + PartialEq + std::fmt::Display + 'static {
    /// Because of this table, the first in the order of tables.
    fn because_of(table: TableId) -> Self;
}

impl Refused for NotApplicable {
    fn because_of(table: TableId) -> Self {
        Self(table)
    }
}

impl Refused for Void {
    fn because_of(_: TableId) -> Self {
        Self
    }
}

impl<F: Refused> Rules for Tables<F> {
    type Key = TableId;
    type Value = TableState;
    type Request = Changes;
    type Refusal = F;
    type Query = Vec<TableId>;
    type Found = Vec<Option<TableState>>;

    fn apply(state: &mut State<TableId, TableState>, request: &Changes) -> Result<(), F> {
        for change in request.edits() {
            let table = change.table;
            let next = match (&change.edit, state.get(&table)) {
                (Edit::Create(new), None) if !new.partitions.is_empty() => Some(new.clone()),
                (Edit::Drop(expected), Some(known)) if known.version == *expected => None,
                (Edit::Advance(advance), Some(known)) => {
                    let mut next = known.clone();
                    next.version.0 += 1;
                    next.metadata = advance.metadata;
                    for (partition, expected) in &advance.partitions {
                        match next.partitions.get_mut(partition.0 as usize) {
                            Some(version) if version == expected => version.0 += 1,
                            _ => return Err(F::because_of(table)),
                        }
                    }
                    Some(next)
                }
                _ => return Err(F::because_of(table)),
            };
            state.set(table, next);
        }
        Ok(())
    }

    fn marks(value: &TableState) -> Vec<u64> {
        vec![value.metadata.0]
    }

    fn is_marked(request: &Changes) -> bool {
        request.edits().iter().any(|change| !matches!(change.edit, Edit::Drop(_)))
    }

    fn found(state: &State<TableId, TableState>, query: &Vec<TableId>) -> Vec<Option<TableState>> {
        query.iter().map(|table| state.get(table).cloned()).collect()
    }

    fn words(request: &Changes) -> String {
        let words = |change: &glidepath_model::TableChange| match &change.edit {
            Edit::Create(state) => format!("create {} of {} partitions", change.table, state.partitions.len()),
            Edit::Drop(expected) => format!("drop {} at {expected}", change.table),
            Edit::Advance(advance) => {
                let partitions: Vec<String> =
                    advance.partitions.iter().map(|(partition, at)| format!("{} at {}", partition.0, at.0)).collect();
                format!("advance {}, partitions {}", change.table, partitions.join(" and "))
            }
        };
        request.edits().iter().map(words).collect::<Vec<_>>().join("; ")
    }
}
