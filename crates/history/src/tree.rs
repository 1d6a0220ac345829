//! Does every item have its parent, in every version?

use rustc_hash::FxHashMap;

use crate::chain::Chain;
use crate::record::Item;
use crate::violation::{Fault, Violation};

/// Checks that no version of the chain has an item whose parent it does not have: not one created in a namespace that was
/// gone, nor a namespace dropped while something was in it. A version is looked at as a whole, so a commit may create or
/// drop a parent and its children together, in any order.
///
/// `parent` says where an item belongs, and must always say the same; `None` for what stands at the top.
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

/// Where an item stands.
#[derive(Default)]
struct Standing {
    exists: bool,
    /// Of the items that exist, how many belong to it.
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

/// An item that lacks its parent, and the parent, if the change to `changed` is to blame: itself, or one in it.
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
    // Only when all is lost already are the items gone through.
    #[expect(clippy::disallowed_methods, reason = "the least is named, whatever the order")]
    let child = items.keys().copied().filter(|item| exists(*item) && parent(*item) == Some(changed)).min()?;
    Some((child, changed))
}
