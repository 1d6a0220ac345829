//! How do many writers of one process share one guarded write?
//!
//! Writers put their requests into a queue and wait for their answers. The *leader*, a task of its own, takes what is in the
//! queue, a *batch*, and commits it as one version; each request is decided by itself, so one that cannot be done fails alone.
//! Meanwhile the next requests gather. Nobody waits for company: a leader that finds one request commits it at once.
//!
//! Steps (the numbers that comments cite; faults and answers are in `docs/protocols/group-commit.md`):
//!
//! 1. Enqueue the request. Where the queue is full, or nobody leads, it is turned away at once. (crate `queue`)
//! 2. The leader takes what is queued, up to [`MOST`] requests, and tries to commit it on top of the newest version known, as
//!    many from the front as one version holds. (`leader.rs`)
//! 3. Committed: what could be done is done; what was refused was refused by that very version.
//! 4. Nothing was to be sent: each is told what was decided, if the base was loaded after all of them were taken; else load the
//!    newest, and decide again.
//! 5. Conflict, or turned away for a reason that passes: wait a little, take what has been queued meanwhile, and try again.
//! 6. Unknown: what was sent is told so, and never sent again. What was refused beside it, or only asserts, is decided again.
//! 7. Turned away for good: what was sent was not done. What was refused beside it, or only asserts, is decided again.
//! 8. A caller that goes away withdraws its request, unless it was taken: then it takes its course.
//! 9. A leader that goes away tells those whose requests it may have sent that the outcome is unknown, and the rest that
//!    nothing was done.
//!
//! One who commits alone takes the steps of a leader itself, with a batch of one.

mod leader;
mod loads;

use std::sync::Arc;

use glidepath_env::{Backoff, Cause, Env, Exponential, JitterRange};
use glidepath_model::{Action, Refusal, Span};
use glidepath_queue::{Left, NotQueued, Queue, alone};

use crate::catalog::{Catalog, LoadError, Outcome};
use leader::Work;
pub use leader::{AlreadyLed, Leader};
pub use loads::{Loader, Loads};

/// Requests that one version takes at most.
pub const MOST: usize = 512;

/// Requests that wait for a leader at most, unless a group is told otherwise.
pub const MOST_WAITING: usize = 4096;

/// A catalog that can commit several requests as one version.
pub trait Grouped: Catalog {
    /// The newest version that this process knows of, without a request to the store.
    fn newest_known(&self) -> Option<Self::Snapshot>;

    /// Tries once to commit these requests (one at least) on top of `base`, or of a newer version that it knows of, each decided
    /// as if those before it were done. Dropping the future leaves the outcome unknown.
    fn attempt_group(
        &self,
        base: &Self::Snapshot,
        requests: &[&[Action]],
    ) -> impl Future<Output = GroupAttempt<Self::Snapshot>>;
}

/// What one writer asks for, done whole or not at all.
pub type Request = Vec<Action>;

/// How a try of a group ended.
#[derive(Debug)]
pub enum GroupAttempt<S> {
    /// The first of them were decided.
    Decided {
        /// One for each that was decided: at least one, and fewer than were given where one version cannot hold them all.
        verdicts: Vec<Verdict>,
        /// What became of those that fit, together. `None`: nothing was to be sent, and what fits does so on `base` itself.
        outcome: Option<Outcome<S>>,
    },
    /// What had to be read could not be read; no commit was sent.
    NotMade(LoadError),
}

impl<S> GroupAttempt<S> {
    /// The same with another kind of snapshot.
    pub(crate) fn map<T>(self, snapshot: impl FnOnce(S) -> T) -> GroupAttempt<T> {
        match self {
            Self::Decided { verdicts, outcome } => {
                GroupAttempt::Decided { verdicts, outcome: outcome.map(|outcome| outcome.map(snapshot)) }
            }
            Self::NotMade(error) => GroupAttempt::NotMade(error),
        }
    }
}

/// Whether one request can be done to the version that was tried.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It can, and what it changes is part of what was sent.
    Fits,
    /// The catalog as it was, with the requests before it done, does not allow it.
    Refused(Refusal),
    /// It cannot be done to any version, because of its size for instance.
    Failed(Cause),
}

/// How long a request is tried.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// Tries that a request takes part in before it is given up; at least one.
    pub tries: u32,
    /// Between tries.
    pub backoff: Backoff,
}

impl Default for RetryPolicy {
    /// Sixty tries, from 5 ms of waiting on, doubling to one second, each anything from nothing to that: about half a minute
    /// in all.
    fn default() -> Self {
        let (first, longest) = (Span::from_millis(5), Span::from_secs(1));
        let jitter = JitterRange { low: 0.0, high: 1.0 };
        Self { tries: 60, backoff: Backoff::Exponential(Exponential { first, factor: 2.0, longest, jitter }) }
    }
}

