//! The items in which two trees differ: a walk over both trees at once that skips every page they share.
//!
//! The walk makes no requests: it names the pages that it needs next, and its caller fetches them. It holds one page of
//! each height of each tree in memory.

use std::cmp::Ordering;
use std::sync::Arc;

use bytes::Bytes;

use super::page::{Key, Page, PageRef};

/// The state of a walk over two trees.
pub(super) struct Walk {
    before: Side,
    now: Side,
}

/// What remains in one tree, the next one last.
struct Side(Vec<Ahead>);

enum Ahead {
    Item(Key, Bytes),
    /// A page, and its lower bound from the page above.
    Page(PageRef, Key),
    /// The end of what is below an inner page.
    End(PageRef),
}

/// The next result of a walk.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Pages are needed: answer with [`Walk::opened`].
    Open {
        /// In the tree before.
        before: Option<PageRef>,
        /// In the tree now, with the least key that may be in it.
        now: Option<(PageRef, Key)>,
    },
    /// A key whose values differ.
    Differs {
        /// The key.
        key: Key,
        /// Its value before.
        before: Option<Bytes>,
        /// Its value now.
        now: Option<Bytes>,
    },
    /// Both trees end here.
    Done,
}

impl Walk {
    /// A walk over trees with these roots.
    pub(super) fn new(before: Option<PageRef>, now: Option<PageRef>) -> Self {
        let side = |root: Option<PageRef>| Side(root.map(|at| Ahead::Page(at, Key::new())).into_iter().collect());
        Self { before: side(before), now: side(now) }
    }

    /// Goes on to the next step. Skips pages that both trees have, unless `look` wants to see them.
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
                    // Opens the higher page first, because the pages below it may be equal to the other.
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

    /// Continues below pages that were requested; a page that cannot be read is treated as empty.
    pub(super) fn opened(&mut self, before: Option<(PageRef, Arc<Page>)>, now: Option<(PageRef, Arc<Page>)>) {
        self.before.enter(before);
        self.now.enter(now);
    }

    /// The inner pages above the walk's position, in the tree now.
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
