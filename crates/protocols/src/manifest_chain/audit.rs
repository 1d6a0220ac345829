//! The objects of a version, and the existing versions. For inspection, not for commits: the cost grows with the chain.

use std::collections::BTreeSet;

use glidepath_env::{Env, Key, ObjectStore, ReadError};

use super::page::Home;
use super::{ManifestChain, Snapshot, tree};
use crate::catalog::LoadError;

/// Keys listed at a time.
const PAGE: usize = 1000;

impl<E: Env> ManifestChain<E> {
    /// Every existing version, oldest first: kept ones, and older ones whose pages are still needed.
    ///
    /// # Errors
    /// If a version cannot be read, or the versions cannot be listed.
    pub async fn every_version(&self) -> Result<Vec<Snapshot>, LoadError> {
        let (mut versions, mut after) = (Vec::new(), None::<Key>);
        loop {
            let page = match self.store.list(&self.shared_state.keys.versions(), after.as_ref(), PAGE).await {
                Ok(page) => page,
                Err(ReadError::NotFound) => break,
                Err(ReadError::Failed(cause)) => return Err(LoadError::Failed(cause)),
            };
            for object in &page.objects {
                if let Some(version) = self.shared_state.keys.version_in(&object.key)
                    && let Some(found) = self.read_version(version, None).await?
                {
                    versions.push(found);
                }
            }
            after = page.objects.last().map(|last| last.key.clone());
            if !page.more || after.is_none() {
                break;
            }
        }
        versions.reverse();
        Ok(versions)
    }

    /// The objects that a version consists of: its own, and those that contain its pages.
    ///
    /// # Errors
    /// If an inner page cannot be read.
    pub async fn objects(&self, at: &Snapshot) -> Result<BTreeSet<Key>, LoadError> {
        let homes = self.homes(at).await?;
        let own = self.shared_state.keys.version(at.version());
        Ok(homes.into_iter().map(|home| self.shared_state.keys.home(home)).chain([own]).collect())
    }

    /// The objects in which the pages of a version are.
    pub(super) async fn homes(&self, at: &Snapshot) -> Result<BTreeSet<Home>, LoadError> {
        let Some(root) = at.manifest.root else { return Ok(BTreeSet::new()) };
        self.with_pages(|pages| {
            let mut homes = BTreeSet::new();
            tree::references(pages, root, &mut |at| {
                homes.insert(at.home);
                true
            })?;
            Ok(homes)
        })
        .await
    }
}
