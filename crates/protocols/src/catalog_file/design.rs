//! What the registry needs of this protocol.

use std::sync::Arc;

use glidepath_env::{Env, Key};
use glidepath_model::{ByteSize, CommitId};

use super::{CatalogFile, Place, Snapshot};
use crate::catalog::Outcome;
use crate::registry::{Creation, Design};

/// As people write it.
pub const NAME: &str = "catalog-file";

impl<E: Env> Design<E> for CatalogFile<E> {
    fn open(env: E, store: E::Objects, prefix: &str) -> Self {
        Self::new(env, store, Arc::new(Place::new(Key::new(&format!("{prefix}catalog")), ByteSize::default())))
    }

    async fn create_empty(&self, _: &Creation) -> Outcome<Snapshot> {
        self.create(Vec::new()).await
    }

    fn commit_of(at: &Snapshot) -> CommitId {
        at.root().commit
    }
}
