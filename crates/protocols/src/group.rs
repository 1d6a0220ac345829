//! How do many writers of one process share one guarded write?
//!
//! Writers put their requests into a queue. One of them, the leader, takes what is in it and commits it as one version; each
//! request is decided by itself, so one that cannot be done fails alone. Meanwhile the next requests gather. Nobody waits
//! for company: who finds no leader leads at once, and hands over as soon as its own request is answered.
//!
//! 1. Enqueue the request. With a leader at work: wait until it is answered, or until told to lead.
//! 2. Lead: take what is queued, up to [`MOST`] requests, and try to commit it on top of the newest version known.
//! 3. Committed: what could be done is done; what was refused was refused by the newest version.
//! 4. Nothing could be done, on a version that may be old: load the newest, and decide again.
//! 5. Conflict: wait a little, take what has been queued meanwhile, and try on the newer version.
//! 6. Unknown: what was sent is told so; it is never sent again.
//! 7. A leader that is dropped tells those whose requests it has sent that the outcome is unknown, and hands over.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use glidepath_env::{Backoff, Cause, Env, Exponential, JitterRange, Purpose};
use glidepath_model::Span;

use crate::catalog::{Catalog, LoadError, Outcome};

/// Requests that one version takes at most.
pub const MOST: usize = 512;

/// A catalog that can commit several requests as one version.
pub trait Grouped: Catalog {
    /// What one writer asks for, done whole or not at all.
    type Request;
    /// Why the catalog as it is does not allow it.
    type Refusal: Clone;

    /// The newest version that this process knows of, without a request to the store.
    fn newest_known(&self) -> Option<Self::Snapshot>;

    /// Tries once to commit these requests on top of `base`, each decided as if those before it were done. Dropping the
    /// future leaves the outcome unknown.
    fn attempt_group(
        &self,
        base: &Self::Snapshot,
        requests: &[&Self::Request],
    ) -> impl Future<Output = GroupAttempt<Self::Snapshot, Self::Refusal>>;

    /// Whether a request that was refused now is done all the same, because somebody else did it after this writer first
    /// tried: what was to be dropped is gone.
    fn done_by_others(_request: &Self::Request, _refusal: &Self::Refusal) -> bool {
        false
    }
}

/// How a try of a group ended.
#[derive(Debug)]
pub enum GroupAttempt<S, R> {
    /// Each was decided. `None` for the outcome: nothing was to be sent.
    Decided {
        /// One for each request.
        verdicts: Vec<Result<(), R>>,
        /// What became of those that could be done, together.
        outcome: Option<Outcome<S>>,
    },
    /// What had to be read could not be read; no commit was sent.
    NotMade(LoadError),
}

/// How long a writer goes on.
#[derive(Clone, Copy, Debug)]
pub struct Persistence {
    /// Tries before it gives up.
    pub tries: u32,
    /// Between tries.
    pub backoff: Backoff,
}

