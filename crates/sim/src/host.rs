//! How does one process ask another? A server process has a [`Host`], where others leave requests; the answer to each
//! comes to the [`Slot`] that was left with it. What is lost or late on the way is decided by those who send.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use glidepath_model::Instant;

/// Where a process waits for an answer.
pub struct Slot<A> {
    answer: RefCell<Option<A>>,
    waker: RefCell<Option<Waker>>,
}

impl<A> Default for Slot<A> {
    fn default() -> Self {
        Self { answer: RefCell::new(None), waker: RefCell::new(None) }
    }
}

impl<A> Slot<A> {
    /// Answers. The first answer counts.
    pub fn put(&self, answer: A) {
        self.answer.borrow_mut().get_or_insert(answer);
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// The answer, once there is one. The caller is woken by it.
    pub fn poll(&self, context: &Context<'_>) -> Poll<A> {
        match self.answer.borrow_mut().take() {
            Some(answer) => Poll::Ready(answer),
            None => {
                *self.waker.borrow_mut() = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }

    /// Waits for the answer.
    pub async fn answered(&self) -> A {
        poll_fn(|context| self.poll(context)).await
    }
}

/// A request on its way.
pub struct Envelope<Q, A> {
    /// What is asked.
    pub ask: Q,
    /// When it reaches the server, by the clock without faults.
    pub due: Instant,
    /// Where its answer goes; `None` if the answer gets lost.
    pub slot: Option<Rc<Slot<A>>>,
}

/// The network address of a server process, which survives the server.
pub struct Host<Q, A> {
    inbox: RefCell<Vec<Envelope<Q, A>>>,
    waker: RefCell<Option<Waker>>,
    up: Cell<bool>,
}

impl<Q, A> Default for Host<Q, A> {
    fn default() -> Self {
        Self { inbox: RefCell::new(Vec::new()), waker: RefCell::new(None), up: Cell::new(false) }
    }
}

impl<Q, A> Host<Q, A> {
    /// A new server answers here.
    pub fn rise(&self) {
        self.up.set(true);
    }

    /// The server is gone, and what was sent to it is lost.
    pub fn fall(&self) {
        self.up.set(false);
        self.inbox.borrow_mut().clear();
    }

    /// Lets the server go on.
    pub fn wake(&self) {
        if let Some(waker) = self.waker.borrow_mut().take() {
            waker.wake();
        }
    }

    /// Leaves a request; it is lost if no server answers here.
    pub fn deliver(&self, envelope: Envelope<Q, A>) {
        if self.up.get() {
            self.inbox.borrow_mut().push(envelope);
            self.wake();
        }
    }

    /// What has been sent here since the last call. The caller is woken when there is more.
    pub fn take(&self, context: &Context<'_>) -> Vec<Envelope<Q, A>> {
        *self.waker.borrow_mut() = Some(context.waker().clone());
        std::mem::take(&mut *self.inbox.borrow_mut())
    }
}
