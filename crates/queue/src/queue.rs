//! The queue of a group: which requests wait for the leader, and what each was answered. Only the queue's logic: no
//! requests to a store, no clock.
//!
//! One lock guards the queue. Everything that depends on its content is decided under that lock: who waits, whether
//! there is a leader, whether more requests can come. Another lock guards each slot's answer. The two are never held
//! together, and no task is woken under either.
//!
//! A request is in one state at a time: waiting, taken by the leader ([`Taken`]), or answered. Whatever ends a state
//! without an answer sends one, so no writer waits for an answer that cannot come.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};

use super::sync::{Mutex, MutexGuard};

/// Requests on their way to a leader.
pub struct Queue<R, A> {
    state: Mutex<State<R, A>>,
    most_waiting: usize,
}

/// What the queue's lock guards.
pub(crate) struct State<R, A> {
    pub(crate) waiting: VecDeque<Arc<Slot<R, A>>>,
    /// The number of handles that can still enqueue.
    pub(crate) handles: usize,
    /// Whether there is a leader.
    pub(crate) led: bool,
    pub(crate) closed: bool,
    /// The leader's waker, while it waits.
    pub(crate) leader: Option<Waker>,
}

/// A request, and the answer to it.
pub(crate) struct Slot<R, A> {
    request: R,
    state: Mutex<Answering<A>>,
}

struct Answering<A> {
    answer: Option<Result<A, Left>>,
    waker: Option<Waker>,
}

/// Why there is no answer: the leader dropped the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// The leader had not taken it, or had sent nothing of it.
    NotSent,
    /// It may have been sent.
    Sent,
}

/// Why a request was not enqueued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotQueued {
    /// This many wait already.
    Full(usize),
    /// There is no leader to answer it.
    NoLeader,
    /// No more requests are taken.
    Closed,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code under these locks can panic half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wake(waker: Option<Waker>) {
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// Stores the caller's waker; does not clone it if the stored one wakes the same task.
fn leave(place: &mut Option<Waker>, waker: &Waker) {
    if place.as_ref().is_none_or(|left| !left.will_wake(waker)) {
        *place = Some(waker.clone());
    }
}

impl<R, A> Queue<R, A> {
    /// An empty queue with one handle, in which at most this many requests wait.
    pub fn new(most_waiting: usize) -> Self {
        let state = State { waiting: VecDeque::new(), handles: 1, led: false, closed: false, leader: None };
        Self { state: Mutex::new(state), most_waiting: most_waiting.max(1) }
    }

    pub(crate) fn locked(&self) -> MutexGuard<'_, State<R, A>> {
        locked(&self.state)
    }

    /// The number of waiting requests, without those that the leader has taken.
    pub fn waiting(&self) -> usize {
        self.locked().waiting.len()
    }

    /// Adds a handle that can enqueue.
    pub fn add_handle(&self) {
        self.locked().handles += 1;
    }

    /// Drops a handle. After the last one, the leader ends when it has answered all requests.
    pub fn drop_handle(&self) {
        let leader = {
            let mut state = self.locked();
            state.handles -= 1;
            if state.handles == 0 { state.leader.take() } else { None }
        };
        wake(leader);
    }

    /// Accepts no more requests. The leader ends when it has answered the waiting ones.
    pub fn close(&self) {
        let leader = {
            let mut state = self.locked();
            state.closed = true;
            state.leader.take()
        };
        wake(leader);
    }

    /// Puts a request at the end.
    pub fn enqueue(self: &Arc<Self>, request: R) -> Result<Ticket<R, A>, NotQueued> {
        let slot = Slot::new(request);
        let leader = {
            let mut state = self.locked();
            if state.closed {
                return Err(NotQueued::Closed);
            }
            if !state.led {
                return Err(NotQueued::NoLeader);
            }
            if state.waiting.len() >= self.most_waiting {
                return Err(NotQueued::Full(state.waiting.len()));
            }
            state.waiting.push_back(Arc::clone(&slot));
            state.leader.take()
        };
        wake(leader);
        Ok(Ticket { queue: Some(Arc::clone(self)), slot })
    }

    /// Makes the caller the leader, if there is none.
    pub fn seat(self: &Arc<Self>) -> Option<Seat<R, A>> {
        let was = std::mem::replace(&mut self.locked().led, true);
        (!was).then(|| Seat { queue: Arc::clone(self), handed_over: false })
    }

    /// Tells the first that waits, if there is no leader, that nothing was sent: so it comes and leads.
    fn call_next(&self) {
        let next = {
            let mut state = self.locked();
            if state.led { None } else { state.waiting.pop_front() }
        };
        if let Some(slot) = next {
            slot.tell(Err(Left::NotSent));
        }
    }

    fn withdraw(&self, slot: &Arc<Slot<R, A>>) {
        // Taken out under the lock, dropped after it.
        let mut state = self.locked();
        let place = state.waiting.iter().position(|other| Arc::ptr_eq(other, slot));
        let withdrawn = place.and_then(|place| state.waiting.remove(place));
        drop(state);
        drop(withdrawn);
    }
}

