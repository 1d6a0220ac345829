//! Group commit: many writers of one process share one guarded write.
//!
//! Writers put their requests into a queue and wait for the answers. The *leader*, a task of its own, takes the queued
//! requests as a *batch* and commits it as one version. Each request is decided separately, so one that is refused
//! fails alone. Later requests wait for the next batch. A leader that finds a single request commits it at once.
//!
//! Steps (comments cite these numbers; faults and answers are in `docs/protocols/group-commit.md`):
//!
//! 1. Enqueue the request. If the queue is full, or there is no leader, it is rejected at once. (`glidepath_queue`)
//! 2. The leader takes what is queued, up to [`MOST`] requests, and tries to commit it on top of the newest known
//!    version: as many requests from the front as one version can hold. (`leader.rs`)
//! 3. Committed: the requests that fit have taken effect; refusals were decided on that version.
//! 4. Nothing to send: if the base was loaded after all requests were taken, each gets its answer; otherwise load the
//!    newest version, and decide again.
//! 5. Conflict, or a passing denial: wait a little, take what has been queued meanwhile, and try again.
//! 6. Unknown: requests that were sent get this answer, and are never sent again. Others of the batch (refused, or only
//!    assertions) are decided again.
//! 7. Any other denial: requests that were sent failed. Others of the batch (refused, or only assertions) are decided
//!    again.
//! 8. A caller that is dropped withdraws its request, unless the leader has taken it: then the leader still commits it.
//! 9. A leader that is dropped answers requests that it may have sent with an unknown outcome, and the others with "not
//!    done".
//!
//! A writer that commits alone takes the leader's steps itself, with a batch of one.

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

/// The maximum number of requests in one version.
pub const MOST: usize = 512;

/// The default maximum number of requests that wait for a leader.
pub const MOST_WAITING: usize = 4096;

/// A catalog that can commit several requests as one version.
pub trait Grouped: Catalog {
    /// The newest version that this process knows. Makes no request.
    fn newest_known(&self) -> Option<Self::Snapshot>;

    /// Whether this request conflicts only with requests that change the same entry. A batch would only make it wait.
    fn is_apart(&self, _request: &[Action]) -> bool {
        false
    }

    /// Tries once to commit these requests (at least one) on top of `base` or of a newer known version. Each is decided
    /// as if those before it were committed. Dropping the future leaves the outcome unknown.
    fn attempt_group(
        &self,
        base: &Self::Snapshot,
        requests: &[&[Action]],
    ) -> impl Future<Output = GroupAttempt<Self::Snapshot>>;
}

/// The actions of one writer's request: all take effect, or none.
pub type Request = Vec<Action>;

/// How an attempt for a group ended.
#[derive(Debug)]
pub enum GroupAttempt<S> {
    /// The first requests were decided.
    Decided {
        /// One for each decided request: at least one, and fewer than were given if one version cannot hold them all.
        verdicts: Vec<Verdict>,
        /// The outcome of those that fit. `None`: there was nothing to send, and they fit `base` itself. (A protocol
        /// without versions decides on what it reads after the call, so it answers `Committed` if there is nothing to
        /// send.)
        outcome: Option<Outcome<S>>,
    },
    /// The base could not be read; no commit was sent.
    NotMade(LoadError),
}

impl<S> GroupAttempt<S> {
    /// The same with another type of snapshot.
    pub(crate) fn map<T>(self, snapshot: impl FnOnce(S) -> T) -> GroupAttempt<T> {
        match self {
            Self::Decided { verdicts, outcome } => {
                GroupAttempt::Decided { verdicts, outcome: outcome.map(|outcome| outcome.map(snapshot)) }
            }
            Self::NotMade(error) => GroupAttempt::NotMade(error),
        }
    }
}

/// Whether one request fits the version it was decided on.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// It fits, and its changes are part of what was sent.
    Fits,
    /// The catalog, with the earlier requests applied, does not allow it.
    Refused(Refusal),
    /// No version allows it, for example because of its size.
    Failed(Cause),
}

/// How long requests are retried.
#[derive(Clone, Copy, Debug)]
pub struct RetryPolicy {
    /// The number of attempts that a request takes part in; at least one.
    pub tries: u32,
    /// The waits between attempts.
    pub backoff: Backoff,
}

