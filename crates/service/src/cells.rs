//! What a service keeps about each table with commits: their queue, and the newest version that it knows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use glidepath_model::{Instant, Name};
use glidepath_protocols::group::{Readers, line};
use glidepath_queue::Queue;
use iceberg::spec::TableMetadata;

use crate::bodies::{Body, Loaded};
use crate::commit::priority::Priority;
use crate::commit::{Fitting, NotDone, Request, TOGETHER};
use crate::error::ServiceError;
use crate::names::Identifier;

/// What who commits tells the task that asked: the table afterwards, and whether the commit was made, or all of it was there before.
pub(crate) type Told = Result<(Loaded<TableMetadata>, Fitting), NotDone>;

/// The answer to a commit: the table afterwards.
pub(crate) type Answer = Result<Loaded<TableMetadata>, ServiceError>;

/// The most commits that wait for one table.
const MOST_WAITING: usize = 2048;

/// How many idle tables are remembered.
const MOST_IDLE: usize = 4096;

/// Commits to one table of this service.
pub(crate) struct Cell {
    pub(crate) queue: Arc<Queue<Arc<Request>, Told>>,
    pub(crate) priority: Priority,
    pub(crate) readers: Readers,
    /// The table after the last commit of this service; other servers may have moved it since. It is kept where all metadata is,
    /// which counts its bytes.
    known: Mutex<Weak<Body<TableMetadata>>>,
    /// When another server was last seen to commit to it.
    shared: Mutex<Option<Instant>>,
}

impl Cell {
    fn new() -> Self {
        Self {
            queue: Arc::new(Queue::new(MOST_WAITING)),
            priority: Priority::default(),
            readers: Readers::new(TOGETHER),
            known: Mutex::default(),
            shared: Mutex::new(None),
        }
    }

    pub(crate) fn known(&self) -> Option<Loaded<TableMetadata>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).upgrade()
    }

    /// Another server committed to it.
    pub(crate) fn share(&self, now: Instant) {
        *self.shared.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    /// Whether another server has committed to it lately.
    pub(crate) fn is_shared(&self, now: Instant) -> bool {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|seen| now < seen + line::SHARED)
    }

    pub(crate) fn learn(&self, known: Option<&Loaded<TableMetadata>>) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = known.map(Arc::downgrade).unwrap_or_default();
    }
}

/// A table with commits that are not answered yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The table.
    pub table: Identifier,
    /// Its commits that are not answered.
    pub commits: usize,
    /// Those of them that wait in the queue: nobody has begun to commit them.
    pub queued: usize,
}

/// The tables with commits.
#[derive(Default)]
pub(crate) struct Cells {
    all: Mutex<BTreeMap<Name, Arc<Cell>>>,
}

impl Cells {
    pub(crate) fn of(&self, name: &Name) -> Arc<Cell> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cell) = all.get(name) {
            return Arc::clone(cell);
        }
        if all.len() >= MOST_IDLE {
            // Those that only the map holds are idle.
            all.retain(|_, cell| Arc::strong_count(cell) > 1);
        }
        let cell = Arc::new(Cell::new());
        all.insert(name.clone(), Arc::clone(&cell));
        cell
    }

    /// Those with commits that are not answered, the most first.
    pub(crate) fn waiting(&self) -> Vec<Waiting> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |(name, cell): (&Name, &Arc<Cell>)| {
            // Each commit holds its cell until it is answered; the map is the one other holder.
            let commits = Arc::strong_count(cell).saturating_sub(1);
            (commits > 0).then(|| Waiting { table: Identifier::of(name), commits, queued: cell.queue.waiting() })
        };
        let mut busy: Vec<_> = all.iter().filter_map(of).collect();
        busy.sort_by_key(|waiting| std::cmp::Reverse(waiting.commits));
        busy
    }
}
