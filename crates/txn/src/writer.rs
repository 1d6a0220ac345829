//! How do the tasks of a process end many transactions with few requests? Their ends are put together, a request for each row.
//!
//! 1. A task enqueues the end of a transaction ([`Batches::decide`]). Where the queue is full, or there is no writer, it sends it by
//!    itself.
//! 2. The [`Writer`], a task of its own, takes what waits and sorts it by row.
//! 3. A row that has no request under way gets one, with all that waits for it, up to what the store takes at once. Meanwhile the next ones
//!    gather. Nothing waits for company: an end whose row is idle is sent at once. Rows do not wait for each other.
//! 4. Each task is told how its own transaction ended. Two ends of one transaction never go into one request: the second is
//!    told what the first came to.
//! 5. A task that goes away before step 2 withdraws its request. A writer that goes away leaves what it had sent: it is not known
//!    how these transactions ended, and to decide them again settles it.

use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use glidepath_env::{Cause, Env, KvStore};
use glidepath_queue::{Left, Queue, Seat, Taken};

use crate::table::{DecideError, Transactions};
use crate::{Outcome, Timestamp};

/// Ends that wait for the writer at most.
const MOST_WAITING: usize = 65_536;

/// Rows with a request under way at most.
const MOST_ROWS: usize = 64;

type End = (Timestamp, Outcome);
type Decided = Result<Outcome, DecideError>;

/// Tasks of a process that end transactions through one [`Writer`]. Clones are handles to the same writer; once all of them are
/// dropped, it ends.
pub struct Batches<E, K> {
    transactions: Arc<Transactions<E, K>>,
    queue: Arc<Queue<End, Decided>>,
}

/// There is a writer already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("these batches have a writer already: one task runs `serve`")]
pub struct AlreadyServed;

impl<E: Env, K: KvStore> Batches<E, K> {
    /// Without a writer yet.
    #[must_use]
    pub fn new(transactions: Arc<Transactions<E, K>>) -> Self {
        Self { transactions, queue: Arc::new(Queue::new(MOST_WAITING)) }
    }

    /// As [`Transactions::decide`].
    ///
    /// # Errors
    /// [`DecideError`]
    pub async fn decide(&self, start: Timestamp, outcome: Outcome) -> Decided {
        let Ok(ticket) = self.queue.enqueue((start, outcome)) else {
            return self.transactions.decide(start, outcome).await;
        };
        match ticket.await {
            Ok(decided) => decided,
            // To send it again settles what became of it.
            Err(Left::NotSent | Left::Sent) => self.transactions.decide(start, outcome).await,
        }
    }

    /// The writer from now on.
    ///
    /// # Errors
    /// [`AlreadyServed`]
    pub fn writer(&self) -> Result<Writer<E, K>, AlreadyServed> {
        let seat = self.queue.seat().ok_or(AlreadyServed)?;
        Ok(Writer { transactions: Arc::clone(&self.transactions), seat })
    }
}

impl<E, K> Clone for Batches<E, K> {
    fn clone(&self) -> Self {
        self.queue.add_handle();
        Self { transactions: Arc::clone(&self.transactions), queue: Arc::clone(&self.queue) }
    }
}

impl<E, K> Drop for Batches<E, K> {
    fn drop(&mut self) {
        self.queue.drop_handle();
    }
}

/// Who sends the ends of transactions for a process. It must run in a task or a thread of its own, so that no task that goes away, or is
/// not polled for a while, stops it.
#[must_use = "tasks wait until a task runs `serve`"]
pub struct Writer<E, K> {
    transactions: Arc<Transactions<E, K>>,
    seat: Seat<End, Decided>,
}

type Waiting = VecDeque<Taken<End, Decided>>;

/// A request under way, and whom it is for.
struct Sent<'a> {
    asked: Vec<Taken<End, Decided>>,
    answers: Pin<Box<dyn Future<Output = Vec<Decided>> + 'a>>,
}

impl<E: Env, K: KvStore> Writer<E, K> {
    /// Serves until no task is left that could ask. Dropping the future ends it.
    pub async fn serve(self) {
        let Self { transactions, seat } = &self;
        let mut waiting: BTreeMap<Bytes, Waiting> = BTreeMap::new();
        let mut under_way: BTreeMap<Bytes, Sent<'_>> = BTreeMap::new();
        let mut more = true;
        while more || !under_way.is_empty() {
            more = Self::news(seat, more, &mut under_way).await;
            for taken in seat.take(MOST_WAITING) {
                let row = transactions.encoding().cell(taken.request().0).row;
                waiting.entry(row).or_default().push_back(taken);
            }
            let most = transactions.most_columns();
            let idle = waiting.keys().filter(|row| !under_way.contains_key(*row));
            let idle: Vec<Bytes> = idle.take(MOST_ROWS.saturating_sub(under_way.len())).cloned().collect();
            for row in idle {
                let Some(mut first) = waiting.remove(&row) else { continue };
                let sent = Self::send(transactions, &mut first, most);
                if !first.is_empty() {
                    waiting.insert(row.clone(), first);
                }
                under_way.insert(row, sent);
            }
        }
    }

    /// Waits until there is a request, or an answer to one that is under way; then answers all that can be answered. Whether there may be
    /// more requests.
    async fn news(seat: &Seat<End, Decided>, more: bool, under_way: &mut BTreeMap<Bytes, Sent<'_>>) -> bool {
        let mut some = std::pin::pin!(seat.some());
        poll_fn(|context| {
            let asked = if more { some.as_mut().poll(context) } else { Poll::Pending };
            let before = under_way.len();
            under_way.retain(|_, Sent { asked, answers }| match answers.as_mut().poll(context) {
                Poll::Ready(answers) => {
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
    fn send<'a>(transactions: &'a Transactions<E, K>, waiting: &mut Waiting, most: usize) -> Sent<'a> {
        let mut ends: BTreeMap<Timestamp, Outcome> = BTreeMap::new();
        let mut asked = Vec::new();
        let mut later = Waiting::new();
        for mut taken in waiting.drain(..) {
            let (start, outcome) = *taken.request();
            if ends.len() == most || ends.contains_key(&start) {
                later.push_back(taken);
                continue;
            }
            ends.insert(start, outcome);
            taken.sent = true;
            asked.push(taken);
        }
        *waiting = later;
        let ends: Vec<End> = asked.iter().map(|taken| *taken.request()).collect();
        let answers = async move {
            let mut answers = transactions.decide_many(&ends).await;
            let missing = || Err(DecideError::Unknown(Cause::words("there was no answer")));
            answers.resize_with(ends.len(), missing);
            answers
        };
        Sent { asked, answers: Box::pin(answers) }
    }
}