impl Default for Persistence {
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
pub enum CommitError<R> {
    /// The newest version does not allow it. It was not done.
    #[error("{0}")]
    Refused(R),
    /// Others were always faster. It was not done; it may be tried again.
    #[error("contention: gave up after {tries} tries")]
    Contention {
        /// How many.
        tries: u32,
    },
    /// It may have been done, or may yet be.
    #[error("outcome unknown: {0}")]
    Unknown(Cause),
    /// The store did not do its part. It was not done.
    #[error("not committed: {0}")]
    Failed(Cause),
}

/// What a request is answered.
pub type Answer<C> = Result<<C as Catalog>::Snapshot, CommitError<<C as Grouped>::Refusal>>;

/// The queue of a process's writers; shared by their [`Committer`]s.
pub struct Group<C: Grouped> {
    queue: Mutex<Queue<C>>,
}

struct Queue<C: Grouped> {
    waiting: VecDeque<Arc<Slot<C>>>,
    /// Whether somebody leads, or has been told to.
    led: bool,
}

struct Slot<C: Grouped> {
    request: C::Request,
    state: Mutex<SlotState<C>>,
}

struct SlotState<C: Grouped> {
    answer: Option<Answer<C>>,
    leads: bool,
    waker: Option<Waker>,
}

impl<C: Grouped> Default for Group<C> {
    fn default() -> Self {
        Self { queue: Mutex::new(Queue { waiting: VecDeque::new(), led: false }) }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing that is done under these locks can panic half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<C: Grouped> Slot<C> {
    fn answer(&self, answer: Answer<C>) {
        let mut state = locked(&self.state);
        state.answer = Some(answer);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }
}

impl<C: Grouped> Group<C> {
    /// Ends a leader's term: the next in the queue leads, or nobody.
    fn hand_over(&self) {
        let mut queue = locked(&self.queue);
        queue.led = false;
        if let Some(next) = queue.waiting.front().cloned() {
            let mut state = locked(&next.state);
            state.leads = true;
            queue.led = true;
            if let Some(waker) = state.waker.take() {
                waker.wake();
            }
        }
    }
}

/// Commits requests, again and again until they are done, refused, or hopeless.
pub struct Committer<E: Env, C: Grouped> {
    env: E,
    catalog: C,
    group: Option<Arc<Group<C>>>,
    persistence: Persistence,
}

impl<E: Env, C: Grouped> Committer<E, C> {
    /// One that shares commits with all that have the same group.
    pub fn grouped(env: E, catalog: C, group: Arc<Group<C>>, persistence: Persistence) -> Self {
        Self { env, catalog, group: Some(group), persistence }
    }

    /// One that commits alone.
    pub fn alone(env: E, catalog: C, persistence: Persistence) -> Self {
        Self { env, catalog, group: None, persistence }
    }

    /// The catalog.
    pub fn catalog(&self) -> &C {
        &self.catalog
    }

    /// Commits a request. Dropping the future leaves its outcome unknown.
    ///
    /// # Errors
    /// [`CommitError`] says whether it can have been done.
    pub async fn commit(&self, request: C::Request) -> Answer<C> {
        let state = Mutex::new(SlotState { answer: None, leads: false, waker: None });
        let slot = Arc::new(Slot { request, state });
        let Some(group) = &self.group else {
            let alone = Group { queue: Mutex::new(Queue { waiting: VecDeque::from([slot.clone()]), led: true }) };
            return self.lead(&alone, &slot).await;
        };
        let first = {
            let mut queue = locked(&group.queue);
            queue.waiting.push_back(Arc::clone(&slot));
            !std::mem::replace(&mut queue.led, true)
        };
        let mut member = Member { group, slot: &slot, waits: true };
        // Step 1.
        let answer = if first { None } else { member.wait().await };
        member.waits = false;
        match answer {
            Some(answer) => answer,
            None => self.lead(group, &slot).await,
        }
    }

    /// Steps 2 to 7, until the leader's own request is answered.
    async fn lead(&self, group: &Group<C>, own: &Arc<Slot<C>>) -> Answer<C> {
        let mut term = Term { group, batch: Vec::new(), sent: false };
        loop {
            if let Some(answer) = locked(&own.state).answer.take() {
                return answer;
            }
            self.round(&mut term).await;
        }
    }

    /// One batch, from the first try to the last answer.
    async fn round(&self, term: &mut Term<'_, C>) {
        let (mut base, mut fresh) = (self.catalog.newest_known(), false);
        for attempt in 0..self.persistence.tries {
            // What came after the base was read may be refused by it wrongly.
            fresh &= term.take() == 0;
            let on = match base.take() {
                Some(base) => base,
                None => match self.catalog.load().await {
                    Ok(head) => {
                        fresh = true;
                        head
                    }
                    Err(error) => return term.fail(&Cause::from_error(error)),
                },
            };
            let requests: Vec<&C::Request> = term.batch.iter().map(|member| &member.slot.request).collect();
            term.sent = true;
            let tried = self.catalog.attempt_group(&on, &requests).await;
            term.sent = false;
            let (verdicts, outcome) = match tried {
                GroupAttempt::NotMade(error) => return term.fail(&Cause::from_error(error)),
                GroupAttempt::Decided { verdicts, outcome } => (verdicts, outcome),
            };
            match outcome {
                // Step 3.
                Some(Outcome::Committed(now)) => return term.answer(&verdicts, |()| Ok(now.clone())),
                // Step 6.
                Some(Outcome::Unknown(cause)) => {
                    return term.answer_unknown(&verdicts, fresh, &cause);
                }
                None if fresh => return term.answer(&verdicts, |()| Ok(on.clone())),
                // Step 4.
                None => continue,
                // Step 5.
                Some(Outcome::Conflict(newer)) => {
                    // The next version may be an old one, too: after losing twice in a row, look for the newest.
                    (base, fresh) = (newer.filter(|_| attempt % 2 == 0), false);
                }
                Some(Outcome::Refused(denial)) => {
                    if !denial.passing || attempt + 1 == self.persistence.tries {
                        return term.fail(&denial.cause);
                    }
                    base = Some(on);
                }
            }
            for member in &mut term.batch {
                member.tried = true;
            }
            let wait = self.persistence.backoff.wait(attempt, || self.env.draw(Purpose::Backoff));
            if wait > Span::ZERO {
                self.env.sleep_until(self.env.now() + wait).await;
            }
        }
        term.give_up(self.persistence.tries);
    }
}

/// A request in a leader's hands.
struct Taken<C: Grouped> {
    slot: Arc<Slot<C>>,
    /// Whether it has been sent before, and lost.
    tried: bool,
}

/// What a leader holds. Dropped, it answers what is left and hands over.
struct Term<'a, C: Grouped> {
    group: &'a Group<C>,
    batch: Vec<Taken<C>>,
    /// Whether a write may be on its way.
    sent: bool,
}

impl<C: Grouped> Term<'_, C> {
    /// Takes what is queued; returns how much.
    fn take(&mut self) -> usize {
        let mut queue = locked(&self.group.queue);
        let room = MOST.saturating_sub(self.batch.len()).min(queue.waiting.len());
        self.batch.extend(queue.waiting.drain(..room).map(|slot| Taken { slot, tried: false }));
        room
    }

