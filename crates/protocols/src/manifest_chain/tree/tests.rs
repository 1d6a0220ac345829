use std::cell::RefCell;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::manifest_chain::page::Home;

/// Pages in memory; each is missing until it has been requested once.
#[derive(Default)]
struct Shelf {
    pages: Vec<Bytes>,
    size: PageSize,
    fetched: RefCell<std::collections::BTreeSet<PageRef>>,
}

impl Pages for Shelf {
    fn page(&self, at: PageRef) -> Result<Arc<Page>, Missing> {
        if self.fetched.borrow().contains(&at) {
            return Ok(Page::read(&self.pages[at.offset as usize], at).unwrap());
        }
        Err(Missing(vec![at]))
    }
}

impl Packer for Shelf {
    fn add(&mut self, page: Page) -> PageRef {
        let mut bytes = Vec::new();
        page.encode(&mut bytes);
        let items = match &page {
            Page::Leaf(items) => items.len(),
            Page::Inner(children) => children.len(),
        };
        let least = if matches!(page, Page::Leaf(_)) { 1 } else { 2 };
        assert!(bytes.len() <= self.size.max || items <= least, "{} bytes, {items} items", bytes.len());
        let at = PageRef::of(Home::Version(0), matches!(page, Page::Leaf(_)), self.pages.len(), &bytes);
        self.pages.push(bytes.into());
        at
    }
}

impl Shelf {
    fn fetching<T>(&self, operation: impl Fn(&Self) -> Result<T, Missing>) -> T {
        loop {
            match operation(self) {
                Ok(done) => return done,
                Err(Missing(pages)) => {
                    assert!(!pages.is_empty());
                    self.fetched.borrow_mut().extend(pages);
                }
            }
        }
    }

    fn change(&mut self, root: Option<PageRef>, edits: &[Edit]) -> Option<PageRef> {
        let child = self.fetching(|shelf| apply(shelf, shelf.size, root, edits));
        child.map(|child| child.write(self))
    }

    fn depth(&self, at: PageRef) -> usize {
        match &*self.fetching(|shelf| shelf.page(at)) {
            Page::Leaf(_) => 1,
            Page::Inner(children) => {
                let depths: Vec<usize> = children.iter().map(|(_, child)| self.depth(*child)).collect();
                assert!(depths.windows(2).all(|pair| pair[0] == pair[1]), "{depths:?}");
                depths[0] + 1
            }
        }
    }
}

/// The longest possible keys, of the index by base object: two of them do not fit into a page.
#[test]
fn the_longest_keys_make_a_tree_too() {
    let long = |number: u32| Bytes::from(format!("b{}{number:08}", "x".repeat(2050 - 9)));
    let mut shelf = Shelf::default();
    let mut root = None;
    for half in [0, 1] {
        let edits: Vec<Edit> = (0..40).map(|n| (long(2 * n + half), Some(Bytes::new()))).collect();
        root = shelf.change(root, &edits);
    }
    let found = shelf.fetching(|shelf| range(shelf, root, (b"", b"c"), usize::MAX));
    assert_eq!(found.len(), 80);
    assert!(shelf.depth(root.unwrap()) < 12);
    let drops: Vec<Edit> = (0..80).map(|n| (long(n), None)).collect();
    assert_eq!(shelf.change(root, &drops), None);
}

