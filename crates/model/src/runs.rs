//! An ordered map whose copies share what is equal in them, in runs of neighbouring rows.

use std::cmp::Ordering;
use std::sync::Arc;

/// Rows by key. A run has about `RUN` of them: a change copies one run, if it is shared, and
/// one reference for each other run.
#[derive(Clone, Debug)]
pub(crate) struct Runs<K, V, const RUN: usize> {
    /// Ordered by key, each key once. No run is empty.
    runs: Vec<Arc<Vec<(K, V)>>>,
    /// The number of rows in all runs: every attempt to commit needs it.
    count: usize,
}

impl<K: PartialEq, V: PartialEq, const RUN: usize> PartialEq for Runs<K, V, RUN> {
    fn eq(&self, other: &Self) -> bool {
        // Equal maps may be divided into runs differently.
        self.count == other.count && self.iter().eq(other.iter())
    }
}

impl<K: Eq, V: Eq, const RUN: usize> Eq for Runs<K, V, RUN> {}

impl<K, V, const RUN: usize> Runs<K, V, RUN> {
    pub(crate) const fn empty() -> Self {
        Self { runs: Vec::new(), count: 0 }
    }

    /// All rows, in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &(K, V)> {
        self.runs.iter().flat_map(|run| run.iter())
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// The row of this index, if all runs before it have their initial length. Otherwise another row, or none.
    pub(crate) fn guess(&self, index: usize) -> Option<&(K, V)> {
        self.runs.get(index / RUN).and_then(|run| run.get(index % RUN))
    }

    /// The position of the first row that is not before the one searched. `order` compares a key with it.
    pub(crate) fn position(&self, order: impl Fn(&K) -> Ordering) -> (usize, usize) {
        let first = self.run_of(&order);
        let before = |(key, _): &(K, V)| order(key) == Ordering::Less;
        (first, self.runs.get(first).map_or(0, |run| run.partition_point(before)))
    }

    /// The rows from a [`position`](Self::position) on.
    pub(crate) fn from(&self, (run, slot): (usize, usize)) -> impl Iterator<Item = &(K, V)> {
        self.runs[run..].iter().flat_map(|run| run.iter()).skip(slot)
    }

    /// The value whose key compares equal.
    pub(crate) fn get(&self, order: impl Fn(&K) -> Ordering) -> Option<&V> {
        let run = self.runs.get(self.run_of(&order))?;
        run.binary_search_by(|(key, _)| order(key)).ok().map(|slot| &run[slot].1)
    }

    /// The run that contains a key, or would contain it.
    fn run_of(&self, order: &impl Fn(&K) -> Ordering) -> usize {
        self.runs.partition_point(|rows| order(&rows[0].0) != Ordering::Greater).saturating_sub(1)
    }
}

impl<K: Ord + Clone, V: Clone, const RUN: usize> Runs<K, V, RUN> {
    /// These rows; `None` if they are not in strictly rising order.
    pub(crate) fn new(rows: Vec<(K, V)>) -> Option<Self> {
        if !rows.windows(2).all(|pair| pair[0].0 < pair[1].0) {
            return None;
        }
        let (count, mut rest) = (rows.len(), rows.into_iter().peekable());
        let mut runs = Vec::with_capacity(count.div_ceil(RUN));
        while rest.peek().is_some() {
            runs.push(Arc::new(rest.by_ref().take(RUN).collect()));
        }
        Some(Self { runs, count })
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        let index = self.run_of(&|other: &K| other.cmp(&key));
        let Some(run) = self.runs.get_mut(index) else {
            self.runs.push(Arc::new(vec![(key, value)]));
            self.count += 1;
            return;
        };
        match run.binary_search_by(|(other, _)| other.cmp(&key)) {
            Ok(slot) => Arc::make_mut(run)[slot].1 = value,
            Err(slot) => {
                // Copies the run only if it is shared.
                let rows = Arc::make_mut(run);
                rows.insert(slot, (key, value));
                if rows.len() > 2 * RUN {
                    let rest = rows.split_off(RUN);
                    self.runs.insert(index + 1, Arc::new(rest));
                }
                self.count += 1;
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &K) {
        let index = self.run_of(&|other: &K| other.cmp(key));
        let Some(run) = self.runs.get_mut(index) else { return };
        let Ok(slot) = run.binary_search_by(|(other, _)| other.cmp(key)) else { return };
        self.count -= 1;
        if run.len() == 1 {
            self.runs.remove(index);
        } else {
            Arc::make_mut(run).remove(slot);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn runs_are_an_ordered_map(
            first in prop::collection::btree_map(0_u32..200, 0_u64..3, 0..120),
            edits in prop::collection::vec((0_u32..200, prop::option::of(0_u64..3)), 0..300),
        ) {
            let mut map: BTreeMap<u32, u64> = first;
            let rows = |map: &BTreeMap<_, _>| map.clone().into_iter().collect::<Vec<_>>();
            let mut runs = Runs::<u32, u64, 8>::new(rows(&map)).unwrap();
            let before = (runs.clone(), rows(&map));
            for (key, value) in edits {
                match value {
                    None => {
                        runs.remove(&key);
                        map.remove(&key);
                    }
                    Some(value) => {
                        runs.insert(key, value);
                        map.insert(key, value);
                    }
                }
                prop_assert_eq!(runs.get(|other| other.cmp(&key)), map.get(&key));
                let from: Vec<_> = runs.from(runs.position(|other| other.cmp(&key))).cloned().collect();
                prop_assert_eq!(from, map.range(key..).map(|(key, value)| (*key, *value)).collect::<Vec<_>>());
            }
            prop_assert_eq!(runs.iter().cloned().collect::<Vec<_>>(), rows(&map));
            prop_assert_eq!(runs.len(), map.len());
            // However they are divided.
            prop_assert_eq!(&runs, &Runs::new(rows(&map)).unwrap());
            // The copy is unchanged.
            prop_assert_eq!(before.0.iter().cloned().collect::<Vec<_>>(), before.1);
        }
    }

    #[test]
    fn rows_out_of_order_are_no_runs() {
        assert_eq!(Runs::<u32, u32, 8>::new(vec![(1, 0), (1, 0)]), None);
        assert_eq!(Runs::<u32, u32, 8>::new(vec![(2, 0), (1, 0)]), None);
    }
}
