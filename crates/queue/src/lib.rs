//! How do many tasks hand their requests to one task, the leader, that answers them?
//!
//! A task [enqueues](Queue::enqueue) a request and waits for its [`Ticket`]. The one that has the [`Seat`] takes
//! requests and answers them. Or tasks lead in turn: each [joins](Queue::join), and leads when nobody that came before
//! it waits. [`Several`] leads in several queues. The queue sends nothing and reads no clock. Whatever becomes of the
//! leader, no task waits for an answer that cannot come.

mod all;
mod queue;

pub use all::Several;
pub use queue::{Arrival, Left, NotQueued, Queue, Seat, Taken, Ticket, Turn, alone};

/// The locks that the queue is made of: `tests/threads.rs` builds it with others, which try every order of threads.
mod sync {
    pub(super) use std::sync::{Mutex, MutexGuard};
}
