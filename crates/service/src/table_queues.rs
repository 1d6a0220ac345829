//! What a service keeps about each table with commits: their queue, and the newest version that it knows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use glidepath_model::{Instant, Name};
use glidepath_protocols::table_turn::{Readers, TOGETHER, line};
use glidepath_queue::Queue;
use iceberg::spec::TableMetadata;

use crate::bodies::{Body, Loaded};
use crate::commit::priority::Priority;
use crate::commit::{Fitting, NotDone, Request};
use crate::error::ServiceError;
use crate::names::Identifier;

/// The leader's answer to the task that asked: the table afterwards, and whether the commit was made, or all of it was
/// there before.
pub(crate) type Told = Result<(Loaded<TableMetadata>, Fitting), NotDone>;

/// The answer to a commit: the table afterwards.
pub(crate) type Answer = Result<Loaded<TableMetadata>, ServiceError>;

/// The most commits that wait for one table.
const MOST_WAITING: usize = 2048;

/// At this many tables, those that nobody commits to are forgotten.
const MOST_TABLES: usize = 4096;

/// Commits to one table of this service.
pub(crate) struct TableQueue {
    pub(crate) commits: Arc<Queue<Arc<Request>, Told>>,
    pub(crate) priority: Priority,
    pub(crate) readers: Readers,
    /// The table after the last commit of this service; other servers may have moved it since. It is kept where all
    /// metadata is, which counts its bytes.
    known: Mutex<Weak<Body<TableMetadata>>>,
    /// When another server was last seen to commit to it.
    shared: Mutex<Option<Instant>>,
}

impl TableQueue {
    fn new() -> Self {
        Self {
            commits: Arc::new(Queue::new(MOST_WAITING)),
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
pub(crate) struct TableQueues {
    all: Mutex<BTreeMap<Name, Arc<TableQueue>>>,
}

impl TableQueues {
    pub(crate) fn of(&self, name: &Name) -> Arc<TableQueue> {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table_queue) = all.get(name) {
            return Arc::clone(table_queue);
        }
        if all.len() >= MOST_TABLES {
            // Those that only the map holds are idle.
            all.retain(|_, table_queue| Arc::strong_count(table_queue) > 1);
        }
        let table_queue = Arc::new(TableQueue::new());
        all.insert(name.clone(), Arc::clone(&table_queue));
        table_queue
    }

    /// Those with commits that are not answered, the most first.
    pub(crate) fn waiting(&self) -> Vec<Waiting> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let of = |(name, table_queue): (&Name, &Arc<TableQueue>)| {
            // Each commit holds its queue until it is answered; the map is the one other holder.
            let commits = Arc::strong_count(table_queue).saturating_sub(1);
            (commits > 0).then(|| Waiting {
                table: Identifier::of(name),
                commits,
                queued: table_queue.commits.waiting(),
            })
        };
        let mut busy: Vec<_> = all.iter().filter_map(of).collect();
        busy.sort_by_key(|waiting| std::cmp::Reverse(waiting.commits));
        busy
    }
}
