//! What a commit does to a catalog, and when it conflicts: the project's only conflict rule.
//!
//! A commit is a set of edits to tables that apply all together or not at all. Each edit records the state it was
//! prepared against. Whether the edit still applies to a newer root follows from the edit and that root alone, in every
//! protocol.

use smallvec::SmallVec;

use crate::{Action, CommitId, Entry, Kind, MetadataId, Name, PartitionId, Root, TableId, TableState, Version};

/// All edits of one commit: at most one per table, in table order.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Changes {
    edits: SmallVec<[TableChange; 1]>,
}

/// An edit to one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableChange {
    /// Which table.
    pub table: TableId,
    /// What happens to it.
    pub edit: Edit,
}

/// An edit to a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Creates the table; applies if no table has this id.
    Create(TableState),
    /// Moves the table to a new version; applies if every partition it writes is still at the version that was read.
    Advance(Advance),
    /// Drops the table; applies if it is still at this version.
    Drop(Version),
}

/// A new version of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advance {
    /// The metadata object of the new version.
    pub metadata: MetadataId,
    /// The partitions it writes, each with the version that was read. In rising order, at least one.
    pub partitions: SmallVec<[(PartitionId, Version); 1]>,
}

/// Whether changes prepared against one root conflict with later commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// Nothing they write has changed: the same changes apply to the newer root. A conflict of this kind is only a
    /// catalog conflict.
    None,
    /// Something they write has changed: a table conflict. Repair it before the next attempt.
    Partitions {
        /// The number of commits they have not seen, summed over the partitions they write.
        missed: u64,
        /// The number of those partitions.
        partitions: u64,
    },
    /// They can never apply: a table to advance or drop does not exist, a table to create exists, or the changes are
    /// invalid, such as a table without partitions.
    Existence(TableId),
}

/// Why changes do not apply to a root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the change to {0} was prepared against another version of it")]
pub struct NotApplicable(pub TableId);

impl Changes {
    /// One edit.
    #[must_use]
    pub fn of(table: TableId, edit: Edit) -> Self {
        let mut changes = Self::default();
        changes.set(table, edit);
        changes
    }

    /// Adds an edit; replaces an earlier one to the same table.
    pub fn set(&mut self, table: TableId, edit: Edit) {
        match self.edits.binary_search_by_key(&table, |change| change.table) {
            Ok(slot) => self.edits[slot].edit = edit,
            Err(slot) => self.edits.insert(slot, TableChange { table, edit }),
        }
    }

    /// The edits, in table order.
    #[must_use]
    #[inline]
    pub fn edits(&self) -> &[TableChange] {
        &self.edits
    }

