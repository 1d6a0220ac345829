//! Reading the catalog at a version.

use std::sync::Arc;

use bytes::Bytes;
use glidepath_env::{Cause, Env, Key, ObjectStore, ReadError, together_until};
use glidepath_model::{Entry, Kind, Name};

use super::cache::AtHand;
use super::page::{Page, PageRef};
use super::rows::{self, Between};
use super::tree::{self, Missing};
use super::{ManifestChain, Snapshot};
use crate::AT_ONCE;
use crate::catalog::LoadError;
use crate::entry;
use crate::wire::DecodeError;

/// Why a page cannot be used.
pub(super) enum PageError {
    /// Its object does not exist.
    Gone,
    /// It is not what was written there.
    Damaged(DecodeError),
    /// The store failed to read it.
    Failed(Cause),
}

impl<E: Env> ManifestChain<E> {
    /// What a name stands for.
    ///
    /// # Errors
    /// Also `Failed` if the snapshot is so old that it is no longer kept.
    pub(super) async fn find_entry(&self, at: &Snapshot, name: &Name) -> Result<Option<Entry>, LoadError> {
        let key = rows::by_name(name);
        let value = self.with_pages(|pages| tree::get(pages, at.manifest.root, &key)).await?;
        value.map(|bytes| entry::decode(&bytes).map_err(damaged)).transpose()
    }

    /// Up to `limit` entries directly in a namespace (`None` for the root), by name, after `after` if given.
    ///
    /// # Errors
    /// As [`entry`](crate::Catalog::entry).
    pub(super) async fn list_children(
        &self,
        at: &Snapshot,
        namespace: Option<&Name>,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, LoadError> {
        let between = rows::children(namespace);
        self.scan(at, behind(between, after), limit).await
    }

    /// Up to `limit` entries, in the order of their namespaces, after `after` if given.
    ///
    /// # Errors
    /// As [`entry`](crate::Catalog::entry).
    pub async fn all(
        &self,
        at: &Snapshot,
        after: Option<&Name>,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, LoadError> {
        self.scan(at, behind(rows::all(), after), limit).await
    }

    /// Names of all entries of a kind. Uses the index if there is one, otherwise reads every entry.
    ///
    /// # Errors
    /// As [`entry`](crate::Catalog::entry).
    pub(super) async fn names_of_kind(&self, at: &Snapshot, kind: Kind) -> Result<Vec<Name>, LoadError> {
        let wanted = |entry: &Entry| entry.kind == kind;
        self.names(at, rows::of_kind(kind), wanted).await
    }

    /// Names of all entries made from `base`. Uses the index if there is one, otherwise reads every entry.
    ///
    /// # Errors
    /// As [`entry`](crate::Catalog::entry).
    pub(super) async fn names_with_base(&self, at: &Snapshot, base: &Name) -> Result<Vec<Name>, LoadError> {
        self.names(at, rows::with_base(base), |entry: &Entry| entry.base_objects.contains(base)).await
    }

    async fn names(
        &self,
        at: &Snapshot,
        index: Between,
        wanted: impl Fn(&Entry) -> bool,
    ) -> Result<Vec<Name>, LoadError> {
        if !at.indexed() {
            let entries = self.scan(at, rows::all(), usize::MAX).await?;
            return Ok(entries.into_iter().filter(|(_, entry)| wanted(entry)).map(|(name, _)| name).collect());
        }
        let items =
            self.with_pages(|pages| tree::range(pages, at.manifest.root, (&index.from, &index.to), usize::MAX)).await?;
        items.iter().map(|(key, _)| rows::name_in(key).ok_or_else(not_a_name)).collect()
    }

    pub(super) async fn scan(
        &self,
        at: &Snapshot,
        between: Between,
        limit: usize,
    ) -> Result<Vec<(Name, Entry)>, LoadError> {
        let items =
            self.with_pages(|pages| tree::range(pages, at.manifest.root, (&between.from, &between.to), limit)).await?;
        let entry = |(key, value): &(bytes::Bytes, bytes::Bytes)| {
            let name = rows::name_in(key).ok_or_else(not_a_name)?;
            Ok((name, entry::decode(value).map_err(damaged)?))
        };
        items.iter().map(entry).collect()
    }

    /// Runs an operation on the tree, and fetches the pages that it lacks.
    pub(super) async fn with_pages<T>(
        &self,
        operation: impl Fn(&AtHand<'_>) -> Result<T, Missing>,
    ) -> Result<T, LoadError> {
        let mut pages = AtHand::new(&self.shared_state.cache);
        loop {
            match operation(&pages) {
                Ok(done) => return Ok(done),
                Err(Missing(missing)) => {
                    let fetched = together_until(AT_ONCE, &missing, |at| self.fetch(*at), Result::is_err).await;
                    for (at, page) in missing.iter().zip(fetched) {
                        pages.add(*at, page?);
                    }
                }
            }
        }
    }

    async fn fetch(&self, at: PageRef) -> Result<Arc<Page>, LoadError> {
        self.read_page(at).await.map_err(|error| match error {
            PageError::Gone => gone(&self.shared_state.keys.home(at.home)),
            PageError::Damaged(error) => damaged(error),
            PageError::Failed(cause) => LoadError::Failed(cause),
        })
    }

    /// A page from the store.
    pub(super) async fn read_page(&self, at: PageRef) -> Result<Arc<Page>, PageError> {
        let key = self.shared_state.keys.home(at.home);
        let (from, to) = (u64::from(at.offset), u64::from(at.offset) + u64::from(at.length));
        let bytes = self.read_range(&key, from..to).await?;
        Page::read(&bytes, at).map_err(PageError::Damaged)
    }

    async fn read_range(&self, key: &Key, range: std::ops::Range<u64>) -> Result<Bytes, PageError> {
        let length = (range.end - range.start) as usize;
        match self.store.get_range(key, range).await {
            Ok(object) if object.payload.bytes.len() < length => Err(PageError::Damaged(DecodeError::Truncated)),
            Ok(object) => Ok(object.payload.bytes),
            Err(ReadError::NotFound) => Err(PageError::Gone),
            Err(ReadError::Failed(cause)) => Err(PageError::Failed(cause)),
        }
    }
}

fn behind(between: Between, after: Option<&Name>) -> Between {
    match after {
        Some(after) => between.after(&rows::by_name(after)),
        None => between,
    }
}

pub(super) fn gone(key: &Key) -> LoadError {
    let words = "this version of the catalog is no longer kept (load a newer one), or it is damaged";
    LoadError::Failed(Cause::words(format!("{key} is missing: {words}")))
}

fn not_a_name() -> LoadError {
    LoadError::Undecodable(Cause::words("a key of the tree is not a name"))
}

pub(super) fn damaged(error: crate::wire::DecodeError) -> LoadError {
    LoadError::Undecodable(Cause::from_error(error))
}
