//! An ordered map in pages that never change: a change writes new pages from the leaf up to the root, and nothing else.
//!
//! This code makes no requests. If a page is not in memory, the operation stops and names it; the caller fetches it and
//! calls again.

use std::sync::Arc;

use bytes::Bytes;

use super::page::{Key, PAGE_OVERHEAD, Page, PageRef, REFERENCE};

/// The pages in memory.
pub(crate) trait Pages {
    /// The page, or the request to fetch it.
    fn page(&self, at: PageRef) -> Result<Arc<Page>, Missing>;
}

/// Pages that must be fetched before the operation can continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Missing(pub(crate) Vec<PageRef>);

/// The maximum size of a page in bytes. A page with the minimum number of items (one in a leaf, two otherwise) may be
/// larger.
pub(crate) const PAGE_MAX: usize = 4096;

/// The size of new pages. Writers of one tree may use different sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageSize {
    max: usize,
}

impl Default for PageSize {
    fn default() -> Self {
        Self { max: PAGE_MAX }
    }
}

impl PageSize {
    /// At most this many bytes, within the limits of a page.
    pub(crate) fn of(bytes: usize) -> Self {
        Self { max: bytes.clamp(4 * PAGE_OVERHEAD, PAGE_MAX) }
    }

    fn room(self) -> usize {
        self.max - PAGE_OVERHEAD
    }

    /// A new page with fewer bytes is merged with a neighbour.
    fn least(self) -> usize {
        self.max / 4
    }
}

/// The new value of a key, or its removal.
pub(crate) type Edit = (Key, Option<Bytes>);

/// A page below another: stored, or still to be written.
#[derive(Clone, Debug)]
pub(crate) enum Child {
    Stored(PageRef),
    New(Box<Node>),
}

/// A page to be written.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Leaf(Vec<(Key, Bytes)>),
    Inner(Vec<(Key, Child)>),
}

/// Nodes with the least keys they may hold, in rising order of keys.
type Row = Vec<(Key, Child)>;

/// The value of a key.
pub(crate) fn get(pages: &impl Pages, root: Option<PageRef>, key: &[u8]) -> Result<Option<Bytes>, Missing> {
    let Some(mut at) = root else { return Ok(None) };
    loop {
        match &*pages.page(at)? {
            Page::Leaf(items) => {
                let found = items.binary_search_by(|(item, _)| item.as_ref().cmp(key));
                return Ok(found.ok().map(|index| items[index].1.clone()));
            }
            Page::Inner(children) => at = children[child_of(children, key)].1,
        }
    }
}

/// The maximum number of pages requested before they are needed.
const MOST_AHEAD: usize = 15;

/// A page of 4 KiB has fewer items than this: more items are certainly in other pages.
const ITEMS_OF_A_LEAF: usize = 128;

/// Up to `limit` items from `from` on (inclusive) and before `to`, in rising order of keys.
pub(crate) fn range(
    pages: &impl Pages,
    root: Option<PageRef>,
    (from, to): (&[u8], &[u8]),
    limit: usize,
) -> Result<Vec<(Key, Bytes)>, Missing> {
    let mut found = Vec::new();
    let Some(root) = root else { return Ok(found) };
    // Pages still to be read, the next one last.
    let mut ahead = vec![root];
    while let Some(at) = ahead.pop() {
        let page = pages.page(at).map_err(|missing| with_next(missing, pages, &ahead, limit - found.len()))?;
        match &*page {
            Page::Leaf(items) => {
                let first = items.partition_point(|(key, _)| key.as_ref() < from);
                for (key, value) in &items[first..] {
                    if key.as_ref() >= to || found.len() == limit {
                        return Ok(found);
                    }
                    found.push((key.clone(), value.clone()));
                }
            }
            Page::Inner(children) => {
                let first = child_of(children, from);
                let below = children[first..].iter().take_while(|(least, _)| least.as_ref() < to);
                let mut below: Vec<PageRef> = below.map(|(_, child)| *child).collect();
                // The least key of the first child is only a bound: the child may also hold smaller keys.
                if below.is_empty() {
                    below.push(children[first].1);
                }
                ahead.extend(below.into_iter().rev());
            }
        }
    }
    Ok(found)
}

