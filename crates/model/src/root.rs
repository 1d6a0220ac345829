//! The state of a catalog at one version: which tables there are and where each stands.

use std::sync::Arc;

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
///
/// Roots that follow one another share the tables between them that are the same, a run of neighbours at a time: in a simulation
/// thousands of clients each hold the root that they began with.
#[derive(Clone, Debug)]
pub struct Root {
    /// Counts the commits to the catalog, whatever table they were for.
    pub version: Version,
    /// The commit that made this version.
    pub commit: CommitId,
    /// Ordered by table, each table once. No run is empty.
    runs: Vec<Arc<[Row]>>,
    /// Of all runs together: every attempt to commit asks for it.
    count: usize,
}

type Row = (TableId, TableState);

/// So many tables make a run. A change copies one run, and a reference to each other one.
const RUN: usize = 8;

impl PartialEq for Root {
    fn eq(&self, other: &Self) -> bool {
        // Runs may be cut differently in equal roots.
        let outside = |root: &Self| (root.version, root.commit, root.count);
        outside(self) == outside(other) && self.tables().eq(other.tables())
    }
}

impl Eq for Root {}

impl Root {
    /// A catalog that nobody has committed to: no tables, version 0.
    #[must_use]
    pub fn empty() -> Self {
        Self { version: Version(0), commit: CommitId(0), runs: Vec::new(), count: 0 }
    }

    /// A root of these parts. `None` if the tables are not in strictly rising order, or one has no partition: then it
    /// is not a catalog.
    #[must_use]
    pub fn from_parts(version: Version, commit: CommitId, tables: Vec<(TableId, TableState)>) -> Option<Self> {
        let ordered = tables.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let partitioned = tables.iter().all(|(_, state)| !state.partitions.is_empty());
        let (count, mut rest) = (tables.len(), tables.into_iter().peekable());
        let mut runs = Vec::with_capacity(count.div_ceil(RUN));
        while rest.peek().is_some() {
            runs.push(rest.by_ref().take(RUN).collect());
        }
        (ordered && partitioned).then_some(Self { version, commit, runs, count })
    }

    /// The tables, in the order of their ids.
    pub fn tables(&self) -> impl Iterator<Item = &(TableId, TableState)> {
        self.runs.iter().flat_map(|run| run.iter())
    }

    /// How many tables there are.
    #[must_use]
    pub fn table_count(&self) -> usize {
        self.count
    }

    /// Where a table stands; `None` if there is no such table.
    #[must_use]
    pub fn table(&self, id: TableId) -> Option<&TableState> {
        // Tables are usually numbered without gaps.
        let number = id.0 as usize;
        match self.runs.get(number / RUN).and_then(|run| run.get(number % RUN)) {
            Some((found, state)) if *found == id => return Some(state),
            _ => {}
        }
        let run = self.runs.get(self.run_of(id))?;
        slot(run, id).ok().map(|slot| &run[slot].1)
    }

    pub(crate) fn insert(&mut self, id: TableId, state: TableState) {
        let index = self.run_of(id);
        let Some(run) = self.runs.get_mut(index) else {
            self.runs.push([(id, state)].into());
            self.count += 1;
            return;
        };
        match slot(run, id) {
            Ok(slot) => Arc::make_mut(run)[slot].1 = state,
            Err(slot) => {
                let (before, after) = run.split_at(slot);
                let rows: Vec<Row> = before.iter().cloned().chain([(id, state)]).chain(after.iter().cloned()).collect();
                let cut = if rows.len() > 2 * RUN { RUN } else { rows.len() };
                let parts = [&rows[..cut], &rows[cut..]].into_iter().filter(|part| !part.is_empty());
                self.runs.splice(index..=index, parts.map(Arc::from));
                self.count += 1;
            }
        }
    }

    pub(crate) fn remove(&mut self, id: TableId) {
        let index = self.run_of(id);
        let Some(run) = self.runs.get_mut(index) else { return };
        let Ok(slot) = slot(run, id) else { return };
        self.count -= 1;
        if run.len() == 1 {
            self.runs.remove(index);
        } else {
            *run = [&run[..slot], &run[slot + 1..]].concat().into();
        }
    }

    /// The run that a table is in, or would be.
    fn run_of(&self, id: TableId) -> usize {
        self.runs.partition_point(|rows| rows[0].0 <= id).saturating_sub(1)
    }
}

fn slot(run: &[Row], id: TableId) -> Result<usize, usize> {
    run.binary_search_by_key(&id, |(table, _)| *table)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_root_is_an_ordered_map(
            first in prop::collection::btree_map(0_u32..200, 1_usize..3, 0..120),
            edits in prop::collection::vec((0_u32..200, 0_usize..3), 0..300),
        ) {
            let state = |partitions| TableState::new(partitions);
            let mut map: BTreeMap<TableId, TableState> =
                first.into_iter().map(|(id, partitions)| (TableId(id), state(partitions))).collect();
            let rows = |map: &BTreeMap<_, _>| map.clone().into_iter().collect::<Vec<_>>();
            let mut root = Root::from_parts(Version(1), CommitId(1), rows(&map)).unwrap();
            let before = (root.clone(), rows(&map));
            for (id, partitions) in edits {
                match partitions {
                    0 => {
                        root.remove(TableId(id));
                        map.remove(&TableId(id));
                    }
                    _ => {
                        root.insert(TableId(id), state(partitions));
                        map.insert(TableId(id), state(partitions));
                    }
                }
                prop_assert_eq!(root.table(TableId(id)), map.get(&TableId(id)));
            }
            prop_assert_eq!(root.tables().cloned().collect::<Vec<_>>(), rows(&map));
            prop_assert_eq!(root.table_count(), map.len());
            prop_assert!((0..200).all(|id| root.table(TableId(id)) == map.get(&TableId(id))));
            // However its runs are cut.
            prop_assert_eq!(&root, &Root::from_parts(Version(1), CommitId(1), rows(&map)).unwrap());
            // What was copied has not changed.
            prop_assert_eq!(before.0.tables().cloned().collect::<Vec<_>>(), before.1);
        }
    }
}