    /// Prepares all advances again, against the current states of their tables, each with new metadata. Returns `None`,
    /// with only some prepared, if a table or one of its partitions does not exist.
    #[must_use]
    pub fn renew<'a>(
        &mut self,
        table: impl Fn(TableId) -> Option<&'a TableState>,
        mut metadata: impl FnMut() -> MetadataId,
    ) -> Option<()> {
        for TableChange { table: id, edit } in &mut self.edits {
            let Edit::Advance(advance) = edit else { continue };
            let state = table(*id)?;
            for (partition, seen) in &mut advance.partitions {
                *seen = *state.partitions.get(partition.0 as usize)?;
            }
            advance.metadata = metadata();
        }
        Some(())
    }

    /// The same changes as actions.
    #[must_use]
    pub fn actions(&self) -> Vec<Action> {
        let action = |TableChange { table, edit }: &TableChange| {
            let name = Name::numbered(*table);
            match edit {
                Edit::Create(state) => Action::Create { name, entry: Entry::table(None, state.clone()) },
                Edit::Advance(advance) => Action::Advance { name, advance: advance.clone() },
                Edit::Drop(expected) => Action::Drop { name, kind: Kind::Table, expected: Some(*expected) },
            }
        };
        self.edits.iter().map(action).collect()
    }

    /// The changes that mean the same as these actions; `None` if changes cannot express them.
    #[must_use]
    pub fn of_actions(actions: &[Action]) -> Option<Self> {
        let mut changes = Self::default();
        for action in actions {
            let edit = match action {
                Action::Create { entry, .. } => Edit::Create(entry.plain()?.clone()),
                Action::Advance { advance, .. } => Edit::Advance(advance.clone()),
                Action::Drop { kind: Kind::Table, expected: Some(expected), .. } => Edit::Drop(*expected),
                _ => return None,
            };
            changes.set(action.name().number()?, edit);
        }
        // One edit for each table.
        (changes.edits.len() == actions.len()).then_some(changes)
    }

    /// Compares these changes with a root newer than the one they were prepared against.
    #[must_use]
    #[inline]
    pub fn overlap(&self, newer: &Root) -> Overlap {
        let created = self.edits.iter().filter(|change| matches!(change.edit, Edit::Create(_)));
        match created.map(|change| change.table).find(|table| newer.entries().has_other(*table)) {
            Some(taken) => Overlap::Existence(taken),
            None => self.overlap_with(|id| newer.table(id)),
        }
    }

    /// As [`overlap`](Self::overlap), with a lookup function instead of a whole root.
    pub fn overlap_with<'a>(&self, table: impl Fn(TableId) -> Option<&'a TableState>) -> Overlap {
        let (mut missed, mut partitions) = (0, 0);
        for TableChange { table: id, edit } in &self.edits {
            match (edit, table(*id)) {
                _ if !edit.is_sound() => return Overlap::Existence(*id),
                (Edit::Create(_), None) => {}
                (Edit::Create(_), Some(_)) | (_, None) => return Overlap::Existence(*id),
                (Edit::Drop(expected), Some(state)) => {
                    missed += state.version.since(*expected);
                    partitions += u64::from(state.version != *expected);
                }
                (Edit::Advance(advance), Some(state)) => {
                    for (partition, expected) in &advance.partitions {
                        let Some(actual) = state.partitions.get(partition.0 as usize) else {
                            return Overlap::Existence(*id);
                        };
                        missed += actual.since(*expected);
                        partitions += u64::from(actual != expected);
                    }
                }
            }
        }
        if partitions == 0 { Overlap::None } else { Overlap::Partitions { missed, partitions } }
    }

    /// The root that this commit makes of `base`, or the table whose change does not apply.
    ///
    /// # Errors
    /// [`NotApplicable`] where [`overlap`](Self::overlap) is anything but [`Overlap::None`].
    pub fn apply(&self, base: &Root, commit: CommitId) -> Result<Root, NotApplicable> {
        let touched = self.touch(base)?;
        let mut next = base.clone();
        next.version = base.version.next();
        next.commit = commit;
        touched.apply_to(&mut next);
        Ok(next)
    }

    /// The tables of these changes as [`apply`](Self::apply) would leave them, without building a root.
    ///
    /// # Errors
    /// As `apply`.
    pub fn touch(&self, base: &Root) -> Result<Touched, NotApplicable> {
        self.touch_with(|id| base.table(id), |id| base.entries().has_other(id))
    }

    /// As [`touch`](Self::touch), with a lookup function instead of a whole root. `taken` says whether the name of a
    /// numbered table stands for something else than a table with a state.
    ///
    /// # Errors
    /// As `apply`.
    pub fn touch_with<'a>(
        &self,
        table: impl Fn(TableId) -> Option<&'a TableState>,
        taken: impl Fn(TableId) -> bool,
    ) -> Result<Touched, NotApplicable> {
        let (mut touched, state_of) = (SmallVec::new(), table);
        for TableChange { table, edit } in &self.edits {
            let after = match (edit, state_of(*table)) {
                (Edit::Create(state), None) if edit.is_sound() && !taken(*table) => Some(state.clone()),
                (Edit::Drop(expected), Some(state)) if state.version == *expected => None,
                (Edit::Advance(advance), Some(state)) => {
                    let mut state = state.clone();
                    advance.apply(&mut state).ok_or(NotApplicable(*table))?;
                    Some(state)
                }
                _ => return Err(NotApplicable(*table)),
            };
            touched.push((*table, after));
        }
        Ok(Touched(touched))
    }
}

/// Tables as a commit leaves them, in table order; `None` for a dropped one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched(SmallVec<[(TableId, Option<TableState>); 1]>);

impl Touched {
    /// Writes these tables into the root they were taken from. Changes nothing else.
    pub fn apply_to(self, root: &mut Root) {
        for (table, state) in self.0 {
            root.set_table(table, state);
        }
    }

    /// The tables.
    pub fn into_tables(self) -> impl Iterator<Item = (TableId, Option<TableState>)> {
        self.0.into_iter()
    }
}

impl Edit {
    /// Whether there is a root that it could apply to. An invalid edit must not be written: readers could not decode
    /// it.
    #[inline]
    fn is_sound(&self) -> bool {
        match self {
            Self::Create(state) => !state.partitions.is_empty(),
            Self::Advance(advance) => advance.is_sound(),
            Self::Drop(_) => true,
        }
    }
}

impl Advance {
    #[inline]
    fn is_sound(&self) -> bool {
        !self.partitions.is_empty() && self.partitions.windows(2).all(|pair| pair[0].0 < pair[1].0)
    }

    /// Moves the table to its new version. Returns `None`, with the table partly changed, if a partition is not at its
    /// expected version.
    pub(crate) fn apply(&self, state: &mut TableState) -> Option<()> {
        if !self.is_sound() {
            return None;
        }
        state.version = state.version.next();
        state.metadata = self.metadata;
        for (partition, expected) in &self.partitions {
            let actual = state.partitions.get_mut(partition.0 as usize)?;
            if actual != expected {
                return None;
            }
            *actual = actual.next();
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