/// A missing page and the pages after it that will be needed too, so that all are fetched at the same time.
fn with_next(Missing(mut missing): Missing, pages: &impl Pages, ahead: &[PageRef], wanted: usize) -> Missing {
    let mut covered = missing.iter().map(|at| items_below(*at)).sum::<usize>();
    for at in ahead.iter().rev().take(MOST_AHEAD) {
        if covered >= wanted {
            break;
        }
        covered += items_below(*at);
        missing.extend(pages.page(*at).is_err().then_some(*at));
    }
    Missing(missing)
}

/// An upper bound of the items below a page.
fn items_below(at: PageRef) -> usize {
    if at.leaf { ITEMS_OF_A_LEAF } else { ITEMS_OF_A_LEAF * ITEMS_OF_A_LEAF }
}

/// The tree after these edits (in rising order, each key once): its new root, `None` if nothing is left.
pub(crate) fn apply(
    pages: &impl Pages,
    size: PageSize,
    root: Option<PageRef>,
    edits: &[Edit],
) -> Result<Option<Child>, Missing> {
    debug_assert!(edits.windows(2).all(|pair| pair[0].0 < pair[1].0));
    let mut row = match root {
        Some(root) => rebuild(pages, size, root, edits)?,
        None => leaves(size, &[], edits),
    };
    while row.len() > 1 {
        row = split(size, row, false).into_iter().map(|children| (children[0].0.clone(), inner(children))).collect();
    }
    let Some((_, mut child)) = row.pop() else { return Ok(None) };
    // A root with one child is not needed.
    loop {
        let below = match &child {
            Child::New(node) => match &**node {
                Node::Inner(children) if children.len() == 1 => children[0].1.clone(),
                _ => return Ok(Some(child)),
            },
            Child::Stored(at) => match &*pages.page(*at)? {
                Page::Inner(children) if children.len() == 1 => Child::Stored(children[0].1),
                _ => return Ok(Some(child)),
            },
        };
        child = below;
    }
}

/// A stored page after these edits: no page, one, or several.
fn rebuild(pages: &impl Pages, size: PageSize, at: PageRef, edits: &[Edit]) -> Result<Row, Missing> {
    let page = pages.page(at)?;
    let children = match &*page {
        Page::Leaf(items) => return Ok(leaves(size, items, edits)),
        Page::Inner(children) => children,
    };
    let (mut row, mut missing) = (Row::new(), Vec::new());
    let (mut rest, mut last) = (edits, 0);
    for (index, (least, child)) in children.iter().enumerate() {
        let next = children.get(index + 1).map(|(next, _)| next);
        let mine = next.map_or(rest.len(), |next| rest.partition_point(|(key, _)| key < next));
        let (edits, after) = rest.split_at(mine);
        rest = after;
        if edits.is_empty() {
            row.push((least.clone(), Child::Stored(*child)));
            continue;
        }
        last = index;
        match rebuild(pages, size, *child, edits) {
            Ok(below) => row.extend(below),
            Err(Missing(more)) => missing.extend(more),
        }
    }
    if !missing.is_empty() {
        return Err(Missing(missing));
    }
    let grows_at_end = last + 1 == children.len();
    let row = merged(pages, size, row)?;
    Ok(split(size, row, grows_at_end).into_iter().map(|children| (children[0].0.clone(), inner(children))).collect())
}

fn inner(children: Row) -> Child {
    Child::New(Box::new(Node::Inner(children)))
}

