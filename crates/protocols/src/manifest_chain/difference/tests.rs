use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::manifest_chain::page::Home;
use crate::manifest_chain::tree::{Edit, Missing, Packer, PageSize, Pages, apply};

/// Pages in memory.
#[derive(Default)]
struct Shelf(Vec<Arc<Page>>);

impl Pages for Shelf {
    fn page(&self, at: PageRef) -> Result<Arc<Page>, Missing> {
        Ok(Arc::clone(&self.0[at.offset as usize]))
    }
}

impl Packer for Shelf {
    fn add(&mut self, page: Page) -> PageRef {
        let leaf = matches!(page, Page::Leaf(_));
        self.0.push(Arc::new(page));
        PageRef { home: Home::Version(0), leaf, offset: self.0.len() as u32 - 1, length: 0, checksum: None }
    }
}

type Batch = BTreeMap<u32, Option<usize>>;
type Map = BTreeMap<Key, Bytes>;

impl Shelf {
    fn change(&mut self, root: Option<PageRef>, batch: &Batch, map: &mut Map) -> Option<PageRef> {
        let edit = |(number, length): (&u32, &Option<usize>)| {
            (Key::from(format!("key/{number:06}")), length.map(|length| Bytes::from(vec![length as u8; length])))
        };
        let edits: Vec<Edit> = batch.iter().map(edit).collect();
        for (key, value) in &edits {
            match value {
                Some(value) => map.insert(key.clone(), value.clone()),
                None => map.remove(key),
            };
        }
        let child = apply(self, PageSize::default(), root, &edits).unwrap();
        child.map(|child| child.write(self))
    }

    /// The results of a walk, and how many pages of the tree now it opened.
    fn walk(&self, before: Option<PageRef>, now: Option<PageRef>) -> (Vec<Step>, usize) {
        let (mut walk, mut found, mut opened) = (Walk::new(before, now), Vec::new(), 0);
        loop {
            match walk.step(|_| false) {
                Step::Done => return (found, opened),
                Step::Open { before, now } => {
                    opened += usize::from(now.is_some());
                    let page = |at: PageRef| (at, Arc::clone(&self.0[at.offset as usize]));
                    walk.opened(before.map(page), now.map(|(at, _)| page(at)));
                }
                differs => found.push(differs),
            }
        }
    }
}

fn batches() -> impl Strategy<Value = (Batch, Batch)> {
    let batch = |most| prop::collection::btree_map(0_u32..2000, prop::option::of(0_usize..900), 0..most);
    (batch(1500), batch(8))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn a_walk_finds_what_differs_and_leaves_out_what_is_shared((first, second) in batches()) {
        let (mut shelf, mut map) = (Shelf::default(), Map::new());
        let root = shelf.change(None, &first, &mut map);
        let (old, pages) = (map.clone(), shelf.0.len());
        let next = shelf.change(root, &second, &mut map);
        let fresh = shelf.0.len() - pages;
        for (from, to, (old, new)) in [(root, next, (&old, &map)), (next, root, (&map, &old)), (None, next, (&Map::new(), &map))] {
            let keys: std::collections::BTreeSet<&Key> = old.keys().chain(new.keys()).collect();
            let differ = keys.into_iter().filter(|key| old.get(*key) != new.get(*key));
            let wanted: Vec<Step> = differ
                .map(|key| Step::Differs { key: key.clone(), before: old.get(key).cloned(), now: new.get(key).cloned() })
                .collect();
            prop_assert_eq!(shelf.walk(from, to).0, wanted);
        }
        // All pages that were not written again are shared; if the height changed, a few more are opened.
        let opened = shelf.walk(root, next).1;
        prop_assert!(opened <= fresh + 8, "{} of {} pages, {} new", opened, shelf.0.len(), fresh);
    }
}
