//! The queue of a group: which requests wait for the leader, and what each was answered. Only the queue's logic: no
//! requests to a store, no clock.
//!
//! One lock guards the queue. Everything that depends on its content is decided under that lock: who waits, whether
//! there is a leader, whether more requests can come. Another lock guards each slot's answer. The two are never held
//! together, and no task is woken under either.
//!
//! A request is in one state at a time: waiting, taken by the leader ([`Taken`]), or answered. Whatever ends a state
//! without an answer sends one, so no writer waits for an answer that cannot come.
//!
//! A leader stays until the end, and others [enqueue](Queue::enqueue). Or each leads for a while: who
//! [joins](Queue::join) waits for an answer or for the role, which passes from each leader to the first that waits.
//! Nobody comes between, so nobody is overtaken by those that came later.

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
    /// In the order of their arrival.
    pub(crate) waiting: VecDeque<Arc<Slot<R, A>>>,
    pub(crate) role: Role<R, A>,
    arrivals: u64,
    /// The number of handles that can still enqueue.
    handles: usize,
    closed: bool,
    /// The leader's waker, while it waits.
    pub(crate) leader: Option<Waker>,
}

/// Who leads.
pub(crate) enum Role<R, A> {
    /// Nobody. Then nobody waits.
    Free,
    /// The first that waited, as soon as it looks.
    Called(Arc<Slot<R, A>>),
    /// Who has the [`Seat`].
    Led,
}

/// When a request came to a queue, among those that came there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Arrival(u64);

/// A request, and the answer to it.
pub(crate) struct Slot<R, A> {
    request: R,
    arrival: Arrival,
    state: Mutex<Answering<A>>,
}

struct Answering<A> {
    answer: Option<Result<A, Left>>,
    /// Whether it is to lead, and has not looked.
    called: bool,
    waker: Option<Waker>,
}

/// What one that joined a queue was waiting for.
pub enum Turn<R, A> {
    /// It leads. Its request still waits, as the first unless older ones have come back.
    Lead(Seat<R, A>),
    /// Its request was answered, or dropped.
    Answer(Result<A, Left>),
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
        let (waiting, role) = (VecDeque::new(), Role::Free);
        let state = State { waiting, role, arrivals: 0, handles: 1, closed: false, leader: None };
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

    /// The arrival of a request, which keeps its place among those that come later.
    pub fn arrive(&self) -> Arrival {
        self.locked().arrive()
    }

    /// Puts a request at the end, for the leader to answer.
    pub fn enqueue(self: &Arc<Self>, request: R) -> Result<Ticket<R, A>, NotQueued> {
        self.put(request, None)
    }

    /// Puts a request in its place by arrival. Its writer is to wait for its [turn](Ticket::turn) to lead, unless a
    /// leader answers it first; if nobody leads, it is its turn.
    pub fn join(self: &Arc<Self>, request: R, arrival: Arrival) -> Result<Ticket<R, A>, NotQueued> {
        self.put(request, Some(arrival))
    }

    fn put(self: &Arc<Self>, request: R, joins: Option<Arrival>) -> Result<Ticket<R, A>, NotQueued> {
        let (slot, leader) = {
            let mut state = self.locked();
            let is_free = matches!(state.role, Role::Free);
            if state.closed {
                return Err(NotQueued::Closed);
            }
            if is_free && joins.is_none() {
                return Err(NotQueued::NoLeader);
            }
            if state.waiting.len() >= self.most_waiting {
                return Err(NotQueued::Full(state.waiting.len()));
            }
            let arrival = joins.unwrap_or_else(|| state.arrive());
            let slot = Slot::new(request, arrival, is_free);
            let later = state.waiting.iter().rev().take_while(|other| other.arrival > arrival).count();
            let place = state.waiting.len() - later;
            state.waiting.insert(place, Arc::clone(&slot));
            if is_free {
                state.role = Role::Called(Arc::clone(&slot));
            }
            (slot, state.leader.take())
        };
        wake(leader);
        Ok(Ticket { queue: Some(Arc::clone(self)), slot })
    }

    /// Makes the caller the leader, if nobody leads or is called to.
    pub fn seat(self: &Arc<Self>) -> Option<Seat<R, A>> {
        let mut state = self.locked();
        if !matches!(state.role, Role::Free) {
            return None;
        }
        state.role = Role::Led;
        Some(self.led())
    }

    /// Whether nobody leads or is called to.
    pub fn is_free(&self) -> bool {
        matches!(self.locked().role, Role::Free)
    }

    fn led(self: &Arc<Self>) -> Seat<R, A> {
        Seat { queue: Arc::clone(self), handed_over: false }
    }

    /// The role of this one, if it is called.
    fn claim(self: &Arc<Self>, slot: &Arc<Slot<R, A>>) -> Option<Seat<R, A>> {
        let mut state = self.locked();
        if !state.calls(slot) {
            return None;
        }
        state.role = Role::Led;
        Some(self.led())
    }