/// The leaves that hold these items after these edits.
fn leaves(size: PageSize, items: &[(Key, Bytes)], edits: &[Edit]) -> Row {
    let beyond = |(last, _): &(Key, Bytes)| edits.last().is_some_and(|(edit, _)| edit >= last);
    let grows_at_end = items.last().is_none_or(beyond);
    let leaf = |items: Vec<(Key, Bytes)>| (items[0].0.clone(), Child::New(Box::new(Node::Leaf(items))));
    split(size, edited(items, edits), grows_at_end).into_iter().map(leaf).collect()
}

/// These items after these edits, both in rising order of keys.
pub(super) fn edited(items: &[(Key, Bytes)], edits: &[Edit]) -> Vec<(Key, Bytes)> {
    let mut all = Vec::with_capacity(items.len() + edits.len());
    let mut old = items.iter().peekable();
    for (key, value) in edits {
        while let Some(item) = old.next_if(|(other, _)| other < key) {
            all.push(item.clone());
        }
        old.next_if(|(other, _)| other == key);
        if let Some(value) = value {
            all.push((key.clone(), value.clone()));
        }
    }
    all.extend(old.cloned());
    all
}

/// Merges new pages that are nearly empty with a neighbour.
fn merged(pages: &impl Pages, size: PageSize, row: Row) -> Result<Row, Missing> {
    let mut done: Row = Vec::with_capacity(row.len());
    for (least, child) in row {
        let small = |child: &Child| matches!(child, Child::New(node) if node.bytes() < size.least());
        let fits = done.last().is_some_and(|(_, before)| small(before) || small(&child));
        let Some((first, before)) = done.pop_if(|_| fits) else {
            done.push((least, child));
            continue;
        };
        match (before.open(pages)?, child.open(pages)?) {
            (Node::Leaf(mut items), Node::Leaf(more)) => {
                items.extend(more);
                let leaf = |items: Vec<_>| Child::New(Box::new(Node::Leaf(items)));
                done.extend(named(first, split(size, items, false), leaf));
            }
            (Node::Inner(mut children), Node::Inner(more)) => {
                children.extend(more);
                done.extend(named(first, split(size, children, false), inner));
            }
            // Pages of one row have the same height.
            (before, after) => {
                done.push((first, Child::New(Box::new(before))));
                done.push((least, Child::New(Box::new(after))));
            }
        }
    }
    Ok(done)
}

/// Pages of these parts; the first keeps its bound.
fn named<T>(first: Key, parts: Vec<Vec<(Key, T)>>, page: impl Fn(Vec<(Key, T)>) -> Child) -> Row {
    let mut row: Row = parts.into_iter().map(|part| (part[0].0.clone(), page(part))).collect();
    if let Some(head) = row.first_mut() {
        head.0 = first;
    }
    row
}

/// Divides items into pages: as few as possible, evenly filled. At the end of the tree pages are filled from the front,
/// so that writing in rising order leaves full pages.
fn split<T: Weighed>(size: PageSize, items: Vec<(Key, T)>, grows_at_end: bool) -> Vec<Vec<(Key, T)>> {
    let room = size.room();
    if grows_at_end {
        filled_to(room, items, (T::LEAST, room), weight)
    } else {
        cut_to(items, (T::LEAST, room), weight)
    }
}

/// As few parts as can hold the items, evenly filled.
pub(super) fn cut<T>(items: Vec<T>, room: usize, weight: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    cut_to(items, (1, room), weight)
}

fn cut_to<T>(items: Vec<T>, (least, room): (usize, usize), weight: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let total: usize = items.iter().map(&weight).sum();
    let parts = total.div_ceil(room).max(1);
    filled_to(total.div_ceil(parts).min(room), items, (least, room), weight)
}

/// Parts of about `aim` bytes, and at most `room` unless a part has the minimum number of items.
fn filled_to<T>(aim: usize, items: Vec<T>, (least, room): (usize, usize), weight: impl Fn(&T) -> usize) -> Vec<Vec<T>> {
    let (mut parts, mut filled) = (Vec::<Vec<T>>::new(), usize::MAX);
    for item in items {
        let bytes = weight(&item);
        // Rounds to the nearest number of items, but never beyond `room`.
        let enough = parts.last().is_none_or(|part| part.len() >= least);
        if enough && (filled == usize::MAX || filled + bytes > room || filled + bytes / 2 > aim) {
            parts.push(Vec::new());
            filled = 0;
        }
        filled += bytes;
        if let Some(part) = parts.last_mut() {
            part.push(item);
        }
    }
    parts
}

