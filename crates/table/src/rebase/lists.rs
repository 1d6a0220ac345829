//! Decoded manifest lists, kept from one append to the next.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use iceberg::spec::ManifestFile;

use super::list::{Blocks, Manifests, memory};

/// The manifests of recent lists, by the lists' locations. A file never changes, so what is here is never stale. The
/// least recently used lists are dropped first.
///
/// A rebased append leaves its own list here before it is written, so the next append can be put on top of it.
#[derive(Debug)]
pub struct Lists {
    state: Mutex<State>,
    most: usize,
    /// Of the one that reads large files.
    pub(super) large: futures_util::lock::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    lists: BTreeMap<String, Kept>,
    /// Locations by the time of their last use.
    by_use: BTreeMap<u64, String>,
    uses: u64,
    entries: usize,
}

#[derive(Debug)]
struct Kept {
    manifests: Arc<Manifests>,
    /// The same as they were written, if they were written here.
    blocks: Option<Blocks>,
    weight: usize,
    used: u64,
}

impl Lists {
    /// Keeps lists of at most this many manifests together. An entry takes a few hundred bytes, and counts as several
    /// if it takes more; lists that were made from each other share theirs, though each is counted. A list that is
    /// longer by itself is not kept.
    #[must_use]
    pub fn new(most_manifests: usize) -> Self {
        Self { state: Mutex::default(), most: most_manifests, large: futures_util::lock::Mutex::default() }
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        // No code under this lock can panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops a list. For one that was not written after all.
    pub fn forget(&self, location: &str) {
        self.locked().remove(location);
    }

    /// The manifests of a list if they are kept.
    #[must_use]
    pub fn get(&self, location: &str) -> Option<Arc<Vec<Arc<ManifestFile>>>> {
        self.get_written(location).map(|(manifests, _)| manifests)
    }

    pub(super) fn get_written(&self, location: &str) -> Option<(Arc<Manifests>, Option<Blocks>)> {
        let mut guard = self.locked();
        let state = &mut *guard;
        let kept = state.lists.get_mut(location)?;
        state.uses += 1;
        if let Some(location) = state.by_use.remove(&kept.used) {
            state.by_use.insert(state.uses, location);
        }
        kept.used = state.uses;
        Some((Arc::clone(&kept.manifests), kept.blocks.clone()))
    }

    pub(super) fn insert(&self, location: &str, manifests: Arc<Manifests>, blocks: Option<Blocks>) {
        let mut state = self.locked();
        state.remove(location);
        let weight = weight(&manifests);
        if weight > self.most {
            return;
        }
        state.uses += 1;
        let used = state.uses;
        state.entries += weight;
        state.by_use.insert(used, location.to_owned());
        state.lists.insert(location.to_owned(), Kept { manifests, blocks, weight, used });
        while state.entries > self.most {
            let Some((_, oldest)) = state.by_use.pop_first() else { break };
            state.remove(&oldest);
        }
    }
}

/// A usual manifest counts as one, a larger one as several. An empty list counts too: its location takes memory.
fn weight(manifests: &Manifests) -> usize {
    const USUAL: usize = 1024;
    1 + manifests.iter().map(|manifest| memory(manifest).div_ceil(USUAL)).sum::<usize>()
}

impl State {
    fn remove(&mut self, location: &str) {
        if let Some(kept) = self.lists.remove(location) {
            self.by_use.remove(&kept.used);
            self.entries -= kept.weight;
        }
    }
}
