//! Earlier versions of a catalog, and what a version changed. For inspecting a chain.

use glidepath_env::{Cause, Env};
use glidepath_model::{CommitId, Version};

use super::difference::{Step, Walk};
use super::page::PageRef;
use super::read::damaged;
use super::tree::Pages as _;
use super::{ManifestChain, Snapshot, rows};
use crate::catalog::LoadError;
use crate::entry;
pub use crate::upkeep::Changed;

impl Snapshot {
    /// The commit of the version before; 0 for the first.
    #[must_use]
    pub fn before(&self) -> CommitId {
        self.manifest.before
    }
}

impl<E: Env> ManifestChain<E> {
    /// The content of a version; `None` if there is none. A version before [`Snapshot::oldest_kept`] of the newest may
    /// be incomplete, or may never have been in the chain.
    ///
    /// # Errors
    /// If it cannot be read.
    pub async fn version_at(&self, version: Version) -> Result<Option<Snapshot>, LoadError> {
        self.read_version(version, None).await
    }

    /// Up to `limit` names in which two versions (`None`: an empty one) differ, in the order of their namespaces. Reads
    /// only pages that are not in both.
    ///
    /// # Errors
    /// As [`entry`](crate::Catalog::entry).
    pub async fn changed(
        &self,
        before: Option<&Snapshot>,
        now: &Snapshot,
        limit: usize,
    ) -> Result<Vec<Changed>, LoadError> {
        let mut walk = Walk::new(before.and_then(|at| at.manifest.root), now.manifest.root);
        let mut found = Vec::new();
        while found.len() < limit {
            match walk.step(|_| false) {
                Step::Done => break,
                Step::Open { before, now } => {
                    let before = self.opened(before).await?;
                    let now = self.opened(now.map(|(at, _)| at)).await?;
                    walk.opened(before, now);
                }
                Step::Differs { key, before, now } => {
                    let name = rows::name_in(&key);
                    let name = name.ok_or_else(|| LoadError::Undecodable(Cause::words("a key is not a name")))?;
                    // Index keys follow from the entries.
                    if rows::by_name(&name) == key {
                        let entry = |value: Option<bytes::Bytes>| value.map(|value| entry::decode(&value)).transpose();
                        let (before, now) = (entry(before).map_err(damaged)?, entry(now).map_err(damaged)?);
                        found.push(Changed { name, before, now });
                    }
                }
            }
        }
        Ok(found)
    }

    /// Reads every page of a version, and every entry.
    pub(super) async fn read_whole(&self, at: &Snapshot) -> Result<(), LoadError> {
        let mut walk = Walk::new(None, at.manifest.root);
        loop {
            match walk.step(|_| false) {
                Step::Done => return Ok(()),
                Step::Open { now, .. } => {
                    let now = self.opened(now.map(|(at, _)| at)).await?;
                    walk.opened(None, now);
                }
                Step::Differs { key, now, .. } => {
                    let is_entry = rows::name_in(&key).is_some_and(|name| rows::by_name(&name) == key);
                    if let (true, Some(value)) = (is_entry, now) {
                        entry::decode(&value).map_err(damaged)?;
                    }
                }
            }
        }
    }

    async fn opened(
        &self,
        at: Option<PageRef>,
    ) -> Result<Option<(PageRef, std::sync::Arc<super::page::Page>)>, LoadError> {
        let Some(at) = at else { return Ok(None) };
        Ok(Some((at, self.with_pages(|pages| pages.page(at)).await?)))
    }
}
