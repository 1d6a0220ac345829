//! The state of a catalog at one version: which tables there are and where each stands.

use smallvec::SmallVec;

use crate::{CommitId, MetadataId, TableId, Version};

/// A version per partition. Most tables of the published experiments have one partition, hence the inline space.
pub type PartitionVersions = SmallVec<[Version; 1]>;

/// Where one table stands.
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
        // Copies the versions as a block; the derived clone would go one by one.
        Self { version: self.version, metadata: self.metadata, partitions: SmallVec::from_slice(&self.partitions) }
    }
}

impl TableState {
    /// A new table with so many partitions (at least one), nothing committed to it.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    /// Counts the commits to the catalog, whatever table they were for.
    pub version: Version,
    /// The commit that made this version.
    pub commit: CommitId,
    /// Ordered by table, each table once.
    tables: Vec<(TableId, TableState)>,
}

impl Root {
    /// A catalog that nobody has committed to: no tables, version 0.
    #[must_use]
    pub fn empty() -> Self {
        Self { version: Version(0), commit: CommitId(0), tables: Vec::new() }
    }

    /// A root of these parts. `None` if the tables are not in strictly rising order, or one has no partition: then it
    /// is not a catalog.
    #[must_use]
    pub fn from_parts(version: Version, commit: CommitId, tables: Vec<(TableId, TableState)>) -> Option<Self> {
        let ordered = tables.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let partitioned = tables.iter().all(|(_, state)| !state.partitions.is_empty());
        (ordered && partitioned).then_some(Self { version, commit, tables })
    }

    /// The tables, in the order of their ids.
    #[must_use]
    pub fn tables(&self) -> &[(TableId, TableState)] {
        &self.tables
    }

    /// Where a table stands; `None` if there is no such table.
    #[must_use]
    pub fn table(&self, id: TableId) -> Option<&TableState> {
        self.slot(id).ok().map(|slot| &self.tables[slot].1)
    }

    pub(crate) fn insert(&mut self, id: TableId, state: TableState) {
        match self.slot(id) {
            Ok(slot) => self.tables[slot].1 = state,
            Err(slot) => self.tables.insert(slot, (id, state)),
        }
    }

    pub(crate) fn remove(&mut self, id: TableId) {
        if let Ok(slot) = self.slot(id) {
            self.tables.remove(slot);
        }
    }

    fn slot(&self, id: TableId) -> Result<usize, usize> {
        // Tables are usually numbered without gaps, so the slot is usually the number itself.
        match self.tables.get(id.0 as usize) {
            Some((found, _)) if *found == id => Ok(id.0 as usize),
            _ => self.tables.binary_search_by_key(&id, |(table, _)| *table),
        }
    }
}
