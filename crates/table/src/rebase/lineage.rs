//! Which snapshots are in the history of which?

use std::collections::{BTreeMap, HashMap};

/// Answers after one pass over a table, for any number of branches. To walk through the history of each would take
/// minutes where thousands of branches have long ones.
pub(super) struct Lineage(HashMap<i64, (usize, usize)>);

impl Lineage {
    /// Of snapshots and their parents. Those in a circle, which only damaged metadata has, are in nobody's history.
    pub(super) fn of(snapshots: impl Iterator<Item = (i64, Option<i64>)>) -> Self {
        let all: BTreeMap<i64, Option<i64>> = snapshots.collect();
        let mut children = BTreeMap::<Option<i64>, Vec<i64>>::new();
        for (id, parent) in &all {
            children.entry(parent.filter(|parent| all.contains_key(parent))).or_default().push(*id);
        }
        let (mut spans, mut time) = (HashMap::with_capacity(all.len()), 0);
        // In depth: an ancestor is entered before its descendants, and left after them.
        let enter = |children: Option<Vec<i64>>| children.unwrap_or_default().into_iter().map(|id| (id, None));
        let mut steps: Vec<(i64, Option<usize>)> = enter(children.remove(&None)).collect();
        while let Some((id, entered)) = steps.pop() {
            time += 1;
            match entered {
                Some(entered) => drop(spans.insert(id, (entered, time))),
                None => {
                    steps.push((id, Some(time)));
                    steps.extend(enter(children.remove(&Some(id))));
                }
            }
        }
        Self(spans)
    }

    /// Whether `id` is `head`, or its parent, or the parent's parent, and so on.
    pub(super) fn has(&self, head: i64, id: i64) -> bool {
        match (self.0.get(&head), self.0.get(&id)) {
            (Some(head), Some(other)) => other.0 <= head.0 && head.1 <= other.1,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_lineage_answers_as_a_walk_does(parents in prop::collection::vec(prop::option::of(0..40_i64), 0..30)) {
            // Parents that are not there, and circles, too.
            let of = |id: i64| usize::try_from(id).ok().and_then(|at| parents.get(at)).copied();
            let lineage = Lineage::of(parents.iter().enumerate().map(|(id, parent)| (id as i64, *parent)));
            let ids = 0..parents.len() as i64;
            for head in ids.clone() {
                let walk: Vec<i64> = std::iter::successors(Some(head), |id| of(*id).flatten().filter(|id| of(*id).is_some())).take(31).collect();
                let is_circle = walk.len() > 30;
                for id in ids.clone() {
                    prop_assert_eq!(lineage.has(head, id), !is_circle && walk.contains(&id), "{} in that of {}", id, head);
                }
            }
        }
    }
}
