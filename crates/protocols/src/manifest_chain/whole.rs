//! Rewriting a `whole` catalog in a commit without holding it in memory.
//!
//! The tree has two levels: a root in the version's own object, with a reference to each block; and the blocks, which
//! are stored in sequence in parts. Parts are packs. A commit
//!
//! 1. reads the parts of the base version, one at a time, each with one request;
//! 2. copies unchanged blocks as they are, after checking their checksums; decodes, edits and encodes the others, and
//!    leaves out the rows of everything dropped with its namespace, which no list names. A block that would be less
//!    than a quarter full is merged with the next one, the last one with the one before;
//! 3. puts a part whenever it is full, and the last one;
//! 4. puts the version with the new root, and continues as every commit does.
//!
//! In memory are a part being read, a part being filled, a block or two, the root, and the commit's changes. A new
//! version never refers to parts of older ones, except for the version that a vacuum commits, which has the entries of
//! the version before.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use glidepath_env::{Cause, Denial, Env, Guard, ObjectStore, Payload, ReadError};
use glidepath_model::{CommitId, Version};

use super::dropped_rows::DroppedRows;
use super::page::{Home, Key, Page, PageRef, check_block, encode_block};
use super::read::damaged;
use super::tree::{Edit, cut, edited};
use super::{ManifestChain, Snapshot, rows};
use crate::catalog::LoadError;
use crate::settling::not_staged;

/// The sizes of the pieces of a `whole` catalog: at least a byte, at most 1 GiB. Writers may use different sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// The maximum size of a block's keys and values before compression. A row counts as at least 256 bytes, so this
    /// also limits the rows. A larger entry has a block of its own.
    pub block_bytes: usize,
    /// The maximum size of a part, unless a single block is larger.
    pub part_bytes: usize,
}

impl Default for Sizes {
    /// Blocks of up to 4096 rows, parts of 16 MiB.
    fn default() -> Self {
        Self { block_bytes: 4096 * ROW, part_bytes: 16 << 20 }
    }
}

/// The minimum size that a row counts as.
pub(super) const ROW: usize = 256;

type Item = (Key, Bytes);

/// Why a rewrite stopped. Nothing refers to what it has put.
pub(super) enum RewriteError {
    Read(LoadError),
    Put(Denial),
}

/// A block to be added to a part.
struct Block {
    least: Key,
    bytes: Bytes,
    /// Its rows, if decoded.
    page: Option<Arc<Page>>,
}

/// Takes rows and blocks in rising order of keys, and makes parts of them.
pub(super) struct Rewrite<'a, E: Env> {
    chain: &'a ManifestChain<E>,
    version: Version,
    commit: CommitId,
    /// Rows not yet in a block.
    pending: Vec<Item>,
    /// The newest block; rows after it may still be merged into it.
    held: Option<Block>,
    filling: Vec<u8>,
    number: u32,
    /// The blocks of all parts so far.
    pub(super) children: Vec<(Key, PageRef)>,
    /// Parts that were put, or may have been.
    pub(super) staged: Vec<Home>,
    /// Entries dropped with their namespace.
    pub(super) dropped: u64,
}

/// The number of rows that are entries.
fn entries(items: &[Item]) -> u64 {
    items.iter().filter(|(key, _)| key.first().is_some_and(|first| rows::is_entry_key(*first))).count() as u64
}

pub(super) fn weight((key, value): &Item) -> usize {
    (key.len() + value.len()).max(ROW)
}

impl<'a, E: Env> Rewrite<'a, E> {
    pub(super) fn new(chain: &'a ManifestChain<E>, version: Version, commit: CommitId) -> Self {
        let (pending, children, staged) = (Vec::new(), Vec::new(), Vec::new());
        let (held, filling, number, dropped) = (None, Vec::new(), 0, 0);
        Self { chain, version, commit, pending, held, filling, number, children, staged, dropped }
    }