fn key(number: u32) -> Bytes {
    Bytes::from(format!("key/{number:06}"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_tree_is_an_ordered_map(
        batches in prop::collection::vec(prop::collection::btree_map(0_u32..400, prop::option::of(0_usize..900), 1..80), 1..14),
        bounds in (0_u32..400, 0_u32..400, 0_usize..50),
        page_bytes in prop::sample::select(vec![0, 100, 300, PAGE_MAX]),
    ) {
        let shelf = Shelf { size: PageSize::of(page_bytes), ..Shelf::default() };
        let (mut shelf, mut root, mut model) = (shelf, None, BTreeMap::new());
        for batch in batches {
            let edits: Vec<Edit> = batch
                .iter()
                .map(|(number, length)| (key(*number), length.map(|length| Bytes::from(vec![7; length]))))
                .collect();
            root = shelf.change(root, &edits);
            for (key, value) in edits {
                match value {
                    Some(value) => model.insert(key, value),
                    None => model.remove(&key),
                };
            }
            prop_assert_eq!(root.is_none(), model.is_empty());
            if let Some(root) = root {
                shelf.depth(root);
            }
            let all = shelf.fetching(|shelf| range(shelf, root, (b"", b"\xff"), usize::MAX));
            prop_assert_eq!(all, model.clone().into_iter().collect::<Vec<_>>());
        }
        let (from, to, limit) = (key(bounds.0), key(bounds.1), bounds.2);
        let part = shelf.fetching(|shelf| range(shelf, root, (&from, &to), limit));
        let expected: Vec<_> =
            model.iter().filter(|(key, _)| (&from..&to).contains(key)).take(limit).map(|(k, v)| (k.clone(), v.clone())).collect();
        prop_assert_eq!(part, expected);
        prop_assert_eq!(shelf.fetching(|shelf| get(shelf, root, &from)), model.get(&from).cloned());
    }

    #[test]
    fn nonsense_is_no_page(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut sealed = bytes.clone();
        crate::wire::put_checksum(&mut sealed);
        if let Ok(page) = Page::decode(&sealed.into()) {
            let mut again = Vec::new();
            page.encode(&mut again);
            prop_assert_eq!(Page::decode(&again.into()).unwrap(), page);
        }
        // Without a matching checksum it is refused, except in one case of 2^32.
        prop_assert!(Page::decode(&bytes.into()).is_err());
    }
}

#[test]
fn a_change_writes_one_page_per_level_and_rising_keys_fill_their_pages() {
    let (mut shelf, mut root) = (Shelf::default(), None);
    let value = Bytes::from(vec![1; 60]);
    for batch in 0..1000_u32 {
        let edits: Vec<Edit> = (0..100).map(|n| (key(batch * 100 + n), Some(value.clone()))).collect();
        root = shelf.change(root, &edits);
    }
    let depth = shelf.depth(root.unwrap());
    let mut leaves = 0;
    let mut count = |at: PageRef| {
        leaves += usize::from(at.leaf);
        true
    };
    shelf.fetching(|shelf| references(shelf, root.unwrap(), &mut |_| true));
    references(&shelf, root.unwrap(), &mut count).unwrap();
    // 100,000 items of 76 bytes: full pages hold 53.
    assert!((1887..=2100).contains(&leaves), "{leaves}");
    assert_eq!(depth, 3);
    let before = shelf.pages.len();
    root = shelf.change(root, &[(key(50_000), Some(Bytes::from_static(b"new")))]);
    assert_eq!(shelf.pages.len() - before, depth);
    assert_eq!(shelf.fetching(|shelf| get(shelf, root, &key(50_000))), Some(Bytes::from_static(b"new")));
}

/// A listing with an empty cache takes few rounds of requests, and requests no unneeded page.
#[test]
fn pages_of_a_listing_are_asked_for_together() {
    let mut shelf = Shelf::default();
    let key = |number: u32| Key::from(format!("{number:08}").into_bytes());
    let edits: Vec<Edit> = (0..20_000).map(|number| (key(number), Some(Bytes::from(vec![7; 40])))).collect();
    let root = shelf.change(None, &edits);
    let cold = |limit: usize| {
        shelf.fetched.borrow_mut().clear();
        let mut rounds = 0;
        loop {
            match range(&shelf, root, (b"0", b"1"), limit) {
                Ok(found) => return (found.len(), rounds, shelf.fetched.borrow().len()),
                Err(Missing(missing)) => {
                    rounds += 1;
                    let before = shelf.fetched.borrow().len();
                    shelf.fetched.borrow_mut().extend(missing.iter().copied());
                    assert_eq!(shelf.fetched.borrow().len(), before + missing.len(), "none is requested twice");
                }
            }
        }
    };
    let (all, rounds, pages) = cold(usize::MAX);
    assert_eq!((all, pages), (20_000, shelf.pages.len()));
    assert!(rounds <= pages / 12, "{rounds} rounds for {pages} pages");
    for limit in [1, 10, 100, 1000] {
        let (found, rounds, pages) = cold(limit);
        // At most four levels, and leaves of 60 items or more.
        assert!(found == limit && rounds <= 3 + limit.div_ceil(64), "{rounds} rounds for {limit}");
        assert!(pages <= 3 + limit.div_ceil(60), "{pages} pages for {limit}");
    }
}
