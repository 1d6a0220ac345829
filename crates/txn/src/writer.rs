//! How do the tasks of a process end many transactions with few requests? Their ends are put together, a request for
//! each row.
//!
//! 1. A task enqueues the end of a transaction ([`Batches::decide`]). Where the queue is full, there is no writer, or
//!    the store [gathers](glidepath_env::KvCapabilities::gathers) requests itself, it sends it by itself.
//! 2. The [`Writer`], a task of its own, takes what waits and sorts it by row.
//! 3. A row that has no request under way gets one, with all that waits for it, up to what the store takes at once.
//!    Meanwhile the next ones gather. Nothing waits for company: an end whose row is idle is sent at once. Rows do not
//!    wait for each other while there are few; of many, the one that has waited longest is next.
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

/// Ends that wait for the writer at most; and, of those that it has taken, the most that wait for their row.
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

/// What waits for a row.
struct Waiting {
    /// The round since which the row waits for a request.
    since: u64,
    ends: VecDeque<Asked>,
}

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
        let (mut more, mut room) = (true, MOST_WAITING);
        for round in 0.. {
            if !more && under_way.is_empty() {
                return;
            }
            more = Self::news(&self.seat, more, room > 0, &mut under_way).await;
            for taken in self.seat.take(room) {
                let End { table, start, .. } = taken.request();
                let row = (table.name().clone(), table.encoding().cell(*start).row);
                let new = || Waiting { since: round, ends: VecDeque::new() };
                waiting.entry(row).or_insert_with(new).ends.push_back(taken);
            }
            for row in
                next_rows(&waiting, MOST_ROWS.saturating_sub(under_way.len()), |row| !under_way.contains_key(row))
            {
                let Some(Waiting { mut ends, .. }) = waiting.remove(&row) else { continue };
                if let Some(sent) = self.send(&mut ends) {
                    under_way.insert(row.clone(), sent);
                }
                if !ends.is_empty() {
                    waiting.insert(row, Waiting { since: round, ends });
                }
            }
            room = MOST_WAITING.saturating_sub(waiting.values().map(|waiting| waiting.ends.len()).sum());
        }
    }

    /// Waits until there is a request, if there is room for one, or an answer to one that is under way; then answers
    /// all that can be answered. Whether there may be more requests.
    async fn news<F: Future<Output = Vec<Decided>>>(
        seat: &Seat<End, Decided>,
        more: bool,
        has_room: bool,
        under_way: &mut BTreeMap<Row, Sent<F>>,
    ) -> bool {
        let mut some = std::pin::pin!(seat.some());
        poll_fn(|context| {
            let asked = if more && has_room { some.as_mut().poll(context) } else { Poll::Pending };
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
    fn send(&self, waiting: &mut VecDeque<Asked>) -> Option<Sent<impl Future<Output = Vec<Decided>> + use<E, K>>> {
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

/// The rows that get a request next, at most so many: those that have waited longest.
fn next_rows(waiting: &BTreeMap<Row, Waiting>, most: usize, is_idle: impl Fn(&Row) -> bool) -> Vec<Row> {
    let mut idle: Vec<_> = waiting.iter().filter(|(row, _)| is_idle(row)).collect();
    if idle.len() > most {
        idle.sort_by_key(|(_, waiting)| waiting.since);
    }
    idle.into_iter().take(most).map(|(row, _)| row.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_rows_those_that_have_waited_longest_are_next() {
        let row = |number: u8| -> Row { (Table::new("t").unwrap(), Bytes::from(vec![number])) };
        let since = [7, 3, 9, 3, 1];
        let waiting = |since| Waiting { since, ends: VecDeque::new() };
        let rows: BTreeMap<Row, Waiting> = (0..).map(row).zip(since.map(waiting)).collect();
        let next = |most, busy| -> Vec<u8> {
            next_rows(&rows, most, |one| *one != row(busy)).iter().map(|(_, row)| row[0]).collect()
        };
        assert_eq!(next(2, 9), [4, 1]);
        assert_eq!(next(3, 1), [4, 3, 0]);
        assert_eq!(next(9, 2), [0, 1, 3, 4], "all of few, in the order of the table");
        assert_eq!(next(0, 9), [0_u8; 0]);
    }
}