    /// Steps 1 to 3: the rows of `base` without `gone`, after these edits (in rising order, each key once).
    pub(super) async fn run(
        &mut self,
        base: &Snapshot,
        gone: &DroppedRows<'_>,
        edits: &[Edit],
    ) -> Result<(), RewriteError> {
        let children = self.blocks_of(base).await?;
        if children.is_empty() {
            self.take(edited(&[], edits)).await?;
        }
        let (mut rest, mut part) = (edits, None::<(Home, Bytes)>);
        for (index, (least, at)) in children.iter().enumerate() {
            let next = children.get(index + 1).map(|(next, _)| next);
            let mine = next.map_or(rest.len(), |next| rest.partition_point(|(key, _)| key < next));
            let (edits, after) = rest.split_at(mine);
            rest = after;
            if part.as_ref().is_none_or(|(home, _)| *home != at.home) {
                // One part at a time: nothing may keep the one before in memory.
                self.let_go();
                drop(part.take());
                part = Some((at.home, self.read(at.home).await?));
            }
            let whole = part.as_ref().map(|(_, bytes)| bytes).cloned().unwrap_or_default();
            let (from, to) = (at.offset as usize, at.offset as usize + at.length as usize);
            if to > whole.len() {
                return Err(RewriteError::Read(damaged(crate::wire::DecodeError::Truncated)));
            }
            let touched = gone.may_be_in(least, next.map(|next| &next[..]));
            let page = self.chain.shared_state.cache.get(*at).ok().flatten();
            let block = Block { least: least.clone(), bytes: whole.slice(from..to), page };
            self.block((*at, block), touched.then_some(gone), edits).await?;
            // A block is at most some milliseconds of processor time; other tasks of the thread wait no longer than
            // that.
            self.chain.env.step_aside().await;
        }
        self.end().await
    }

    async fn blocks_of(&self, base: &Snapshot) -> Result<Vec<(Key, PageRef)>, RewriteError> {
        let Some(root) = base.manifest.root else { return Ok(Vec::new()) };
        let page =
            self.chain.with_pages(|pages| super::tree::Pages::page(pages, root)).await.map_err(RewriteError::Read)?;
        match &*page {
            Page::Inner(children) => Ok(children.clone()),
            Page::Leaf(_) => {
                let words = "the root of a whole catalog is not a list of blocks";
                Err(RewriteError::Read(LoadError::Undecodable(Cause::words(words))))
            }
        }
    }

    async fn read(&self, home: Home) -> Result<Bytes, RewriteError> {
        let key = self.chain.shared_state.keys.home(home);
        match self.chain.store.get(&key).await {
            Ok(object) => Ok(object.payload.bytes),
            Err(ReadError::NotFound) => Err(RewriteError::Read(super::read::gone(&key))),
            Err(ReadError::Failed(cause)) => Err(RewriteError::Read(LoadError::Failed(cause))),
        }
    }

    /// Step 2. `gone` is given if some of its rows may be in the block.
    async fn block(
        &mut self,
        (at, block): (PageRef, Block),
        gone: Option<&DroppedRows<'_>>,
        edits: &[Edit],
    ) -> Result<(), RewriteError> {
        let broken = |error| RewriteError::Read(damaged(error));
        let untouched = edits.is_empty() && self.pending.is_empty();
        if untouched && gone.is_none() {
            return self.copy(at, block).await;
        }
        let page = block.page.clone().map_or_else(|| Page::read(&block.bytes, at), Ok).map_err(broken)?;
        let Page::Leaf(items) = &*page else {
            return Err(broken(crate::wire::DecodeError::Content("an inner page where a block should be")));
        };
        let items = match gone {
            None => Cow::Borrowed(items),
            Some(gone) => {
                let kept: Vec<Item> = items.iter().filter(|(key, _)| !gone.has(key)).cloned().collect();
                if untouched && kept.len() == items.len() {
                    return self.copy(at, block).await;
                }
                self.dropped += entries(items) - entries(&kept);
                Cow::Owned(kept)
            }
        };
        self.take(if edits.is_empty() { items.into_owned() } else { edited(&items, edits) }).await
    }