impl Default for RetryPolicy {
    /// A hundred and twenty attempts. Waits start at 5 ms and double up to 300 ms, each multiplied by a random number
    /// from 0 to 1: about 18 s in all, besides the attempts. Longer waits would not make others faster, because what is
    /// lost costs them nothing.
    fn default() -> Self {
        let (first, longest) = (Span::from_millis(5), Span::from_millis(300));
        let jitter = JitterRange { low: 0.0, high: 1.0 };
        Self { tries: 120, backoff: Backoff::Exponential(Exponential { first, factor: 2.0, longest, jitter }) }
    }
}

/// Why a request was not committed, by what the caller can do about it.
#[derive(Clone, Debug, thiserror::Error)]
pub enum CommitError {
    /// The newest version at some time since the call does not allow it. It was not done.
    #[error("{0}")]
    Refused(Refusal),
    /// Other commits came first every time. It was not done; it may be tried again.
    #[error("contention: other commits came first in all {tries} tries")]
    Contention {
        /// The number of attempts.
        tries: u32,
    },
    /// Too many requests wait for the leader. It was not done; it may be tried again later.
    #[error("too many commits at once: {waiting} wait already")]
    Full {
        /// The number of waiting requests.
        waiting: usize,
    },
    /// It may have been done, or may still be.
    #[error("outcome unknown: {0}")]
    Unknown(Cause),
    /// The store failed, the request is too large, or the group has no leader. It was not done.
    #[error("not committed: {0}")]
    Failed(Cause),
}

/// The answer to a request.
pub type Answer<C> = Result<<C as Catalog>::Snapshot, CommitError>;

type QueueOf<C> = Queue<Request, Answer<C>>;

/// Writers of a process that share commits through a [`Leader`]. Clones are handles to the same group; when all are
/// dropped and all requests are answered, the leader ends.
pub struct Group<C: Grouped> {
    queue: Arc<QueueOf<C>>,
}

impl<C: Grouped> Group<C> {
    /// A group without a leader. At most this many requests (and at least one) wait in its queue.
    #[must_use]
    pub fn new(most_waiting: usize) -> Self {
        Self { queue: Arc::new(Queue::new(most_waiting)) }
    }

    /// The number of requests that wait for the leader, without those that it has taken.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.waiting()
    }

    /// Accepts no more requests, from any handle. The leader answers the waiting ones, and ends.
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

/// Commits requests: retries each until it is committed, refused, or out of attempts.
pub struct Committer<E: Env, C: Grouped> {
    env: E,
    catalog: C,
    way: Way<C>,
}

enum Way<C: Grouped> {
    Grouped(Group<C>),
    Mixed(Group<C>, RetryPolicy),
    Alone(RetryPolicy),
}

impl<E: Env, C: Grouped> Committer<E, C> {
    /// A committer whose requests are committed by the group's [`Leader`], together with those of others. The caller
    /// reads from the catalog.
    pub fn grouped(env: E, catalog: C, group: Group<C>) -> Self {
        Self { env, catalog, way: Way::Grouped(group) }
    }

    /// A committer that commits requests [apart](Grouped::is_apart) from all others alone, and the rest as
    /// [`grouped`](Self::grouped) does. For a caller that never has two requests for one entry under way.
    pub fn mixed(env: E, catalog: C, group: Group<C>, retry_policy: RetryPolicy) -> Self {
        Self { env, catalog, way: Way::Mixed(group, retry_policy) }
    }

    /// A committer that commits alone.
    pub fn alone(env: E, catalog: C, retry_policy: RetryPolicy) -> Self {
        Self { env, catalog, way: Way::Alone(retry_policy) }
    }

    /// The catalog.
    pub fn catalog(&self) -> &C {
        &self.catalog
    }

    /// Commits a request.
    ///
    /// Dropping the future withdraws a request that waits for the leader of a group: it is not done. A request that the
    /// leader has taken is still committed. The outcome of a request that is committed alone is then unknown.
    ///
    /// # Errors
    /// [`CommitError`] says whether it can have been done.
    pub async fn commit(&self, request: Request) -> Answer<C> {
        let ticket = match &self.way {
            // Step 1.
            Way::Grouped(group) => group.queue.enqueue(request).map_err(turned_away)?,
            Way::Mixed(group, _) if !self.catalog.is_apart(&request) => {
                group.queue.enqueue(request).map_err(turned_away)?
            }
            Way::Mixed(_, retry_policy) | Way::Alone(retry_policy) => {
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
