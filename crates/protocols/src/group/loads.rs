//! Sharing of loads between the readers of one process: one request to the store for all that ask at the same time.
//!
//! A load may answer only readers that asked before it began. Otherwise it could miss a commit that was acknowledged
//! before they asked.
//!
//! 1. A reader enqueues its request. If the queue is full, or there is no loader, it loads by itself.
//! 2. The [`Loader`], a task of its own, takes all waiting requests, loads once, and answers them. Later requests wait
//!    for the next load. A request that finds the loader idle is served at once.
//! 3. A reader that is dropped withdraws its request. When the loader is dropped, waiting readers load by themselves.

use std::sync::Arc;

use glidepath_queue::{Queue, Seat};

use super::{AlreadyLed, MOST_WAITING};
use crate::catalog::{Catalog, LoadError};
use crate::mutant::{self, Mutant};

type Loaded<C> = Result<<C as Catalog>::Snapshot, LoadError>;

/// Readers of a process that share loads through a [`Loader`]. Clones are handles to the same readers; when all are
/// dropped, the loader ends.
pub struct Loads<C: Catalog> {
    queue: Arc<Queue<(), Loaded<C>>>,
}

impl<C: Catalog> Loads<C> {
    /// Readers that have no loader yet.
    #[must_use]
    pub fn new() -> Self {
        Self { queue: Arc::new(Queue::new(MOST_WAITING)) }
    }

    /// As [`Catalog::load`]: at least as new as any commit that was acknowledged before the call. `catalog` is used
    /// only if no loader answers.
    ///
    /// # Errors
    /// As [`Catalog::load`].
    pub async fn load(&self, catalog: &C) -> Loaded<C> {
        if let Ok(ticket) = self.queue.enqueue(())
            && let Ok(loaded) = ticket.await
        {
            return loaded;
        }
        catalog.load().await
    }
}

impl<C: Catalog> Default for Loads<C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<C: Catalog> Clone for Loads<C> {
    fn clone(&self) -> Self {
        self.queue.add_handle();
        Self { queue: Arc::clone(&self.queue) }
    }
}

impl<C: Catalog> Drop for Loads<C> {
    fn drop(&mut self) {
        self.queue.drop_handle();
    }
}

/// Loads for the readers of a process. It must run in a task or a thread of its own, so that no dropped or unpolled
/// reader stops it.
#[must_use = "readers wait until a task runs `serve`"]
pub struct Loader<C: Catalog> {
    catalog: C,
    seat: Seat<(), Loaded<C>>,
}

impl<C: Catalog> Loader<C> {
    /// Becomes the loader of these readers.
    ///
    /// # Errors
    /// [`AlreadyLed`] if they have a loader.
    pub fn new(catalog: C, loads: &Loads<C>) -> Result<Self, AlreadyLed> {
        let seat = loads.queue.seat().ok_or(AlreadyLed)?;
        Ok(Self { catalog, seat })
    }

    /// Serves readers until all handles are dropped. If this future is dropped, readers load by themselves.
    pub async fn serve(self) {
        let Self { catalog, seat } = self;
        while seat.some().await {
            let mut asked = seat.take(MOST_WAITING);
            let loaded = catalog.load().await;
            if mutant::is(Mutant::LateReadersServed) {
                asked.extend(seat.take(MOST_WAITING));
            }
            for one in asked {
                one.answer(loaded.clone());
            }
        }
    }
}
