//! The versions that a catalog has had, derived from everything ever written to its store.
//!
//! Checkers compare them with the answers that each process got. Each protocol defines how its versions follow from the
//! writes ([`Design::versions`](crate::registry::Design::versions)).

mod frozen;

use std::cmp::Ordering;
use std::collections::BTreeMap;

use glidepath_env::{Key, Payload};
use glidepath_model::{CommitId, Entry, Name, Root, Version};

pub use frozen::{Frozen, at_once};

/// A write or a deletion that took effect.
#[derive(Clone, Debug)]
pub struct Write {
    /// The object's key.
    pub key: Key,
    /// The whole object after the write; `None` after a deletion.
    pub object: Option<Payload>,
}

/// A version of a catalog.
#[derive(Clone, Debug)]
pub struct Made {
    /// Its number.
    pub version: Version,
    /// The index of the write that made it.
    pub write: usize,
    /// The commit that made it, if that is how answers name it: the protocol has no versions.
    pub commit: Option<CommitId>,
    /// The entries that differ from the version before: new or changed ones, and `None` for removed ones. For the first
    /// version: all entries.
    pub changed: BTreeMap<Name, Option<Entry>>,
}

/// The first write under each key: everything that a store whose objects are never overwritten has held, including
/// deleted objects.
#[must_use]
pub fn first_written(writes: &[Write]) -> BTreeMap<Key, Payload> {
    let mut first = BTreeMap::new();
    for Write { key, object } in writes {
        if let Some(object) = object {
            first.entry(key.clone()).or_insert_with(|| object.clone());
        }
    }
    first
}

/// The entries in which a root differs from the one before.
pub(crate) fn changed(before: &Root, now: &Root) -> BTreeMap<Name, Option<Entry>> {
    let table =
        |(id, state): &(_, _)| (Name::numbered(*id), Entry::table(None, glidepath_model::TableState::clone(state)));
    let mut all = BTreeMap::new();
    let (before_tables, now_tables) = (before.tables(), now.tables());
    merged(
        before_tables,
        now_tables,
        |one, other| one.0.cmp(&other.0),
        |gone, new| match (gone, new) {
            (Some(gone), None) => drop(all.insert(Name::numbered(gone.0), None)),
            (gone, Some(new)) if gone.is_none_or(|gone| gone.1 != new.1) => {
                let (name, entry) = table(new);
                all.insert(name, Some(entry));
            }
            _ => {}
        },
    );
    let place = |one: &(&Name, &Entry), other: &(&Name, &Entry)| one.0.place().cmp(&other.0.place());
    merged(before.entries().iter(), now.entries().iter(), place, |gone, new| match (gone, new) {
        // A table that is now kept as a number was not removed.
        (Some((name, _)), None) => drop(all.entry(name.clone()).or_insert(None)),
        (gone, Some((name, entry))) if gone.is_none_or(|(_, gone)| gone != entry) => {
            all.insert(name.clone(), Some(entry.clone()));
        }
        _ => {}
    });
    all
}

/// Merges two ordered sequences; reports each item that is in either.
fn merged<T>(
    one: impl Iterator<Item = T>,
    other: impl Iterator<Item = T>,
    order: impl Fn(&T, &T) -> Ordering,
    mut tell: impl FnMut(Option<T>, Option<T>),
) {
    let (mut one, mut other) = (one.peekable(), other.peekable());
    loop {
        let next = match (one.peek(), other.peek()) {
            (None, None) => return,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(left), Some(right)) => order(left, right),
        };
        let left = if next.is_le() { one.next() } else { None };
        let right = if next.is_ge() { other.next() } else { None };
        tell(left, right);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use glidepath_model::{TableId, TableState};
    use proptest::prelude::*;

    use super::*;
    use crate::entry::tests::trees;

    fn roots() -> impl Strategy<Value = Root> {
        (trees(), prop::collection::btree_map(0_u32..300, 1_usize..3, 0..5)).prop_map(|(entries, tables)| {
            let tables = tables.into_iter().filter(|(id, _)| !entries.has_other(TableId(*id)));
            let tables = tables.filter(|(id, _)| entries.numbered(TableId(*id)).is_none());
            let tables = tables.map(|(id, partitions)| (TableId(id), TableState::new(partitions))).collect();
            Root::from_parts(Version(1), CommitId(1), tables).unwrap().with_entries(entries).unwrap()
        })
    }

    proptest! {
        #[test]
        fn what_changed_leads_from_one_root_to_the_other(before in roots(), now in roots()) {
            let all = |root: &Root| root.all().collect::<BTreeMap<Name, Entry>>();
            let (old, new) = (all(&before), all(&now));
            let changed = changed(&before, &now);
            for name in old.keys().chain(new.keys()).collect::<BTreeSet<_>>() {
                let expected = (old.get(name) != new.get(name)).then(|| new.get(name).cloned());
                prop_assert_eq!(changed.get(name).cloned(), expected, "{}", name);
            }
            prop_assert!(changed.keys().all(|name| old.contains_key(name) || new.contains_key(name)));
        }
    }
}
