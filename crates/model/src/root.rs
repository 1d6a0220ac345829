//! The state of a catalog at one version: its entries and the state of each table.

use smallvec::SmallVec;

use crate::runs::Runs;
use crate::{Action, AtHand, CommitId, Entries, Entry, MetadataId, Name, Refusal, TableId, Version, View};

/// A version per partition. Most tables of the published experiments have one partition, hence the inline space.
pub type PartitionVersions = SmallVec<[Version; 1]>;

/// The state of one table.
#[derive(Debug, PartialEq, Eq)]
pub struct TableState {
    /// Counts the commits to this table.
    pub version: Version,
    /// The metadata object that this version of the table consists of.
    pub metadata: MetadataId,
    /// Counts the commits to each partition, indexed by `PartitionId`. Never empty.
    pub partitions: PartitionVersions,
}

impl Clone for TableState {
    fn clone(&self) -> Self {
        // Copies the versions as a block; the derived clone copies them one by one.
        Self { version: self.version, metadata: self.metadata, partitions: SmallVec::from_slice(&self.partitions) }
    }
}

impl TableState {
    /// A new table with this many partitions (at least one) and no commits.
    #[must_use]
    pub fn new(partitions: usize) -> Self {
        Self {
            version: Version(0),
            metadata: MetadataId(0),
            partitions: SmallVec::from_elem(Version(0), partitions.max(1)),
        }
    }
}

/// A whole catalog at one version.
///
/// Successive roots share the tables that are equal in them, in runs of neighbours: in a simulation thousands of
/// clients each hold the root that they began with.
///
/// A numbered table is the entry of its [name](Name::numbered). While it has nothing but a state it is kept as a
/// number, which is small and fast; this changes nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Counts the commits to the catalog, whatever entry they were for.
    pub version: Version,
    /// The commit that made this version.
    pub commit: CommitId,
    tables: Runs<TableId, TableState, RUN>,
    entries: Entries,
}

/// The number of tables in a run. A change copies one run, and one reference for each other run.
const RUN: usize = 8;

impl Root {
    /// A catalog without commits: no entries, version 0.
    #[must_use]
    pub fn empty() -> Self {
        Self { version: Version(0), commit: CommitId(0), tables: Runs::empty(), entries: Entries::default() }
    }

    /// A root of these numbered tables. `None` if they are not in strictly rising order or one has no partition.
    #[must_use]
    pub fn from_parts(version: Version, commit: CommitId, tables: Vec<(TableId, TableState)>) -> Option<Self> {
        let partitioned = tables.iter().all(|(_, state)| !state.partitions.is_empty());
        let tables = Runs::new(tables).filter(|_| partitioned)?;
        Some(Self { version, commit, tables, entries: Entries::default() })
    }

    /// The same root with these entries beside its plain numbered tables. `None` if a name is in both.
    #[must_use]
    pub fn with_entries(self, entries: Entries) -> Option<Self> {
        let met = entries.iter().any(|(name, _)| name.number().is_some_and(|id| self.plain_table(id).is_some()));
        (!met).then_some(Self { entries, ..self })
    }

    /// The tables that are kept as numbers, in the order of their ids.
    pub fn tables(&self) -> impl Iterator<Item = &(TableId, TableState)> {
        self.tables.iter()
    }

    /// The same, from this id on.
    pub fn tables_from(&self, first: TableId) -> impl Iterator<Item = &(TableId, TableState)> {
        self.tables.from(self.tables.position(|id| id.cmp(&first)))
    }

    /// How many tables are kept as numbers.
    #[must_use]
    pub fn table_count(&self) -> usize {
        self.tables.len()
    }

    /// All entries but the tables that are kept as numbers.
    #[must_use]
    pub fn entries(&self) -> &Entries {
        &self.entries
    }

    /// The state of a numbered table, however it is kept; `None` if there is no such table.
    #[must_use]
    #[inline]
    pub fn table(&self, id: TableId) -> Option<&TableState> {
        self.plain_table(id).or_else(|| self.entries.numbered(id))
    }

    /// The state of a table that is kept as a number.
    #[must_use]
    #[inline]
    pub fn plain_table(&self, id: TableId) -> Option<&TableState> {
        // Table ids usually have no gaps.
        match self.tables.guess(id.0 as usize) {
            Some((found, state)) if *found == id => Some(state),
            _ => self.tables.get(|other| other.cmp(&id)),
        }
    }

    /// All entries: the tables that are kept as numbers, then the others in listing order.
    pub fn all(&self) -> impl Iterator<Item = (Name, Entry)> {
        let tables = self.tables().map(|(id, state)| (Name::numbered(*id), Entry::table(None, state.clone())));
        tables.chain(self.entries.iter().map(|(name, entry)| (name.clone(), entry.clone())))
    }

    /// Decides actions and applies them, together or not at all. `allowed` may refuse each entry that is created or
    /// changed. Version and commit stay. Returns what changed.
    ///
    /// # Errors
    /// The first refusal; the root is then unchanged.
    pub fn decide(
        &mut self,
        actions: &[Action],
        allowed: impl Fn(&Name, &Entry) -> Result<(), Refusal>,
    ) -> Result<View, Refusal> {
        let view = View::decided(actions, self, allowed)?;
        self.take(&view);
        Ok(view)
    }

    /// Applies what was decided on a view of this root.
    pub fn take(&mut self, decided: &View) {
        for name in decided.gone().iter().flat_map(|namespace| self.entries.within(namespace)).collect::<Vec<_>>() {
            self.entries.set(name, None);
        }
        for (name, _, now) in decided.changes() {
            self.set(name, now);
        }
    }

    fn set(&mut self, name: &Name, now: Option<&Entry>) {
        match (name.number(), now.and_then(Entry::plain)) {
            (Some(id), Some(state)) => {
                self.entries.set(name.clone(), None);
                self.tables.insert(id, state.clone());
            }
            (number, _) => {
                if let Some(id) = number {
                    self.tables.remove(&id);
                }
                self.entries.set(name.clone(), now.cloned());
            }
        }
    }

    /// Creates a numbered table, gives it another state, or removes it.
    pub(crate) fn set_table(&mut self, id: TableId, state: Option<TableState>) {
        match state {
            state if self.entries.numbered(id).is_some() => self.entries.set_numbered(id, state),
            Some(state) => self.tables.insert(id, state),
            None => self.tables.remove(&id),
        }
    }
}

impl AtHand for Root {
    fn entry(&self, name: &Name) -> Option<Entry> {
        let plain = name.number().and_then(|id| self.plain_table(id));
        plain.map(|state| Entry::table(None, state.clone())).or_else(|| self.entries.get(name).cloned())
    }

    fn children(&self, namespace: Option<&Name>, after: Option<&Name>, limit: usize) -> Vec<(Name, Entry)> {
        let numbered = |first| self.tables_from(first).map(|(id, state)| (*id, state));
        self.entries.children(numbered, (namespace, after), limit)
    }
}

#[cfg(test)]
mod tests;
