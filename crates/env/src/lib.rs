//! What can a protocol see of the world? A clock, random numbers, object stores, key-value stores. Protocols run
//! unchanged in two worlds, simulated and live.
//!
//! A protocol is an `async fn` over one generic parameter, `E: Env`. It never spawns and never reads another clock, and
//! it gets every failure of a store as a value. This crate knows no store and no protocol.
//!
//! Start with [`Env`], then [`ObjectStore`] and the three failures of a guarded write, [`PutError`]. [`KvStore`] is the
//! same for rows of columns.

#[cfg(feature = "conformance")]
pub mod conformance;
mod files;
mod kv;
mod luck;
#[cfg(not(feature = "mutants"))]
#[allow(unreachable_pub, reason = "it can be reached with the feature")]
mod mutant;
#[cfg(feature = "mutants")]
pub mod mutant;
mod object;
mod retry;
pub mod rows;
pub mod settling;
mod together;
mod watch;

pub use files::{Access, Files};
pub use kv::{
    Cell, Columns, ConditionError, KvCapabilities, KvReadError, KvStore, Rank, ReadLevel, Rows, Slice, Table,
    WriteError, check_columns,
};
pub use luck::{DrawRng, unit_interval};
pub use object::{
    Appended, Body, BulkError, BulkStore, Busy, Capabilities, Cause, DeleteError, Denial, Guard, Key, ListPage, Listed,
    Metadata, Object, ObjectStore, Payload, PutError, ReadError, Tag, Transfer,
};
pub use retry::{Backoff, Exponential, JitterRange};
pub use rows::RowObjects;
pub use together::{together, together_until};
pub use watch::{Readings, Watch};

use std::future::Future;

use glidepath_model::Instant;

/// What one process can see: its clock, its random numbers, and the kind of store it talks to.
///
/// The traits do not require `Send`: the simulated world has one thread. Live futures are `Send` by inference where
/// concrete types are named.
pub trait Env {
    /// The object stores of this world. The constructor of a protocol gets those that the protocol uses.
    type Objects: ObjectStore;

    /// The process's own clock, shared by everything in the process. It never goes back, continues while the machine
    /// sleeps, and says nothing about another process's clock. Live, it is a [`Watch`].
    fn now(&self) -> Instant;

    /// The time of day on this machine, in milliseconds since 1970. It may be wrong and may jump either way: use it for
    /// grace periods far longer than clocks differ, never for order.
    fn unix_ms(&self) -> u64;

    /// Waits until the process's clock shows `at`; returns at once if it already does. Dropping the future has no
    /// effect.
    fn sleep_until(&self, at: Instant) -> impl Future<Output = ()>;

    /// Lets other tasks of the thread run: awaited between the pieces of work that take milliseconds of processor time.
    /// Takes no time where processor time is not simulated.
    fn step_aside(&self) -> impl Future<Output = ()> {
        std::future::ready(())
    }

    /// 64 uniformly random bits. Each purpose has its own stream: more draws for one do not change those for another.
    fn draw(&self, purpose: Purpose) -> u64;
}

/// What a random draw is for. In a simulation the stream of draws is keyed by (seed, process, purpose).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Purpose {
    /// Ids of commits and of metadata objects.
    Names,
    /// Which kind of transaction this is, and how long it works before it commits.
    Transaction,
    /// Which tables and partitions it writes.
    Tables,
    /// Whether a conflict turns out to be real.
    Validation,
    /// Jitter of waits between attempts.
    Backoff,
    /// Latencies of the stores.
    Store,
    /// Faults of the stores.
    Fault,
}

impl Purpose {
    /// The number of purposes.
    pub const COUNT: usize = 7;
}