impl<R, A> Slot<R, A> {
    pub(crate) fn new(request: R) -> Arc<Self> {
        Arc::new(Self { request, state: Mutex::new(Answering { answer: None, waker: None }) })
    }

    pub(crate) fn tell(&self, answer: Result<A, Left>) {
        let waker = {
            let mut state = locked(&self.state);
            state.answer = Some(answer);
            state.waker.take()
        };
        wake(waker);
    }
}

/// The request of a writer that commits alone, taken by that writer itself.
pub fn alone<R, A>(request: R) -> (Taken<R, A>, Ticket<R, A>) {
    let slot = Slot::new(request);
    (Taken { slot: Some(Arc::clone(&slot)), sent: false }, Ticket { queue: None, slot })
}

/// The future of an answer. Dropping it withdraws the request if the leader has not taken it. A request that was taken
/// is still committed, and its answer is discarded.
pub struct Ticket<R, A> {
    /// The queue in which it may be waiting.
    pub(crate) queue: Option<Arc<Queue<R, A>>>,
    pub(crate) slot: Arc<Slot<R, A>>,
}

impl<R, A> Future for Ticket<R, A> {
    type Output = Result<A, Left>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = {
            let mut state = locked(&self.slot.state);
            if state.answer.is_none() {
                leave(&mut state.waker, context.waker());
            }
            state.answer.take()
        };
        match answer {
            Some(answer) => {
                // It is not in the queue any more.
                self.queue = None;
                Poll::Ready(answer)
            }
            None => Poll::Pending,
        }
    }
}

impl<R, A> Drop for Ticket<R, A> {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            queue.withdraw(&self.slot);
            // If this one was to lead next, another one must.
            queue.call_next();
        }
    }
}

/// A request that the leader has taken. If it is dropped without an answer, its writer is told so.
pub struct Taken<R, A> {
    /// `None` once it is answered.
    slot: Option<Arc<Slot<R, A>>>,
    /// Whether a write that contains it may have been sent.
    pub sent: bool,
}

impl<R, A> Taken<R, A> {
    /// # Panics
    /// If it has been answered.
    pub fn request(&self) -> &R {
        &self.slot.as_ref().expect("a request is in hand until it is answered").request
    }

    /// Answers the request.
    pub fn answer(mut self, answer: A) {
        if let Some(slot) = self.slot.take() {
            slot.tell(Ok(answer));
        }
    }
}

impl<R, A> Drop for Taken<R, A> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            slot.tell(Err(if self.sent { Left::Sent } else { Left::NotSent }));
        }
    }
}

/// The leader's role in a queue. Dropping it frees the role, and waiting writers are told that nothing was sent.
pub struct Seat<R, A> {
    queue: Arc<Queue<R, A>>,
    handed_over: bool,
}

impl<R, A> Seat<R, A> {
    /// Takes up to this many requests, in the order in which they came.
    pub fn take(&self, most: usize) -> Vec<Taken<R, A>> {
        self.take_while(most, |_| true)
    }

    /// The same, before the first of which this is false. It gets the role by [`hand_over`](Self::hand_over) when it is
    /// the first that waits.
    pub fn take_while(&self, most: usize, is_taken: impl Fn(&R) -> bool) -> Vec<Taken<R, A>> {
        let mut state = self.queue.locked();
        let taken = state.waiting.iter().take(most).take_while(|slot| is_taken(&slot.request)).count();
        state.waiting.drain(..taken).map(|slot| Taken { slot: Some(slot), sent: false }).collect()
    }

    /// Frees the role, and tells the first that waits that nothing was sent. The others stay in the queue, so that who leads
    /// next takes them all. So a writer that is told so must at once ask for the role and enqueue its request again; if it
    /// goes away instead, the next one is told.
    pub fn hand_over(mut self) {
        {
            let mut state = self.queue.locked();
            (state.led, state.leader) = (false, None);
        }
        self.handed_over = true;
        self.queue.call_next();
    }

    /// Waits until there is a request; `false` if no more can come.
    pub async fn some(&self) -> bool {
        std::future::poll_fn(|context| {
            let mut state = self.queue.locked();
            if !state.waiting.is_empty() {
                return Poll::Ready(true);
            }
            if state.closed || state.handles == 0 {
                return Poll::Ready(false);
            }
            leave(&mut state.leader, context.waker());
            Poll::Pending
        })
        .await
    }
}

impl<R, A> Drop for Seat<R, A> {
    fn drop(&mut self) {
        if self.handed_over {
            return;
        }
        // Under one lock: requests that come later find no leader, and earlier ones are answered.
        let waiting = {
            let mut state = self.queue.locked();
            (state.led, state.leader) = (false, None);
            std::mem::take(&mut state.waiting)
        };
        for slot in waiting {
            slot.tell(Err(Left::NotSent));
        }
    }
}