    async fn copy(&mut self, at: PageRef, block: Block) -> Result<(), RewriteError> {
        check_block(&block.bytes, at).map_err(|error| RewriteError::Read(damaged(error)))?;
        self.push(block).await
    }

    async fn take(&mut self, items: Vec<Item>) -> Result<(), RewriteError> {
        if self.pending.is_empty() {
            self.pending = items;
        } else {
            self.pending.extend(items);
        }
        let bytes: usize = self.pending.iter().map(weight).sum();
        if bytes >= self.sizes().block_bytes / 4 { self.flush().await } else { Ok(()) }
    }

    fn sizes(&self) -> Sizes {
        self.chain.shared_state.sizes
    }

    /// Makes blocks of the pending rows, evenly filled.
    async fn flush(&mut self) -> Result<(), RewriteError> {
        let items = std::mem::take(&mut self.pending);
        for items in cut(items, self.sizes().block_bytes, weight) {
            let bytes =
                encode_block(&items).map_err(|error| RewriteError::Put(Denial::certain(Cause::from_error(error))))?;
            let Some((least, _)) = items.first() else { continue };
            let least = least.clone();
            self.push(Block { least, bytes, page: Some(Arc::new(Page::Leaf(items))) }).await?;
        }
        Ok(())
    }

    async fn push(&mut self, block: Block) -> Result<(), RewriteError> {
        match self.held.replace(block) {
            Some(before) => self.place(before).await,
            None => Ok(()),
        }
    }

    /// Adds a block to the current part.
    async fn place(&mut self, block: Block) -> Result<(), RewriteError> {
        let Block { least, bytes, page } = block;
        if self.filling.len() + bytes.len() > self.sizes().part_bytes {
            self.put_part().await?;
        }
        let at = PageRef::of(self.home(), true, self.filling.len(), &bytes);
        self.filling.extend_from_slice(&bytes);
        self.children.push((least, at));
        if let Some(page) = page {
            // Also if the commit fails: no other page will ever have this location.
            self.chain.shared_state.cache.keep(at, &page);
        }
        Ok(())
    }

    fn home(&self) -> Home {
        Home::Pack { version: self.version.0, commit: self.commit.0, number: self.number }
    }

    /// Step 3.
    async fn put_part(&mut self) -> Result<(), RewriteError> {
        if self.filling.is_empty() {
            return Ok(());
        }
        let (home, bytes) = (self.home(), Bytes::from(std::mem::take(&mut self.filling)));
        self.staged.push(home);
        self.number += 1;
        let put =
            self.chain.store.put(&self.chain.shared_state.keys.home(home), Payload::from(bytes), Guard::None).await;
        put.map(drop).map_err(|error| RewriteError::Put(not_staged(error)))
    }

    /// Copies what is still needed of a part, so that the part can be freed.
    fn let_go(&mut self) {
        if let Some(held) = &mut self.held {
            held.bytes = Bytes::copy_from_slice(&held.bytes);
        }
    }

    async fn end(&mut self) -> Result<(), RewriteError> {
        // The rest is too small for a block: merge it into the block before.
        if !self.pending.is_empty()
            && let Some(held) = self.held.take()
        {
            let page = held.page.map_or_else(|| Page::decode(&held.bytes), Ok);
            let page = page.map_err(|error| RewriteError::Read(damaged(error)))?;
            let Page::Leaf(items) = &*page else {
                let error = crate::wire::DecodeError::Content("an inner page where a block should be");
                return Err(RewriteError::Read(damaged(error)));
            };
            self.pending.splice(..0, items.iter().cloned());
        }
        self.flush().await?;
        if let Some(last) = self.held.take() {
            self.place(last).await?;
        }
        self.put_part().await
    }
}
