//! Checks that every item has its parent, in every version.

use rustc_hash::FxHashMap;

use crate::chain::Chain;
use crate::record::Item;
use crate::violation::{Fault, Violation};

/// Checks that no version of the chain has an item without its parent: an item created in a namespace that had been
/// dropped, or a namespace dropped while it was not empty. A version is checked as a whole, so a commit may create or
/// drop a parent and its children together, in any order.
///
/// `parent` gives the parent of an item, always the same; `None` for an item at the top.
///
/// # Errors
/// [`Fault::Orphan`] for the first version with one.
pub fn parents_exist(chain: &Chain, parent: impl Fn(Item) -> Option<Item>) -> Result<(), Violation> {
    let mut items: FxHashMap<Item, Standing> = FxHashMap::default();
    for seen in chain.initial() {
        step(&mut items, &parent, seen.item, true);
    }
    let base = chain.base().unwrap_or_default();
    for seen in chain.initial() {
        if let Some((item, parent)) = orphan(&items, &parent, seen.item) {
            return Err(Fault::Orphan { item, parent, version: base, by: None }.into());
        }
    }
    let mut links = chain.links().peekable();
    let mut touched = Vec::new();
    while let Some(link) = links.next() {
        for change in link.changes {
            step(&mut items, &parent, change.item, change.now.is_some());
            touched.push((change.item, link.commit));
        }
        if links.peek().is_some_and(|next| next.version == link.version) {
            continue;
        }
        for (item, commit) in touched.drain(..) {
            if let Some((item, parent)) = orphan(&items, &parent, item) {
                return Err(Fault::Orphan { item, parent, version: link.version, by: Some(commit) }.into());
            }
        }
    }
    Ok(())
}

/// The state of an item.
#[derive(Default)]
struct Standing {
    exists: bool,
    /// The number of its existing children.
    children: u32,
}

fn step(items: &mut FxHashMap<Item, Standing>, parent: &impl Fn(Item) -> Option<Item>, item: Item, exists: bool) {
    let standing = items.entry(item).or_default();
    if standing.exists == exists {
        return;
    }
    standing.exists = exists;
    let Some(parent) = parent(item) else { return };
    let above = items.entry(parent).or_default();
    if exists {
        above.children += 1;
    } else {
        above.children -= 1;
    }
}

/// An item that lacks its parent, and the parent, if the change to `changed` is the cause: `changed` itself, or a child
/// of it.
fn orphan(
    items: &FxHashMap<Item, Standing>,
    parent: &impl Fn(Item) -> Option<Item>,
    changed: Item,
) -> Option<(Item, Item)> {
    let exists = |item: Item| items.get(&item).is_some_and(|standing| standing.exists);
    let standing = items.get(&changed)?;
    if standing.exists {
        let parent = parent(changed)?;
        return (!exists(parent)).then_some((changed, parent));
    }
    if standing.children == 0 {
        return None;
    }
    // Searches the items only after a violation was found.
    #[expect(clippy::disallowed_methods, reason = "the least is named, whatever the order")]
    let child = items.keys().copied().filter(|item| exists(*item) && parent(*item) == Some(changed)).min()?;
    Some((child, changed))
}
