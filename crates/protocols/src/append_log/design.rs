//! What the registry needs of this protocol.

use std::sync::Arc;

use glidepath_env::Env;
use glidepath_model::CommitId;

use super::{AppendLog, Limits, Place, Snapshot};
use crate::catalog::Outcome;
use crate::registry::{Creation, Design};

/// As people write it.
pub const NAME: &str = "append-log";

impl<E: Env> Design<E> for AppendLog<E> {
    fn open(env: E, store: E::Objects, prefix: &str) -> Self {
        Self::new(env, store, Arc::new(Place::new(&format!("{prefix}log"), Limits::default())))
    }

    async fn create_empty(&self, _: &Creation) -> Outcome<Snapshot> {
        self.create(Vec::new()).await
    }

    fn commit_of(at: &Snapshot) -> CommitId {
        at.commit()
    }
}
