//! How do the tasks of a process end many transactions with few requests? Their ends are put together, a request for
//! each row.
//!
//! 1. A task enqueues the end of a transaction ([`Batches::decide`]). Where the queue is full, there is no writer, or
//!    the store [gathers](glidepath_env::KvCapabilities::gathers) requests itself, it sends it by itself.
//! 2. The [`Writer`], a task of its own, takes what waits and sorts it by row.
//! 3. A row that has no request under way gets one, with all that waits for it, up to what the store takes at once.
//!    Meanwhile the next ones gather. Nothing waits for company: an end whose row is idle is sent at once. Rows do not
//!    wait for each other.
//! 4. Each task is told how its own transaction ended. Two ends of one transaction never go into one request: the
//!    second is told what the first came to.
//! 5. A task that goes away before step 2 withdraws its request. A writer that goes away leaves what it had sent: it is
//!    not known how these transactions ended, and to decide them again settles it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use glidepath_env::{Cause, Env, KvStore, Table};
use glidepath_queue::{Left, Queue, Seat, Taken};

use crate::mutant::{self, Mutant};
use crate::table::{DecideError, Shared, Transactions};
use crate::{Outcome, Timestamp};

/// Ends that wait for the writer at most.
const MOST_WAITING: usize = 65_536;

/// Rows with a request under way at most.
const MOST_ROWS: usize = 64;

/// How a transaction is to end, and in which table.
struct End {
    table: Arc<Shared>,
    start: Timestamp,
    outcome: Outcome,
}

type Decided = Result<Outcome, DecideError>;
type Asked = Taken<End, Decided>;
type Waiting = VecDeque<Asked>;

/// A row of a table.
type Row = (Table, Bytes);

/// Tasks of a process that end transactions through one [`Writer`]. Clones are handles to the same writer; once all of
/// them are dropped, it ends.
pub struct Batches {
    queue: Arc<Queue<End, Decided>>,
}

/// There is a writer already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these batches have a writer already: one task runs `serve`")]
pub struct AlreadyServed;

impl Batches {
    /// Without a writer yet.
    #[must_use]
    pub fn new() -> Self {
        Self { queue: Arc::new(Queue::new(MOST_WAITING)) }
    }

    /// As [`Transactions::decide`] of this table.
    ///
    /// # Errors
    /// [`DecideError`]
    pub async fn decide<E: Env, K: KvStore>(
        &self,
        table: &Transactions<E, K>,
        start: Timestamp,
        outcome: Outcome,
    ) -> Decided {
        if table.gathers() {
            return table.decide(start, outcome).await;
        }
        let end = End { table: Arc::clone(table.shared()), start, outcome };
        let Ok(ticket) = self.queue.enqueue(end) else { return table.decide(start, outcome).await };
        match ticket.await {
            Ok(decided) => decided,
            // To send it again settles what became of it.
            Err(Left::NotSent | Left::Sent) => table.decide(start, outcome).await,
        }
    }

    /// The writer from now on.
    ///
    /// # Errors
    /// [`AlreadyServed`]
    pub fn writer<E: Env, K: KvStore>(&self, env: E, store: K) -> Result<Writer<E, K>, AlreadyServed> {
        self.queue.seat().map(|seat| Writer { env, store, seat }).ok_or(AlreadyServed)
    }
}

impl Default for Batches {
    fn default() -> Self {
        Self::new()
    }
}

impl Clone for Batches {
    fn clone(&self) -> Self {
        self.queue.add_handle();
        Self { queue: Arc::clone(&self.queue) }
    }
}

impl Drop for Batches {
    fn drop(&mut self) {
        self.queue.drop_handle();
    }
}

/// Who sends the ends of transactions for a process. It must run in a task or a thread of its own, so that no task that
/// goes away, or is not polled for a while, stops it.
#[must_use = "tasks wait until a task runs `serve`"]
pub struct Writer<E, K> {
    env: E,
    store: K,
    seat: Seat<End, Decided>,
}

/// A request under way, and the tasks that wait for it.
struct Sent<F> {
    asked: Vec<Asked>,
    answers: Pin<Box<F>>,
}

impl<E: Env + Clone, K: KvStore + Clone> Writer<E, K> {
    /// Serves until no task is left that could ask. Dropping the future ends it.
    pub async fn serve(self) {
        let mut waiting: BTreeMap<Row, Waiting> = BTreeMap::new();
        let mut under_way = BTreeMap::new();
        let mut more = true;
        while more || !under_way.is_empty() {
            more = Self::news(&self.seat, more, &mut under_way).await;
            for taken in self.seat.take(MOST_WAITING) {
                let End { table, start, .. } = taken.request();
                let row = (table.name().clone(), table.encoding().cell(*start).row);
                waiting.entry(row).or_default().push_back(taken);
            }
            let idle = waiting.keys().filter(|row| !under_way.contains_key(*row));
            let idle: Vec<Row> = idle.take(MOST_ROWS.saturating_sub(under_way.len())).cloned().collect();
            for row in idle {
                let Some(mut asked) = waiting.remove(&row) else { continue };
                if let Some(sent) = self.send(&mut asked) {
                    under_way.insert(row.clone(), sent);
                }
                if !asked.is_empty() {
                    waiting.insert(row, asked);
                }
            }
        }
    }

    /// Waits until there is a request, or an answer to one that is under way; then answers all that can be answered.
    /// Whether there may be more requests.
    async fn news<F: Future<Output = Vec<Decided>>>(
        seat: &Seat<End, Decided>,
        more: bool,
        under_way: &mut BTreeMap<Row, Sent<F>>,
    ) -> bool {
        let mut some = std::pin::pin!(seat.some());
        poll_fn(|context| {
            let asked = if more { some.as_mut().poll(context) } else { Poll::Pending };
            let before = under_way.len();
            under_way.retain(|_, Sent { asked, answers }| match answers.as_mut().poll(context) {
                Poll::Ready(mut answers) => {
                    if mutant::is(Mutant::AnswersShifted) && !answers.is_empty() {
                        answers.rotate_left(1);
                    }
                    asked.drain(..).zip(answers).for_each(|(taken, answer)| taken.answer(answer));
                    false
                }
                Poll::Pending => true,
            });
            match asked {
                Poll::Ready(more) => Poll::Ready(more),
                Poll::Pending if under_way.len() < before => Poll::Ready(more),
                Poll::Pending => Poll::Pending,
            }
        })
        .await
    }

    /// Sends the ends of the first transactions that wait, each transaction once.
    fn send(&self, waiting: &mut Waiting) -> Option<Sent<impl Future<Output = Vec<Decided>> + use<E, K>>> {
        let shared = Arc::clone(&waiting.front()?.request().table);
        let table = Transactions::with(self.env.clone(), self.store.clone(), shared);
        let most = table.most_columns();
        let mut starts = BTreeSet::new();
        let mut asked = Vec::new();
        for mut taken in std::mem::take(waiting) {
            if starts.len() == most || !starts.insert(taken.request().start) {
                waiting.push_back(taken);
                continue;
            }
            taken.sent = true;
            asked.push(taken);
        }
        let ends: Vec<_> = asked.iter().map(|taken| (taken.request().start, taken.request().outcome)).collect();
        let answers = async move {
            let mut answers = table.decide_many(&ends).await;
            answers.resize_with(ends.len(), || Err(DecideError::Unknown(Cause::words("there was no answer"))));
            answers
        };
        Some(Sent { asked, answers: Box::pin(answers) })
    }
}