    fn answer(&mut self, verdicts: &[Result<(), C::Refusal>], done: impl Fn(()) -> Answer<C>) {
        for (taken, verdict) in self.batch.drain(..).zip(verdicts) {
            taken.slot.answer(match verdict {
                Err(refusal) if !(taken.tried && C::done_by_others(&taken.slot.request, refusal)) => {
                    Err(CommitError::Refused(refusal.clone()))
                }
                _ => done(()),
            });
        }
    }

    /// Of a version of unknown outcome: what it would not have held was not done, but whether it is refused is another matter.
    fn answer_unknown(&mut self, verdicts: &[Result<(), C::Refusal>], fresh: bool, cause: &Cause) {
        for (taken, verdict) in self.batch.drain(..).zip(verdicts) {
            taken.slot.answer(Err(match verdict {
                Ok(()) => CommitError::Unknown(cause.clone()),
                Err(refusal) if fresh => CommitError::Refused(refusal.clone()),
                Err(_) => CommitError::Failed(cause.clone()),
            }));
        }
    }

    fn fail(&mut self, cause: &Cause) {
        for taken in self.batch.drain(..) {
            taken.slot.answer(Err(CommitError::Failed(cause.clone())));
        }
    }

    fn give_up(&mut self, tries: u32) {
        for taken in self.batch.drain(..) {
            taken.slot.answer(Err(CommitError::Contention { tries }));
        }
    }
}

impl<C: Grouped> Drop for Term<'_, C> {
    /// Step 7, and the end of every term.
    fn drop(&mut self) {
        let cause = Cause::words("the writer that was committing for several stopped half-way");
        for taken in self.batch.drain(..) {
            let error =
                if self.sent { CommitError::Unknown(cause.clone()) } else { CommitError::Failed(cause.clone()) };
            taken.slot.answer(Err(error));
        }
        self.group.hand_over();
    }
}

/// A writer that waits. Dropped when it had just been told to lead, it passes that on.
struct Member<'a, C: Grouped> {
    group: &'a Group<C>,
    slot: &'a Arc<Slot<C>>,
    waits: bool,
}

impl<C: Grouped> Member<'_, C> {
    /// The answer, or `None`: lead.
    async fn wait(&self) -> Option<Answer<C>> {
        poll_fn(|context| {
            let mut state = locked(&self.slot.state);
            if let Some(answer) = state.answer.take() {
                return Poll::Ready(Some(answer));
            }
            if state.leads {
                return Poll::Ready(None);
            }
            state.waker = Some(context.waker().clone());
            Poll::Pending
        })
        .await
    }
}

impl<C: Grouped> Drop for Member<'_, C> {
    fn drop(&mut self) {
        if !self.waits {
            return;
        }
        let leads = locked(&self.slot.state).leads;
        let mut queue = locked(&self.group.queue);
        // Nobody waits for it any more; if it has been taken, it takes its course.
        queue.waiting.retain(|slot| !Arc::ptr_eq(slot, self.slot));
        drop(queue);
        if leads {
            self.group.hand_over();
        }
    }
}

#[cfg(test)]
mod tests;
