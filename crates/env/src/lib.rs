//! What can a commit protocol see of the world? Its clock, its random numbers, its stores: the seam between the protocols and the
//! two worlds in which they run, simulated and live.
//!
//! A protocol is an `async fn` over one generic parameter, `E: Env`. It never spawns and never reads another clock, and it
//! receives every failure of a store as a value. This crate knows no store and no protocol.
//!
//! Start with [`Env`], then [`ObjectStore`] and the three failures of a guarded write, [`PutError`]. [`KvStore`] is the same for rows
//! of columns.

#[cfg(feature = "conformance")]
pub mod conformance;
mod files;
mod kv;
mod luck;
mod object;
mod retry;
mod watch;

pub use files::{Access, Files};
pub use kv::{
    Cell, Columns, ConditionError, KvCapabilities, KvReadError, KvStore, Rank, ReadLevel, Rows, Slice, Table,
    WriteError, check_columns,
};
pub use luck::{DrawRng, unit_interval};
pub use object::{
    Appended, Body, BulkError, BulkStore, Capabilities, Cause, DeleteError, Denial, Guard, Key, Listed, Metadata,
    Object, ObjectStore, Page, Payload, PutError, ReadError, Tag, Transfer,
};
pub use retry::{Backoff, Exponential, JitterRange};
pub use watch::{Readings, Watch};

use std::future::Future;

use glidepath_model::Instant;

/// What one process can see: its clock, its random numbers, and the kind of store it talks to.
///
/// Traits make no `Send` promise: the simulated world lives in one thread. Live futures are `Send` by inference where
/// concrete types are named.
pub trait Env {
    /// The object stores of this world. The constructor of a protocol gets those that the protocol uses.
    type Objects: ObjectStore;

    /// The process's own clock, the same for all that runs in the process. It never goes back, and goes on while the machine
    /// sleeps; says nothing about another process's clock. Live, it is a [`Watch`].
    fn now(&self) -> Instant;

    /// The time of day as this machine has it, in milliseconds since 1970. It may be wrong, and may jump either way: good
    /// for grace periods far longer than clocks differ, never for order.
    fn unix_ms(&self) -> u64;

    /// Waits until the process's clock shows `at`; returns at once if it does already. Dropping the future has no
    /// effect on anything.
    fn sleep_until(&self, at: Instant) -> impl Future<Output = ()>;

    /// 64 uniformly random bits. Draws for one purpose are a stream of their own: more draws for one do not change
    /// what another gets.
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
    /// How many purposes there are.
    pub const COUNT: usize = 7;
}