    /// Takes the request of this one out. If it was called, the next is.
    fn withdraw(&self, slot: &Arc<Slot<R, A>>) {
        let (withdrawn, next) = {
            let mut state = self.locked();
            let place = state.waiting.iter().position(|other| Arc::ptr_eq(other, slot));
            let withdrawn = place.and_then(|place| state.waiting.remove(place));
            let next = if state.calls(slot) { state.call_next() } else { None };
            (withdrawn, next)
        };
        // Outside of the lock: it may drop what the caller made.
        drop(withdrawn);
        if let Some(next) = next {
            next.call();
        }
    }
}

impl<R, A> State<R, A> {
    fn arrive(&mut self) -> Arrival {
        self.arrivals += 1;
        Arrival(self.arrivals)
    }

    fn calls(&self, slot: &Arc<Slot<R, A>>) -> bool {
        matches!(&self.role, Role::Called(called) if Arc::ptr_eq(called, slot))
    }

    /// Passes the role to the first that waits, which must then be [told](Slot::call) so.
    fn call_next(&mut self) -> Option<Arc<Slot<R, A>>> {
        let next = self.waiting.front().cloned();
        self.role = next.clone().map_or(Role::Free, Role::Called);
        next
    }
}

impl<R, A> Slot<R, A> {
    pub(crate) fn new(request: R, arrival: Arrival, called: bool) -> Arc<Self> {
        Arc::new(Self { request, arrival, state: Mutex::new(Answering { answer: None, called, waker: None }) })
    }

    pub(crate) fn call(&self) {
        let waker = {
            let mut state = locked(&self.state);
            state.called = true;
            state.waker.take()
        };
        wake(waker);
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
    let slot = Slot::new(request, Arrival(0), false);
    (Taken { slot: Some(Arc::clone(&slot)), sent: false }, Ticket { queue: None, slot })
}

/// The future of an answer. Dropping it withdraws the request if the leader has not taken it. A request that was taken
/// is still committed, and its answer is discarded.
pub struct Ticket<R, A> {
    /// The queue in which it may be waiting.
    pub(crate) queue: Option<Arc<Queue<R, A>>>,
    pub(crate) slot: Arc<Slot<R, A>>,
}

impl<R, A> Ticket<R, A> {
    /// Waits for the turn to lead, or for the answer. After it has led, it waits on.
    pub async fn turn(&mut self) -> Turn<R, A> {
        std::future::poll_fn(|context| self.poll_turn(context)).await
    }

    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<Turn<R, A>> {
        let (answer, called) = {
            let mut state = locked(&self.slot.state);
            if state.answer.is_none() {
                leave(&mut state.waker, context.waker());
            }
            (state.answer.take(), std::mem::take(&mut state.called))
        };
        if let Some(answer) = answer {
            // It is not in the queue any more.
            self.queue = None;
            return Poll::Ready(Turn::Answer(answer));
        }
        let queue = self.queue.as_ref().filter(|_| called);
        queue.and_then(|queue| queue.claim(&self.slot)).map_or(Poll::Pending, |seat| Poll::Ready(Turn::Lead(seat)))
    }
}

impl<R, A> Future for Ticket<R, A> {
    type Output = Result<A, Left>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.poll_turn(context).map(|turn| match turn {
            Turn::Answer(answer) => answer,
            // It waits only for an answer: the next leads.
            Turn::Lead(seat) => {
                if let Some(queue) = self.queue.take() {
                    queue.withdraw(&self.slot);
                }
                seat.hand_over();
                Err(Left::NotSent)
            }
        })
    }
}

impl<R, A> Drop for Ticket<R, A> {
    fn drop(&mut self) {
        if let Some(queue) = self.queue.take() {
            queue.withdraw(&self.slot);
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
    pub(crate) handed_over: bool,
}

impl<R, A> Seat<R, A> {
    /// Takes up to this many requests, in the order in which they came.
    pub fn take(&self, most: usize) -> Vec<Taken<R, A>> {
        let mut state = self.queue.locked();
        let most = most.min(state.waiting.len());
        state.waiting.drain(..most).map(|slot| Taken { slot: Some(slot), sent: false }).collect()
    }

    /// The same, of those for which this is true. The others wait on, each to lead in its turn.
    pub fn take_if(&self, most: usize, is_taken: impl Fn(&R) -> bool) -> Vec<Taken<R, A>> {
        let mut taken = Vec::new();
        self.queue.locked().waiting.retain(|slot| {
            let takes = taken.len() < most && is_taken(&slot.request);
            if takes {
                taken.push(Taken { slot: Some(Arc::clone(slot)), sent: false });
            }
            !takes
        });
        taken
    }

    /// Passes the role to the first that waits; if that goes away, to the next. All stay in the queue, so that who
    /// leads next takes them together.
    pub fn hand_over(mut self) {
        let next = {
            let mut state = self.queue.locked();
            state.leader = None;
            state.call_next()
        };
        self.handed_over = true;
        if let Some(next) = next {
            next.call();
        }
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
            (state.role, state.leader) = (Role::Free, None);
            std::mem::take(&mut state.waiting)
        };
        for slot in waiting {
            slot.tell(Err(Left::NotSent));
        }
    }
}