/// Why a request was not committed, by what the caller can do.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitError {
    /// The newest version at some moment since the call does not allow it. It was not done.
    #[error("{0}")]
    Refused(Refusal),
    /// Others were always faster. It was not done; it may be tried again.
    #[error("contention: gave up after {tries} tries")]
    Contention {
        /// How many.
        tries: u32,
    },
    /// Too many wait for the same leader. It was not done; it may be tried again later.
    #[error("too many commits at once: {waiting} wait already")]
    Full {
        /// How many.
        waiting: usize,
    },
    /// It may have been done, or may yet be.
    #[error("outcome unknown: {0}")]
    Unknown(Cause),
    /// The store did not do its part, or the request is too large, or nobody leads the group. It was not done.
    #[error("not committed: {0}")]
    Failed(Cause),
}

/// What a request is answered.
pub type Answer<C> = Result<<C as Catalog>::Snapshot, CommitError>;

type QueueOf<C> = Queue<Request, Answer<C>>;

/// Writers of a process that share commits, and need a [`Leader`]. Clones are handles to the same group; once all of them are
/// dropped, and everybody is answered, its leader ends.
pub struct Group<C: Grouped> {
    queue: Arc<QueueOf<C>>,
}

impl<C: Grouped> Group<C> {
    /// A group without a leader, in whose queue at most so many requests wait (and one at least).
    #[must_use]
    pub fn new(most_waiting: usize) -> Self {
        Self { queue: Arc::new(Queue::new(most_waiting)) }
    }

    /// Requests that wait for the leader, those not counted that it is working on.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.waiting()
    }

    /// Takes no more requests, from whatever handle. The leader answers those that wait, and ends.
    pub fn close(&self) {
        self.queue.close();
    }
}

impl<C: Grouped> Default for Group<C> {
    fn default() -> Self {
        Self::new(MOST_WAITING)
    }
}

impl<C: Grouped> Clone for Group<C> {
    fn clone(&self) -> Self {
        self.queue.add_handle();
        Self { queue: Arc::clone(&self.queue) }
    }
}

impl<C: Grouped> Drop for Group<C> {
    fn drop(&mut self) {
        self.queue.drop_handle();
    }
}

/// Commits requests: each again and again until it is done, refused, or hopeless.
pub struct Committer<E: Env, C: Grouped> {
    env: E,
    catalog: C,
    way: Way<C>,
}

enum Way<C: Grouped> {
    Grouped(Group<C>),
    Alone(RetryPolicy),
}

impl<E: Env, C: Grouped> Committer<E, C> {
    /// One whose requests the group's [`Leader`] commits, together with those of others. The catalog is for the caller to read.
    pub fn grouped(env: E, catalog: C, group: Group<C>) -> Self {
        Self { env, catalog, way: Way::Grouped(group) }
    }

    /// One that commits alone.
    pub fn alone(env: E, catalog: C, retry_policy: RetryPolicy) -> Self {
        Self { env, catalog, way: Way::Alone(retry_policy) }
    }

    /// The catalog.
    pub fn catalog(&self) -> &C {
        &self.catalog
    }

    /// Commits a request.
    ///
    /// Dropping the future withdraws a request that waits for the leader of a group: then it is not done. One that the leader
    /// has taken takes its course, and of one that is committed alone the outcome is unknown.
    ///
    /// # Errors
    /// [`CommitError`] says whether it can have been done.
    pub async fn commit(&self, request: Request) -> Answer<C> {
        let ticket = match &self.way {
            // Step 1.
            Way::Grouped(group) => group.queue.enqueue(request).map_err(turned_away)?,
            Way::Alone(retry_policy) => {
                let (taken, ticket) = alone(request);
                Work::new(&self.env, &self.catalog, *retry_policy).answer(vec![taken], |_| Vec::new()).await;
                ticket
            }
        };
        ticket.await.unwrap_or_else(|left| Err(left_behind(left)))
    }
}

fn turned_away(why: NotQueued) -> CommitError {
    let failed = |words: &str| CommitError::Failed(Cause::words(words));
    match why {
        NotQueued::Full(waiting) => CommitError::Full { waiting },
        NotQueued::NoLeader => failed(
            "the group of writers has no leader: none was started, or it stopped; \
             make a `Leader`, and let a task of its own run `lead`",
        ),
        NotQueued::Closed => failed("the group of writers was closed"),
    }
}

/// Step 9.
fn left_behind(left: Left) -> CommitError {
    let cause = Cause::words("the leader of the group of writers stopped before it received an answer");
    match left {
        Left::Sent => CommitError::Unknown(cause),
        Left::NotSent => CommitError::Failed(cause),
    }
}

#[cfg(test)]
mod tests;
