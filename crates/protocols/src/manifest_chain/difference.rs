//! In which items do two trees differ? A walk over both at once that leaves out every page that both have.
//!
//! The walk is plain computation: it says which pages it must see next, and whoever walks fetches them. In memory are one
//! page of each height of each tree.

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;

use super::page::{Key, Page, PageRef};

/// Where a walk over two trees stands.
pub(super) struct Walk {
    before: Side,
    now: Side,
}

/// What is ahead in one tree, the next one last.
struct Side(Vec<Ahead>);

enum Ahead {
    Item(Key, Bytes),
    /// A page, with the bound that the page above gives it.
    Page(PageRef, Key),
    /// The end of what is below an inner page.
    End(PageRef),
}

/// What a walk comes to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Pages must be seen: answer with [`Walk::opened`].
    Open {
        /// Of the tree before.
        before: Option<PageRef>,
        /// Of the tree now, with the least key that may be in it.
        now: Option<(PageRef, Key)>,
    },
    /// A key does not have the same value in both.
    Differs {
        /// Which.
        key: Key,
        /// Its value before.
        before: Option<Bytes>,
        /// Its value now.
        now: Option<Bytes>,
    },
    /// Both trees are at their ends.
    Done,
}

impl Walk {
    /// A walk over trees with these roots.
    pub(super) fn new(before: Option<PageRef>, now: Option<PageRef>) -> Self {
        let side = |root: Option<PageRef>| Side(root.map(|at| Ahead::Page(at, Key::new())).into_iter().collect());
        Self { before: side(before), now: side(now) }
    }

    /// Goes on to the next thing. Pages that both trees have are left out, unless `look` says that they must be seen.
    pub(super) fn step(&mut self, look: impl Fn(PageRef) -> bool) -> Step {
        loop {
            self.before.pass_ends();
            self.now.pass_ends();
            return match (self.before.0.last(), self.now.0.last()) {
                (None, None) => Step::Done,
                (Some(Ahead::Page(before, _)), Some(Ahead::Page(now, _))) if before == now && !look(*now) => {
                    self.before.0.pop();
                    self.now.0.pop();
                    continue;
                }
                (Some(Ahead::Page(before, _)), Some(Ahead::Page(now, _))) => {
                    // The higher one first, so that the pages below it can meet the other.
                    let (open_before, open_now) = (before.leaf <= now.leaf, now.leaf <= before.leaf);
                    self.open(open_before, open_now)
                }
                (Some(Ahead::Page(..)), _) => self.open(true, false),
                (_, Some(Ahead::Page(..))) => self.open(false, true),
                (Some(Ahead::Item(before, old)), Some(Ahead::Item(now, new))) => match before.cmp(now) {
                    Ordering::Equal if old == new => {
                        self.before.0.pop();
                        self.now.0.pop();
                        continue;
                    }
                    order => self.differs(order),
                },
                (Some(_), None) => self.differs(Ordering::Less),
                (None, Some(_)) => self.differs(Ordering::Greater),
                // Ends have been passed.
                (Some(Ahead::End(_)), _) | (_, Some(Ahead::End(_))) => continue,
            };
        }
    }

    fn open(&mut self, before: bool, now: bool) -> Step {
        let before = if before { self.before.page() } else { None };
        let now = if now { self.now.page() } else { None };
        Step::Open { before: before.map(|(at, _)| at), now }
    }

    fn differs(&mut self, order: Ordering) -> Step {
        let before = if order.is_le() { self.before.item() } else { None };
        let now = if order.is_ge() { self.now.item() } else { None };
        let key = before.as_ref().or(now.as_ref()).map(|(key, _)| key.clone()).unwrap_or_default();
        Step::Differs { key, before: before.map(|(_, value)| value), now: now.map(|(_, value)| value) }
    }

    /// Goes on below pages that were to be seen; below those that cannot be seen there is nothing.
    pub(super) fn opened(&mut self, before: Option<(PageRef, Arc<Page>)>, now: Option<(PageRef, Arc<Page>)>) {
        self.before.enter(before);
        self.now.enter(now);
    }

    /// The inner pages that the walk is below of, in the tree now.
    pub(super) fn above(&self) -> impl Iterator<Item = PageRef> {
        self.now.0.iter().filter_map(|ahead| if let Ahead::End(at) = ahead { Some(*at) } else { None })
    }

    /// The least key that comes next in the tree now.
    pub(super) fn next_key(&self) -> Option<Key> {
        self.now.0.iter().rev().find_map(|ahead| match ahead {
            Ahead::Item(key, _) | Ahead::Page(_, key) => Some(key.clone()),
            Ahead::End(_) => None,
        })
    }
}

impl Side {
    fn pass_ends(&mut self) {
        while let Some(Ahead::End(_)) = self.0.last() {
            self.0.pop();
        }
    }

    fn page(&mut self) -> Option<(PageRef, Key)> {
        match self.0.pop()? {
            Ahead::Page(at, bound) => Some((at, bound)),
            other => {
                self.0.push(other);
                None
            }
        }
    }

    fn item(&mut self) -> Option<(Key, Bytes)> {
        match self.0.pop()? {
            Ahead::Item(key, value) => Some((key, value)),
            other => {
                self.0.push(other);
                None
            }
        }
    }

    fn enter(&mut self, page: Option<(PageRef, Arc<Page>)>) {
        let Some((at, page)) = page else { return };
        match &*page {
            Page::Leaf(items) => {
                self.0.extend(items.iter().rev().map(|(key, value)| Ahead::Item(key.clone(), value.clone())));
            }
            Page::Inner(children) => {
                self.0.push(Ahead::End(at));
                self.0.extend(children.iter().rev().map(|(bound, child)| Ahead::Page(*child, bound.clone())));
            }
        }
    }
}

#[cfg(test)]
mod tests;
