//! The encoded length of a catalog file, now and after changes, computed without building it.

use glidepath_model::{Changes, Edit, Entry, Name, Root, TableId, TableState, Version};

use crate::entry;
use crate::wire::varint_length;

/// What the encoded length of a root depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size {
    /// The number of tables kept as numbers.
    pub(crate) tables: usize,
    /// The length of their rows, in bytes.
    table_bytes: usize,
    /// The number of other entries.
    entries: usize,
    /// The length of their rows, in bytes.
    entry_bytes: usize,
}

impl Size {
    pub(crate) fn of(root: &Root) -> Self {
        Self {
            tables: root.table_count(),
            table_bytes: root.tables().map(|(id, state)| table_length(*id, state)).sum(),
            entries: root.entries().len(),
            entry_bytes: root.entries().iter().map(|(name, entry)| entry_length(name, entry)).sum(),
        }
    }

    /// The length of tables and entries in the file, in bytes.
    pub(crate) fn bytes(self) -> usize {
        let entries = if self.entries == 0 { 0 } else { varint_length(self.entries as u64) + self.entry_bytes };
        varint_length(self.tables as u64) + self.table_bytes + entries
    }

    /// The size after these changes, which apply to the root.
    pub(crate) fn after(self, root: &Root, changes: &Changes) -> Self {
        changes.edits().iter().fold(self, |size, change| {
            let id = change.table;
            match (&change.edit, root.plain_table(id)) {
                (_, None) if root.table(id).is_some() => size.after_edit(root, id, &change.edit),
                (Edit::Create(state), _) => {
                    Self { tables: size.tables + 1, table_bytes: size.table_bytes + table_length(id, state), ..size }
                }
                (Edit::Drop(_), Some(state)) => {
                    Self { tables: size.tables - 1, table_bytes: size.table_bytes - table_length(id, state), ..size }
                }
                (Edit::Advance(advance), Some(state)) => {
                    let seen = advance.partitions.iter().map(|(_, version)| *version);
                    let moved = std::iter::once(state.version).chain(seen);
                    let longer: usize = moved.map(longer_when_next).sum();
                    Self { table_bytes: size.table_bytes + longer, ..size }
                }
                (_, None) => size,
            }
        })
    }

    /// The same for a numbered table that has more than a state.
    fn after_edit(self, root: &Root, id: TableId, edit: &Edit) -> Self {
        let name = Name::numbered(id);
        let Some((before, state)) = root.entries().get(&name).zip(root.table(id)) else { return self };
        let without = Self { entry_bytes: self.entry_bytes - entry_length(&name, before), ..self };
        match edit {
            Edit::Advance(advance) => {
                let mut state = state.clone();
                state.version = state.version.next();
                for (partition, seen) in &advance.partitions {
                    if let Some(version) = state.partitions.get_mut(partition.0 as usize) {
                        *version = seen.next();
                    }
                }
                let after = Entry { state: Some(state), ..before.clone() };
                Self { entry_bytes: without.entry_bytes + entry_length(&name, &after), ..without }
            }
            Edit::Create(_) | Edit::Drop(_) => Self { entries: self.entries - 1, ..without },
        }
    }
}

/// How many more bytes the next version takes.
fn longer_when_next(version: Version) -> usize {
    varint_length(version.next().0) - varint_length(version.0)
}

fn table_length(id: TableId, state: &TableState) -> usize {
    varint_length(u64::from(id.0)) + entry::state_length(state)
}

fn entry_length(name: &Name, entry: &Entry) -> usize {
    let (name, entry) = (name.as_str().len(), entry::length(entry));
    varint_length(name as u64) + name + varint_length(entry as u64) + entry
}