/// The size of an item in a page, without its key.
pub(crate) trait Weighed {
    /// The minimum number of items in a page, however large they are, except for the last page of a row.
    const LEAST: usize;

    fn bytes(&self) -> usize;
}

impl Weighed for Bytes {
    const LEAST: usize = 1;

    fn bytes(&self) -> usize {
        self.len() + 3
    }
}

impl Weighed for Child {
    /// With 1, which long keys would suggest, the tree would grow in height for ever.
    const LEAST: usize = 2;

    fn bytes(&self) -> usize {
        REFERENCE
    }
}

fn weight<T: Weighed>((key, item): &(Key, T)) -> usize {
    key.len() + 3 + item.bytes()
}

impl Child {
    fn open(self, pages: &impl Pages) -> Result<Node, Missing> {
        Ok(match self {
            Self::New(node) => *node,
            Self::Stored(at) => match &*pages.page(at)? {
                Page::Leaf(items) => Node::Leaf(items.clone()),
                Page::Inner(children) => {
                    Node::Inner(children.iter().map(|(key, at)| (key.clone(), Self::Stored(*at))).collect())
                }
            },
        })
    }

    /// The bytes of the new pages below, including this one.
    pub(crate) fn new_bytes(&self) -> usize {
        let Self::New(node) = self else { return 0 };
        let below = match &**node {
            Node::Leaf(_) => 0,
            Node::Inner(children) => children.iter().map(|(_, child)| child.new_bytes()).sum(),
        };
        node.bytes() + below
    }

    /// Writes the new pages, those below first, and returns the reference to this one.
    pub(crate) fn write(self, packer: &mut impl Packer) -> PageRef {
        let node = match self {
            Self::Stored(at) => return at,
            Self::New(node) => node,
        };
        let page = match *node {
            Node::Leaf(items) => Page::Leaf(items),
            Node::Inner(children) => {
                Page::Inner(children.into_iter().map(|(key, child)| (key, child.write(packer))).collect())
            }
        };
        packer.add(page)
    }
}

impl Node {
    fn bytes(&self) -> usize {
        PAGE_OVERHEAD
            + match self {
                Self::Leaf(items) => items.iter().map(weight).sum::<usize>(),
                Self::Inner(children) => children.iter().map(weight).sum::<usize>(),
            }
    }
}

/// Takes new pages and returns where they will be.
pub(crate) trait Packer {
    fn add(&mut self, page: Page) -> PageRef;
}

/// The index of the child that may contain a key.
fn child_of(children: &[(Key, PageRef)], key: &[u8]) -> usize {
    children.partition_point(|(least, _)| least.as_ref() <= key).saturating_sub(1)
}

/// Passes every reference of the tree to `seen`, which says whether to continue below it. Does not read leaves; returns
/// missing pages one level at a time.
pub(crate) fn references(
    pages: &impl Pages,
    root: PageRef,
    seen: &mut impl FnMut(PageRef) -> bool,
) -> Result<(), Missing> {
    let (mut ahead, mut missing) = (vec![root], Vec::new());
    while let Some(at) = ahead.pop() {
        if !seen(at) || at.leaf {
            continue;
        }
        match pages.page(at) {
            Ok(page) => {
                if let Page::Inner(children) = &*page {
                    ahead.extend(children.iter().map(|(_, child)| *child));
                }
            }
            Err(Missing(more)) => missing.extend(more),
        }
    }
    if missing.is_empty() { Ok(()) } else { Err(Missing(missing)) }
}

#[cfg(test)]
mod tests;
