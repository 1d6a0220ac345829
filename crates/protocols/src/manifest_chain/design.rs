//! What the registry needs of this protocol.

use std::sync::Arc;

use glidepath_env::Env;
use glidepath_model::CommitId;

use super::{ManifestChain, Place, Snapshot};
use crate::catalog::Outcome;
use crate::registry::{Creation, Design};

/// As people write it.
pub const NAME: &str = "manifest-chain";

/// Bytes of pages kept at hand.
const CACHED_BYTES: usize = 64 << 20;

impl<E: Env> Design<E> for ManifestChain<E> {
    fn open(env: E, store: E::Objects, prefix: &str) -> Self {
        Self::new(env, store, Arc::new(Place::new(prefix, CACHED_BYTES)))
    }

    async fn create_empty(&self, creation: &Creation) -> Outcome<Snapshot> {
        self.create(creation.layout, creation.indexed).await
    }

    fn commit_of(at: &Snapshot) -> CommitId {
        at.commit()
    }
}
