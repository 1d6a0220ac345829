//! How do many tasks hand their requests to one task, the leader, that answers them?
//!
//! A task [enqueues](Queue::enqueue) a request and waits for its [`Ticket`]. The one that has the [`Seat`] takes requests and answers them.
//! The queue sends nothing and reads no clock. Whatever becomes of the leader, no task waits for an answer that cannot come.

mod all;
mod queue;

pub use all::{lead_all, lead_at_once};
pub use queue::{Left, NotQueued, Queue, Seat, Taken, Ticket, alone};

/// The locks that the queue is made of: `tests/threads.rs` builds it with others, which try every order of threads.
mod sync {
    pub(super) use std::sync::{Mutex, MutexGuard};
}
