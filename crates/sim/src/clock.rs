//! What does a process see of the simulated world? Its clock, its random numbers, its stores.
//!
//! A process's clock may run ahead of the world's. Operations that only the process itself can see (its waits, the
//! reads and writes of objects that no other process can name) only advance its clock. A request to shared state
//! becomes an event at the time the process's clock shows, and the process waits until the world's time reaches it. So
//! requests of different processes take effect in the order of virtual time, and other processes can observe nothing
//! else. (A process has one clock, so it must have one request to shared state in flight at a time; one that has
//! several needs `Mode::EveryOperation`.)

use std::cell::Cell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use glidepath_env::{Cell as RowCell, Env, Key, Metadata, Purpose, Table};
use glidepath_model::{Instant, Span};

use crate::agenda::Event;
use crate::luck::Stream;
use crate::machine::{EPOCH_MS, Machine};
use crate::simulation::{Mode, World};
use crate::store::{SimStore, StoreId};

/// A wait this long is an event even where it need not be: thousands of processes that wait for minutes should do so
/// between two steps, where they hold little state.
const LONG: Span = Span::from_secs(5);

/// One process: a client with one thread of execution.
pub(crate) struct Process {
    /// Counted from 1 in the order of arrival.
    pub(crate) id: u32,
    /// Where the executor keeps its future.
    pub(crate) task: u32,
    pub(crate) clock: Cell<Instant>,
    /// The machine it runs on, in worlds with clock faults.
    pub(crate) machine: Option<Rc<Machine>>,
    /// Operations begun. The count is the same in both modes, so it can break ties.
    pub(crate) operations: Cell<u32>,
    luck: [Cell<Stream>; Purpose::COUNT],
}

impl Process {
    pub(crate) fn new(seed: u64, id: u32, task: u32, now: Instant, machine: Option<Rc<Machine>>) -> Self {
        let luck = std::array::from_fn(|purpose| Cell::new(Stream::keyed(seed, u64::from(id), purpose as u64)));
        Self { id, task, clock: Cell::new(now), machine, operations: Cell::new(0), luck }
    }

    pub(crate) fn count_operation(&self) {
        self.operations.set(self.operations.get() + 1);
    }

    /// Until when its machine sleeps, if it does at this moment.
    pub(crate) fn asleep_until(&self, at: Instant) -> Option<Instant> {
        self.machine.as_ref().map(|machine| machine.awake_from()).filter(|awake| *awake > at)
    }

    /// Moves the clock on; it never goes back.
    #[inline]
    pub(crate) fn reach(&self, at: Instant) {
        self.clock.set(self.clock.get().max(at));
    }

    pub(crate) fn with_luck<R>(&self, purpose: Purpose, use_it: impl FnOnce(&mut Stream) -> R) -> R {
        let mut stream = self.luck[purpose as usize].get();
        let result = use_it(&mut stream);
        self.luck[purpose as usize].set(stream);
        result
    }
}

/// What a simulated process sees of the world.
#[derive(Clone)]
pub struct SimEnv {
    pub(crate) world: Rc<World>,
    pub(crate) process: Rc<Process>,
}

impl SimEnv {
    pub(crate) fn new(world: Rc<World>, process: Rc<Process>) -> Self {
        Self { world, process }
    }

    /// The process's connection to a store.
    #[must_use]
    #[inline]
    pub fn store(&self, store: StoreId) -> SimStore {
        SimStore::connect(self.clone(), store)
    }

    /// What a store holds now under a key, without a request: for tools that observe, not for protocols. It is the
    /// state at the process's own time only in `Mode::EveryOperation`; in the other mode the process's clock may be
    /// ahead.
    #[must_use]
    pub fn peek(&self, store: StoreId, key: &Key) -> Option<Metadata> {
        self.world.stores.borrow()[store.0].head(key).ok()
    }

    /// The same of a cell, as [`Simulation::peek_cell`](crate::Simulation::peek_cell) shows it.
    #[must_use]
    pub fn peek_cell(&self, store: StoreId, table: &Table, cell: &RowCell) -> Option<Bytes> {
        self.world.stores.borrow()[store.0].look_at_tables().peek(table, cell)
    }

    /// The process's number, counted from 1 in the order of arrival.
    #[must_use]
    pub fn process(&self) -> u32 {
        self.process.id
    }

    /// The world's time, which no fault touches: for tools that observe, not for protocols.
    #[must_use]
    pub fn world_now(&self) -> Instant {
        self.process.clock.get()
    }

    /// Ends the run at `at`. The earliest end that any process asked for counts, or the horizon if that is earlier.
    pub fn end_run_after(&self, at: Instant) {
        self.world.end.set(self.world.end.get().min(at));
    }

    /// Moves the process's clock to `at` for an operation that no other process can see.
    pub(crate) async fn pass_until(&self, at: Instant) {
        self.process.count_operation();
        if self.process.clock.get() >= at {
            return;
        }
        let short = at.since(self.process.clock.get()) < LONG;
        if self.world.mode == Mode::LocalClocks && short {
            return self.process.clock.set(at);
        }
        self.world.schedule(at, &self.process, Event::Wake { task: self.process.task });
        poll_fn(|_| if self.process.clock.get() >= at { Poll::Ready(()) } else { Poll::Pending }).await;
    }
}

impl Env for SimEnv {
    type Objects = SimStore;

    #[inline]
    fn now(&self) -> Instant {
        let clock = self.process.clock.get();
        self.process.machine.as_ref().map_or(clock, |machine| machine.now(clock))
    }

    #[inline]
    fn unix_ms(&self) -> u64 {
        let clock = self.process.clock.get();
        let right = || EPOCH_MS + clock.as_nanos() / 1_000_000;
        self.process.machine.as_ref().map_or_else(right, |machine| machine.unix_ms(clock))
    }

    async fn sleep_until(&self, at: Instant) {
        let Some(machine) = &self.process.machine else { return self.pass_until(at).await };
        loop {
            let left = at.since(self.now());
            if left == Span::ZERO {
                return;
            }
            self.pass_until(self.process.clock.get() + machine.really(left)).await;
        }
    }

    #[inline]
    fn draw(&self, purpose: Purpose) -> u64 {
        self.process.with_luck(purpose, Stream::draw)
    }
}
